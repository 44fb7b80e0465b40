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

__all__ = ["LARGEST", "AllReduceSpeed", "Configurations", "PaperSpeed", "SpeedModel"]


@dataclass(frozen=True, slots=True, eq=False)
class Configurations:
    """The (workers, servers) pairs that a job may run with in one slot.

    Attributes
    ----------
    workers : (K,) int64
        Workers, >= 1, never falling along the array.
    servers : (K,) int64
        Parameter servers, >= 0, never falling along the array.
    samples : (L, K) float64
        Samples trained in one slot, >= 0, at each locality level: row 0 with all of the job inside one machine, the
        last row anywhere in the cluster.
    """

    workers: npt.NDArray[np.int64]
    servers: npt.NDArray[np.int64]
    samples: npt.NDArray[np.float64]

    def __len__(self) -> int:
        """Return K, how many configurations there are."""
        return len(self.workers)

    def index(self, workers: int) -> int:
        """Return the first configuration with at least ``workers`` workers, or the last one."""
        return min(int(np.searchsorted(self.workers, workers)), len(self.workers) - 1)


@runtime_checkable
class SpeedModel(Protocol):
    """Turns worker and server counts into samples trained in a slot."""

    def servers(self, workers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the servers that go with each worker count, shape as ``workers``."""
        ...

    def samples_per_second(
        self, workers: npt.NDArray[np.int64], batch_size: int, bandwidth: float
    ) -> npt.NDArray[np.float64]:
        """Return samples a second of each worker count when every pair talks at ``bandwidth`` MB/s."""
        ...


LARGEST = 1e15
"""Numbers of a job beyond this, or below its inverse, are mistakes; within, no product of them overflows."""


def _within(name: str, value: float, low: float, high: float = LARGEST) -> None:
    if not low <= value <= high:
        raise InvalidJob(f"{name} must be in {low:g} ... {high:g}, got {value!r}")


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

    def servers(self, workers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return ceil(W / gamma), at least 1; a quotient within 1e-9 of a whole number is that number."""
        return np.maximum(np.ceil(workers / self.workers_per_server - 1e-9), 1.0).astype(np.int64)

    def samples_per_second(
        self, workers: npt.NDArray[np.int64], batch_size: int, bandwidth: float
    ) -> npt.NDArray[np.float64]:
        """Return W times the rate of one worker."""
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

    def servers(self, workers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return zeros."""
        return np.zeros_like(workers)

    def samples_per_second(
        self, workers: npt.NDArray[np.int64], batch_size: int, bandwidth: float
    ) -> npt.NDArray[np.float64]:
        """Return F over the seconds of one iteration."""
        compute = self.seconds_per_sample * batch_size / workers
        return batch_size / (compute + 2.0 * self.gradient_mb * (workers - 1) / (workers * bandwidth))
