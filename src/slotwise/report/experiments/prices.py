"""Experiments on one policy, pdors: how its prices are set, how its relaxation is rounded, what locality is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from slotwise.model.job import Job
from slotwise.report.experiments._base import Experiment, Found, Scale, digest_of, first_and_last, percent
from slotwise.report.plots import Line, Panel
from slotwise.sim.compare import Bounded, Conditions, Outcome, play
from slotwise.workloads._base import Workload
from slotwise.workloads.synthetic import paper

__all__ = ["EXPERIMENTS"]

JOBS, MACHINES, HORIZON = 50, 30, 20
SEEDS, QUICK_SEEDS = 5, 2
SCALES = tuple(10.0**power for power in range(-4, 5))
QUICK_SCALES = (1e-4, 1e-2, 1.0, 1e2, 1e4)
GAINS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5)
QUICK_GAINS = (0.5, 0.8, 1.0, 1.2, 1.5)
RATIOS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
QUICK_RATIOS = (1.0, 10.0, 100.0)
BETWEEN = 625.0
"""MB/s between machines, the paper's."""

Row = dict[str, Any]


def _seeds(scale: Scale) -> range:
    return range(scale.seeds if scale.seeds is not None else QUICK_SEEDS if scale.quick else SEEDS)


def _drawn(seed: int) -> Workload:
    return paper(JOBS, MACHINES, HORIZON, seed)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _runs(source: Callable[[int], Workload], conditions: Conditions, scale: Scale) -> list[Outcome]:
    """Return a run of pdors for each seed, in order of seeds."""
    made: list[Outcome] = []
    for finished in play(source, [("pdors", s) for s in _seeds(scale)], conditions, processes=scale.processes):
        assert isinstance(finished, Outcome)
        made.append(finished)
        scale.step()
    return sorted(made, key=lambda one: one.seed)


# Calibration


def _calibrations(scale: Scale) -> list[str]:
    return [*(f"scale={x:g}" for x in (QUICK_SCALES if scale.quick else SCALES)), "literal", "learnt"]


def _count_calibration(scale: Scale) -> int:
    return (len(_calibrations(scale)) + 1) * len(_seeds(scale))


def _calibration(scale: Scale) -> Found:
    earned: dict[str, list[float]] = {name: [] for name in _calibrations(scale)}
    admitted: dict[str, list[int]] = {name: [] for name in earned}
    digests: list[str] = []
    bounds: list[float] = []
    for name, utilities in earned.items():
        for one in _runs(_drawn, Conditions(prices=name), scale):
            utilities.append(one.run.total_utility)
            admitted[name].append(sum(record.admitted for record in one.run.records.values()))
            digests.append(one.digest)
    for finished in play(_drawn, [(None, s) for s in _seeds(scale)], Conditions(), processes=scale.processes):
        assert isinstance(finished, Bounded)
        bounds.append(finished.value or math.nan)
        scale.step()
    bound = _mean(bounds)
    rows: list[Row] = [
        {
            "prices": name,
            "runs": len(earned[name]),
            "total_utility": _mean(earned[name]),
            "standard_error": _error(earned[name]),
            "upper_bound": bound,
            "fraction_of_bound": _mean(earned[name]) / bound,
            "admitted": _mean(admitted[name]),
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
    share = learnt["total_utility"] / best["total_utility"] if best["total_utility"] > 0 else math.inf
    agrees = "agrees" if share >= 0.95 else f"does not agree: learnt prices earn {percent(share)} of the best scale"
    return Found(rows, panels, measured, agrees, digest_of(digests))


# Gain factor


def _gains(scale: Scale) -> tuple[float, ...]:
    return QUICK_GAINS if scale.quick else GAINS


def _count_gain(scale: Scale) -> int:
    return (len(_gains(scale)) + 1) * len(_seeds(scale))


def _gain_factor(scale: Scale) -> Found:
    rows: list[Row] = []
    digests: list[str] = []
    for gain in (None, *_gains(scale)):
        conditions = (
            Conditions()
            if gain is None
            else Conditions(slot_solver="reference", rounding={"gain": f"{gain:g}", "fallback": False})
        )
        runs = _runs(_drawn, conditions, scale)
        digests += [one.digest for one in runs]
        earned = [one.run.total_utility for one in runs]
        rows.append(
            {
                "gain": gain,
                "runs": len(runs),
                "total_utility": _mean(earned),
                "standard_error": _error(earned),
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
    agrees = "agrees" if best["gain"] == 1.0 else f"does not agree: G = {best['gain']:g} is better"
    return Found(rows, panels, measured, agrees, digest_of(digests))


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
    return len(_seeds(scale)) * (2 * len(_ratios(scale)) + 1)


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
    for where in WHERE:
        # To the blind all ratios are one.
        for ratio in _ratios(scale)[: 1 if where.blind else None]:
            runs = _runs(partial(_placed, where, ratio), Conditions(), scale)
            digests += [one.digest for one in runs]
            earned = [one.run.total_utility for one in runs]
            together = [share for one in runs if (share := one.run.summary()["colocated_fraction"]) is not None]
            rows.append(
                {
                    "where": where.name,
                    "ratio": ratio,
                    "runs": len(runs),
                    "total_utility": _mean(earned),
                    "standard_error": _error(earned),
                    "colocated_fraction": _mean(together) if together else None,
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
    gains = [
        both["total_utility"] / max(alone["total_utility"], apart["total_utility"]) - 1.0
        for alone, apart, both in zip(*curves.values(), strict=True)
    ]
    alone, apart = (curves[where.name] for where in WHERE[:2])
    colocated = curves["both"][-1]["colocated_fraction"] or 0.0
    measured = (
        f"Both together earn {first_and_last(min(gains), max(gains))} more than the better of the two alone, over "
        f"ratios from {alone[0]['ratio']:g} to {alone[-1]['ratio']:g}; one machine only earns "
        f"{min(r['total_utility'] for r in alone):.4g} to {max(r['total_utility'] for r in alone):.4g}, spread only "
        f"{apart[0]['total_utility']:.4g}. With both, {percent(colocated)} of the job-slots "
        f" lie in one machine at the largest ratio. Other speeds and racks: see locality-families.md."
    )
    good = sum(gain >= -1e-9 for gain in gains)
    agrees = "agrees" if good == len(gains) else f"agrees in part: at {good} of {len(gains)} ratios"
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
