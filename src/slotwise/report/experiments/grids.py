"""Experiments that compare all policies over the size of the workload, of the cluster or of the horizon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotwise.report.experiments._base import (
    Experiment,
    Found,
    Scale,
    digest_of,
    error,
    first_and_last,
    mean,
    runs_of,
    seeds_of,
    sure,
)
from slotwise.report.figures import Line, Panel
from slotwise.sim import tables
from slotwise.sim.compare import Comparison, Conditions
from slotwise.words import counted
from slotwise.workloads._base import Workload
from slotwise.workloads.synthetic import google, paper

__all__ = ["EXPERIMENTS"]

BOUND = "bound"
OWN = "pdors"

Row = dict[str, Any]
Draw = Callable[[int, int, int, int], Workload]


@dataclass(frozen=True, slots=True)
class _Point:
    """One size; ``x`` is where it stands in the figure, ``panel`` in which part of it."""

    panel: str
    x: float
    jobs: int
    machines: int
    horizon: int


def _count(points: Callable[[bool], Sequence[_Point]], scale: Scale) -> int:
    return len(points(scale.quick)) * len(seeds_of(scale)) * (len(scale.policies) + 1)


def _compare(points: Sequence[_Point], draw: Draw, scale: Scale) -> tuple[list[Row], list[str]]:
    """Return a row for each policy at each point, means over seeds, and the digests of all workloads.

    ``ahead`` is by how much pdors earns more than the policy, mean over seeds, and ``ahead_error`` the standard error
    of these differences of pairs.
    """
    rows: list[Row] = []
    digests: list[str] = []
    for point in points:
        source = partial(draw, point.jobs, point.machines, point.horizon)
        made, bounds = runs_of(source, (*scale.policies, None), Conditions(), scale)
        digests += [one.digest for one in bounds]
        earned = {policy: [one.run.total_utility for one in runs] for policy, runs in made.items()}
        at = {"panel": point.panel, "x": point.x, "jobs": point.jobs, "machines": point.machines}
        outcomes = [one for policy in scale.policies for one in made[policy]]
        for row in Comparison(outcomes, bounds).summary().to_dicts():
            ahead = [own - other for own, other in zip(earned.get(OWN, []), earned[row["policy"]], strict=False)]
            # How long it took differs from run to run.
            kept = [name for name in row if name not in at and "wall_" not in name and "decision_" not in name]
            paired = {"ahead": mean(ahead) if ahead else None, "ahead_error": error(ahead)}
            rows.append(at | {name: row[name] for name in kept} | paired)
    return rows, digests


def _utility_panels(rows: Sequence[Row], x_label: str, policies: Sequence[str]) -> list[Panel]:
    panels = []
    for title in dict.fromkeys(row["panel"] for row in rows):
        here = [row for row in rows if row["panel"] == title]
        lines = []
        for policy in policies:
            of_policy = [row for row in here if row["policy"] == policy]
            errors = [_error(row) for row in of_policy]
            lines.append(
                Line(policy, [row["x"] for row in of_policy], [row["total_utility"] for row in of_policy], errors)
            )
        first = [row for row in here if row["policy"] == policies[0]]
        lines.append(Line(BOUND, [row["x"] for row in first], [row["upper_bound"] for row in first]))
        panels.append(Panel(title, x_label, "total utility", lines))
    return panels


def _utility(points: Callable[[bool], Sequence[_Point]], draw: Draw, x_label: str, rises: bool, scale: Scale) -> Found:
    rows, digests = _compare(points(scale.quick), draw, scale)
    panels = _utility_panels(rows, x_label, scale.policies)
    return Found(rows, panels, *judge(rows, x_label, rises=rises), digest_of(digests))


def judge(rows: Sequence[Row], x_label: str, *, rises: bool) -> tuple[str, str]:
    """Return what was measured, in words, and whether pdors earns the most everywhere.

    A difference counts where it is more than two standard errors of the differences under equal seeds. Points where
    fifo earns 95 % of pdors or more do not count. With ``rises`` the claim is also that it earns more from point to
    point of a panel, beyond a standard error of either.
    """
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    others = [policy for policy in policies if policy != OWN]
    if OWN not in policies or not others:
        return "Only with pdors and another policy is there more to say.", "-"
    at = {(row["panel"], row["x"], row["policy"]): row for row in rows}
    ahead, behind, open_, empty, falls = [], [], [], [], []
    leads, shares = [], []
    before: tuple[str, float] | None = None
    for panel, x in dict.fromkeys((row["panel"], row["x"]) for row in rows):
        own = at[panel, x, OWN]
        earned = own["total_utility"]
        rival = max((at[panel, x, name] for name in others), key=lambda row: row["total_utility"])
        where = f"{panel}, {x:g} {x_label}"
        if own["fraction_of_bound"] is not None:
            shares.append(own["fraction_of_bound"])
        if rises and before is not None and before[0] == panel:
            last = at[panel, before[1], OWN]
            if earned < last["total_utility"] - max(_error(own) or 0.0, _error(last) or 0.0):
                falls.append(f"{where} ({earned:.4g} after {last['total_utility']:.4g})")
        before = panel, x
        if (panel, x, "fifo") in at and at[panel, x, "fifo"]["total_utility"] >= tables.EMPTY_RUN_SHARE * earned:
            empty.append(where)
            continue
        if rival["total_utility"] > 0:
            leads.append(earned / rival["total_utility"])
        # Of all rivals, not of the best alone: which is best may be chance.
        signs = [sure(at[panel, x, name]["ahead"], at[panel, x, name]["ahead_error"]) for name in others]
        if min(signs) < 0:
            behind.append(f"{where} ({rival['policy']} earns {rival['total_utility']:.4g}, pdors {earned:.4g})")
        elif min(signs) > 0:
            ahead.append(where)
        else:
            open_.append(f"{where} ({rival['policy']} {rival['total_utility']:.4g}, pdors {earned:.4g})")
    count = len(ahead) + len(behind) + len(open_)
    measured = (
        f"Of {', '.join(policies)}: at {len(ahead)} of {counted(count, 'point')} pdors earns more than every other "
        "policy by more than two standard errors of the differences"
    )
    if leads:
        measured += f"; it earns {min(leads):.2f} to {max(leads):.2f} times the best other policy"
    if shares:
        measured += f", and {first_and_last(min(shares), max(shares))} of the bound"
    measured += "." + _left(rows)
    for text, listed in (("Within the noise", open_), ("Behind", behind), ("Falls from point to point", falls)):
        if listed:
            measured += f" {text}: {'; '.join(listed)}."
    if empty:
        measured += f" Points that prove nothing, since fifo earns 95 % of pdors or more: {'; '.join(empty)}."
    if not count:
        return measured, "-"
    parts = [f"ahead of all at {len(ahead)} of {counted(count, 'point')}"]
    if behind:
        parts.append(f"behind at {len(behind)}")
    if open_:
        parts.append(f"within the noise at {len(open_)}")
    if falls:
        parts.append("it does not always rise")
    if len(ahead) == count and not falls:
        return measured, "agrees"
    if not ahead and behind:
        return measured, f"does not agree: {', '.join(parts[1:])}"
    return measured, f"{'agrees in part' if ahead else 'is undecided'}: {', '.join(parts)}"


def _error(row: Row) -> float | None:
    """Return the standard error of a mean utility, None of a single run."""
    return None if row["total_utility_std"] is None else float(row["total_utility_std"] / math.sqrt(row["runs"]))


def _left(rows: Sequence[Row]) -> str:
    """Say who leaves jobs unfinished."""
    most: dict[str, float] = {}
    for row in rows:
        most[row["policy"]] = max(most.get(row["policy"], 0.0), row["unfinished"])
    named = ", ".join(f"{name} {count:.3g}" for name, count in most.items() if count > 0)
    return f" Jobs that entered and did not finish, at the worst point in the mean run: {named or 'none'}."


def _by_jobs(quick: bool) -> list[_Point]:
    xs = (20, 60, 100) if quick else range(10, 101, 10)
    return [
        _Point(f"{m} machines, 20 slots", jobs, jobs, m, 20) for m in ((30,) if quick else (30, 100)) for jobs in xs
    ]


def _by_machines(quick: bool) -> list[_Point]:
    return [_Point("50 jobs, 20 slots", m, 50, m, 20) for m in ((10, 40, 100) if quick else range(10, 101, 10))]


def _by_horizon(quick: bool) -> list[_Point]:
    return [_Point("50 jobs, 30 machines", t, 50, 30, t) for t in ((10, 40) if quick else range(10, 101, 10))]


def _by_jobs_google(quick: bool) -> list[_Point]:
    return [_Point("30 machines, 20 slots", n, n, 30, 20) for n in ((20, 60, 100) if quick else range(10, 101, 10))]


def _training(quick: bool) -> list[_Point]:
    return [_Point("50 jobs, 30 machines", 40 if quick else 100, 50, 30, 40 if quick else 100)]


def _training_time(scale: Scale) -> Found:
    rows, digests = _compare(_training(scale.quick), paper, scale)
    horizon = rows[0]["horizon"]
    names = [row["policy"] for row in rows]
    counted = [row["training_slots_median"] for row in rows]
    alone = [row["finished_slots_median"] for row in rows]
    slots = "median training time, slots"
    left = [row["unfinished"] for row in rows]
    panels = [
        Panel(f"unfinished jobs count as {horizon:g}", "", slots, [Line("median", names, counted)], bars=True),
        Panel("finished jobs alone", "", slots, [Line("median", names, alone)], bars=True),
        Panel("entered and did not finish", "", "jobs a run", [Line("unfinished", names, left)], bars=True),
    ]
    offered = [row["offered_slots_median"] for row in rows]
    text = ", ".join(
        f"{name} {_slots(a)} ({_slots(b)} of finished jobs alone; {_slots(c)} if jobs turned away count as {horizon:g})"
        for name, a, b, c in zip(names, counted, alone, offered, strict=True)
    )
    measured = f"Median slots from arrival to completion, mean over seeds: {text}.{_left(rows)}"
    return Found(rows, panels, measured, judge_training(rows), digest_of(digests))


def judge_training(rows: Sequence[Row]) -> str:
    """Say whether jobs of pdors take the shortest, as the paper counts and with jobs counted that it turns away."""
    verdicts = []
    for name in ("training_slots_median", "offered_slots_median"):
        medians = {row["policy"]: row[name] for row in rows if row[name] is not None}
        others = [value for policy, value in medians.items() if policy != OWN]
        if OWN not in medians or not others:
            return "-"
        verdicts.append(medians[OWN] < min(others))
    if all(verdicts):
        return "agrees"
    if verdicts[0]:
        return "agrees in part: of jobs that are let in; not where jobs that are turned away count as the horizon"
    shorter = [row["policy"] for row in rows if row["policy"] != OWN and _shorter(row, rows)]
    return f"does not agree: shorter, if only by a little, with {', '.join(shorter)}"


def _shorter(row: Row, rows: Sequence[Row]) -> bool:
    own = next(one["training_slots_median"] for one in rows if one["policy"] == OWN)
    return row["training_slots_median"] is not None and row["training_slots_median"] <= own


def _slots(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _experiment(
    name: str,
    title: str,
    claim: str,
    points: Callable[[bool], Sequence[_Point]],
    draw: Draw,
    x_label: str,
    rises: bool = False,
) -> Experiment:
    return Experiment(
        name, title, claim, partial(_count, points), partial(_utility, points, draw, x_label, rises), True
    )


_MOST = "pdors earns more utility than every other policy at every size"

EXPERIMENTS = (
    _experiment(
        "utility-vs-jobs",
        "Total utility over the number of jobs",
        f"{_MOST}, and the more jobs there are, the more it earns.",
        _by_jobs,
        paper,
        "jobs",
        rises=True,
    ),
    _experiment(
        "utility-vs-machines",
        "Total utility over the number of machines",
        f"{_MOST}, and the more machines there are, the more it earns.",
        _by_machines,
        paper,
        "machines",
        rises=True,
    ),
    _experiment(
        "utility-vs-horizon",
        "Total utility over the number of slots",
        f"{_MOST} of the horizon.",
        _by_horizon,
        paper,
        "slots",
    ),
    Experiment(
        "training-time",
        "Median training time",
        "Jobs of pdors train for a shorter time than those of any other policy; a job that does not finish counts as "
        "long as the horizon.",
        partial(_count, _training),
        _training_time,
        compares=True,
    ),
    _experiment(
        "google",
        "Total utility with the arrivals and urgencies of the Google cluster trace",
        f"{_MOST} of the workload.",
        _by_jobs_google,
        google,
        "jobs",
    ),
)
