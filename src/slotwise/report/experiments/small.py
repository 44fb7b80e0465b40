"""Experiments against the offline optimum, which is known for small cases only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotwise.optim.bound import upper_bound
from slotwise.optim.offline import offline_optimum
from slotwise.report.experiments._base import Experiment, Found, Scale, digest_of, percent
from slotwise.report.figures import Line, Panel
from slotwise.sim.processes import in_processes, processors
from slotwise.sim.simulator import simulate
from slotwise.workloads.synthetic import paper

__all__ = ["EXPERIMENTS"]

JOBS, MACHINES, HORIZON = 10, 5, 10
SEEDS, QUICK_SEEDS = 100, 12
SECONDS, QUICK_SECONDS = 30.0, 5.0
"""That the solver is given for one optimum."""
WORTH = 1e-3
"""Cases whose optimum is less are none: a job late by many times its urgency."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Way:
    """One way of deciding."""

    name: str
    policy: str = "pdors"
    prices: str = "learnt"
    solver: str = "sweep"
    rounding: Mapping[str, Any] | None = None


WAYS = (
    _Way("sweep, learnt prices"),
    _Way("sweep, literal prices", prices="literal"),
    *(
        _Way(f"reference, G = {gain:g}", solver="reference", rounding={"gain": str(gain), "fallback": False})
        for gain in (0.8, 0.9, 1.0, 1.1, 1.2)
    ),
    *(
        _Way(
            f"reference, {gain} gain, δ = {delta:g}",
            solver="reference",
            rounding={"gain": gain, "delta": delta, "fallback": False},
        )
        for gain in ("packing", "covering")
        for delta in (0.1, 1.0)
    ),
    _Way("fifo", policy="fifo"),
    _Way("drf", policy="drf"),
)


def _case(seed: int, seconds: float) -> tuple[str, Row]:
    """Return the digest of a case, its optimum, and what each way earns."""
    workload = paper(JOBS, MACHINES, HORIZON, seed)
    cluster = workload.cluster
    assert cluster is not None
    sizes: dict[str, Any] = {"horizon": HORIZON, "slot_seconds": workload.slot_seconds}
    best = offline_optimum(workload.jobs, cluster, **sizes, seconds=seconds)
    bound = upper_bound(workload.jobs, cluster, **sizes).value
    row: Row = {
        "seed": seed,
        "proven": best.proven,
        "optimum": best.bound,
        "best_found": best.value,
        "upper_bound": bound,
    }
    for way in WAYS:
        run = simulate(
            way.policy,
            cluster,
            workload.jobs,
            **sizes,
            seed=seed,
            prices=way.prices,
            slot_solver=way.solver,
            rounding=way.rounding,
        )
        row[way.name] = run.total_utility
    return workload.digest, row


def _count(scale: Scale) -> int:
    return scale.seeds if scale.seeds is not None else QUICK_SEEDS if scale.quick else SEEDS


def _ratio(scale: Scale) -> Found:
    seconds = QUICK_SECONDS if scale.quick else SECONDS
    rows: list[Row] = []
    digests: list[str] = []
    cases = ((seed, seconds) for seed in range(_count(scale)))
    for digest, row in in_processes(_case, cases, scale.processes or processors(), ordered=True):
        rows.append(row)
        digests.append(digest)
        scale.step()
    worth = [row for row in rows if row["optimum"] > WORTH]
    # What is not proven depends on how fast the machine is.
    useful = [row for row in worth if row["proven"]]
    if not useful:
        return Found(rows, [], "In no case is an optimum proven with which a job can finish.", "-", digest_of(digests))
    ratios = {way.name: np.array([row[way.name] / row["optimum"] for row in useful]) for way in WAYS}
    over_all = sum(row["optimum"] for row in useful)
    sums = {way.name: sum(row[way.name] for row in useful) / over_all for way in WAYS}
    panels = [
        Panel(
            f"{len(useful)} cases of {JOBS} jobs, {MACHINES} machines, {HORIZON} slots",
            "share of cases",
            "earned over the offline optimum, or less",
            [
                Line(name, ((np.arange(len(r)) + 1) / len(r)).tolist(), np.sort(r).tolist())
                for name, r in ratios.items()
            ],
        )
    ]
    first = WAYS[0].name
    inverse = 1.0 / np.maximum(ratios[first], 1e-12)
    within = float((inverse <= 1.4 + 1e-9).mean())
    shares = "; ".join(
        f"{name} {percent(float(ratios[name].mean()))} in the mean, {percent(sums[name])} of the sum" for name in ratios
    )
    bounds = sum(row["upper_bound"] for row in useful) / over_all
    measured = (
        f"In {len(rows) - len(worth)} of {len(rows)} cases no job can finish with a utility above {WORTH:g}. Of the "
        f"other {len(worth)} the optimum is proven within {seconds:g} s in {len(useful)}, and only these count here. "
        f"The certified bound is {bounds:.3g} times the sum. Earned over the optimum: {shares}. With {first} the "
        f"optimum is at most 1.4 times as much in {percent(within)} of the cases, and {inverse.max():.3g} times "
        "as much at worst."
    )
    agrees = "agrees" if within == 1.0 else f"agrees in part: in {percent(within)} of the cases"
    return Found(rows, panels, measured, agrees if within > 0 else "does not agree", digest_of(digests))


EXPERIMENTS = (
    Experiment(
        "ratio",
        "Earned over the offline optimum",
        "On small cases the offline optimum is 1.0 to 1.4 times what pdors earns, far below the proven bound on this "
        "ratio.",
        _count,
        _ratio,
    ),
)
