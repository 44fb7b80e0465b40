"""Shortest remaining time first, over gangs of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from slotwise.model.job import Job
from slotwise.policies._base import State
from slotwise.policies._preempting import Preempting
from slotwise.words import counted

__all__ = ["Srtf"]


class Srtf(Preempting):
    """Each slot, the jobs with the least time left run, and take the place of others.

    A job has a fixed worker count, that of ``fifo``. Its remaining time is the samples that it has left over those that
    its workers train in a slot in the smallest domain of the empty cluster that holds them, wherever it runs now: so a
    job that runs never falls behind one that waits. Ties go to the job that arrived first.
    """

    name: ClassVar[str] = "srtf"
    source: ClassVar[str] = (
        "Schrage, A Proof of the Optimality of the Shortest Remaining Processing Time Discipline, Operations Research "
        "1968; over gangs as in Gu et al., Tiresias, NSDI 2019"
    )

    def ranked(self, state: State) -> Sequence[Job]:
        """Return the active jobs, those with the least time left first."""
        return sorted(state.active, key=lambda job: self._slots_left(job, state))

    def _slots_left(self, job: Job, state: State) -> float:
        request, choice = state.requests[job.id], self.choice(job)
        trained = np.where(request.held[:, choice], request.ask.samples[:, choice], 0.0).max()
        return state.remaining[job.id] / float(trained)

    def standing(self, job: Job, state: State) -> str:
        """Say how much it has left."""
        return f"{counted(self._slots_left(job, state), 'slot')} left"
