"""What machines cost over time, with a policy that has prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.sim.binning import bins

__all__ = ["WHOLE", "PriceMap"]

MOST_SLOTS, MOST_MACHINES = 200, 60
"""Of a map: beyond these, slots and machines are in groups."""
WHOLE = "whole machine"
"""Instead of a resource: all resources of a machine."""


@dataclass(slots=True)
class PriceMap:
    """Prices of a run, to be watched by it (``simulate(..., watch=price_map.see)``).

    The price of a machine in a slot is what all that it has costs there once the arrivals of the slot are decided: at
    the prices of the last decision, with all that is committed for it.

    Parameters
    ----------
    horizon : int
        Slots of the run.
    machines : int
        Machines of the cluster.
    """

    horizon: int
    machines: int
    _sums: dict[tuple[int, str], tuple[npt.NDArray[np.float64], int]] = field(default_factory=dict)
    """By group of slots and resource: prices of each group of machines, summed over slots, and how many slots."""

    def see(self, slot: int, policy: Policy, state: State) -> None:
        """Note the prices of a slot that was just played."""
        if not isinstance(policy, CommitAtArrival) or (priced := policy.slot_prices(state, slot)) is None:
            return
        begins = [first for first, _ in self._groups()]
        column = slot // self._width()
        whole = np.sum(list(priced.values()), axis=0) if priced else np.zeros(self.machines)
        for name, price in {**priced, WHOLE: whole}.items():
            before, count = self._sums.get((column, name), (0.0, 0))
            self._sums[column, name] = (before + np.add.reduceat(price, begins), count + 1)

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """Return the map, empty with a policy that has no prices.

        ``first_slot`` and ``last_slot`` of a group; ``first_machine`` and ``last_machine`` of a group, counted from 0;
        ``resource``, or ``WHOLE``; and ``price``, utility for all of it on one machine in one slot, the mean over both
        groups, >= 0. Slots before the first decision, and before any job asked for the resource, do not count.
        """
        width = self._width()
        return [
            {
                "first_slot": column * width,
                "last_slot": min(self.horizon, (column + 1) * width) - 1,
                "first_machine": first,
                "last_machine": end - 1,
                "resource": name,
                "price": float(total) / count / (end - first),
            }
            for (column, name), (sums, count) in self._sums.items()
            for (first, end), total in zip(self._groups(), sums, strict=True)
        ]

    def _groups(self) -> list[tuple[int, int]]:
        return bins(self.machines, MOST_MACHINES)

    def _width(self) -> int:
        return bins(self.horizon, MOST_SLOTS)[0][1]
