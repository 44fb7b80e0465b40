"""What comes back from one run of a comparison: a finished run, a bound, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slotwise.sim.metrics import Run

__all__ = ["Bounded", "Failed", "Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run.

    Attributes
    ----------
    policy : str
        By the name that was asked for.
    seed : int
        Of the workload and of the policy's draws.
    digest : str
        Of the workload: equal for all policies under one seed.
    run : Run
        What it came to.
    events : bytes
        Every event and command in order, a JSON a line, in gzip; empty unless they were asked for.
    prices : sequence of mapping
        What machines cost over time, see ``slotwise.sim.pricemap``; empty unless events were asked for.
    wall_seconds : float
        What it took, kernels loaded.
    """

    policy: str
    seed: int
    digest: str
    run: Run
    events: bytes
    prices: Sequence[Mapping[str, Any]]
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Bounded:
    """What any scheduler could earn at most under one seed; ``value`` is None where the workload is too large."""

    seed: int
    digest: str
    value: float | None
    gap: float | None
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A run that could not be made, since its policy raised an error or broke a rule of the scheduler."""

    policy: str
    seed: int
    message: str
