"""A job as the planner sees it: configurations, two demand vectors, a workload and a utility."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import Configurations
from slotwise.optim.pricing import Bid, Prices
from slotwise.optim.slot import Ask, sweep_costs
from slotwise.units import grain_of, grains

__all__ = ["TOLERANCE", "Request", "Surveyor"]

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-11
"""Share of a workload by which sums of samples may miss it through rounding and still count as all of it."""

_ENDLESS = 2**53


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One job on one cluster, in arrays.

    Attributes
    ----------
    id : str
        The job's.
    arrival : int
        Slot of arrival.
    workload : float
        Samples to train.
    ask : Ask
        Configurations, reduced to what an empty cluster holds, and demands.
    held : (2, K) bool
        Which of them an empty cluster holds inside one machine (row 0) and across machines (row 1).
    utility : (D,) float64
        u(0) ... u(D - 1), where arrival + D is the horizon; never rising.
    bid : Bid
        What pricing needs to know.
    most_workers : int
        Most workers that it may have, whatever the cluster holds (F at most).
    most_samples : float
        Most samples that an empty cluster trains in a slot; 0 if it holds no configuration.
    fewest_slots : int
        Slots that the workload takes at ``most_samples`` (the paper's d_min + 1), >= 1.
    reason : Reason, optional
        Why it cannot finish even alone; None if it can.
    detail : str
        The same with numbers.
    """

    id: str
    arrival: int
    workload: float
    ask: Ask
    held: npt.NDArray[np.bool_]
    utility: Floats
    bid: Bid
    most_workers: int
    most_samples: float
    fewest_slots: int
    reason: Reason | None = None
    detail: str = ""
    _samples: dict[tuple[int, int, int], float] = field(default_factory=dict, repr=False)

    @property
    def needed(self) -> float:
        """Samples at which the workload counts as trained."""
        return self.workload * (1.0 - TOLERANCE)

    @property
    def end(self) -> int:
        """First slot in which it may not run any more."""
        return self.arrival + len(self.utility)

    def samples(self, placement: Placement) -> float:
        """Return what a placement trains in a slot at its own locality; 0 if it is none of the configurations."""
        key = (placement.total_workers, placement.total_servers, placement.level)
        if key not in self._samples:
            match = np.flatnonzero((self.ask.workers == key[0]) & (self.ask.servers == key[1]))
            self._samples[key] = float(self.ask.samples[key[2], match[0]]) if len(match) else 0.0
        return self._samples[key]


class Surveyor:
    """Turns jobs into requests for one cluster: what would it make of this job if it were empty.

    Parameters
    ----------
    cluster : Cluster
        The machines.
    slot_seconds : float
        Length of a slot.
    """

    def __init__(self, cluster: Cluster, slot_seconds: float) -> None:
        self.cluster = cluster
        self.slot_seconds = slot_seconds
        self._empty = Ledger(cluster, 1)
        self._mean: Floats = cluster.mean_capacity
        # On an empty cluster all that counts is what fits; any positive prices do.
        self._flat = Prices(-np.log(self._mean * len(self._mean)), np.zeros(len(self._mean)))

    def survey(self, job: Job, end: int) -> Request:
        """Return the request of a job that must finish before slot ``end``; one that cannot finish says why."""
        grain = self.cluster.grain
        worker, server = (grains(self.cluster.vector(d), grain) for d in (job.worker_demand, job.server_demand))
        full = job.configurations(self.cluster.bandwidth, self.slot_seconds)
        detail = self._misfit(job, has_servers=bool(full.servers[0]))
        ask = Ask.of(full, worker, server, grain)
        held = np.zeros((2, len(full)), dtype=np.bool_)
        if not detail:
            held = np.isfinite(np.stack(sweep_costs(self._empty.view, 0, ask, self._flat)))
            if not held.any():
                detail = _crowded(int(full.workers[0]), int(full.servers[0]))
        reason = Reason.NEVER_FITS if detail else None
        most = 0.0
        if reason is None:
            # Both counts rise along the array, so what the cluster holds is a run from the start.
            last = int(np.flatnonzero(held.any(axis=0))[-1]) + 1
            full = Configurations(full.workers[:last], full.servers[:last], full.samples[:, :last])
            ask, held = Ask.of(full, worker, server, grain), held[:, :last]
            most = float(np.where(held, ask.samples, 0.0).max())
        slots = job.workload * (1.0 - TOLERANCE) / most if most > 0 else np.inf
        fewest = max(1, int(np.ceil(slots))) if slots < _ENDLESS else _ENDLESS
        left = max(0, end - job.arrival)
        if reason is None and fewest > left:
            reason = Reason.HORIZON_ENDS
            need = str(fewest) if fewest < _ENDLESS else "endlessly many"
            detail = f"needs {need} slots even alone on the cluster, {left} are left before the horizon ({end})"
        utility = job.utility.values(left)
        bid = Bid(
            float(utility[fewest - 1]) if fewest <= left else 0.0,
            job.utility.log_value(max(0, left - 1)),
            self._share_time(ask, job.workload),
            _least_positive(ask.worker_amount, ask.server_amount if ask.servers[-1] > 0 else ask.worker_amount),
            job.arrival,
            _patience(utility, fewest),
        )
        return Request(
            job.id, job.arrival, job.workload, ask, held, utility, bid, job.most_workers, most, fewest, reason, detail
        )

    def _share_time(self, ask: Ask, workload: float) -> Floats:
        """Return resource-time, in machine-slots of a mean machine, of the thriftiest configuration.

        For the paper's speed model this is N / rate x (alpha + beta / gamma) / C at b_ext, where some worker count is a
        multiple of gamma.
        """
        amounts = np.outer(ask.workers, ask.worker_amount) + np.outer(ask.servers, ask.server_amount)
        shares = amounts / self._mean
        with np.errstate(divide="ignore", invalid="ignore"):
            per_sample = shares.mean(axis=1) / ask.samples[1]
        best = int(np.argmin(per_sample))
        samples = ask.samples[1, best]
        return np.asarray(shares[best] * (workload / samples if samples > 0 else 1.0))

    def _misfit(self, job: Job, *, has_servers: bool) -> str:
        """Say which resource of one worker or one server is more than any machine has, '' if none is."""
        roles = [("", job.worker_demand)] + ([(" for a server", job.server_demand)] if has_servers else [])
        capacity = self._empty.view.capacity
        for role, demand in roles:
            for resource in sorted(demand):
                amount = demand[resource]
                if amount <= 0:
                    continue
                if resource not in self.cluster.resources:
                    return f"needs {amount:g} {resource} on one machine{role}, the cluster has none"
                column = self.cluster.resources.index(resource)
                if grains(amount, grain_of(resource)) > capacity[:, column].max():
                    largest = self.cluster.capacity[:, column].max()
                    return f"needs {amount:g} {resource} on one machine{role}, the largest has {largest:g}"
            if not (grains(self.cluster.vector(demand), self.cluster.grain) <= capacity).all(axis=1).any():
                listed = " and ".join(f"{demand[r]:g} {r}" for r in self.cluster.resources if demand.get(r, 0) > 0)
                return f"needs {listed} on one machine{role}, none has all of it"
        return ""


def _patience(utility: Floats, fewest: int) -> int:
    """Return the slots by whose end a job can finish and keep half of its best utility."""
    if fewest > len(utility):
        return 1
    return max(fewest, int(np.count_nonzero(utility >= utility[fewest - 1] / 2.0)))


def _crowded(workers: int, servers: int) -> str:
    pair = f"{workers} worker{'' if workers == 1 else 's'}"
    if servers:
        pair += f" and {servers} server{'' if servers == 1 else 's'}"
    return f"needs {pair} at once, the empty cluster does not hold them"


def _least_positive(worker: Floats, server: Floats) -> Floats:
    least = np.minimum(np.where(worker > 0, worker, np.inf), np.where(server > 0, server, np.inf))
    return np.asarray(least)
