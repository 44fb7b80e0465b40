"""The dynamic program over slots: the cheapest way to train a workload by each completion slot.

    Theta(t, v) = min over v' of  theta(t, v') + Theta(t - 1, v - v')          (the paper's algorithm 3)

States lie on a grid of workload, but each state carries the samples really delivered, and it is their running sum
that is floored to the grid: nothing is lost slot by slot to rounding. The last state needs all of the workload.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from slotwise.optim.slot import Curves

__all__ = ["Bounds", "Program"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Bounds(NamedTuple):
    """What limits the program: lower bounds on costs.

    Attributes
    ----------
    rates : (D,) float64
        No sample costs less than this in each slot or after it, >= 0, never falling.
    reach : (D,) float64
        No schedule that ends in each slot or after it has a larger payoff, never rising.
    """

    rates: Floats
    reach: Floats


class Program:
    """Forward pass over slots, from a job's first slot on, fed with curves a few slots at a time.

    Parameters
    ----------
    needed : float
        Samples to deliver, > 0.
    grid : int
        Grid steps, >= 1.
    utility : (D,) float64
        Utility of a completion in the first, second, ... slot of the pass; never rising.
    bounds : Bounds
        Lower bounds. They only ever skip what cannot win.
    at_least : float
        Payoff that a plan must beat to be of interest.

    Attributes
    ----------
    payoff : float
        Of the best plan so far; ``at_least`` where there is none.
    completion : int
        Its last slot, counted from the first of the pass; -1 where there is none.
    done : bool
        Whether later slots can no longer win.
    bounds : Bounds
        As given; tighter ones may take their place.
    """

    def __init__(
        self,
        needed: float,
        grid: int,
        utility: Floats,
        bounds: Bounds,
        at_least: float,
    ) -> None:
        self._needed = needed
        self._utility = utility
        self.bounds = bounds
        self._costs = np.full(grid + 1, np.inf)
        self._costs[0] = 0.0
        self._delivered = np.zeros(grid + 1)
        self._chosen: list[npt.NDArray[np.int32]] = []
        self._previous: list[npt.NDArray[np.int32]] = []
        self._slots = 0
        self.payoff = at_least
        self.completion = -1
        self.done = len(utility) == 0 or bounds.reach[0] <= at_least

    @property
    def slots(self) -> int:
        """Slots seen so far."""
        return self._slots

    def advance(self, curves: Curves) -> None:
        """Take in the curves of the next slots."""
        count = len(curves.offsets) - 1
        chosen = np.full((count, len(self._costs)), -1, dtype=np.int32)
        previous = np.empty((count, len(self._costs)), dtype=np.int32)
        self.payoff, self.completion, seen = _advance(
            curves.offsets,
            curves.samples,
            curves.costs,
            self._utility,
            self._slots,
            self._needed,
            self.bounds.rates,
            self.bounds.reach,
            self._costs,
            self._delivered,
            chosen,
            previous,
            self.payoff,
            self.completion,
        )
        self._chosen.append(chosen)
        self._previous.append(previous)
        self._slots += count
        self.done = seen < count or self._slots >= len(self._utility)

    def plan(self) -> list[tuple[int, int]]:
        """Return the best plan as (slot of the pass, index into that slot's curve), slots rising."""
        picks: list[tuple[int, int]] = []
        state = len(self._costs) - 1
        first = self._slots
        for chosen, previous in zip(reversed(self._chosen), reversed(self._previous), strict=True):
            first -= len(chosen)
            for row in range(min(len(chosen) - 1, self.completion - first), -1, -1):
                if chosen[row, state] >= 0:
                    picks.append((first + row, int(chosen[row, state])))
                    state = int(previous[row, state])
        return picks[::-1]


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _advance(
    offsets: Ints,
    samples: Floats,
    prices: Floats,
    utility: Floats,
    start: int,
    needed: float,
    cost_per_sample: Floats,
    reach: Floats,
    costs: Floats,
    delivered: Floats,
    chosen: npt.NDArray[np.int32],
    previous: npt.NDArray[np.int32],
    payoff: float,
    completion: int,
) -> tuple[float, int, int]:
    """Run the program over some slots; return the best payoff, its completion, and how many slots were looked at."""
    grid = len(costs) - 1
    step = needed / grid
    old_costs = np.empty_like(costs)
    old_delivered = np.empty_like(delivered)
    for i in range(len(offsets) - 1):
        slot = start + i
        if reach[slot] <= payoff:
            return payoff, completion, i
        limit = utility[slot] - payoff
        old_costs[:] = costs
        old_delivered[:] = delivered
        begin, end = offsets[i], offsets[i + 1]
        for g in range(grid):
            if old_costs[g] == np.inf:
                continue
            if old_costs[g] + (needed - old_delivered[g]) * cost_per_sample[slot] >= limit:
                # Utility never rises and payoff never falls: this state cannot win any more.
                if chosen[i, g] < 0:
                    costs[g] = np.inf
                continue
            for j in range(begin, end):
                cost = old_costs[g] + prices[j]
                if cost >= limit:
                    break
                total = old_delivered[g] + samples[j]
                target = grid if total >= needed else min(int(total / step), grid - 1)
                if cost < costs[target] or (cost == costs[target] and total > delivered[target]):
                    costs[target] = cost
                    delivered[target] = total
                    chosen[i, target] = j - begin
                    previous[i, target] = g
                if target == grid:
                    break
        won = utility[slot] - costs[grid]
        if won > payoff:
            payoff = won
            completion = slot
    return payoff, completion, len(offsets) - 1
