"""What machines cost over time, with a policy that has prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.sim.binning import bins

__all__ = ["WHOLE", "PriceMap"]

MOST_SLOTS, MOST_MACHINES = 200, 60
"""Of a map: beyond these it has every second, third, ... slot, and machines in groups."""
WHOLE = "whole machine"
"""Instead of a resource: all resources of a machine."""


@dataclass(slots=True)
class PriceMap:
    """Prices of a run, to be watched by it (``simulate(..., watch=price_map.see)``).

    The price of a machine in a slot is what all that it has would cost when that slot begins, with all that was
    committed for it by then. Prices are those of the last decision.

    Parameters
    ----------
    horizon : int
        Slots of the run.

    Attributes
    ----------
    rows : list of mapping
        ``slot``; ``first_machine`` and ``last_machine`` of a group, counted from 0; ``resource``, or ``WHOLE``; and
        ``price``, utility for all of it on a machine of the group in that slot, the mean over the group, >= 0.
        Resources that no job has asked for by then are left out. Empty with a policy that has no prices.
    """

    horizon: int
    rows: list[Mapping[str, Any]] = field(default_factory=list)

    def see(self, slot: int, policy: Policy, state: State) -> None:
        """Note the prices of a slot that was just played."""
        if not isinstance(policy, CommitAtArrival) or slot % -(-self.horizon // MOST_SLOTS):
            return
        if (terms := policy.terms(state)) is None:
            return
        used, capacity = terms.ledger.used(slot), terms.ledger.view.capacity
        resources = np.flatnonzero(terms.prices.log_ratio != 0)
        # Grains cancel out: a price is of a unit of the cluster's capacity.
        price = terms.prices.at(used, capacity, slot)[:, resources] * terms.ledger.cluster.capacity[:, resources]
        columns = [*price.T, price.sum(axis=1)]
        names = [*(terms.ledger.cluster.resources[r] for r in resources), WHOLE]
        for first, end in bins(len(used), MOST_MACHINES):
            for name, column in zip(names, columns, strict=True):
                self.rows.append(
                    {
                        "slot": slot,
                        "first_machine": first,
                        "last_machine": end - 1,
                        "resource": name,
                        "price": float(column[first:end].mean()),
                    }
                )
