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
from slotwise.words import counted

__all__ = ["TOLERANCE", "Request", "Surveyor"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
    held : (L, K) bool
        Which of them an empty cluster holds in one domain of each level, or of a lower one. Levels above the machine at
        which the job is no faster than at the next are not looked at.
    sizes : (C,) int64
        The thriftiest configuration of each worker count, workers rising: what policies choose from that do not weigh
        servers against workers. Thrifty is what takes the least of a mean machine for its samples, at the speed of the
        widest level at which the job may run: where it will land is not known.
    steps : (C',) int64
        The same for a job that grows worker by worker, servers never falling. A worker count all of whose
        configurations have more servers than the next larger one is passed over.
    cluster : Cluster
        The machines.
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
    sizes: Ints
    steps: Ints
    cluster: Cluster
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

    @property
    def widest(self) -> int:
        """Highest level of locality at which it may run."""
        return _widest(self.ask)

    def samples(self, placement: Placement) -> float:
        """Return what a placement trains in a slot at its own locality; 0 if it is none of the configurations."""
        key = (placement.total_workers, placement.total_servers, self.cluster.level(placement.machines))
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
        self._kinds: Floats = np.unique(cluster.grains, axis=0)
        self._mean: Floats = cluster.mean_capacity
        # On an empty cluster all that counts is what fits; any positive prices do.
        self._flat = Prices(-np.log(self._mean * len(self._mean)), np.zeros(len(self._mean)))

    def survey(self, job: Job, end: int) -> Request:
        """Return the request of a job that must finish before slot ``end``; one that cannot finish says why."""
        grain = self.cluster.grain
        worker, server = (grains(self.cluster.vector(d), grain) for d in (job.worker_demand, job.server_demand))
        full = job.configurations(self.cluster.locality, self.slot_seconds)
        demands = (worker, server) if full.servers[0] else (worker,)
        detail = "" if self._fits(job, demands) else self._misfit(job, has_servers=len(demands) > 1)
        detail = detail or self._nowhere(job)
        ask = Ask.of(full, worker, server, grain)
        held = np.zeros(full.samples.shape, dtype=np.bool_)
        if not detail:
            held = np.isfinite(sweep_costs(self._empty.view, 0, ask, self._flat)) & (full.samples > 0)
            # Levels at which nothing is gained are not looked at.
            held = np.logical_or.accumulate(held, axis=0) & (full.samples > 0)
            if not held.any() and full.samples.any():
                detail = _crowded(full, job.domain)
        reason = Reason.NEVER_FITS if detail else None
        most = 0.0
        if held.any():
            some: npt.NDArray[np.bool_] = np.asarray(held.any(axis=0))
            if not some.all():
                full, held = full.only(some), held[:, some]
                ask = Ask.of(full, worker, server, grain)
            most = float(np.where(held, ask.samples, 0.0).max())
        slots = job.workload * (1.0 - TOLERANCE) / most if most > 0 else np.inf
        fewest = max(1, int(np.ceil(slots))) if slots < _ENDLESS else _ENDLESS
        left = max(0, end - job.arrival)
        if reason is None and fewest > left:
            reason = Reason.HORIZON_ENDS
            need = counted(fewest, "slot") if fewest < _ENDLESS else "endlessly many slots"
            left_over = f"{left} {'is' if left == 1 else 'are'} left before the horizon ({end})"
            detail = f"needs {need} even alone on the cluster, {left_over}"
        utility = job.utility.values(left)
        bid = Bid(
            float(utility[fewest - 1]) if fewest <= left else 0.0,
            job.utility.log_value(max(0, left - 1)),
            self._share_time(ask, job.workload),
            _least_positive(ask.worker_amount, ask.server_amount if ask.most_servers > 0 else ask.worker_amount),
            job.arrival,
            _patience(utility, fewest),
        )
        return Request(
            job.id,
            job.arrival,
            job.workload,
            ask,
            held,
            *self._sizes(ask),
            self.cluster,
            utility,
            bid,
            job.most_workers,
            most,
            fewest,
            reason,
            detail,
        )

    def _share_time(self, ask: Ask, workload: float) -> Floats:
        """Return resource-time, in machine-slots of a mean machine, of the thriftiest configuration.

        For the paper's speed model this is N / rate x (alpha + beta / gamma) / C at b_ext, where some worker count is a
        multiple of gamma.
        """
        shares = self._shares(ask)
        per_sample = _over(shares.mean(axis=1), ask.samples[_widest(ask)])
        best = int(np.argmin(per_sample))
        samples = ask.samples[_widest(ask), best]
        return np.asarray(shares[best] * (workload / samples if samples > 0 else 1.0))

    def _shares(self, ask: Ask) -> Floats:
        """Return what each configuration takes, in shares of a mean machine, (K, R)."""
        amounts = np.outer(ask.workers, ask.worker_amount) + np.outer(ask.servers, ask.server_amount)
        return np.asarray(amounts / self._mean)

    def _sizes(self, ask: Ask) -> tuple[Ints, Ints]:
        """Return ``sizes`` and ``steps`` of a request."""
        if (np.diff(ask.workers) > 0).all():
            every = np.arange(len(ask.workers))
            return every, every
        per_sample = _over(self._shares(ask).mean(axis=1), ask.samples[_widest(ask)])
        sizes: list[int] = []
        steps: list[int] = []
        # From the largest on, so that it can be reached.
        for workers in np.unique(ask.workers)[::-1].tolist():
            able = np.flatnonzero(ask.workers == workers)
            sizes.append(int(able[np.argmin(per_sample[able])]))
            able = able[ask.servers[able] <= (ask.servers[steps[-1]] if steps else ask.most_servers)]
            if len(able):
                steps.append(int(able[np.argmin(per_sample[able])]))
        return np.array(sizes[::-1], dtype=np.int64), np.array(steps[::-1], dtype=np.int64)

    def _nowhere(self, job: Job) -> str:
        """Say that the cluster has no level of the job's domain, '' if it has."""
        if job.domain is None or job.domain in self.cluster.levels:
            return ""
        return f"must stay within one {job.domain}, the cluster has the levels {', '.join(self.cluster.levels)}"

    def _fits(self, job: Job, demands: tuple[Floats, ...]) -> bool:
        """Whether there is a machine for each of these grains, and the cluster has all that the job names."""
        named = (job.worker_demand, job.server_demand)[: len(demands)]
        if any(
            amount > 0 and resource not in self.cluster.resources for each in named for resource, amount in each.items()
        ):
            return False
        return all(bool((demand <= self._kinds).all(axis=1).any()) for demand in demands)

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


def _crowded(full: Configurations, domain: str | None) -> str:
    workers, servers = int(full.workers[0]), int(full.servers[0])
    pair = f"{workers} worker{'' if workers == 1 else 's'}"
    if servers:
        pair += f" and {servers} server{'' if servers == 1 else 's'}"
    # More than one pair of which none is the smaller.
    others = ((full.workers < workers) | (full.servers < servers)).any()
    what, it = (f"{pair} or another of its sizes at once", "any") if others else (f"{pair} at once", "them")
    if domain is None or domain == "cluster":
        return f"needs {what}, the empty cluster does not hold {it}"
    return f"needs {what} in one {domain}, no empty {domain} holds {it}"


def _widest(ask: Ask) -> int:
    """Return the highest level at which the job may run."""
    return int(np.flatnonzero(ask.samples.any(axis=1))[-1]) if ask.samples.any() else len(ask.samples) - 1


def _over(shares: Floats, samples: Floats) -> Floats:
    """Return shares per sample, +inf where no sample is trained."""
    return np.asarray(np.divide(shares, samples, out=np.full(len(shares), np.inf), where=samples > 0))


def _least_positive(worker: Floats, server: Floats) -> Floats:
    least = np.minimum(np.where(worker > 0, worker, np.inf), np.where(server > 0, server, np.inf))
    return np.asarray(least)
