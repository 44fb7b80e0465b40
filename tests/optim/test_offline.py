"""The offline optimum: equal to brute force on tiny cases, and a schedule that can be carried out."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from tests.builders import elastic, gang, machines
from tests.instances import SLOT_SECONDS, random_job, tiny_cluster

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.speed import PaperSpeed
from slotwise.model.utility import Deadline, Linear
from slotwise.optim.offline import Optimum, offline_optimum
from slotwise.optim.request import TOLERANCE
from slotwise.units import grains
from slotwise.workloads.synthetic import paper

Move = tuple[tuple[int, ...], float]
"""Grains taken on each machine and resource (flat), and samples trained."""


def moves(job: Job, cluster: Cluster) -> list[Move]:
    """Everything that a job may do in a slot, and nothing."""
    worker, server = (grains(cluster.vector(d), cluster.grain) for d in (job.worker_demand, job.server_demand))
    full = dataclasses.replace(job, restart_seconds=0.0).configurations(cluster.locality, SLOT_SECONDS)
    size = len(cluster) * len(cluster.resources)
    best: dict[tuple[int, ...], float] = {(0,) * size: 0.0}
    roles = [job.worker_demand, job.server_demand if full.servers.any() else {}]
    missing = any(a > 0 and r not in cluster.resources for role in roles for r, a in role.items())
    for k in [] if missing else range(len(full)):
        for w in _splits(int(full.workers[k]), len(cluster)):
            for s in _splits(int(full.servers[k]), len(cluster)):
                taken = np.outer(w, worker) + np.outer(s, server)
                if (taken <= cluster.grains).all():
                    level = cluster.level(np.flatnonzero(np.add(w, s)).tolist())
                    key = tuple(taken.reshape(-1).astype(int).tolist())
                    best[key] = max(best.get(key, 0.0), float(full.samples[level, k]))
    return list(best.items())


def _splits(count: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _splits(count - first, parts - 1):
            yield (first, *rest)


def brute_force(jobs: list[Job], cluster: Cluster, horizon: int) -> float:
    """Try everything in every slot."""
    capacity = tuple(cluster.grains.reshape(-1).astype(int).tolist())
    options = [moves(job, cluster) for job in jobs]
    needs = [job.workload * (1.0 - TOLERANCE) for job in jobs]

    @functools.cache
    def best(slot: int, trained: tuple[float, ...]) -> float:
        if slot == horizon:
            return 0.0
        most = 0.0
        can = [
            options[i] if job.arrival <= slot and trained[i] < needs[i] else options[i][:1]
            for i, job in enumerate(jobs)
        ]
        for chosen in itertools.product(*can):
            if any(
                sum(parts) > c for parts, c in zip(zip(*(m[0] for m in chosen), strict=True), capacity, strict=True)
            ):
                continue
            after = tuple(min(t + m[1], need) for t, m, need in zip(trained, chosen, needs, strict=True))
            earned = sum(
                float(job.utility.values(slot - job.arrival + 1)[-1])
                for job, a, t, need in zip(jobs, after, trained, needs, strict=True)
                if a >= need > t
            )
            most = max(most, earned + best(slot + 1, after))
        return most

    return best(0, (0.0,) * len(jobs))


def assert_carried_out(optimum: Optimum, jobs: list[Job], cluster: Cluster, horizon: int) -> None:
    """Commit every schedule on a ledger, which refuses what does not fit, and check what it trains and earns."""
    ledger = Ledger(cluster, horizon)
    earned = 0.0
    for job in jobs:
        if job.id not in optimum.schedules:
            continue
        schedule = optimum.schedules[job.id]
        worker, server = (grains(cluster.vector(d), cluster.grain) for d in (job.worker_demand, job.server_demand))
        ledger.commit(schedule.slots, schedule.placements, worker, server)
        full = dataclasses.replace(job, restart_seconds=0.0).configurations(cluster.locality, SLOT_SECONDS)
        for placement, samples in zip(schedule.placements, schedule.samples, strict=True):
            same = (full.workers == placement.total_workers) & (full.servers == placement.total_servers)
            (k,) = np.flatnonzero(same)
            assert samples == full.samples[cluster.level(placement.machines), k]
        assert schedule.slots[0] >= job.arrival
        assert sum(schedule.samples) >= job.workload * (1.0 - TOLERANCE)
        earned += float(job.utility.values(schedule.completion - job.arrival + 1)[-1])
    assert optimum.value == pytest.approx(earned, rel=1e-12)


def case(seed: int) -> tuple[Cluster, list[Job], int]:
    rng = np.random.default_rng([seed, 41])
    cluster = tiny_cluster(rng, int(rng.integers(1, 3)), int(rng.integers(1, 3)), largest=4)
    horizon = int(rng.integers(1, 4))
    count = int(rng.integers(1, 4))
    listed = [
        random_job(
            rng, cluster, f"job-{i}", arrival=int(rng.integers(0, horizon)), slots=horizon, most_workers=2, demand=2
        )
        for i in range(count)
    ]
    return cluster, listed, horizon


@pytest.mark.parametrize("seed", range(150))
def test_optimum_equals_brute_force(seed: int) -> None:
    cluster, jobs, horizon = case(seed)
    optimum = offline_optimum(jobs, cluster, horizon=horizon, slot_seconds=SLOT_SECONDS)
    assert optimum.proven
    assert optimum.value == pytest.approx(brute_force(jobs, cluster, horizon), rel=1e-6, abs=1e-12)
    assert optimum.bound == pytest.approx(optimum.value, rel=1e-6)
    assert_carried_out(optimum, jobs, cluster, horizon)


def test_a_program_that_presolve_calls_infeasible_has_its_optimum() -> None:
    job = Job("a", 0, 50.0, 5, {"gpu": 0.25}, PaperSpeed(1.0, 5.0, 1.0), Deadline(7.0, 0.0), {"gpu": 1.0}, 2, 3)
    cluster = machines({"gpu": 4.0}, bandwidth=(10.0, 10.0))
    assert offline_optimum([job], cluster, horizon=3, slot_seconds=60.0).value == 7.0


@pytest.mark.parametrize("little", [1e-6, 2e-6, 1e-5, 1e-3])
def test_demands_of_a_grain_beside_large_ones_count_exactly(little: float) -> None:
    cluster = machines({"gpu": 2.0}, bandwidth=(10.0, 10.0))
    twice = [
        Job(f"job-{i}", 0, 60.0, 1, {"gpu": 1.0}, PaperSpeed(1.0, 0.0, 1.0), Deadline(5.0, 0.0), {"gpu": demand})
        for i, demand in enumerate((little, 0.0))
    ]
    optimum = offline_optimum(twice, cluster, horizon=1, slot_seconds=60.0)
    assert (optimum.value, len(optimum.schedules)) == (5.0, 1)
    roomy = machines({"gpu": 2.0 + little}, bandwidth=(10.0, 10.0))
    assert offline_optimum(twice, roomy, horizon=1, slot_seconds=60.0).value == 10.0


def test_a_workload_that_is_next_to_nothing_beside_a_slot_is_no_hindrance() -> None:
    cluster = machines({"gpu": 2.0})
    jobs = [elastic("nothing", 1e-15, 1, utility=Deadline(5.0, 0.0)), elastic("b", 1.0, 1, utility=Deadline(3.0, 0.0))]
    assert offline_optimum(jobs, cluster, horizon=1, slot_seconds=1.0).value == 8.0


def test_without_a_bound_of_its_own_yet_it_has_what_all_jobs_are_worth() -> None:
    work = paper(12, 8, 20, 0)
    assert work.cluster is not None
    found = offline_optimum(work.jobs, work.cluster, horizon=20, slot_seconds=work.slot_seconds, seconds=1e-9)
    assert np.isfinite(found.bound)
    assert found.value <= found.bound


def test_it_turns_away_the_first_for_the_better_second() -> None:
    cluster = machines({"gpu": 1.0})
    first = elastic("first", 3.0, 1, utility=Deadline(10.0, 2.0))
    second = elastic("second", 1.0, 1, arrival=1, utility=Deadline(30.0, 0.0))
    optimum = offline_optimum([first, second], cluster, horizon=3, slot_seconds=1.0)
    assert optimum.value == pytest.approx(30.0)
    assert set(optimum.schedules) == {"second"}


def test_it_waits_where_that_lets_both_finish() -> None:
    cluster = machines({"gpu": 2.0})
    jobs = [gang("wide", 2, utility=Linear(10.0, 10.0)), gang("late", 2, utility=Deadline(5.0, 0.0))]
    optimum = offline_optimum(jobs, cluster, horizon=2, slot_seconds=1.0)
    assert optimum.value == pytest.approx(14.0)
    assert optimum.schedules["wide"].slots == (1,)
    assert optimum.gap == pytest.approx(0.0, abs=1e-6)


def test_no_jobs_earn_nothing() -> None:
    optimum = offline_optimum([], machines({"gpu": 1.0}), horizon=2, slot_seconds=1.0)
    assert (optimum.value, optimum.bound, optimum.schedules, optimum.proven) == (0.0, 0.0, {}, True)


def test_out_of_time_it_still_bounds() -> None:
    rng = np.random.default_rng(7)
    cluster = tiny_cluster(rng, 4, 3)
    jobs = [random_job(rng, cluster, f"job-{i}", slots=8, most_workers=9) for i in range(9)]
    optimum = offline_optimum(jobs, cluster, horizon=8, slot_seconds=SLOT_SECONDS, seconds=0.05)
    assert optimum.bound >= optimum.value
    assert_carried_out(optimum, jobs, cluster, 8)
    assert 0.0 <= optimum.gap <= 1.0
