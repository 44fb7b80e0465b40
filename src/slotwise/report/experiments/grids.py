"""Experiments that compare all policies over the size of the workload, of the cluster or of the horizon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from slotwise.policies._base import Policy
from slotwise.report.experiments._base import Experiment, Found, Scale, digest_of, first_and_last, percent
from slotwise.report.plots import Line, Panel
from slotwise.sim import tables
from slotwise.sim.compare import Bounded, Comparison, Conditions, Outcome, play
from slotwise.workloads._base import Workload
from slotwise.workloads.synthetic import google, paper

__all__ = ["EXPERIMENTS"]

SEEDS, QUICK_SEEDS = 5, 2
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


def _seeds(scale: Scale) -> range:
    return range(scale.seeds if scale.seeds is not None else QUICK_SEEDS if scale.quick else SEEDS)


def _count(points: Callable[[bool], Sequence[_Point]], scale: Scale) -> int:
    return len(points(scale.quick)) * len(_seeds(scale)) * (len(scale.policies) + 1)


def _compare(points: Sequence[_Point], draw: Draw, scale: Scale) -> tuple[list[Row], list[str]]:
    """Return a row for each policy at each point, means over seeds, and the digests of all workloads."""
    rows: list[Row] = []
    digests: list[str] = []
    for point in points:
        source = partial(draw, point.jobs, point.machines, point.horizon)
        wanted: list[tuple[str | type[Policy] | None, int]] = [
            (policy, seed) for seed in _seeds(scale) for policy in (*scale.policies, None)
        ]
        outcomes: list[Outcome] = []
        bounds: list[Bounded] = []
        for finished in play(source, wanted, Conditions(), processes=scale.processes):
            (outcomes if isinstance(finished, Outcome) else bounds).append(finished)  # type: ignore[arg-type]
            digests.append(finished.digest)
            scale.step()
        rank = {name: at for at, name in enumerate(scale.policies)}
        outcomes.sort(key=lambda outcome: (rank[outcome.policy], outcome.seed))
        at = {"panel": point.panel, "x": point.x, "jobs": point.jobs, "machines": point.machines}
        for row in Comparison(outcomes, bounds).summary().to_dicts():
            # How long it took differs from run to run.
            kept = {name: row[name] for name in row if name not in at and not name.endswith("_seconds")}
            rows.append(at | {name: kept[name] for name in kept if not name.startswith("decision_seconds")})
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

    With ``rises`` the claim is also that it earns more from point to point of a panel; what is within a standard error
    of either point counts as no fall.
    """
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    others = [policy for policy in policies if policy != OWN]
    if OWN not in policies or not others:
        return "Only with pdors and another policy is there more to say.", "-"
    at = {(row["panel"], row["x"], row["policy"]): row for row in rows}
    places = list(dict.fromkeys((row["panel"], row["x"]) for row in rows))
    behind, empty, falls = [], [], []
    leads, shares = [], []
    before: tuple[str, float] | None = None
    for panel, x in places:
        own = at[panel, x, OWN]
        earned = own["total_utility"]
        rival = max(others, key=lambda name: at[panel, x, name]["total_utility"])
        most = at[panel, x, rival]["total_utility"]
        where = f"{panel}, {x:g} {x_label}"
        if own["fraction_of_bound"] is not None:
            shares.append(own["fraction_of_bound"])
        if earned >= most:
            leads.append(earned / most if most > 0 else math.inf)
        else:
            behind.append(f"{where}: {rival} earns {percent(most / earned - 1.0) if earned > 0 else 'all'} more")
        if (panel, x, "fifo") in at and at[panel, x, "fifo"]["total_utility"] >= tables.EMPTY_RUN_SHARE * earned:
            empty.append(where)
        if rises and before is not None and before[0] == panel:
            last = at[panel, before[1], OWN]
            if earned < last["total_utility"] - max(_error(own), _error(last)):
                falls.append(f"{where}: {earned:.4g} after {last['total_utility']:.4g}")
        before = panel, x
    measured = f"Of {', '.join(policies)}: pdors earns the most at {len(leads)} of {len(places)} points"
    if shares:
        measured += f", {first_and_last(min(shares), max(shares))} of the bound"
    finite = [lead for lead in leads if math.isfinite(lead)]
    if finite:
        measured += f"; where it leads, it earns {min(finite):.2f} to {max(finite):.2f} times the best other policy"
    measured += "." + _left(rows)
    if behind:
        measured += f" Behind: {'; '.join(behind)}."
    if falls:
        measured += f" Falls by more than a standard error: {'; '.join(falls)}."
    if empty:
        measured += f" Points that prove nothing, since fifo earns 95 % of pdors or more: {'; '.join(empty)}."
    if not behind and not falls:
        return measured, "agrees"
    if not leads:
        return measured, "does not agree"
    parts = [f"at {len(leads)} of {len(places)} points"] if behind else []
    return measured, f"agrees in part: {', '.join([*parts, *(['it does not always rise'] if falls else [])])}"


def _error(row: Row) -> float:
    """Return the standard error of a mean utility."""
    return float((row["total_utility_std"] or 0.0) / math.sqrt(row["runs"]))


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
    by_name = dict(zip(names, counted, strict=True))
    text = ", ".join(
        f"{name} {_slots(a)} ({_slots(b)} of finished jobs alone)"
        for name, a, b in zip(names, counted, alone, strict=True)
    )
    measured = f"Median slots from arrival to completion, mean over seeds: {text}.{_left(rows)}"
    others = {name: value for name, value in by_name.items() if name != OWN and value is not None}
    if by_name.get(OWN) is None or not others:
        return Found(rows, panels, measured, "-", digest_of(digests))
    shorter = [name for name, value in others.items() if value < by_name[OWN]]
    agrees = "agrees" if not shorter else f"agrees in part: {', '.join(shorter)} has a shorter median"
    if len(shorter) == len(others):
        agrees = "does not agree"
    admits = " pdors counts only jobs that it lets in; the others let every job in, and those wait."
    return Found(rows, panels, measured + admits, agrees, digest_of(digests))


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
    return Experiment(name, title, claim, partial(_count, points), partial(_utility, points, draw, x_label, rises))


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
