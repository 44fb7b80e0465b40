"""The paper's generated jobs and machines (Yu et al., IEEE TNSE 2021, doi 10.1109/TNSE.2021.3104513).

A slot is one hour. Every job has streams of its own for its arrival, its size and its utility, keyed by
seed, part and index: its size and utility do not depend on how many jobs, machines or slots there are, its
arrival not on the first two.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.speed import PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.workloads._base import Workload

__all__ = ["SLOT_SECONDS", "google", "paper"]

SLOT_SECONDS = 3600.0
"""Length of a slot in the paper's experiments."""

_BANDWIDTH = (6250.0, 625.0)
_MACHINE = {"gpu": 36.0, "cpu": 99.0, "memory": 306.0, "storage": 135.0}

# Relative arrivals of the Google cluster trace in 75 bins of 1,200 s: the row "50", of the largest total,
# of the table in pengyanghua/DL2, trace.py at 2e54920.
_GOOGLE_ARRIVALS = (
    33, 672, 40, 38, 43, 54, 45, 38, 31, 27, 33, 27, 36, 43, 46, 32, 43, 44, 41, 42, 37, 26, 25, 36, 49,
    36, 25, 27, 25, 19, 25, 30, 24, 34, 30, 31, 37, 38, 23, 29, 28, 18, 27, 28, 24, 30, 29, 30, 28, 18,
    23, 22, 34, 36, 35, 39, 37, 38, 34, 34, 30, 34, 36, 31, 21, 34, 21, 26, 24, 34, 29, 30, 26, 36, 31,
)  # fmt: skip

_ARRIVAL, _SIZE, _UTILITY = range(3)


@dataclass(frozen=True, slots=True)
class _Mix:
    """Shares of jobs by urgency; the rest is time-critical."""

    insensitive: float
    sensitive: float


_PAPER_MIX = _Mix(insensitive=0.10, sensitive=0.55)
_GOOGLE_MIX = _Mix(insensitive=0.30, sensitive=0.69)


def paper(jobs: int, machines: int, horizon: int, seed: int) -> Workload:
    """Draw the paper's workload.

    Arrivals are uniform over the slots; 10 % of the jobs are time-insensitive, 35 % time-critical.

    Parameters
    ----------
    jobs, machines, horizon : int
        How many jobs, equal machines and slots, each >= 1.
    seed : int
        Source of all draws, >= 0.

    Returns
    -------
    Workload
        Jobs ``job-0000``, ``job-0001`` ... in order of arrival, those of one slot by index, with their
        cluster.

    Raises
    ------
    InvalidInput
        If a count is below 1 or the seed below 0.
    """
    _check(jobs, machines, horizon, seed)
    edges = np.arange(horizon + 1, dtype=np.float64) / horizon
    return _workload("paper", jobs, machines, edges, seed, _PAPER_MIX)


def google(jobs: int, machines: int, horizon: int, seed: int) -> Workload:
    """Draw the paper's workload with the arrivals and urgencies of the Google cluster trace.

    Its 75 bins of arrivals are stretched over the horizon; 30 % of the jobs are time-insensitive, 1 %
    time-critical. Sizes, values and targets are those of ``paper`` with the same seed.

    Parameters
    ----------
    jobs, machines, horizon : int
        How many jobs, equal machines and slots, each >= 1.
    seed : int
        Source of all draws, >= 0.

    Returns
    -------
    Workload
        As from ``paper``.

    Raises
    ------
    InvalidInput
        If a count is below 1 or the seed below 0.
    """
    _check(jobs, machines, horizon, seed)
    return _workload("google", jobs, machines, _google_edges(horizon), seed, _GOOGLE_MIX)


def _check(jobs: int, machines: int, horizon: int, seed: int) -> None:
    for name, value in (("jobs", jobs), ("machines", machines), ("horizon", horizon)):
        if value < 1:
            raise InvalidInput(f"{name} must be >= 1, got {value}")
    if seed < 0:
        raise InvalidInput(f"seed must be >= 0, got {seed}")


def _google_edges(horizon: int) -> npt.NDArray[np.float64]:
    """Share of arrivals before each slot, (horizon + 1,): the density is constant within each bin."""
    before = np.concatenate(([0.0], np.cumsum(np.array(_GOOGLE_ARRIVALS, dtype=np.float64))))
    bins = len(_GOOGLE_ARRIVALS)
    at = np.arange(horizon + 1, dtype=np.float64) * bins / horizon
    shares: npt.NDArray[np.float64] = np.interp(at, np.arange(bins + 1), before) / before[-1]
    return shares


def _stream(seed: int, part: int, index: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(part, index)))


def _workload(name: str, jobs: int, machines: int, edges: npt.NDArray[np.float64], seed: int, mix: _Mix) -> Workload:
    horizon = len(edges) - 1
    drawn = []
    for index in range(jobs):
        where = np.searchsorted(edges, _stream(seed, _ARRIVAL, index).random(), side="right") - 1
        drawn.append(_job(index, int(np.clip(where, 0, horizon - 1)), seed, mix))
    drawn.sort(key=lambda job: job.arrival)  # stable: jobs of one slot stay in the order of their index
    cluster = Cluster.uniform(machines, bandwidth=_BANDWIDTH, **_MACHINE)
    return Workload(tuple(drawn), name, SLOT_SECONDS, horizon, cluster)


def _job(index: int, arrival: int, seed: int, mix: _Mix) -> Job:
    stream = _stream(seed, _SIZE, index)

    def whole(low: int, high: int) -> int:
        return int(stream.integers(low, high, endpoint=True))

    epochs, samples = whole(50, 200), whole(20_000, 500_000)
    gradient_mb = float(stream.uniform(30.0, 575.0))
    seconds_per_sample = float(stream.uniform(1e-5, 1e-4)) * SLOT_SECONDS  # drawn in slots a sample
    workers_per_server, batch_size = whole(1, 10), whole(1, 200)
    worker = {
        "gpu": float(whole(0, 4)),
        "cpu": float(whole(1, 10)),
        "memory": float(whole(2, 32)),
        "storage": float(whole(5, 10)),
    }
    server = {"cpu": float(whole(1, 10)), "memory": float(whole(2, 32)), "storage": float(whole(5, 10))}
    return Job(
        id=f"job-{index:04d}",
        arrival=arrival,
        workload=float(epochs * samples),
        batch_size=batch_size,
        worker_demand=worker,
        server_demand=server,
        speed=PaperSpeed(seconds_per_sample, gradient_mb, float(workers_per_server)),
        utility=_utility(_stream(seed, _UTILITY, index), mix),
    )


def _utility(stream: np.random.Generator, mix: _Mix) -> Sigmoid:
    value, target = float(stream.uniform(1.0, 100.0)), float(stream.uniform(1.0, 15.0))
    kind, within = float(stream.random()), float(stream.random())
    if kind < mix.insensitive:
        urgency = 0.0
    elif kind < mix.insensitive + mix.sensitive:
        urgency = 0.01 + within * (1.0 - 0.01)
    else:
        urgency = 4.0 + within * (6.0 - 4.0)
    return Sigmoid(value, urgency, target)
