"""A training job as it is submitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidJob
from slotwise.model.speed import LARGEST_WORKERS, Configurations, SpeedModel
from slotwise.model.utility import Utility
from slotwise.units import LARGEST_AMOUNT
from slotwise.words import counted

__all__ = ["LARGEST_WORKERS", "LARGEST_WORKLOAD", "Job"]

Ints = npt.NDArray[np.int64]

LARGEST_WORKLOAD = 1e30
"""Samples of one job beyond this, or below its inverse, are a mistake."""


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
    max_servers : int, optional
        Servers at most, >= 1. None: where the speed model leaves their number open, as many as it thinks of.
    domain : str, optional
        Locality level whose bounds it may never cross: ``"machine"``, ``"rack"`` ...; None: it may spread over the
        cluster.
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
    max_servers: int | None = None
    domain: str | None = None
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
        if self.max_servers is not None and not 1 <= self.max_servers <= LARGEST_WORKERS:
            refuse("max_servers", f"in 1 ... {LARGEST_WORKERS}", self.max_servers)
        if self.domain is not None and not self.domain:
            refuse("domain", "the name of a locality level", self.domain)
        servers = self.speed.pairs(self.most_workers, self.most_workers, self.max_servers)[1]
        if len(servers) and servers.max() > LARGEST_WORKERS:
            refuse(
                f"the servers of {counted(self.most_workers, 'worker')}",
                f"at most {LARGEST_WORKERS}",
                int(servers.max()),
            )
        if self.max_servers is not None:
            servers = self.speed.pairs(self.min_workers, self.min_workers, self.max_servers)[1]
            if len(servers) and servers.min() > self.max_servers:
                bound = f">= the servers of {counted(self.min_workers, 'worker')} ({int(servers.min())})"
                refuse("max_servers", bound, self.max_servers)
        if not len(self.speed.pairs(self.min_workers, self.most_workers, self.max_servers)[0]):
            # Only a table has none: it knows no speed beyond what was measured.
            bound = f"{self.min_workers} ... {self.most_workers} workers"
            if self.min_workers == self.most_workers:
                bound = counted(self.min_workers, "worker")
            if self.max_servers is not None:
                bound += f" and at most {counted(self.max_servers, 'server')}"
            raise InvalidJob(f"job {self.id!r}: speed must be known for {bound}, got a table of others")
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

    def configurations(self, bandwidth: Mapping[str, float], slot_seconds: float) -> Configurations:
        """Return what the job may run with in a slot, and how much it then trains.

        Parameters
        ----------
        bandwidth : mapping of str to float
            MB/s of a pair at each locality level, from inside a machine to across the cluster.
        slot_seconds : float
            Length of a slot, > 0. ``restart_seconds`` are taken off it (safe: charged in every active slot).

        Returns
        -------
        Configurations
            No slower at a level than at those above. Of pairs that the speed model leaves open, those that are of use
            at some level: no other pair trains as much with no more workers and no more servers.
        """
        workers, servers = self.speed.pairs(self.min_workers, self.most_workers, self.max_servers)
        if self.max_servers is not None:
            few = servers <= self.max_servers
            workers, servers = workers[few], servers[few]
        seconds = max(0.0, slot_seconds - self.restart_seconds)
        samples = np.zeros((len(bandwidth), len(workers)))
        inside = self.domain is None or self.domain in bandwidth
        for row, (level, speed) in enumerate(bandwidth.items()):
            if inside:
                samples[row] = self.speed.samples_per_second(workers, servers, self.batch_size, speed) * seconds
            inside = inside and level != self.domain
        # Measurements scatter: what lies in a smaller domain lies in the larger one as well, and is no slower for it.
        samples = np.maximum.accumulate(samples[::-1], axis=0)[::-1]
        full = Configurations(workers, servers, samples)
        return full if len(np.unique(workers)) == len(workers) else full.only(_useful(full))


def _useful(full: Configurations) -> npt.NDArray[np.bool_]:
    """Return which pairs are of use at some level, (K,)."""
    worker, workers = np.unique(full.workers, return_inverse=True)
    server, servers = np.unique(full.servers, return_inverse=True)
    useful = np.zeros(len(full), dtype=np.bool_)
    for samples in full.samples:
        table = np.zeros((len(server) + 1, len(worker) + 1))
        table[servers + 1, workers + 1] = samples
        best = np.maximum.accumulate(np.maximum.accumulate(table, axis=0), axis=1)
        useful |= samples > np.maximum(best[servers, workers + 1], best[servers + 1, workers])
    if not useful.any():
        # None trains anything: the smallest one says what the job asks for.
        useful[0] = True
    return useful
