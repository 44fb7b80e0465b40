"""What a job costs at least, slot by slot, from a summary of each slot: never more than any schedule costs.

The ledger keeps for each slot and resource how much is free on machines that are used to such and such a share.
Whatever is placed in the slot takes each resource from somewhere, and no unit of it for less than the price at the
lower end of its range. So the cheapest ranges first cost no more than any placement of a configuration does. As in the
certified bound (``slotwise.optim.hull``), the lower convex hull of these costs in each slot, and the segments of all
slots up to a completion merged by price per sample, give a cost that no schedule of whole configurations is below.

It serves to turn a job away without a look at single machines, and to leave out what provably cannot win.
"""

from __future__ import annotations

import heapq
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from slotwise.model.ledger import RANGES, LedgerView

__all__ = ["floors", "gains"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MARGIN = 1.0 - 1e-9
"""For what rounding errors may have added."""


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _slot_costs(free: Floats, edges: Floats, amounts: Floats, amount_order: Ints, costs: Floats) -> None:
    """Write what each configuration costs at least: (R, B) free grains and their prices, (K, R) grains.

    ``amount_order`` has for each resource the configurations by rising amount, (R, K).
    """
    costs[:] = 0.0
    ranges = free.shape[1]
    for r in range(len(free)):
        at = 0
        filled = 0.0
        paid = 0.0
        for j in range(len(costs)):
            k = amount_order[r, j]
            amount = amounts[k, r]
            while at < ranges and filled + free[r, at] < amount:
                filled += free[r, at]
                paid += free[r, at] * edges[r, at]
                at += 1
            if amount > filled:
                costs[k] += paid + (amount - filled) * edges[r, at] if at < ranges else np.inf
            else:
                costs[k] += paid


@_compiled
def _hull(samples: Floats, costs: Floats, kept: Ints) -> int:
    """Write the corners of the lower convex hull with (0, 0) of points by rising samples; return how many."""
    count = 0
    for j in range(len(samples)):
        if costs[j] == np.inf:
            continue
        if count > 0 and samples[kept[count - 1]] == samples[j]:
            if costs[kept[count - 1]] <= costs[j]:
                continue
            count -= 1
        while count > 0:
            i = kept[count - 1]
            before, paid = (samples[kept[count - 2]], costs[kept[count - 2]]) if count > 1 else (0.0, 0.0)
            if (costs[i] - paid) * (samples[j] - before) < (costs[j] - paid) * (samples[i] - before):
                break
            count -= 1
        kept[count] = j
        count += 1
    return count


@_compiled
def _cheapest(spread: Floats, rows: Ints, free: Floats) -> None:
    """Write free grains by range, (R, B), with which nothing costs more than in any of some rows of ``spread``.

    Up to each range as much is free as in the row which has the most up to there.
    """
    if len(rows) == 1:
        # Sums and differences could round.
        for r in range(len(free)):
            for b in range(free.shape[1]):
                free[r, b] = spread[rows[0], r, b]
        return
    free[:] = 0.0
    for row in rows:
        for r in range(len(free)):
            total = 0.0
            for b in range(free.shape[1]):
                total += spread[row, r, b]
                free[r, b] = max(free[r, b], total)
    for r in range(len(free)):
        for b in range(free.shape[1] - 1, 0, -1):
            free[r, b] -= free[r, b - 1]


@_compiled
def _floors(
    view: LedgerView,
    first: int,
    count: int,
    block: int,
    samples: Floats,
    amounts: Floats,
    amount_order: Ints,
    grain: Floats,
    log_low: Floats,
    log_ratio: Floats,
    needed: float,
) -> Floats:
    window, resources = view.spread.shape[0], len(grain)
    floor_costs = np.full(count, np.inf)
    costs = np.empty(len(samples))
    kept = np.empty(len(samples), dtype=np.int64)
    edges = np.empty((resources, RANGES))
    free = np.empty((resources, RANGES))
    taken = [(0.0, 0.0)]
    taken.pop()
    total = 0.0
    paid = 0.0
    for begin in range(0, count, block):
        end = min(begin + block, count)
        # The edges before may be those of a mixed block.
        if begin == 0 or (log_low[max(0, begin - block) : end] != log_low[begin]).any():
            edges[:] = np.inf
            for i in range(begin, end):
                if i == begin or (log_low[i] != log_low[i - 1]).any():
                    for r in range(resources):
                        for b in range(RANGES):
                            price = np.exp(log_low[i, r] + log_ratio[i, r] * (b / RANGES)) * grain[r]
                            edges[r, b] = min(edges[r, b], price)
        _cheapest(view.spread, np.arange(first + begin, first + end) % window, free)
        _slot_costs(free, edges, amounts, amount_order, costs)
        trained = 0.0
        spent = 0.0
        for at in range(_hull(samples, costs, kept)):
            j = kept[at]
            rate = max(0.0, (costs[j] - spent) / (samples[j] - trained))
            # The same in each slot of the block.
            more = (samples[j] - trained) * (end - begin)
            if total >= needed and rate >= -taken[0][0]:
                break
            heapq.heappush(taken, (-rate, more))
            total += more
            paid += more * rate
            while total - taken[0][1] >= needed:
                total -= taken[0][1]
                paid += taken[0][0] * taken[0][1]
                heapq.heappop(taken)
            trained, spent = samples[j], costs[j]
        if total >= needed:
            floor_costs[begin:end] = max(0.0, (paid + (total - needed) * taken[0][0]) * _MARGIN)
    return floor_costs


def floors(
    view: LedgerView,
    first: int,
    samples: Floats,
    amounts: Floats,
    grain: Floats,
    log_low: Floats,
    log_ratio: Floats,
    needed: float,
    block: int = 1,
) -> Floats:
    """Return lower bounds on what a job costs that ends in each slot or before; +inf where none can, (n,).

    Parameters
    ----------
    view : LedgerView
        What is committed.
    first : int
        First slot.
    samples : (K,) float64
        Most that each configuration trains in a slot, > 0.
    amounts : (K, R) float64
        Grains that it takes in all.
    grain : (R,) float64
        Size of a grain in the resource's unit.
    log_low, log_ratio : (n, R) float64
        Of the prices in ``n`` slots from ``first`` on, the ratio >= 0; a ratio changes only where the price does.
    needed : float
        Samples of the job, > 0.
    block : int
        So many slots at a time are looked at as if they were all the cheapest mixture of them: sooner done, and lower.
    """
    by_samples = np.argsort(samples, kind="stable")
    amounts = np.ascontiguousarray(amounts[by_samples])
    order = np.ascontiguousarray(np.argsort(amounts, axis=0, kind="stable").T)
    found: Floats = _floors(
        view, first, len(log_low), block, samples[by_samples], amounts, order, grain, log_low, log_ratio, needed
    )
    return found


@_compiled
def _gains(
    view: LedgerView,
    first: int,
    samples: Floats,
    amounts: Floats,
    amount_order: Ints,
    grain: Floats,
    log_low: Floats,
    log_ratio: Floats,
    rate: float,
) -> Floats:
    window, resources = view.spread.shape[0], len(grain)
    found = np.empty(len(log_low))
    costs = np.empty(len(samples))
    edges = np.empty((resources, RANGES))
    for i in range(len(log_low)):
        if i == 0 or (log_low[i] != log_low[i - 1]).any():
            for r in range(resources):
                for b in range(RANGES):
                    edges[r, b] = np.exp(log_low[i, r] + log_ratio[i, r] * (b / RANGES)) * grain[r]
        _slot_costs(view.spread[(first + i) % window], edges, amounts, amount_order, costs)
        gain = 0.0
        for k in range(len(samples)):
            gain = max(gain, rate * samples[k] - costs[k] * _MARGIN)
        found[i] = gain
    return found


def gains(
    view: LedgerView,
    first: int,
    samples: Floats,
    amounts: Floats,
    grain: Floats,
    log_low: Floats,
    log_ratio: Floats,
    rate: float,
) -> Floats:
    """Return upper bounds on what each slot gains a job whose samples are worth so much each, less their cost, (n,).

    Parameters
    ----------
    view, first, samples, amounts, grain, log_low, log_ratio
        As ``floors`` takes them.
    rate : float
        Worth of a sample, >= 0.
    """
    order = np.ascontiguousarray(np.argsort(amounts, axis=0, kind="stable").T)
    found: Floats = _gains(view, first, samples, amounts, order, grain, log_low, log_ratio, rate)
    return found
