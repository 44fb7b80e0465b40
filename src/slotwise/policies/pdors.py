"""PD-ORS: primal-dual online resource scheduling (Yu et al. 2021, algorithm 1).

=====================  ==========================================================
the paper              here
=====================  ==========================================================
u_i(t - a_i)           ``request.utility``
p_h^r[t] = Q_h^r(rho)  ``Prices.at`` over the ledger
U^r, L, mu             ``Calibration``
pi_i, algorithms 2, 3  ``Planner.plan``
lambda_i > 0           ``plan.payoff > 1e-9 utility``
=====================  ==========================================================
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from slotwise.model.job import Job
from slotwise.model.schedule import Decision, Reason
from slotwise.optim.planner import Planner, least_cost
from slotwise.optim.pricing import Calibration, Prices
from slotwise.policies._base import CommitAtArrival, State

__all__ = ["PdOrs"]

_LEAST_PAYOFF = 1e-9
"""A payoff counts as positive above this share of the utility."""


class PdOrs(CommitAtArrival):
    """Admit a job if its best schedule is worth more than the resources it takes are priced.

    Parameters
    ----------
    planner : Planner
        Finds the best schedule at given prices.
    calibration : Calibration
        Sets the price range.
    """

    name: ClassVar[str] = "pdors"
    source: ClassVar[str] = "Yu et al., Toward Efficient Online Scheduling for Distributed ML Systems, IEEE TNSE 2021"

    def __init__(self, planner: Planner, calibration: Calibration) -> None:
        self.planner = planner
        self.calibration = calibration
        self.prices: Prices | None = None
        """Of the last decision."""

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Find the best schedule at today's prices; its payoff decides."""
        request = state.requests[job.id]
        prices = self.prices = self.calibration.observe(request.bid, idle=state.ledger.idle(state.slot))
        if request.bid.utility <= 0.0:
            detail = (
                f"worth nothing {request.fewest_slots - 1} slots after arrival, when it could finish at the earliest"
            )
            return Decision(False, reason=Reason.NO_TIME_LEFT, detail=detail)
        plan = self.planner.plan(request, state.ledger, prices, first=state.slot)
        if plan is None:
            least = least_cost(request, prices, state.slot)
            detail = (
                f"worth at most {request.bid.utility:.4g}; at today's prices it would cost at least {least:.4g} on "
                f"empty machines, and no schedule on what is left before slot {state.ledger.end} costs less than it is "
                "worth"
            )
            return Decision(False, reason=Reason.PRICED_OUT, detail=detail)
        if plan.payoff <= _LEAST_PAYOFF * plan.utility:
            detail = (
                f"its best schedule ends in slot {plan.schedule.completion}, is worth {plan.utility:.6g} "
                f"and costs {plan.cost:.6g}"
            )
            return Decision(False, utility=plan.utility, cost=plan.cost, reason=Reason.PRICED_OUT, detail=detail)
        return Decision(True, plan.schedule, plan.utility, plan.cost)

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Keep a promise as well as can be: the best schedule for what is left, whether it still pays or not."""
        assert self.prices is not None  # something was admitted before
        request = dataclasses.replace(state.requests[job.id], workload=state.remaining[job.id])
        plan = self.planner.plan(request, state.ledger, self.prices, first=state.slot, at_least=-math.inf)
        if plan is None:
            return Decision(
                False, reason=Reason.MACHINE_LOST, detail="what is left of the cluster cannot train the rest in time"
            )
        return Decision(True, plan.schedule, plan.utility, plan.cost)

    def figures(self) -> Mapping[str, float | None]:
        """Return what the slot solver counted."""
        return self.planner.solver.figures()
