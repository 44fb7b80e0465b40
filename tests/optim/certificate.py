"""The bound that prices prove, computed without any code of the bound: jobs, machines and prices in, a number out.

The cheapest relaxed way to train N samples by a completion is a linear program over the slots' points with one row for
the workload. By its dual it costs max over m >= 0 of m N - sum over slots of max(0, max over points of m s - c), which
is concave in m and largest where the points that are worth m begin to train N: found by halving.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job

Floats = npt.NDArray[np.float64]


def points(job: Job, cluster: Cluster, slot_seconds: float) -> list[tuple[float, Floats]]:
    """Return (samples, amount of each resource) of every configuration that the empty cluster might hold."""
    worker = np.array([job.worker_demand.get(r, 0.0) for r in cluster.resources])
    server = np.array([job.server_demand.get(r, 0.0) for r in cluster.resources])
    workers, servers = job.speed.pairs(job.min_workers, job.most_workers, job.max_servers)
    demanded = {**job.worker_demand, **(job.server_demand if servers.any() else {})}
    if any(amount > 0 and resource not in cluster.resources for resource, amount in demanded.items()):
        return []
    found = []
    slack = 1e-6 * np.maximum(1.0, cluster.capacity)
    allowed = cluster.levels.index(job.domain) + 1 if job.domain in cluster.levels else len(cluster.levels)
    for level, domain in enumerate(cluster.domains[: allowed if job.domain in (None, *cluster.levels) else 0]):
        slower = cluster.bandwidth[level:allowed]
        rates = np.max([job.speed.samples_per_second(workers, servers, job.batch_size, b) for b in slower], axis=0)
        parts = [(cluster.capacity + slack)[domain == one].sum(axis=0) for one in set(domain.tolist())]
        for k in range(len(workers)):
            amount = workers[k] * worker + servers[k] * server
            if any((amount <= part).all() for part in parts):
                found.append((float(rates[k]) * slot_seconds, amount))
    return [(samples, amount) for samples, amount in found if samples > 0]


def least_costs(samples: Floats, costs: Floats, needed: float) -> list[float]:
    """Return the least cost of ``needed`` samples by each slot; samples (P,), costs (slots, P)."""
    found = []
    for slots in range(1, len(costs) + 1):
        some = costs[:slots]

        def at(price: float, some: Floats = some) -> tuple[float, float]:
            """Return the value at a price per sample, and the samples that are worth it."""
            earned = price * samples - some
            best = earned.argmax(axis=1)
            gain = earned[np.arange(len(some)), best]
            return price * needed - gain[gain > 0].sum(), float(samples[best][gain > 0].sum())

        if samples.max() * slots < needed * (1 - 1e-9):
            found.append(math.inf)
            continue
        low, high = 0.0, 1e-12
        while at(high)[1] < needed * (1 - 1e-9):
            low, high = high, 2.0 * high
        for _ in range(50):
            middle = (low + high) / 2.0
            low, high = (middle, high) if at(middle)[1] < needed * (1 - 1e-9) else (low, middle)
        found.append(max(at(low)[0], at(high)[0]))
    return found


def recompute(jobs: Sequence[Job], cluster: Cluster, prices: Floats, slot_seconds: float) -> float:
    """Return the upper bound of prices (slots, resources), in utility per unit of the summed capacity."""
    total = float((prices * cluster.capacity.sum(axis=0)).sum())
    for job in jobs:
        found = points(job, cluster, slot_seconds)
        slots = len(prices) - job.arrival
        if not found or slots < 1:
            continue
        samples = np.array([s for s, _ in found])
        amounts = np.array([amount for _, amount in found])
        costs = prices[job.arrival :] @ amounts.T
        gains = job.utility.values(slots) - least_costs(samples, costs, job.workload)
        total += max(0.0, float(gains.max()))
    return total
