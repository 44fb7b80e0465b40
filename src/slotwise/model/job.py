"""A training job as it is submitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slotwise.errors import InvalidJob
from slotwise.model.speed import Configurations, SpeedModel
from slotwise.model.utility import Utility
from slotwise.units import LARGEST_AMOUNT

__all__ = ["LARGEST_WORKERS", "LARGEST_WORKLOAD", "Job"]

LARGEST_WORKLOAD = 1e30
"""Samples of one job beyond this, or below its inverse, are a mistake."""

LARGEST_WORKERS = 10_000
"""Most workers of one job; a larger maximum is bad input, since its cost curves would have more points than
machines."""


@dataclass(frozen=True, slots=True)
class Job:
    """One training job.

    Attributes
    ----------
    id : str
        Name, unique among the jobs of a run; ties are broken by it.
    arrival : int
        Slot of arrival (the paper's a), >= 0.
    workload : float
        Samples to train in all, 1e-30 ... 1e30 (N = epochs times samples an epoch).
    batch_size : int
        Global batch in samples (F), >= 1.
    worker_demand, server_demand : mapping of str to float
        Amount of each resource that one worker (alpha), one server (beta) takes, >= 0. A worker demands something.
    speed : SpeedModel
        How fast it trains.
    utility : Utility
        What finishing is worth, by slots since arrival.
    min_workers, max_workers : int
        Workers of a slot in which it runs, 1 <= min <= max <= batch_size. Equal: a gang of fixed size.
        ``max_workers`` None: as many as the batch has samples.
    requested_workers : int, optional
        Workers that its owner asked for (a trace's own count), for policies that do not scale jobs.
    restart_seconds : float
        Time lost in a slot whose placement differs from the one before, >= 0.
    """

    id: str
    arrival: int
    workload: float
    batch_size: int
    worker_demand: Mapping[str, float]
    speed: SpeedModel
    utility: Utility
    server_demand: Mapping[str, float] = field(default_factory=dict)
    min_workers: int = 1
    max_workers: int | None = None
    requested_workers: int | None = None
    restart_seconds: float = 0.0

    def __post_init__(self) -> None:
        def refuse(name: str, bound: str, value: object) -> None:
            raise InvalidJob(f"job {self.id!r}: {name} must be {bound}, got {value!r}")

        if not self.id:
            raise InvalidJob("job id must not be empty")
        if self.arrival % 1 != 0:
            # It would be waited for in no slot.
            refuse("arrival", "a whole slot", self.arrival)
        if self.arrival < 0:
            refuse("arrival", ">= 0", self.arrival)
        if not 1 / LARGEST_WORKLOAD <= self.workload <= LARGEST_WORKLOAD:
            refuse("workload", f"in {1 / LARGEST_WORKLOAD:g} ... {LARGEST_WORKLOAD:g}", self.workload)
        if self.batch_size < 1:
            refuse("batch_size", ">= 1", self.batch_size)
        if self.max_workers is None:
            object.__setattr__(self, "max_workers", min(self.batch_size, LARGEST_WORKERS))
        if not 1 <= self.min_workers <= self.batch_size:
            refuse("min_workers", f"in 1 ... batch_size ({self.batch_size})", self.min_workers)
        if not self.min_workers <= self.most_workers <= self.batch_size:
            bound = f"in min_workers ({self.min_workers}) ... batch_size ({self.batch_size})"
            refuse("max_workers", bound, self.max_workers)
        if self.most_workers > LARGEST_WORKERS:
            refuse("max_workers", f"<= {LARGEST_WORKERS}", self.max_workers)
        if self.requested_workers is not None and not self.min_workers <= self.requested_workers <= self.most_workers:
            refuse("requested_workers", f"in {self.min_workers} ... {self.max_workers}", self.requested_workers)
        if not (math.isfinite(self.restart_seconds) and self.restart_seconds >= 0):
            refuse("restart_seconds", ">= 0 and finite", self.restart_seconds)
        servers = int(self.speed.servers(np.array([self.most_workers], dtype=np.int64))[0])
        if servers > LARGEST_WORKERS:
            refuse(f"the servers of {self.most_workers} workers", f"at most {LARGEST_WORKERS}", servers)
        for role, demand in (("worker", self.worker_demand), ("server", self.server_demand)):
            for resource, amount in demand.items():
                if not 0 <= amount <= LARGEST_AMOUNT:
                    refuse(f"{role}_demand[{resource!r}]", f"in 0 ... {LARGEST_AMOUNT:g}", amount)
        if not any(amount > 0 for amount in self.worker_demand.values()):
            refuse("worker_demand", "> 0 in at least one resource", dict(self.worker_demand))

    @property
    def most_workers(self) -> int:
        """``max_workers`` with its default filled in."""
        assert self.max_workers is not None  # set in __post_init__
        return self.max_workers

    def configurations(self, bandwidth: tuple[float, ...], slot_seconds: float) -> Configurations:
        """Return what the job may run with in a slot, and how much it then trains.

        Parameters
        ----------
        bandwidth : tuple of float
            MB/s of a pair at each locality level, from inside a machine to across the cluster.
        slot_seconds : float
            Length of a slot, > 0. ``restart_seconds`` are taken off it (safe: charged in every active slot).

        Returns
        -------
        Configurations
            One server count for each worker count from ``min_workers`` to ``max_workers``.
        """
        workers = np.arange(self.min_workers, self.most_workers + 1, dtype=np.int64)
        seconds = max(0.0, slot_seconds - self.restart_seconds)
        samples = [self.speed.samples_per_second(workers, self.batch_size, b) * seconds for b in bandwidth]
        return Configurations(workers, self.speed.servers(workers), np.array(samples, dtype=np.float64))
