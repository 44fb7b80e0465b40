"""Lower bounds from a slot's summary: below every schedule, near the truth, and of no effect on any answer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.instances import cluster_of, job_of, load, paper_job, paper_ledger, random_job, survey, tiny_cluster
from tests.optim import twins

from slotwise.model.ledger import RANGES, Ledger
from slotwise.model.utility import Sigmoid
from slotwise.optim import planner as planner_module
from slotwise.optim.floor import floors, gains
from slotwise.optim.planner import Planner, _floors, _totals
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import Curves, exact_costs
from slotwise.optim.solver import Exact, Sweep

Floats = npt.NDArray[np.float64]

CASES = range(250)


def tiny(seed: int) -> tuple[Request, Ledger, Prices] | None:
    """At most 3 machines, 3 slots, 3 workers; random use, prices that may be lower in near slots."""
    rng = np.random.default_rng([seed, 71])
    resources, slots = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    cluster = tiny_cluster(rng, int(rng.integers(1, 4)), resources)
    ledger = Ledger(cluster, slots)
    for slot in range(slots):
        for machine in range(len(cluster)):
            if rng.random() < 0.6:
                load(ledger, slot, machine, np.floor(cluster.grains[machine] * rng.random(resources)))
    request = survey(random_job(rng, cluster, slots=slots), cluster, slots)
    relief = np.sort(rng.uniform(-3.0, 0.0, int(rng.integers(0, 4))))
    prices = Prices(rng.uniform(-6.0, 0.0, resources), rng.uniform(1.0, 8.0, resources), 0, relief)
    return None if request.reason is not None else (request, ledger, prices)


def least_by_slot(request: Request, ledger: Ledger, prices: Prices) -> list[float]:
    """Least cost of the workload by each completion, over every schedule."""
    options = [twins.least_costs(twins.listing(ledger, t, request.ask, prices), request.ask) for t in range(ledger.end)]
    found = []
    for last in range(1, ledger.end + 1):
        payoff = twins.best_over_schedules(options[:last], request.needed, np.zeros(last))
        found.append(-payoff)
    return found


def rate_of(request: Request, ledger: Ledger, prices: Prices, slot: int) -> float:
    """What a sample costs at least in a slot: the floor of a job that is done with the least configuration there."""
    ask = request.ask
    most = np.where(request.held, ask.samples, 0.0).max(axis=0)
    amounts = np.outer(ask.workers, ask.worker) + np.outer(ask.servers, ask.server)
    useful = most > 0
    needed = float(most[useful].min())
    grain = ledger.cluster.grain
    found = floors(ledger.view, slot, most[useful], amounts[useful], grain, *prices.rows(slot, 1), needed)
    return float(found[0]) / needed


@pytest.mark.parametrize("seed", CASES)
def test_no_schedule_and_no_sample_costs_less(seed: int) -> None:
    case = tiny(seed)
    if case is None:
        return
    request, ledger, prices = case
    found = _floors(request, ledger, prices, 0, ledger.end)
    least_costs = least_by_slot(request, ledger, prices)
    for floor, least in zip(found, least_costs, strict=True):
        assert floor <= least * (1 + 1e-12)
    for block in (2, 3):
        coarse = _floors(request, ledger, prices, 0, ledger.end, block)
        assert (coarse <= found * (1 + 1e-12)).all()
    for slot in range(ledger.end):
        costs = exact_costs(ledger.view, slot, request.ask, prices)
        useful = request.ask.samples > 0
        rates = costs[useful] / request.ask.samples[useful]
        assert rate_of(request, ledger, prices, slot) <= rates.min() * (1 + 1e-12)


def twin(request: Request, ledger: Ledger, prices: Prices, slot: int) -> Floats:
    """Cheapest filling of each configuration's amounts, range by range."""
    ask, view = request.ask, ledger.view
    log_low, log_ratio = prices.rows(slot, 1)
    costs = []
    for workers, servers in zip(ask.workers, ask.servers, strict=True):
        cost = 0.0
        for r, grain in enumerate(ledger.cluster.grain):
            left = float(workers * ask.worker[r] + servers * ask.server[r])
            for b in range(RANGES):
                taken = min(left, float(view.spread[slot, r, b]))
                cost += taken * grain * math.exp(log_low[0, r] + log_ratio[0, r] * b / RANGES)
                left -= taken
            cost = math.inf if left > 0 else cost
        costs.append(cost)
    return np.array(costs)


@pytest.mark.parametrize("seed", CASES)
def test_rates_are_those_of_the_plain_twin(seed: int) -> None:
    case = tiny(seed)
    if case is None:
        return
    request, ledger, prices = case
    most = np.where(request.held, request.ask.samples, 0.0).max(axis=0)
    for slot in range(ledger.end):
        wanted = (twin(request, ledger, prices, slot)[most > 0] / most[most > 0]).min()
        assert rate_of(request, ledger, prices, slot) == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("seed", CASES)
def test_no_slot_gains_more_than_is_said(seed: int) -> None:
    case = tiny(seed)
    if case is None:
        return
    request, ledger, prices = case
    grain, rows = ledger.cluster.grain, prices.rows(0, ledger.end)
    best = rate_of(request, ledger, prices, 0)
    if math.isinf(best):
        # Nothing fits.
        assert not gains(ledger.view, 0, *_totals(request), grain, *prices.rows(0, 1), 1e9).any()
        return
    for rate in (0.0, 0.9 * best, 1.5 * best, 10.0 * best, 1e3 * best):
        found = gains(ledger.view, 0, *_totals(request), grain, *rows, rate)
        for slot in range(ledger.end):
            costs = exact_costs(ledger.view, slot, request.ask, prices)
            there = (request.ask.samples > 0) & np.isfinite(costs)
            true = (rate * request.ask.samples[there] - costs[there]).max(initial=0.0)
            assert found[slot] >= true * (1 - 1e-12)
        # Below what a sample costs at least nothing is gained.
        assert (found[0] > 0) == (rate > best)


def long_case(seed: int) -> tuple[Request, Ledger, Prices] | None:
    """200 slots, and a job that takes some tens of them or more."""
    rng = np.random.default_rng([seed, 74])
    ledger = paper_ledger(rng, machines=12, slots=200)
    job = paper_job(rng, slots=20)
    utility = Sigmoid(
        float(rng.uniform(20.0, 100.0)), float(rng.choice([0.0, 0.01, 0.05])), float(rng.integers(1, 150))
    )
    request = survey(
        replace(job, workload=job.workload * float(rng.integers(5, 30)), utility=utility), ledger.cluster, 200
    )
    prices = Prices(rng.uniform(-9.0, -6.0, 4), rng.uniform(1.0, 5.0, 4))
    return None if request.reason is not None else (request, ledger, prices)


def test_what_the_slots_so_far_tell_of_later_ones_changes_no_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counting(Sweep):
        slots = 0

        def curves(self, *args: Any, **kwargs: Any) -> Curves:
            Counting.slots += args[2]
            return super().curves(*args, **kwargs)

    monkeypatch.setattr(planner_module, "_LARGEST_PART", 4)
    ends, plans, looked_at = planner_module._ends, 0, []
    for seed in range(60):
        case = long_case(seed)
        if case is None:
            continue
        found = []
        for known in (ends, lambda program, *_: program.done):
            monkeypatch.setattr(planner_module, "_ends", known)
            Counting.slots = 0
            found.append(Planner(Counting()).plan(*case))
            looked_at.append(Counting.slots)
        assert found[0] == found[1], seed
        plans += found[0] is not None
    less = np.array(looked_at).reshape(-1, 2)
    assert plans > 5
    assert (less[:, 0] <= less[:, 1]).all()
    assert (less[:, 0] < less[:, 1]).sum() > 3


def paper_case(seed: int, slots: int) -> tuple[Request, Ledger, Prices] | None:
    """Slots as in the paper's experiments, loaded at random; prices may be lower in near slots."""
    rng = np.random.default_rng([seed, 73])
    ledger = paper_ledger(rng, machines=12, slots=slots, without_gpu=0.25)
    request = survey(paper_job(rng, slots=max(8, slots)), ledger.cluster, max(8, slots))
    relief = np.sort(rng.uniform(-3.0, 0.0, int(rng.integers(0, slots))))
    prices = Prices(rng.uniform(-6.0, 0.0, 4), rng.uniform(1.0, 8.0, 4), 0, relief)
    return None if request.reason is not None else (request, ledger, prices)


@pytest.mark.parametrize("block", [2, 5, 16, 64])
def test_slots_that_are_bounded_together_cost_no_more_than_one_by_one(block: int) -> None:
    below = 0
    for seed in range(40):
        case = paper_case(seed, 37)
        if case is None:
            continue
        request, ledger, prices = case
        found = _floors(request, ledger, prices, 0, 37)
        coarse = _floors(request, ledger, prices, 0, 37, block)
        assert (coarse <= found * (1 + 1e-12)).all(), seed
        assert (coarse[np.isfinite(found)] > 0).all(), seed
        assert (found[1:] <= found[:-1]).all(), seed
        below += int((coarse < found * (1 - 1e-6)).sum())
    assert below > 0


def test_near_slots_that_are_cheaper_do_not_make_later_blocks_cheaper() -> None:
    """Prices are e, e^2 and e^3 times less in three slots; all others cost alike, one by one or together."""
    cluster = cluster_of((4.0,))
    job = job_of(worker=(1.0,), batch_size=1, workload=60.0 * 30)
    request, ledger = survey(job, cluster, 64), Ledger(cluster, 64)
    relieved = Prices(np.zeros(1), np.full(1, 5.0), 0, np.array([-3.0, -2.0, -1.0]))
    plain = Prices(np.zeros(1), np.full(1, 5.0))
    one_by_one = _floors(request, ledger, relieved, 0, 64)[-1]
    together = _floors(request, ledger, relieved, 0, 64, 16)[-1]
    assert _floors(request, ledger, plain, 0, 64, 16)[-1] == pytest.approx(30.0, rel=1e-6)
    # Sixteen slots at the lowest of their prices, and the rest at theirs.
    assert together == pytest.approx(16 * math.exp(-3.0) + 14.0, rel=1e-6)
    assert together <= one_by_one


@pytest.mark.parametrize("block", [2, 5, 16, 64])
def test_equal_slots_cost_as_much_together_as_one_by_one(block: int) -> None:
    for seed in range(40):
        case = paper_case(seed, 1)
        if case is None:
            continue
        request, ledger, prices = case
        ask, grain = request.ask, ledger.cluster.grain
        most = np.where(request.held, ask.samples, 0.0).max(axis=0)
        useful = most > 0
        amounts = (np.outer(ask.workers, ask.worker) + np.outer(ask.servers, ask.server))[useful]
        low, ratio = (np.repeat(part, 37, axis=0) for part in prices.rows(0, 1))
        # The window is one slot, so that the summary of each of the 37 is the same.
        one, many = (
            floors(ledger.view, 0, most[useful], amounts, grain, low, ratio, 5.5 * request.most_samples, size)
            for size in (1, block)
        )
        # Where a block ends, all of its slots have been seen one by one too.
        ends = np.minimum(np.arange(37) // block * block + block, 37) - 1
        assert np.allclose(many, one[ends], rtol=1e-9, atol=0.0), seed


def nothing_known(request: Request, ledger: Ledger, prices: Prices, first: int, count: int, block: int = 1) -> Floats:
    return np.zeros(count)


@pytest.mark.parametrize("seed", range(60))
def test_answers_are_those_without_any_bound(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slots as in the paper's experiments, loaded at random; most jobs pay, some do not."""
    rng = np.random.default_rng([seed, 72])
    ledger = paper_ledger(rng, machines=12, slots=20, without_gpu=0.25)
    request = survey(paper_job(rng), ledger.cluster, 20)
    if request.reason is not None:
        return
    base = np.log(float(rng.choice([0.02, 0.5, 5.0])) / (4.0 * ledger.cluster.mean_capacity))
    prices = Prices(base, rng.uniform(2.0, 8.0, 4))
    for solver in (Sweep(), Exact()) if seed < 10 else (Sweep(),):
        with_bounds = Planner(solver).plan(request, ledger, prices)
        with monkeypatch.context() as patched:
            patched.setattr(planner_module, "_floors", nothing_known)
            plain = Planner(solver).plan(request, ledger, prices)
        assert (with_bounds is None) == (plain is None)
        if plain is not None and with_bounds is not None:
            assert with_bounds.payoff == pytest.approx(plain.payoff, abs=1e-9 * plain.utility)
            assert with_bounds.schedule == plain.schedule
