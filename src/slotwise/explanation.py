"""Why one job was answered as it was, or waits: its decision is made once more, and asked."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Decision, Placement, Reason
from slotwise.model.utility import Deadline, Linear, Sigmoid, Utility
from slotwise.optim.planner import Plan
from slotwise.optim.request import Request
from slotwise.policies import catalogue
from slotwise.policies._base import CommitAtArrival, Policy, State, Terms
from slotwise.sim.metrics import JobRecord
from slotwise.sim.simulator import simulate
from slotwise.words import counted, hint

__all__ = ["Completion", "Explanation", "Wait", "WhatIf", "explain"]

_MOST_COMPLETIONS = 24
"""Completion slots that are looked at, evenly over those in which the job is worth something."""
_STEPS = 14
"""Of a bisection over a workload: to a ten thousandth."""
_LARGEST_FACTOR = 1e3
"""A value beyond this many times the job's own is none that an owner could give it."""
_MARGIN = 1e-6
"""By which a payoff is made to be positive."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What finishing by one slot would be worth, and would cost at least.

    Attributes
    ----------
    slot : int
        Last slot.
    utility : float
        Of finishing in it.
    cost : float, optional
        Of the cheapest plan that ends in it or before; None if what is free trains too little until then.
    """

    slot: int
    utility: float
    cost: float | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A change of the job that would have let it in, at the prices and with the machines of the decision.

    Attributes
    ----------
    change : str
        ``value``, ``target`` or ``workload``.
    was, needed : float
        The job's own, and the least (of a workload the most) that would do: utility, slots since arrival, samples.
    """

    change: str
    was: float
    needed: float


@dataclass(frozen=True, slots=True)
class Wait:
    """A run of slots in which the job was in and did not run, for one reason.

    Attributes
    ----------
    first, last : int
        Slots.
    reason : Reason
        In one code.
    detail : str
        With numbers, of the last of these slots.
    """

    first: int
    last: int
    reason: Reason
    detail: str


@dataclass(slots=True)
class Explanation:
    """One job's decision.

    Attributes
    ----------
    job : Job
        The job.
    policy : str
        That decided.
    record : JobRecord
        What became of it; of a policy that commits at arrival, up to the decision.
    horizon : int
        Slots played.
    completions : list of Completion
        At each slot in which it could finish and be worth something, or some of them.
    completion_slots : int
        How many such slots there are.
    plan : Plan, optional
        The best plan, whether it pays or not.
    dearest : list of (str, float)
        Share of each resource in the cost of that plan, the dearest first.
    dearest_slot : int, optional
        Slot of that plan in which it pays most.
    changes : list of WhatIf
        What would have let a rejected job in.
    waits : list of Wait
        With a policy that places slot by slot.
    workers : list of int
        With such a policy, its workers in each slot in which it ran.
    trained : float, optional
        With such a policy, the share of its samples that it had trained when the last slot opened.
    machine_cost : float, optional
        With a policy that has prices, what a mean machine costs a slot at them if it is empty, far ahead.
    """

    job: Job
    policy: str
    record: JobRecord
    horizon: int
    completions: list[Completion] = field(default_factory=list)
    completion_slots: int = 0
    plan: Plan | None = None
    dearest: list[tuple[str, float]] = field(default_factory=list)
    dearest_slot: int | None = None
    changes: list[WhatIf] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    trained: float | None = None
    machine_cost: float | None = None


def explain(
    policy: str | Policy,
    cluster: Cluster,
    jobs: Sequence[Job],
    job_id: str,
    *,
    horizon: int,
    slot_seconds: float,
    seed: int = 0,
    prices: str = "learnt",
    slot_solver: str = "sweep",
    rounding: Mapping[str, Any] | None = None,
    grid: int = 500,
    server_share: float = 0.2,
) -> Explanation:
    """Play a run again up to where one job is understood.

    Parameters
    ----------
    policy : str or Policy
        Its name, see ``slotwise policies``; or a new one.
    cluster : Cluster
        The machines.
    jobs : sequence of Job
        All of the run.
    job_id : str
        Which one.
    horizon, slot_seconds, seed
        As of the run.
    prices, slot_solver, rounding, grid, server_share
        For a policy given by name.

    Returns
    -------
    Explanation
        The decision with its reasons.

    Raises
    ------
    InvalidInput
        If there is no such job, or an argument is out of its bounds.

    Examples
    --------
    >>> import slotwise
    >>> drawn = slotwise.paper(jobs=40, machines=10, horizon=20, seed=0)
    >>> found = slotwise.explain(
    ...     "pdors", drawn.cluster, drawn.jobs, "job-0013", horizon=20, slot_seconds=drawn.slot_seconds
    ... )
    >>> found.record.admitted
    True
    """
    order = sorted(jobs, key=lambda job: job.arrival)
    at = next((i for i, job in enumerate(order) if job.id == job_id), None)
    if at is None:
        ids = [job.id for job in order]
        raise InvalidInput(
            f"job must be one of the {counted(len(order), 'job')} of the run, got {job_id!r}{hint(job_id, ids)}"
        )
    inner = policy
    if isinstance(inner, str):
        inner = catalogue.make(
            inner,
            cluster,
            jobs,
            slot_seconds=slot_seconds,
            horizon=horizon,
            prices=prices,
            slot_solver=slot_solver,
            rounding=rounding,
            grid=grid,
            server_share=server_share,
            seed=seed,
        )
    job = order[at]
    commits = isinstance(inner, CommitAtArrival)
    seen: _Asking = _AskingAtArrival(inner, job) if commits else _Asking(inner, job)
    # Who comes later changes nothing for who was promised a plan.
    played = order[: at + 1] if commits else order
    run = simulate(seen, cluster, played, horizon=horizon, slot_seconds=slot_seconds, seed=seed)
    name = policy if isinstance(policy, str) else policy.name
    found = Explanation(job, name, run.records[job_id], horizon)
    seen.tell(found)
    return found


class _Asking(Policy):
    """A policy that places slot by slot, asked in each slot why one job waits."""

    name = "asking"

    def __init__(self, inner: Policy, job: Job) -> None:
        self.inner = inner
        self.job = job
        self.waits: list[Wait] = []
        self.workers: list[int] = []
        self.left: float | None = None

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Let the policy decide."""
        return self.inner.admit(job, state, rng)

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Let the policy place, and ask."""
        placed = self.inner.place(state, rng)
        self.left = state.remaining.get(self.job.id, self.left)
        if self.job.id in state.jobs and self.job.id not in placed:
            reason, detail = self.inner.waiting(self.job, state, placed)
            before = self.waits[-1] if self.waits else None
            same = before is not None and (before.reason, _but_numbers(before.detail)) == (reason, _but_numbers(detail))
            if before is not None and same and before.last == state.slot - 1:
                self.waits[-1] = Wait(before.first, state.slot, reason, detail)
            else:
                self.waits.append(Wait(state.slot, state.slot, reason, detail))
        if self.job.id in placed:
            self.workers.append(placed[self.job.id].total_workers)
        return placed

    def tell(self, found: Explanation) -> None:
        """Write down what was learnt."""
        found.waits, found.workers = self.waits, self.workers
        if self.left is not None:
            found.trained = 1.0 if found.record.completed is not None else 1.0 - self.left / self.job.workload


def _but_numbers(detail: str) -> str:
    """Return a text without numbers and plurals, names in quotes aside: what makes two waits different."""
    parts = detail.split("'")
    return "'".join(re.sub(r"[0-9.]+|s\b", "", part) if at % 2 == 0 else part for at, part in enumerate(parts))


class _AskingAtArrival(_Asking, CommitAtArrival):
    """A policy that commits at arrival, asked at the decision on one job."""

    def __init__(self, inner: Policy, job: Job) -> None:
        super().__init__(inner, job)
        self._learnt: Callable[[Explanation], None] | None = None

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Let the policy decide, and look at what it saw."""
        decision = self.inner.admit(job, state, rng)
        assert isinstance(self.inner, CommitAtArrival)
        if job.id == self.job.id and (terms := self.inner.terms(state)) is not None:
            # Answered now: the state is another one later.
            self._learnt = _Question(job, terms, state.slot).answer(admitted=decision.admitted)
        return decision

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Let the policy decide."""
        assert isinstance(self.inner, CommitAtArrival)
        return self.inner.replan(job, state, rng)

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Return what was committed."""
        return state.planned

    def tell(self, found: Explanation) -> None:
        """Write down what was learnt."""
        if self._learnt is not None:
            self._learnt(found)


class _Question:
    """One decision of a policy with prices: what would it have answered to a slightly different job."""

    def __init__(self, job: Job, terms: Terms, slot: int) -> None:
        self.job = job
        self.terms = terms
        self.slot = slot
        self.request = terms.survey(job)

    def plan(self, request: Request) -> Plan | None:
        """Return the best plan, whether it pays or not."""
        terms = self.terms
        return terms.planner.plan(request, terms.ledger, terms.prices, first=self.slot, at_least=-math.inf)

    def pays(self, job: Job) -> bool:
        """Whether another job would have been let in, at these prices."""
        request = self.terms.survey(job)
        if request.reason is not None or request.bid.utility <= 0.0:
            return False
        plan = self.plan(request)
        return plan is not None and plan.payoff > _MARGIN * plan.utility

    def answer(self, *, admitted: bool) -> Callable[[Explanation], None]:
        """Ask all that there is to ask; return what writes it down."""
        completions, completion_slots = self.completions()
        plan = self.plan(self.request)
        dearest, slot = self.dearest(plan)
        with np.errstate(over="ignore"):
            machine_cost = float(np.exp(self.terms.prices.log_low) @ self.terms.ledger.cluster.mean_capacity)
        changes = [] if admitted else [change for change in (self.value(), self.target(), self.workload()) if change]

        def write(found: Explanation) -> None:
            found.completions, found.plan, found.changes = completions, plan, changes
            found.completion_slots = completion_slots
            found.dearest, found.dearest_slot = dearest, slot
            found.machine_cost = machine_cost

        return write

    def completions(self) -> tuple[list[Completion], int]:
        """Return what finishing by a slot costs at least, for slots in which it is worth something; and how many."""
        request = self.request
        behind = self.slot - request.arrival
        worth = int(np.count_nonzero(request.utility > 0))
        earliest = behind + request.fewest_slots - 1
        if worth <= earliest:
            return [], 0
        count = min(_MOST_COMPLETIONS, worth - earliest)
        delays = np.unique(np.linspace(earliest, worth - 1, count).round().astype(int)).tolist()
        out = []
        for delay in delays:
            # All completions up to it are worth the same: the best plan is the cheapest.
            level = float(request.utility[0])
            by_then = dataclasses.replace(request, utility=np.full(delay + 1, level))
            plan = self.plan(by_then)
            utility = float(request.utility[delay])
            out.append(Completion(request.arrival + delay, utility, None if plan is None else plan.cost))
        return out, worth - earliest

    def dearest(self, plan: Plan | None) -> tuple[list[tuple[str, float]], int | None]:
        """Return the share of each resource in the cost of a plan, and the slot in which it pays most."""
        if plan is None or plan.cost <= 0:
            return [], None
        ask, ledger, prices = self.request.ask, self.terms.ledger, self.terms.prices
        resources = ledger.cluster.resources
        paid = np.zeros(len(resources))
        by_slot = {}
        for slot, placement in zip(plan.schedule.slots, plan.schedule.placements, strict=True):
            machines = np.array(placement.machines)
            price = prices.at(ledger.used(slot)[machines], ledger.view.capacity[machines], slot)
            amounts = np.outer(placement.workers, ask.worker_amount) + np.outer(placement.servers, ask.server_amount)
            here = (price * amounts).sum(axis=0)
            paid += here
            by_slot[slot] = float(here.sum())
        total = float(paid.sum())
        order = np.argsort(-paid, kind="stable").tolist()
        shares = [(resources[r], float(paid[r] / total)) for r in order if paid[r] > 0]
        return shares, max(by_slot, key=lambda slot: (by_slot[slot], -slot))

    def value(self) -> WhatIf | None:
        """Return the least value: the smallest cost over utility of any plan, found by raising it step by step."""
        plan = self.plan(self.request)
        if plan is None or plan.utility <= 0:
            return None
        factor = math.inf
        # Each step takes the best plan at a factor; where it does not pay its own ratio is a better factor.
        scaled = self.request
        for _ in range(_STEPS):
            ratio = plan.cost / (plan.utility / (1.0 if math.isinf(factor) else factor))
            if ratio >= factor * (1.0 - 1e-9):
                break
            factor = ratio
            scaled = dataclasses.replace(self.request, utility=self.request.utility * factor)
            again = self.plan(scaled)
            if again is None:
                break
            plan = again
        was = _value_of(self.job.utility)
        if was is None or factor > _LARGEST_FACTOR:
            return None
        return self.verified(was, factor * (1.0 + 2.0 * _MARGIN))

    def verified(self, was: float, factor: float) -> WhatIf | None:
        """Return the least factor near one that does: at another utility the planner may take another plan."""

        def worth(times: float) -> Job:
            utility = self.job.utility
            assert isinstance(utility, Sigmoid | Linear | Deadline)
            return dataclasses.replace(self.job, utility=dataclasses.replace(utility, value=was * times))

        fails, does = 1.0, factor
        while not self.pays(worth(does)):
            fails, does = does, does * 1.25
            if does > _LARGEST_FACTOR:
                return None
        if does > factor:
            for _ in range(_STEPS):
                middle = (fails + does) / 2.0
                fails, does = (fails, middle) if self.pays(worth(middle)) else (middle, does)
        return WhatIf("value", was, was * does)

    def target(self) -> WhatIf | None:
        """Return the earliest later target that would do; None if none does."""
        utility = self.job.utility
        last = self.terms.ledger.end - self.job.arrival

        def later(slots: int) -> Job:
            return dataclasses.replace(self.job, utility=_moved(utility, slots))

        low = max(0, math.ceil(utility.target))
        if _moved(utility, 1) == utility or low >= last or not self.pays(later(last - low)):
            return None
        fails, does = 0, last - low
        while does - fails > 1:
            middle = (fails + does) // 2
            fails, does = (fails, middle) if self.pays(later(middle)) else (middle, does)
        return WhatIf("target", utility.target, utility.target + does)

    def workload(self) -> WhatIf | None:
        """Return the largest smaller workload that would do; None if none does."""

        def smaller(share: float) -> Job:
            return dataclasses.replace(self.job, workload=self.job.workload * share)

        does, fails = 0.0, 1.0
        for _ in range(_STEPS):
            middle = (does + fails) / 2.0
            does, fails = (middle, fails) if self.pays(smaller(middle)) else (does, middle)
        return WhatIf("workload", self.job.workload, self.job.workload * does) if does > 0 else None


def _value_of(utility: Utility) -> float | None:
    return utility.value if isinstance(utility, Sigmoid | Linear | Deadline) else None


def _moved(utility: Utility, slots: int) -> Utility:
    """Return a utility whose target is so many slots later; the same where it has none to move."""
    match utility:
        case Sigmoid() if utility.urgency > 0:
            return dataclasses.replace(utility, target=utility.target + slots)
        case Deadline():
            return dataclasses.replace(utility, target=utility.target + slots)
        case Linear():
            # Its target is where half is left.
            return dataclasses.replace(utility, end=utility.end + 2.0 * slots)
        case _:
            return utility
