"""The certified bound: above everything that can be earned, and what its prices say it is."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from tests.builders import POLICIES, drawn, elastic, gang, machines
from tests.instances import SLOT_SECONDS, cluster_of, job_of, random_job, tiny_cluster
from tests.optim import certificate

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.speed import PaperSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.bound import Relaxed, upper_bound
from slotwise.optim.offline import offline_optimum
from slotwise.optim.possible import possible
from slotwise.sim.simulator import simulate

Floats = npt.NDArray[np.float64]
HOUR = 3600.0


def small(
    seed: int, *, jobs: tuple[int, int] = (2, 5), slots: tuple[int, int] = (2, 5)
) -> tuple[Cluster, list[Job], int]:
    """Mixed machines, jobs of both speed models; a few of them restart."""
    rng = np.random.default_rng([seed, 31])
    cluster = tiny_cluster(rng, int(rng.integers(1, 4)), int(rng.integers(1, 4)))
    horizon = int(rng.integers(*slots))
    found = []
    for i in range(int(rng.integers(*jobs))):
        job = random_job(rng, cluster, f"job-{i}", arrival=int(rng.integers(0, horizon)), slots=horizon)
        restart = float(rng.choice([0.0, 0.0, 0.0, 7.0]))
        found.append(dataclasses.replace(job, restart_seconds=restart))
    return cluster, found, horizon


# ------------------------------------------------------------------------------------------ by hand


def test_one_job_alone_is_bounded_by_its_utility() -> None:
    cluster = machines({"gpu": 2.0})
    bound = upper_bound([gang("a", 2, 2.0, utility=Linear(10.0, 10.0))], cluster, horizon=5, slot_seconds=1.0)
    # Two slots of both: it finishes in the second one, one slot after arrival.
    assert bound.value == pytest.approx(9.0, rel=1e-8)
    assert bound.gap <= 1e-3


def test_two_jobs_for_one_place_are_bounded_by_the_better() -> None:
    cluster = machines({"gpu": 1.0})
    jobs = [elastic(name, 1.0, 1, utility=Deadline(value, 0.0)) for name, value in (("a", 3.0), ("b", 7.0))]
    bound = upper_bound(jobs, cluster, horizon=1, slot_seconds=1.0, gap=1e-9)
    assert bound.value == pytest.approx(7.0, rel=1e-6)
    # The place costs what the job that is left out would pay, up to what the other would.
    assert 3.0 - 1e-6 <= bound.prices[0, 0] <= 7.0 + 1e-6


def test_nothing_can_be_earned_by_jobs_that_cannot_finish() -> None:
    cluster = machines({"gpu": 1.0})
    jobs = [
        elastic("too long", 9.0, 1),
        elastic("too large", 1.0, 1, worker={"gpu": 2.0}),
        elastic("elsewhere", 1.0, 1, worker={"tpu": 1.0}),
        elastic("worthless", 2.0, 1, utility=Deadline(5.0, 0.0)),
    ]
    relaxed = Relaxed(jobs, cluster, 3, 1.0)
    assert relaxed.jobs == []
    (bound,) = relaxed.improve()
    assert (bound.value, bound.least, bound.gap) == (0.0, 0.0, 0.0)
    assert bound.prices.shape == (3, 1)
    assert relaxed.certify(bound.prices) == 0.0
    assert upper_bound([], cluster, horizon=3, slot_seconds=1.0).value == 0.0


def test_bent_costs_are_bounded_by_their_hull() -> None:
    # Inside the machine twice as fast, for at most two workers: 4 samples a slot there for two GPUs, 1 a GPU beyond.
    cluster = machines({"gpu": 2.0}, {"gpu": 1.0}, {"gpu": 1.0}, bandwidth=(2.0, 1.0))
    job = dataclasses.replace(
        elastic("a", 6.0, 4, workers_per_server=1.0, utility=Deadline(1.0, 1.0)), speed=PaperSpeed(0.0 + 1e-9, 2.0, 1.0)
    )
    relaxed = Relaxed([job], cluster, 2, 1.0)
    prices = np.array([[1.0], [1.0]])
    by_hand = certificate.recompute([job], cluster, prices, 1.0)
    assert relaxed.certify(prices) == pytest.approx(by_hand, rel=1e-8)


def test_a_bound_scales_with_the_value_of_jobs() -> None:
    cluster, jobs = drawn(40, 10, 12, 0)
    plain = upper_bound(jobs, cluster, horizon=12, slot_seconds=HOUR)
    for factor in (1e-12, 1e12):
        scaled = []
        for job in jobs:
            assert isinstance(job.utility, Sigmoid)
            utility = dataclasses.replace(job.utility, value=job.utility.value * factor)
            scaled.append(dataclasses.replace(job, utility=utility))
        bound = upper_bound(scaled, cluster, horizon=12, slot_seconds=HOUR)
        assert bound.value == pytest.approx(plain.value * factor, rel=2e-3)


# ------------------------------------------------------------------------------------------ above everything


@pytest.mark.parametrize("seed", range(300))
def test_earned_is_at_most_the_optimum_and_that_at_most_any_bound(seed: int) -> None:
    cluster, jobs, horizon = small(seed)
    optimum = offline_optimum(jobs, cluster, horizon=horizon, slot_seconds=SLOT_SECONDS)
    assert optimum.proven
    assert optimum.value >= optimum.bound * (1 - 1e-6)
    relaxed = Relaxed(jobs, cluster, horizon, SLOT_SECONDS)
    *_, best = relaxed.improve(gap=1e-6)
    for policy in POLICIES:
        run = simulate(policy, cluster, jobs, horizon=horizon, slot_seconds=SLOT_SECONDS)
        assert run.total_utility <= optimum.value * (1 + 1e-9) + 1e-300
    assert optimum.value <= best.value * (1 + 1e-9)
    rng = np.random.default_rng([seed, 32])
    for spread in (0.1, 1.0, 5.0):
        prices = best.prices * rng.lognormal(0.0, spread, best.prices.shape) + rng.exponential(1e-3 * spread)
        assert best.least * (1 - 1e-6) <= relaxed.certify(prices)
        assert optimum.value <= relaxed.certify(prices) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_no_policy_earns_more_than_the_bound_on_the_papers_workload(seed: int) -> None:
    cluster, jobs = drawn(60, 15, 20, seed)
    bound = upper_bound(jobs, cluster, horizon=20, slot_seconds=HOUR)
    for policy in POLICIES:
        assert simulate(policy, cluster, jobs, horizon=20, slot_seconds=HOUR).total_utility <= bound.value


def test_a_job_that_restarts_less_often_than_planned_stays_below_the_bound() -> None:
    # Planned at half speed, since a restart takes half of a slot; it keeps its place and runs at full speed.
    cluster = machines({"gpu": 1.0})
    job = elastic("a", 15.0, 1, utility=Linear(10.0, 10.0), restart_seconds=5.0)
    run = simulate("fifo", cluster, [job], horizon=4, slot_seconds=10.0)
    assert run.records["a"].completed == 1
    assert run.total_utility <= upper_bound([job], cluster, horizon=4, slot_seconds=10.0).value


# ------------------------------------------------------------------------------------------ the certificate


@pytest.mark.parametrize("seed", range(60))
def test_the_checker_finds_the_same_bound_at_any_prices(seed: int) -> None:
    cluster, jobs, horizon = small(seed, jobs=(1, 6), slots=(1, 7))
    relaxed = Relaxed(jobs, cluster, horizon, SLOT_SECONDS)
    rng = np.random.default_rng([seed, 33])
    *_, best = relaxed.improve()
    free = (rng.random(best.prices.shape) < 0.5) * rng.exponential(1.0, best.prices.shape)
    for prices in (best.prices, np.zeros_like(best.prices), free, rng.exponential(0.1, best.prices.shape)):
        checked = certificate.recompute(jobs, cluster, prices, SLOT_SECONDS)
        # The checker does not count what fits machine by machine, so that it may find a little more.
        assert relaxed.certify(prices) <= checked * (1 + 1e-6) + 1e-12
        if all((_kept(job, cluster) or not certificate.points(job, cluster, SLOT_SECONDS)) for job in jobs):
            assert relaxed.certify(prices) == pytest.approx(checked, rel=1e-6, abs=1e-12)


def _kept(job: Job, cluster: Cluster) -> bool:
    """Whether the bound rules out nothing of a job that the checker lets through."""
    found = possible(job, cluster, SLOT_SECONDS)
    if found is None:
        return True
    points = certificate.points(job, cluster, SLOT_SECONDS)
    pairs = job.speed.pairs(job.min_workers, job.most_workers, job.max_servers)[0]
    return len(pairs) == len(found.configurations) and int(found.allowed.sum()) == len(points)


@pytest.mark.parametrize(("jobs", "count", "horizon"), [(60, 30, 20), (30, 100, 20), (20, 20, 40)])
def test_the_checker_agrees_on_the_papers_workload(jobs: int, count: int, horizon: int) -> None:
    cluster, listed = drawn(jobs, count, horizon, 1)
    bound = upper_bound(listed, cluster, horizon=horizon, slot_seconds=HOUR)
    checked = certificate.recompute(listed, cluster, bound.prices, HOUR)
    assert bound.value == pytest.approx(checked, rel=1e-6)
    assert bound.value >= checked * (1 - 1e-9)


# ------------------------------------------------------------------------------------------ the search


def test_rounds_only_improve_and_end_at_the_gap() -> None:
    cluster, jobs = drawn(100, 30, 20, 0)
    relaxed = Relaxed(jobs, cluster, 20, HOUR)
    found = list(relaxed.improve(gap=1e-3))
    assert [bound.rounds for bound in found] == list(range(1, len(found) + 1))
    for before, after in itertools.pairwise(found):
        assert after.value <= before.value
        assert after.least >= before.least
    assert found[0].gap > 0.05
    assert found[-1].gap <= 1e-3
    for bound in found:
        assert bound.least <= found[-1].value
        assert relaxed.certify(bound.prices) == pytest.approx(bound.value, rel=1e-9)
    assert len(list(relaxed.improve(gap=1e-3, rounds=3))) == 3


def test_first_prices_that_no_job_can_pay_are_no_end() -> None:
    # Its value per size is that of its earliest completion, but it is worth next to nothing by then.
    cluster = machines({"gpu": 4.0})
    jobs = [elastic(f"job-{i}", 5.0, 4, utility=Deadline(1.0, 1.0)) for i in range(9)]
    found = list(Relaxed(jobs, cluster, 2, 1.0).improve())
    assert found[-1].value == pytest.approx(1.6, rel=2e-3)
    for seed in range(12):
        cluster, jobs = drawn(20, 4, 30, seed)
        assert upper_bound(jobs, cluster, horizon=30, slot_seconds=HOUR).gap <= 1e-3


def test_the_same_jobs_have_the_same_bound() -> None:
    cluster, jobs = drawn(60, 20, 20, 3)
    first, second = (upper_bound(jobs, cluster, horizon=20, slot_seconds=HOUR) for _ in range(2))
    assert first.value == second.value
    assert (first.prices == second.prices).all()


@pytest.mark.parametrize(
    ("prices", "message"),
    [
        (np.zeros((2, 1)), r"prices must have shape \(slots, resources\) = \(3, 1\), got \(2, 1\)"),
        (np.full((3, 1), -1.0), "prices must be >= 0 and finite"),
        (np.full((3, 1), math.nan), "prices must be >= 0 and finite"),
    ],
)
def test_prices_that_prove_nothing_are_refused(prices: Floats, message: str) -> None:
    relaxed = Relaxed([elastic("a", 1.0, 1)], machines({"gpu": 1.0}), 3, 1.0)
    with pytest.raises(InvalidInput, match=message):
        relaxed.certify(prices)


def test_numbers_out_of_bounds_are_refused() -> None:
    cluster = machines({"gpu": 1.0})
    with pytest.raises(InvalidInput, match="horizon must be >= 1, got 0"):
        Relaxed([], cluster, 0, 1.0)
    with pytest.raises(InvalidInput, match="slot_seconds must be > 0 and finite, got nan"):
        Relaxed([], cluster, 1, math.nan)
    with pytest.raises(InvalidInput, match=r"gap must be > 0 and finite, got 0\.0"):
        upper_bound([], cluster, horizon=1, slot_seconds=1.0, gap=0.0)
    with pytest.raises(InvalidInput, match="rounds must be >= 1, got 0"):
        upper_bound([], cluster, horizon=1, slot_seconds=1.0, rounds=0)


def test_a_resource_that_no_machine_has_costs_nothing() -> None:
    cluster = cluster_of((1.0, 0.0))
    bound = upper_bound([job_of(worker=(1.0, 0.0))], cluster, horizon=12, slot_seconds=SLOT_SECONDS)
    assert bound.value > 0
    assert (bound.prices[:, 1] == 0).all()
