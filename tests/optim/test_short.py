"""Shortcuts of the slot kernels on clusters larger than a sweep looks at: each against what is plain."""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.instances import SlotCase, contended_case, slot_case, wide_case
from tests.optim import twins

from slotwise.model.ledger import Ledger, LedgerView
from slotwise.model.schedule import Placement
from slotwise.optim.slot import (
    Curves,
    Hints,
    Places,
    _cheapest,
    _does,
    _exponentials,
    _order,
    _up_to,
    _worths_of_few,
    _write_order,
    exact_curves,
    exact_places,
    steady,
    sweep_costs,
    sweep_curves,
    sweep_place,
    sweep_places,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# ---------------------------------------------------------------------------------------------------------- sorting


@st.composite
def costs(draw: st.DrawFn, least: int = 0) -> Floats:
    """Not negative: few distinct ones, zeros, any magnitude, close together with one far away, or all the same."""
    count = draw(st.integers(least, 200))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    form = draw(st.sampled_from(["few", "zeros", "magnitudes", "outlier", "same", "close", "any"]))
    if form == "few":
        return np.asarray(rng.choice([0.0, 0.5, 1.0, 1.0 + 2**-52, 3.0], size=count))
    if form == "zeros":
        return np.asarray(np.where(rng.random(count) < 0.5, 0.0, rng.random(count)))
    if form == "magnitudes":
        return np.asarray(10.0 ** rng.uniform(-300.0, 300.0, count))
    if form == "outlier":
        found = rng.uniform(1.0, 1.0 + 1e-6, count)
        found[: count // 50 + 1] = rng.choice([0.0, 1e-300, 1e300])
        return np.asarray(rng.permutation(found))
    if form == "same":
        return np.full(count, draw(st.sampled_from([0.0, 5e-324, 1.0, 1e300])))
    if form == "close":
        return np.asarray(1.0 + 2.0**-52 * rng.integers(0, 100, count))
    values = st.floats(0.0, 1e308, allow_subnormal=True).map(abs)
    return draw(hnp.arrays(np.float64, min(count, 40), elements=values))


@given(costs())
def test_order_is_the_stable_one(found: Floats) -> None:
    wanted = np.argsort(found, kind="stable").tolist()
    assert _order(found).tolist() == wanted
    written = np.full(len(found) + 2, -1)
    _write_order(found, len(found), written)
    assert written.tolist() == [*wanted, -1, -1]


@given(costs(least=1), st.integers(0, 2**32), st.sampled_from([1, 3, 100]))
def test_worths_are_the_quartiles(found: Floats, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    fits = rng.integers(0, 4, len(found)) * int(rng.integers(0, 2, ()) if most == 1 else 1)
    weights = rng.integers(1, most + 1, len(found))
    found = found / 1e10  # so that ten times the largest is a number
    each = np.repeat(found, np.where(fits > 0, weights, 0))
    wanted = [0.0]
    if len(each) > 0:
        wanted += np.quantile(each, [0.25, 0.5, 0.75], method="inverted_cdf").tolist()
        wanted.append(10.0 * each.max())
    levels = np.full(5, np.nan)
    count = _worths_of_few(found, fits, weights, np.argsort(found, kind="stable"), levels)
    assert levels[:count].tolist() == sorted(set(wanted))


@given(costs(least=1), st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 50))
def test_the_cheapest_are_as_many_as_hold_enough(found: Floats, seed: int, workers: int, machines: int) -> None:
    fits = np.random.default_rng(seed).integers(0, 5, len(found))
    wanted: list[int] = []
    for i in np.argsort(found, kind="stable").tolist():
        if fits[wanted].sum() >= workers or np.count_nonzero(fits[wanted]) >= machines:
            break
        wanted.append(i)
    assert _cheapest(found, fits, workers, machines).tolist() == wanted


@given(costs(least=1), st.integers(0, 2**32), st.integers(1, 300), st.integers(1, 50), st.floats(0.0, 4.0))
def test_up_to_what_is_enough_machines_hold_so_much(
    found: Floats, seed: int, wanted: int, machines: int, factor: float
) -> None:
    amounts = np.random.default_rng(seed).integers(0, 5, len(found))
    for likely in (np.inf, float(np.median(found)) * factor):
        costs_up_to, asked = np.array([likely]), np.zeros(2, dtype=np.int64)
        known = _does(found, amounts, len(found), wanted, machines, costs_up_to, 0, asked)
        assert asked.tolist() == [wanted, machines]
        up_to = costs_up_to[0] if known else _up_to(found, amounts, wanted, machines)
        assert known <= (likely < np.inf)
        there = amounts[found <= up_to]
        assert (there.sum() >= wanted or np.count_nonzero(there) >= machines) or up_to == np.inf
        if amounts.sum() < wanted and np.count_nonzero(amounts) < machines:
            assert up_to == np.inf


@given(st.lists(st.floats(-700.0, 700.0) | st.floats(), min_size=1, max_size=40))
@example([-np.inf, -1e300, -746.0, -745.2, -745.1, -708.4, -0.0, 0.0, 709.7, 709.8, 710.0, 1e300, np.inf, np.nan])
def test_exponentials_are_those_of_numpy(powers: list[float]) -> None:
    given_powers = np.array(powers)
    found = np.empty(len(powers))
    _exponentials(given_powers[None], 0, len(powers), found)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(given_powers)
    # The least numbers have few digits.
    assert np.allclose(found, wanted, rtol=1e-15, atol=5e-324, equal_nan=True)


# ----------------------------------------------------------------------------------------------------------- sweeps


def some(case: SlotCase, count: int = 4) -> Ints:
    """A few configurations of a job, the first and the last ones among them."""
    return np.unique(np.linspace(0, len(case.ask.workers) - 1, count).astype(np.int64))


def only(case: SlotCase, chosen: Ints) -> SlotCase:
    """The same job as its twins see it: some of its configurations, though its largest ones still count."""
    ask = case.ask
    part = ask._replace(
        workers=ask.workers[chosen], servers=ask.servers[chosen], samples=np.ascontiguousarray(ask.samples[:, chosen])
    )
    return SlotCase(case.ledger, part, case.prices, case.slot)


def apart(case: SlotCase) -> LedgerView:
    """The same slot with every machine a class of its own, so that all machines are listed."""
    machines = len(case.ledger.cluster)
    return case.ledger.view._replace(
        classes=np.arange(machines, dtype=np.int64),
        members=np.arange(machines, dtype=np.int64),
        starts=np.arange(machines + 1, dtype=np.int64),
    )


@pytest.mark.parametrize("begin", range(0, 90, 15))
def test_sweeps_of_wide_clusters_equal_the_twins(begin: int) -> None:
    left_out = 0
    for seed in range(begin, begin + 15):
        case = wide_case(seed)
        view, ask, prices = case.ledger.view, case.ask, case.prices
        spots = twins.listing(case.ledger, 0, ask, prices)
        chosen = some(case)
        part = only(case, chosen).ask
        found = np.minimum.accumulate(sweep_costs(view, 0, ask, prices), axis=0)[:, chosen]
        for level, wanted in enumerate(twins.by_level(spots, part, twins.across_sweep)):
            there = np.isfinite(wanted)  # what is found beside is packed
            assert np.allclose(found[level][there], np.array(wanted)[there], rtol=1e-9, atol=0.0), (seed, level)
        if len(ask.samples) == 2:
            near = sweep_curves(apart(case), 0, 1, ask, prices).near
            useful = [spot for spot in spots if spot.holds(1, 0) or (ask.most_servers > 0 and spot.holds(0, 1))]
            left_out += len(near) < len(useful)
            tries = twins.sweeps(spots, part)
            for k, swept in zip(chosen.tolist(), tries, strict=True):
                best = min(each.cost for each in swept)
                if best < math.inf:
                    placed = sweep_place(view, 0, ask, len(ask.workers) + k, prices)
                    layout = tuple(zip(*(x.tolist() for x in placed), strict=True))
                    # Sweeps that cost the same to the last bits may win either way.
                    assert layout in {each.layout for each in swept if each.cost <= best * (1 + 1e-11)}, seed
    assert left_out > 0


@pytest.mark.parametrize("begin", range(1000, 1300, 100))
def test_leaving_untouched_machines_out_of_wide_clusters_changes_nothing(begin: int) -> None:
    for seed in range(begin, begin + 100):
        case = wide_case(seed)
        found = sweep_costs(case.ledger.view, 0, case.ask, case.prices)
        assert np.array_equal(found, sweep_costs(apart(case), 0, case.ask, case.prices)), seed


# ------------------------------------------------------------------------------------------------------- many slots


SLOTS = 5


def slot_of(curves: Curves, i: int) -> tuple[list[float], ...]:
    # Which machines are near may depend on the slot before: some more than are needed.
    part = slice(*curves.offsets[i : i + 2])
    columns = curves.samples[part], curves.costs[part], curves.choices[part], curves.ways[part]
    return tuple(np.nan_to_num(column, nan=-9.0).tolist() for column in columns)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("begin", range(2000, 2060, 20))
def test_curves_of_many_slots_of_wide_clusters_are_those_of_each(begin: int, exact: bool) -> None:
    of = exact_curves if exact else sweep_curves
    for seed in range(begin, begin + (5 if exact else 20)):
        case = wide_case(seed, SLOTS)
        curves = of(case.ledger.view, 0, SLOTS, case.ask, case.prices)
        for slot in range(SLOTS):
            alone = of(case.ledger.view, slot, 1, case.ask, case.prices)
            assert slot_of(curves, slot) == slot_of(alone, 0), (seed, slot)


@pytest.mark.parametrize("seed", range(12))
def test_what_a_ledger_says_has_changed_is_all_that_curves_need_to_know(seed: int) -> None:
    rng, window = np.random.default_rng(seed), 8
    cases = (wide_case(begin) for begin in itertools.count(7000 + 100 * seed))
    case = next(case for case in cases if case.ledger.cluster.grains.min(axis=0).any())
    cluster = case.ledger.cluster
    ledger = Ledger(cluster, window, rolling=True)
    # No machine gets 40 times as much.
    one = np.floor(cluster.grains.min(axis=0) / 40.0)
    everywhere = tuple(range(len(cluster)))

    def put(slots: list[int], machines: Ints, count: int) -> Placement:
        placement = Placement.on(machines, np.full(len(machines), count), np.zeros(len(machines), dtype=np.int64))
        ledger.commit(slots, [placement] * len(slots), one, one * 0)
        return placement

    used = 0
    for turn in range(3):
        begin, end = ledger.origin, ledger.end
        empty = [slot for slot in range(begin, end) if ledger.view.counts[slot % window] < len(cluster)]
        ledger.commit(
            empty, [Placement(everywhere, (1,) * len(cluster), (0,) * len(cluster))] * len(empty), one, one * 0
        )
        kept: list[tuple[list[int], Placement]] = []
        for _ in range(4):
            machines = np.sort(rng.choice(len(cluster), int(rng.integers(1, 9)), replace=False))
            slots = np.sort(rng.choice(np.arange(begin, end), 3, replace=False)).tolist()
            kept.append((slots, put(slots, machines, int(rng.integers(1, 4)))))
        slots, placement = kept[turn]
        ledger.release(slots, [placement] * len(slots), one, one * 0)
        assert (ledger.view.counts == len(cluster)).all()
        curves = sweep_curves(ledger.view, begin, window, case.ask, case.prices)
        for slot in range(window):
            alone = sweep_curves(ledger.view, begin + slot, 1, case.ask, case.prices)
            assert slot_of(curves, slot) == slot_of(alone, 0), (turn, slot)
        used += len(curves.choices)
        ledger.advance(ledger.origin + int(rng.integers(1, 5)))
    assert used > 0


def cost_at(case: SlotCase, slot: int, placement: Placement) -> float:
    """What a placement costs by its twin; infinite where it does not fit."""
    spots = {spot.machine: spot for spot in twins.listing(case.ledger, slot, case.ask, case.prices)}
    each = list(zip(placement.machines, placement.workers, placement.servers, strict=True))
    fits = all(spots[m].holds(w, s) for m, w, s in each)
    return math.fsum(spots[m].cost(w, s) for m, w, s in each) if fits else math.inf


def picked(curves: Curves, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Some slots, rising, and a point of each one's curve; often the same place along the curve."""
    slots = np.flatnonzero((np.diff(curves.offsets) > 0) & (rng.random(len(curves.offsets) - 1) < 0.85))
    lengths = np.diff(curves.offsets)[slots]
    share = np.full(len(slots), rng.random()) if rng.random() < 0.7 else rng.random(len(slots))
    return slots, curves.offsets[slots] + (share * lengths).astype(np.int64)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("begin", range(3000, 3060, 20))
def test_what_curves_say_leads_to_the_places_that_a_search_finds(begin: int, exact: bool) -> None:
    curves_of, places_of = (exact_curves, exact_places) if exact else (sweep_curves, sweep_places)
    known = 0
    for seed in range(begin, begin + (4 if exact else 20)):
        case = wide_case(seed, SLOTS)
        view, ask, prices = case.ledger.view, case.ask, case.prices
        curves = curves_of(view, 0, SLOTS, ask, prices)
        slots, at = picked(curves, np.random.default_rng(seed))
        choices, hints = curves.choices[at], curves.hints(slots, at)
        told = places_of(view, slots, ask, choices, hints, prices)
        found = places_of(view, slots, ask, choices, Hints.none(len(slots)), prices)
        known += int(np.isfinite(hints.ways).sum())
        assert all(np.array_equal(a, b) for a, b in zip(told, found, strict=True)), seed
        for i, slot in enumerate(slots.tolist()):
            level, k = divmod(int(choices[i]), len(ask.workers))
            placement = told.at(i)
            assert (placement.total_workers, placement.total_servers) == (ask.workers[k], ask.servers[k])
            assert case.ledger.cluster.level(list(placement.machines)) <= level
            assert math.isclose(cost_at(case, slot, placement), curves.costs[at[i]], rel_tol=1e-9), (seed, slot)
            alone = places_of(view, slots[i : i + 1], ask, choices[i : i + 1], Hints.none(1), prices)
            assert alone.at(0) == placement, (seed, slot)
    assert known > 0


# ----------------------------------------------------------------------------------------------------------- staying


def stays(case: SlotCase, slots: Ints, places: Places, paid: Floats) -> tuple[list[int], list[float]]:
    """Which placement a job has in each slot, and its cost: the one before, unless another kind is cheapest here."""
    level = case.ledger.cluster.level
    kept: list[int] = []
    costs: list[float] = []
    for i, slot in enumerate(slots.tolist()):
        kept.append(i)
        costs.append(float(paid[i]))
        if i == 0:
            continue
        before, here = places.at(kept[i - 1]), places.at(i)
        if (before.total_workers, before.total_servers) != (here.total_workers, here.total_servers):
            continue
        if level(list(before.machines)) != level(list(here.machines)):
            continue
        cost = cost_at(case, slot, before)
        if cost <= paid[i] * (1 + 1e-12):
            kept[i], costs[i] = kept[i - 1], cost
    return kept, costs


@pytest.mark.parametrize("begin", range(4000, 4060, 20))
def test_staying_equals_the_plain_twin(begin: int) -> None:
    stayed = moved = 0
    for seed in range(begin, begin + 20):
        case = wide_case(seed, SLOTS)
        view, ask, prices = case.ledger.view, case.ask, case.prices
        curves = sweep_curves(view, 0, SLOTS, ask, prices)
        slots, at = picked(curves, np.random.default_rng(seed))
        places = sweep_places(view, slots, ask, curves.choices[at], curves.hints(slots, at), prices)
        kept, paid = steady(view, slots, ask, places, curves.costs[at], prices)
        wanted, costs = stays(case, slots, places, curves.costs[at])
        assert kept.tolist() == wanted, seed
        assert np.allclose(paid, costs, rtol=1e-9, atol=0.0), seed
        assert (paid <= curves.costs[at] * (1 + 1e-9)).all()
        stayed += sum(k != i for i, k in enumerate(wanted))
        moved += sum(k == i for i, k in enumerate(wanted[1:], 1))
    assert stayed > 0
    assert moved > 0


@pytest.mark.parametrize("seed", range(60))
def test_a_hint_for_no_choice_is_none(seed: int) -> None:
    case = contended_case(seed) if seed % 2 else slot_case(seed)
    curves = sweep_curves(case.ledger.view, 0, 1, case.ask, case.prices)
    nothing = np.empty(0, dtype=np.int64)
    hints = curves.hints(nothing, nothing)
    assert (len(hints.ways), hints.starts.tolist(), len(hints.near)) == (0, [0], 0)
    places = sweep_places(case.ledger.view, nothing, case.ask, nothing, hints, case.prices)
    assert places.offsets.tolist() == [0]
