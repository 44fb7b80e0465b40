"""The shape of a policy, and the state it reads."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Decision, Placement, Reason
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.policies._placing import Free
from slotwise.words import counted

Floats = npt.NDArray[np.float64]

__all__ = ["CommitAtArrival", "Policy", "State", "Terms"]


@dataclass(slots=True)
class State:
    """What a policy may look at; only the scheduler changes it.

    Attributes
    ----------
    cluster : Cluster
        The machines, lost ones included.
    slot_seconds : float
        Length of a slot.
    slot : int
        First slot that can still be planned.
    ledger : Ledger
        What is committed, and the end of the horizon (``ledger.end``).
    jobs : mapping of str to Job
        Admitted jobs that have not finished, in order of arrival.
    requests : mapping of str to Request
        The same jobs in arrays, and the job that is being decided on.
    remaining : mapping of str to float
        Samples that each of them still has to train.
    running : mapping of str to Placement
        Where jobs ran in the slot before, if they have not finished.
    planned : mapping of str to Placement
        What was committed for ``slot``.
    kept : mapping of str to Placement
        What a policy that places slot by slot has placed before, of jobs that have not finished and on machines that
        are not lost.
    held : Ledger
        What that takes, in a ledger of one slot.
    """

    cluster: Cluster
    slot_seconds: float
    slot: int
    ledger: Ledger
    jobs: Mapping[str, Job]
    requests: Mapping[str, Request]
    remaining: Mapping[str, float]
    running: Mapping[str, Placement]
    planned: Mapping[str, Placement]
    kept: Mapping[str, Placement]
    held: Ledger

    @property
    def active(self) -> tuple[Job, ...]:
        """Admitted jobs that have not finished, in order of arrival."""
        return tuple(self.jobs.values())

    @property
    def free(self) -> Free:
        """All machines, empty, for a policy that places slot by slot: a new one at each call."""
        return Free.empty(self.cluster, self.ledger.view.capacity, self.requests)

    @property
    def rest(self) -> Free:
        """What jobs leave that stay where they are (``kept``): a new one at each call."""
        return Free(self.held.copy(), self.requests)


class Policy(abc.ABC):
    """Decides who runs where. One class, one file, one published idea.

    A policy that places slot by slot implements ``place``. Its ``admit`` lets every job in: they wait in
    ``state.active``.
    """

    name: ClassVar[str]
    source: ClassVar[str] = ""
    """Where the idea was published."""

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Answer an arrival; called for jobs that could finish alone on the cluster."""
        return Decision(admitted=True)

    @abc.abstractmethod
    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Return who runs where in ``state.slot``; jobs left out pause."""

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Return why ``place`` has just left out an active job, and the same for a person, with numbers.

        Nothing changes by being asked. ``placed`` is what ``place`` returned.
        """
        return Reason.WAITING, f"the policy runs {counted(len(placed), 'other job')}"

    def figures(self) -> Mapping[str, float | None]:
        """Return what the policy counted on its own account, for reports; nothing by default."""
        return {}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a policy with prices decides on, so that others can ask what it would have answered.

    Attributes
    ----------
    planner : Planner
        Finds the best schedule.
    ledger : Ledger
        What is committed, as the planner sees it; only lent, until the next decision.
    prices : Prices
        Of the last decision.
    survey : callable
        Turns a job into the planner's request.
    """

    planner: Planner
    ledger: Ledger
    prices: Prices
    survey: Callable[[Job], Request]


class CommitAtArrival(Policy):
    """A policy that commits a whole schedule on arrival, and then only carries it out."""

    @abc.abstractmethod
    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Answer an arrival with a schedule, or with a reason."""

    @abc.abstractmethod
    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Find a new schedule for what an admitted job has left, after a machine of its plan was lost."""

    def terms(self, state: State) -> Terms | None:
        """Return what decisions are made on now; None for a policy without prices, and before the first one."""
        return None

    def slot_prices(self, state: State, slot: int) -> Mapping[str, Floats] | None:
        """Return what all that a machine has costs in a slot, (M,) for each resource; None for a policy without prices.

        In utility, at the prices of the last decision; None before it. Resources that no job asked for are left out.
        """
        return None

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Return what was committed for this slot."""
        return state.planned
