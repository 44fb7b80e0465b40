"""The offline optimum: the most that a scheduler which knows all jobs beforehand can earn, as a mixed-integer program.

The model of section 3 of the paper as it stands, with whole workers and servers on machines; for small cases only.

=========================  ===========================================================================================
variable                   meaning
=========================  ===========================================================================================
done[i, t]                 job i is finished by slot t; earns u(t) - u(t + 1), which adds up to u of its completion
runs[i, t, g]              job i runs in slot t at location g: a machine, a domain of several, or the cluster
workers, servers[i, t, h]  how many are on machine h; each location has its own
chosen[i, t, g, k]         which configuration it is; only where samples are not in proportion to workers
=========================  ===========================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slotwise.errors import Overcommitted, SolverFailed
from slotwise.model.cluster import Cluster
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement, Schedule
from slotwise.model.speed import Configurations
from slotwise.optim.bound import Relaxed
from slotwise.optim.hull import Claim
from slotwise.optim.possible import Possible, possible
from slotwise.optim.program import LinearProgram, Matrix, Status
from slotwise.optim.request import TOLERANCE

__all__ = ["Optimum", "offline_optimum"]

Floats = npt.NDArray[np.float64]

_PROPORTIONAL = 1e-12
"""Samples per worker this close, as a share, are in proportion to workers."""
_SOLVED = 1e-6
"""Share by which the schedules may earn less than the solver says that they do."""


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The best schedules that were found for all jobs together.

    Attributes
    ----------
    value : float
        Utility that they earn, recomputed from them; they are checked against the machines, grain by grain.
    bound : float
        No schedules earn more (to the solver's tolerances): ``value`` if the program was solved to the end.
    schedules : dict of str to Schedule
        By job id, of the jobs that finish.
    proven : bool
        Whether the solver ended, to the gap that was asked for, before its time limit.
    """

    value: float
    bound: float
    schedules: dict[str, Schedule]
    proven: bool

    @property
    def gap(self) -> float:
        """How much more than ``value`` might be possible, as a share of the bound."""
        return max(0.0, 1.0 - self.value / self.bound) if self.bound > 0 else 0.0


def offline_optimum(
    jobs: Sequence[Job],
    cluster: Cluster,
    *,
    horizon: int,
    slot_seconds: float,
    seconds: float | None = None,
    gap: float = 0.0,
) -> Optimum:
    """Return the best schedules of all jobs together, all of them known beforehand.

    Parameters
    ----------
    jobs : sequence of Job
        About ten; ids are distinct.
    cluster : Cluster
        About five machines.
    horizon : int
        T, about ten.
    slot_seconds : float
        Length of a slot, > 0.
    seconds : float, optional
        Time limit, > 0; what was found by then is returned with the gap that is left.
    gap : float
        Relative gap at which to stop, >= 0.

    Raises
    ------
    SolverFailed
        If the solver's answer does not stand up to a check: its tolerances can be too coarse where demands or
        workloads differ by many orders of magnitude.
    """
    relaxed = Relaxed(jobs, cluster, horizon, slot_seconds)
    if not relaxed.jobs:
        return Optimum(0.0, 0.0, {}, True)
    # Whatever has a claim has choices.
    found = [choices for job in relaxed.jobs if (choices := possible(job, cluster, slot_seconds)) is not None]
    model = _Model(cluster, horizon, found)
    plans = [
        (job, choices, model.add(job, choices, claim))
        for job, choices, claim in zip(relaxed.jobs, found, relaxed.claims, strict=True)
    ]
    solution = model.program().solve(seconds=seconds, gap=gap)
    if solution.status is Status.INFEASIBLE:
        raise SolverFailed("HiGHS found the offline program infeasible, of which running nothing is a solution")
    schedules: dict[str, Schedule] = {}
    earned = []
    ledger = Ledger(cluster, horizon)
    for job, choices, plan in plans if len(solution.values) else []:
        schedule = _read(job, choices, plan, solution.values, cluster)
        if schedule is not None:
            try:
                ledger.commit(schedule.slots, schedule.placements, choices.worker, choices.server)
            except Overcommitted as error:
                raise SolverFailed(f"HiGHS does not keep to the machines' capacities: {error}") from None
            schedules[job.id] = schedule
            earned.append(float(job.utility.values(horizon - job.arrival)[schedule.completion - job.arrival]))
    value = math.fsum(earned)
    claimed = solution.objective * relaxed.scale if len(solution.values) else 0.0
    if value < claimed * (1.0 - _SOLVED):
        raise SolverFailed(f"HiGHS says that its schedules earn {claimed:.9g}, they earn {value:.9g}")
    # Out of time there may be no bound at all; what all jobs are worth at their earliest is one.
    bound = min(solution.bound * relaxed.scale, relaxed.certify(np.zeros((horizon, len(cluster.resources)))))
    return Optimum(value, max(value, bound), schedules, solution.status is Status.OPTIMAL)


@dataclass(slots=True)
class _Location:
    """The columns of one job in one slot at one location: a machine (level 0), or a domain of a higher level."""

    level: int
    runs: int
    workers: list[tuple[int, int]] = field(default_factory=list)
    """(column, machine)."""
    servers: list[tuple[int, int]] = field(default_factory=list)
    """(column, machine)."""
    chosen: list[tuple[int, int]] = field(default_factory=list)
    """(column, configuration); empty where samples are in proportion to workers."""


Plan = list[list[_Location]]
"""Locations in each slot from a job's arrival on."""


class _Model:
    """The program under construction.

    Each resource is counted in the largest unit of which all demands are whole multiples: rows of small whole numbers
    are what a solver with tolerances keeps exactly.
    """

    def __init__(self, cluster: Cluster, horizon: int, found: Sequence[Possible]) -> None:
        self._cluster = cluster
        machines, resources = cluster.grains.shape
        whole = np.array([demand for choices in found for demand in (choices.worker, choices.server)]).astype(np.int64)
        # No demand at all has the unit 0.
        self._unit: Floats = np.maximum(np.gcd.reduce(whole, axis=0), 1).astype(np.float64)
        self._gains: list[float] = []
        self._most: list[float] = []
        self._columns: list[int] = []
        self._rows: list[int] = []
        self._values: list[float] = []
        # Rows of capacity come first: slot, machine, resource.
        self._lower = [-math.inf] * (horizon * machines * resources)
        self._upper = np.tile(np.floor(cluster.grains / self._unit).reshape(-1), horizon).tolist()

    def _column(self, most: float, gain: float = 0.0) -> int:
        self._gains.append(gain)
        self._most.append(most)
        return len(self._gains) - 1

    def _row(self, lower: float, upper: float, entries: Sequence[tuple[int, float]]) -> None:
        self._lower.append(lower)
        self._upper.append(upper)
        for column, value in entries:
            self._put(len(self._lower) - 1, column, value)

    def _put(self, row: int, column: int, value: float) -> None:
        self._rows.append(row)
        self._columns.append(column)
        self._values.append(value)

    def program(self) -> LinearProgram:
        """Return the program; every column is whole."""
        count = len(self._gains)
        columns, rows = np.array(self._columns, dtype=np.int64), np.array(self._rows, dtype=np.int64)
        return LinearProgram(
            np.array(self._gains),
            Matrix.of(columns, rows, np.array(self._values), count),
            np.array(self._lower),
            np.array(self._upper),
            np.array(self._most),
            maximise=True,
            integer=np.ones(count, dtype=np.bool_),
        )

    def add(self, job: Job, choices: Possible, claim: Claim) -> Plan:
        """Add a job, in the slots in which finishing it is worth anything."""
        plan: Plan = []
        trained: list[tuple[int, float]] = []
        for d in range(int(np.count_nonzero(claim.utility > 0))):
            locations, more = self._add_slot(job.arrival + d, choices, claim.needed)
            plan.append(locations)
            trained += more
            gain = claim.utility[d] - (claim.utility[d + 1] if d + 1 < len(claim.utility) else 0.0)
            if gain > 0 and d >= claim.earliest:
                self._row(0.0, math.inf, [(self._column(1.0, gain), -1.0), *trained])
        return plan

    def _add_slot(self, t: int, choices: Possible, needed: float) -> tuple[list[_Location], list[tuple[int, float]]]:
        """Add the locations of a job in a slot; return them, and (column, share of what it needs that this trains)."""
        locations: list[_Location] = []
        trained: list[tuple[int, float]] = []
        for level, among in _domains(self._cluster):
            location = self._add_location(t, level, among, choices, np.flatnonzero(choices.allowed[level]))
            if location is None:
                continue
            locations.append(location)
            samples = choices.configurations.samples[level]
            if location.chosen:
                trained += [(column, min(1.0, samples[k] / needed)) for column, k in location.chosen]
            else:
                # More than all of it is no use, and no number for a solver.
                each = min(1.0, samples[0] / choices.configurations.workers[0] / needed)
                trained += [(column, each) for column, _ in location.workers]
        if len(locations) > 1:
            self._row(-math.inf, 1.0, [(location.runs, 1.0) for location in locations])
        return locations, trained

    def _add_location(
        self, t: int, level: int, machines: Sequence[int], choices: Possible, allowed: npt.NDArray[np.int64]
    ) -> _Location | None:
        full = choices.configurations
        room = [[self._room(h, demand, most) for h in machines] for demand, most in self._roles(choices, allowed)]
        fewest = [counts[allowed].min(initial=LARGEST_WORKERS) for counts in (full.workers, full.servers)]
        if len(allowed) == 0 or sum(room[0]) < fewest[0] or sum(room[1]) < fewest[1]:
            return None
        location = _Location(level, self._column(1.0))
        for demand, rooms, columns in zip(
            (choices.worker, choices.server), room, (location.workers, location.servers), strict=True
        ):
            for h, most in zip(machines, rooms, strict=True):
                if most > 0:
                    columns.append((self._column(float(most)), h))
                    self._take(t, h, columns[-1][0], demand)
        workers = [(column, 1.0) for column, _ in location.workers]
        servers = [(column, 1.0) for column, _ in location.servers]
        samples = full.samples[level]
        ratio = _ratio(samples, full.workers, full.servers)
        if ratio is not None:
            self._row(0.0, math.inf, [*workers, (location.runs, -float(full.workers[0]))])
            self._row(-math.inf, 0.0, [*workers, (location.runs, -float(full.workers[allowed[-1]]))])
            if ratio > 0:
                self._row(0.0, math.inf, [*servers, *((column, -ratio) for column, _ in workers)])
            return location
        location.chosen = [(self._column(1.0), k) for k in _useful(full, samples, allowed)]
        self._row(0.0, 0.0, [(location.runs, -1.0), *((column, 1.0) for column, _ in location.chosen)])
        for units, needs in (workers, full.workers), (servers, full.servers):
            needed = [(column, -float(needs[k])) for column, k in location.chosen]
            self._row(0.0, math.inf, [*units, *needed])
        return location

    @staticmethod
    def _roles(choices: Possible, allowed: npt.NDArray[np.int64]) -> list[tuple[Floats, int]]:
        full = choices.configurations
        most = (int(counts[allowed].max(initial=0)) for counts in (full.workers, full.servers))
        return list(zip((choices.worker, choices.server), most, strict=True))

    def _room(self, machine: int, demand: Floats, most: int) -> int:
        """Return how many of one role fit on a machine alone, at most ``most``."""
        some = demand > 0
        return int(np.floor(self._cluster.grains[machine, some] / demand[some]).min(initial=most))

    def _take(self, t: int, machine: int, column: int, demand: Floats) -> None:
        """Let each unit of a column take its demand from a machine."""
        machines, resources = self._cluster.grains.shape
        for r in np.flatnonzero(demand).tolist():
            self._put((t * machines + machine) * resources + r, column, demand[r] / self._unit[r])


def _domains(cluster: Cluster) -> list[tuple[int, list[int]]]:
    """Return (level, machines) of every machine, of domains of more than one machine, and of the whole cluster."""
    found: list[tuple[int, list[int]]] = []
    for level, domain in enumerate(cluster.domains):
        for part in np.split(np.arange(len(cluster)), np.flatnonzero(np.diff(domain)) + 1):
            if level in (0, len(cluster.domains) - 1) or len(part) > 1:
                found.append((level, part.tolist()))
    return found


def _useful(full: Configurations, samples: Floats, allowed: npt.NDArray[np.int64]) -> list[int]:
    """Return the configurations that no other one beats with no more workers, no more servers and as many samples."""
    kept: list[int] = []
    for k in allowed[np.lexsort((full.servers[allowed], full.workers[allowed], -samples[allowed]))].tolist():
        fewer = (full.workers[kept] <= full.workers[k]) & (full.servers[kept] <= full.servers[k])
        if samples[k] > 0 and not fewer.any():
            kept.append(k)
    return sorted(kept)


def _ratio(samples: Floats, workers: npt.NDArray[np.int64], servers: npt.NDArray[np.int64]) -> float | None:
    """Return servers a worker, if the servers of W are the least whole number >= ratio x W and samples go with W.

    None if they do not, or if not every worker count in between is allowed.
    """
    each = samples / workers
    if (np.diff(workers) != 1).any() or np.ptp(each) > _PROPORTIONAL * each.max():
        return None
    if not servers.any():
        return 0.0
    # S >= ratio x W asks for S servers of W workers, and not for S - 1 of them, if (S - 1) / W < ratio <= S / W.
    ratio = float((servers / workers).min())
    return ratio if float(((servers - 1) / workers).max()) < ratio else None


def _read(job: Job, choices: Possible, plan: Plan, values: Floats, cluster: Cluster) -> Schedule | None:
    """Return the schedule that a solution holds, up to the slot in which the job finishes; None if it does not."""
    full = choices.configurations
    slots, placements, samples = [], [], []
    left = job.workload * (1.0 - TOLERANCE)
    for d, locations in enumerate(plan):
        for location in locations:
            if values[location.runs] < 0.5:
                continue
            workers = {h: round(values[column]) for column, h in location.workers}
            servers = {h: round(values[column]) for column, h in location.servers}
            k = next((k for column, k in location.chosen if values[column] > 0.5), None)
            if k is None:
                k = int(np.flatnonzero(full.workers == sum(workers.values()))[0])
            placement = _cut(workers, servers, int(full.workers[k]), int(full.servers[k]))
            slots.append(job.arrival + d)
            placements.append(placement)
            # Where all of it happens to be in a smaller domain, that one's bandwidth is what it has.
            samples.append(float(full.samples[cluster.level(placement.machines), k]))
            left -= samples[-1]
            if left <= 0:
                return Schedule(tuple(slots), tuple(placements), tuple(samples))
    return None


def _cut(workers: dict[int, int], servers: dict[int, int], most_workers: int, most_servers: int) -> Placement:
    """Return a placement with exactly so many workers and servers, what is more cut back from the last machines."""
    kept: dict[int, list[int]] = {}
    for role, (counts, left) in enumerate([(workers, most_workers), (servers, most_servers)]):
        for machine, count in counts.items():
            here = min(left, count)
            kept.setdefault(machine, [0, 0])[role] = here
            left -= here
    return Placement.of({machine: (w, s) for machine, (w, s) in kept.items()})
