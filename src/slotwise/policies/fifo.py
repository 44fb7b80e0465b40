"""First in, first out, with head-of-line blocking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import fixed_choice, named

__all__ = ["Fifo"]


class Fifo(Policy):
    """Jobs start in order of arrival, each with a fixed worker count, and run until they finish.

    A job asks for the workers that its owner asked for, or the fewest that would meet its target alone on the
    cluster. The first in the queue that does not fit blocks all behind it, so that a large job starts as soon as what
    runs has ended.
    """

    name: ClassVar[str] = "fifo"
    source: ClassVar[str] = "first in, first out"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Keep what runs; then start jobs from the head of the queue."""
        free = state.rest
        placed = dict(state.kept)
        for job in state.active:
            if job.id in placed:
                continue
            placement = free.fit(job.id, fixed_choice(job, state.requests[job.id]))
            if placement is None:
                break
            placed[job.id] = placement
        return placed

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Name the head of the line, which does not fit, and who runs."""
        head = next(other for other in state.active if other.id not in placed)
        who = "it is the first in line, and" if head.id == job.id else f"behind {head.id!r}, the first in line, which"
        return Reason.WAITING, f"{who} does not fit beside {named(placed)}"
