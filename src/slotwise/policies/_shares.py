"""Shares of time for gangs, on plain arrays: the programs of ``max-min`` and ``finish-time-fair``.

A gang is a job with a fixed number of workers and servers that runs or pauses as a whole; its share x is the part of
time in which it runs. Machines that hold the same workers and servers are of one type, as Gavel's machines are; here a
job's speed is the same on all of them. Shares fit if workers and servers can be spread over the types so that

    Σ_k y_pk = x_j          for the workers and for the servers p of job j, on types k of which a machine holds one
    Σ_p d_p^r y_pk <= C_k^r  for each type k and resource r (d_p: what all workers, or all servers, of the gang take)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slotwise.optim.program import LinearProgram, Matrix, Status

__all__ = ["Gangs", "finish_time_shares", "max_min_shares"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_EXACT = 1e-9
"""By how much, relatively, shares may miss the capacity when they count as fitting."""


class Gangs(NamedTuple):
    """What gangs take, and on what machines.

    Parts are the workers of each gang and then the servers of those that have some. Amounts are shares of the cluster.
    """

    demand: Floats
    """(P, R) what all workers, or all servers, of a gang take."""
    owner: Ints
    """(P,) the gang of each part."""
    able: Flags
    """(P, K) on which types of machines they can be."""
    capacity: Floats
    """(K, R) what all machines of a type have."""
    dominant: Floats
    """(J,) dominant share of each gang: the largest part of the cluster, over resources, that it takes."""
    runs: Flags
    """(J,) whether there are machines for all of its parts."""

    @classmethod
    def of(cls, worker: Floats, server: Floats, workers: Ints, servers: Ints, capacity: Floats) -> Gangs:
        """Build from demands of one worker and of one server, (J, R), their numbers, (J,), and machines, (M, R)."""
        total = capacity.sum(axis=0)
        divisor = np.where(total > 0, total, 1.0)
        jobs = np.arange(len(workers))
        some = servers > 0
        each = np.concatenate([worker, server[some]])
        demand = np.concatenate([worker * workers[:, None], (server * servers[:, None])[some]]) / divisor
        owner = np.concatenate([jobs, jobs[some]])
        kinds, kind = np.unique(capacity, axis=0, return_inverse=True)
        able = (each[:, None, :] <= kinds).all(axis=2)
        columns, type_of = np.unique(able, axis=1, return_inverse=True)
        amounts = np.zeros((columns.shape[1], len(total)))
        np.add.at(amounts, type_of.reshape(-1)[kind.reshape(-1)], capacity / divisor)
        needed = np.zeros((len(jobs), len(total)))
        np.add.at(needed, owner, demand)
        runs = np.bincount(owner[~columns.any(axis=1)], minlength=len(jobs)) == 0
        return cls(demand, owner, columns, amounts, needed.max(axis=1), runs)


def max_min_shares(gangs: Gangs, weights: Floats) -> Floats:
    """Return shares, (J,), whose least x_j σ_j / w_j is the largest that fits (σ: dominant share, w: ``weights``).

    It is an optimum of the program: max t subject to x_j σ_j / w_j >= t, x_j <= 1, and the shares fit. Of all optima it
    is the one with x_j = min(1, level w_j / σ_j) at the highest level: a gang that runs all the time holds nobody back.
    """
    level = np.divide(gangs.dominant, weights, out=np.zeros(len(weights)), where=gangs.runs)

    def shares(at: float) -> Floats:
        return np.minimum(1.0, np.divide(at, level, out=np.zeros(len(level)), where=level > 0))

    return shares(_highest(shares, float(level.max(initial=0.0)), gangs))


def finish_time_shares(gangs: Gangs, work: Floats, elapsed: Floats, ideal: Floats) -> Floats:
    """Return shares, (J,), whose largest finish-time ratio ρ_j = (t_j + n_j / x_j) / D_j is the least that fits.

    It is an optimum of the program: min ρ subject to x_j >= n_j / (ρ D_j - t_j), x_j <= 1, and the shares fit, which is
    linear at each ρ. Of all optima it is the one at the least ρ at which gangs that are later even if they run all the
    time do so (x_j = 1) and the others reach ρ.

    Parameters
    ----------
    gangs : Gangs
        What they take.
    work : (J,) float64
        n_j: slots that the rest of the job takes if it always runs.
    elapsed : (J,) float64
        t_j: slots since it arrived.
    ideal : (J,) float64
        D_j: slots that the whole job takes on its part of the cluster, > 0 where there is work.
    """
    some = gangs.runs & (work > 0)

    def shares(at: float) -> Floats:
        # At 1 / ρ, so that shares rise with it.
        left = ideal - elapsed * at
        late = left <= work * at
        x = np.divide(work * at, left, out=np.ones(len(work)), where=~late)
        return np.where(some, x, 0.0)

    fastest = np.divide(ideal, work + elapsed, out=np.zeros(len(work)), where=some)
    return shares(_highest(shares, float(fastest.max(initial=0.0)), gangs))


def _highest(shares: Callable[[float], Floats], start: float, gangs: Gangs) -> float:
    """Return the largest value up to ``start`` at which ``shares``, which rise with it from 0, fit.

    Bisection over linear programs, with fewer of them: what does not fit has prices at which it costs more than the
    cluster is worth, and up to the value at which the shares cost just that, nothing can fit either. The prices are
    vertices, so that it ends after a few.
    """
    at = start
    while True:
        factor, costs = _largest(shares(at), gangs)
        if factor >= 1.0 - _EXACT:
            return at
        low, high = 0.0, at
        while (middle := (low + high) / 2.0) > low and high - low > 1e-13 * high:
            if float(shares(middle) @ costs) > 1.0:
                high = middle
            else:
                low = middle
        # The same prices twice: what is missing is rounding.
        if low >= at * (1.0 - _EXACT / 10.0):
            return low
        at = low


def _largest(shares: Floats, gangs: Gangs) -> tuple[float, Floats]:
    """Return the largest multiple of shares that fits, and what a whole share of each gang costs, (J,).

    Prices are such that the cluster is worth 1: shares that cost more do not fit.
    """
    wanted = shares[gangs.owner]
    total = gangs.capacity.sum(axis=0)
    used = wanted @ gangs.demand
    resource = int(np.argmax(np.divide(used, total, out=np.zeros(len(total)), where=total > 0)))
    if used[resource] <= 0.0:
        return np.inf, np.zeros(len(shares))
    bound = float(total[resource] / used[resource])
    if len(gangs.capacity) == 1:
        prices = np.zeros_like(gangs.capacity)
        prices[0, resource] = 1.0 / total[resource]
        return bound, _costs(prices, gangs)
    # In multiples of what would fit if all machines were of one type.
    factor, prices = _spread(wanted * bound, gangs)
    return factor * bound, _costs(prices, gangs)


def _costs(prices: Floats, gangs: Gangs) -> Floats:
    """Return what each gang costs at prices, (K, R), where it is cheapest: (J,)."""
    of_parts = np.where(gangs.able, gangs.demand @ prices.T, np.inf).min(axis=1)
    of_parts[~gangs.able.any(axis=1)] = 0.0
    return np.asarray(np.bincount(gangs.owner, weights=of_parts, minlength=len(gangs.dominant)), dtype=np.float64)


def _spread(wanted: Floats, gangs: Gangs) -> tuple[float, Floats]:
    """Return the largest multiple of what parts want that can be spread over the types, and prices, (K, R).

    By column generation: a column is one way to put each part on one type, and how often each is used is a program of
    few rows. Its prices say where each part is cheapest, which is the next column, until that is no news.
    """
    types, resources = gangs.capacity.shape
    asks = (wanted > 0) & gangs.able.any(axis=1)
    able, demand = gangs.able[asks], gangs.demand[asks] * wanted[asks][:, None]
    none = np.empty(0, dtype=np.int64)
    program = LinearProgram(
        np.empty(0),
        Matrix.of(none, none, np.empty(0), 0),
        np.full(types * resources, -np.inf),
        gangs.capacity.ravel(),
        np.empty(0),
        maximise=True,
    )
    prices = np.ones((types, resources))
    factor = 0.0
    known: set[bytes] = set()
    while True:
        costs = np.where(able, demand @ prices.T, np.inf)
        kinds = np.argmin(costs, axis=1)
        cost = float(np.take_along_axis(costs, kinds[:, None], axis=1).sum())
        if kinds.tobytes() in known or (known and cost >= 1.0 - _EXACT / 10.0):
            return factor, prices / float((prices * gangs.capacity).sum())
        known.add(kinds.tobytes())
        used = np.zeros((types, resources))
        np.add.at(used, kinds, demand)
        rows = np.flatnonzero(used)
        column = Matrix.of(np.zeros(len(rows), dtype=np.int64), rows, used.ravel()[rows], 1)
        program.add(np.ones(1), column, np.full(1, np.inf))
        solution = program.solve()
        assert solution.status is Status.OPTIMAL  # 0 is feasible, and every column takes something
        factor, prices = solution.objective, np.maximum(solution.duals.reshape(types, resources), 0.0)
