"""Prices: formulas against numbers worked out by hand, and the ends of the range."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.instances import cluster_of, clusters, job_of, jobs, load, prices_of, random_job, survey, tiny_cluster
from tests.optim import twins

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.speed import PaperSpeed
from slotwise.model.utility import Deadline, Sigmoid
from slotwise.optim import pricing
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Bid, Calibration, Learnt, Literal, Prices, Scale, _Knapsack, calibration

Floats = npt.NDArray[np.float64]


def bid(
    utility: float,
    share_time: tuple[float, ...],
    least: tuple[float, ...],
    *,
    late: float | None = None,
    slot: int = 0,
) -> Bid:
    log_late = math.log(utility) if late is None else math.log(late) if late > 0 else -math.inf
    return Bid(utility, log_late, np.array(share_time), np.array(least), slot)


def low(prices: Prices) -> Floats:
    return np.asarray(np.exp(prices.log_low))


def high(prices: Prices) -> Floats:
    return np.asarray(np.exp(prices.log_low + prices.log_ratio))


# ------------------------------------------------------------------------------------------------- the price function


@given(st.integers(0, 2**32))
def test_price_equals_the_plain_formula(seed: int) -> None:
    rng = np.random.default_rng(seed)
    prices = Prices(rng.uniform(-20.0, 5.0, 3), rng.uniform(1.0, 30.0, 3))
    capacity: Floats = rng.integers(0, 4, (5, 3)).astype(np.float64) * 1e6
    used: Floats = np.floor(rng.random((5, 3)) * capacity)
    found = prices.at(used, capacity, 0)
    for m in range(5):
        for r in range(3):
            assert found[m, r] == pytest.approx(
                twins.price(prices, 0, r, int(used[m, r]), int(capacity[m, r])), rel=1e-9
            )


def test_empty_costs_low_full_costs_high_half_their_geometric_mean() -> None:
    prices = prices_of(0.5, 8.0, 1)
    found = prices.at(np.array([[0.0], [2.0], [4.0], [0.0]]), np.array([[4.0], [4.0], [4.0], [0.0]]), 0)
    assert found[:, 0] == pytest.approx([0.5, 2.0, 8.0, 8.0])  # the last one has no capacity: U


# ------------------------------------------------------------------------------------------------------------ literal


TWO_MACHINES = cluster_of((2.0, 8.0), (2.0, 8.0))


def test_literal_prices_of_two_jobs_are_the_formulas() -> None:
    """U = max u / least demand; 1/mu = least resource-time / (T H R); L = (1/2mu) min u(T-1-a) / resource-time / C."""
    first = bid(10.0, (2.0, 1.0), (1.0, 2.0), late=6.0)
    second = bid(30.0, (4.0, 8.0), (0.5, 4.0), late=3.0)
    prices = Literal(TWO_MACHINES, [first, second], horizon=5).observe(first)
    # U: gpu max(10/1, 30/0.5) = 60, cpu max(10/2, 30/4) = 7.5
    assert high(prices) == pytest.approx([60.0, 7.5])
    # 1/mu = min(3, 12) / (5 * 2 * 2) = 0.15; min(6/3, 3/12) = 0.25; 0.15/2 * 0.25 = 0.01875, by C: 2 and 8
    assert low(prices) == pytest.approx([0.01875 / 2, 0.01875 / 8])


def test_literal_prices_are_the_same_for_every_job() -> None:
    listed = [bid(10.0, (2.0, 1.0), (1.0, 2.0)), bid(3.0, (1.0, 1.0), (1.0, math.inf))]
    calibrated = Literal(TWO_MACHINES, listed, 5)
    assert calibrated.observe(listed[0]) is calibrated.observe(listed[1])


def test_literal_low_does_not_vanish_where_late_utility_does() -> None:
    listed = [bid(10.0, (2.0, 1.0), (1.0, 2.0), late=0.0)]
    prices = Literal(TWO_MACHINES, listed, 5).observe(listed[0])
    assert np.isfinite(prices.log_low).all()
    assert np.isfinite(prices.log_ratio).all()
    assert (low(prices) > 0).all()


def test_literal_prices_without_any_job_are_finite() -> None:
    prices = Literal(TWO_MACHINES, [], 5).observe(bid(1.0, (1.0, 1.0), (1.0, 1.0)))
    assert np.isfinite(prices.at(np.zeros((2, 2)), TWO_MACHINES.grains, 0)).all()


def literal(listed: list[Job], cluster: Cluster, horizon: int) -> Prices:
    requests = [survey(job, cluster, horizon) for job in listed]
    known = [request.bid for request in requests if request.reason is None]
    return Literal(cluster, known, horizon).observe(known[0])


@pytest.mark.parametrize("seed", range(60))
def test_literal_empty_cluster_admits_every_job_that_can_finish(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    cluster = tiny_cluster(rng, 4, 2)
    listed = [random_job(rng, cluster, f"j{i}", arrival=i % 4, slots=5, most_workers=4) for i in range(6)]
    requests = [survey(job, cluster, 8) for job in listed]
    fit = [r for r in requests if r.reason is None and r.bid.utility > 0 and r.utility[-1] > 0]
    if not fit:
        return
    prices = Literal(cluster, [r.bid for r in fit], 8).observe(fit[0].bid)
    for request in fit:
        plan = Planner(grid=500).plan(request, Ledger(cluster, 8), prices)
        assert plan is not None
        assert plan.payoff > 1e-9 * plan.utility


def test_full_resource_rejects_every_job_that_needs_it() -> None:
    cluster = cluster_of((2.0, 4.0), (2.0, 4.0))
    needs_gpu = job_of("gpu", worker=(1.0, 1.0), workload=60.0, batch_size=2)
    cpu_only = job_of("cpu", worker=(0.0, 1.0), workload=60.0, batch_size=2)
    prices = literal([needs_gpu, cpu_only], cluster, 3)
    ledger = Ledger(cluster, 3)
    for slot in range(3):
        for machine in range(2):
            load(ledger, slot, machine, np.array([2e6, 0.0]))
    assert Planner().plan(survey(needs_gpu, cluster, 3), ledger, prices) is None
    plan = Planner().plan(survey(cpu_only, cluster, 3), ledger, prices)
    assert plan is not None
    assert plan.payoff > 0


@pytest.mark.parametrize("seed", range(60))
def test_price_of_a_full_resource_leaves_no_payoff(seed: int) -> None:
    """Even before the capacity check: a worker or server on a full resource costs at least the job's best utility."""
    rng = np.random.default_rng([seed, 41])
    cluster = tiny_cluster(rng, 3, 2)
    listed = [random_job(rng, cluster, f"j{i}", slots=3) for i in range(5)]
    requests = [r for r in (survey(job, cluster, 6) for job in listed) if r.reason is None and r.bid.utility > 0]
    for calibrated in (Learnt(cluster), Literal(cluster, [r.bid for r in requests], 6), Scale(cluster, 0.01)):
        for request in requests:
            prices = calibrated.observe(request.bid)
            full = high(prices)
            for amounts in (request.ask.worker_amount, request.ask.server_amount):
                for r in np.flatnonzero(amounts > 0):
                    if np.isfinite(request.bid.least[r]) and request.ask.servers[-1] > 0:
                        assert full[r] * amounts[r] >= request.bid.utility * (1 - 1e-9)


# ------------------------------------------------------------------------------------------------------------- learnt


def test_learnt_base_is_the_density_at_which_the_capacity_is_spent() -> None:
    """Two machines: by slot s, 2 (s + 1) X machine-slots were on offer; (s + 1) / (s + 2) of the threshold counts."""
    calibrated = Learnt(TWO_MACHINES, 1.0)
    # Density 10 / 1 = 10; sum of sizes 1 < 2: never reached, so the floor holds.
    prices = calibrated.observe(bid(10.0, (1.5, 0.5), (1.0, 2.0), slot=0))
    assert high(prices) == pytest.approx([10.0, 5.0])
    assert low(prices) == pytest.approx([1e-5, 5e-6])
    # Density 3 / 1.5 = 2; sums 1, 2.5 >= 2: base 2 / 2, spread over 2 resources and C = (2, 8).
    prices = calibrated.observe(bid(3.0, (1.0, 2.0), (1.0, 2.0), slot=0))
    assert low(prices) == pytest.approx([1.0 / (2 * 2), 1.0 / (2 * 8)])
    assert high(prices) == pytest.approx([10.0, 5.0])
    # Density 4 / 1 = 4, between them; sums 1, 2 (>= 2): base 4 / 2.
    prices = calibrated.observe(bid(4.0, (1.0, 1.0), (0.25, 2.0), slot=0))
    assert low(prices) == pytest.approx([2.0 / 4, 2.0 / 16])
    assert high(prices) == pytest.approx([16.0, 5.0])
    # In slot 1 four were on offer; sums 1, 2, 3.5, and 0.25 of density 0.4: never reached.
    prices = calibrated.observe(bid(0.1, (0.25, 0.25), (1.0, 2.0), slot=1))
    assert low(prices) == pytest.approx([1.6e-5, 5e-6])


def test_learnt_share_scales_the_capacity_on_offer() -> None:
    job = bid(10.0, (1.5, 0.5), (1.0, 2.0))  # size 1
    assert low(Learnt(TWO_MACHINES, 0.5).observe(job)) == pytest.approx([5.0 / 4, 5.0 / 16])
    assert low(Learnt(TWO_MACHINES, 0.51).observe(job)) == pytest.approx([1e-5, 5e-6])


def test_learnt_base_is_lower_in_slots_that_few_can_still_want() -> None:
    """One machine-slot on offer in slot 0; jobs of one machine-slot each that wait four slots."""
    calibrated = Learnt(TWO_MACHINES, 0.5)
    for utility in (10.0, 8.0, 6.0, 4.0, 2.0):
        prices = calibrated.observe(bid(utility, (1.0, 1.0), (1.0, 2.0), slot=0)._replace(patience=4))
    # A quarter of each in this slot, so that 4 jobs make up what was on offer; half of each in the next, then 3/4, all.
    bases = np.array([4.0, 8.0, 8.0, 10.0, 10.0]) / 2
    rows = prices.rows(0, 5)
    assert np.exp(rows[0][:, 0]) == pytest.approx(bases / 4)
    assert np.exp(rows[0][:, 1]) == pytest.approx(bases / 16)
    # U stays what it is.
    assert np.exp(rows[0] + rows[1]) == pytest.approx(np.tile([10.0, 5.0], (5, 1)))
    assert prices.at(np.zeros(2), np.ones(2), 1) == pytest.approx([2.0 / 2, 2.0 / 8])
    assert prices.at(np.ones(2), np.ones(2), 1) == pytest.approx([10.0, 5.0])


def test_learnt_patience_is_the_mean_of_the_jobs_seen() -> None:
    calibrated = Learnt(TWO_MACHINES, 0.1)
    calibrated.observe(bid(10.0, (1.0, 1.0), (1.0, 2.0))._replace(patience=1))
    prices = calibrated.observe(bid(8.0, (1.0, 1.0), (1.0, 2.0))._replace(patience=6))
    assert len(prices.relief) == math.ceil(3.5) - 1


def test_learnt_base_of_an_idle_cluster_is_below_whoever_asks() -> None:
    calibrated = Learnt(TWO_MACHINES, 0.1)
    for utility in (10.0, 8.0, 1.0):
        calibrated.observe(bid(utility, (1.0, 1.0), (1.0, 2.0)))
    assert low(calibrated.observe(bid(2.0, (1.0, 1.0), (1.0, 2.0)), idle=False))[0] == pytest.approx(10.0 / 2 / 4)
    # The next lower one has a density of 1.
    assert low(calibrated.observe(bid(2.0, (1.0, 1.0), (1.0, 2.0)), idle=True))[0] == pytest.approx(1.0 / 4)


_seen = st.tuples(st.floats(0.0, 100.0), st.floats(1e-6, 50.0), st.floats(0.1, 5.0), st.integers(1, 9))


@given(st.lists(_seen, min_size=1, max_size=12))
def test_learnt_equals_a_plain_knapsack(drawn: list[tuple[float, float, float, int]]) -> None:
    calibrated = Learnt(TWO_MACHINES)
    for i in range(len(drawn)):
        slot = i // 3
        utility, size, least, patience = drawn[i]
        late = utility if utility > 0 else 0.0
        asked = bid(utility, (size, size), (least, math.inf), late=late, slot=slot)._replace(patience=patience)
        found = calibrated.observe(asked)
        seen = drawn[: i + 1]
        top = max(u / demand for u, _, demand, _ in seen)
        ordered = sorted(seen, key=lambda job: -job[0] / job[1])
        wait = sum(job[3] for job in seen) / len(seen)
        for ahead in range(12):
            base, total = 0.0, 0.0
            offered = 2 * (slot + 1) * 0.15 / min(1.0, (ahead + 1) / wait)
            for value, size, _, _ in ordered:
                total += size
                if total >= offered:
                    base = value / size * (slot + 1) / (slot + 2)
                    break
            wanted = max(base / (2 * 2.0), 1e-6 * top)
            if top > 1e-200:
                rows = found.rows(slot + ahead, 1)
                assert np.exp(rows[0][0, 0]) == pytest.approx(wanted, rel=1e-9)
                assert np.exp(rows[0] + rows[1])[0, 0] >= top * (1 - 1e-9)


@given(st.data())
def test_learnt_prices_do_not_depend_on_the_future(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    listed = [data.draw(jobs(len(cluster.resources), 4, name=f"j{i}")) for i in range(data.draw(st.integers(2, 6)))]
    listed.sort(key=lambda job: job.arrival)
    bids = [request.bid for request in (survey(job, cluster, 6) for job in listed) if request.reason is None]
    cut = data.draw(st.integers(0, len(bids)))
    whole, part = Learnt(cluster), Learnt(cluster)
    prices = [whole.observe(b) for b in bids][:cut]
    for found, wanted in zip([part.observe(b) for b in bids[:cut]], prices, strict=True):
        assert found.log_low.tobytes() == wanted.log_low.tobytes()
        assert found.log_ratio.tobytes() == wanted.log_ratio.tobytes()
        assert found.relief.tobytes() == wanted.relief.tobytes()


# -------------------------------------------------------------------------------------------------------------- scale


def test_scale_is_what_an_empty_machine_costs() -> None:
    prices = Scale(TWO_MACHINES, 3.0).observe(bid(100.0, (1.0, 1.0), (1.0, 2.0)))
    assert low(prices) == pytest.approx([3.0 / 4, 3.0 / 16])
    assert low(prices) @ TWO_MACHINES.capacity[0] == pytest.approx(3.0)
    assert high(prices) == pytest.approx([100.0, 50.0])


def test_scale_spreads_over_the_mean_machine() -> None:
    cluster = cluster_of((2.0, 0.0), (4.0, 0.0))
    prices = Scale(cluster, 6.0).observe(bid(100.0, (1.0, 0.0), (1.0, math.inf)))
    assert low(prices)[0] == pytest.approx(6.0 / (2 * 3.0))


# ------------------------------------------------------------------------------------------------------- all of them


def calibrations(cluster: Cluster, bids: list[Bid], horizon: int) -> list[Calibration]:
    return [calibration(text, cluster, bids, horizon) for text in ("learnt", "learnt=3", "literal", "scale=2")]


@given(st.data())
def test_high_is_at_least_e_times_low_and_all_is_finite(data: st.DataObject) -> None:
    cluster = data.draw(clusters())
    value = data.draw(st.sampled_from([1e-300, 1e-200, 1.0, 1e5]))
    bids = []
    for i in range(data.draw(st.integers(1, 5))):
        job = data.draw(jobs(len(cluster.resources), 4, name=f"j{i}"))
        job = job_of(
            f"j{i}",
            arrival=job.arrival,
            workload=job.workload,
            worker=tuple(job.worker_demand.values()),
            server=tuple(job.server_demand.values()),
            batch_size=job.batch_size,
            speed=job.speed,
            utility=Sigmoid(value, data.draw(st.sampled_from([0.0, 6.0, 300.0])), 0.0),
        )
        request = survey(job, cluster, 6)
        if request.reason is None:
            bids.append(request.bid)
    bids.sort(key=lambda b: b.slot)
    for calibrated in calibrations(cluster, bids, 6):
        for one in bids:
            prices = calibrated.observe(one)
            assert np.isfinite(prices.log_low).all()
            assert np.isfinite(prices.log_ratio).all()
            demanded = prices.log_ratio > 0
            assert (prices.log_ratio[demanded] >= 1.0).all()
            if isinstance(calibrated, Learnt):
                assert (prices.log_ratio <= -math.log(1e-6) + 1e-9).all()  # L >= 1e-6 U
            empty = prices.at(np.zeros_like(cluster.grains), cluster.grains, 0)
            full = prices.at(cluster.grains, cluster.grains, 0)
            assert np.isfinite(empty).all()
            assert np.isfinite(full).all()
            assert (empty <= full).all()


def test_resource_that_nobody_demands_keeps_its_low_price() -> None:
    for calibrated in calibrations(TWO_MACHINES, [bid(10.0, (1.0, 0.0), (1.0, math.inf))], 5):
        prices = calibrated.observe(bid(10.0, (1.0, 0.0), (1.0, math.inf)))
        assert prices.log_ratio[0] >= 1.0
        assert prices.log_ratio[1] == 0.0
        half = prices.at(TWO_MACHINES.grains / 2, TWO_MACHINES.grains, 0)
        assert half[0, 1] == pytest.approx(low(prices)[1])


def test_zero_capacity_costs_as_much_as_a_full_resource() -> None:
    cluster = cluster_of((0.0, 8.0), (4.0, 8.0))
    for calibrated in calibrations(cluster, [bid(10.0, (1.0, 1.0), (1.0, 2.0))], 5):
        prices = calibrated.observe(bid(10.0, (1.0, 1.0), (1.0, 2.0)))
        found = prices.at(np.zeros((2, 2)), cluster.grains, 0)
        assert found[0, 0] == pytest.approx(high(prices)[0])
        assert found[1, 0] == pytest.approx(low(prices)[0])


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-12, 1e300])
@pytest.mark.parametrize("text", ["learnt", "literal", "scale=1", "scale=1e-300", "scale=1e300"])
def test_extreme_utilities_yield_no_nan(value: float, text: str) -> None:
    cluster = cluster_of((2.0,), (2.0,))
    for target in (4.0, 0.0):  # worth something, or nothing, in the last slot
        request = survey(job_of(workload=60.0, utility=Deadline(value, target)), cluster, 5)
        prices = calibration(text, cluster, [request.bid], 5).observe(request.bid)
        found = prices.at(cluster.grains / 2, cluster.grains, 0)
        assert not np.isnan(found).any()
        plan = Planner().plan(request, Ledger(cluster, 5), prices, at_least=-math.inf)
        assert plan is None or not math.isnan(plan.payoff)


def test_utility_that_underflows_is_a_bid_of_nothing() -> None:
    cluster = cluster_of((2.0,))
    late = job_of(workload=60.0 * 8, batch_size=2, utility=Sigmoid(100.0, 400.0, 0.0))
    request = survey(late, cluster, 20)
    assert request.reason is None
    assert request.bid.utility == 0.0
    assert np.isfinite(request.bid.log_late_utility)
    for calibrated in calibrations(cluster, [request.bid], 20):
        prices = calibrated.observe(request.bid)
        assert np.isfinite(prices.at(np.zeros((1, 1)), cluster.grains, 0)).all()
        plan = Planner().plan(request, Ledger(cluster, 20), prices)
        assert plan is None or plan.payoff <= 0


def test_bid_of_a_job_is_worked_out_from_its_thriftiest_configuration() -> None:
    """Two workers a server: (2 x 1 + 1) / 2 CPU a worker-slot; N / rate = 4 worker-slots at b_ext."""
    cluster = cluster_of((2.0, 6.0), (0.0, 6.0))  # the mean machine: 1 GPU, 6 CPU
    job = job_of(
        arrival=1,
        worker=(1.0, 1.0),
        server=(0.0, 1.0),
        batch_size=2,
        speed=PaperSpeed(0.5, 625.0 / 4, 2.0),  # at b_ext 0.5 + (2/2)(2 x 156.25/625) = 1 second a sample
        workload=240.0,
        utility=Deadline(7.0, 5.0),
    )
    found = survey(job, cluster, 8).bid
    assert found.share_time == pytest.approx([4.0 * 1.0 / 1.0, 4.0 * 1.5 / 6.0])
    assert found.least == pytest.approx([1.0, 1.0])
    assert found.slot == 1
    assert found.utility == 7.0
    assert found.log_late_utility == -math.inf  # 6 slots after arrival


@pytest.mark.parametrize("text", ["", "learn", "learnt=", "learnt=0", "learnt=-1", "learnt=x", "learnt=inf"])
def test_unknown_prices_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="prices"):
        calibration(text, TWO_MACHINES, [], 5)


@pytest.mark.parametrize("text", ["literal=2", "scale", "scale=", "scale=0", "scale=nan", "scale=-1"])
def test_unknown_scales_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="prices"):
        calibration(text, TWO_MACHINES, [], 5)


def test_rows_are_those_of_each_slot() -> None:
    relief = np.array([-3.0, -2.0, -0.5])
    prices = Prices(np.array([1.0, 2.0]), np.array([4.0, 0.0]), 10, relief)
    wanted = {8: -3.0, 9: -3.0, 10: -3.0, 11: -2.0, 12: -0.5, 13: 0.0, 14: 0.0}
    for first in wanted:
        for count in range(1, 15 - first):
            low, ratio = prices.rows(first, count)
            less = [wanted[slot] for slot in range(first, first + count)]
            assert low[:, 0].tolist() == [1.0 + x for x in less]
            assert ratio[:, 0].tolist() == [4.0 - x for x in less]
            # Nobody demands the second.
            assert (ratio[:, 1] == 0.0).all()
    flat = Prices(np.array([1.0]), np.array([4.0]))
    assert flat.rows(3, 2)[0].tolist() == [[1.0], [1.0]]


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]), st.floats(1e-3, 10.0)), min_size=1, max_size=60))
def test_the_knapsack_is_a_sorted_list(jobs: list[tuple[float, float]]) -> None:
    """Small blocks, so that they split often; capacities between the running sums, where rounding decides nothing."""
    knapsack, block = _Knapsack(), pricing._BLOCK
    pricing._BLOCK = 4
    try:
        for density, size in jobs:
            knapsack.add(density, size)
    finally:
        pricing._BLOCK = block
    falling = sorted(jobs, key=lambda job: -job[0])
    sums = np.cumsum([size for _, size in falling])
    between = np.concatenate([[sums[0] / 2], (sums[1:] + sums[:-1]) / 2, [sums[-1] * 2]])[::-1]
    wanted = [next((d for (d, _), total in zip(falling, sums, strict=True) if total >= c), 0.0) for c in between]
    assert knapsack.thresholds(between).tolist() == wanted
    for density in (0.0, 0.7, 2.0, 9.0):
        assert knapsack.below(density) == max((d for d, _ in jobs if d < density), default=0.0)
