"""First in, first out, where later jobs may use what is left beside the head of the line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import fixed_choices
from slotwise.words import counted

__all__ = ["FifoBackfill"]


class FifoBackfill(Policy):
    """Jobs start in order of arrival; one that does not fit is passed over by those behind it.

    Each has a fixed worker count, that of ``fifo``, and runs until it finishes. Nothing is kept free for a job that is
    passed over: a large one may wait for as long as small ones arrive.
    """

    name: ClassVar[str] = "fifo-backfill"
    source: ClassVar[str] = (
        "Zaharia et al., Spark: Cluster Computing with Working Sets, HotCloud 2010: its FIFO scheduler lets later jobs "
        "use what the first one leaves"
    )

    def __init__(self) -> None:
        self._choices: Mapping[str, int] = {}

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Keep what runs; then start whichever jobs of the queue fit, the first ones first."""
        self._choices = fixed_choices(state.active, state.requests, self._choices)
        waiting = ((job_id, choice) for job_id, choice in self._choices.items() if job_id not in state.kept)
        return {**state.kept, **state.rest.fit_in_order(waiting)}

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Name the last of the jobs before it in the line that run, and say how many have passed it."""
        line = [other.id for other in state.active]
        at = line.index(job.id)
        before = [name for name in line[:at] if name in placed]
        ask, choice = state.requests[job.id].ask, self._choices[job.id]
        beside = f"beside {counted(len(before), 'running job')} before it"
        beside += f", the last of them {before[-1]!r}" if before else ""
        needs = f"its {counted(ask.workers[choice], 'worker')} and {counted(ask.servers[choice], 'server')} do not fit"
        return Reason.WAITING, f"{needs} {beside}; passed by {counted(len(placed) - len(before), 'job')}"
