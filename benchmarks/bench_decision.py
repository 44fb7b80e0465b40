"""One decision (best schedule of one job at given prices) beside one pass over the prices, in one process and thread.

A *pass* is ``P @ a`` with P (slots, machines, 4) float64 in C order: the least that a plain exact decision must do. The
machine under us may be fast or slow; ratios to a pass are what can be compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.speed import AllReduceSpeed, FittedSpeed, PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Learnt, Prices
from slotwise.optim.relaxation import Reference
from slotwise.optim.request import Request, Surveyor
from slotwise.workloads import synthetic

SIZES = [pytest.param(m, t, id=f"{m}x{t}") for m, t in ((100, 20), (1_000, 672), (10_000, 1_000))]
LOAD = 0.7
JOBS = 40


def in_racks(cluster: Cluster, size: int = 20) -> Cluster:
    """Put machines into racks, the links of which are half as fast as those inside a machine."""
    machines = [
        Machine(name, dict(zip(cluster.resources, row.tolist(), strict=True)), {"rack": f"r{m // size:05d}"})
        for m, (name, row) in enumerate(zip(cluster.names, cluster.capacity, strict=True))
    ]
    inside, between = cluster.bandwidth
    return Cluster.of(machines, (inside, inside / 2, between), ("machine", "rack", "cluster"))


def as_kind(job: Job, kind: str) -> Job:
    """Give a job of the paper's workload another speed model.

    A ``fitted-long`` job takes as long as the paper's would with 12 workers, and can have no more: most cannot finish.
    A ``fitted`` one is given less to train afterwards, see ``as_long``.
    """
    speed = job.speed
    assert isinstance(speed, PaperSpeed)
    if kind == "all-reduce":
        return replace(job, speed=AllReduceSpeed(speed.seconds_per_sample, speed.gradient_mb))
    if kind.startswith("fitted"):
        # ResNet-50 of the DL2 table (docs/fitting.md), any workers and servers of what was measured.
        fitted = FittedSpeed(0.3873, 0.004518, 0.4326, 0.0, 0.009747, bandwidth=625.0)
        rate = fitted.samples_per_second(np.array([12]), np.array([12]), 32, 625.0)[0]
        most = float(speed.samples_per_second(np.array([12]), np.array([12]), 32, 625.0)[0])
        return replace(
            job, speed=fitted, batch_size=32, max_workers=12, max_servers=23, workload=job.workload * rate / most
        )
    return job


def as_long(job: Job, model: Job, survey: Callable[[Job], Request]) -> Job:
    """Give a job as much to train as takes as long, where it runs fastest, as another job does where that does."""
    wanted, request = survey(model), survey(job)
    if wanted.most_samples <= 0 or request.most_samples <= 0:
        return job
    return replace(
        job, workload=job.workload * wanted.needed / wanted.most_samples * request.most_samples / request.needed
    )


def loaded(machines: int, horizon: int, kind: str = "paper") -> tuple[Ledger, list[Request], Prices]:
    """Fill a cluster to a mean load of 0.7 in every slot, and draw jobs whose workloads are stretched to the horizon.

    Every machine has a share of all its resources in use that stays for four slots, from Beta(1.4, 0.6): some are
    nearly empty and many nearly full. A quarter of the machines changes from each slot to the next, about as many as
    where a cluster is filled by decisions. None is untouched, so that grouping untouched machines saves nothing.
    """
    workload = synthetic.paper(JOBS, machines, 20, seed=0)
    assert workload.cluster is not None
    cluster: Cluster = in_racks(workload.cluster) if kind == "racks" else workload.cluster
    ledger = Ledger(cluster, horizon)
    rng = np.random.default_rng(0)
    drawn = rng.beta(2 * LOAD, 2 * (1 - LOAD), size=(horizon // 4 + 2, machines))
    turns = (np.arange(horizon)[:, None] + np.arange(machines)) // 4
    shares = drawn[turns - np.arange(machines) // 4, np.arange(machines)][:, :, None]
    # Written directly: a hundred thousand commitments would take minutes, and only the outcome matters here.
    ledger.view.used[:] = np.floor(cluster.grains * shares)
    ledger.view.touched[:] = np.arange(machines)
    ledger.view.counts[:] = machines
    ledger.view.flags[:] = True
    ledger.recount()
    surveyor = Surveyor(cluster, workload.slot_seconds)
    requests = []
    for model in workload.jobs:
        job = as_kind(model, kind)
        if kind == "fitted":
            job = as_long(job, model, lambda job: surveyor.survey(stretched(job, horizon / 20), horizon))
        request = surveyor.survey(stretched(job, horizon / 20), horizon)
        if request.reason is None:
            requests.append(request)
    learnt = Learnt(cluster)
    # As if they had come over the whole horizon: the base price is that of a cluster which has been open all the time.
    prices = [learnt.observe(request.bid._replace(slot=horizon - 1)) for request in requests]
    return ledger, requests, prices[-1]


def stretched(job: Job, factor: float) -> Job:
    """Make a job ``factor`` times as long, arriving at the start, with its target and urgency to scale."""
    utility = job.utility
    assert isinstance(utility, Sigmoid)
    scaled = Sigmoid(utility.value, utility.urgency / factor, utility.target * factor)
    return replace(job, arrival=0, workload=job.workload * factor, utility=scaled)


def seconds(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


@pytest.mark.parametrize(("machines", "horizon"), SIZES)
def test_pass(benchmark: BenchmarkFixture, machines: int, horizon: int) -> None:
    prices = np.random.default_rng(0).random((horizon, machines, 4))
    benchmark(lambda: prices @ np.ones(4))


@pytest.mark.parametrize("kind", ["paper", "all-reduce", "fitted", "fitted-long", "racks"])
@pytest.mark.parametrize(("machines", "horizon"), SIZES)
def test_decision(
    benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str], machines: int, horizon: int, kind: str
) -> None:
    ledger, requests, prices = loaded(machines, horizon, kind)
    planner = Planner()
    tensor = np.random.default_rng(0).random((horizon, machines, 4))
    demand = np.ones(4)
    planner.plan(requests[0], ledger, prices)
    passes: list[float] = []
    decisions: list[float] = []
    admitted = sum(plan is not None and plan.payoff > 0 for plan in (planner.plan(r, ledger, prices) for r in requests))
    for _ in range(3):
        for request in requests:
            passes.append(seconds(lambda: tensor @ demand))
            decisions.append(seconds(lambda request=request: planner.plan(request, ledger, prices)))
    one = float(np.median(passes))
    with capsys.disabled():
        median, tail = np.quantile(decisions, [0.5, 0.99])
        print(
            f"\n{machines} machines x {horizon} slots at load {LOAD}, {kind}: a pass takes {1e3 * one:.3f} ms\n"
            f"  {len(requests)} jobs, of which {admitted} pay: a decision takes {1e3 * median:.2f} ms in the median, "
            f"{1e3 * tail:.2f} ms at p99\n  in passes: {median / one:.1f} and {tail / one:.1f}"
        )
    at = iter(range(10**9))
    benchmark(lambda: planner.plan(requests[next(at) % len(requests)], ledger, prices))


def test_reference(benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]) -> None:
    """The paper's solver beside the default, on the same jobs, ledger and prices."""
    ledger, requests, prices = loaded(100, 20)
    default, reference = Planner(), Planner(Reference())
    for planner in (default, reference):
        planner.plan(requests[0], ledger, prices, at_least=-np.inf)
    fast: list[float] = []
    slow: list[float] = []
    for request in requests:
        # Each looks at every slot, so that both have the same to do.
        fast.append(min(seconds(lambda r=request: default.plan(r, ledger, prices, at_least=-np.inf)) for _ in range(3)))
        slow.append(seconds(lambda r=request: reference.plan(r, ledger, prices, at_least=-np.inf)))
    ratios = np.array(slow) / np.array(fast)
    with capsys.disabled():
        print(
            f"\n100 machines x 20 slots, {len(requests)} jobs: the default takes {1e3 * np.mean(fast):.2f} ms a plan, "
            f"the reference {1e3 * np.mean(slow):.0f} ms\n  the default is {np.sum(slow) / np.sum(fast):.0f} times "
            f"faster in all; {np.median(ratios):.0f} times in the median, {ratios.min():.0f} times at least"
        )
    benchmark.pedantic(lambda: reference.plan(requests[0], ledger, prices, at_least=-np.inf), rounds=1)
