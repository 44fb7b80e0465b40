"""What an experiment is: a claim of the paper, what is measured, and whether the two agree."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slotwise.errors import SlotwiseError
from slotwise.policies import catalogue
from slotwise.report.figures import Panel
from slotwise.sim.compare import Conditions, play
from slotwise.sim.outcomes import Bounded, Failed, Outcome
from slotwise.workloads._base import Workload

__all__ = [
    "Experiment", "Found", "Scale", "digest_of", "error", "first_and_last", "mean", "percent", "runs_of", "seeds_of",
    "sure",
]  # fmt: skip

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of an experiment is made.

    Attributes
    ----------
    quick : bool
        Few points and seeds, for a first look; else all that is published under ``docs/results``.
    seeds : int, optional
        Runs of each point, with seeds from 0 on; the experiment's own number by default.
    policies : sequence of str
        Those that are compared, where all are.
    processes : int, optional
        Runs at once.
    step : callable
        Called after each run.
    """

    quick: bool = False
    seeds: int | None = None
    policies: Sequence[str] = catalogue.NAMES
    processes: int | None = None
    step: Callable[[], None] = field(default=lambda: None)


@dataclass(frozen=True, slots=True)
class Found:
    """What an experiment came to.

    Attributes
    ----------
    rows : list of dict
        The table behind the figure.
    panels : list of Panel
        The figure.
    measured : str
        What was measured, in words, with numbers.
    agrees : str
        ``agrees``, ``agrees in part`` or ``does not agree`` with the claim, and where or why.
    digest : str
        Of all workloads.
    rough : bool
        Whether it was made with less than the experiment's own points, seeds or policies.
    """

    rows: list[Row]
    panels: list[Panel]
    measured: str
    agrees: str
    digest: str
    rough: bool = False


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment of the paper, or of ours.

    Attributes
    ----------
    name : str
        As ``slotwise reproduce`` takes it.
    title : str
        Of the figure.
    claim : str
        What the paper says of it, in our words.
    runs : callable
        How many runs it makes at a scale, for progress.
    make : callable
        Makes them.
    compares : bool
        Whether it compares the policies of the scale.
    """

    name: str
    title: str
    claim: str
    runs: Callable[[Scale], int]
    make: Callable[[Scale], Found]
    compares: bool = False


SEEDS, QUICK_SEEDS = 10, 2
"""Runs of each point of most experiments."""


def seeds_of(scale: Scale) -> range:
    """Return the seeds of a point."""
    return range(scale.seeds if scale.seeds is not None else QUICK_SEEDS if scale.quick else SEEDS)


def runs_of(
    source: Callable[[int], Workload], policies: Sequence[str | None], conditions: Conditions, scale: Scale
) -> tuple[dict[str, list[Outcome]], list[Bounded]]:
    """Return the runs of each policy in order of seeds, and the bounds where None is among the policies.

    Raises
    ------
    SlotwiseError
        If a policy fails.
    """
    wanted = [(policy, seed) for seed in seeds_of(scale) for policy in policies]
    made: dict[str, list[Outcome]] = {policy: [] for policy in policies if policy is not None}
    bounds: list[Bounded] = []
    for finished in play(source, wanted, conditions, processes=scale.processes):
        match finished:
            case Outcome():
                made[finished.policy].append(finished)
            case Bounded():
                bounds.append(finished)
            case Failed():
                raise SlotwiseError(f"seed {finished.seed}: {finished.message}")
        scale.step()
    for runs in made.values():
        runs.sort(key=lambda one: one.seed)
    return made, sorted(bounds, key=lambda one: one.seed)


def mean(values: Sequence[float]) -> float:
    """Return the mean, NaN of nothing."""
    return float(np.mean(values)) if len(values) else math.nan


def error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean; None of fewer than two values."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None


def sure(difference: float, its_error: float | None) -> int:
    """Return the sign of a mean difference, 0 where it is within two standard errors."""
    if its_error is None or abs(difference) <= 2.0 * its_error or difference == 0.0:
        return 0
    return 1 if difference > 0 else -1


def digest_of(digests: Iterable[str]) -> str:
    """Return one digest of several."""
    return hashlib.sha256("\n".join(sorted(set(digests))).encode()).hexdigest()[:16]


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{share:.1%}" if abs(share) < 0.1 else f"{share:.0%}"


def first_and_last(low: float, high: float) -> str:
    """Return a range of shares as text."""
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"
