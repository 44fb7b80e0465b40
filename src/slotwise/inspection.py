"""What is in a trace, before it is played: jobs, demands, durations, the load that they offer, and contradictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster
from slotwise.model.job import Job
from slotwise.workloads._base import Workload
from slotwise.workloads._recorded import RESOURCES, Recorded
from slotwise.workloads.models import Assumptions

__all__ = ["BINS", "QUANTILES", "Contradiction", "Inspection", "Load", "inspect_jobs", "inspect_trace"]

Floats = npt.NDArray[np.float64]

QUANTILES: Mapping[str, float] = {"min": 0.0, "p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
"""Quantiles that are told."""

BINS = 24
"""Into how many stretches of equal length the offered load is cut."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Something that cannot be, or cannot be played.

    Attributes
    ----------
    what : str
        One sentence.
    jobs : int
        Jobs that show it, 0 where it is none of a job.
    example : str, optional
        Name of the first of them.
    """

    what: str
    jobs: int
    example: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """What jobs ask for if each starts when it arrives, as a share of the machines.

    Attributes
    ----------
    resources : tuple of str
        Those that the machines have.
    edges : (B + 1,) float64
        Ends of the stretches, seconds since the first arrival.
    arrivals : (B,) int64
        Jobs that arrive in each.
    share : (B, R) float64
        Mean amount in use over the capacity of all machines.
    """

    resources: tuple[str, ...]
    edges: Floats
    arrivals: npt.NDArray[np.int64]
    share: Floats

    @property
    def mean(self) -> dict[str, float]:
        """Return the share over the whole time, by resource."""
        return dict(zip(self.resources, self.share.mean(axis=0).tolist(), strict=True))

    @property
    def peak(self) -> dict[str, float]:
        """Return the share of the busiest stretch, by resource."""
        return dict(zip(self.resources, self.share.max(axis=0).tolist(), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class _Jobs:
    """Jobs as columns; K of them, R resources.

    Attributes
    ----------
    ids : sequence of str
        Names.
    start, seconds, wait : (K,) float64
        Seconds since the first arrival; duration and seconds until it ran, nan where unknown.
    workers, servers : (K,) int64
        As recorded.
    resources : tuple of str
        Names of the resources.
    worker, server : (K, R) float64
        What one worker, one server takes.
    recorded : tuple of str
        Resources of which a worker's demand is recorded for every job, and not assumed.
    """

    ids: Sequence[str]
    start: Floats
    seconds: Floats
    wait: Floats
    workers: npt.NDArray[np.int64]
    servers: npt.NDArray[np.int64]
    resources: tuple[str, ...]
    worker: Floats
    server: Floats
    recorded: tuple[str, ...]

    @property
    def demand(self) -> Floats:
        """Return what each job takes with all its workers and servers, (K, R)."""
        total: Floats = self.worker * self.workers[:, None] + self.server * self.servers[:, None]
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Inspection:
    """What is in a trace, or in a job list.

    Attributes
    ----------
    path : Path
        The file.
    format : str
        One of ``slotwise.workloads.traces.WORKLOAD_FORMATS``.
    jobs : int
        Jobs that can be used.
    span_seconds : float
        From the first arrival to the last.
    end_seconds : float, optional
        From the first arrival to the last end if each job starts on arrival; None where durations are unknown.
    roles : mapping of str to int
        ``workers`` and ``servers`` of all jobs, ``all_reduce_jobs`` and ``server_jobs``.
    quantiles : mapping of str to mapping of str to float, or None
        ``duration_seconds``, ``interarrival_seconds``, ``wait_seconds``, ``workers`` and ``servers`` (of jobs with
        any): mean and ``QUANTILES``; None where there is nothing to tell.
    demand : mapping of str to mapping of str to float
        The same for what a job takes with all its workers and servers, by resource.
    recorded : tuple of str
        Resources whose demand the trace records; others are assumed.
    capacity : mapping of str to float
        Of the machines that it was recorded on, where it says so.
    machines : int, optional
        Of the cluster that was given.
    load : Load, optional
        Offered to that cluster; None without one or without durations.
    contradictions : tuple of Contradiction
        What cannot be.
    assumed, skipped : mapping
        What the trace does not say, and what was left out, by reason.
    """

    path: Path
    format: str
    jobs: int
    span_seconds: float
    end_seconds: float | None
    roles: Mapping[str, int]
    quantiles: Mapping[str, Mapping[str, float] | None]
    demand: Mapping[str, Mapping[str, float] | None]
    recorded: tuple[str, ...]
    capacity: Mapping[str, float]
    machines: int | None
    load: Load | None
    contradictions: tuple[Contradiction, ...]
    assumed: Mapping[str, str]
    skipped: Mapping[str, int]

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data: the fields of ``inspect --json``."""
        load = self.load
        return {
            "trace": str(self.path),
            "format": self.format,
            "jobs": self.jobs,
            "span_seconds": self.span_seconds,
            "end_seconds": self.end_seconds,
            "roles": dict(self.roles),
            **self.quantiles,
            "demand": dict(self.demand),
            "demand_recorded": list(self.recorded),
            "recorded_capacity": dict(self.capacity),
            "machines": self.machines,
            "load": None
            if load is None
            else {
                "mean": load.mean,
                "peak": load.peak,
                "over_time": [
                    {
                        "from_seconds": load.edges[i].item(),
                        "to_seconds": load.edges[i + 1].item(),
                        "arrivals": load.arrivals[i].item(),
                        "share": dict(zip(load.resources, load.share[i].tolist(), strict=True)),
                    }
                    for i in range(len(load.arrivals))
                ],
            },
            "contradictions": [
                {"what": each.what, "jobs": each.jobs, "example": each.example} for each in self.contradictions
            ],
            "skipped": dict(self.skipped),
            "assumed": dict(self.assumed),
        }


def inspect_trace(recorded: Recorded, cluster: Cluster | None = None, *, seed: int = 0) -> Inspection:
    """Look at a trace.

    Parameters
    ----------
    recorded : Recorded
        Its jobs.
    cluster : Cluster, optional
        Machines to hold them against.
    seed : int
        Of the models that jobs draw where the trace names none, >= 0: their demands are those of a simulation.
    """
    assumptions = Assumptions(seed=seed)
    jobs = recorded.jobs
    worker, server = assumptions.demands(recorded)
    columns = _Jobs(
        ids=jobs["id"].to_list(),
        start=jobs["start"].to_numpy(),
        seconds=jobs["seconds"].fill_null(float("nan")).to_numpy(),
        wait=jobs["wait"].fill_null(float("nan")).to_numpy(),
        workers=jobs["workers"].to_numpy(),
        servers=jobs["servers"].to_numpy(),
        resources=RESOURCES,
        worker=worker,
        server=server,
        recorded=tuple(name for name in RESOURCES if not jobs[name].null_count()),
    )
    assumed = assumptions.described(recorded)
    if recorded.without_seconds:
        assumed["duration"] = f"Unknown: {recorded.without_seconds}."
    odd = tuple(Contradiction(what.removeprefix("jobs: "), count) for what, count in recorded.odd.items())
    return _inspected(
        recorded.path, recorded.format, columns, cluster, recorded.capacity, odd, assumed, recorded.skipped
    )


def inspect_jobs(path: Path, workload: Workload, cluster: Cluster | None = None) -> Inspection:
    """Look at a job list of our own; a job lasts as long as its requested workers, else its fewest, train alone."""
    jobs = workload.jobs
    bandwidth = (DEFAULT_BANDWIDTH if cluster is None else cluster.bandwidth)[-1]
    resources = tuple(dict.fromkeys(name for job in jobs for name in (*job.worker_demand, *job.server_demand)))
    sizes = [_size(job, bandwidth) for job in jobs]
    start = np.array([job.arrival * workload.slot_seconds for job in jobs])
    columns = _Jobs(
        ids=[job.id for job in jobs],
        start=start - start.min(),
        seconds=np.array([seconds for _, _, seconds in sizes]),
        wait=np.full(len(jobs), np.nan),
        workers=np.array([workers for workers, _, _ in sizes]),
        servers=np.array([servers for _, servers, _ in sizes]),
        resources=resources,
        worker=np.array([[job.worker_demand.get(name, 0.0) for name in resources] for job in jobs]),
        server=np.array([[job.server_demand.get(name, 0.0) for name in resources] for job in jobs]),
        recorded=resources,
    )
    assumed = dict(workload.assumed) | {
        "duration": f"A job lasts as long as the workers that it requests, or its fewest, train at {bandwidth:g} MB/s."
    }
    return _inspected(path, workload.format, columns, cluster, {}, (), assumed, workload.skipped)


def _size(job: Job, bandwidth: float) -> tuple[int, int, float]:
    """Return workers, servers and seconds of a job alone."""
    asked = job.min_workers if job.requested_workers is None else job.requested_workers
    workers, servers = job.speed.pairs(asked, job.most_workers, job.max_servers)
    if not len(workers):
        return asked, 0, float("nan")
    first = np.lexsort((servers, workers))[:1]
    rate = float(job.speed.samples_per_second(workers[first], servers[first], job.batch_size, bandwidth)[0])
    return int(workers[first][0]), int(servers[first][0]), job.workload / rate if rate > 0 else float("nan")


def _inspected(
    path: Path,
    format: str,
    jobs: _Jobs,
    cluster: Cluster | None,
    capacity: Mapping[str, float],
    odd: tuple[Contradiction, ...],
    assumed: Mapping[str, str],
    skipped: Mapping[str, int],
) -> Inspection:
    known = bool(np.isfinite(jobs.seconds).all())
    end = float((jobs.start + jobs.seconds).max()) if known else None
    demand = jobs.demand
    with_servers = jobs.servers > 0
    found = [*odd, *_above(jobs, demand, capacity, "the machines that it was recorded on")]
    load = None
    if cluster is not None:
        found += _too_large(jobs, demand, cluster)
        held = dict(zip(cluster.resources, cluster.capacity.sum(axis=0).tolist(), strict=True))
        found += _above(jobs, demand, held, "the given machines")
        load = None if end is None else _load(jobs, demand, held, end)
    return Inspection(
        path=path,
        format=format,
        jobs=len(jobs.start),
        span_seconds=float(jobs.start.max()),
        end_seconds=end,
        roles={
            "workers": int(jobs.workers.sum()),
            "servers": int(jobs.servers.sum()),
            "all_reduce_jobs": int((~with_servers).sum()),
            "server_jobs": int(with_servers.sum()),
        },
        quantiles={
            "duration_seconds": _quantiles(jobs.seconds),
            "interarrival_seconds": _quantiles(np.diff(np.sort(jobs.start))),
            "wait_seconds": _quantiles(jobs.wait),
            "workers": _quantiles(jobs.workers.astype(np.float64)),
            "servers": _quantiles(jobs.servers[with_servers].astype(np.float64)),
        },
        demand={name: _quantiles(demand[:, i]) for i, name in enumerate(jobs.resources)},
        recorded=jobs.recorded,
        capacity=capacity,
        machines=None if cluster is None else len(cluster),
        load=load,
        contradictions=tuple(found),
        assumed=assumed,
        skipped=skipped,
    )


def _quantiles(values: Floats) -> dict[str, float] | None:
    """Return mean and quantiles of what is known, None if nothing is."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    found = np.quantile(values, list(QUANTILES.values()))
    return {"mean": float(values.mean()), **dict(zip(QUANTILES, found.tolist(), strict=True))}


def _in_order_of(names: Sequence[str], jobs: _Jobs, amounts: Floats) -> Floats:
    """Return amounts by the resources ``names``; those that no job names are 0."""
    columns = [amounts[:, jobs.resources.index(name)] if name in jobs.resources else None for name in names]
    zero = np.zeros(len(amounts))
    return np.stack([zero if column is None else column for column in columns], axis=1)


def _too_large(jobs: _Jobs, demand: Floats, cluster: Cluster) -> list[Contradiction]:
    """Return jobs of which one piece fits no machine, or all of it not all machines."""
    names = tuple(dict.fromkeys((*cluster.resources, *jobs.resources)))
    held = np.zeros((len(cluster), len(names)))
    held[:, : len(cluster.resources)] = cluster.capacity
    kinds = np.unique(held, axis=0)
    found = []
    for role, amounts, count in (("worker", jobs.worker, jobs.workers), ("server", jobs.server, jobs.servers)):
        asked = _in_order_of(names, jobs, amounts)
        fits = np.zeros(len(asked), dtype=np.bool_)
        for kind in kinds:
            fits |= (asked <= kind * (1 + 1e-9)).all(axis=1)
        found += _those(jobs, ~fits & (count > 0), f"one {role} is larger than any machine")
    whole = _in_order_of(names, jobs, demand)
    more = (whole > held.sum(axis=0) * (1 + 1e-9)).any(axis=1)
    return found + _those(jobs, more, "all workers and servers together are larger than all machines together")


def _those(jobs: _Jobs, which: npt.NDArray[np.bool_], what: str) -> list[Contradiction]:
    count = int(which.sum())
    return [Contradiction(what, count, str(jobs.ids[int(which.argmax())]))] if count else []


def _above(jobs: _Jobs, demand: Floats, capacity: Mapping[str, float], where: str) -> list[Contradiction]:
    """Return where the recorded jobs used more, at a time, than there was: of demands and times that are recorded."""
    ran = np.isfinite(jobs.wait) & np.isfinite(jobs.seconds)
    found: list[Contradiction] = []
    if not ran.any():
        return found
    begun = (jobs.start + jobs.wait)[ran]
    times = np.concatenate((begun + jobs.seconds[ran], begun))
    order = np.argsort(times, kind="stable")  # what ends comes before what begins at the same time
    for name, held in capacity.items():
        if name not in jobs.recorded:
            continue
        amounts = demand[ran, jobs.resources.index(name)]
        used = np.cumsum(np.concatenate((-amounts, amounts))[order])
        peak = int(used.argmax())
        if used[peak] > held * (1 + 1e-9):
            when = times[order][peak]
            found.append(
                Contradiction(
                    f"recorded use of {name} reaches {used[peak]:g} at {when:g} s, above the {held:g} of {where}", 0
                )
            )
    return found


def _load(jobs: _Jobs, demand: Floats, held: Mapping[str, float], end: float) -> Load:
    names = tuple(name for name, amount in held.items() if amount > 0)
    asked = _in_order_of(names, jobs, demand)
    edges = np.linspace(0.0, end, BINS + 1)
    # Resource-seconds asked for up to each edge.
    upto = np.array([np.clip(edge - jobs.start, 0.0, jobs.seconds) @ asked for edge in edges])
    total = np.array([held[name] for name in names])
    share = np.diff(upto, axis=0) / (np.diff(edges)[:, None] * total)
    arrivals = np.histogram(jobs.start, edges)[0].astype(np.int64)
    return Load(names, edges, arrivals, np.maximum(share, 0.0))
