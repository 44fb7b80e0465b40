"""Domains between machine and cluster: bounds below every cost there, and what is left out by them never missed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from tests.instances import SlotCase, contended_case, slot_case, tight_case, wide_case

from slotwise.model.cluster import Cluster, Machine
from slotwise.model.ledger import Ledger
from slotwise.optim.slot import (
    _across,
    _across_exactly,
    _domain_floor,
    _domains,
    _has_enough,
    _listed,
    _may_pay,
    _Memo,
    _memo,
    _room,
    _shares,
    _shares_floor,
    _short_for_all,
    _slice,
    _Useful,
    _useful,
    curve,
    sweep_costs,
    sweep_curves,
)

Floats = npt.NDArray[np.float64]


def racked(seed: int) -> SlotCase:
    """A wide case with its machines in racks of 1 to 9, sometimes in rooms, whose links may be of use."""
    case = wide_case(seed)
    rng = np.random.default_rng([seed, 51])
    cluster, levels = case.ledger.cluster, int(rng.integers(3, 5))
    ends = np.cumsum(rng.integers(1, 10, len(cluster)))
    labels = [np.searchsorted(ends, np.arange(len(cluster)), side="right") // 4**level for level in range(levels - 2)]
    machines = [
        Machine(
            name,
            dict(zip(cluster.resources, row.tolist(), strict=True)),
            {f"l{level}": f"d{labels[level][m]:03d}" for level in range(levels - 2)},
        )
        for m, (name, row) in enumerate(zip(cluster.names, cluster.capacity, strict=True))
    ]
    names = ("machine", *(f"l{level}" for level in range(levels - 2)), "cluster")
    ledger = Ledger(Cluster.of(machines, (6250.0, 2500.0, 1250.0, 625.0)[:levels], names), 1)
    ledger.view.used[:] = case.ledger.view.used
    touched = np.flatnonzero(case.ledger.view.flags[0])
    ledger.view.touched[0, : len(touched)] = touched
    ledger.view.counts[:] = len(touched)
    ledger.view.flags[:] = case.ledger.view.flags
    # As fast in a domain as the job was inside a machine, or between the two, or no faster than anywhere.
    across = case.ask.samples[-1]
    inside = np.maximum(case.ask.samples[0], across * 1.3)
    shares = np.sort(rng.random(levels - 2))[::-1] if rng.random() < 0.7 else np.zeros(levels - 2)
    between = [across + (inside - across) * share for share in shares.tolist()]
    samples = np.ascontiguousarray(np.stack([inside, *between, across]))
    level, k = np.divmod(np.arange(samples.size), samples.shape[1])
    useful = (samples > np.append(samples[1:], np.zeros((1, samples.shape[1])), axis=0)).any(axis=1)
    order = np.lexsort((-level, -k, samples.reshape(-1))).astype(np.int64)
    return SlotCase(ledger, case.ask._replace(samples=samples, order=order, useful=np.asarray(useful)), case.prices)


def known(case: SlotCase) -> tuple[_Memo, _Useful]:
    """What the slot has for the job."""
    memo = _memo(case.ledger.view)
    low, ratio = case.prices.rows(0, 1)
    return memo, _useful(case.ledger.view, 0, case.ask, low[0], ratio[0], memo)


def bounds(case: SlotCase, level: int, limits: Floats, rng: np.random.Generator) -> list[tuple[slice, list[Floats]]]:
    """The machines of each domain that has more than one entry, and its floors: each is raised on the one before."""
    view, ask = case.ledger.view, case.ask
    memo, useful = known(case)
    if len(useful.machines) == 0:
        return []
    domains, shares = _domains(view, level, useful), _shares(ask)
    workers, servers = ask.workers.astype(np.float64), ask.servers.astype(np.float64)
    # Any are valid; those of one domain go on to the next.
    pairs = np.zeros((2, 2))
    if rng.random() < 0.5:
        pairs[:] = memo.worker_cost[rng.choice(useful.machines, 2)][:, None] * rng.choice([0.0, 0.3, 1.0, 4.0], (2, 2))
    found = []
    for i in range(len(domains.begins)):
        part = slice(int(domains.begins[i]), int(domains.ends[i]))
        floor = np.full(len(limits), np.inf)
        steps: list[Floats] = []
        if _may_pay(domains, i, workers, servers, limits, floor):
            steps.append(floor.copy())
            machines = useful.machines[part]
            listed = _listed(view, 0, ask, memo, machines)
            for at in range(3):
                if at == 0:
                    given = shares, memo, machines, domains.least_b[i], _room(len(machines)), pairs, workers, servers
                    hopeful = _shares_floor(view.used[0], view.capacity, *given, limits, floor)
                else:
                    hopeful = (_domain_floor, _has_enough)[at - 1](listed, ask, limits, floor)
                assert hopeful == bool((floor < limits).any())
                steps.append(floor.copy())
        found.append((part, steps))
    return found


CASES = (slot_case, contended_case, tight_case, wide_case, racked)


@pytest.mark.parametrize("case_of", CASES, ids=lambda case_of: case_of.__name__)
@pytest.mark.parametrize("begin", range(0, 200, 50))
def test_no_floor_is_above_the_true_cost(case_of: type, begin: int) -> None:
    raised = np.zeros(3, dtype=np.int64)
    for seed in range(begin, begin + (3 if case_of in (wide_case, racked) else 50)):
        case = case_of(seed)
        rng = np.random.default_rng(seed)
        memo, useful = known(case)
        true = np.empty(len(case.ask.workers))
        unlimited = np.full(len(true), np.inf)
        for level in range(1, len(case.ask.samples)):
            for part, steps in bounds(case, level, unlimited, rng):
                _across_exactly(_listed(case.ledger.view, 0, case.ask, memo, useful.machines[part]), case.ask, true)
                if not steps:
                    assert not np.isfinite(true).any(), seed
                for before, step in zip([None, *steps], steps, strict=False):
                    assert (step <= true).all(), (seed, level)
                    assert before is None or (step >= before).all()
                if len(steps) == 4:
                    raised += [int((b > a * (1 + 1e-9)).sum()) for a, b in pairwise(steps)]
    # In small domains there is little to tell apart.
    assert raised.sum() > 0 or case_of in (slot_case, wide_case)


@pytest.mark.parametrize("begin", range(300, 500, 50))
def test_below_its_limit_a_floor_is_a_bound_and_above_it_stays_there(begin: int) -> None:
    for seed in range(begin, begin + 50):
        case = contended_case(seed)
        memo, useful = known(case)
        if len(useful.machines) < 2:
            continue
        rng = np.random.default_rng(seed)
        true = np.empty(len(case.ask.workers))
        _across_exactly(_listed(case.ledger.view, 0, case.ask, memo, useful.machines), case.ask, true)
        factors = rng.choice([0.5, 0.9, 1.0, 1.1, 2.0, np.inf], len(true))
        limits = np.where(np.isfinite(true), true, 1.0) * factors
        for _, steps in bounds(case, 1, limits, rng):
            if not steps:
                assert (true >= limits).all(), seed
            for step in steps:
                assert ((step <= true) | (true >= limits)).all(), seed


def plainly(case: SlotCase) -> Floats:
    """The least cost of each configuration at each level: every domain swept, nothing left out."""
    view, ask = case.ledger.view, case.ask
    memo, useful = known(case)
    costs = np.full(ask.samples.shape, np.inf)
    costs[0] = sweep_costs(view, 0, ask, case.prices)[0]
    count = len(ask.workers)
    here, better, anything, unlimited = np.empty(count), np.empty(count), np.zeros(count), np.full(count, np.inf)
    for level in range(1, len(costs)):
        domain_of = view.domains[level][useful.machines]
        for domain in np.unique(domain_of).tolist():
            begin, end = np.searchsorted(domain_of, [domain, domain + 1]).tolist()
            if not ask.useful[level]:
                continue
            part = _slice(useful, begin, end)
            short, worths = _short_for_all(view, level, part, ask, np.full(3, np.inf), memo.scratch)
            listed = _listed(view, 0, ask, memo, short.machines)
            room = _room(len(listed.machines))
            _across(view, 0, level, ask, memo, part, listed, worths, anything, unlimited, here, better, room)
            costs[level] = np.minimum(costs[level], here)
    return costs


def assert_equal_steps(samples: Floats, costs: Floats, others: Floats, wanted: Floats) -> None:
    """Each of the others' samples, or more, cost no more but for rounding: equal costs may be told apart by that."""
    at = np.searchsorted(samples, others)
    assert (at < len(samples)).all()
    assert (costs[at] <= wanted * (1 + 1e-12)).all()


@pytest.mark.parametrize("case_of", [slot_case, racked], ids=["small", "racked"])
@pytest.mark.parametrize("begin", range(1000, 1400, 100))
def test_nothing_of_use_is_left_out(case_of: type, begin: int) -> None:
    between = 0
    for seed in range(begin, begin + 100):
        case = case_of(seed)
        costs = plainly(case)
        found = sweep_curves(case.ledger.view, 0, 1, case.ask, case.prices)
        samples, paid, choices = curve(case.ask, costs)
        assert_equal_steps(found.samples, found.costs, samples, paid)
        assert_equal_steps(samples, paid, found.samples, found.costs)
        all_of_them = sweep_costs(case.ledger.view, 0, case.ask, case.prices)
        least, wanted = np.minimum.accumulate(all_of_them, axis=0), np.minimum.accumulate(costs, axis=0)
        assert np.allclose(least, wanted, rtol=1e-12, atol=0.0), seed
        level = choices // len(case.ask.workers)
        between += int(((level > 0) & (level < len(costs) - 1)).sum())
    assert between > 0
