"""What one job would get on an empty cluster: which sizes it may have, what each costs, and the plan that is best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import MOST_CELLS, Ledger
from slotwise.model.schedule import Reason
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import calibration
from slotwise.optim.request import Request, Surveyor
from slotwise.optim.slot import exact_costs, sweep_costs
from slotwise.optim.solver import Exact, Sweep
from slotwise.words import amount, one_of

__all__ = ["SOLVERS", "Quote", "Size", "quote"]

_DAY_SECONDS = 86_400.0
_LONGEST_SECONDS = 30 * _DAY_SECONDS
_SOLVERS = {"sweep": (Sweep, sweep_costs), "exact": (Exact, exact_costs)}
SOLVERS = tuple(_SOLVERS)
"""Solvers that a quote may use."""


@dataclass(frozen=True, slots=True)
class Size:
    """One configuration at one level of locality, as it would run on an empty cluster.

    Attributes
    ----------
    workers, servers : int
        How many.
    level : str
        Level of locality: all of them within one such domain. Where a narrower one gains nothing, a size that is not
        useful has the widest.
    samples_per_second : float
        How fast the job trains, slots whole.
    slot_cost : float
        What a slot costs on the cheapest machines, in the unit of utility.
    seconds : float
        What the whole workload takes, restarts included.
    cost : float
        What the whole workload costs, the last slot in part.
    useful : bool
        Whether no other one is as fast for less, or faster for as much.
    """

    workers: int
    servers: int
    level: str
    samples_per_second: float
    slot_cost: float
    seconds: float
    cost: float
    useful: bool


@dataclass(frozen=True, slots=True, eq=False)
class Quote:
    """An answer to "what would it cost, and when would it be done?".

    Attributes
    ----------
    job : Job
        As asked for, arriving now (slot 0).
    cluster : Cluster
        The machines, all of them free.
    slot_seconds : float
        Length of a slot.
    horizon : int
        Slots looked at.
    sizes : tuple of Size
        What the empty cluster holds, by servers and workers; each at the levels at which it gains something.
    plan : Plan, optional
        The schedule with the largest payoff, whether it pays or not; None if the job cannot finish.
    reason : Reason, optional
        Why it would be turned away, None if it would be let in.
    detail : str
        The same with numbers.
    """

    job: Job
    cluster: Cluster
    slot_seconds: float
    horizon: int
    sizes: tuple[Size, ...]
    plan: Plan | None
    reason: Reason | None
    detail: str

    @property
    def useful(self) -> tuple[Size, ...]:
        """Those sizes that are of use, the slowest and cheapest first."""
        return tuple(sorted((size for size in self.sizes if size.useful), key=lambda size: size.samples_per_second))


def quote(
    job: Job,
    cluster: Cluster,
    *,
    slot_seconds: float,
    horizon: int | None = None,
    prices: str = "scale=1",
    slot_solver: str = "sweep",
    grid: int = 500,
) -> Quote:
    """Plan one job on an empty cluster, from now on.

    Parameters
    ----------
    job : Job
        Its arrival is taken as now.
    cluster : Cluster
        The machines.
    slot_seconds : float
        Length of a slot, > 0.
    horizon : int, optional
        Slots to look at, >= 1; by default the larger of 24 hours and twice what the job takes alone on the cluster, of
        which at most 30 days count.
    prices : str
        ``scale=X``: an empty machine costs X a slot; or ``learnt``, ``learnt=X``, see ``simulate``.
    slot_solver : str
        ``"sweep"`` or ``"exact"``.
    grid : int
        Least number of workload steps.

    Raises
    ------
    InvalidInput
        If one of them is out of bounds.

    Examples
    --------
    >>> import slotwise
    >>> speed = slotwise.FittedSpeed(0.02, 0.001, 0.1, 0.005, 0.0)
    >>> job = slotwise.Job("a", 0, 1e6, 256, {"gpu": 1}, speed, slotwise.Sigmoid(50, 0.1, 6), {"cpu": 4})
    >>> cluster = slotwise.Cluster.uniform(machines=4, gpu=8, cpu=64)
    >>> found = slotwise.quote(job, cluster, slot_seconds=600)
    >>> found.plan.schedule.completion
    0
    """
    if horizon is not None and horizon < 1:
        raise InvalidInput(f"horizon must be >= 1, got {horizon}")
    if prices == "literal":
        raise InvalidInput(
            "prices of a quote must be learnt, learnt=X or scale=X, got 'literal': no other job is known"
        )
    if not (math.isfinite(slot_seconds) and slot_seconds > 0):
        raise InvalidInput(f"slot_seconds must be > 0 and finite, got {slot_seconds!r}")
    if slot_solver not in _SOLVERS:
        raise InvalidInput(one_of("solver of a quote", SOLVERS, slot_solver))
    solver, costs_of = _SOLVERS[slot_solver]
    now = replace(job, arrival=0)
    surveyor = Surveyor(cluster, slot_seconds)
    if horizon is None:
        longest = min(surveyor.survey(now, 1).fewest_slots, math.ceil(_LONGEST_SECONDS / slot_seconds))
        horizon = max(math.ceil(_DAY_SECONDS / slot_seconds), 2 * longest)
    cells = horizon * cluster.capacity.size
    if cells > MOST_CELLS:
        raise InvalidInput(
            f"slots x machines x resources must be <= {MOST_CELLS}, got {horizon} x {len(cluster)} x "
            f"{len(cluster.resources)}; use a longer slot or a shorter horizon"
        )
    request = surveyor.survey(now, horizon)
    calibrated = calibration(prices, cluster, [] if request.reason else [request.bid], horizon)
    planner = Planner(solver(), grid=grid)
    if request.reason is Reason.NEVER_FITS or not request.held.any():
        return Quote(now, cluster, slot_seconds, horizon, (), None, request.reason, request.detail)
    ledger = Ledger(cluster, horizon)
    at = calibrated.observe(request.bid, idle=True)
    costs = costs_of(ledger.view, 0, request.ask, at)
    curves = solver().curves(ledger, 0, 1, request, at)
    useful, slots = curves.choices, np.zeros_like(curves.choices)
    places = solver().places(ledger, slots, request, useful, curves.hints(slots, np.arange(len(slots))), at)
    levels = {choice: cluster.level(places.at(i).machines) for i, choice in enumerate(useful.tolist())}
    sizes = _sizes(request, cluster, slot_seconds, costs, levels)
    if not sizes or not all(math.isfinite(size.cost) for size in sizes):
        raise InvalidInput(f"prices must leave costs finite, got {prices!r}")
    if request.reason is not None:
        return Quote(now, cluster, slot_seconds, horizon, sizes, None, request.reason, request.detail)
    plan = planner.plan(request, ledger, at, at_least=-math.inf)
    reason, detail = _answer(request, plan)
    return Quote(now, cluster, slot_seconds, horizon, sizes, plan, reason, detail)


def _sizes(
    request: Request,
    cluster: Cluster,
    slot_seconds: float,
    costs: npt.NDArray[np.float64],
    useful: Mapping[int, int],
) -> tuple[Size, ...]:
    """Return the sizes; ``useful`` has the choices of the curve, and the level at which each is placed."""
    ask = request.ask
    found = []
    for k, (workers, servers) in enumerate(zip(ask.workers.tolist(), ask.servers.tolist(), strict=True)):
        for level, name in enumerate(cluster.levels):
            samples, cost = float(ask.samples[level, k]), float(costs[level, k])
            if not (samples > 0 and math.isfinite(cost)):
                continue
            choice = level * len(ask.workers) + k
            slots = request.workload / samples
            found.append(
                Size(
                    workers,
                    servers,
                    cluster.levels[useful[choice]] if choice in useful else name,
                    samples / slot_seconds,
                    cost,
                    slots * slot_seconds,
                    slots * cost,
                    choice in useful,
                )
            )
    return tuple(found)


def _answer(request: Request, plan: Plan | None) -> tuple[Reason | None, str]:
    if request.bid.utility <= 0:
        first = request.fewest_slots - 1
        detail = f"worth nothing at the end of slot {first}, when it could finish at the earliest"
        return Reason.NO_TIME_LEFT, detail
    if plan is None:
        return Reason.HORIZON_ENDS, f"no schedule trains it before slot {request.end}"
    if plan.payoff <= 0:
        worth, cost = amount(plan.utility, 6), amount(plan.cost, 6)
        return Reason.PRICED_OUT, f"its best schedule is worth {worth} and costs {cost}"
    return None, ""
