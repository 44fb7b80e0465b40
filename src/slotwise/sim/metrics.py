"""What a run came to: a record of each job, and the figures that are reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from slotwise.errors import SlotwiseError
from slotwise.events import Admit, Reject
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Reason, Schedule
from slotwise.words import counted, merged

__all__ = ["JobRecord", "Recorder", "Run"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class JobRecord:
    """What became of one job.

    Attributes
    ----------
    id : str
        Its name.
    arrival : int
        Slot of arrival.
    admitted : bool
        Whether it was let in.
    reason : Reason, optional
        Why it was not.
    detail : str
        The same with numbers.
    promised : int, optional
        Last slot of the committed schedule.
    promised_utility, cost : float, optional
        What that schedule is worth, and what it costs at the prices of the decision.
    completed : int, optional
        Slot in which it finished.
    utility : float
        Earned: u(completed - arrival), 0 if it did not finish.
    started : int, optional
        First slot in which it ran.
    active_slots, colocated_slots : int
        Slots in which it ran, and those of them inside one machine.
    schedule : Schedule, optional
        What was committed at arrival.
    """

    id: str
    arrival: int
    admitted: bool = False
    reason: Reason | None = None
    detail: str = ""
    promised: int | None = None
    promised_utility: float | None = None
    cost: float | None = None
    completed: int | None = None
    utility: float = 0.0
    started: int | None = None
    active_slots: int = 0
    colocated_slots: int = 0
    schedule: Schedule | None = None

    @property
    def let_in(self) -> bool:
        """Whether it was admitted; jobs that wait with a placing policy count as admitted once they ever started."""
        return self.admitted and (self.promised is not None or self.started is not None)

    @property
    def infeasible(self) -> bool:
        """Whether it fits, and could not finish by the horizon even alone; such a job is not rejected."""
        return self.reason is Reason.HORIZON_ENDS

    @property
    def rejected(self) -> bool:
        """Whether it was turned away for any other reason."""
        return self.reason is not None and not self.infeasible


@dataclass(frozen=True, slots=True)
class Run:
    """One policy on one workload.

    Attributes
    ----------
    policy : str
        Its name.
    seed : int
        Of the run.
    machines, horizon : int
        Size of the cluster and slots played.
    slot_seconds : float
        Length of a slot.
    records : mapping of str to JobRecord
        Every job, in order of arrival.
    utilization : mapping of str to float
        Share of each resource in use, of the whole cluster over the whole horizon; 0 where there is none of it.
    decision_times : (n,) float64
        Seconds of each decision.
    use : (T, R) float64
        Share of each resource of the whole cluster that jobs took in each slot, in [0, 1].
    running, waiting : (T,) int64
        Jobs that ran in each slot, and jobs that were in by then, had not finished and did not run.
    rounding : mapping of str to float
        What the reference solver counted; empty with any other.
    """

    policy: str
    seed: int
    machines: int
    horizon: int
    slot_seconds: float
    records: Mapping[str, JobRecord]
    utilization: Mapping[str, float]
    decision_times: Floats
    use: Floats
    running: Ints
    waiting: Ints
    rounding: Mapping[str, float | None] = field(default_factory=dict)

    def schedule(self, job_id: str) -> Schedule | None:
        """Return what was committed for a job at its arrival.

        None for jobs that were turned away, and with policies that place slot by slot.
        """
        if job_id not in self.records:
            raise SlotwiseError(f"no job {job_id!r} in this run of {counted(len(self.records), 'job')}")
        return self.records[job_id].schedule

    @property
    def total_utility(self) -> float:
        """Utility earned, of all jobs."""
        return float(sum(record.utility for record in self.records.values()))

    def summary(self) -> dict[str, Any]:
        """Return the figures of ``simulate --json`` that a run knows by itself."""
        records = list(self.records.values())
        done = [r for r in records if r.completed is not None]
        entered = [r for r in records if r.admitted]
        jct = np.array([(r.completed - r.arrival + 1) * self.slot_seconds for r in done if r.completed is not None])
        training = [(r.completed - r.arrival + 1) if r.completed is not None else self.horizon for r in entered]
        active = sum(r.active_slots for r in records)
        # Where nothing ever fits, the resource is part of the reason.
        rejected = Counter(str(r.reason) for r in records if r.rejected and r.reason is not Reason.NEVER_FITS)
        rejected.update(merged(f"{r.reason}: {r.detail}" for r in records if r.reason is Reason.NEVER_FITS))
        return {
            "policy": self.policy,
            "seed": self.seed,
            "machines": self.machines,
            "horizon": self.horizon,
            "slot_seconds": self.slot_seconds,
            "jobs": len(records),
            "admitted": sum(r.let_in for r in records),
            "rejected": dict(sorted(rejected.items())),
            "completed": len(done),
            "unfinished": len(entered) - len(done),
            "infeasible": sum(r.infeasible for r in records),
            "total_utility": self.total_utility,
            "jct_seconds": {"mean": float(jct.mean()) if len(jct) else None}
            | {f"p{q}": _quantile(jct, q / 100) for q in (50, 90, 99)},
            "training_slots_median": float(np.median(training)) if training else None,
            "makespan_slots": max((r.completed + 1 for r in done if r.completed is not None), default=0),
            "utilization": dict(self.utilization),
            "colocated_fraction": sum(r.colocated_slots for r in records) / active if active else None,
            "decision_seconds": {
                "p50": _quantile(self.decision_times, 0.5),
                "p99": _quantile(self.decision_times, 0.99),
                "max": _quantile(self.decision_times, 1.0),
            },
            "rounding": dict(self.rounding) or None,
        }


def _quantile(values: Floats, q: float) -> float | None:
    return float(np.quantile(values, q)) if len(values) else None


@dataclass(slots=True)
class Recorder:
    """Collects what happens while a run is played.

    Attributes
    ----------
    policy : str
        Its name.
    cluster : Cluster
        The machines.
    horizon : int
        Slots played.
    slot_seconds : float
        Length of a slot.
    seed : int
        Of the run.
    """

    policy: str
    cluster: Cluster
    horizon: int
    slot_seconds: float
    seed: int
    _records: dict[str, JobRecord] = field(default_factory=dict)
    _used: list[Floats] = field(default_factory=list)
    """(R,) grains of each slot."""
    _counts: list[tuple[int, int]] = field(default_factory=list)
    """Jobs that ran and jobs that did not, of each slot."""
    _times: list[float] = field(default_factory=list)

    def arrived(self, job: Job) -> None:
        """Note an arrival."""
        self._records[job.id] = JobRecord(job.id, job.arrival)

    def admitted(self, command: Admit, schedule: Schedule | None, seconds: float | None) -> None:
        """Note an admission, and how long it took to decide."""
        record = self._records[command.job_id]
        record.admitted, record.promised, record.schedule = True, command.completion, schedule
        if command.completion is not None:
            record.promised_utility, record.cost = command.utility, command.cost
        self.decided(seconds)

    def rejected(self, command: Reject, seconds: float | None) -> None:
        """Note a rejection, and how long it took to decide."""
        record = self._records[command.job_id]
        record.admitted, record.reason, record.detail = False, command.reason, command.detail
        self.decided(seconds)

    def decided(self, seconds: float | None) -> None:
        """Note the time of a decision."""
        if seconds is not None:
            self._times.append(seconds)

    def trained(self, slot: int, job_id: str, *, alone: bool) -> None:
        """Note that a job ran in a slot, and whether on one machine."""
        record = self._records[job_id]
        record.started = slot if record.started is None else record.started
        record.active_slots += 1
        record.colocated_slots += alone

    def played(self, grains: Floats, running: int, waiting: int) -> None:
        """Note what all jobs took in a slot, (R,), how many ran, and how many are in and did not."""
        self._used.append(grains.copy())
        self._counts.append((running, waiting))

    def completed(self, slot: int, job_id: str, utility: float) -> None:
        """Note that a job finished, and what that earned."""
        record = self._records[job_id]
        record.completed, record.utility = slot, utility

    def finish(self, counted: Mapping[str, float | None]) -> Run:
        """Return the run; ``counted`` is what the policy has to say of itself."""
        offered = self.cluster.capacity.sum(axis=0)
        # Whole numbers of grains: sums are exact.
        used = np.array(self._used).reshape(-1, len(offered))
        use = _shares(used * self.cluster.grain, offered)
        shares = _shares(used.sum(axis=0) * self.cluster.grain, offered * self.horizon)
        counts = np.array(self._counts, dtype=np.int64).reshape(-1, 2)
        return Run(
            self.policy,
            self.seed,
            len(self.cluster),
            self.horizon,
            self.slot_seconds,
            self._records,
            dict(zip(self.cluster.resources, shares.tolist(), strict=True)),
            np.array(self._times),
            use,
            counts[:, 0],
            counts[:, 1],
            counted,
        )


def _shares(used: Floats, offered: Floats) -> Floats:
    return np.divide(used, offered, out=np.zeros_like(used), where=offered > 0)
