"""What primal-dual policies answer: in if the best schedule is worth more than it costs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import Cluster
from slotwise.model.schedule import Decision, Reason
from slotwise.optim.planner import Plan, least_cost
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.words import amount, counted

__all__ = ["by_payoff", "kept_promise", "machine_prices", "worthless"]

Floats = npt.NDArray[np.float64]

_LEAST_PAYOFF = 1e-9
"""A payoff counts as positive above this share of the utility."""


def worthless(request: Request) -> Decision | None:
    """Turn away a job that is worth nothing however soon it finishes; None for all others."""
    if request.bid.utility > 0.0:
        return None
    detail = (
        f"worth nothing {counted(request.fewest_slots - 1, 'slot')} after arrival, when it could finish at the earliest"
    )
    return Decision(False, reason=Reason.NO_TIME_LEFT, detail=detail)


def by_payoff(plan: Plan | None, request: Request, prices: Prices, first: int, end: int) -> Decision:
    """Answer with the best plan that was found for slots ``first`` ... ``end - 1``: its payoff decides."""
    if plan is None:
        least = least_cost(request, prices, first)
        detail = (
            f"worth at most {amount(request.bid.utility)}; at today's prices it would cost at least {amount(least)} on "
            f"empty machines, and no schedule on what is left before slot {end} costs less than it is worth"
        )
        return Decision(False, reason=Reason.PRICED_OUT, detail=detail)
    if plan.payoff <= _LEAST_PAYOFF * plan.utility:
        detail = (
            f"its best schedule ends in slot {plan.schedule.completion}, is worth {amount(plan.utility, 6)} "
            f"and costs {amount(plan.cost, 6)}"
        )
        return Decision(False, utility=plan.utility, cost=plan.cost, reason=Reason.PRICED_OUT, detail=detail)
    return Decision(True, plan.schedule, plan.utility, plan.cost)


def machine_prices(prices: Prices, cluster: Cluster, used: Floats, capacity: Floats, slot: int) -> Mapping[str, Floats]:
    """Return what all that each machine has of a resource costs in a slot, (M,) by resource.

    ``used`` and ``capacity`` are (M, R) grains; those of a lost machine cost as if it were full. Resources that no job
    has asked for are left out.
    """
    # Grains cancel out: a price is of a unit of the cluster's capacity.
    each = prices.at(used, capacity, slot) * cluster.capacity
    return {name: each[:, r] for r, name in enumerate(cluster.resources) if prices.log_ratio[r] != 0}


def kept_promise(plan: Plan | None) -> Decision:
    """Answer with the best plan for what an admitted job has left, whether it still pays or not."""
    if plan is None:
        return Decision(
            False, reason=Reason.MACHINE_LOST, detail="what is left of the cluster cannot train the rest in time"
        )
    return Decision(True, plan.schedule, plan.utility, plan.cost)
