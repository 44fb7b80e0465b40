"""The programs of ``max-min``, ``finish-time-fair`` and ``dorm`` beside the same programs as cvxpy is given them.

512 active jobs of the paper's workload on 128 machines: all alike, and of four types that do not hold the same. cvxpy
has each program as it is written down, builds it and solves it with HiGHS; a single linear program also with its own
default, of which the faster counts. Objectives must be equal; for ``dorm``, a mixed-integer program, up to the gap that
both are given.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import cvxpy
import numpy as np
import numpy.typing as npt
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from slotwise.events import JobArrived, SlotOpened
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.optim.request import Request, Surveyor
from slotwise.policies import catalogue
from slotwise.policies._partition import GAP, OVER_LIMIT, fair_shares, partition
from slotwise.policies._placing import fixed_choice
from slotwise.policies._shares import Gangs, finish_time_shares, max_min_shares
from slotwise.scheduler import Scheduler
from slotwise.workloads import synthetic

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

JOBS, MACHINES, HORIZON = 512, 128, 200
TYPES = np.array([[1.0, 1.0, 1.0, 1.0], [0.0, 1.5, 1.5, 1.0], [2.0, 0.08, 1.0, 0.5], [0.05, 0.5, 0.08, 1.0]])
SOLVERS = ("HIGHS", None)


def drawn(types: int) -> tuple[Cluster, list[Job], list[Request]]:
    """Machines, and 512 jobs that can finish."""
    workload = synthetic.paper(8 * JOBS, MACHINES, HORIZON, seed=0)
    assert workload.cluster is not None
    cluster = workload.cluster
    amounts = cluster.capacity * TYPES[np.arange(MACHINES) % types]
    cluster = Cluster.of(
        Machine(name, dict(zip(cluster.resources, row.tolist(), strict=True)))
        for name, row in zip(cluster.names, amounts, strict=True)
    )
    surveyor = Surveyor(cluster, workload.slot_seconds)
    jobs, requests = [], []
    for job in workload.jobs:
        request = surveyor.survey(job, HORIZON)
        if request.reason is None:
            jobs.append(job)
            requests.append(request)
    assert len(jobs) >= JOBS
    return cluster, jobs[:JOBS], requests[:JOBS]


def gangs_of(types: int) -> tuple[Gangs, Floats]:
    """What the jobs take at fixed sizes, and the slots that each of them takes."""
    cluster, jobs, requests = drawn(types)
    choices = [fixed_choice(job, request) for job, request in zip(jobs, requests, strict=True)]
    gangs = Gangs.of(
        np.array([request.ask.worker for request in requests]),
        np.array([request.ask.server for request in requests]),
        np.array([request.ask.workers[k] for request, k in zip(requests, choices, strict=True)]),
        np.array([request.ask.servers[k] for request, k in zip(requests, choices, strict=True)]),
        cluster.grains,
    )
    work = [request.workload / request.ask.samples[:, k].max() for request, k in zip(requests, choices, strict=True)]
    return gangs, np.array(work)


def timed(call: Callable[[], Any], rounds: int) -> tuple[float, Any]:
    """Return the least seconds of some rounds, and what the last one returned."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - begin)
    return min(seconds), found


def fastest(plain: Callable[[str | None], Any], rounds: int) -> tuple[float, Any]:
    """Return the seconds of cvxpy's faster solver, and what it found."""
    return min((timed(lambda s=solver: plain(s), rounds) for solver in SOLVERS), key=lambda pair: pair[0])


def report(capsys: pytest.CaptureFixture[str], title: str, ours: float, plain: float) -> None:
    with capsys.disabled():
        print(
            f"\n{JOBS} jobs x {MACHINES} machines, {title}: {1e3 * ours:.1f} ms, cvxpy {1e3 * plain:.0f} ms\n"
            f"  ours / cvxpy: {ours / plain:.3f}"
        )


def shares_that_fit(gangs: Gangs) -> tuple[cvxpy.Variable, list[Any]]:
    """Return the shares of time, and the rules that they keep."""
    shares = cvxpy.Variable(len(gangs.dominant))
    on = cvxpy.Variable(gangs.able.shape, nonneg=True)
    rules = [shares <= 1, cvxpy.sum(on, axis=1) == shares[gangs.owner], on.T @ gangs.demand <= gangs.capacity]
    if not gangs.able.all():
        rules.append(on[~gangs.able] == 0)
    return shares, rules


@pytest.mark.parametrize("types", [1, 4])
def test_max_min(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], types: int) -> None:
    gangs, _ = gangs_of(types)
    weights = np.ones(JOBS)

    def plain(solver: str | None) -> float:
        shares, rules = shares_that_fit(gangs)
        least = cvxpy.min(cvxpy.multiply(gangs.dominant, shares))
        return float(cvxpy.Problem(cvxpy.Maximize(least), rules).solve(solver=solver))

    ours, shares = timed(lambda: max_min_shares(gangs, weights), 5)
    seconds, _ = fastest(plain, 3)
    # The default is an interior-point method, which comes near the optimum only.
    assert float((shares * gangs.dominant).min()) == pytest.approx(plain("HIGHS"), rel=1e-6)
    report(capsys, f"max-min, {types} types", ours, seconds)
    benchmark(lambda: max_min_shares(gangs, weights))


@pytest.mark.parametrize("types", [1, 4])
def test_finish_time_fair(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], types: int) -> None:
    gangs, work = gangs_of(types)
    rng = np.random.default_rng(0)
    elapsed = rng.integers(0, 50, JOBS).astype(np.float64)
    # As if a part of the jobs had come: the shares of all at once do not fit then, and the ratio has to rise.
    ideal = elapsed * rng.uniform(0.2, 1.0, JOBS) + work * np.maximum(1.0, JOBS / 8 * gangs.dominant)

    def plain(solver: str | None) -> float:
        """Bisect over programs that are built once."""
        shares, rules = shares_that_fit(gangs)
        least = cvxpy.Parameter(JOBS, nonneg=True)
        program = cvxpy.Problem(cvxpy.Minimize(0), [*rules, shares >= least])

        def fits(ratio: float) -> bool:
            least.value = np.minimum(1.0, work / (ratio * ideal - elapsed))
            program.solve(solver=solver)
            return bool(program.status == "optimal")

        low = float(((work + elapsed) / ideal).max())
        if fits(low):
            return low
        high = 2.0 * low
        while not fits(high):
            low, high = high, 2.0 * high
        while high - low > 1e-7 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if fits(middle) else (middle, high)
        return high

    ours, shares = timed(lambda: finish_time_shares(gangs, work, elapsed, ideal), 5)
    seconds, ratio = timed(lambda: plain("HIGHS"), 1)
    assert float(((elapsed + work / shares) / ideal).max()) == pytest.approx(ratio, rel=1e-6)
    report(capsys, f"finish-time-fair, {types} types", ours, seconds)
    benchmark(lambda: finish_time_shares(gangs, work, elapsed, ideal))


@pytest.mark.parametrize(
    "case", ["all arrive", "some end and some arrive", "sizes at random", "sizes at random, tight"]
)
def test_dorm(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], case: str) -> None:
    cluster, _, requests = drawn(1)
    total = cluster.grains.sum(axis=0)
    largest = [request.ask.workers[request.steps[-1]] for request in requests]
    per_worker = [
        request.ask.worker + request.ask.server * (request.ask.servers[request.steps[-1]] / most)
        for request, most in zip(requests, largest, strict=True)
    ]
    demand, most = np.array(per_worker) / total, np.array(largest)
    fewest = np.ones(JOBS, dtype=np.int64)
    jobs, resources = demand.shape
    before = np.zeros(jobs, dtype=np.int64)
    limit, adjusted = 0.1 * 2 * resources, -(-jobs // 10)
    if case != "all arrive":
        before = partition(demand, fewest, most, before, loss_limit=limit, most_adjusted=0)
        if case == "some end and some arrive":
            before[:5] = 0
        else:
            before = np.maximum(1, (before * np.random.default_rng(3).uniform(0.2, 1.0, jobs)).astype(np.int64))
    if case.endswith("tight"):
        limit, adjusted = 0.2, 10
    fair = fair_shares(demand, most)
    dominant = demand.max(axis=1)
    runs = np.flatnonzero(before)

    def plain() -> float:
        workers, over = cvxpy.Variable(jobs, integer=True), cvxpy.Variable(nonneg=True)
        rules = [workers >= fewest, workers <= most, workers @ demand <= 1]
        rules.append(cvxpy.norm1(cvxpy.multiply(dominant, workers) - fair) <= limit + over)
        if len(runs):
            changed = cvxpy.Variable(len(runs), boolean=True)
            more = workers[runs] - before[runs]
            rules += [more <= cvxpy.multiply((most - before)[runs], changed), cvxpy.sum(changed) <= adjusted]
            rules.append(-more <= cvxpy.multiply((before - fewest)[runs], changed))
        objective = cvxpy.Maximize(cvxpy.sum(workers @ demand) - OVER_LIMIT * resources * over)
        return float(cvxpy.Problem(objective, rules).solve(solver="HIGHS", mip_rel_gap=GAP))

    def solve() -> Ints:
        return partition(demand, fewest, most, before, loss_limit=limit, most_adjusted=adjusted)

    ours, workers = timed(solve, 1)
    seconds, worth = timed(plain, 1)
    beyond = max(0.0, float(np.abs(dominant * workers - fair).sum()) - limit)
    assert float((workers @ demand).sum()) - OVER_LIMIT * resources * beyond >= worth - 1.01 * GAP * abs(worth)
    report(capsys, f"dorm, {case}", ours, seconds)
    benchmark.pedantic(solve, rounds=1)


@pytest.mark.parametrize("name", ["fifo", "drf", "dorm", "max-min", "finish-time-fair"])
def test_slot(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One slot of a scheduler, the first of 512 jobs and those in which nothing arrives."""
    cluster, jobs, _ = drawn(1)
    policy = catalogue.make(name, cluster, (), slot_seconds=3600.0, horizon=HORIZON)
    scheduler = Scheduler(cluster, policy, slot_seconds=3600.0, horizon=HORIZON, rolling=True)
    last = max(job.arrival for job in jobs)
    for job in jobs:
        scheduler.handle(JobArrived(last, job))
    first, _ = timed(lambda: scheduler.handle(SlotOpened(last)), 1)
    at = iter(range(last + 1, last + 10_000))
    later, _ = timed(lambda: scheduler.handle(SlotOpened(next(at))), 5)
    with capsys.disabled():
        print(
            f"\n{JOBS} jobs x {MACHINES} machines, {name}: first slot {1e3 * first:.0f} ms, later {1e3 * later:.1f} ms"
        )
    benchmark.pedantic(lambda: scheduler.handle(SlotOpened(next(at))), rounds=3)
