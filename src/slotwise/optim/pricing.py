"""Prices of resources from their use, and how the two ends of the price range are found.

p(rho) = L (U / L)^(rho / C): an empty resource costs L, little enough that any useful job enters; a full one costs U,
so that no job which needs it has a payoff left. Everything is kept in logarithms.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster

__all__ = ["Bid", "Calibration", "Learnt", "Literal", "Prices", "Scale", "calibration"]

Floats = npt.NDArray[np.float64]

_LEAST_SHARE = 1e-6
"""L is never below this share of U with learnt prices: equal machines must still be told apart by use."""
_BLOCK = 512
"""Jobs that are kept together, at most."""
_WIDEST = 600.0
"""Largest ln(U / L): beyond it L would not be a floating-point number."""


class Bid(NamedTuple):
    """What pricing needs to know of a job that can finish.

    Attributes
    ----------
    utility : float
        u at the earliest possible completion, >= 0.
    log_late_utility : float
        ln u(T - 1 - a), the least that it can be worth in time; -inf if nothing.
    share_time : (R,) float64
        Resource-time in machine-slots of a mean machine.
    least : (R,) float64
        Smaller positive one of its worker's and server's demand, +inf where neither demands the resource.
    slot : int
        Slot of arrival.
    patience : int
        Slots from arrival on by whose end it can finish and keep half of ``utility``, >= 1.
    """

    utility: float
    log_late_utility: float
    share_time: Floats
    least: Floats
    slot: int
    patience: int = 1


_NO_RELIEF: Floats = np.zeros(0)


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """A price function p(use share) for each resource, which may be lower in slots that are near.

    Attributes
    ----------
    log_low : (R,) float64
        ln L: utility per unit of the resource and slot on an empty machine, in slots far ahead.
    log_ratio : (R,) float64
        ln(U / L), >= 1; 0 for a resource that nobody demands. Below 0 prices fall with use, by which
        machines are filled up: for packing.
    slot : int
        The slot in which these prices hold.
    relief : (n,) float64
        By how much ln L is less in ``slot``, ``slot + 1``, ... : <= 0, never falling; 0 in slots further ahead. U is
        the same in every slot.
    """

    log_low: Floats
    log_ratio: Floats
    slot: int = 0
    relief: Floats = field(default_factory=lambda: _NO_RELIEF)

    def rows(self, first: int, count: int) -> tuple[Floats, Floats]:
        """Return ln L and ln(U / L) of ``count`` slots from ``first`` on, (count, R) each."""
        if len(self.relief) == 0:
            low, ratio = np.empty((2, count, len(self.log_low)))
            low[:], ratio[:] = self.log_low, self.log_ratio
            return low, ratio
        less = np.zeros((count, 1))
        # What has passed since costs like the slot itself.
        ahead = max(0, first - self.slot)
        passed = min(count, max(0, self.slot - first))
        near = self.relief[ahead : ahead + count - passed]
        less[passed : passed + len(near), 0] = near
        if passed:
            less[:passed] = self.relief[0]
        return self.log_low + less, np.where(self.log_ratio != 0, self.log_ratio - less, 0.0)

    def at(self, used: Floats, capacity: Floats, slot: int) -> Floats:
        """Return prices at a use.

        Parameters
        ----------
        used, capacity : (..., R) float64
            Committed and total amounts, in the same unit, 0 <= used <= capacity.
        slot : int
            Of the use.

        Returns
        -------
        (..., R) float64
            Utility per unit of the resource and slot, > 0; where capacity is 0, the price of a full resource.
        """
        low, ratio = self.rows(slot, 1)
        share = np.divide(used, capacity, out=np.ones_like(used), where=capacity > 0)
        return np.asarray(np.exp(low[0] + ratio[0] * share))


class Calibration(Protocol):
    """Finds the price range; told of every job that can finish, in order of arrival."""

    def observe(self, bid: Bid, *, idle: bool = False) -> Prices:
        """Return the prices to use for the job that ``bid`` speaks of; ``idle``: nothing is committed any more."""
        ...


def _range(log_low: Floats, log_high: Floats) -> Prices:
    """Build prices; ``log_high`` is -inf where nobody demands the resource."""
    demanded = np.isfinite(log_high)
    ratio = np.where(demanded, np.where(demanded, log_high, 0.0) - log_low, 0.0)
    ratio = np.where(demanded, np.maximum(ratio, 1.0), 0.0)
    return Prices(log_low, ratio)


class _Highest:
    """ln U over the jobs seen so far."""

    def __init__(self, resources: int) -> None:
        self.log_high: Floats = np.full(resources, -np.inf)

    def see(self, bid: Bid) -> None:
        if bid.utility > 0:
            with np.errstate(divide="ignore"):
                log_least = np.log(bid.least)
            self.log_high = np.maximum(self.log_high, math.log(bid.utility) - log_least)


class Scale:
    """``--prices scale=X``: an empty machine costs X a slot, spread evenly over its resources.

    Parameters
    ----------
    cluster : Cluster
        The machines; a price of r is X / (R C^r) with C^r of the mean machine.
    machine_cost : float
        X, > 0.
    """

    def __init__(self, cluster: Cluster, machine_cost: float) -> None:
        if not (math.isfinite(machine_cost) and machine_cost > 0):
            raise InvalidInput(f"prices scale must be > 0 and finite, got {machine_cost!r}")
        mean = cluster.mean_capacity
        self._log_low = math.log(machine_cost) - np.log(len(mean) * mean)
        self._highest = _Highest(len(mean))

    def observe(self, bid: Bid, *, idle: bool = False) -> Prices:
        """Return prices whose upper end is U over the jobs seen so far."""
        self._highest.see(bid)
        return _range(self._log_low, self._highest.log_high)


class _Knapsack:
    """Jobs by falling density, in blocks, so that adding one and asking take no longer the more there are."""

    def __init__(self) -> None:
        self._densities: list[Floats] = []
        """Negative, rising, in each block and from block to block."""
        self._sizes: list[Floats] = []
        self._sums: list[Floats] = []
        """Running sums of the sizes of each block."""
        self._lasts: list[float] = []

    def add(self, density: float, size: float) -> None:
        """Add a job, after those of equal density."""
        if not self._lasts:
            self._put(0, 0, np.array([-density]), np.array([size]))
            return
        block = min(bisect.bisect_right(self._lasts, -density), len(self._lasts) - 1)
        at = int(np.searchsorted(self._densities[block], -density, side="right"))
        densities = np.insert(self._densities[block], at, -density)
        sizes = np.insert(self._sizes[block], at, size)
        half = len(sizes) // 2
        if len(sizes) > _BLOCK:
            self._put(block, 1, densities[half:], sizes[half:])
            self._put(block, 0, densities[:half], sizes[:half])
        else:
            self._put(block, 1, densities, sizes)

    def _put(self, block: int, replaced: int, densities: Floats, sizes: Floats) -> None:
        self._densities[block : block + replaced] = [densities]
        self._sizes[block : block + replaced] = [sizes]
        self._sums[block : block + replaced] = [np.cumsum(sizes)]
        self._lasts[block : block + replaced] = [float(densities[-1])]

    def thresholds(self, capacities: Floats) -> Floats:
        """Return the density of the first job whose running sum of sizes reaches each capacity, 0 where none does.

        Parameters
        ----------
        capacities : (n,) float64
            Never rising.
        """
        ends = np.cumsum([float(sums[-1]) for sums in self._sums])
        found = np.zeros(len(capacities))
        blocks = np.searchsorted(ends, capacities)
        # What is asked of each block is a run.
        begins = np.flatnonzero(np.diff(blocks, prepend=-1))
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(blocks)], strict=True):
            block = int(blocks[begin])
            if block < len(ends):
                before = ends[block - 1] if block else 0.0
                within = np.searchsorted(self._sums[block], capacities[begin:end] - before)
                # Two ways of adding up may differ in the last digit.
                found[begin:end] = -self._densities[block][np.minimum(within, len(self._sums[block]) - 1)]
        return found

    def below(self, density: float) -> float:
        """Return the next lower density, 0 if there is none."""
        block = bisect.bisect_right(self._lasts, -density)
        if block == len(self._lasts):
            return 0.0
        at = int(np.searchsorted(self._densities[block], -density, side="right"))
        return -float(self._densities[block][at])


class Learnt:
    """``--prices learnt``, the default: the base price is the threshold of a fractional knapsack over the jobs so far.

    The density of a job is its best utility over its size in machine-slots. Jobs seen so far are sorted by density; the
    density of the first whose running sum of sizes reaches the capacity offered so far, machines x (slots since the
    start + 1) x X, is what an empty machine is worth in a slot far ahead. Of that it costs n / (n + 1) in the n-th slot
    since the start: what few slots say is uncertain. The future is never used.

    Slots that are near cost less. A machine idle in slot tau can only be wanted by jobs that arrive until tau; of all
    that jobs like those seen take, the ones that arrive from now on can put a share of (tau - now + 1) / w there at
    most, and the knapsack counts so much of each. w is the mean patience of the jobs seen, the slots for which they
    keep half of their best utility.

    While nothing is committed any more, the base stays below the density of the job that asks, so that an idle cluster
    turns nobody away for it.

    Parameters
    ----------
    cluster : Cluster
        The machines.
    share : float
        X in (0, inf), 0.15 by default: which share of the capacity counts as offered.
    """

    def __init__(self, cluster: Cluster, share: float = 0.15) -> None:
        if not (math.isfinite(share) and share > 0):
            raise InvalidInput(f"prices learnt must be > 0 and finite, got {share!r}")
        self._machines = len(cluster)
        self._share = share
        mean = cluster.mean_capacity
        self._log_spread = np.log(len(mean) * mean)
        self._highest = _Highest(len(mean))
        self._knapsack = _Knapsack()
        self._jobs = 0
        self._patience = 0

    def observe(self, bid: Bid, *, idle: bool = False) -> Prices:
        """Return prices learnt from the jobs seen so far, this one included."""
        self._highest.see(bid)
        size = float(bid.share_time.mean())
        density = bid.utility / size if size > 0 else 0.0
        self._knapsack.add(density, size)
        self._jobs += 1
        self._patience += bid.patience
        patience = self._patience / self._jobs
        seen = bid.slot + 1
        window = np.minimum(1.0, np.arange(1, math.ceil(patience) + 1) / patience)
        # Where the sum never reaches the capacity there is no threshold.
        bases = self._knapsack.thresholds(self._machines * seen * self._share / window) * seen / (seen + 1)
        if idle:
            bases = np.minimum(bases, self._knapsack.below(density))
        return self._prices(bases, bid.slot)

    def _prices(self, bases: Floats, slot: int) -> Prices:
        """Return prices of which an empty machine costs ``bases`` in ``slot`` and after, the last far ahead."""
        demanded = np.isfinite(self._highest.log_high)
        floor = np.where(demanded, self._highest.log_high + math.log(_LEAST_SHARE), -_WIDEST)
        with np.errstate(divide="ignore"):
            logs = np.log(bases)
        far = _range(np.maximum(logs[-1] - self._log_spread, floor), self._highest.log_high)
        # As deep as the floor lets every resource go.
        deepest = float(np.max((floor - far.log_low)[demanded], initial=-_WIDEST))
        relief = np.maximum(logs[:-1] - logs[-1], deepest) if np.isfinite(logs[-1]) else _NO_RELIEF
        return Prices(far.log_low, far.log_ratio, slot, relief)


class Literal:
    """``--prices literal``: U, L and mu by the paper's formulas from the whole set of jobs, known beforehand.

    Parameters
    ----------
    cluster : Cluster
        The machines.
    bids : sequence of Bid
        All jobs that can finish.
    horizon : int
        T, >= 1.
    """

    def __init__(self, cluster: Cluster, bids: Sequence[Bid], horizon: int) -> None:
        mean = cluster.mean_capacity
        highest = _Highest(len(mean))
        for bid in bids:
            highest.see(bid)
        log_low = -np.log(mean)
        if bids:
            times = [float(bid.share_time.sum()) for bid in bids]
            inverse_mu = min(times) / (horizon * len(cluster) * len(mean))
            least = min(bid.log_late_utility - math.log(time) for bid, time in zip(bids, times, strict=True))
            top = float(np.max(highest.log_high + np.log(mean), initial=-np.inf))
            # u(T - 1 - a) may be zero, or too small for a floating-point number.
            bottom = (top if math.isfinite(top) else 0.0) - _WIDEST
            log_low = log_low + max(math.log(inverse_mu / 2.0) + least, bottom)
        self._prices = _range(log_low, highest.log_high)

    def observe(self, bid: Bid, *, idle: bool = False) -> Prices:
        """Return the same prices for every job."""
        return self._prices


def calibration(text: str, cluster: Cluster, bids: Sequence[Bid], horizon: int) -> Calibration:
    """Return the calibration that ``--prices`` names.

    Parameters
    ----------
    text : str
        ``learnt``, ``learnt=X``, ``literal`` or ``scale=X``.
    cluster : Cluster
        The machines.
    bids : sequence of Bid
        All jobs, for ``literal`` only.
    horizon : int
        T, for ``literal`` only.

    Raises
    ------
    InvalidInput
        If the text names none of them, or X is no number > 0.
    """
    name, equals, given = text.partition("=")
    try:
        number = float(given) if equals else None
    except ValueError:
        raise InvalidInput(f"prices {name}=X needs a number > 0, got {given!r}") from None
    if name == "learnt":
        return Learnt(cluster) if number is None else Learnt(cluster, number)
    if name == "literal" and number is None:
        return Literal(cluster, bids, horizon)
    if name == "scale" and number is not None:
        return Scale(cluster, number)
    raise InvalidInput(f"prices must be learnt, learnt=X, literal or scale=X, got {text!r}")
