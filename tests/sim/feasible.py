"""An independent checker of event logs: it knows jobs and machines, but no ledger, request or policy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

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
from slotwise.model.schedule import Placement

Steps = list[tuple[Event, list[Command]]]


def steps(log: Iterable[Event | Command]) -> Steps:
    """Group a log into events and what was answered to each."""
    out: Steps = []
    for item in log:
        if isinstance(item, Admit | Reject | Launch | Resize | Stop):
            out[-1][1].append(item)
        else:
            out.append((item, []))
    return out


def assert_feasible(cluster: Cluster, log: Iterable[Event | Command], slot_seconds: float) -> dict[str, int | None]:
    """Fail if any machine is overcommitted, any job runs in a form it may not have, or commands contradict each other.

    Returns the promises that stand at the end of the log.
    """
    return _Checker(cluster, slot_seconds).check(steps(log))


class _Checker:
    def __init__(self, cluster: Cluster, slot_seconds: float) -> None:
        self.cluster = cluster
        self.slot_seconds = slot_seconds
        self.slot = -1
        self.lost: set[str] = set()
        self.arrived: dict[str, Job] = {}
        self.promised: dict[str, int | None] = {}
        self.running: dict[str, Placement] = {}
        self.moved: set[str] = set()
        self.trained: dict[str, float] = {}
        self.over: set[str] = set()

    def check(self, groups: Sequence[tuple[Event, list[Command]]]) -> dict[str, int | None]:
        for event, commands in groups:
            self._before(event)
            for command in commands:
                self._apply(event, command)
            if isinstance(event, SlotOpened):
                self._check_slot()
            if isinstance(event, JobArrived):
                assert len(commands) == 1
                assert isinstance(commands[0], Admit | Reject)
        return self.promised

    def _before(self, event: Event) -> None:
        match event:
            case JobArrived(slot, job):
                assert job.id not in self.arrived, f"{job.id} arrived twice"
                assert slot >= job.arrival
                self.arrived[job.id] = job
            case SlotOpened(slot):
                assert slot > self.slot, f"slot {slot} after slot {self.slot}"
                self.slot = slot
                self.moved.clear()
            case Progressed(slot, job_id, samples):
                assert slot == self.slot
                expected = self._samples(job_id, self.running[job_id])
                assert math.isclose(samples, expected, rel_tol=1e-9), f"{job_id} trained {samples}, not {expected}"
                self.trained[job_id] = self.trained.get(job_id, 0.0) + samples
            case JobCompleted(slot, job_id):
                assert slot == self.slot
                assert self.trained[job_id] >= self.arrived[job_id].workload * (1.0 - 1e-9)
                last = self._samples(job_id, self.running.pop(job_id))
                assert self.trained[job_id] - last < self.arrived[job_id].workload, f"{job_id} was done before"
                self.over.add(job_id)
            case JobCancelled(_, job_id):
                self.over.add(job_id)
                self.promised.pop(job_id, None)
            case MachineLost(_, machine):
                self.lost.add(machine)
            case MachineJoined(_, machine):
                self.lost.remove(machine)

    def _apply(self, event: Event, command: Command) -> None:
        match command:
            case Admit(_, job_id, completion):
                assert isinstance(event, JobArrived | MachineLost)
                self.promised[job_id] = completion
            case Reject(_, job_id, _, detail):
                assert isinstance(event, JobArrived | MachineLost)
                assert detail, f"{job_id} was turned away without a word"
                self.over.add(job_id)
                self.promised.pop(job_id, None)
            case Launch(slot, job_id, placement):
                assert isinstance(event, SlotOpened)
                assert slot == self.slot
                assert job_id not in self.running, f"{job_id} runs already"
                assert job_id in self.promised, f"{job_id} was not admitted"
                assert job_id not in self.over, f"{job_id} has ended"
                self.running[job_id] = placement
                self.moved.add(job_id)
            case Resize(slot, job_id, placement):
                assert isinstance(event, SlotOpened)
                assert slot == self.slot
                assert placement != self.running[job_id], f"{job_id} is resized to what it has"
                self.running[job_id] = placement
                self.moved.add(job_id)
            case Stop(_, job_id):
                assert isinstance(event, SlotOpened | JobCancelled | MachineLost)
                del self.running[job_id]

    def _check_slot(self) -> None:
        use: dict[tuple[int, str], float] = {}
        for job_id, placement in self.running.items():
            job = self.arrived[job_id]
            assert job.arrival <= self.slot
            assert list(placement.machines) == sorted(set(placement.machines))
            total = placement.total_workers
            assert job.min_workers <= total <= job.most_workers, f"{job_id} runs with {total} workers"
            assert placement.total_servers in job.speed.pairs(total, total, job.max_servers)[1].tolist()
            for machine, workers, servers in zip(placement.machines, placement.workers, placement.servers, strict=True):
                assert min(workers, servers) >= 0
                assert workers + servers > 0
                assert self.cluster.names[machine] not in self.lost, f"{job_id} runs on a lost machine"
                for count, demand in ((workers, job.worker_demand), (servers, job.server_demand)):
                    for resource, amount in demand.items():
                        if count and amount:
                            key = machine, resource
                            use[key] = use.get(key, 0.0) + count * amount
        for (machine, resource), amount in use.items():
            has = self.cluster.capacity[machine, self.cluster.resources.index(resource)]
            assert amount <= has * (1.0 + 1e-12) + 1e-9, (
                f"slot {self.slot}: {self.cluster.names[machine]} holds {amount} of {has} {resource}"
            )

    def _samples(self, job_id: str, placement: Placement) -> float:
        job = self.arrived[job_id]
        level = self.cluster.level(placement.machines)
        widest = len(self.cluster.levels) - 1 if job.domain is None else self.cluster.levels.index(job.domain)
        assert level <= widest, f"{job_id} leaves its {job.domain}"
        counts = np.array([placement.total_workers]), np.array([placement.total_servers])
        slower = self.cluster.bandwidth[level : widest + 1]
        seconds = self.slot_seconds - (job.restart_seconds if job_id in self.moved else 0.0)
        return max(float(job.speed.samples_per_second(*counts, job.batch_size, b)[0]) for b in slower) * seconds
