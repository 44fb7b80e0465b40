"""The virtual clock around the scheduler: plays a workload and records what happened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.events import (
    Admit,
    Command,
    Event,
    JobArrived,
    JobCompleted,
    Launch,
    Progressed,
    Reject,
    Resize,
    SlotOpened,
    Stop,
)
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.optim.request import Request
from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.policies.catalogue import make
from slotwise.scheduler import Scheduler
from slotwise.sim.metrics import Recorder, Run

__all__ = ["simulate", "warm_up"]

Log = Callable[[Event | Command], None]
Watch = Callable[[int, Policy, State], None]


def simulate(
    policy: Policy | str,
    cluster: Cluster,
    jobs: Sequence[Job],
    *,
    horizon: int,
    slot_seconds: float,
    seed: int = 0,
    prices: str = "learnt",
    slot_solver: str = "sweep",
    rounding: Mapping[str, Any] | None = None,
    grid: int = 500,
    server_share: float = 0.2,
    log: Log | None = None,
    watch: Watch | None = None,
    progress: Callable[[int], None] | None = None,
) -> Run:
    """Play jobs against a policy on a virtual clock.

    Parameters
    ----------
    policy : Policy or str
        A new one for each run (policies learn), or a name such as ``"pdors"``.
    cluster : Cluster
        The machines.
    jobs : sequence of Job
        Jobs of one slot are decided in the order given.
    horizon : int
        Slots played, > every arrival.
    slot_seconds : float
        Length of a slot, > 0.
    seed : int
        For policies that draw.
    prices, slot_solver, rounding, grid, server_share
        For a policy given by name, see ``slotwise.policies.catalogue.make``.
    log : callable, optional
        Called with every event and command in order.
    watch : callable, optional
        Called with each slot, the policy and the state it reads, after the slot was played.
    progress : callable, optional
        Called with the number of slots played so far.

    Returns
    -------
    Run
        What became of every job, and figures.

    Raises
    ------
    InvalidInput
        If the horizon does not lie behind every arrival, a slot has no length, or an id occurs twice.
    """
    if horizon < 1:
        raise InvalidInput(f"horizon must be >= 1, got {horizon}")
    for job in jobs:
        if job.arrival >= horizon:
            raise InvalidInput(f"horizon must be > the arrival of job {job.id!r} ({job.arrival}), got {horizon}")
    if not (math.isfinite(slot_seconds) and slot_seconds > 0):
        raise InvalidInput(f"slot_seconds must be > 0 and finite, got {slot_seconds!r}")
    seen: set[str] = set()
    for job in jobs:
        if job.id in seen:
            raise InvalidInput(f"job ids must be unique, got {job.id!r} twice")
        seen.add(job.id)
    if isinstance(policy, str):
        policy = make(
            policy,
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
    if not isinstance(policy, Policy):
        raise InvalidInput(f"policy must be a name or an instance of Policy, got {policy!r}")
    if not isinstance(getattr(policy, "name", None), str):
        raise InvalidInput(f"policy {type(policy).__name__} must have a class attribute name, a text, it has none")
    world = _World(policy, cluster, horizon, slot_seconds, seed, log)
    arrivals = sorted(jobs, key=lambda job: job.arrival)
    at = 0
    for slot in range(horizon):
        while at < len(arrivals) and arrivals[at].arrival == slot:
            world.arrive(arrivals[at])
            at += 1
        world.play(slot)
        if watch is not None:
            watch(slot, policy, world.scheduler.state)
        if progress is not None:
            progress(slot + 1)
    return world.recorder.finish(policy.figures())


def warm_up(policy: str | type[Policy], slot_solver: str = "sweep") -> None:
    """Load the compiled kernels of a policy by a run of two jobs, so that the first decision is timed like any other.

    Takes a minute or two of CPU where none is compiled yet; then they are cached on disk.
    """
    cluster = Cluster.uniform(2, gpu=1, cpu=2)
    worker, server = {"gpu": 1.0, "cpu": 1.0}, {"cpu": 1.0}
    jobs = [
        Job("a", 0, 20.0, 2, worker, PaperSpeed(1.0, 1.0, 1.0), Sigmoid(10.0, 0.1, 2.0), server),
        Job("b", 0, 20.0, 2, worker, AllReduceSpeed(1.0, 1.0), Sigmoid(10.0, 0.1, 2.0)),
    ]
    player = policy if isinstance(policy, str) else policy()
    simulate(player, cluster, jobs, horizon=4, slot_seconds=10.0, slot_solver=slot_solver)


@dataclass(slots=True)
class _Active:
    """An admitted job that has not finished: how much it has trained, and how it runs now."""

    request: Request
    restart_seconds: float
    trained: float = 0.0
    samples: float = 0.0
    """In a slot, where it is now."""
    grains: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    """(R,) what it takes there."""
    alone: bool = False
    """Whether that is one machine."""


class _World:
    """What the simulator knows of the jobs that run: where, and how much is left."""

    def __init__(
        self, policy: Policy, cluster: Cluster, horizon: int, slot_seconds: float, seed: int, log: Log | None
    ) -> None:
        self.scheduler = Scheduler(cluster, policy, slot_seconds=slot_seconds, horizon=horizon, seed=seed)
        self.recorder = Recorder(policy.name, cluster, horizon, slot_seconds, seed)
        self._commits = isinstance(policy, CommitAtArrival)
        self._slot_seconds = slot_seconds
        self._active: dict[str, _Active] = {}
        self._running: dict[str, _Active] = {}
        self._moved: set[str] = set()
        # Whole numbers, so that sums are exact.
        self._grains = np.zeros(len(cluster.resources))
        self._log = log

    def _handle(self, event: Event) -> tuple[list[Command], float]:
        begin = time.perf_counter()
        commands = self.scheduler.handle(event)
        seconds = time.perf_counter() - begin
        self._note(event, commands)
        return commands, seconds

    def _tell(self, event: Event) -> None:
        self._note(event, self.scheduler.handle(event))

    def _note(self, event: Event, commands: list[Command]) -> None:
        if self._log is not None:
            self._log(event)
            for command in commands:
                self._log(command)

    def arrive(self, job: Job) -> None:
        """Submit a job and note the answer."""
        commands, seconds = self._handle(JobArrived(job.arrival, job))
        self.recorder.arrived(job)
        for command in commands:
            match command:
                case Admit():
                    self._active[job.id] = _Active(self.scheduler.request(job.id), job.restart_seconds)
                    self.recorder.admitted(
                        command, self.scheduler.schedules.get(job.id), seconds if self._commits else None
                    )
                case Reject():
                    hopeless = command.reason in (Reason.NEVER_FITS, Reason.HORIZON_ENDS)
                    self.recorder.rejected(command, seconds if self._commits and not hopeless else None)
                case _:
                    pass

    def play(self, slot: int) -> None:
        """Open a slot, carry out the commands, train, and report."""
        commands, seconds = self._handle(SlotOpened(slot))
        if not self._commits:
            self.recorder.decided(seconds)
        self._moved.clear()
        for command in commands:
            match command:
                case Launch(_, job_id, placement) | Resize(_, job_id, placement):
                    self._start(job_id, placement)
                    self._moved.add(job_id)
                case Stop(_, job_id):
                    self._stop(job_id)
                case _:
                    pass
        finished = []
        for job_id, active in self._running.items():
            samples = active.samples
            if active.restart_seconds > 0.0 and job_id not in self._moved:
                # Plans charge the restart in every slot; it is really lost only where the placement changed.
                samples *= self._slot_seconds / (self._slot_seconds - active.restart_seconds)
            active.trained += samples
            self.recorder.trained(slot, job_id, alone=active.alone)
            self._tell(Progressed(slot, job_id, samples))
            if active.trained >= active.request.needed:
                finished.append(job_id)
        self.recorder.played(self._grains, len(self._running), len(self._active) - len(self._running))
        for job_id in finished:
            request = self._active[job_id].request
            self.recorder.completed(slot, job_id, float(request.utility[slot - request.arrival]))
            self._stop(job_id)
            del self._active[job_id]
            self._tell(JobCompleted(slot, job_id))

    def _start(self, job_id: str, placement: Placement) -> None:
        """Let a job run there from now on."""
        active = self._active[job_id]
        if job_id in self._running:
            self._grains -= active.grains
        ask = active.request.ask
        active.samples = active.request.samples(placement)
        active.grains = placement.total_workers * ask.worker + placement.total_servers * ask.server
        active.alone = len(placement.machines) == 1
        self._grains += active.grains
        self._running[job_id] = active

    def _stop(self, job_id: str) -> None:
        """Let a job rest."""
        self._grains -= self._running.pop(job_id).grains
