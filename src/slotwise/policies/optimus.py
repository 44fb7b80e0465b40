"""Optimus' greedy allocation by marginal gain (Peng et al., EuroSys 2018), anew in every slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numba
import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._filling import Steps, fill, no_room
from slotwise.words import counted

__all__ = ["Optimus"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Optimus(Policy):
    """Each slot, the next worker to the job whose remaining time it cuts most for what it takes.

    Every job first gets its fewest workers, and the servers that go with them, in order of arrival (one of each, if it
    may; a gang all of them). Then step by step one more worker, and the servers that go with it, to the job with the
    largest gain: the cut in its remaining time over the dominant share of what the step adds, the largest of its parts
    of the whole cluster. Ties go to the job that arrived first. A job whose next step gains nothing grows no more, nor
    beyond what trains the rest in this slot. Remaining time is the samples left over those of a slot at the widest
    level of locality at which the job may run: where it will land is not known. What they get is then placed anew, the
    smallest jobs first, each on as few machines as hold it; what no longer fits gets smaller.

    What is different from the paper: a server is never a step of its own, it comes with the worker that needs it. And
    speeds, and the samples left, are those that the job states; Optimus fits them while the job runs. Jobs with the
    most left gain the most from a worker, so that under overload few are done by any given time.
    """

    name: ClassVar[str] = "optimus"
    source: ClassVar[str] = (
        "Peng et al., Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters, EuroSys 2018"
    )

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Fill the empty cluster, from the largest gain down."""
        if not state.jobs:
            return {}
        steps = Steps.of(state)
        left = np.array([state.remaining[job.id] for job in steps.jobs])
        filled = fill(state, steps, -_gains(left, steps.offsets, steps.samples, steps.more))
        return _together(filled, state)

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Say that its fewest workers found no room when its turn came."""
        names = [other.id for other in state.active]
        before = [name for name in names[: names.index(job.id)] if name in placed]
        behind = f"beside those of {counted(len(before), 'job')} before it" + (
            f", the last of them {before[-1]!r}" if before else ""
        )
        return Reason.WAITING, f"{no_room(state.requests[job.id])} {behind}"


def _together(filled: Mapping[str, Placement], state: State) -> Mapping[str, Placement]:
    """Place the same sizes on as few machines as hold them, the smallest jobs first; what does not fit gets smaller."""
    free = state.free
    placed = {}
    for job_id in sorted(filled, key=lambda name: filled[name].total_workers + filled[name].total_servers):
        request = state.requests[job_id]
        up_to = request.ask.workers[request.steps] <= filled[job_id].total_workers
        placement = free.fit_largest(job_id, request.steps[up_to])
        if placement is not None:
            placed[job_id] = placement
    return placed


@numba.njit(cache=True, error_model="numpy")
def _gains(left: Floats, offsets: Ints, samples: Floats, more: Floats) -> Floats:
    """Return the gain of each step: +inf for the first of a job, -inf for one that gains nothing."""
    gains = np.full(len(samples), -np.inf)
    for job in range(len(left)):
        gains[offsets[job]] = np.inf
        for at in range(offsets[job] + 1, offsets[job + 1]):
            if samples[at] > samples[at - 1]:
                gains[at] = (left[job] / samples[at - 1] - left[job] / samples[at]) / more[at]
    return gains
