"""A lower bound on the cost of one job at prices that are linear in what it uses.

In each slot a job may run with any of its points (samples, workers, servers), or with none; mixing them, and stopping
anywhere in between, costs no less than the lower convex hull of the points' costs. The cheapest way to reach a workload
on the hulls of all slots up to a completion takes their segments by price per sample, the last one in part. No
schedule of whole workers and servers in whole slots can be cheaper, wherever its machines are.
"""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

__all__ = ["Claim", "best", "schedule"]

Floats = npt.NDArray[np.float64]


class Claim(NamedTuple):
    """One job in the relaxation, as kernels read it."""

    arrival: int
    needed: float
    """Samples to train, > 0."""
    earliest: int
    """Slots from arrival to the earliest completion, >= 0."""
    utility: Floats
    """(D,) of completing D slots from arrival on; never rising, >= 0."""
    samples: Floats
    """(P,) samples in a slot, > 0, rising."""
    workers: Floats
    """(P,) workers that train them."""
    servers: Floats
    """(P,) servers beside those workers."""
    worker: Floats
    """(R,) what one worker takes, as a share of the whole cluster."""
    server: Floats
    """(R,) what one server takes, likewise."""


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _hull(claim: Claim, worker_cost: float, server_cost: float, kept: npt.NDArray[np.int64], costs: Floats) -> int:
    """Write the corners of the lower convex hull with (0, 0): indices of points and their costs; return how many."""
    count = 0
    for j in range(len(claim.samples)):
        trained = claim.samples[j]
        cost = worker_cost * claim.workers[j] + server_cost * claim.servers[j]
        if count > 0 and claim.samples[kept[count - 1]] == trained:
            if costs[count - 1] <= cost:
                continue
            count -= 1
        while count > 0:
            last = claim.samples[kept[count - 1]]
            before, paid = (claim.samples[kept[count - 2]], costs[count - 2]) if count > 1 else (0.0, 0.0)
            if (costs[count - 1] - paid) * (trained - before) < (cost - paid) * (last - before):
                break
            count -= 1
        kept[count] = j
        costs[count] = cost
        count += 1
    return count


@_compiled
def _merge(
    claim: Claim, prices: Floats, payoff: float, last: int
) -> tuple[float, int, list[tuple[float, float, int, float, float]], float]:
    """Take the cheapest segments of slots arrival, arrival + 1, ... and look at each completion.

    Stops after slot ``last`` (counted from arrival), or where utility can no longer beat the best payoff. Returns that
    payoff (at least ``payoff``), its completion or -1, the segments taken so far as a heap, the dearest first, of
    (-price per sample, samples, slot, workers, servers), and the samples in all of them.
    """
    kept = np.empty(len(claim.samples), dtype=np.int64)
    costs = np.empty(len(claim.samples))
    taken = [(0.0, 0.0, 0, 0.0, 0.0)]
    taken.pop()
    total = 0.0
    paid = 0.0
    completion = -1
    for slot in range(min(last + 1, len(claim.utility))):
        if claim.utility[slot] <= payoff:
            break
        worker_cost = 0.0
        server_cost = 0.0
        for r in range(len(claim.worker)):
            worker_cost += claim.worker[r] * prices[claim.arrival + slot, r]
            server_cost += claim.server[r] * prices[claim.arrival + slot, r]
        trained = 0.0
        spent = 0.0
        workers = 0.0
        servers = 0.0
        for i in range(_hull(claim, worker_cost, server_cost, kept, costs)):
            j = kept[i]
            more = claim.samples[j] - trained
            price = (costs[i] - spent) / more
            if total >= claim.needed and price >= -taken[0][0]:
                break
            segment = (-price, more, slot, claim.workers[j] - workers, claim.servers[j] - servers)
            heapq.heappush(taken, segment)
            total += more
            paid += more * price
            while total - taken[0][1] >= claim.needed:
                total -= taken[0][1]
                paid += taken[0][0] * taken[0][1]
                heapq.heappop(taken)
            trained, spent, workers, servers = claim.samples[j], costs[i], claim.workers[j], claim.servers[j]
        if total >= claim.needed:
            gained = claim.utility[slot] - (paid + (total - claim.needed) * taken[0][0])
            if gained > payoff:
                payoff = gained
                completion = slot
    return payoff, completion, taken, total


@_compiled
def best(claim: Claim, prices: Floats) -> tuple[float, int]:
    """Return the largest payoff over all completions, and the completion.

    Parameters
    ----------
    claim : Claim
        The job.
    prices : (T, R) float64
        Price of all of the cluster's r in slot t, >= 0.

    Returns
    -------
    payoff : float
        max(0, max over t of u(t) - kappa(t)): no schedule has a larger one at these prices.
    completion : int
        Slots from arrival to it; -1 where none pays.
    """
    payoff, completion, _, _ = _merge(claim, prices, 0.0, len(claim.utility) - 1)
    return payoff, completion


@_compiled
def schedule(claim: Claim, prices: Floats, completion: int) -> tuple[Floats, Floats]:
    """Return workers and servers of the cheapest relaxed schedule that ends with a completion, (completion + 1,) each.

    They are fractional; see ``best``. The completion must be one that can reach the workload.
    """
    _, _, taken, total = _merge(claim, prices, -np.inf, completion)
    workers = np.zeros(completion + 1)
    servers = np.zeros(completion + 1)
    for i in range(len(taken)):
        _, samples, slot, more_workers, more_servers = taken[i]
        # The first of the heap is the dearest: what is too much is taken off it.
        share = (samples - (total - claim.needed)) / samples if i == 0 else 1.0
        workers[slot] += more_workers * share
        servers[slot] += more_servers * share
    return workers, servers
