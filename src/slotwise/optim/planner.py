"""The best schedule of one job at given prices: slot curves, the program over slots, and utility."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Schedule
from slotwise.optim.floor import floors, gains
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import ALL, Ceiling, Curves, steady
from slotwise.optim.solver import SlotSolver, Sweep
from slotwise.optim.workload import Picks, Program, guess

__all__ = ["MOST_STEPS", "Plan", "Planner", "least_cost"]

Floats = npt.NDArray[np.float64]

_NEAR = 64
"""Slots of which summaries are looked at first, or twice what the job needs if that is more."""
_SPARE = 1e-12
"""Share of its samples that a plan has to spare, so that they suffice in whatever order they are added up."""
_COARSE = 16
"""Slots that are summed up at a time to see whether a job is worth a closer look."""
_FIRST_BLOCK = 4
_LARGEST_BLOCK = 64
_LARGEST_PART = 32
"""Slots of a block whose curves are found at a time: what comes after the last one that can win is not looked at."""
_MANY_LEVELS = 3
"""Levels of locality from which on it pays to leave out what is too dear to be of use."""
_GLANCES = 12
"""Slots that are looked at to find out what is too dear."""
_FEWEST_EACH = 12
"""Slots that each of these stands for at least."""
MOST_STEPS = 1_000_000
"""Workload steps that anybody may ask for: more would take gigabytes for a few hundred slots."""
_LARGEST_GRID = 20_000
"""Workload steps that are not exceeded on the planner's own account."""
_MOST_STATES = 120_000_000
"""Steps times slots of a program, likewise: each that comes up takes 24 bytes, and most are left out."""
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
        # Of what ends in a slot or after it, if the machines were empty then.
        later = utility - least
        near = min(len(utility), max(_NEAR, 2 * request.fewest_slots))
        for block in (_COARSE, 1) if near > _NEAR else (1,):
            reach = _reach(request, ledger, prices, first, utility, near, later, block)
            if near < len(utility) and reach[0] <= max(at_least, reach[near]):
                # Nothing near is as good as what might come later.
                near = len(utility)
                reach = _reach(request, ledger, prices, first, utility, near, later, block)
            if reach[0] <= at_least:
                return None
        largest = max(self.grid, min(_LARGEST_GRID, _MOST_STATES // len(utility)))
        grid = min(max(self.grid, 10 * request.fewest_slots), largest)
        ceiling: Ceiling | None = self._guess(request, ledger, prices, first, utility, reach, at_least)
        # Others may count what they do, or draw.
        most = _LARGEST_PART if isinstance(self.solver, Sweep) else _LARGEST_BLOCK
        while ceiling is not None:
            program = Program(request.needed * (1.0 + _SPARE), grid, utility, reach, at_least, ceiling)
            block, known = _FIRST_BLOCK, near
            while not program.done:
                if program.slots >= known and known < len(utility):
                    known = len(utility)
                    program.reach = _reach(request, ledger, prices, first, utility, known, later, 1)
                end = min(program.slots + block, len(utility))
                while program.slots < end and not program.done:
                    count = min(most, end - program.slots)
                    if _ends(program, request, ledger, prices, first, utility, 2 * count):
                        break
                    program.advance(self._curves(ledger, first + program.slots, count, request, prices, ceiling))
                block = min(2 * block, _LARGEST_BLOCK)
            picks = program.plan()
            ceiling = program.lacking
        return None if picks is None else self._place(picks, first, request, ledger, prices)

    def _curves(
        self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices, ceiling: Ceiling
    ) -> Curves:
        """Return the curves of some slots, below a ceiling if there is one: only a sweep is given any."""
        if isinstance(self.solver, Sweep):
            return self.solver.curves(ledger, first, count, request, prices, ceiling)
        return self.solver.curves(ledger, first, count, request, prices)

    def _guess(
        self,
        request: Request,
        ledger: Ledger,
        prices: Prices,
        first: int,
        utility: Floats,
        reach: Floats,
        at_least: float,
    ) -> Ceiling:
        """Return a ceiling for curves, from a look at a few slots; none where that would take longer than it saves."""
        if not isinstance(self.solver, Sweep) or len(request.ask.samples) < _MANY_LEVELS:
            return ALL
        # Where the floors say that it is best to end, and what comes soon after it.
        best = int(np.flatnonzero(reach == reach[0])[-1]) + 1
        each = min(len(utility), best + best // 2) // _GLANCES
        if each < _FEWEST_EACH:
            return ALL
        at = each // 2 + each * np.arange(_GLANCES)
        parts = [self.solver.curves(ledger, first + slot, 1, request, prices) for slot in at.tolist()]
        return guess(parts, each, utility[at - each // 2], request.needed, at_least)

    def _place(self, picks: Picks, first: int, request: Request, ledger: Ledger, prices: Prices) -> Plan:
        """Find the machines of a plan; equals stay where they are."""
        slots = first + picks.slots
        places = self.solver.places(ledger, slots, request, picks.choices, picks.hints, prices)
        kept, costs = steady(ledger.view, slots, request.ask, places, picks.costs, prices)
        found = {at: places.at(at) for at in np.unique(kept).tolist()}
        placements = tuple(found[at] for at in kept.tolist())
        trained = {at: request.samples(placement) for at, placement in found.items()}
        schedule = Schedule(tuple(slots.tolist()), placements, tuple(trained[at] for at in kept.tolist()))
        return Plan(schedule, float(request.utility[schedule.completion - request.arrival]), math.fsum(costs))


def _reach(
    request: Request,
    ledger: Ledger,
    prices: Prices,
    first: int,
    utility: Floats,
    near: int,
    later: Floats,
    block: int,
) -> Floats:
    """Return the largest payoff of what ends in each slot or after it, by summaries of the near slots."""
    reach = np.append(utility[:near] - _floors(request, ledger, prices, first, near, block), later[near:])
    return np.ascontiguousarray(np.maximum.accumulate(reach[::-1])[::-1])


def _floors(request: Request, ledger: Ledger, prices: Prices, first: int, count: int, block: int = 1) -> Floats:
    """Return what the job costs at least that ends in each of ``count`` slots, from the first one on, or before."""
    samples, amounts = _totals(request)
    grain = ledger.cluster.grain
    return floors(ledger.view, first, samples, amounts, grain, *prices.rows(first, count), request.needed, block)


def _totals(request: Request) -> tuple[Floats, Floats]:
    """Return the most that useful configurations train in a slot, and the grains that they take in all."""
    ask = request.ask
    most = np.where(request.held, ask.samples, 0.0).max(axis=0)
    useful = most > 0
    return most[useful], np.outer(ask.workers[useful], ask.worker) + np.outer(ask.servers[useful], ask.server)


def _ends(
    program: Program, request: Request, ledger: Ledger, prices: Prices, first: int, utility: Floats, count: int
) -> bool:
    """Bound what ends in the next ``count`` slots or later by what those so far tell; return whether none may win."""
    outlook = program.outlook()
    if outlook is None:
        return program.done
    begin = program.slots
    end = min(begin + count, len(utility))
    rate, gained = outlook
    samples, amounts = _totals(request)
    grain, rows = ledger.cluster.grain, prices.rows(first + begin, end - begin)
    more = np.cumsum(gains(ledger.view, first + begin, samples, amounts, grain, *rows, rate)) * (1.0 + _SPARE)
    reach = utility[begin:end] + gained + more
    # Rounding goes by the largest of what was added up.
    reach += _SPARE * (utility[0] + rate * request.needed)
    beyond = program.reach[end] if end < len(utility) else -np.inf
    program.tighten(np.maximum.accumulate(np.append(reach, beyond)[::-1])[:0:-1])
    return program.done


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
