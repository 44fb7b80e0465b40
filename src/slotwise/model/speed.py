"""How fast a job trains, and the configurations that follow from it.

A speed model is the only place that knows gradients, batch sizes and seconds per sample. Everything that plans sees
an array of configurations: workers, servers, and samples in one slot at each level of locality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidJob

__all__ = [
    "LARGEST",
    "LARGEST_WORKERS",
    "AllReduceSpeed",
    "Configurations",
    "FittedAllReduce",
    "FittedSpeed",
    "PaperSpeed",
    "SpeedModel",
    "counts",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


LARGEST_WORKERS = 10_000
"""Most workers of one job; a larger maximum is bad input, since its cost curves would have more points than
machines."""


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """The (workers, servers) pairs that a job may run with in one slot.

    They are distinct, in order of servers, those with equal servers in order of workers.

    Attributes
    ----------
    workers : (K,) int64
        Workers, >= 1.
    servers : (K,) int64
        Parameter servers, >= 0, never falling along the array.
    samples : (L, K) float64
        Samples trained in one slot, >= 0, at each locality level: row 0 with all of the job inside one machine, the
        last row anywhere in the cluster. 0 at a level where the job may not run, or at which a pair is of no use.
    """

    workers: Ints
    servers: Ints
    samples: Floats

    def __len__(self) -> int:
        """Return K, how many configurations there are."""
        return len(self.workers)

    def only(self, chosen: npt.NDArray[np.bool_]) -> Configurations:
        """Return some of them, by a (K,) mask."""
        return Configurations(self.workers[chosen], self.servers[chosen], self.samples[:, chosen])


@runtime_checkable
class SpeedModel(Protocol):
    """What a job may run with, and how fast it then trains."""

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return the (workers, servers) that a job may run with.

        Parameters
        ----------
        least, most : int
            Workers, 1 <= least <= most.
        most_servers : int, optional
            Servers at most where the model leaves their number open, >= 1; a model that sets it takes no notice. None:
            what the model thinks is enough.

        Returns
        -------
        workers, servers : (K,) int64
            In order of servers, those with equal servers in order of workers.
        """
        ...

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return samples a second of each pair, >= 0, when workers and servers talk at ``bandwidth`` MB/s.

        Parameters
        ----------
        workers, servers : (K,) int64
            Pairs, of ``pairs`` or not.
        batch_size : int
            Samples of an iteration (F).
        bandwidth : float
            MB/s of one pair of a worker and a server, or of neighbours in an all-reduce, > 0.
        """
        ...


_EVERY = 48
"""Counts up to this are all tried where workers and servers are chosen freely."""
_ENOUGH = 64
"""Servers of a free choice at most, unless there are more workers: measured jobs gain nothing from as many."""
_COARSER = 16
"""Beyond, they grow by steps of a sixteenth: as close to any best count as measured speeds are to the truth."""


def counts(least: int, most: int) -> Ints:
    """Return the counts from ``least`` to ``most`` that a free choice looks at: all of them up to 48, then some.

    Beyond 48 each is a sixteenth larger than the one before; the last is ``most``.
    """
    found = list(range(least, min(most, max(least, _EVERY)) + 1))
    while found[-1] < most:
        found.append(min(most, found[-1] + max(1, found[-1] // _COARSER)))
    return np.array(found, dtype=np.int64)


def _alone(least: int, most: int) -> tuple[Ints, Ints]:
    """Return every worker count, without servers."""
    workers = np.arange(least, most + 1, dtype=np.int64)
    return workers, np.zeros_like(workers)


def _in_ratio(least: int, most: int, workers_per_server: float) -> tuple[Ints, Ints]:
    """Return one server count for each worker count."""
    workers = np.arange(least, most + 1, dtype=np.int64)
    return workers, _servers(workers, workers_per_server)


def _free(least: int, most: int, most_servers: int) -> tuple[Ints, Ints]:
    """Return all pairs of a free choice."""
    workers, servers = counts(least, most), counts(1, most_servers)
    return np.tile(workers, len(servers)), np.repeat(servers, len(workers))


LARGEST = 1e15
"""Numbers of a job beyond this, or below its inverse, are mistakes; within, no product of them overflows."""


def _within(name: str, value: float, low: float, high: float = LARGEST) -> None:
    if not low <= value <= high:
        raise InvalidJob(f"{name} must be in {low:g} ... {high:g}, got {value!r}")


def _servers(workers: Ints, workers_per_server: float) -> Ints:
    """Return ceil(W / gamma), at least 1; a quotient within 1e-9 of a whole number is that number."""
    return np.maximum(np.ceil(workers / workers_per_server - 1e-9), 1.0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class PaperSpeed:
    """Parameter servers, the paper's equation: rate = 1 / (tau + (gamma/F) (2g/b)) samples a second and worker.

    Attributes
    ----------
    seconds_per_sample : float
        Compute time of one sample on one worker (tau), 1e-15 ... 1e15.
    gradient_mb : float
        Gradient, and the parameters pulled back, in MB (g), 0 ... 1e15.
    workers_per_server : float
        Workers that one server serves (gamma), 0.001 ... 1e15, not always whole in traces. W workers have
        ceil(W / gamma) servers; the rate uses gamma even where there are more servers than that (conservative).
    """

    seconds_per_sample: float
    gradient_mb: float
    workers_per_server: float

    def __post_init__(self) -> None:
        _within("seconds_per_sample", self.seconds_per_sample, 1 / LARGEST)
        _within("gradient_mb", self.gradient_mb, 0.0)
        _within("workers_per_server", self.workers_per_server, 0.001)

    def servers(self, workers: Ints) -> Ints:
        """Return ceil(W / gamma), at least 1; a quotient within 1e-9 of a whole number is that number."""
        return _servers(workers, self.workers_per_server)

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return one server count for each worker count."""
        return _in_ratio(least, most, self.workers_per_server)

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return W times the rate of one worker, whatever the servers."""
        transfer = self.workers_per_server / batch_size * 2.0 * self.gradient_mb / bandwidth
        return workers / (self.seconds_per_sample + transfer)


@dataclass(frozen=True, slots=True)
class AllReduceSpeed:
    """No servers: seconds an iteration = tau F / W + 2 g (W - 1) / (W b).

    Attributes
    ----------
    seconds_per_sample : float
        Compute time of one sample on one worker (tau), 1e-15 ... 1e15.
    gradient_mb : float
        Gradient in MB (g), 0 ... 1e15. With a large one, more workers may be slower.
    """

    seconds_per_sample: float
    gradient_mb: float

    def __post_init__(self) -> None:
        _within("seconds_per_sample", self.seconds_per_sample, 1 / LARGEST)
        _within("gradient_mb", self.gradient_mb, 0.0)

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return every worker count, without servers."""
        return _alone(least, most)

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return F over the seconds of one iteration."""
        compute = self.seconds_per_sample * batch_size / workers
        return batch_size / (compute + 2.0 * self.gradient_mb * (workers - 1) / (workers * bandwidth))


@dataclass(frozen=True, slots=True)
class FittedSpeed:
    """Parameter servers, fitted to measurements; workers and servers are chosen freely unless their ratio is given.

    Seconds an iteration = c0 + c1 F / W + k c2 W / S + k c3 S + c4 W, the form that Optimus uses (Peng et al., EuroSys
    2018), where k scales what goes over the network to the bandwidth of the domain.

    Attributes
    ----------
    overhead : float
        c0, seconds an iteration, 0 ... 1e15.
    compute : float
        c1, seconds a sample on one worker.
    transfer : float
        c2, seconds an iteration for each worker that a server serves.
    per_server : float
        c3, seconds an iteration for each server.
    per_worker : float
        c4, seconds an iteration for each worker.
    bandwidth : float, optional
        MB/s at which c2 and c3 hold: k is this over the bandwidth of the domain. None: they hold at any bandwidth.
    workers_per_server : float, optional
        Workers that one server serves (gamma), 0.001 ... 1e15: W workers have ceil(W / gamma) servers. None: free.
    """

    overhead: float
    compute: float
    transfer: float
    per_server: float
    per_worker: float
    bandwidth: float | None = None
    workers_per_server: float | None = None

    def __post_init__(self) -> None:
        parts = ("overhead", "compute", "transfer", "per_server", "per_worker")
        for name in parts:
            _within(name, getattr(self, name), 0.0)
        if not any(getattr(self, name) > 0 for name in parts):
            raise InvalidJob(f"one of {', '.join(parts)} must be > 0, got 0 for all of them")
        if self.bandwidth is not None:
            _within("bandwidth", self.bandwidth, 1 / LARGEST)
        if self.workers_per_server is not None:
            _within("workers_per_server", self.workers_per_server, 0.001)

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return every pair of a free choice, see ``counts``; with a ratio, one server count for each worker count."""
        if self.workers_per_server is None:
            return _free(least, most, max(most, _ENOUGH) if most_servers is None else most_servers)
        return _in_ratio(least, most, self.workers_per_server)

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return F over the seconds of one iteration."""
        scale = 1.0 if self.bandwidth is None else self.bandwidth / bandwidth
        network = scale * (self.transfer * workers / servers + self.per_server * servers)
        local = self.overhead + self.compute * batch_size / workers + self.per_worker * workers
        return batch_size / (local + network)


@dataclass(frozen=True, slots=True)
class FittedAllReduce:
    """No servers, fitted to measurements.

    Seconds an iteration = c0 + c1 F / W + (c2 + k c3) (W - 1) / W + c4 (W - 1). The share (W - 1) / W of the gradient
    is what goes over each link of a ring, twice; k scales what depends on the bandwidth to that of the domain.

    Attributes
    ----------
    overhead : float
        c0, seconds an iteration, 0 ... 1e15.
    compute : float
        c1, seconds a sample on one worker.
    sync : float
        c2, seconds an iteration of many workers that no faster link takes away.
    transfer : float
        c3, seconds an iteration of many workers on the network at ``bandwidth``.
    per_worker : float
        c4, seconds an iteration for each worker but the first.
    bandwidth : float, optional
        MB/s at which c3 holds: k is this over the bandwidth of the domain. None: it holds at any bandwidth.
    """

    overhead: float
    compute: float
    sync: float
    transfer: float
    per_worker: float
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        for name in ("overhead", "compute", "sync", "transfer", "per_worker"):
            _within(name, getattr(self, name), 0.0)
        if not (self.overhead > 0 or self.compute > 0):
            # One worker alone has nothing else.
            raise InvalidJob("overhead or compute must be > 0, got 0 for both")
        if self.bandwidth is not None:
            _within("bandwidth", self.bandwidth, 1 / LARGEST)

    def pairs(self, least: int, most: int, most_servers: int | None = None) -> tuple[Ints, Ints]:
        """Return every worker count, without servers."""
        return _alone(least, most)

    def samples_per_second(self, workers: Ints, servers: Ints, batch_size: int, bandwidth: float) -> Floats:
        """Return F over the seconds of one iteration."""
        scale = 1.0 if self.bandwidth is None else self.bandwidth / bandwidth
        others = workers - 1
        local = self.overhead + self.compute * batch_size / workers + self.per_worker * others
        return batch_size / (local + (self.sync + scale * self.transfer) * others / workers)
