"""Gavel's rounds: gangs take turns so that each gets its share of time."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import fixed_choices
from slotwise.policies._shares import Gangs
from slotwise.words import amount, counted

__all__ = ["TimeShares"]


class TimeShares(Policy):
    """Each slot runs the gangs that are furthest behind their share of time.

    Shares are found anew when a job arrives or ends, or a machine goes or comes back. In each slot the gangs run that
    have the highest (slots due) / (slots received + 1/2), where due is the sum of a job's shares since it arrived, then
    whatever else fits. With shares that do not change this is Gavel's priority, share / part of time received; the half
    is Gavel's as well (half a round counts as received at the start) and makes it Webster's rule of apportionment.
    Gavel forgets what was due at each new allocation but for ties; here it is kept, for with arrivals in every slot
    a gang with a small share would never have its turn. Ties go to the job that arrived first.
    """

    def __init__(self) -> None:
        self._choices: Mapping[str, int] = {}
        self._shares: dict[str, float] = {}
        self._due: dict[str, float] = {}
        self._received: dict[str, int] = {}
        self._capacity: npt.NDArray[np.float64] = np.empty((0, 0))

    @abc.abstractmethod
    def shares(self, jobs: Sequence[Job], gangs: Gangs, state: State) -> npt.NDArray[np.float64]:
        """Return the part of time for each job, (J,) in 0 ... 1."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Run the gangs that are furthest behind."""
        jobs = state.active
        capacity = state.ledger.view.capacity
        if tuple(self._shares) != tuple(state.jobs) or not np.array_equal(self._capacity, capacity):
            self._choices = fixed_choices(jobs, state.requests, self._choices)
            shares = self.shares(jobs, _gangs(self._choices, state), state) if jobs else np.empty(0)
            self._shares = {job.id: float(share) for job, share in zip(jobs, shares, strict=True)}
            self._due = {job.id: self._due.get(job.id, 0.0) for job in jobs}
            self._received = {job.id: self._received.get(job.id, 0) for job in jobs}
            self._capacity = capacity.copy()
        for job_id, share in self._shares.items():
            self._due[job_id] += share
        queue = sorted(self._shares, key=lambda job_id: -self._due[job_id] / (self._received[job_id] + 0.5))
        placed = _run({job_id: self._choices[job_id] for job_id in queue}, state)
        for job_id in placed:
            self._received[job_id] += 1
        return placed

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Give its share, what was due to it, and what it has received."""
        return Reason.LOST_SHARE, (
            f"its share of time is {amount(self._shares[job.id], 3)}; slots due to it so far: "
            f"{amount(self._due[job.id], 3)}, received: {self._received[job.id]}; it waits for "
            f"{counted(len(placed), 'running job')} further behind or fitting beside"
        )


def _gangs(choices: Mapping[str, int], state: State) -> Gangs:
    """Return what jobs take at their fixed sizes."""
    asks = [state.requests[job_id].ask for job_id in choices]
    return Gangs.of(
        np.array([ask.worker for ask in asks]),
        np.array([ask.server for ask in asks]),
        np.array([ask.workers[choice] for ask, choice in zip(asks, choices.values(), strict=True)]),
        np.array([ask.servers[choice] for ask, choice in zip(asks, choices.values(), strict=True)]),
        state.ledger.view.capacity,
    )


def _run(queue: Mapping[str, int], state: State) -> dict[str, Placement]:
    """Place configurations in the order given; who ran before stays where it is, if all of them still fit then."""
    packed = state.free.fit_in_order(queue.items())
    free = state.free
    placed = {
        job_id: state.kept[job_id]
        for job_id in packed
        if job_id in state.kept and free.hold(job_id, state.kept[job_id])
    }
    placed |= free.fit_in_order((job_id, queue[job_id]) for job_id in packed if job_id not in placed)
    if len(placed) < len(packed):
        return packed
    return placed | free.fit_in_order((job_id, choice) for job_id, choice in queue.items() if job_id not in placed)
