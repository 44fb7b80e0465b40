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
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Decision
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Calibration, Prices
from slotwise.optim.request import Surveyor
from slotwise.policies._base import CommitAtArrival, State, Terms
from slotwise.policies._payoff import by_payoff, kept_promise, machine_prices, worthless

__all__ = ["PdOrs"]

Floats = npt.NDArray[np.float64]


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
        if (turned_away := worthless(request)) is not None:
            return turned_away
        plan = self.planner.plan(request, state.ledger, prices, first=state.slot)
        return by_payoff(plan, request, prices, state.slot, state.ledger.end)

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Keep a promise as well as can be: the best schedule for what is left, whether it still pays or not."""
        assert self.prices is not None  # something was admitted before
        request = dataclasses.replace(state.requests[job.id], workload=state.remaining[job.id])
        plan = self.planner.plan(request, state.ledger, self.prices, first=state.slot, at_least=-math.inf)
        return kept_promise(plan)

    def terms(self, state: State) -> Terms | None:
        """Return what decisions are made on now."""
        if self.prices is None:
            return None
        surveyor = Surveyor(state.cluster, state.slot_seconds)
        end = state.ledger.end
        return Terms(self.planner, state.ledger, self.prices, lambda other: surveyor.survey(other, end))

    def slot_prices(self, state: State, slot: int) -> Mapping[str, Floats] | None:
        """Return what machines cost in a slot."""
        if self.prices is None:
            return None
        ledger = state.ledger
        return machine_prices(self.prices, state.cluster, ledger.used(slot), ledger.view.capacity, slot)

    def figures(self) -> Mapping[str, float | None]:
        """Return what the slot solver counted."""
        return self.planner.solver.figures()
