"""A certified upper bound on what any scheduler can earn, one that knows the future included.

For any prices p >= 0 of each resource in each slot, over the summed capacity C of all machines,

    sum over t, r of p_r[t] C^r  +  sum over jobs of max(0, max over t of u(t) - kappa(t, p))

is at least the utility that any schedule of the jobs earns (weak duality), if kappa is a true lower bound on the cost
of completing by t: see ``slotwise.optim.hull``. Any prices give a bound. The best ones are found by subgradient steps
and column generation together: every job answers prices with its best relaxed schedule; what all of them use in sum
says where prices should move; and a master linear program that chooses among all schedules met says how far the bound
may still fall, and its duals are new prices to try.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput, SolverFailed
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.optim.hull import Claim, best, schedule
from slotwise.optim.possible import possible
from slotwise.optim.program import LinearProgram, Matrix, Status
from slotwise.optim.request import TOLERANCE

__all__ = ["Bound", "Relaxed", "upper_bound"]

Floats = npt.NDArray[np.float64]

_ALIKE = 1e-12
"""Needs of a sample this close, as a share, are equal: the same rate, computed from more workers."""
_MARGIN = 1e-9
"""Share by which a bound is raised, for what rounding errors may have taken off it."""
_STEPS = 20
"""Subgradient steps of a round after the first."""
_FIRST_SHARE, _LARGEST_SHARE = 0.1, 0.3
"""By how much lower a bound a step aims at: at first, and at most."""
_LEAST_USE = 1e-15
"""Shares of the cluster below this are left out of the master program; the bound does not rest on it."""


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """An upper bound, with the prices that prove it.

    Attributes
    ----------
    value : float
        No schedule of the jobs earns more.
    prices : (T, R) float64
        Utility per unit of a resource and slot, >= 0: the certificate. ``Relaxed.certify(prices)`` is ``value``.
    least : float
        What some relaxed schedule earns: no prices give a bound below this.
    rounds : int
        Of the search so far.
    """

    value: float
    prices: Floats
    least: float
    rounds: int

    @property
    def gap(self) -> float:
        """How much better other prices could still be, as a share of the value."""
        return max(0.0, 1.0 - self.least / self.value) if self.value > 0 else 0.0


class Relaxed:
    """Jobs that may use every resource of all machines as if it were one machine's, in any fraction.

    Parameters
    ----------
    jobs : sequence of Job
        All of them; those that cannot finish even so are left out.
    cluster : Cluster
        The machines.
    horizon : int
        T, >= 1.
    slot_seconds : float
        Length of a slot, > 0.

    Attributes
    ----------
    jobs : list of Job
        Those that remain.
    claims : list of Claim
        The same in arrays, utilities as shares of ``scale``.
    scale : float
        Largest utility that any of them can finish with.
    capacity : (R,) float64
        What all machines together have of each resource, in its own unit.
    """

    def __init__(self, jobs: Sequence[Job], cluster: Cluster, horizon: int, slot_seconds: float) -> None:
        if horizon < 1:
            raise InvalidInput(f"horizon must be >= 1, got {horizon}")
        if not (math.isfinite(slot_seconds) and slot_seconds > 0):
            raise InvalidInput(f"slot_seconds must be > 0 and finite, got {slot_seconds!r}")
        self.horizon = horizon
        self.capacity: Floats = cluster.grains.sum(axis=0) * cluster.grain
        surveyed = [(job, _claim(job, cluster, horizon, slot_seconds)) for job in jobs]
        found = [(job, claim) for job, claim in surveyed if claim is not None]
        self.jobs = [job for job, _ in found]
        # Scaled by what can be earned: a solver's tolerances are absolute.
        self.scale = max((float(claim.utility[claim.earliest]) for _, claim in found), default=1.0)
        self.claims = [claim._replace(utility=claim.utility / self.scale) for _, claim in found]

    @property
    def size(self) -> int:
        """Slots in which a job might run, over all jobs: what a round looks at, at most."""
        return sum(len(claim.utility) for claim in self.claims)

    def certify(self, prices: Floats) -> float:
        """Return the bound that prices prove.

        Parameters
        ----------
        prices : (T, R) float64
            Utility per unit of a resource and slot, >= 0.

        Raises
        ------
        InvalidInput
            If they are negative, not finite or of another shape.
        """
        shape = (self.horizon, len(self.capacity))
        if prices.shape != shape:
            raise InvalidInput(f"prices must have shape (slots, resources) = {shape}, got {prices.shape}")
        if not (np.isfinite(prices) & (prices >= 0)).all():
            raise InvalidInput("prices must be >= 0 and finite")
        return self._value(prices * self.capacity / self.scale)[0]

    def _value(self, prices: Floats) -> tuple[float, list[int]]:
        """Return the bound at prices of the whole cluster, in shares of the scale, and each job's completion."""
        answers = [best(claim, prices) for claim in self.claims]
        total = math.fsum(prices.reshape(-1)) + math.fsum(payoff for payoff, _ in answers)
        return total * self.scale * (1.0 + _MARGIN), [completion for _, completion in answers]

    def improve(self, gap: float = 1e-3, rounds: int = 500) -> Iterator[Bound]:
        """Yield bounds, each at least as good as the one before.

        A round is a few subgradient steps, which bring the prices near the best ones, and one master program over all
        schedules met, which says how near and moves the prices on.

        Parameters
        ----------
        gap : float
            Stop where no prices can be better by more than this share, > 0.
        rounds : int
            Stop after so many, >= 1.

        Yields
        ------
        Bound
            One for each round. Stop at any time: every one of them holds.
        """
        if not (math.isfinite(gap) and gap > 0):
            raise InvalidInput(f"gap must be > 0 and finite, got {gap!r}")
        if rounds < 1:
            raise InvalidInput(f"rounds must be >= 1, got {rounds}")
        if not self.claims:
            yield Bound(0.0, np.zeros((self.horizon, len(self.capacity))), 0.0, 0)
            return
        unit = np.divide(self.scale, self.capacity, out=np.zeros_like(self.capacity), where=self.capacity > 0)
        search = _Search(self, self._first_prices())
        master = _Master(self.claims, self.horizon, len(self.capacity))
        least = 0.0
        for number in range(1, rounds + 1):
            for _ in range(_STEPS if number > 1 else 1):
                search.step()
            master.add(search.met)
            search.met.clear()
            earned, duals = master.solve()
            least = max(least, earned * self.scale)
            yield Bound(search.value, search.prices * unit, least, number)
            if search.value - least <= gap * search.value:
                return
            # The duals alone jump from corner to corner; halfway to the best prices so far is where to look next.
            search.try_out((search.prices + duals) / 2.0)

    def _first_prices(self) -> Floats:
        """Return the value of a slot of the cluster at which the jobs would fill it over the whole horizon.

        The same in every slot: a fractional knapsack over the jobs by their value for the size of their thriftiest
        point.
        """
        sizes, densities = [], []
        for claim in self.claims:
            used = np.outer(claim.workers, claim.worker) + np.outer(claim.servers, claim.server)
            size = float((used.mean(axis=1) / claim.samples).min()) * claim.needed
            sizes.append(size)
            densities.append(float(claim.utility[claim.earliest]) / size)
        order = np.argsort(densities)[::-1]
        reach = int(np.searchsorted(np.cumsum(np.array(sizes)[order]), self.horizon))
        base = densities[order[reach]] if reach < len(order) else 0.0
        return np.full((self.horizon, len(self.capacity)), base / len(self.capacity))


class _Search:
    """Subgradient steps from the best prices so far, in shares of the whole cluster and of the scale.

    Attributes
    ----------
    prices : (T, R) float64
        Best so far.
    value : float
        The bound that they prove.
    met : list of (int, int, (n, R) float64)
        Schedules with which jobs answered and that are new: job, completion, and what it uses from its arrival on.
    """

    def __init__(self, relaxed: Relaxed, first: Floats) -> None:
        self._relaxed = relaxed
        self._known: set[bytes] = set()
        self._share = _FIRST_SHARE
        self.met: list[tuple[int, int, Floats]] = []
        self.value, self.prices = math.inf, first
        self.look(first)

    def look(self, point: Floats) -> None:
        """Ask every job for its best schedule at these prices; keep them if they are the best so far."""
        found, completions = self._relaxed._value(point)
        self._point, self._found = point, found
        self._slack = np.ones_like(point)
        for i, completion in enumerate(completions):
            if completion < 0:
                continue
            claim = self._relaxed.claims[i]
            workers, servers = schedule(claim, point, completion)
            used = np.outer(workers, claim.worker) + np.outer(servers, claim.server)
            self._slack[claim.arrival : claim.arrival + completion + 1] -= used
            key = hashlib.blake2b(b"%d %d" % (i, completion) + workers.tobytes() + servers.tobytes(), digest_size=16)
            if key.digest() not in self._known:
                self._known.add(key.digest())
                self.met.append((i, completion, used))
        if found < self.value:
            self.value, self.prices = found, point
            self._share = min(self._share * 1.2, _LARGEST_SHARE)
        else:
            self._share *= 0.9

    def try_out(self, point: Floats) -> None:
        """Look at other prices, and go on from where the steps were unless these are better than all before."""
        where, share, value = (self._point, self._slack, self._found), self._share, self.value
        self.look(point)
        if self.value >= value:
            (self._point, self._slack, self._found), self._share = where, share

    def step(self) -> None:
        """Go against the slack: dearer where more is asked for than there is, cheaper where something is left."""
        # A price of zero cannot fall.
        way = np.where((self._point <= 0) & (self._slack > 0), 0.0, -self._slack)
        length = float((way * way).sum())
        if length <= _LEAST_USE:
            return
        # As far as a bound that is lower by a share of the best would lie if the bound were linear (Polyak's step).
        wanted = (self._found - self.value * (1.0 - self._share)) / self._relaxed.scale
        self.look(np.maximum(0.0, self._point + way * (wanted / length)))


class _Master:
    """Choose among relaxed schedules: at most one a job in all, no resource beyond the cluster in any slot."""

    def __init__(self, claims: Sequence[Claim], horizon: int, resources: int) -> None:
        self._claims = claims
        self._shape = (horizon, resources)
        self._filled = False
        rows = horizon * resources + len(claims)
        nothing = Matrix(np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0))
        sides = np.full(rows, -np.inf), np.ones(rows)
        self._program = LinearProgram(np.empty(0), nothing, *sides, np.empty(0), maximise=True)

    def add(self, schedules: Sequence[tuple[int, int, Floats]]) -> None:
        """Add schedules: job, completion, and what it uses from its arrival on, (n, R)."""
        horizon, resources = self._shape
        starts, rows, values, gains = [0], [], [], []
        for i, completion, use in schedules:
            claim, used = self._claims[i], use.reshape(-1)
            entries = np.flatnonzero(used > _LEAST_USE)
            rows += [entries + claim.arrival * resources, np.array([horizon * resources + i])]
            values += [used[entries], np.ones(1)]
            starts.append(starts[-1] + len(entries) + 1)
            gains.append(claim.utility[completion])
        if gains:
            self._filled = True
            matrix = Matrix(np.array(starts), np.concatenate(rows), np.concatenate(values))
            self._program.add(np.array(gains), matrix, np.full(len(gains), np.inf))

    def solve(self) -> tuple[float, Floats]:
        """Return what the best choice earns, and the prices of the cluster that go with it."""
        if not self._filled:
            # No job has paid yet, at any prices so far.
            return 0.0, np.zeros(self._shape)
        solution = self._program.solve()
        if solution.status is not Status.OPTIMAL:
            raise SolverFailed("HiGHS found no choice of schedules, of which choosing none is one")
        prices = np.maximum(solution.duals[: self._shape[0] * self._shape[1]], 0.0)
        return solution.objective, prices.reshape(self._shape)


def upper_bound(
    jobs: Sequence[Job],
    cluster: Cluster,
    *,
    horizon: int,
    slot_seconds: float,
    gap: float = 1e-3,
    rounds: int = 500,
) -> Bound:
    """Return a certified upper bound on the utility that any scheduler can earn with these jobs.

    Parameters
    ----------
    jobs : sequence of Job
        All jobs.
    cluster : Cluster
        The machines.
    horizon : int
        T, >= 1.
    slot_seconds : float
        Length of a slot, > 0.
    gap : float
        Stop where no prices can be better by more than this share, > 0.
    rounds : int
        Stop after so many rounds in any case.

    Examples
    --------
    >>> import slotwise
    >>> work = slotwise.paper(jobs=20, machines=10, horizon=10, seed=0)
    >>> bound = slotwise.upper_bound(work.jobs, work.cluster, horizon=10, slot_seconds=work.slot_seconds)
    >>> bound.gap <= 1e-3
    True
    """
    *_, last = Relaxed(jobs, cluster, horizon, slot_seconds).improve(gap, rounds)
    return last


def _claim(job: Job, cluster: Cluster, horizon: int, slot_seconds: float) -> Claim | None:
    """Return what a job may do in the relaxation; None if it cannot finish, or not for any value."""
    found = possible(job, cluster, slot_seconds)
    if found is None:
        return None
    full = found.configurations
    samples = np.where(found.allowed, full.samples, 0.0).max(axis=0)
    workers, servers = full.workers.astype(np.float64), full.servers.astype(np.float64)
    kept = _undominated(samples, workers, servers)
    needed = job.workload * (1.0 - TOLERANCE)
    slots = horizon - job.arrival
    if slots < 1 or not kept or samples[kept[-1]] * slots < needed:
        return None
    utility = job.utility.values(slots)
    earliest = max(0, math.ceil(needed / samples[kept[-1]]) - 1)
    if utility[earliest] <= 0:
        return None
    total = cluster.grains.sum(axis=0)
    shares = [np.divide(d, total, out=np.zeros_like(d), where=total > 0) for d in (found.worker, found.server)]
    return Claim(
        job.arrival, needed, earliest, utility, samples[kept], workers[kept], servers[kept], shares[0], shares[1]
    )


def _undominated(samples: Floats, workers: Floats, servers: Floats) -> list[int]:
    """Return the points that no part of a larger point beats at any prices, samples rising.

    A point is beaten if another has at least its samples, and no more workers and no more servers a sample.
    """
    # Of the points so far, those with the fewest workers a sample for their servers a sample: the former rise along the
    # list and the latter fall.
    front: list[tuple[float, float]] = []
    kept = []
    for j in np.lexsort((servers, workers, -samples)).tolist():
        if samples[j] <= 0:
            break
        w, s = workers[j] / samples[j], servers[j] / samples[j]
        at = bisect.bisect_right(front, (w * (1.0 + _ALIKE), math.inf))
        if at and front[at - 1][1] <= s * (1.0 + _ALIKE):
            continue
        at = end = bisect.bisect_left(front, (w, s))
        while end < len(front) and front[end][1] >= s:
            end += 1
        front[at:end] = [(w, s)]
        kept.append(j)
    return kept[::-1]
