"""OASiS: online primal-dual scheduling with workers and servers on machines apart (Bao et al., INFOCOM 2018).

=====================  =====================================================================
the paper              here
=====================  =====================================================================
H, K                   machines for workers, machines for servers: ``Split``
p_h^r(t), q_k^r(t)     ``Prices.at`` over the split ledger, one half of its resources each
U_1, L_1 and U_2, L_2  ``Calibration`` over the split cluster: a range for each half
algorithm 2            ``Planner.plan`` over the split ledger: cheapest machines of each side
mu_i > 0               ``plan.payoff > 1e-9 utility``
=====================  =====================================================================
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Decision, Reason
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Calibration, Prices
from slotwise.optim.request import Request
from slotwise.optim.split import Split
from slotwise.policies._base import CommitAtArrival, State, Terms
from slotwise.policies._payoff import by_payoff, kept_promise, machine_prices, worthless
from slotwise.words import counted

__all__ = ["Oasis"]

Floats = npt.NDArray[np.float64]


class Oasis(CommitAtArrival):
    """Like pdors, but workers and servers live on two disjoint sets of machines, and locality is not considered.

    A job is planned at the speed of the widest domain in which it may run. Where its workers, or all of an all-reduce
    job, happen to lie closer together it trains faster than planned and ends before it was promised to. Jobs without
    servers have only the workers' machines.

    Parameters
    ----------
    split : Split
        Which machines are for servers.
    planner : Planner
        Finds the best schedule at given prices.
    calibration : Calibration
        Sets the price range, over ``split.cluster``.
    """

    name: ClassVar[str] = "oasis"
    source: ClassVar[str] = (
        "Bao et al., Online Job Scheduling in Distributed Machine Learning Clusters (OASiS), IEEE INFOCOM 2018"
    )

    def __init__(self, split: Split, planner: Planner, calibration: Calibration) -> None:
        self.split = split
        self.planner = planner
        self.calibration = calibration
        self.prices: Prices | None = None
        """Of the last decision."""

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Find the best schedule on the two sets of machines at today's prices; its payoff decides."""
        request = self.split.survey(job, state.ledger.end)
        if request.reason is not None:
            return self._impossible(request)
        idle = state.ledger.idle(state.slot)
        prices = self.prices = self.split.prices(self.calibration.observe(self.split.bid(request), idle=idle))
        if (turned_away := worthless(request)) is not None:
            return turned_away
        plan = self.planner.plan(request, self.split.ledger(state.ledger), prices, first=state.slot)
        return by_payoff(plan, request, prices, state.slot, state.ledger.end)

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        """Keep a promise as well as can be, as pdors does."""
        assert self.prices is not None  # something was admitted before
        request = self.split.survey(job, state.requests[job.id].end)
        request = dataclasses.replace(request, workload=state.remaining[job.id])
        ledger = self.split.ledger(state.ledger)
        return kept_promise(self.planner.plan(request, ledger, self.prices, first=state.slot, at_least=-math.inf))

    def terms(self, state: State) -> Terms | None:
        """Return what decisions are made on now."""
        if self.prices is None:
            return None
        end = state.ledger.end
        return Terms(
            self.planner, self.split.ledger(state.ledger), self.prices, lambda other: self.split.survey(other, end)
        )

    def slot_prices(self, state: State, slot: int) -> Mapping[str, Floats] | None:
        """Return what machines cost in a slot: workers' machines and servers' machines have resources of their own."""
        if self.prices is None:
            return None
        ledger = state.ledger
        used, capacity = self.split.apart(ledger.used(slot)), self.split.apart(ledger.view.capacity)
        prices = self.split.without_mark(self.prices)
        return machine_prices(prices, self.split.cluster, used, capacity, slot)

    def figures(self) -> Mapping[str, float | None]:
        """Return what the slot solver counted."""
        return self.planner.solver.figures()

    def _impossible(self, request: Request) -> Decision:
        """Turn away a job that the whole cluster could train in time, and its two parts cannot."""
        here, there = counted(self.split.workers, "machine"), counted(self.split.servers, "other")
        apart = f"with workers on {here} and servers on {there}"
        if request.reason is Reason.HORIZON_ENDS:
            return Decision(False, reason=Reason.NO_TIME_LEFT, detail=f"{apart}: {request.detail}")
        workers, servers = int(request.ask.workers[0]), int(request.ask.servers[0])
        detail = f"{apart} there is no room for {counted(workers, 'worker')} and {counted(servers, 'server')}"
        return Decision(False, reason=Reason.NEVER_FITS, detail=detail)
