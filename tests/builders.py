"""Tiny jobs and clusters whose arithmetic can be done by hand.

A slot is one second long unless a test says otherwise, and one worker trains one sample a second, so that a workload
is in worker-slots.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotwise.events import Admit, Command, Event, JobCompleted, Launch, Reject, Resize, Stop
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.schedule import Placement
from slotwise.model.speed import AllReduceSpeed, PaperSpeed, SpeedModel
from slotwise.model.utility import Linear, Utility
from slotwise.policies import catalogue
from slotwise.policies._base import Policy
from slotwise.sim.metrics import Run
from slotwise.sim.simulator import simulate
from slotwise.workloads.synthetic import paper

POLICIES = catalogue.NAMES

ANYWHERE = tuple(name for name in POLICIES if name != "oasis")
"""Those that may put anything on any machine: oasis has machines for servers, which workers never get."""

PLACING = tuple(name for name in POLICIES if name not in catalogue.COMMITTING)
"""Those that place slot by slot."""

CHEAP = "scale=1e-6"
"""Prices at which any job that fits is worth its resources."""

HOUR = 3600.0
"""Slot of the paper's workload, in seconds."""

Log = list[Event | Command]


def policy(name: str, cluster: Cluster, prices: str = CHEAP, slot_seconds: float = 1.0) -> Policy:
    """A new policy by name; ``literal`` prices are not for this."""
    return catalogue.make(name, cluster, (), slot_seconds=slot_seconds, horizon=1, prices=prices)


def machines(*resources: Mapping[str, float], bandwidth: tuple[float, float] = (1.0, 1.0)) -> Cluster:
    """Machines m0, m1, ... with these resources."""
    return Cluster.of((Machine(f"m{i}", r) for i, r in enumerate(resources)), bandwidth)


def elastic(
    name: str,
    work: float,
    most: int,
    *,
    least: int = 1,
    arrival: int = 0,
    worker: Mapping[str, float] | None = None,
    server: Mapping[str, float] | None = None,
    workers_per_server: float | None = None,
    utility: Utility | None = None,
    requested: int | None = None,
    restart_seconds: float = 0.0,
) -> Job:
    """A job of ``work`` worker-seconds, of one GPU a worker unless ``worker`` says otherwise."""
    speed: SpeedModel = (
        AllReduceSpeed(1.0, 0.0) if workers_per_server is None else PaperSpeed(1.0, 0.0, workers_per_server)
    )
    return Job(
        id=name,
        arrival=arrival,
        workload=work,
        batch_size=most,
        worker_demand={"gpu": 1.0} if worker is None else worker,
        server_demand={} if server is None else server,
        speed=speed,
        utility=Linear(100.0, 1000.0) if utility is None else utility,
        min_workers=least,
        max_workers=most,
        requested_workers=requested,
        restart_seconds=restart_seconds,
    )


def gang(
    name: str,
    size: int,
    slots: float = 1.0,
    *,
    arrival: int = 0,
    worker: Mapping[str, float] | None = None,
    server: Mapping[str, float] | None = None,
    workers_per_server: float | None = None,
    utility: Utility | None = None,
    restart_seconds: float = 0.0,
) -> Job:
    """A job that runs with exactly ``size`` workers for ``slots`` one-second slots."""
    return elastic(
        name,
        size * slots,
        size,
        least=size,
        arrival=arrival,
        worker=worker,
        server=server,
        workers_per_server=workers_per_server,
        utility=utility,
        restart_seconds=restart_seconds,
    )


def drawn(jobs: int, count: int, horizon: int, seed: int) -> tuple[Cluster, list[Job]]:
    """``count`` machines and jobs of the paper's generator; its slots are ``HOUR`` seconds long."""
    work = paper(jobs, count, horizon, seed)
    assert work.cluster is not None
    return work.cluster, list(work.jobs)


def play(
    name: str | Policy,
    cluster: Cluster,
    jobs: list[Job],
    horizon: int,
    *,
    prices: str = CHEAP,
    slot_seconds: float = 1.0,
    seed: int = 0,
) -> tuple[Run, Log]:
    """Simulate, and return the run with its event log."""
    log: Log = []
    chosen = policy(name, cluster, prices, slot_seconds) if isinstance(name, str) else name
    run = simulate(chosen, cluster, jobs, horizon=horizon, slot_seconds=slot_seconds, seed=seed, log=log.append)
    return run, log


def decisions(log: Log) -> list[Admit | Reject]:
    """Answers to arrivals, in order."""
    return [item for item in log if isinstance(item, Admit | Reject)]


def orders(log: Log) -> list[Launch | Resize | Stop]:
    """What the executor was told, in order."""
    return [item for item in log if isinstance(item, Launch | Resize | Stop)]


def completions(log: Log) -> dict[str, int]:
    """Slot in which each job finished."""
    return {item.job_id: item.slot for item in log if isinstance(item, JobCompleted)}


def occupancy(log: Log, horizon: int) -> list[dict[str, Placement]]:
    """Who runs where in each slot, from the commands and completions alone."""
    slots: list[dict[str, Placement]] = [{} for _ in range(horizon)]
    running: dict[str, Placement] = {}
    changes: dict[int, list[Launch | Resize | Stop]] = {}
    done = completions(log)
    for order in orders(log):
        changes.setdefault(order.slot, []).append(order)
    for slot in range(horizon):
        for order in changes.get(slot, []):
            if isinstance(order, Stop):
                del running[order.job_id]
            else:
                running[order.job_id] = order.placement
        slots[slot] = dict(running)
        for job_id in [j for j in running if done.get(j) == slot]:
            del running[job_id]
    return slots
