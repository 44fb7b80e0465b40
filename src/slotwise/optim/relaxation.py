"""The paper's own solver for one job in one slot: LP relaxation and randomized rounding (its algorithm 4).

Least cost of W workers and S servers across machines, as a mixed packing and covering integer program:

    min sum over h of A_h w_h + B_h s_h
    packing:   alpha^r w_h + beta^r s_h <= free_h^r  for all h, r,   and  sum w_h <= F
    covering:  sum w_h >= W,  sum s_h >= S

Its relaxation is solved, scaled by a gain G, and every variable rounded up with probability equal to its fraction, down
otherwise, until both sides hold or the attempts are used up; then the sweep stands in. Kept as a reference for the
default solver: slower, and seldom cheaper. It is the paper's, who knows two levels of locality: one machine, for which
there is a closed form, and all of them. Levels in between (racks) are the sweep's.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.optim.pricing import Prices
from slotwise.optim.program import LinearProgram, Matrix, Status
from slotwise.optim.request import Request
from slotwise.optim.rounding import Rounding, covering_gain, draw, packing_gain, textbook_gain
from slotwise.optim.slot import Curves, Hints, Places, curve, sweep_costs, sweep_place

__all__ = ["GAINS", "MOST_ATTEMPTS", "Reference", "SlotProgram"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GAINS = ("packing", "covering", "textbook")
"""Gains by name; any number > 0 is one as well."""
MOST_ATTEMPTS = 1_000_000
"""More draws of one relaxation than this are a mistake: they would take minutes."""
_DRAWN_AT_ONCE = 100


class Reference:
    """LP relaxation and randomized rounding, with the sweep as fallback.

    Parameters
    ----------
    seed : int
        Source of every draw, >= 0. What is drawn for a job in a slot does not depend on what was drawn before.
    delta : float
        Probability of failure that the gains by name allow for, in (0, 1].
    gain : str or float
        ``"packing"``, ``"covering"``, ``"textbook"``, or the gain itself, > 0.
    attempts : int
        Draws for each relaxation at most, 1 ... ``MOST_ATTEMPTS``.
    fallback : bool
        Whether the sweep stands in where no draw was feasible; without it such a configuration counts as infeasible.

    Attributes
    ----------
    rounding : Rounding
        Counts so far.
    """

    name = "reference"

    def __init__(
        self, seed: int = 0, delta: float = 0.1, gain: str | float = 1.0, attempts: int = 100, *, fallback: bool = True
    ) -> None:
        if not 0 < delta <= 1:
            raise InvalidInput(f"delta must be > 0 and <= 1, got {delta!r}")
        if not 1 <= attempts <= MOST_ATTEMPTS:
            raise InvalidInput(f"attempts must be in 1 ... {MOST_ATTEMPTS}, got {attempts}")
        self._gain = gain if gain in GAINS else _number(gain)
        self._seed = seed
        self._delta = delta
        self._attempts = attempts
        self._fallback = fallback
        self.rounding = Rounding()
        self._request: Request | None = None
        self._program: SlotProgram | None = None
        self._placed: dict[tuple[int, int], Placement] = {}

    def curves(self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices) -> Curves:
        """Return the useful choices of ``count`` slots from ``first`` on."""
        if self._request is not request:
            self._request, self._program = request, None
            self._placed.clear()
        offsets, samples, costs, choices = [0], [], [], []
        for slot in range(first, first + count):
            found = curve(request.ask, self._costs(ledger, slot, request, prices))
            offsets.append(offsets[-1] + len(found[0]))
            samples.append(found[0])
            costs.append(found[1])
            choices.append(found[2])
        found = np.concatenate(samples), np.concatenate(costs), np.concatenate(choices)
        hints = Hints.none(offsets[-1])
        return Curves(np.array(offsets), *found, hints.ways, np.zeros_like(offsets), hints.near)

    def places(
        self, ledger: Ledger, slots: Ints, request: Request, choices: Ints, hints: Hints, prices: Prices
    ) -> Places:
        """Return the placements behind one choice of the last curve of each slot."""
        chosen = zip(slots.tolist(), choices.tolist(), strict=True)
        return Places.of([self._place(ledger, slot, request, choice, prices) for slot, choice in chosen])

    def _place(self, ledger: Ledger, slot: int, request: Request, choice: int, prices: Prices) -> Placement:
        level, k = divmod(choice, len(request.ask.workers))
        if level == len(request.ask.samples) - 1 and (slot, k) in self._placed:
            return self._placed[slot, k]
        return Placement.on(*sweep_place(ledger.view, slot, request.ask, choice, prices))

    def figures(self) -> Mapping[str, float | None]:
        """Return what the roundings came to."""
        return self.rounding.figures()

    def _costs(self, ledger: Ledger, slot: int, request: Request, prices: Prices) -> Floats:
        """Return the least cost of each configuration at each level; across the cluster what was found for it."""
        ask = request.ask
        costs = sweep_costs(ledger.view, slot, ask, prices)
        if not ask.samples[-1].any():
            return costs
        swept, across = costs[-1].copy(), costs[-1]
        if self._program is None:
            self._program = SlotProgram(request, len(ledger.cluster))
        program = self._program
        price = prices.at(ledger.used(slot), ledger.view.capacity, slot)
        program.open(ledger.free(slot), np.concatenate([price @ ask.worker_amount, price @ ask.server_amount]))
        rng = np.random.default_rng([self._seed, zlib.crc32(request.id.encode()), slot])
        across[:] = np.inf
        too_many = math.inf
        for k in range(len(ask.workers)):
            # What has no solution has none with more servers either.
            relaxed = program.solve(int(ask.workers[k]), int(ask.servers[k])) if ask.workers[k] < too_many else None
            if relaxed is None:
                too_many = min(too_many, ask.workers[k])
                continue
            cost, values = relaxed
            self.rounding.relaxations += 1
            drawn = self._feasible(program, values * program.gain(self._gain, self._delta), rng)
            if drawn is not None:
                self.rounding.feasible += 1
                counts = program.cut(drawn)
                across[k] = float(counts @ program.costs)
                self.rounding.excess += across[k] / cost - 1.0 if cost > 0 else 0.0
                machines = len(counts) // 2
                self._placed[slot, k] = Placement.of(
                    {h: (int(counts[h]), int(counts[machines + h])) for h in range(machines)}
                )
            elif self._fallback and np.isfinite(swept[k]):
                self.rounding.fallbacks += 1
                across[k] = swept[k]
                self._placed.pop((slot, k), None)
        return costs

    def _feasible(self, program: SlotProgram, values: Floats, rng: np.random.Generator) -> Floats | None:
        """Return the first draw that packs and covers; None if the attempts are used up."""
        left = self._attempts
        while left > 0:
            draws = draw(values, min(left, _DRAWN_AT_ONCE), rng)
            packs, covers = program.holds(draws)
            good = np.flatnonzero(packs & covers)
            looked_at = int(good[0]) + 1 if len(good) else len(draws)
            self.rounding.attempts += looked_at
            self.rounding.packing += int(np.count_nonzero(packs[:looked_at]))
            self.rounding.covering += int(np.count_nonzero(covers[:looked_at]))
            if len(good):
                first: Floats = draws[good[0]]
                return first
            left -= len(draws)
        return None


def _number(gain: str | float) -> float:
    try:
        number = float(gain)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(f"gain must be {', '.join(GAINS)} or a number > 0, got {gain!r}")
    return number


class SlotProgram:
    """The relaxation of one job: built once, changed for each slot and each pair of workers and servers.

    Columns are the workers of each machine, then its servers; rows are packing by (machine, resource), the total of
    workers, then the two coverings.

    Parameters
    ----------
    request : Request
        The job.
    machines : int
        M.

    Attributes
    ----------
    packing_rows : int
        m_b = M R + 1.
    packing_ratio : float
        W_b in the slot that is open.
    costs : (2 M,) float64
        Of one worker, then one server, on each machine, in the slot that is open.
    """

    def __init__(self, request: Request, machines: int) -> None:
        ask = request.ask
        self._worker, self._server = ask.worker, ask.server
        self._serves = bool(ask.servers.any())
        self._most = float(request.most_workers)
        self._machines, self._resources = machines, len(ask.worker)
        self.packing_rows = machines * self._resources + 1
        self.packing_ratio = 1.0
        self.costs: Floats = np.zeros(2 * machines)
        self._free: Floats = np.zeros((machines, self._resources))
        self._needs = (0, 0)
        # Rows in shares of one worker's or server's demand, whichever is larger: grains are too large numbers.
        self._unit = np.where(np.maximum(ask.worker, ask.server) > 0, np.maximum(ask.worker, ask.server), 1.0)
        columns, rows, values = [], [], []
        for role, demand in enumerate((ask.worker, ask.server)):
            some = np.flatnonzero(demand)
            at = np.arange(machines)
            columns.append(np.repeat(role * machines + at, len(some)))
            rows.append((at[:, None] * self._resources + some).reshape(-1))
            values.append(np.tile(demand[some] / self._unit[some], machines))
            last = self.packing_rows - 1
            for row in [last, last + 1] if role == 0 else [last + 2]:
                columns.append(role * machines + at)
                rows.append(np.full(machines, row))
                values.append(np.ones(machines))
        matrix = Matrix.of(np.concatenate(columns), np.concatenate(rows), np.concatenate(values), 2 * machines)
        lower = np.full(self.packing_rows + 2, -np.inf)
        upper = np.full(self.packing_rows + 2, np.inf)
        upper[self.packing_rows - 1] = self._most
        self._program = LinearProgram(self.costs, matrix, lower, upper, np.zeros(2 * machines))

    def open(self, free: Floats, costs: Floats) -> None:
        """Turn to another slot.

        Parameters
        ----------
        free : (M, R) float64
            Grains left.
        costs : (2 M,) float64
            Of one worker, then one server, on each machine.
        """
        self._free, self.costs = free, costs
        demands = (self._worker, True), (self._server, self._serves)
        # Fixed at zero where the machine cannot hold one; without this the gains have nothing to rest on.
        hold = [np.all(free >= demand, axis=1) & wanted for demand, wanted in demands]
        upper = np.where(np.concatenate(hold), np.inf, 0.0)
        self._program.forget()
        self._program.set_costs(costs)
        self._program.set_upper(upper)
        rows = np.arange(self.packing_rows - 1)
        sides = (free / self._unit).reshape(-1)
        self._program.set_rows(rows, np.full(len(rows), -np.inf), sides)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = [np.where(h[:, None] & (d > 0), free / d, np.inf) for h, (d, _) in zip(hold, demands, strict=True)]
        self.packing_ratio = float(min(self._most, *(ratio.min(initial=np.inf) for ratio in ratios)))

    def solve(self, workers: int, servers: int) -> tuple[float, Floats] | None:
        """Return cost and values of the relaxation for so many workers and servers; None if it has no solution."""
        self._needs = (workers, servers)
        rows = np.array([self.packing_rows, self.packing_rows + 1])
        self._program.set_rows(rows, np.array(self._needs, dtype=np.float64), np.full(2, np.inf))
        solution = self._program.solve()
        if solution.status is not Status.OPTIMAL:
            return None
        return solution.objective, np.maximum(solution.values, 0.0)

    def gain(self, gain: str | float, delta: float) -> float:
        """Return the gain that a name of ``GAINS`` stands for in the relaxation solved last; a number is itself."""
        match gain:
            case "packing":
                return packing_gain(self.packing_rows, self.packing_ratio, delta)
            case "textbook":
                return textbook_gain(self.packing_rows, self.packing_ratio, delta)
            case "covering":
                sides = [needed for needed in self._needs if needed > 0]
                return covering_gain(len(sides), float(min(sides)), delta)
            case _:
                return float(gain)

    def holds(self, draws: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return for each draw whether it packs, and whether it covers."""
        workers, servers = draws[:, : self._machines], draws[:, self._machines :]
        total = workers.sum(axis=1)
        packs = total <= self._most
        for r in range(self._resources):
            taken = workers * self._worker[r] + servers * self._server[r]
            packs &= (taken <= self._free[:, r]).all(axis=1)
        covers = (total >= self._needs[0]) & (servers.sum(axis=1) >= self._needs[1])
        return packs, covers

    def cut(self, counts: Floats) -> Floats:
        """Take what is more than needed off the dearest machines."""
        kept = counts.copy()
        for role, needed in enumerate(self._needs):
            part = slice(role * self._machines, (role + 1) * self._machines)
            surplus = kept[part].sum() - needed
            for h in np.argsort(-self.costs[part], kind="stable"):
                if surplus <= 0:
                    break
                here = min(surplus, kept[part][h])
                kept[part][h] -= here
                surplus -= here
        return kept
