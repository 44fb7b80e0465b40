"""Section 7 of the design as property tests: random jobs one after another on one ledger."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.instances import SLOT_SECONDS, clusters, jobs, random_job, tiny_cluster

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.model.speed import PaperSpeed
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import Prices, calibration
from slotwise.optim.request import Request, Surveyor
from slotwise.optim.solver import solver
from slotwise.units import grains

Floats = npt.NDArray[np.float64]

PRICES = ("learnt", "learnt=2", "literal", "scale=0.01", "scale=3")
LEAST_PAYOFF = 1e-9


@dataclass(frozen=True)
class Answer:
    """What was decided on one job, and what was known then."""

    job: Job
    request: Request
    prices: Prices
    plan: Plan | None
    before: Ledger
    admitted: bool


@dataclass(frozen=True)
class Story:
    """A sequence of jobs on a cluster, decided one by one."""

    cluster: Cluster
    slots: int
    answers: tuple[Answer, ...]
    ledger: Ledger


def play(cluster: Cluster, slots: int, listed: Sequence[Job], prices: str, solver_name: str, grid: int = 200) -> Story:
    """Decide on jobs in order of arrival as PD-ORS does, without a scheduler."""
    ledger = Ledger(cluster, slots)
    surveyor = Surveyor(cluster, SLOT_SECONDS)
    planner = Planner(solver(solver_name), grid)
    ordered = sorted(listed, key=lambda job: (job.arrival, job.id))
    requests = [surveyor.survey(job, ledger.end) for job in ordered]
    known = [request.bid for request in requests if request.reason is None]
    calibrated = calibration(prices, cluster, known, slots)
    answers = []
    for job, request in zip(ordered, requests, strict=True):
        ledger.advance(job.arrival)
        if request.reason is not None:
            continue
        at = calibrated.observe(request.bid)
        before = copy.deepcopy(ledger)
        plan = planner.plan(request, ledger, at)
        admitted = plan is not None and plan.payoff > LEAST_PAYOFF * plan.utility
        if admitted:
            assert plan is not None
            ledger.commit(plan.schedule.slots, plan.schedule.placements, request.ask.worker, request.ask.server)
        answers.append(Answer(job, request, at, plan, before, admitted))
    return Story(cluster, slots, tuple(answers), ledger)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """From one to six jobs on a small cluster, any prices, either solver."""
    cluster = draw(clusters())
    slots = draw(st.integers(1, 6))
    names = [f"j{i}" for i in range(draw(st.integers(1, 6)))]
    listed = [draw(jobs(len(cluster.resources), slots, name=name)) for name in names]
    return play(cluster, slots, listed, draw(st.sampled_from(PRICES)), draw(st.sampled_from(["sweep", "exact"])))


def seeded_story(seed: int, prices: str, solver_name: str, most_jobs: int = 12) -> Story:
    """A longer sequence on more machines, so that the cluster fills."""
    rng = np.random.default_rng([seed, 7])
    cluster = tiny_cluster(rng, int(rng.integers(2, 8)), int(rng.integers(1, 4)))
    slots = int(rng.integers(2, 9))
    listed = [
        random_job(rng, cluster, f"j{i:02d}", arrival=int(rng.integers(0, slots)), slots=3, most_workers=6)
        for i in range(most_jobs)
    ]
    return play(cluster, slots, listed, prices, solver_name)


def amounts(answer: Answer, placement: Placement) -> dict[int, Floats]:
    """Grains that a placement takes on each machine, from the job's own demands."""
    cluster = answer.before.cluster
    worker, server = (
        grains([demand.get(resource, 0.0) for resource in cluster.resources], cluster.grain)
        for demand in (answer.job.worker_demand, answer.job.server_demand)
    )
    return {
        machine: w * worker + s * server
        for machine, w, s in zip(placement.machines, placement.workers, placement.servers, strict=True)
    }


def check_capacity(story: Story) -> None:
    """Invariant 1."""
    used = np.zeros((story.slots, *story.cluster.grains.shape))
    for answer in story.answers:
        if answer.admitted and answer.plan is not None:
            schedule = answer.plan.schedule
            for slot, placement in zip(schedule.slots, schedule.placements, strict=True):
                for machine, taken in amounts(answer, placement).items():
                    used[slot, machine] += taken
    assert (used <= story.cluster.grains).all()
    for slot in range(story.ledger.origin, story.slots):
        assert np.array_equal(story.ledger.used(slot), used[slot])
        held = np.flatnonzero(used[slot].any(axis=1))
        row = slot % story.slots
        assert story.ledger.view.touched[row, : story.ledger.view.counts[row]].tolist() == held.tolist()
        assert np.flatnonzero(story.ledger.view.flags[row]).tolist() == held.tolist()


def check_schedule(answer: Answer) -> None:
    """Invariants 2, 5 and 6, for every plan, admitted or not."""
    if answer.plan is None:
        return
    job, schedule = answer.job, answer.plan.schedule
    cluster = answer.before.cluster
    seconds = max(0.0, SLOT_SECONDS - job.restart_seconds)
    assert list(schedule.slots) == sorted(set(schedule.slots))
    assert schedule.slots[0] >= job.arrival
    assert schedule.completion < answer.before.end
    for placement, samples in zip(schedule.placements, schedule.samples, strict=True):
        assert placement.machines == tuple(sorted(set(placement.machines)))
        assert all(w + s > 0 for w, s in zip(placement.workers, placement.servers, strict=True))
        workers = placement.total_workers
        assert job.min_workers <= workers <= job.most_workers <= job.batch_size
        servers = placement.total_servers
        pairs = job.speed.pairs(workers, workers, job.max_servers)
        assert servers in pairs[1].tolist()
        if isinstance(job.speed, PaperSpeed):
            assert servers >= workers / job.speed.workers_per_server - 1e-6
        level = next(d for d, domain in enumerate(cluster.domains) if len({*domain[list(placement.machines)]}) == 1)
        assert job.domain is None or level <= cluster.levels.index(job.domain)
        widest = len(cluster.levels) - 1 if job.domain is None else cluster.levels.index(job.domain)
        counts = np.array([workers]), np.array([servers])
        slower = cluster.bandwidth[level : widest + 1]
        rate = max(float(job.speed.samples_per_second(*counts, job.batch_size, pair)[0]) for pair in slower)
        assert samples == pytest.approx(rate * seconds, rel=1e-12)
        assert samples > 0
    assert sum(schedule.samples) >= job.workload * (1 - 1e-10)
    assert sum(schedule.samples[:-1]) < job.workload


def check_payoff(answer: Answer) -> None:
    """Invariant 3: utility and cost again, from placements and prices before commitment."""
    if answer.plan is None:
        return
    schedule = answer.plan.schedule
    cost = 0.0
    for slot, placement in zip(schedule.slots, schedule.placements, strict=True):
        for machine, taken in amounts(answer, placement).items():
            capacity = answer.before.cluster.grains[machine]
            for r in range(len(taken)):
                if taken[r] > 0:
                    share = answer.before.used(slot)[machine, r] / capacity[r]
                    low, ratio = answer.prices.rows(slot, 1)
                    exponent = float(low[0, r] + ratio[0, r] * share)
                    cost += float(np.exp(exponent)) * float(taken[r] * answer.before.cluster.grain[r])
    delay = schedule.completion - answer.job.arrival
    utility = float(answer.job.utility.values(delay + 1)[delay])
    assert answer.plan.utility == utility
    assert answer.plan.payoff == pytest.approx(utility - cost, abs=1e-9 * max(utility, cost), rel=0)


def check_prices_rise(answer: Answer, after: Ledger) -> None:
    """Invariant 4, first half: committing lowers no price."""
    capacity = answer.before.view.capacity
    for slot in range(after.origin, after.end):
        before = answer.prices.at(answer.before.used(slot), capacity, slot)
        assert (answer.prices.at(after.used(slot), capacity, slot) >= before).all()
        assert np.isfinite(before).all()
        assert (before > 0).all()


def state_of(ledger: Ledger) -> list[npt.NDArray[np.generic]]:
    """Copies of all that a ledger says; touched machines beyond the count are not part of it."""
    view = ledger.view
    lists = [view.touched[row, : view.counts[row]].copy() for row in range(ledger.window)]
    return [view.used.copy(), view.counts.copy(), view.flags.copy(), view.capacity.copy(), *lists]


def same(first: list[npt.NDArray[np.generic]], second: list[npt.NDArray[np.generic]]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def check_release(answer: Answer) -> None:
    """Invariant 4, second half: commit, then release, and nothing has happened, bit for bit."""
    if not answer.admitted or answer.plan is None:
        return
    ledger = copy.deepcopy(answer.before)
    untouched = state_of(ledger)
    schedule, ask = answer.plan.schedule, answer.request.ask
    ledger.commit(schedule.slots, schedule.placements, ask.worker, ask.server)
    assert not same(untouched, state_of(ledger))
    check_prices_rise(answer, ledger)
    ledger.release(schedule.slots, schedule.placements, ask.worker, ask.server)
    assert same(untouched, state_of(ledger))


def check(story: Story) -> None:
    check_capacity(story)
    for answer in story.answers:
        check_schedule(answer)
        check_payoff(answer)
        check_release(answer)


@settings(max_examples=200)
@given(stories())
def test_invariants_hold_for_any_sequence_of_jobs(story: Story) -> None:
    check(story)


@pytest.mark.parametrize("solver_name", ["sweep", "exact"])
@pytest.mark.parametrize("prices", PRICES)
def test_invariants_hold_on_clusters_that_fill(prices: str, solver_name: str) -> None:
    admitted = rejected = 0
    for seed in range(25):
        story = seeded_story(seed, prices, solver_name)
        check(story)
        admitted += sum(answer.admitted for answer in story.answers)
        rejected += sum(not answer.admitted for answer in story.answers)
    assert admitted > 20  # neither empty nor trivial
    assert rejected > 0 or prices == "scale=0.01"


def decisions(story: Story) -> list[tuple[str, bool, Plan | None]]:
    return [(answer.job.id, answer.admitted, answer.plan) for answer in story.answers]


@pytest.mark.parametrize("prices", ["learnt", "learnt=0.1", "scale=0.5"])
def test_prefix_of_the_arrivals_gets_the_same_decisions(prices: str) -> None:
    """Invariant 7."""
    for seed in range(25):
        rng = np.random.default_rng([seed, 77])
        cluster = tiny_cluster(rng, 5, 2)
        listed = [random_job(rng, cluster, f"j{i:02d}", arrival=i // 3, most_workers=4) for i in range(15)]
        whole = decisions(play(cluster, 8, listed, prices, "sweep"))
        for cut in (1, 4, 9):
            part = decisions(play(cluster, 8, listed[:cut], prices, "sweep"))
            assert part == whole[: len(part)]


@given(st.data())
def test_same_jobs_get_the_same_decisions(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    listed = [data.draw(jobs(len(cluster.resources), 4, name=f"j{i}")) for i in range(3)]
    first, second = (decisions(play(cluster, 4, listed, "learnt", "sweep")) for _ in range(2))
    assert first == second


@settings(max_examples=60)
@given(stories(), st.integers(0, 100))
def test_releasing_in_any_order_leaves_the_ledger_empty(story: Story, order: int) -> None:
    ledger = Ledger(story.cluster, story.slots)
    empty = state_of(ledger)
    held = []
    for answer in story.answers:
        if answer.admitted and answer.plan is not None:
            ask = answer.request.ask
            held.append((answer.plan.schedule, ask.worker, ask.server))
    for schedule, worker, server in held:
        ledger.commit(schedule.slots, schedule.placements, worker, server)
    for i in np.random.default_rng(order).permutation(len(held)).tolist():
        schedule, worker, server = held[i]
        ledger.release(schedule.slots, schedule.placements, worker, server)
    assert same(empty, state_of(ledger))
