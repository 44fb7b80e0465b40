"""The best schedule of one job at given prices: slot curves, the program over slots, and utility."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement, Schedule
from slotwise.optim.floor import Floors, floors
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import Curves
from slotwise.optim.solver import SlotSolver, Sweep
from slotwise.optim.workload import Bounds, Program

__all__ = ["MOST_STEPS", "Plan", "Planner", "least_cost", "placement_cost"]

Floats = npt.NDArray[np.float64]

_NEAR = 64
"""Slots of which summaries are looked at first, or twice what the job needs if that is more."""
_FIRST_BLOCK = 4
_LARGEST_BLOCK = 64
_EQUAL = 1e-12
"""Costs this close are equal: a job then stays where it was in its slot before, since moving is never for nothing."""
MOST_STEPS = 1_000_000
"""Workload steps that anybody may ask for: more would take gigabytes for a few hundred slots."""
_LARGEST_GRID = 20_000
"""Workload steps that are not exceeded on the planner's own account."""
_MOST_STATES = 120_000_000
"""Steps times slots of a program, likewise: back-pointers take 8 bytes of each, 1 GB in all."""
_NEAR_MISS = 0.02
"""Plans that miss a payoff of zero by up to this share of the utility are still trimmed before the job is turned
away."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The best schedule that was found, whether or not it pays.

    Attributes
    ----------
    schedule : Schedule
        When and where.
    utility : float
        Of its completion.
    cost : float
        Of all its workers and servers at the prices before it is committed.
    """

    schedule: Schedule
    utility: float
    cost: float

    @property
    def payoff(self) -> float:
        """Utility minus cost."""
        return self.utility - self.cost


class Planner:
    """Finds the best schedule of one job (the paper's algorithms 2 and 3).

    Parameters
    ----------
    slot_solver : SlotSolver
        For the inner problem.
    grid : int
        Least number of workload steps, 1 ... 1,000,000; at least 10 for every slot that the job needs are used in any
        case, up to 20,000.
    """

    def __init__(self, slot_solver: SlotSolver | None = None, grid: int = 500) -> None:
        if not 1 <= grid <= MOST_STEPS:
            raise InvalidInput(f"grid must be in 1 ... {MOST_STEPS}, got {grid}")
        self.solver: SlotSolver = Sweep() if slot_solver is None else slot_solver
        self.grid = grid

    def plan(
        self,
        request: Request,
        ledger: Ledger,
        prices: Prices,
        *,
        first: int | None = None,
        at_least: float | None = None,
    ) -> Plan | None:
        """Return the schedule with the largest payoff at these prices.

        Parameters
        ----------
        request : Request
            The job.
        ledger : Ledger
            What is committed.
        prices : Prices
            Price functions; the schedule's own use does not move them.
        first : int, optional
            First slot it may run in; its arrival by default.
        at_least : float, optional
            Payoff that a plan must beat before it is trimmed; by default a little below zero. ``-inf`` finds the best
            plan even if it does not pay.

        Returns
        -------
        Plan or None
            None where no plan of interest reaches the workload before the horizon.
        """
        first = max(request.arrival if first is None else first, ledger.origin)
        utility = request.utility[first - request.arrival : min(request.end, ledger.end) - request.arrival]
        if len(utility) == 0 or request.most_samples <= 0 or request.needed <= 0:
            return None
        if at_least is None:
            at_least = -_NEAR_MISS * float(utility[0])
        empty = _least_costs_per_sample(request, prices, first, len(utility))
        least = _fill(request.needed, request.most_samples, empty)
        if utility[0] - least <= at_least:
            return None
        later = Bounds(empty, utility - least)
        near = min(len(utility), max(_NEAR, 2 * request.fewest_slots))
        bounds = _bounds(request, ledger, prices, first, utility, near, later)
        if near < len(utility) and bounds.reach[0] <= max(at_least, bounds.reach[near]):
            # Nothing near is as good as what might come later.
            near = len(utility)
            bounds = _bounds(request, ledger, prices, first, utility, near, later)
        largest = max(self.grid, min(_LARGEST_GRID, _MOST_STATES // len(utility)))
        grid = min(max(self.grid, 10 * request.fewest_slots), largest)
        program = Program(request.needed, grid, utility, bounds, at_least)
        curves: list[Curves] = []
        starts: list[int] = []
        block = _FIRST_BLOCK
        while not program.done:
            if program.slots >= near and near < len(utility):
                near = len(utility)
                bounds = program.bounds = _bounds(request, ledger, prices, first, utility, near, later)
            count = min(block, len(utility) - program.slots)
            starts.append(program.slots)
            curves.append(self.solver.curves(ledger, first + program.slots, count, request, prices))
            program.advance(curves[-1])
            block = min(2 * block, _LARGEST_BLOCK)
        if program.completion < 0:
            # Slots that hold next to nothing of a large job train less than a step each, which does not add up.
            finer = min(_finer_grid(grid, curves, request.needed), largest)
            if finer > grid:
                program = Program(request.needed, finer, utility, bounds, at_least)
                for part in curves:
                    if not program.done:
                        program.advance(part)
        if program.completion < 0:
            return None
        picks = []
        for slot, index in program.plan():
            at = int(np.searchsorted(starts, slot, side="right")) - 1
            part = curves[at]
            begin, end = part.offsets[slot - starts[at]], part.offsets[slot - starts[at] + 1]
            picks.append(
                _Pick(
                    first + slot,
                    index,
                    part.samples[begin:end],
                    part.costs[begin:end],
                    part.choices[begin:end],
                    part.ways[begin:end],
                )
            )
        picks = _trim(picks, request.needed)
        return self._price(picks, request, ledger, prices)

    def _price(self, picks: list[_Pick], request: Request, ledger: Ledger, prices: Prices) -> Plan:
        """Rebuild the placements of a plan and add up what they cost."""
        placements: list[Placement] = []
        total = 0.0
        for pick in picks:
            choice, way = int(pick.choices[pick.index]), float(pick.ways[pick.index])
            placement = self.solver.place(ledger, pick.slot, request, choice, prices, way)
            cost = pick.cost
            if placements and _could_stay(placements[-1], placement, pick.slot, request, ledger):
                staying = placement_cost(placements[-1], pick.slot, request, ledger, prices)
                if staying <= cost * (1.0 + _EQUAL):
                    placement, cost = placements[-1], staying
            placements.append(placement)
            total += cost
        samples = tuple(request.samples(placement) for placement in placements)
        schedule = Schedule(tuple(pick.slot for pick in picks), tuple(placements), samples)
        return Plan(schedule, float(request.utility[schedule.completion - request.arrival]), total)


def _could_stay(before: Placement, now: Placement, slot: int, request: Request, ledger: Ledger) -> bool:
    """Whether a job may keep the machines that it had in place of equally many workers and servers elsewhere."""
    if before == now or (before.total_workers, before.total_servers) != (now.total_workers, now.total_servers):
        return False
    if request.cluster.level(before.machines) != request.cluster.level(now.machines):
        return False
    machines = list(before.machines)
    taken = np.outer(before.workers, request.ask.worker) + np.outer(before.servers, request.ask.server)
    left = ledger.view.capacity[machines] - ledger.used(slot)[machines]
    return bool((taken <= left).all())


@dataclass(slots=True)
class _Pick:
    """One slot of a plan: which point of the slot's curve was taken; -1 is none."""

    slot: int
    index: int
    samples: Floats
    costs: Floats
    choices: npt.NDArray[np.int64]
    ways: Floats

    @property
    def cost(self) -> float:
        return float(self.costs[self.index]) if self.index >= 0 else 0.0

    @property
    def trained(self) -> float:
        return float(self.samples[self.index]) if self.index >= 0 else 0.0


def _trim(picks: list[_Pick], needed: float) -> list[_Pick]:
    """Take back what the workload does not need.

    From the dearest slot on, step to the cheapest choice that still suffices, or to none.
    """
    trained = np.array([pick.trained for pick in picks])
    for i in sorted(range(len(picks)), key=lambda i: (-picks[i].cost, picks[i].slot)):
        pick = picks[i]
        # Not trained - spare: that would lose a workload that is next to nothing beside a slot's samples.
        trained[i] = 0.0
        least = needed - float(trained.sum())
        # The cheapest choice with enough samples is the first one: both rise along the curve.
        pick.index = min(pick.index, int(np.searchsorted(pick.samples, least))) if least > 0 else -1
        trained[i] = pick.trained
    return [pick for pick in picks if pick.index >= 0]


def _finer_grid(grid: int, curves: list[Curves], needed: float) -> int:
    """Return a grid of which ten steps fit into what the poorest useful slot trains; ``grid`` if one step does."""
    poorest = np.inf
    for part in curves:
        last = part.offsets[1:][np.diff(part.offsets) > 0] - 1
        poorest = min(poorest, float(part.samples[last].min(initial=np.inf)))
    if not np.isfinite(poorest) or poorest * grid >= needed:
        return grid
    return int(min(max(grid, 10.0 * needed / poorest), _LARGEST_GRID))


def _floors(request: Request, ledger: Ledger, prices: Prices, first: int, count: int) -> Floors:
    """Return what the job costs at least in ``count`` slots from the first one on."""
    ask = request.ask
    most = np.where(request.held, ask.samples, 0.0).max(axis=0)
    useful = most > 0
    amounts = np.outer(ask.workers[useful], ask.worker) + np.outer(ask.servers[useful], ask.server)
    grain = ledger.cluster.grain
    return floors(ledger.view, first, most[useful], amounts, grain, *prices.rows(first, count), request.needed)


def _bounds(
    request: Request, ledger: Ledger, prices: Prices, first: int, utility: Floats, near: int, later: Bounds
) -> Bounds:
    """Return what limits the program over slots: summaries of the ``near`` slots, empty machines in those ``later``."""
    found = _floors(request, ledger, prices, first, near)
    rates = np.append(found.rates, later.rates[near:])
    reach = np.append(utility[:near] - found.costs, later.reach[near:])
    return Bounds(np.minimum.accumulate(rates[::-1])[::-1], np.maximum.accumulate(reach[::-1])[::-1])


def least_cost(request: Request, prices: Prices, first: int) -> float:
    """Return what a job would cost on empty machines from a slot on; no schedule costs less."""
    return _fill(
        request.needed, request.most_samples, _least_costs_per_sample(request, prices, first, request.end - first)
    )


def _least_costs_per_sample(request: Request, prices: Prices, first: int, count: int) -> Floats:
    """Return what a sample costs at least in each slot: no price is below that of an empty machine. Never falling."""
    ask = request.ask
    most = np.where(request.held, ask.samples, 0.0).max(axis=0)
    useful = most > 0
    if count < 1 or not useful.any():
        return np.zeros(max(0, count))
    # Only the first slots differ.
    near = min(count, len(prices.relief) + 1)
    with np.errstate(over="ignore"):  # what costs more than a number can hold is out of reach
        base = np.exp(prices.rows(first, near)[0])
        costs = np.outer(base @ ask.worker_amount, ask.workers) + np.outer(base @ ask.server_amount, ask.servers)
    least = (costs[:, useful] / most[useful]).min(axis=1) * (1.0 - 1e-9)
    return np.concatenate([least, np.full(count - near, least[-1])])


def _fill(needed: float, most: float, costs: Floats) -> float:
    """Return the least cost of ``needed`` samples, at most ``most`` of them a slot, at rising costs per sample."""
    if len(costs) == 0:
        return 0.0
    taken = np.clip(needed - most * np.arange(len(costs)), 0.0, most)
    return float(taken @ costs)


def placement_cost(placement: Placement, slot: int, request: Request, ledger: Ledger, prices: Prices) -> float:
    """Return the cost of a placement in a slot, at the prices of a ledger that does not hold it yet."""
    machines = list(placement.machines)
    price = prices.at(ledger.used(slot)[machines], ledger.view.capacity[machines], slot)
    workers = np.dot(placement.workers, price @ request.ask.worker_amount)
    return float(workers + np.dot(placement.servers, price @ request.ask.server_amount))
