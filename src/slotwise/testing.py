"""For authors of policies: what is wrong with one, told in words, on small cases in which much can go wrong."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from slotwise.errors import SlotwiseError
from slotwise.events import (
    Admit,
    Command,
    Event,
    JobArrived,
    JobCancelled,
    JobCompleted,
    Launch,
    MachineJoined,
    MachineLost,
    Progressed,
    Reject,
    Resize,
    SlotOpened,
    Stop,
    record,
)
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Linear
from slotwise.optim.request import TOLERANCE
from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.scheduler import Scheduler
from slotwise.words import counted

__all__ = ["PolicyFault", "check_policy"]


class PolicyFault(AssertionError):
    """A policy breaks rules; the message lists all that were found."""

    def __init__(self, name: str, faults: Iterable[str]) -> None:
        self.faults = tuple(faults)
        listed = "\n".join(f"  {at}. {fault}" for at, fault in enumerate(self.faults, 1))
        count = f"{len(self.faults)} fault{'' if len(self.faults) == 1 else 's'}"
        super().__init__(f"policy {name}: {count}\n{listed}")


@dataclass(frozen=True, slots=True)
class _Case:
    """Jobs on a cluster, and what happens to them from outside."""

    name: str
    cluster: Cluster
    jobs: tuple[Job, ...]
    horizon: int = 60
    events: tuple[Event, ...] = ()
    """Cancellations and machines, each before its slot opens."""
    ends: bool = True
    """Whether everything can finish, so that a job that does not was forgotten."""


def check_policy(make: Callable[[], Policy] | Callable[[Cluster], Policy], *, takes_cluster: bool = False) -> None:
    """Play a policy through cases in which things go wrong, and tell its author what is.

    Parameters
    ----------
    make : callable
        Returns a new policy: a class, or ``lambda: MyPolicy(argument)``.
    takes_cluster : bool
        Whether ``make`` is called with the machines of each case, for a policy that needs to know them.

    Raises
    ------
    PolicyFault
        With all that was found: it cannot be made or has no name; it places what does not fit, is not active or is no
        configuration of the job; it leaves a job waiting on an idle cluster; it changes the state it may only read; it
        does not do the same twice under one seed, or draws from a global generator; an answer has the wrong type.

    Examples
    --------
    >>> from slotwise.testing import check_policy
    >>> from slotwise.policies.fifo import Fifo
    >>> check_policy(Fifo)
    """
    label = getattr(make, "__name__", repr(make))
    made = cast(Callable[[Cluster], Policy], make if takes_cluster else lambda _: cast(Callable[[], Policy], make)())
    cases = _cases()
    try:
        policy = made(cases[0].cluster)
    except Exception as error:
        raise PolicyFault(label, [f"cannot be made: {type(error).__name__}: {error}"]) from error
    if not isinstance(policy, Policy):
        raise PolicyFault(label, [f"is no subclass of slotwise.Policy, made {policy!r}"])
    if not isinstance(getattr(policy, "name", None), str) or not policy.name:
        raise PolicyFault(label, ["has no name: give the class an attribute name, a text"])
    faults = []
    if not type(policy).__doc__:
        faults.append("has no docstring: its first line says what it does, in lists of policies")
    found: dict[str, list[str]] = {}
    for case in cases:
        for fault in _play_twice(made, case):
            found.setdefault(fault, []).append(case.name)
    for fault, (first, *others) in found.items():
        faults.append(f"{first}: {fault}" + (f" (and in {counted(len(others), 'other case')})" if others else ""))
    if faults:
        raise PolicyFault(label, faults)


def _play_twice(make: Callable[[Cluster], Policy], case: _Case) -> list[str]:
    drawn = _global_draws()
    first = _Game(make(case.cluster), case)
    first.play()
    faults = list(dict.fromkeys(first.faults))
    if _global_draws() != drawn:
        faults.append("draws from a global random generator; take the one that it is given (rng)")
    second = _Game(make(case.cluster), case)
    second.play()
    if first.log != second.log:
        at = next(
            (i for i, (a, b) in enumerate(zip(first.log, second.log, strict=False)) if a != b),
            min(len(first.log), len(second.log)),
        )
        where = first.log[at]["slot"] if at < len(first.log) else case.horizon
        faults.append(f"slot {where}: did something else the second time, under the same seed")
    return faults


def _global_draws() -> bytes:
    return pickle.dumps((random.getstate(), np.random.get_state()))


class _Watched(Policy):
    """The policy under test, and what it does to what it may only read."""

    def __init__(self, inner: Policy, faults: list[str]) -> None:
        self.inner = inner
        self.faults = faults

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        before = _fingerprint(state)
        answer = self.inner.place(state, rng)
        self.compare(before, state, "place")
        if isinstance(answer, Mapping):
            for job in state.active:
                if job.id not in answer:
                    self.ask(job, state, answer)
        return answer

    def ask(self, job: Job, state: State, placed: Mapping[str, Placement]) -> None:
        """See that it has an answer to why a job waits."""
        try:
            said: Any = self.inner.waiting(job, state, placed)
        except Exception as error:
            self.faults.append(f"slot {state.slot}: waiting({job.id!r}) fails: {type(error).__name__}: {error}")
            return
        if not (
            isinstance(said, tuple) and len(said) == 2 and isinstance(said[0], Reason) and isinstance(said[1], str)
        ):
            self.faults.append(f"slot {state.slot}: waiting must return (Reason, text), got {said!r}")

    def compare(self, before: tuple[object, ...], state: State, method: str) -> None:
        """Note a change."""
        for name, old, new in zip(_PARTS, before, _fingerprint(state), strict=True):
            if old != new:
                self.faults.append(f"slot {state.slot}: {method} changes state.{name}, which it may only read")


class _WatchedCommitting(_Watched, CommitAtArrival):
    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Any:
        before = _fingerprint(state)
        decision = self.inner.admit(job, state, rng)
        self.compare(before, state, "admit")
        return decision

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Any:
        assert isinstance(self.inner, CommitAtArrival)
        return self.inner.replan(job, state, rng)


_PARTS = ("slot", "ledger", "jobs", "remaining", "running", "kept", "held")


def _fingerprint(state: State) -> tuple[object, ...]:
    return (
        state.slot,
        state.ledger.view.used.tobytes(),
        tuple(state.jobs),
        tuple(state.remaining.items()),
        tuple(state.running.items()),
        tuple(state.kept.items()),
        state.held.view.used.tobytes(),
    )


class _Game:
    """One case against one policy: a clock of its own, so that machines and owners can interfere."""

    def __init__(self, policy: Policy, case: _Case) -> None:
        self.case = case
        self.faults: list[str] = []
        self.log: list[dict[str, Any]] = []
        watch = _WatchedCommitting if isinstance(policy, CommitAtArrival) else _Watched
        watched = watch(policy, self.faults)
        watched.name = policy.name  # type: ignore[misc]  # each policy under test has its own
        self.scheduler = Scheduler(case.cluster, watched, slot_seconds=1.0, horizon=case.horizon)
        self.running: dict[str, Placement] = {}
        self.left: dict[str, float] = {}
        self.promised: dict[str, int] = {}

    def play(self) -> None:
        """Go through the slots; the first thing that the scheduler refuses ends the case."""
        slot = -1
        try:
            for slot in range(self.case.horizon):
                for job in self.case.jobs:
                    if job.arrival == slot:
                        self.left[job.id] = job.workload
                        self.tell(JobArrived(slot, job))
                for event in self.case.events:
                    if event.slot == slot and not (isinstance(event, JobCancelled) and event.job_id not in self.left):
                        if isinstance(event, JobCancelled):
                            del self.left[event.job_id]
                        self.tell(event)
                self.tell(SlotOpened(slot))
                self.train(slot)
        except SlotwiseError as error:
            self.faults.append(str(error))
        except Exception as error:
            self.faults.append(f"slot {slot}: {type(error).__name__}: {error}")
        else:
            if self.case.ends and self.left:
                waiting = ", ".join(self.left)
                self.faults.append(
                    f"has not finished {waiting} by slot {self.case.horizon}, for which there was room and time"
                )

    def tell(self, event: Event) -> None:
        """Hand over an event and carry out what comes back."""
        self.log.append(record(event))
        for command in self.scheduler.handle(event):
            self.log.append(record(command))
            self.obey(command)

    def obey(self, command: Command) -> None:
        """Carry out a command."""
        match command:
            case Admit(_, job_id, completion):
                if completion is not None:
                    self.promised[job_id] = completion
            case Reject(_, job_id):
                self.left.pop(job_id, None)
                self.running.pop(job_id, None)
            case Launch(_, job_id, placement) | Resize(_, job_id, placement):
                self.running[job_id] = placement
            case Stop(_, job_id):
                self.running.pop(job_id, None)

    def train(self, slot: int) -> None:
        """Train what runs for a slot."""
        for job_id, placement in list(self.running.items()):
            samples = self.scheduler.request(job_id).samples(placement)
            self.left[job_id] -= samples
            self.tell(Progressed(slot, job_id, samples))
            workload = next(job.workload for job in self.case.jobs if job.id == job_id)
            if self.left[job_id] <= TOLERANCE * workload:
                del self.left[job_id], self.running[job_id]
                if slot > self.promised.get(job_id, slot):
                    self.faults.append(f"promised {job_id} by slot {self.promised[job_id]}, it ended in slot {slot}")
                self.tell(JobCompleted(slot, job_id))


def _cases() -> list[_Case]:
    pair = Cluster.uniform(2, gpu=4, cpu=8)
    mixed = Cluster.of([Machine("big", {"gpu": 4, "cpu": 8}), Machine("plain", {"cpu": 16})], (2.0, 1.0))
    racks = Cluster.of(
        [Machine(f"m{i}", {"gpu": 2, "cpu": 4}, {"rack": "left" if i < 2 else "right"}) for i in range(4)],
        (4.0, 2.0, 1.0),
        ("machine", "rack", "cluster"),
    )
    crowd = tuple(_job(f"job-{i}", 3 + i % 4, 1 + i % 3, arrival=i // 3) for i in range(9))
    served = tuple(_job(f"job-{i}", 4 + i, 2 + i % 3, arrival=i // 2, served=True) for i in range(6))
    return [
        _Case("no job at all", pair, ()),
        _Case("one job on an idle cluster", pair, (_job("alone", 8, 4),)),
        _Case("one job that arrives late", pair, (_job("late", 4, 2, arrival=7),)),
        _Case("more jobs than fit at once", pair, crowd),
        _Case("equal jobs at once", pair, tuple(_job(f"twin-{i}", 5, 3) for i in range(5))),
        _Case("gangs of fixed size", pair, tuple(_job(f"gang-{i}", 9, 3, least=3) for i in range(4))),
        _Case("jobs with parameter servers", mixed, served),
        _Case("jobs on racks", racks, tuple(_job(f"job-{i}", 6, 3, arrival=i, served=i % 2 > 0) for i in range(5))),
        _Case(
            "a machine is lost and comes back",
            pair,
            crowd,
            events=(MachineLost(2, pair.names[0]), MachineJoined(6, pair.names[0])),
        ),
        _Case(
            "all machines are lost and come back",
            pair,
            crowd[:3],
            events=tuple(MachineLost(1, name) for name in pair.names)
            + tuple(MachineJoined(4, name) for name in pair.names),
            # Who promised has nothing left to promise then.
            ends=False,
        ),
        _Case("an owner takes a job back", pair, crowd, events=(JobCancelled(2, "job-1"), JobCancelled(3, "job-7"))),
        _Case("the horizon ends before the jobs do", pair, crowd, horizon=4, ends=False),
    ]


def _job(name: str, work: float, most: int, *, least: int = 1, arrival: int = 0, served: bool = False) -> Job:
    """Return a job of which one worker, on a GPU, trains one sample a slot."""
    return Job(
        id=name,
        arrival=arrival,
        workload=work,
        batch_size=most,
        worker_demand={"gpu": 1.0, "cpu": 1.0},
        server_demand={"cpu": 1.0} if served else {},
        speed=PaperSpeed(1.0, 0.0, 2.0) if served else AllReduceSpeed(1.0, 0.0),
        # Nothing but time costs it anything: whoever turns it away has no reason to.
        utility=Linear(1e6, 1e6),
        min_workers=least,
        max_workers=most,
    )
