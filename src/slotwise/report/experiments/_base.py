"""What an experiment is: a claim of the paper, what is measured, and whether the two agree."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotwise.policies import catalogue
from slotwise.report.plots import Panel

__all__ = ["Experiment", "Found", "Scale", "digest_of", "first_and_last", "percent"]

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
    """

    name: str
    title: str
    claim: str
    runs: Callable[[Scale], int]
    make: Callable[[Scale], Found]


def digest_of(digests: Iterable[str]) -> str:
    """Return one digest of several."""
    return hashlib.sha256("\n".join(sorted(set(digests))).encode()).hexdigest()[:16]


def percent(share: float) -> str:
    """Return a share as text."""
    return f"{share:.1%}" if abs(share) < 0.1 else f"{share:.0%}"


def first_and_last(low: float, high: float) -> str:
    """Return a range of shares as text."""
    return percent(low) if percent(low) == percent(high) else f"{percent(low)} to {percent(high)}"
