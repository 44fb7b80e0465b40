"""Dominant resource fairness (Ghodsi et al., NSDI 2011) by progressive filling, anew in every slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._filling import Steps, fill, no_room
from slotwise.words import counted

__all__ = ["Drf"]


class Drf(Policy):
    """Each slot, one more worker, and the servers that go with it, to the job with the least dominant share.

    A dominant share is the largest, over resources, of a job's part of the whole cluster. Ties go to the job that
    arrived first. A job starts with its fewest workers at once (a gang with all of them) and takes no more than train
    what it has left in this slot. It grows on the machine that it grew on last, else on the machine with the most
    room for it. One that must stay within a rack (or another domain) starts in the one with the most room, and stays.
    """

    name: ClassVar[str] = "drf"
    source: ClassVar[str] = "Ghodsi et al., Dominant Resource Fairness, NSDI 2011"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Fill the empty cluster from the least dominant share up."""
        if not state.jobs:
            return {}
        steps = Steps.of(state)
        # What a job has before a step; nothing before its first.
        before = np.roll(steps.shares, 1)
        before[steps.offsets[:-1]] = 0.0
        return fill(state, steps, before)

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Say that its fewest workers found no room when its turn came."""
        return (
            Reason.LOST_SHARE,
            f"{no_room(state.requests[job.id])} beside the shares of {counted(len(placed), 'job')}",
        )
