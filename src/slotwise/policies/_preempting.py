"""Gangs by priority: who runs is decided anew in each slot, and who still runs stays where it is."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

import numpy as np

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import Free, fixed_choices
from slotwise.words import counted

__all__ = ["Preempting"]


class Preempting(Policy):
    """In order of priority each job gets its fixed worker count if it fits beside those of higher priority.

    A job that runs on stays on its machines, unless one of higher priority finds room on no others. Where a job needs
    the machines of lesser ones, the least go first, and no more of them than it takes.
    """

    def __init__(self) -> None:
        self._choices: Mapping[str, int] = {}
        self._ranks: Mapping[str, int] = {}

    @abc.abstractmethod
    def ranked(self, state: State) -> Sequence[Job]:
        """Return the active jobs by falling priority."""

    @abc.abstractmethod
    def standing(self, job: Job, state: State) -> str:
        """Say, with numbers, what gives a job its priority."""

    def choice(self, job: Job) -> int:
        """Return the configuration that an active job runs with."""
        return self._choices[job.id]

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Go through the jobs by falling priority."""
        self._choices = fixed_choices(state.active, state.requests, self._choices)
        ranked = self.ranked(state)
        self._ranks = {job.id: rank for rank, job in enumerate(ranked)}
        # Beside those of higher priority; and beside the lesser ones as well that have not had to go.
        above, beside = state.free, state.rest
        staying = [job.id for job in ranked if job.id in state.kept]
        moving: set[str] = set()
        placed: dict[str, Placement] = {}
        for job in ranked:
            before = state.kept.get(job.id)
            placement: Placement | None
            if before is not None and job.id not in moving:
                placement = before
            elif above.find(job.id, self._choices[job.id]) is None:
                continue
            else:
                placement = beside.fit(job.id, self._choices[job.id])
                if placement is None:
                    placement = self._make_room(job, state, beside, staying, moving)
            above.hold(job.id, placement)
            placed[job.id] = placement
        return placed

    def _make_room(self, job: Job, state: State, beside: Free, staying: list[str], moving: set[str]) -> Placement:
        """Place a job that fits beside those of higher priority; ``staying`` are jobs by falling priority."""
        gone: list[str] = []
        placement = None
        while placement is None:
            least = staying.pop()
            beside.release(least, state.kept[least])
            gone.append(least)
            placement = beside.fit(job.id, self._choices[job.id])
        for other in reversed(gone):
            if beside.hold(other, state.kept[other]):
                staying.append(other)
            else:
                moving.add(other)
        return placement

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Say what gives it its priority, and name the last of those before it that run."""
        before = sorted((self._ranks[name], name) for name in placed if self._ranks[name] < self._ranks[job.id])
        ask, choice = state.requests[job.id].ask, self._choices[job.id]
        needs = f"its {counted(ask.workers[choice], 'worker')} and {counted(ask.servers[choice], 'server')} do not fit"
        behind = f"beside the {counted(len(before), 'running job')} before it" + (
            f", the last of them {before[-1][1]!r}" if before else ""
        )
        return Reason.WAITING, f"{self.standing(job, state)}; {needs} {behind}"
