"""Small random clusters, jobs, ledgers and prices: seeded generators and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.model.speed import AllReduceSpeed, Configurations, FittedSpeed, PaperSpeed, SpeedModel
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid, Utility
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request, Surveyor
from slotwise.optim.slot import Ask
from slotwise.units import grains

__all__ = [
    "RESOURCES",
    "SLOT_SECONDS",
    "SlotCase",
    "cluster_of",
    "clusters",
    "contended_case",
    "job_of",
    "jobs",
    "large_slot_case",
    "load",
    "paper_job",
    "paper_ledger",
    "prices_of",
    "random_fit",
    "random_job",
    "random_table",
    "slot_case",
    "survey",
    "tight_case",
    "tiny_cluster",
    "wide_case",
]

Floats = npt.NDArray[np.float64]

RESOURCES = ("gpu", "cpu", "memory")
SLOT_SECONDS = 60.0


# --------------------------------------------------------------------------------------------------- plain builders


def cluster_of(
    *rows: tuple[float, ...], bandwidth: tuple[float, ...] = (6250.0, 625.0), racks: Sequence[int] | None = None
) -> Cluster:
    """Build a cluster from one tuple of capacities a machine; with racks, from 0 on, there is a bandwidth for them."""
    resources = RESOURCES[: len(rows[0])]
    names = tuple(f"m{i}" for i in range(len(rows)))
    capacity = np.array(rows, dtype=np.float64)
    if racks is None:
        return Cluster(names, resources, capacity, bandwidth)
    domains = np.array([range(len(rows)), racks, [0] * len(rows)])
    return Cluster(names, resources, capacity, bandwidth, ("machine", "rack", "cluster"), domains)


def job_of(
    name: str = "job",
    *,
    arrival: int = 0,
    workload: float = 600.0,
    worker: tuple[float, ...] = (1.0,),
    server: tuple[float, ...] = (),
    batch_size: int = 4,
    speed: SpeedModel | None = None,
    utility: Utility | None = None,
    min_workers: int = 1,
    max_workers: int | None = None,
    max_servers: int | None = None,
    domain: str | None = None,
    restart_seconds: float = 0.0,
) -> Job:
    """Build a job; by default a worker trains 60 samples a slot wherever it is, and there are no servers."""
    return Job(
        id=name,
        arrival=arrival,
        workload=workload,
        batch_size=batch_size,
        worker_demand=dict(zip(RESOURCES, worker, strict=False)),
        server_demand=dict(zip(RESOURCES, server, strict=False)),
        speed=AllReduceSpeed(1.0, 0.0) if speed is None else speed,
        utility=Sigmoid(10.0, 0.0, 0.0) if utility is None else utility,
        min_workers=min_workers,
        max_workers=max_workers,
        max_servers=max_servers,
        domain=domain,
        restart_seconds=restart_seconds,
    )


def prices_of(low: float | Floats, high: float | Floats, resources: int) -> Prices:
    """Build prices from L and U."""
    log_low = np.log(np.broadcast_to(np.asarray(low, dtype=np.float64), (resources,)))
    log_high = np.log(np.broadcast_to(np.asarray(high, dtype=np.float64), (resources,)))
    return Prices(np.array(log_low), np.array(log_high - log_low))


def survey(job: Job, cluster: Cluster, end: int) -> Request:
    """Survey one job with the slot length of these tests."""
    return Surveyor(cluster, SLOT_SECONDS).survey(job, end)


def load(ledger: Ledger, slot: int, machine: int, grains: Floats) -> None:
    """Commit an amount of grains on one machine in one slot."""
    ledger.commit([slot], [Placement((machine,), (1,), (0,))], grains, np.zeros_like(grains))


# ------------------------------------------------------------------------------------------------ seeded generators


def _amounts(rng: np.random.Generator, resources: int, most: int, zero: float) -> Floats:
    drawn = rng.integers(1, most + 1, size=resources).astype(np.float64)
    halves = rng.random(resources) < 0.2
    drawn = np.where(halves, drawn / 2, drawn)
    return np.where(rng.random(resources) < zero, 0.0, drawn)


def tiny_cluster(rng: np.random.Generator, machines: int, resources: int, largest: int = 8) -> Cluster:
    """Machines of one to three classes, some with zero capacities, sometimes all different."""
    classes = int(rng.integers(1, 4))
    kinds = np.stack([_amounts(rng, resources, largest, 0.15) for _ in range(classes)])
    if not kinds.any():
        kinds[0, 0] = 1.0
    capacity = kinds[rng.integers(0, classes, size=machines)]
    if rng.random() < 0.2:
        capacity = rng.integers(0, largest + 1, size=capacity.shape).astype(np.float64)
    external = float(rng.choice([10.0, 100.0, 625.0]))
    internal = external * float(rng.choice([1.0, 3.0, 10.0]))
    names = tuple(f"m{i}" for i in range(machines))
    if rng.random() < 0.6:
        return Cluster(names, RESOURCES[:resources], capacity, (internal, external))
    return Cluster(names, RESOURCES[:resources], capacity, *_random_levels(rng, machines, internal, external))


def _random_levels(
    rng: np.random.Generator, machines: int, internal: float, external: float
) -> tuple[tuple[float, ...], tuple[str, ...], npt.NDArray[np.int64]]:
    """Racks, or racks within rows; a rack may be as fast as a machine, or no faster than the cluster."""
    between = ("rack", "row")[: int(rng.integers(1, 3))]
    domains = np.zeros((len(between) + 2, machines), dtype=np.int64)
    domains[0] = np.arange(machines)
    steps = np.ones(machines, dtype=np.bool_)
    for depth in range(1, len(between) + 1):
        steps &= rng.random(machines) < 0.5
        steps[0] = False
        domains[depth] = np.cumsum(steps)
    shares = sorted((float(rng.choice([0.0, 0.5, 1.0])) for _ in between), reverse=True)
    bandwidth = (internal, *(external + share * (internal - external) for share in shares), external)
    return bandwidth, ("machine", *between, "cluster"), domains


def _random_load(rng: np.random.Generator, ledger: Ledger, slot: int, busy: float) -> None:
    for machine in range(len(ledger.cluster)):
        if rng.random() < busy:
            share = rng.choice([0.25, 0.5, 1.0, -1.0])
            part = rng.random(ledger.view.capacity.shape[1]) if share < 0 else np.full(1, share)
            load(ledger, slot, machine, np.floor(ledger.view.capacity[machine] * part))


def _random_prices(rng: np.random.Generator, resources: int) -> Prices:
    if rng.random() < 0.2:  # many ties
        return Prices(np.zeros(resources), np.full(resources, 1.0))
    return Prices(rng.uniform(-8.0, 2.0, resources), rng.uniform(1.0, 12.0, resources))


def _in_a_slot(speed: SpeedModel, workers: int, batch: int, bandwidth: float = 625.0) -> float:
    """Samples that so many workers train in a slot."""
    pair = speed.pairs(workers, workers, workers)
    return float(speed.samples_per_second(*pair, batch, bandwidth)[0]) * SLOT_SECONDS


def random_job(
    rng: np.random.Generator,
    cluster: Cluster,
    name: str = "job",
    *,
    arrival: int = 0,
    slots: int = 3,
    most_workers: int = 3,
    demand: int = 4,
) -> Job:
    """One job: paper, all-reduce or fitted, gang or elastic, gamma below and above F, zero-GPU workers, rack-bound."""
    resources = len(cluster.resources)
    worker = _amounts(rng, resources, demand, 0.3)
    if not worker.any():
        worker[int(rng.integers(resources))] = 1.0
    server = _amounts(rng, resources, demand, 0.5)
    workers = int(rng.integers(1, most_workers + 1))
    batch = workers + int(rng.integers(0, 3))
    least = workers if rng.random() < 0.25 else int(rng.integers(1, workers + 1)) if rng.random() < 0.3 else 1
    tau = float(rng.choice([0.1, 0.37, 1.0]))
    gradient = float(rng.choice([0.0, 5.0, 60.0, 400.0]))
    speed: SpeedModel
    form = rng.random()
    if form < 0.45:
        gamma = float(rng.choice([0.5, 0.7, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0]))
        speed = PaperSpeed(tau, gradient, gamma)
    elif form < 0.65:
        speed = AllReduceSpeed(tau, gradient)
    elif form < 0.8:
        speed = random_table(rng, least, workers)
    else:
        speed = random_fit(rng)
    one = _in_a_slot(speed, workers, batch, cluster.bandwidth[-1])
    workload = one * float(rng.uniform(0.2, slots)) if rng.random() < 0.7 else one * float(rng.integers(1, slots + 1))
    value = float(rng.uniform(1.0, 100.0))
    utility: Utility
    kind = rng.random()
    if kind < 0.6:
        utility = Sigmoid(value, float(rng.choice([0.0, 0.05, 1.0, 5.0])), float(rng.uniform(0.0, slots)))
    elif kind < 0.8:
        utility = Linear(value, float(rng.uniform(0.5, 2.0 * slots)))
    else:
        utility = Deadline(value, float(rng.integers(0, slots)))
    return Job(
        id=name,
        arrival=arrival,
        workload=workload,
        batch_size=batch,
        worker_demand=dict(zip(cluster.resources, worker.tolist(), strict=True)),
        server_demand=dict(zip(cluster.resources, server.tolist(), strict=True)),
        speed=speed,
        utility=utility,
        min_workers=least,
        max_workers=workers,
        max_servers=max(workers, 2) if isinstance(speed, FittedSpeed) else None,
        domain=str(rng.choice(cluster.levels)) if rng.random() < 0.15 else None,
    )


def random_table(rng: np.random.Generator, least: int, most: int) -> TableSpeed:
    """A table of few points, any rates: more may be slower, and what is between is interpolated."""
    servers = rng.choice([0, 1, 2, 3], size=3) if rng.random() < 0.7 else np.zeros(3, dtype=np.int64)
    counts = [1, *servers[servers > 0].tolist()] if servers.any() else [0]
    workers = sorted({least, most, int(rng.integers(1, most + 1))})
    bandwidths = [None] if rng.random() < 0.5 else [10.0, 625.0]
    return TableSpeed(
        tuple(
            SpeedPoint(w, s, float(rng.uniform(0.5, 5.0)), b)
            for w in workers
            for s in sorted(set(counts))
            for b in bandwidths
        )
    )


def random_fit(rng: np.random.Generator) -> FittedSpeed:
    """A fitted speed: parts may be missing, more workers or more servers may slow the job down."""
    parts = rng.choice([0.0, 0.05, 0.3, 1.0], size=5).tolist()
    bandwidth = None if rng.random() < 0.3 else 100.0
    parts[1] = 1.0 if not any(parts) else parts[1]
    return FittedSpeed(parts[0], parts[1], parts[2], parts[3], parts[4], bandwidth)


@dataclass(frozen=True)
class SlotCase:
    """One job, one ledger (used in its slots), one set of prices."""

    ledger: Ledger
    ask: Ask
    prices: Prices
    slot: int = 0


def _ask_of(job: Job, cluster: Cluster) -> Ask:
    worker, server = (grains(cluster.vector(d), cluster.grain) for d in (job.worker_demand, job.server_demand))
    return Ask.of(job.configurations(cluster.locality, SLOT_SECONDS), worker, server, cluster.grain)


def _free_choice(rng: np.random.Generator, most: int, levels: int) -> Configurations:
    """Any pairs of workers and servers: what a speed model that is a table may yield."""
    servers, workers = np.meshgrid(np.arange(most + 1), np.arange(1, most + 1), indexing="ij")
    chosen = rng.random(servers.size) < rng.choice([0.2, 0.6, 1.0])
    chosen[int(rng.integers(servers.size))] = True
    outside = rng.uniform(1.0, 50.0, size=int(chosen.sum()))
    faster = np.cumprod(rng.choice([1.0, 2.0], size=(levels, 1)), axis=0)[::-1]
    return Configurations(workers.reshape(-1)[chosen], servers.reshape(-1)[chosen], outside * faster)


def slot_case(
    seed: int, *, machines: tuple[int, int] = (1, 4), most_workers: int = 4, free_choice: float = 0.4
) -> SlotCase:
    """A random slot: machines of few classes, some busy, some full; the job may fit nowhere."""
    rng = np.random.default_rng([seed, 11])
    resources = int(rng.integers(1, 4))
    cluster = tiny_cluster(rng, int(rng.integers(machines[0], machines[1] + 1)), resources)
    ledger = Ledger(cluster, 1)
    _random_load(rng, ledger, 0, float(rng.choice([0.0, 0.3, 0.7])))
    job = random_job(rng, cluster, most_workers=most_workers)
    ask = _ask_of(job, cluster)
    if rng.random() < free_choice:
        ask = Ask.of(_free_choice(rng, most_workers, len(cluster.levels)), ask.worker, ask.server, cluster.grain)
    return SlotCase(ledger, ask, _random_prices(rng, resources))


def contended_case(seed: int, *, spacious: bool = False) -> SlotCase:
    """Workers and servers that want the same resource of many machines, most of them full before all is placed.

    Which machine a server is put on then matters, and so does each worth of a worker slot that the sweep tries.
    A spacious one has more machines of a class than the job can use, so that most of them are left out of the lists.
    """
    rng = np.random.default_rng([seed, 12])
    machines, resources = int(rng.integers(6, 15)) * (3 if spacious else 1), int(rng.integers(1, 3))
    kinds = rng.integers(4, 13, size=(3, resources)).astype(np.float64)
    cluster = cluster_of(*[tuple(kinds[k]) for k in rng.integers(0, 3, size=machines)])
    ledger = Ledger(cluster, 1)
    for machine in range(machines):
        if rng.random() < 0.4:
            load(ledger, 0, machine, np.floor(cluster.grains[machine] * rng.choice([0.2, 0.4, 0.6], size=resources)))
    workers = int(rng.integers(2, 6) if spacious else rng.integers(4, 15))
    speed = PaperSpeed(1.0, 5.0, float(rng.choice([0.7, 1.0, 2.0])))
    worker = tuple(rng.integers(2, 6, size=resources).astype(float).tolist())
    server = tuple(rng.integers(1, 4, size=resources).astype(float).tolist())
    job = job_of(worker=worker, server=server, batch_size=workers, speed=speed)
    prices = Prices(rng.uniform(-2.0, 0.0, resources), rng.uniform(1.0, 5.0, resources))
    return SlotCase(ledger, _ask_of(job, cluster), prices)


def tight_case(seed: int) -> SlotCase:
    """A job that grows until the cluster is full, where what fits at the end is a matter of how machines are packed.

    Machines are mixed and partly used, demands odd: servers larger than workers or far smaller, nothing of a resource,
    nothing at all. A third of the jobs are gangs of a size near the end.
    """
    rng = np.random.default_rng([seed, 13])
    resources, machines = int(rng.integers(1, 4)), int(rng.integers(2, 9))
    capacity = rng.integers(3, 25, size=(machines, resources)).astype(np.float64)
    if rng.random() < 0.3:  # few classes, and ties
        capacity = capacity[rng.integers(0, 2, size=machines)]
    capacity[rng.random(machines) < 0.15, 0] = 0.0
    cluster = cluster_of(*(tuple(row) for row in capacity.tolist()))
    ledger = Ledger(cluster, 1)
    for machine in np.flatnonzero(rng.random(machines) < 0.4).tolist():
        load(ledger, 0, machine, np.floor(cluster.grains[machine] * rng.random(resources)))
    worker = rng.integers(2, 9, size=resources).astype(np.float64)
    server = rng.integers(1, 9, size=resources).astype(np.float64)
    if rng.random() < 0.4:
        worker[int(rng.integers(resources))] = rng.choice([0.0, 1.0])
        server[int(rng.integers(resources))] = rng.choice([0.0, 0.05])
    if not worker.any():
        worker[0] = 2.0
    if rng.random() < 0.03:
        server[:] = 0.0
    most = 24
    workers = np.arange(1, most + 1)
    servers = np.maximum(np.ceil(workers / float(rng.choice([0.5, 0.8, 1.0, 1.5, 2.0, 4.0]))), 1).astype(np.int64)
    if rng.random() < 0.3:
        begin = int(rng.integers(0, 12))
        chosen = slice(begin, begin + 1)
    else:
        chosen = slice(0, most)
    outside = workers[chosen].astype(np.float64)
    configurations = Configurations(workers[chosen], servers[chosen], np.stack([2.0 * outside, outside]))
    ask = Ask.of(configurations, grains(worker, cluster.grain), grains(server, cluster.grain), cluster.grain)
    return SlotCase(ledger, ask, _random_prices(rng, resources))


def wide_case(seed: int, slots: int = 1) -> SlotCase:
    """A slot, or a few that differ a little, of 40 to 120 machines, most of which the job does not need.

    Machines are of one to six classes, none, some or nearly all of them used, sometimes alike; a third has racks.
    Prices may be lower in near slots. Some jobs have no servers, some choose freely, some are larger than the cluster.
    """
    rng = np.random.default_rng([seed, 14])
    resources, machines = int(rng.integers(1, 4)), int(rng.integers(40, 121))
    kinds = rng.integers(3, 17, size=(int(rng.integers(1, 7)), resources)).astype(np.float64)
    if len(kinds) > 2:
        kinds[0, 0] = 0.0
    racks = None
    if rng.random() < 0.35:
        racks = np.unique(np.sort(rng.integers(0, 3, machines)), return_inverse=True)[1].tolist()
    rows = [tuple(row) for row in kinds[rng.integers(0, len(kinds), machines)].tolist()]
    bandwidth = (6250.0, 625.0) if racks is None else (6250.0, float(rng.choice([625.0, 2500.0, 6250.0])), 625.0)
    cluster = cluster_of(*rows, bandwidth=bandwidth, racks=racks)
    ledger = Ledger(cluster, slots)
    busy, alike = float(rng.choice([0.0, 0.4, 0.95])), rng.random() < 0.4
    for machine in range(machines):
        for slot in range(slots):
            # Some use lasts for all slots, some is of one slot.
            if rng.random() < (busy if slot == 0 else 0.1):
                share = rng.choice([0.25, 0.5, 1.0], size=1) if alike else rng.random(resources)
                used = np.floor((ledger.view.capacity[machine] - ledger.used(slot)[machine]) * share)
                for later in range(slot, slots if rng.random() < 0.5 else slot + 1):
                    load(ledger, later, machine, np.minimum(used, ledger.free(later)[machine]))
    most = int(rng.choice([1, 3, 8, 8, 12]))
    worker = np.where(rng.random(resources) < 0.2, 0.0, rng.integers(1, 7, resources))
    server = np.where(rng.random(resources) < 0.3, 0.0, rng.integers(1, 7, resources))
    if not worker.any():
        worker[0] = 2.0
    levels = len(cluster.levels)
    form = rng.random()
    if form < 0.4:
        chosen = _free_choice(rng, most, levels)
    else:
        gamma = float(rng.choice([0.7, 1.0, 2.0, 4.0]))
        speed: SpeedModel = PaperSpeed(1.0, 5.0, gamma) if form < 0.8 else AllReduceSpeed(1.0, 0.1)
        job = job_of(worker=tuple(worker.tolist()), batch_size=most, speed=speed)
        chosen = job.configurations(cluster.locality, SLOT_SECONDS)
    ask = Ask.of(chosen, grains(worker, cluster.grain), grains(server, cluster.grain), cluster.grain)
    prices = _random_prices(rng, resources)
    relief = np.sort(rng.uniform(-1.0, 0.0, int(rng.integers(0, slots + 1))))
    return SlotCase(ledger, ask, Prices(prices.log_low, prices.log_ratio, 0, relief))


_PAPER_CAPACITY = (36.0, 99.0, 306.0, 135.0)
_PAPER_RESOURCES = ("gpu", "cpu", "memory", "storage")


def _paper_cluster(machines: int, without_gpu: float) -> Cluster:
    capacity = np.tile(np.array(_PAPER_CAPACITY), (machines, 1))
    capacity[: round(machines * without_gpu), 0] = 0.0
    return Cluster(tuple(f"m{i}" for i in range(machines)), _PAPER_RESOURCES, capacity)


def paper_job(rng: np.random.Generator, name: str = "job", *, arrival: int = 0, slots: int = 20) -> Job:
    """A job of the paper's experiments whose workload takes a few slots of most of its workers."""

    def whole(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    batch = whole(1, 200)
    speed = PaperSpeed(float(rng.uniform(1e-5, 1e-4)) * 3600.0, float(rng.uniform(30.0, 575.0)), float(whole(1, 10)))
    rate = _in_a_slot(speed, batch, batch)
    urgency = float(rng.choice([0.0, rng.uniform(0.01, 1.0), rng.uniform(4.0, 6.0)], p=[0.1, 0.55, 0.35]))
    return Job(
        id=name,
        arrival=arrival,
        workload=rate * float(rng.uniform(0.3, slots / 4)),
        batch_size=batch,
        worker_demand={"gpu": whole(0, 4), "cpu": whole(1, 10), "memory": whole(2, 32), "storage": whole(5, 10)},
        server_demand={"cpu": whole(1, 10), "memory": whole(2, 32), "storage": whole(5, 10)},
        speed=speed,
        utility=Sigmoid(float(rng.uniform(1.0, 100.0)), urgency, float(rng.uniform(1.0, 15.0))),
    )


def paper_ledger(rng: np.random.Generator, *, machines: int = 30, slots: int = 1, without_gpu: float = 0.5) -> Ledger:
    """Machines as in the paper, a part of them without GPU, each used at random in each slot."""
    ledger = Ledger(_paper_cluster(machines, without_gpu), slots)
    for slot in range(slots):
        for machine in range(machines):
            if rng.random() < 0.8:
                share = np.clip(rng.uniform(0.0, 1.0) + rng.uniform(-0.2, 0.2, 4), 0.0, 1.0)
                load(ledger, slot, machine, np.floor(ledger.view.capacity[machine] * share))
    return ledger


def large_slot_case(seed: int, machines: int = 30) -> SlotCase:
    """A slot as in section 6 of the design: 30 machines, half of them without GPU, random use."""
    rng = np.random.default_rng([seed, 6])
    ledger = paper_ledger(rng, machines=machines)
    ask = _ask_of(paper_job(rng), ledger.cluster)
    low = 0.02 / (4.0 * np.array(_PAPER_CAPACITY))
    return SlotCase(ledger, ask, Prices(np.log(low), rng.uniform(3.0, 10.0, 4)))


# --------------------------------------------------------------------------------------------- hypothesis strategies


@st.composite
def clusters(draw: st.DrawFn, most_machines: int = 4, most_resources: int = 3) -> Cluster:
    """A small cluster: few classes, zero and fractional capacities."""
    resources = draw(st.integers(1, most_resources))
    amount = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 7.25])
    kinds = draw(st.lists(st.tuples(*[amount] * resources), min_size=1, max_size=3))
    rows = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most_machines))
    external = draw(st.sampled_from([10.0, 625.0]))
    internal = external * draw(st.sampled_from([1.0, 10.0]))
    if draw(st.booleans()):
        return cluster_of(*rows, bandwidth=(internal, external))
    steps = draw(st.lists(st.booleans(), min_size=len(rows) - 1, max_size=len(rows) - 1))
    racks = np.concatenate([[0], np.cumsum(np.array(steps, dtype=np.int64))])
    middle = draw(st.sampled_from([internal, external]))
    return cluster_of(*rows, bandwidth=(internal, middle, external), racks=racks.tolist())


@st.composite
def jobs(draw: st.DrawFn, resources: int, slots: int, most_workers: int = 4, name: str = "job") -> Job:
    """A small job that often fits on what ``clusters`` yields."""
    amount = st.sampled_from([0.0, 0.1, 0.5, 1.0, 1.0, 2.0])
    worker = draw(st.tuples(*[amount] * resources).filter(any))
    server = draw(st.tuples(*[amount] * resources))
    workers = draw(st.integers(1, most_workers))
    batch = workers + draw(st.integers(0, 3))
    least = draw(st.sampled_from([1, 1, workers, (workers + 1) // 2]))
    tau = draw(st.sampled_from([0.1, 0.3, 1.0]))
    gradient = draw(st.sampled_from([0.0, 5.0, 100.0]))
    gamma = draw(st.sampled_from([0.0, 0.6, 1.0, 1.5, 2.0, 3.0, 9.0]))
    speed: SpeedModel = PaperSpeed(tau, gradient, gamma) if gamma else AllReduceSpeed(tau, gradient)
    if draw(st.booleans()):
        part = st.sampled_from([0.0, 0.1, 1.0])
        speed = FittedSpeed(tau, draw(part), draw(part), draw(part), draw(part), draw(st.sampled_from([None, 100.0])))
    rate = _in_a_slot(speed, workers, batch)
    workload = rate * draw(st.sampled_from([0.1, 0.5, 1.0, 1.3, 2.0, 3.0]))
    value = draw(st.sampled_from([1e-3, 1.0, 10.0, 77.7]))
    target = draw(st.sampled_from([0.0, 1.0, 2.5, 15.0]))
    urgency = draw(st.sampled_from([0.0, 0.1, 1.0, 5.0]))
    forms: list[Utility] = [Sigmoid(value, urgency, target), Linear(value, target + 0.5), Deadline(value, target)]
    utility = draw(st.sampled_from(forms))
    return job_of(
        name,
        arrival=draw(st.integers(0, slots - 1)),
        workload=workload,
        worker=worker,
        server=server,
        batch_size=batch,
        speed=speed,
        utility=utility,
        min_workers=least,
        max_workers=workers,
        max_servers=workers if isinstance(speed, FittedSpeed) else None,
        restart_seconds=draw(st.sampled_from([0.0, 0.0, 0.0, 10.0])),
    )


def placement_cost(placement: Placement, slot: int, request: Request, ledger: Ledger, prices: Prices) -> float:
    """Return the cost of a placement in a slot, at the prices of a ledger that does not hold it yet."""
    machines = list(placement.machines)
    price = prices.at(ledger.used(slot)[machines], ledger.view.capacity[machines], slot)
    workers = np.dot(placement.workers, price @ request.ask.worker_amount)
    return float(workers + np.dot(placement.servers, price @ request.ask.server_amount))
