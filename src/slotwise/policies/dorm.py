"""Dorm: utilisation, fairness and few adjustments by a mixed-integer program (Sun et al. 2017).

==========================  ==========================================================
the paper                   here
==========================  ==========================================================
n_i, n_i^min, n_i^max       workers of a job, the fewest and most of ``request.steps``
ŝ_i                         ``fair_shares``
s_i                         dominant share of its workers and their servers
l_i, sum over jobs          fairness loss abs(s_i - ŝ_i), at most θ1 2m with m resources
r_i, sum over jobs          adjusted jobs, at most ceil(θ2 running jobs)
==========================  ==========================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.optim.request import Request
from slotwise.policies._base import Policy, State
from slotwise.policies._partition import partition
from slotwise.policies._placing import Free
from slotwise.words import counted

__all__ = ["Dorm"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDING = 1e-12


class Dorm(Policy):
    """As much of the cluster in use as can be, nearly fair, with few jobs resized: a program at each arrival and end.

    The program (see ``partition``) is solved when a job arrives or ends, or a machine goes or comes back; between such
    events everything stays. It gives each job a number of workers between its fewest and the most that still make it
    faster, over the summed capacity of the machines. The fairness loss, what dominant shares differ from those of
    dominant resource fairness, is at most ``fairness_loss`` of the largest possible, twice the number of resources, or
    as little more as the other limit allows. Of the jobs that run at most ``adjustment`` of them, rounded up, are given
    other workers than they have.

    In the paper every job that is in has its fewest workers, and where no choice does that everything stays as it is.
    Here jobs that wait are taken in order of arrival, each if its fewest workers fit beside what those before it
    take when as many running jobs as may be adjusted are cut to their fewest.

    Placement follows: jobs that are not adjusted stay, adjusted ones are placed anew and then those that start, each
    with as many of its workers as the machines hold; what waits starts with its fewest where there is room.

    Parameters
    ----------
    fairness_loss : float
        θ1, in 0 ... 1.
    adjustment : float
        θ2, in 0 ... 1. Both defaults are the smaller of the two values, 0.1 and 0.2, of the paper's experiments as we
        know them; its full text is not at hand.
    """

    name: ClassVar[str] = "dorm"
    source: ClassVar[str] = (
        "Sun et al., Towards Distributed Machine Learning in Shared Clusters: A Dynamically-Partitioned Approach, "
        "SMARTCOMP 2017"
    )

    def __init__(self, fairness_loss: float = 0.1, adjustment: float = 0.1) -> None:
        for name, value in (("fairness_loss", fairness_loss), ("adjustment", adjustment)):
            if not 0.0 <= value <= 1.0:
                raise InvalidInput(f"{name} must be in 0 ... 1, got {value!r}")
        self.fairness_loss = fairness_loss
        self.adjustment = adjustment
        self._jobs: tuple[str, ...] = ()
        self._capacity: Floats = np.empty((0, 0))

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Keep everything, or solve the program if something has happened."""
        capacity = state.ledger.view.capacity
        if self._jobs == tuple(state.jobs) and np.array_equal(self._capacity, capacity):
            return dict(state.kept)
        self._jobs, self._capacity = tuple(state.jobs), capacity.copy()
        return self._divided(state)

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Say that its fewest workers found no room, and how many jobs could be cut for it."""
        fewest = state.requests[job.id].ask.workers[state.requests[job.id].steps[0]]
        limit = f"at most {self._most_adjusted(len(placed))} of them may be resized at once"
        return (
            Reason.LOST_SHARE,
            f"its fewest workers ({fewest}) found no room beside {counted(len(placed), 'job')}; {limit}",
        )

    def _most_adjusted(self, running: int) -> int:
        return math.ceil(self.adjustment * running - _ROUNDING)

    def _divided(self, state: State) -> dict[str, Placement]:
        """Return who runs where after an event."""
        kept = state.kept
        total = state.ledger.view.capacity.sum(axis=0)
        steps = {job.id: _growing(state.requests[job.id]) for job in state.active}
        counts = self._counts(state, steps, total)
        free = state.free
        placed = {
            job_id: kept[job_id]
            for job_id, workers in counts.items()
            if job_id in kept and kept[job_id].total_workers == workers and free.hold(job_id, kept[job_id])
        }
        for starts in (False, True):
            for job_id, workers in counts.items():
                if job_id not in placed and (job_id not in kept) is starts:
                    at_most = state.requests[job_id].ask.workers[steps[job_id]] <= workers
                    _add(placed, job_id, free, steps[job_id][at_most])
        for job in state.active:
            if job.id not in placed:
                _add(placed, job.id, free, steps[job.id][:1])
        return placed

    def _counts(self, state: State, steps: Mapping[str, Ints], total: Floats) -> dict[str, int]:
        """Return workers by the program, of jobs that run and of those that are taken."""
        jobs = state.active
        demand = np.array([_least_use(state.requests[job.id], steps[job.id], total) for job in jobs])
        demand = demand.reshape(len(jobs), len(total))
        fewest = np.array([state.requests[job.id].ask.workers[steps[job.id][0]] for job in jobs], dtype=np.int64)
        most = np.array([state.requests[job.id].ask.workers[steps[job.id][-1]] for job in jobs], dtype=np.int64)
        before = np.array([state.kept[j.id].total_workers if j.id in state.kept else 0 for j in jobs], dtype=np.int64)
        runs = before > 0
        adjusted = self._most_adjusted(int(runs.sum()))
        could_give = np.where(runs, before - fewest, 0)[:, None] * demand
        cut = np.argsort(-could_give.max(axis=1, initial=0.0), kind="stable")[:adjusted]
        room = 1.0 - before @ demand + could_give[cut].sum(axis=0)
        taken = runs.copy()
        for j in np.flatnonzero(~runs):
            needs = fewest[j] * demand[j]
            if (needs <= room + _ROUNDING).all():
                room = room - needs
                taken[j] = True
        chosen = np.flatnonzero(taken)
        if not len(chosen):
            return {}
        workers = partition(
            demand[chosen],
            fewest[chosen],
            most[chosen],
            before[chosen],
            loss_limit=self.fairness_loss * 2.0 * np.count_nonzero(total),
            most_adjusted=adjusted,
        )
        return {jobs[j].id: n for j, n in zip(chosen.tolist(), workers.tolist(), strict=True)}


def _growing(request: Request) -> Ints:
    """Return the steps up to the fastest: all-reduce may slow down as workers are added."""
    return request.steps[: int(np.argmax(request.ask.samples[request.widest, request.steps])) + 1]


def _least_use(request: Request, steps: Ints, total: Floats) -> Floats:
    """Return what a worker and its part of the servers take of the cluster at least, (R,)."""
    ask = request.ask
    use = ask.worker + np.outer(ask.servers[steps] / ask.workers[steps], ask.server)
    # Where all of a resource is lost with its machines, more than there is.
    shares: Floats = np.divide(use, total, out=np.where(use > 0, 2.0, 0.0), where=total > 0).min(axis=0)
    return shares


def _add(placed: dict[str, Placement], job_id: str, free: Free, choices: Ints) -> None:
    placement = free.fit_largest(job_id, choices)
    if placement is not None:
        placed[job_id] = placement
