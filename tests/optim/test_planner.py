"""The planner: equal to brute force where it is exact, within its stated gap where it sweeps, never wrong in kind."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.instances import (
    SLOT_SECONDS,
    cluster_of,
    clusters,
    job_of,
    jobs,
    load,
    paper_job,
    paper_ledger,
    placement_cost,
    prices_of,
    random_job,
    survey,
    tiny_cluster,
)
from tests.optim import twins

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.solver import Exact, Sweep, solver

Floats = npt.NDArray[np.float64]

ANY_PAYOFF = -math.inf


def best_payoff(request: Request, ledger: Ledger, prices: Prices) -> float:
    """Largest payoff over every schedule, by brute force."""
    slots = [
        twins.least_costs(twins.listing(ledger, slot, request.ask, prices), request.ask)
        for slot in range(request.arrival, request.end)
    ]
    return twins.best_over_schedules(slots, request.needed, request.utility)


def tiny(seed: int) -> tuple[Job, Ledger, Prices]:
    """At most 3 machines, 3 slots, 3 workers; random use."""
    rng = np.random.default_rng([seed, 3])
    resources = int(rng.integers(1, 4))
    cluster = tiny_cluster(rng, int(rng.integers(1, 4)), resources)
    slots = int(rng.integers(1, 4))
    ledger = Ledger(cluster, slots)
    for slot in range(slots):
        for machine in range(len(cluster)):
            if rng.random() < 0.3:
                load(ledger, slot, machine, np.floor(ledger.view.capacity[machine] * rng.choice([0.25, 0.5, 1.0])))
    job = random_job(rng, cluster, arrival=int(rng.integers(0, slots)), slots=slots)
    prices = Prices(rng.uniform(-6.0, 0.0, resources), rng.uniform(1.0, 8.0, resources))
    return job, ledger, prices


def run(job: Job, ledger: Ledger, prices: Prices, planner: Planner, at_least: float | None = None) -> Plan | None:
    request = survey(job, ledger.cluster, ledger.end)
    return None if request.reason is not None else planner.plan(request, ledger, prices, at_least=at_least)


# ------------------------------------------------------------------------------------------------- brute force


@pytest.mark.parametrize("seed", range(400))
def test_exact_payoff_of_one_job_equals_brute_force(seed: int) -> None:
    job, ledger, prices = tiny(seed)
    request = survey(job, ledger.cluster, ledger.end)
    wanted = best_payoff(request, ledger, prices) if request.end > request.arrival else -math.inf
    plan = run(job, ledger, prices, Planner(Exact(), grid=5000), ANY_PAYOFF)
    if plan is None:
        assert wanted == -math.inf
    else:
        assert plan.payoff == pytest.approx(wanted, rel=1e-9, abs=1e-9 * plan.utility)


@settings(max_examples=150)
@given(st.data())
def test_exact_payoff_equals_brute_force_on_shrinkable_instances(data: st.DataObject) -> None:
    cluster = data.draw(clusters(most_machines=3))
    slots = data.draw(st.integers(1, 3))
    job = data.draw(jobs(len(cluster.resources), slots, most_workers=3))
    ledger = Ledger(cluster, slots)
    for slot in range(slots):
        for machine in range(len(cluster)):
            load(ledger, slot, machine, np.floor(cluster.grains[machine] * data.draw(st.sampled_from([0.0, 0.5, 1.0]))))
    prices = prices_of(data.draw(st.sampled_from([1e-4, 0.05, 1.0])), 20.0, len(cluster.resources))
    request = survey(job, cluster, ledger.end)
    wanted = best_payoff(request, ledger, prices)
    plan = run(job, ledger, prices, Planner(Exact(), grid=100_000), ANY_PAYOFF)
    if plan is None:
        assert wanted == -math.inf
    else:
        assert plan.payoff == pytest.approx(wanted, rel=1e-9, abs=1e-9 * plan.utility)


@pytest.mark.parametrize("seed", range(150))
def test_default_threshold_finds_what_pays(seed: int) -> None:
    job, ledger, prices = tiny(5000 + seed)
    everything = run(job, ledger, prices, Planner(Exact(), grid=5000), ANY_PAYOFF)
    paying = run(job, ledger, prices, Planner(Exact(), grid=5000))
    if everything is not None and everything.payoff > 0:
        assert paying is not None
        assert paying.payoff == pytest.approx(everything.payoff, rel=1e-9, abs=1e-12)
    elif paying is not None:
        assert everything is not None
        assert paying.payoff <= 0


# ---------------------------------------------------------------------------------------------- named small cases


def plan_of(
    job: Job, cluster: Cluster, *, slots: int = 3, low: float = 0.01, high: float = 5.0, exact: bool = True
) -> Plan | None:
    prices = prices_of(low, high, len(cluster.resources))
    return run(job, Ledger(cluster, slots), prices, Planner(Exact() if exact else Sweep(), grid=5000))


@pytest.mark.parametrize("exact", [False, True])
def test_more_workers_per_server_than_batch_still_take_one_server(exact: bool) -> None:
    job = job_of(worker=(1.0,), server=(2.0,), batch_size=2, speed=PaperSpeed(1.0, 1.0, 50.0), workload=30.0)
    plan = plan_of(job, cluster_of((4.0,)), exact=exact)
    assert plan is not None
    assert plan.schedule.placements[0].total_servers == 1


@pytest.mark.parametrize("exact", [False, True])
def test_fractional_gamma_takes_a_whole_number_of_servers_that_suffices(exact: bool) -> None:
    job = job_of(
        worker=(1.0,),
        server=(1.0,),
        batch_size=4,
        min_workers=4,
        speed=PaperSpeed(1.0, 1.0, 1.5),
        workload=100.0,
    )
    plan = plan_of(job, cluster_of((5.0,), (2.0,)), exact=exact)
    assert plan is not None
    placement = plan.schedule.placements[0]
    assert (placement.total_workers, placement.total_servers) == (4, 3)
    assert plan_of(job, cluster_of((5.0,), (1.0,)), exact=exact) is None


@pytest.mark.parametrize("exact", [False, True])
def test_workers_without_gpu_run_on_machines_without_gpu(exact: bool) -> None:
    job = job_of(worker=(0.0, 1.0), batch_size=3, workload=180.0)
    plan = plan_of(job, cluster_of((0.0, 2.0), (0.0, 1.0)), exact=exact)
    assert plan is not None
    assert plan.schedule.slots == (0,)
    assert plan.cost == pytest.approx(3 * 0.01, rel=1e-9)  # the price of absent GPUs is not paid


@pytest.mark.parametrize("exact", [False, True])
def test_gang_runs_whole_or_not_at_all(exact: bool) -> None:
    job = job_of(worker=(1.0,), batch_size=4, min_workers=4, workload=60.0 * 4 * 2)
    plan = plan_of(job, cluster_of(*[(1.0,)] * 5), exact=exact)
    assert plan is not None
    assert [p.total_workers for p in plan.schedule.placements] == [4, 4]
    assert plan_of(job, cluster_of(*[(1.0,)] * 3), exact=exact) is None


@pytest.mark.parametrize("exact", [False, True])
def test_workers_fit_but_servers_do_not(exact: bool) -> None:
    speed = PaperSpeed(1.0, 1.0, 1.0)
    job = job_of(worker=(1.0, 0.0), server=(0.0, 1.0), batch_size=2, min_workers=2, speed=speed, workload=60.0)
    assert plan_of(job, cluster_of((2.0, 1.0)), exact=exact) is None
    reverse = job_of(worker=(0.0, 1.0), server=(1.0, 0.0), batch_size=2, min_workers=2, speed=speed, workload=60.0)
    assert plan_of(reverse, cluster_of((1.0, 2.0)), exact=exact) is None


@pytest.mark.parametrize("exact", [False, True])
def test_totals_fit_but_no_machine_does(exact: bool) -> None:
    cluster = cluster_of((4.0,), (4.0,))
    assert plan_of(job_of(worker=(8.0,)), cluster, exact=exact) is None
    assert plan_of(job_of(worker=(1.0,)), cluster, exact=exact) is not None


@pytest.mark.parametrize("exact", [False, True])
def test_ties_go_to_the_first_machine_the_earliest_slot_and_fewer_workers(exact: bool) -> None:
    job = job_of(worker=(1.0,), batch_size=2, workload=60.0)
    plan = plan_of(job, cluster_of((1.0,), (1.0,), (1.0,)), exact=exact)
    assert plan is not None
    assert plan.schedule.slots == (0,)
    assert plan.schedule.placements[0].machines == (0,)


def test_all_reduce_is_not_widened_where_more_workers_are_slower() -> None:
    speed = AllReduceSpeed(0.1, 400.0)  # two workers across machines are slower than one
    job = job_of(worker=(1.0,), batch_size=4, speed=speed, workload=590.0)
    plan = plan_of(job, cluster_of(*[(1.0,)] * 4))
    assert plan is not None
    assert [p.total_workers for p in plan.schedule.placements] == [1]


def test_waits_for_a_cheap_slot_when_nothing_is_urgent() -> None:
    cluster = cluster_of((1.0,))
    ledger = Ledger(cluster, 3)
    for slot, used in ((0, 5e5), (2, 2e5)):
        load(ledger, slot, 0, np.array([used]))
    job = job_of(worker=(0.5,), workload=60.0, batch_size=1, utility=Sigmoid(10.0, 0.0, 0.0))
    plan = run(job, ledger, prices_of(0.1, 10.0, 1), Planner(Exact()))
    assert plan is not None
    assert plan.schedule.slots == (1,)
    urgent = dataclasses.replace(job, utility=Deadline(10.0, 0.0))
    plan = run(urgent, ledger, prices_of(0.1, 10.0, 1), Planner(Exact()))
    assert plan is not None
    assert plan.schedule.slots == (0,)


@pytest.mark.parametrize("exact", [False, True])
def test_last_slot_before_the_horizon_is_used(exact: bool) -> None:
    cluster = cluster_of((2.0,))
    job = job_of(arrival=4, worker=(1.0,), batch_size=2, workload=120.0)
    plan = plan_of(job, cluster, slots=5, exact=exact)
    assert plan is not None
    assert plan.schedule.slots == (4,)
    assert plan_of(dataclasses.replace(job, workload=121.0), cluster, slots=5, exact=exact) is None


@pytest.mark.parametrize("workload", [1e15, 1e-6])
def test_huge_and_tiny_workloads_are_planned(workload: float) -> None:
    cluster = cluster_of((3.0,), (3.0,))
    tau = 60.0 * 4 * 2.5 / workload  # two and a half slots of four workers
    job = job_of(worker=(1.0,), batch_size=6, max_workers=4, workload=workload, speed=AllReduceSpeed(tau, 0.0))
    plan = run(job, Ledger(cluster, 6), prices_of(0.01, 5.0, 1), Planner(Exact()))
    assert plan is not None
    assert sum(plan.schedule.samples) >= workload * (1 - 1e-10)
    assert plan.cost == pytest.approx(0.1, rel=1e-6)


def test_no_plan_starts_before_first_or_before_what_has_passed() -> None:
    cluster = cluster_of((2.0,))
    ledger = Ledger(cluster, 6)
    request = survey(job_of(worker=(1.0,), workload=60.0), cluster, 6)
    prices = prices_of(0.01, 5.0, 1)
    plan = Planner().plan(request, ledger, prices, first=3)
    assert plan is not None
    assert plan.schedule.slots == (3,)
    ledger.advance(5)
    plan = Planner().plan(request, ledger, prices)
    assert plan is not None
    assert plan.schedule.slots == (5,)
    assert Planner().plan(request, ledger, prices, first=6) is None


def test_plan_that_cannot_pay_is_only_found_when_asked_for() -> None:
    cluster = cluster_of((1.0,))
    job = job_of(worker=(1.0,), workload=60.0, batch_size=1, utility=Sigmoid(2.0, 0.0, 0.0))
    prices = prices_of(30.0, 300.0, 1)
    assert run(job, Ledger(cluster, 2), prices, Planner()) is None
    plan = run(job, Ledger(cluster, 2), prices, Planner(), ANY_PAYOFF)
    assert plan is not None
    assert plan.payoff == pytest.approx(1.0 - 30.0, rel=1e-9)


def test_restart_seconds_are_charged_in_every_slot() -> None:
    cluster = cluster_of((1.0,))
    job = job_of(worker=(1.0,), workload=60.0, batch_size=1, restart_seconds=30.0)
    plan = plan_of(job, cluster)
    assert plan is not None
    assert plan.schedule.samples == (30.0, 30.0)
    for lost in (SLOT_SECONDS, 2 * SLOT_SECONDS):
        assert plan_of(dataclasses.replace(job, restart_seconds=lost), cluster) is None


def test_solvers_are_found_by_name() -> None:
    assert (solver("sweep").name, solver("exact").name) == ("sweep", "exact")
    with pytest.raises(InvalidInput, match="solver must be one of sweep, exact, reference, got 'best'"):
        solver("best")
    with pytest.raises(InvalidInput, match=re.escape("grid must be in 1 ... 1000000, got 0")):
        Planner(grid=0)


# ------------------------------------------------------------------------------------------- trimming and the grid


@pytest.mark.parametrize("exact", [False, True])
def test_trimming_gives_back_workers_that_are_not_needed(exact: bool) -> None:
    job = job_of(worker=(1.0,), batch_size=4, workload=60.0 * 5)  # 4 and 1, not 4 and 4
    plan = plan_of(job, cluster_of((4.0,)), exact=exact)
    assert plan is not None
    assert sum(p.total_workers for p in plan.schedule.placements) == 5


@given(st.data())
def test_workloads_that_are_whole_slots_are_trained_exactly(data: st.DataObject) -> None:
    """Sums that meet the workload to the last bit must not make trimming stumble."""
    tau = data.draw(st.sampled_from([0.1, 0.3, 0.7, 1.1]))
    workers = data.draw(st.integers(1, 6))
    units = data.draw(st.integers(1, 24))
    miss = data.draw(st.sampled_from([0.0, 1e-11, 1e-16, -1e-16, 1.0 - 1.0 / (1.0 - 1e-11)]))
    job = job_of(
        worker=(1.0,),
        batch_size=workers,
        min_workers=data.draw(st.sampled_from([1, workers])),
        speed=AllReduceSpeed(tau, data.draw(st.sampled_from([0.0, 10.0]))),
        workload=SLOT_SECONDS / tau * units * (1.0 - miss),
    )
    cluster = cluster_of((float(data.draw(st.integers(1, 3))),), (2.0,), (1.0,))
    request = survey(job, cluster, 24)
    if request.reason is not None:
        return
    plan = Planner().plan(request, Ledger(cluster, 24), prices_of(0.001, 1.0, 1), at_least=ANY_PAYOFF)
    assert plan is not None
    assert sum(plan.schedule.samples) >= job.workload * (1 - 1e-10)


def test_trimming_keeps_a_workload_that_is_nothing_beside_a_slot() -> None:
    job = job_of(worker=(1.0,), batch_size=1, workload=1e-6, speed=AllReduceSpeed(1e-12, 0.0))
    plan = plan_of(job, cluster_of((1.0,)))
    assert plan is not None
    assert plan.schedule.slots == (0,)


def test_the_grid_loses_little() -> None:
    shares = []
    for seed in range(60):
        rng = np.random.default_rng([seed, 8])
        ledger = paper_ledger(rng, machines=10, slots=10)
        job = paper_job(rng, slots=10)
        prices = Prices(np.log(np.full(4, 1e-4)), rng.uniform(2.0, 7.0, 4))
        coarse = run(job, ledger, prices, Planner(grid=500))
        fine = run(job, ledger, prices, Planner(grid=20_000))
        if fine is not None and fine.payoff > 0:
            shares.append(max(coarse.payoff, 0.0) / fine.payoff if coarse is not None else 0.0)
    print(f"\ngrid 500 against 20,000: {len(shares)} plans, mean {np.mean(shares):.5f}, worst {np.min(shares):.4f}")
    assert len(shares) >= 40
    assert np.mean(shares) >= 0.998


def test_sweep_earns_nearly_what_exact_earns() -> None:
    """Prices are such that the cost of a plan is anything from nothing to all of its utility."""
    swept, exact, costs = [], [], []
    for seed in range(60):
        rng = np.random.default_rng([seed, 9])
        ledger = paper_ledger(rng, machines=30, slots=10)
        job = paper_job(rng, slots=10)
        low = 10.0 ** rng.uniform(-1.5, 0.5) / (4.0 * np.array([36.0, 99.0, 306.0, 135.0]))
        prices = Prices(np.log(low), rng.uniform(2.0, 5.0, 4))
        best = run(job, ledger, prices, Planner(Exact()))
        if best is not None and best.payoff > 0.05 * best.utility:
            found = run(job, ledger, prices, Planner(Sweep()))
            exact.append(best.payoff)
            swept.append(max(0.0, found.payoff) if found is not None else 0.0)
            costs.append(best.cost / best.utility)
    ratios = np.array(swept) / np.array(exact)
    print(
        f"\nsweep plans against exact plans, {len(ratios)} jobs on 30 machines x 10 slots, cost {np.mean(costs):.0%} "
        f"of utility: payoff mean {ratios.mean():.4f}, worst {ratios.min():.3f}, sum {sum(swept) / sum(exact):.4f}"
    )
    assert len(ratios) >= 25
    assert ratios.mean() >= 0.995


def test_cost_is_the_sum_of_prices_before_commitment() -> None:
    cluster = cluster_of((2.0, 4.0), (2.0, 0.0))
    ledger = Ledger(cluster, 2)
    load(ledger, 0, 0, np.array([1e6, 2e6]))
    prices = prices_of(np.array([1.0, 2.0]), np.array([4.0, 8.0]), 2)
    job = job_of(worker=(1.0, 0.0), server=(0.0, 1.0), batch_size=1, speed=PaperSpeed(1.0, 0.0, 1.0), workload=60.0)
    request = survey(job, cluster, 2)
    plan = Planner(Exact()).plan(request, ledger, prices, first=0, at_least=ANY_PAYOFF)
    assert plan is not None
    assert plan.schedule.slots == (1,)  # half full in slot 0: 2 and 4 each; empty in slot 1: 1 and 2
    assert plan.cost == pytest.approx(3.0, rel=1e-12)
    costs = [
        placement_cost(placement, slot, request, ledger, prices)
        for slot, placement in zip(plan.schedule.slots, plan.schedule.placements, strict=True)
    ]
    assert sum(costs) == plan.cost
    linear = dataclasses.replace(job, utility=Linear(20.0, 2.0))
    plan = run(linear, ledger, prices, Planner(Exact()))
    assert plan is not None
    assert plan.schedule.slots == (0,)
    # Slot 0: the worker on machine 1 costs 1, the server beside the load 4; both on machine 0: 6.
    assert plan.cost == pytest.approx(5.0, rel=1e-12)


def test_exact_runs_a_gang_that_only_one_packing_holds() -> None:
    speed = PaperSpeed(1.0, 1.0, 1.5)
    job = job_of(worker=(3.0,), server=(2.0,), batch_size=3, min_workers=3, speed=speed, workload=60.0)
    plan = plan_of(job, cluster_of((3.0,), (4.0,), (6.0,)))
    assert plan is not None
    assert plan.schedule.placements[0] == Placement((0, 1, 2), (1, 0, 2), (0, 2, 0))


def test_plan_of_many_slots_that_each_hold_next_to_nothing_is_found() -> None:
    cluster = cluster_of((1000.0,))
    ledger = Ledger(cluster, 1000)
    for slot in range(1000):
        load(ledger, slot, 0, np.array([999e6]))
    job = job_of(worker=(1.0,), batch_size=1000, workload=60.0 * 1000, utility=Sigmoid(1e6, 0.0, 0.0))
    plan = run(job, ledger, prices_of(1e-9, 1e-6, 1), Planner(Sweep()), ANY_PAYOFF)
    assert plan is not None
    assert len(plan.schedule.slots) == 1000


def test_nothing_left_to_train_is_not_an_error() -> None:
    cluster = cluster_of((1.0,))
    done = dataclasses.replace(survey(job_of(), cluster, 5), workload=0.0)
    Planner().plan(done, Ledger(cluster, 5), prices_of(1.0, 2.0, 1), at_least=ANY_PAYOFF)


def test_job_that_demands_what_the_cluster_lacks_and_restarts_for_ever_is_turned_away() -> None:
    job = dataclasses.replace(job_of(restart_seconds=100.0), worker_demand={"tpu": 1.0})
    assert survey(job, cluster_of((1.0,)), 5).reason is Reason.NEVER_FITS


def test_a_curve_of_more_points_than_a_short_integer_counts() -> None:
    """280 x 280 pairs of a table, each a little faster than the one before."""
    counted = TableSpeed(tuple(SpeedPoint(w, s, 1000.0 * w + s) for w in range(1, 281) for s in range(1, 281)))
    cluster = cluster_of((400.0,))
    job = job_of(worker=(1.0,), server=(0.001,), batch_size=280, speed=counted, workload=2.9 * 280_280.0 * SLOT_SECONDS)
    request = survey(job, cluster, 3)
    assert len(request.ask.workers) > 65_535
    plan = Planner().plan(request, Ledger(cluster, 3), prices_of(1e-9, 1e-8, 1), at_least=ANY_PAYOFF)
    assert plan is not None
    assert sum(plan.schedule.samples) >= job.workload * (1 - 1e-9)
