"""What every reader and generator returns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job

__all__ = ["Bars", "Workload", "no_bars"]

Bars = Callable[[str, int], AbstractContextManager[Callable[[int], None] | None]]
"""Takes a label and a total, and gives what is told how much is done: a progress bar, or None."""


def no_bars(label: str, total: int) -> AbstractContextManager[None]:
    """Show nothing."""
    return nullcontext()


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs, and what had to be assumed or left out to get them.

    Attributes
    ----------
    jobs : tuple of Job
        In order of arrival; jobs of one slot in the order of their source.
    format : str
        ``paper``, ``google``, or one of ``slotwise.workloads.traces.WORKLOAD_FORMATS``.
    slot_seconds : float
        Length of a slot, > 0; arrivals and utilities are in these slots.
    horizon : int
        Slots of a run unless the user says otherwise, > every arrival.
    cluster : Cluster, optional
        The machines that come with a generated workload.
    assumed : mapping of str to str
        What the source does not say, and what was put there instead.
    skipped : mapping of str to int
        Rows or jobs left out, by reason.
    """

    jobs: tuple[Job, ...]
    format: str
    slot_seconds: float
    horizon: int
    cluster: Cluster | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """First 16 hex digits of a SHA-256 over every field of every job: equal digests, equal workloads."""
        return hashlib.sha256("\n".join(repr(job) for job in self.jobs).encode()).hexdigest()[:16]
