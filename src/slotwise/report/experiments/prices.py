"""Experiments on one policy, pdors: how its prices are set, how its relaxation is rounded, what locality is worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from slotwise.model.job import Job
from slotwise.report.experiments._base import (
    Experiment,
    Found,
    Scale,
    digest_of,
    error,
    first_and_last,
    mean,
    percent,
    runs_of,
    seeds_of,
    sure,
)
from slotwise.report.figures import Line, Panel
from slotwise.sim.compare import Conditions
from slotwise.sim.outcomes import Outcome
from slotwise.workloads._base import Workload
from slotwise.workloads.synthetic import paper

__all__ = ["EXPERIMENTS"]

JOBS, MACHINES, HORIZON = 50, 30, 20
OWN = "pdors"
MOST_GAIN_SEEDS = 5
NEAR = 0.1
"""What counts as a gain near 1."""
SCALES = tuple(10.0**power for power in range(-4, 5))
QUICK_SCALES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
GAINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
QUICK_GAINS = (0.5, 0.8, 1.0, 1.2, 1.5)
RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
QUICK_RATIOS = (1.0, 10.0, 100.0)
BETWEEN = 625.0
"""MB/s between machines, the paper's."""

Row = dict[str, Any]


def _drawn(seed: int) -> Workload:
    return paper(JOBS, MACHINES, HORIZON, seed)


def _unfinished(runs: Sequence[Outcome]) -> float:
    """Return the jobs that were let in and did not finish, mean over runs."""
    return mean([sum(r.admitted and r.completed is None for r in one.run.records.values()) for one in runs])


def _utilities(runs: Sequence[Outcome]) -> list[float]:
    return [one.run.total_utility for one in runs]


# Calibration


def _calibrations(scale: Scale) -> list[str]:
    return [*(f"scale={x:g}" for x in (QUICK_SCALES if scale.quick else SCALES)), "literal", "learnt"]


def _count_calibration(scale: Scale) -> int:
    return (len(_calibrations(scale)) + 1) * len(seeds_of(scale))


def _calibration(scale: Scale) -> Found:
    made: dict[str, list[Outcome]] = {}
    for name in _calibrations(scale):
        made[name] = runs_of(_drawn, [OWN], Conditions(prices=name), scale)[0][OWN]
    bounded = runs_of(_drawn, [None], Conditions(), scale)[1]
    bounds = [one.value if one.value is not None else math.nan for one in bounded]
    earned = {name: _utilities(runs) for name, runs in made.items()}
    admitted = {name: [sum(r.admitted for r in one.run.records.values()) for one in made[name]] for name in made}
    digests = [one.digest for one in bounded]
    bound = mean(bounds)
    rows: list[Row] = [
        {
            "prices": name,
            "runs": len(earned[name]),
            "total_utility": mean(earned[name]),
            "standard_error": error(earned[name]),
            "upper_bound": bound,
            "fraction_of_bound": mean(earned[name]) / bound,
            "admitted": mean(admitted[name]),
            "unfinished": _unfinished(made[name]),
        }
        for name in earned
    ]
    scales = [row for row in rows if row["prices"].startswith("scale=")]
    xs = [float(row["prices"].partition("=")[2]) for row in scales]
    ends = [xs[0], xs[-1]]
    lines = [Line("scale=X", xs, [r["total_utility"] for r in scales], [r["standard_error"] for r in scales])]
    by_name = {row["prices"]: row for row in rows}
    lines += [Line(name, ends, [by_name[name]["total_utility"]] * 2) for name in ("literal", "learnt")]
    lines.append(Line("bound", ends, [bound, bound]))
    panels = [Panel(f"{JOBS} jobs, {MACHINES} machines, {HORIZON} slots", "X, cost of an empty machine a slot",
                    "total utility", lines, logarithmic=True)]  # fmt: skip
    best = max(scales, key=lambda row: row["total_utility"])
    worst = min(scales, key=lambda row: row["total_utility"])
    learnt, literal = by_name["learnt"], by_name["literal"]
    measured = (
        f"Learnt prices earn {learnt['total_utility']:.4g} ({percent(learnt['fraction_of_bound'])} of the bound), "
        f"literal ones {literal['total_utility']:.4g}; the best fixed scale ({best['prices']}) "
        f"{best['total_utility']:.4g}, the worst ({worst['prices']}) {worst['total_utility']:.4g}."
    )
    paired = [one - other for one, other in zip(earned["learnt"], earned[best["prices"]], strict=True)]
    measured += f" The best scale is the best of {len(scales)} on these very seeds."
    behind = sure(mean(paired), error(paired)) < 0
    agrees = "agrees" if not behind else "does not agree: learnt prices earn less by more than two standard errors"
    return Found(rows, panels, measured, agrees, digest_of(digests))


# Gain factor


def _gains(scale: Scale) -> tuple[float, ...]:
    return QUICK_GAINS if scale.quick else GAINS


def _fewer(scale: Scale) -> Scale:
    """Return the scale with few seeds: a run with the reference takes seconds."""
    return replace(scale, seeds=min(len(seeds_of(scale)), MOST_GAIN_SEEDS))


def _count_gain(scale: Scale) -> int:
    return (len(_gains(scale)) + 1) * len(seeds_of(_fewer(scale)))


def _gain_factor(scale: Scale) -> Found:
    rows: list[Row] = []
    digests: list[str] = []
    for gain in (None, *_gains(scale)):
        conditions = (
            Conditions()
            if gain is None
            else Conditions(slot_solver="reference", rounding={"gain": f"{gain:g}", "fallback": False})
        )
        runs = runs_of(_drawn, [OWN], conditions, _fewer(scale))[0][OWN]
        digests += [one.digest for one in runs]
        earned = _utilities(runs)
        rows.append(
            {
                "gain": gain,
                "runs": len(runs),
                "total_utility": mean(earned),
                "standard_error": error(earned),
                "unfinished": _unfinished(runs),
                **(_rounded(runs) if gain is not None else {}),
            }
        )
    sweep, *rounded = rows
    xs = [row["gain"] for row in rounded]
    panels = [
        Panel(
            f"{JOBS} jobs, {MACHINES} machines, {HORIZON} slots", "gain G", "total utility",
            [
                Line("reference", xs, [r["total_utility"] for r in rounded], [r["standard_error"] for r in rounded]),
                Line("sweep, which rounds nothing", [xs[0], xs[-1]], [sweep["total_utility"]] * 2),
            ],
        ),
        Panel(
            "roundings", "gain G", "share",
            [Line(text, xs, [r[name] for r in rounded]) for name, text in SHARES.items()],
        ),
    ]  # fmt: skip
    best = max(rounded, key=lambda row: row["feasible"])
    measured = (
        f"Of the relaxations {percent(best['feasible'])} have a draw that packs and covers at G = {best['gain']:g}, "
        f"{percent(rounded[0]['feasible'])} at G = {xs[0]:g} and {percent(rounded[-1]['feasible'])} at G = {xs[-1]:g}, "
        f"with {best['attempts_per_relaxation']:.3g}, {rounded[0]['attempts_per_relaxation']:.3g} and "
        f"{rounded[-1]['attempts_per_relaxation']:.3g} draws for each. Utility is "
        f"{min(r['total_utility'] for r in rounded):.4g} to {max(r['total_utility'] for r in rounded):.4g} over all "
        f"gains, where nothing is placed across machines unless a draw is feasible; the sweep, which rounds nothing, "
        f"earns {sweep['total_utility']:.4g}."
    )
    return Found(rows, panels, measured, judge_gains(rounded), digest_of(digests))


def judge_gains(rounded: Sequence[Row]) -> str:
    """Say whether packing falls and covering rises with the gain, and the most relaxations are rounded near 1."""
    best = max(rounded, key=lambda row: row["feasible"])
    near = abs(best["gain"] - 1.0) <= NEAR + 1e-9
    packs, covers = ([row[name] for row in rounded] for name in ("packs", "covers"))
    trades = packs[0] > packs[-1] and covers[0] < covers[-1]
    if near and trades:
        return "agrees"
    if near or trades:
        return f"agrees in part: the best gain is {best['gain']:g}" + ("" if trades else ", and no trade is seen")
    return f"does not agree: the best gain is {best['gain']:g}"


def _rounded(runs: Sequence[Outcome]) -> Row:
    """Return what the roundings of some runs came to, all draws and all relaxations counted alike."""
    total = {name: math.fsum(one.run.rounding[name] or 0.0 for one in runs) for name in runs[0].run.rounding}
    excess = math.fsum(
        (one.run.rounding["cost_over_relaxation"] or 0.0) * (one.run.rounding["feasible"] or 0.0) for one in runs
    )
    return {
        "packs": total["packing"] / total["attempts"],
        "covers": total["covering"] / total["attempts"],
        "both": total["feasible"] / total["attempts"],
        "feasible": total["feasible"] / total["relaxations"],
        "attempts_per_relaxation": total["attempts"] / total["relaxations"],
        "cost_over_relaxation": excess / total["feasible"] if total["feasible"] else None,
    }


SHARES = {
    "packs": "draws that pack",
    "covers": "draws that cover",
    "both": "draws that do both",
    "feasible": "relaxations with such a draw",
}


# Locality


def _count_locality(scale: Scale) -> int:
    return len(seeds_of(scale)) * (2 * len(_ratios(scale)) + 1)


def _ratios(scale: Scale) -> tuple[float, ...]:
    return QUICK_RATIOS if scale.quick else RATIOS


@dataclass(frozen=True, slots=True)
class _Where:
    """Where jobs may run, as the planner sees it."""

    name: str
    domain: str | None = None
    """That jobs are bound to."""
    blind: bool = False
    """Whether links inside a machine are taken to be no faster than those between."""


WHERE = (_Where("one machine only", domain="machine"), _Where("spread only", blind=True), _Where("both"))


def _placed(where: _Where, ratio: float, seed: int) -> Workload:
    drawn = _drawn(seed)
    assert drawn.cluster is not None
    bandwidth = (BETWEEN if where.blind else ratio * BETWEEN, BETWEEN)
    jobs: tuple[Job, ...] = tuple(replace(job, domain=where.domain) for job in drawn.jobs)
    return replace(drawn, jobs=jobs, cluster=replace(drawn.cluster, bandwidth=bandwidth))


def _locality(scale: Scale) -> Found:
    rows: list[Row] = []
    digests: list[str] = []
    utilities: dict[tuple[str, float], list[float]] = {}
    for where in WHERE:
        # To the blind all ratios are one.
        for ratio in _ratios(scale)[: 1 if where.blind else None]:
            runs = runs_of(partial(_placed, where, ratio), [OWN], Conditions(), scale)[0][OWN]
            utilities[where.name, ratio] = _utilities(runs)
            digests += [one.digest for one in runs]
            earned = _utilities(runs)
            together = [share for one in runs if (share := one.run.summary()["colocated_fraction"]) is not None]
            rows.append(
                {
                    "where": where.name,
                    "ratio": ratio,
                    "runs": len(runs),
                    "total_utility": mean(earned),
                    "standard_error": error(earned),
                    "unfinished": _unfinished(runs),
                    "colocated_fraction": mean(together) if together else None,
                }
            )
        if where.blind:
            rows += [rows[-1] | {"ratio": ratio} for ratio in _ratios(scale)[1:]]
    curves = {where.name: [row for row in rows if row["where"] == where.name] for where in WHERE}
    panels = [
        Panel(
            f"{JOBS} jobs, {MACHINES} machines, {HORIZON} slots", "bandwidth inside a machine over that between",
            "total utility",
            [
                Line(n, [r["ratio"] for r in c], [r["total_utility"] for r in c], [r["standard_error"] for r in c])
                for n, c in curves.items()
            ],
            logarithmic=True,
        )
    ]  # fmt: skip
    gains, signs = [], []
    for row in curves["both"]:
        rest = (utilities[WHERE[0].name, row["ratio"]], utilities[WHERE[1].name, _ratios(scale)[0]])
        better = max(rest, key=mean)
        if mean(better) > 0:
            gains.append(row["total_utility"] / mean(better) - 1.0)
        paired = [one - other for one, other in zip(utilities["both", row["ratio"]], better, strict=True)]
        signs.append(sure(mean(paired), error(paired)))
    alone, apart = (curves[where.name] for where in WHERE[:2])
    colocated = curves["both"][-1]["colocated_fraction"] or 0.0
    more = first_and_last(min(gains), max(gains)) if gains else "nothing"
    measured = (
        f"Both together earn {more} more than the better of the two alone, beyond two standard errors at "
        f"{signs.count(1)} of {len(signs)} ratios, from {alone[0]['ratio']:g} to {alone[-1]['ratio']:g}; one "
        f"machine only earns {min(r['total_utility'] for r in alone):.4g} to "
        f"{max(r['total_utility'] for r in alone):.4g}, spread only {apart[0]['total_utility']:.4g}. With both, "
        f"{percent(colocated)} of the job-slots lie in one machine at the largest ratio. Other speeds and racks: "
        "locality-families.md in docs/results."
    )
    agrees = "agrees" if -1 not in signs else f"agrees in part: less at {signs.count(-1)} of {len(signs)} ratios"
    if len(seeds_of(scale)) < 2:
        agrees = "is undecided: one seed has no standard error"
    return Found(rows, panels, measured, agrees, digest_of(digests))


_OURS = "Ours, not the paper's: "

EXPERIMENTS = (
    Experiment(
        "gain-factor",
        "Roundings that are feasible, over the gain of the relaxation",
        "The gain G trades packing for covering: below 1 roundings pack more often, above 1 they cover more often, and "
        "the best gain is at or near 1, not at the values of the proof.",
        _count_gain,
        _gain_factor,
    ),
    Experiment(
        "locality",
        "Total utility over how much faster links inside a machine are",
        "Deciding on size and place together earns no less than keeping each job in one machine or spreading all.",
        _count_locality,
        _locality,
    ),
    Experiment(
        "calibration",
        "Total utility over the scale of prices",
        f"{_OURS}prices learnt on the way earn about what the best fixed scale earns, which nobody knows beforehand.",
        _count_calibration,
        _calibration,
    ),
)
