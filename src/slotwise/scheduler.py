"""The scheduler: events in, commands out. No clock, no I/O, no randomness but the policy's seeded one."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType

import numpy as np

from slotwise.errors import Overcommitted, SlotwiseError
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
)
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Decision, Placement, Reason, Schedule
from slotwise.optim.request import TOLERANCE, Request, Surveyor
from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.words import counted

__all__ = ["Scheduler"]


class Scheduler:
    """A state machine: replaying the same events gives the same commands and the same state.

    Parameters
    ----------
    cluster : Cluster
        The machines.
    policy : Policy
        Who decides.
    slot_seconds : float
        Length of a slot.
    horizon : int
        Slots of a fixed horizon; with ``rolling``, how many slots ahead are planned.
    rolling : bool
        Whether the horizon moves on with time.
    seed : int
        For policies that draw.
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: Policy,
        *,
        slot_seconds: float,
        horizon: int,
        rolling: bool = False,
        seed: int = 0,
    ) -> None:
        self.policy = policy
        self._rng = np.random.default_rng(np.random.SeedSequence([seed, 1]))
        self._surveyor = Surveyor(cluster, slot_seconds)
        self._ledger = Ledger(cluster, horizon, rolling=rolling)
        self._jobs: dict[str, Job] = {}
        self._requests: dict[str, Request] = {}
        self._remaining: dict[str, float] = {}
        self._running: dict[str, Placement] = {}
        # What a policy that places slot by slot has placed, and what it takes.
        self._kept: dict[str, Placement] = {}
        self._held = Ledger(cluster, 1)
        self._seen: set[str] = set()
        self._schedules: dict[str, Schedule] = {}
        self._agenda: dict[int, dict[str, Placement]] = {}
        self._lost: dict[str, int] = {}
        self._index = {name: machine for machine, name in enumerate(cluster.names)}
        self.state = State(
            cluster=cluster,
            slot_seconds=slot_seconds,
            slot=0,
            ledger=self._ledger,
            jobs=self._jobs,
            requests=self._requests,
            remaining=self._remaining,
            running=self._running,
            planned={},
            kept=MappingProxyType(self._kept),
            held=self._held,
        )

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """Committed schedules of jobs that have not finished."""
        return self._schedules

    def request(self, job_id: str) -> Request:
        """Return an active job in arrays."""
        return self._requests[job_id]

    def survey(self, job: Job) -> Request:
        """Return what a job would be to this scheduler, without deciding on it."""
        return self._surveyor.survey(job, self._ledger.end)

    def handle(self, event: Event) -> list[Command]:
        """Take in one event and return what is to be done.

        Raises
        ------
        SlotwiseError
            If the event cannot follow on what came before; the state is then unchanged. Or if the policy breaks a rule:
            then nothing that it asked for is committed, but time may have moved on to the slot of the event.
        """
        match event:
            case JobArrived(slot, job):
                return self._arrive(slot, job)
            case SlotOpened(slot):
                return self._open(slot)
            case Progressed(_, job_id, samples):
                self._known(job_id, event)
                self._opened(event)
                self._remaining[job_id] = max(0.0, self._remaining[job_id] - samples)
                return []
            case JobCompleted(slot, job_id):
                self._known(job_id, event)
                self._opened(event)
                self._forget(job_id, max(slot + 1, self._ledger.origin))
                return []
            case JobCancelled(slot, job_id):
                self._known(job_id, event)
                runs = job_id in self._running
                self._forget(job_id, self.state.slot)
                return [Stop(slot, job_id)] if runs else []
            case MachineLost(slot, machine):
                return self._lose(slot, machine)
            case MachineJoined(slot, machine):
                if machine not in self._lost:
                    raise SlotwiseError(f"slot {slot}: machine {machine!r} is not lost")
                index = self._lost.pop(machine)
                self._ledger.join(index)
                self._held.join(index)
                return []

    def _known(self, job_id: str, event: Event) -> None:
        if job_id not in self._jobs:
            raise SlotwiseError(f"slot {event.slot}: {type(event).__name__} of job {job_id!r}, which is not active")

    def _opened(self, event: Event) -> None:
        if event.slot >= self.state.slot:
            raise SlotwiseError(f"slot {event.slot}: {type(event).__name__} in a slot that is not open yet")

    def _arrive(self, slot: int, job: Job) -> list[Command]:
        if job.id in self._seen:
            raise SlotwiseError(f"slot {slot}: job {job.id!r} arrived before; ids must be unique")
        if not job.arrival <= slot < self._ledger.end:
            raise SlotwiseError(
                f"slot {slot}: job {job.id!r} must arrive in {job.arrival} ... {self._ledger.end - 1} "
                "(the horizon's last slot)"
            )
        request = self._surveyor.survey(job, self._ledger.end)
        before = self.state.slot
        self.state.slot = max(before, slot)
        if request.reason is not None:
            self._seen.add(job.id)
            return [Reject(slot, job.id, request.reason, request.detail)]
        self._requests[job.id] = request
        try:
            decision = self.policy.admit(job, self.state, self._rng)
            if not isinstance(decision, Decision):
                raise SlotwiseError(f"policy {self.policy.name!r}: admit must return a Decision, got {decision!r}")
            if decision.admitted and decision.schedule is not None:
                self._commit(job.id, decision.schedule, request)
        except Exception:
            del self._requests[job.id]
            self.state.slot = before
            raise
        self._seen.add(job.id)
        if not decision.admitted:
            del self._requests[job.id]
            return [Reject(slot, job.id, decision.reason or Reason.PRICED_OUT, decision.detail)]
        self._jobs[job.id] = job
        self._remaining[job.id] = job.workload
        promise = decision.schedule.completion if decision.schedule is not None else None
        return [Admit(slot, job.id, promise, decision.utility, decision.cost)]

    def _commit(self, job_id: str, schedule: Schedule, request: Request) -> None:
        """Hold a schedule; the ledger checks that nothing is overcommitted, whatever the policy believed."""
        if not schedule.slots or any(later <= slot for slot, later in pairwise(schedule.slots)):
            raise SlotwiseError(
                f"policy {self.policy.name!r}: job {job_id!r}: a schedule must have rising slots, got {schedule.slots}"
            )
        if schedule.slots[0] < self.state.slot:
            raise SlotwiseError(
                f"policy {self.policy.name!r}: job {job_id!r} must start in slot {self.state.slot} or later, "
                f"got {schedule.slots[0]}"
            )
        for slot, placement in zip(schedule.slots, schedule.placements, strict=True):
            self._check(job_id, placement, slot)
        try:
            self._ledger.commit(schedule.slots, schedule.placements, request.ask.worker, request.ask.server)
        except Overcommitted as error:
            raise Overcommitted(f"policy {self.policy.name!r}: job {job_id!r}: {error}") from None
        self._schedules[job_id] = schedule
        for slot, placement in zip(schedule.slots, schedule.placements, strict=True):
            self._agenda.setdefault(slot, {})[job_id] = placement

    def _check(self, job_id: str, placement: Placement, slot: int) -> None:
        """Refuse a placement that names no machine of the cluster (kernels would not), or that is no configuration."""
        machines = placement.machines
        if (
            not len(machines) == len(placement.workers) == len(placement.servers) > 0
            or machines[0] < 0
            or machines[-1] >= len(self.state.cluster)
            or any(later <= machine for machine, later in pairwise(machines))
            or any(min(w, s) < 0 or w + s == 0 for w, s in zip(placement.workers, placement.servers, strict=True))
        ):
            raise SlotwiseError(
                f"policy {self.policy.name!r}: slot {slot}: job {job_id!r} must have >= 1 worker or server on each of "
                f"its machines, rising in 0 ... {len(self.state.cluster) - 1}, got {placement}"
            )
        if self._requests[job_id].samples(placement) <= 0.0:
            raise SlotwiseError(
                f"policy {self.policy.name!r}: slot {slot}: job {job_id!r} cannot run with "
                f"{counted(placement.total_workers, 'worker')} and {counted(placement.total_servers, 'server')}"
            )

    def _open(self, slot: int) -> list[Command]:
        if slot < self.state.slot:
            raise SlotwiseError(f"slot {slot} cannot be opened, the next one is {self.state.slot}")
        if slot >= self._ledger.end:
            raise SlotwiseError(f"slot {slot} cannot be opened, the horizon ends before slot {self._ledger.end}")
        due, planned = self.state.slot, self.state.planned
        self.state.slot = slot
        self._ledger.advance(slot)
        for passed in [s for s in self._agenda if s < slot]:
            del self._agenda[passed]
        self.state.planned = self._agenda.get(slot, {})
        try:
            answer = self.policy.place(self.state, self._rng)
            if not isinstance(answer, Mapping):
                raise SlotwiseError(
                    f"policy {self.policy.name!r}: place must return a mapping of job ids to placements, got {answer!r}"
                )
            placed = dict(answer)
            self._keep({} if placed == self.state.planned else placed, slot)
        except Exception:
            self.state.slot, self.state.planned = due, planned
            raise
        commands: list[Command] = [Stop(slot, job_id) for job_id in self._running if job_id not in placed]
        for job_id, placement in placed.items():
            before = self._running.get(job_id)
            if before is None:
                commands.append(Launch(slot, job_id, placement))
            elif before != placement:
                commands.append(Resize(slot, job_id, placement))
        self._running.clear()
        self._running.update(placed)
        self.state.slot = slot + 1
        return commands

    def _keep(self, placed: Mapping[str, Placement], slot: int) -> None:
        """Hold what a policy places slot by slot, all or nothing; what was committed at arrival was checked then."""
        fresh = {job_id: placement for job_id, placement in placed.items() if self._kept.get(job_id) != placement}
        for job_id, placement in fresh.items():
            if job_id not in self._jobs:
                raise SlotwiseError(f"policy {self.policy.name!r}: slot {slot}: places {job_id!r}, which is not active")
            self._check(job_id, placement, slot)
        before = dict(self._kept)
        for job_id in [job_id for job_id in before if job_id in fresh or job_id not in placed]:
            self._let_go(job_id)
        try:
            for job_id, placement in fresh.items():
                self._take(job_id, placement)
        except Overcommitted as error:
            for job_id in [job_id for job_id in fresh if job_id in self._kept]:
                self._let_go(job_id)
            for job_id, placement in before.items():
                if job_id not in self._kept:
                    self._take(job_id, placement)
            # In the order in which they were.
            self._kept.clear()
            self._kept.update(before)
            raise Overcommitted(f"policy {self.policy.name!r}: slot {slot}: {error}") from None

    def _take(self, job_id: str, placement: Placement) -> None:
        ask = self._requests[job_id].ask
        self._held.commit([0], [placement], ask.worker, ask.server)
        self._kept[job_id] = placement

    def _let_go(self, job_id: str) -> None:
        ask = self._requests[job_id].ask
        self._held.release([0], [self._kept.pop(job_id)], ask.worker, ask.server)

    def _forget(self, job_id: str, free_from: int) -> None:
        self._release(job_id, free_from)
        if job_id in self._kept:
            self._let_go(job_id)
        for table in (self._jobs, self._requests, self._remaining, self._running):
            table.pop(job_id, None)

    def _release(self, job_id: str, free_from: int) -> None:
        """Give back what a job was promised from a slot on."""
        schedule = self._schedules.pop(job_id, None)
        if schedule is None:
            return
        later = [(s, p) for s, p in zip(schedule.slots, schedule.placements, strict=True) if s >= free_from]
        ask = self._requests[job_id].ask
        self._ledger.release([s for s, _ in later], [p for _, p in later], ask.worker, ask.server)
        for slot, _ in later:
            self._agenda[slot].pop(job_id)

    def _lose(self, slot: int, machine: str) -> list[Command]:
        """Take a machine away; jobs that were promised a place on it are planned anew, in order of arrival."""
        if machine not in self._index or machine in self._lost:
            known = "is lost already" if machine in self._lost else "is not of this cluster"
            raise SlotwiseError(f"slot {slot}: machine {machine!r} {known}")
        index = self._index[machine]
        hit = [
            job_id
            for job_id in self._jobs
            if (schedule := self._schedules.get(job_id)) is not None
            and any(
                index in p.machines
                for s, p in zip(schedule.slots, schedule.placements, strict=True)
                if s >= self.state.slot
            )
        ]
        for job_id in hit:
            self._release(job_id, self.state.slot)
        for job_id in [job_id for job_id, placement in self._kept.items() if index in placement.machines]:
            self._let_go(job_id)
        self._held.lose(index)
        self._ledger.lose(index)
        self._lost[machine] = index
        commands: list[Command] = []
        for job_id in hit:
            commands += self._replan(slot, job_id)
        return commands

    def _replan(self, slot: int, job_id: str) -> list[Command]:
        assert isinstance(self.policy, CommitAtArrival)  # only these have schedules
        if self._remaining[job_id] <= TOLERANCE * self._jobs[job_id].workload:
            return []  # trained already: nothing is left to plan, its JobCompleted is on the way
        decision = self.policy.replan(self._jobs[job_id], self.state, self._rng)
        if decision.admitted and decision.schedule is not None:
            self._commit(job_id, decision.schedule, self._requests[job_id])
            return [Admit(slot, job_id, decision.schedule.completion, decision.utility, decision.cost)]
        runs = job_id in self._running
        self._forget(job_id, self.state.slot)
        out: list[Command] = [Stop(slot, job_id)] if runs else []
        return [*out, Reject(slot, job_id, Reason.MACHINE_LOST, decision.detail)]
