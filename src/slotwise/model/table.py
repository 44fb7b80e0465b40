"""A speed that was measured, point by point, and follows no equation."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidJob
from slotwise.model.speed import LARGEST, LARGEST_WORKERS, counts
from slotwise.words import counted

__all__ = ["MOST_COUNTS", "SpeedPoint", "TableSpeed"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_COUNTS = 512
"""Different worker counts, and different server counts, of one table at most: its grid has a place for each pair."""


class SpeedPoint(NamedTuple):
    """One measurement: how fast a job trained with so many workers and servers.

    Attributes
    ----------
    workers : int
        1 ... 10,000.
    servers : int
        0 ... 10,000; 0 without servers (all-reduce).
    samples_per_second : float
        Of the whole job, at its own batch size. 0 is a failed run, not a speed.
    bandwidth : float, optional
        MB/s of a pair when it was measured, 1e-15 ... 1e15.
    """

    workers: int
    servers: int
    samples_per_second: float
    bandwidth: float | None = None


class _Grid(NamedTuple):
    """What was measured at one bandwidth, over all counts measured there; both arrays are (servers, workers)."""

    workers: Ints
    servers: Ints
    speed: Floats
    """Samples a second: as measured, else as in ``best``."""
    best: Floats
    """Samples a second of the best point with no more workers and no more servers; 0 where there is none."""


@dataclass(frozen=True, slots=True)
class TableSpeed:
    """Speeds as measured, between them interpolated, beyond them never faster than any of them.

    A measured pair has the mean of its measurements. Between measured counts the speed is bilinear in workers and
    servers: it lies within those of the four corners, and below the truth where more workers help less and less. A
    corner that was not measured is as fast as the best point with no more workers and no more servers, since what is
    too many may stay idle; so is a pair beyond the largest measured counts. A pair with no point below it has no known
    speed, and is none of the job's.

    A speed measured without a bandwidth holds at any. Otherwise a pair takes, of the bandwidths at which it has a
    speed, the two around the one asked for, and the seconds of an iteration are linear in the inverse of the bandwidth
    between them. Above the largest it is as fast as there; below the smallest its seconds grow as the bandwidth falls,
    as if all of them were transfer.

    Attributes
    ----------
    points : tuple of SpeedPoint
        At least one, as given to the constructor, but one for each bandwidth and pair (the mean), in order of these,
        without failed runs. All with servers or all without; all with a bandwidth or all without.
    """

    points: tuple[SpeedPoint, ...]
    _grids: tuple[tuple[float, _Grid], ...] = field(init=False, repr=False, compare=False, hash=False)
    """By bandwidth, rising; ``inf`` where there is none."""

    def __post_init__(self) -> None:
        given = [SpeedPoint(*point) for point in self.points]
        for i, point in enumerate(given):
            _check(i, point, given[0])
        found: dict[tuple[float, int, int], list[float]] = defaultdict(list)
        for workers, servers, speed, bandwidth in given:
            if speed > 0:
                found[math.inf if bandwidth is None else float(bandwidth), int(servers), int(workers)].append(speed)
        if not found:
            raise InvalidJob(f"points must have one of > 0 samples a second, got {counted(len(given), 'point')} of 0")
        for name, several in (("worker", {w for _, _, w in found}), ("server", {s for _, s, _ in found})):
            if len(several) > MOST_COUNTS:
                raise InvalidJob(f"points must have at most {MOST_COUNTS} {name} counts, got {len(several)}")
        points = []
        for (b, servers, workers), speeds in sorted(found.items()):
            mean = math.fsum(speeds) / len(speeds)
            points.append(SpeedPoint(workers, servers, mean, None if b == math.inf else b))
        object.__setattr__(self, "points", tuple(points))
        bandwidths = sorted({b for b, _, _ in found})
        grids = tuple((b, _grid([p for p in points if p.bandwidth in (b, None)])) for b in bandwidths)
        object.__setattr__(self, "_grids", grids)

    @property
    def measured_workers(self) -> tuple[int, ...]:
        """Worker counts that were measured, rising."""
        return tuple(sorted({point.workers for point in self.points}))

    @property
    def measured_servers(self) -> tuple[int, ...]:
        """Server counts that were measured, rising; (0,) without servers."""
        return tuple(sorted({point.servers for point in self.points}))

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return the pairs with a known speed: the measured counts, and those between that ``counts`` has."""
        worker = _between(self.measured_workers, least, most)
        server = _between(self.measured_servers, 0, self.measured_servers[-1] if most_servers is None else most_servers)
        workers, servers = np.tile(worker, len(server)), np.repeat(server, len(worker))
        known = np.zeros(len(workers), dtype=np.bool_)
        for _, grid in self._grids:
            known |= _speed(grid, workers, servers) > 0
        return workers[known], servers[known]

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return what was measured, or what follows from it; 0 without a known speed. The batch size is the job's."""
        # Of each pair, the nearest bandwidth on either side at which it has a speed; 0 where there is none.
        below, slower = (np.zeros(np.shape(workers)) for _ in range(2))
        above, faster = (np.zeros(np.shape(workers)) for _ in range(2))
        for at, grid in self._grids:
            speed = _speed(grid, workers, servers)
            # Without bandwidths ``at`` is inf: the same at any, as if it were below.
            if at <= bandwidth or at == math.inf:
                below, slower = np.where(speed > 0, at, below), np.where(speed > 0, speed, slower)
            else:
                new = (speed > 0) & (faster == 0)
                above, faster = np.where(new, at, above), np.where(new, speed, faster)
        rate = np.where(faster > 0, faster * bandwidth / np.where(faster > 0, above, 1.0), 0.0)
        rate = np.where(slower > 0, slower, rate)
        both = (slower > 0) & (faster > 0)
        low, high, at_low, at_high = slower[both], faster[both], below[both], above[both]
        # How far 1/b has come from that of the lower bandwidth to that of the higher.
        part = np.minimum((bandwidth - at_low) / (at_high - at_low) * (at_high / bandwidth), 1.0)
        between = 1.0 / ((1.0 - part) / low + part / high)
        between = np.clip(between, np.minimum(low, high), np.maximum(low, high))
        rate[both] = np.where(part == 0, low, between)
        return rate


def _check(i: int, point: SpeedPoint, first: SpeedPoint) -> None:
    """Refuse a point that is none, or that does not go with the first one."""
    for name, low in (("workers", 1), ("servers", 0)):
        count = getattr(point, name)
        if not (low <= count <= LARGEST_WORKERS and count % 1 == 0):
            raise InvalidJob(f"points[{i}].{name} must be a whole number in {low} ... {LARGEST_WORKERS}, got {count!r}")
    speed, bandwidth = point.samples_per_second, point.bandwidth
    if speed != 0 and not 1 / LARGEST <= speed <= LARGEST:
        bound = f"0 (a failed run) or in {1 / LARGEST:g} ... {LARGEST:g}"
        raise InvalidJob(f"points[{i}].samples_per_second must be {bound}, got {speed!r}")
    if bandwidth is not None and not 1 / LARGEST <= bandwidth <= LARGEST:
        raise InvalidJob(f"points[{i}].bandwidth must be in {1 / LARGEST:g} ... {LARGEST:g}, got {bandwidth!r}")
    if (bandwidth is None) != (first.bandwidth is None):
        raise InvalidJob(f"bandwidth must be given for all points or for none, got points[{i}] unlike points[0]")
    if (point.servers > 0) != (first.servers > 0):
        bound = "> 0" if first.servers > 0 else "0"
        raise InvalidJob(f"points[{i}].servers must be {bound}, as in points[0], got {point.servers}")


def _grid(points: Sequence[SpeedPoint]) -> _Grid:
    workers, worker = np.unique([point.workers for point in points], return_inverse=True)
    servers, server = np.unique([point.servers for point in points], return_inverse=True)
    measured = np.zeros((len(servers), len(workers)))
    measured[server, worker] = [point.samples_per_second for point in points]
    best = np.maximum.accumulate(np.maximum.accumulate(measured, axis=0), axis=1)
    return _Grid(workers.astype(np.int64), servers.astype(np.int64), np.where(measured > 0, measured, best), best)


def _speed(grid: _Grid, workers: Ints, servers: Ints) -> Floats:
    """Return samples a second of each pair at one bandwidth, 0 without a known speed."""
    i, i_next, along_servers = _place(grid.servers, servers)
    j, j_next, along_workers = _place(grid.workers, workers)
    corners = np.stack([grid.speed[i, j], grid.speed[i, j_next], grid.speed[i_next, j], grid.speed[i_next, j_next]])
    low = (1.0 - along_workers) * corners[0] + along_workers * corners[1]
    high = (1.0 - along_workers) * corners[2] + along_workers * corners[3]
    inside = (1.0 - along_servers) * low + along_servers * high
    # Rounding is not to make it faster than what was measured.
    inside = np.clip(inside, corners.min(axis=0), corners.max(axis=0))
    outside = (servers > grid.servers[-1]) | (workers > grid.workers[-1])
    speed = np.where(outside, grid.best[i, j], inside)
    unknown = (servers < grid.servers[0]) | (workers < grid.workers[0]) | (grid.best[i, j] == 0)
    return np.where(unknown, 0.0, speed)


def _place(measured: Ints, asked: Ints) -> tuple[Ints, Ints, Floats]:
    """Return the measured counts around each one asked for, by index, and how far it lies between the two."""
    low = np.clip(np.searchsorted(measured, asked, side="right") - 1, 0, len(measured) - 1)
    high = np.minimum(low + 1, len(measured) - 1)
    gap = measured[high] - measured[low]
    return low, high, np.where(gap > 0, (asked - measured[low]) / np.maximum(gap, 1), 0.0)


def _between(measured: Iterable[int], least: int, most: int) -> Ints:
    """Return the counts of a table that lie in ``least`` ... ``most``, rising."""
    known = np.array([*measured], dtype=np.int64)
    low, high = max(least, int(known[0])), min(most, int(known[-1]))
    if low > high:
        return np.zeros(0, dtype=np.int64)
    return np.union1d(counts(low, high), known[(known >= low) & (known <= high)]).astype(np.int64)
