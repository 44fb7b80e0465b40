"""The program over slots and trimming, against plain twins that never prune and never stop early."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.instances import SLOT_SECONDS, cluster_of, job_of, survey
from tests.optim import twins
from tests.optim.twins import Point

from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import Curves
from slotwise.optim.workload import Bounds, Program

Floats = npt.NDArray[np.float64]


def curves_of(slots: list[list[Point]]) -> Curves:
    points = [p for slot in slots for p in slot]
    return Curves(
        np.cumsum([0, *(len(slot) for slot in slots)], dtype=np.int64),
        np.array([p.samples for p in points], dtype=np.float64),
        np.array([p.cost for p in points], dtype=np.float64),
        np.array([i for slot in slots for i in range(len(slot))], dtype=np.int64),
        np.full(len(points), np.nan),
    )


def random_slots(rng: np.random.Generator, most_slots: int = 7, most_points: int = 5) -> list[list[Point]]:
    """Curves that rise strictly in both, some empty, some with whole numbers (many ties)."""
    whole = rng.random() < 0.3
    slots = []
    for _ in range(int(rng.integers(1, most_slots + 1))):
        count = int(rng.integers(0, most_points + 1))
        if whole:
            samples = np.sort(rng.choice(np.arange(1.0, 9.0), size=count, replace=False))
            costs = np.sort(rng.choice(np.arange(1.0, 12.0), size=count, replace=False))
        else:
            samples = np.cumsum(rng.uniform(0.01, 3.0, count))
            costs = np.cumsum(rng.uniform(0.01, 4.0, count))
        slots.append([Point(float(s), float(c)) for s, c in zip(samples, costs, strict=True)])
    return slots


def random_utility(rng: np.random.Generator, slots: int) -> Floats:
    drawn = rng.choice([0.0, 5.0, 30.0]) + np.sort(rng.uniform(0.0, 40.0, slots))[::-1]
    return np.asarray(np.round(drawn) if rng.random() < 0.3 else drawn)


def random_program(seed: int) -> tuple[list[list[Point]], float, int, Floats]:
    rng = np.random.default_rng([seed, 5])
    slots = random_slots(rng)
    needed = float(rng.integers(1, 20)) if rng.random() < 0.5 else float(rng.uniform(0.1, 20.0))
    return slots, needed, int(rng.choice([1, 7, 50, 500])), random_utility(rng, len(slots))


def floor_of(slots: list[list[Point]]) -> float:
    """What a sample costs at least."""
    return min((p.cost / p.samples for slot in slots for p in slot), default=0.0)


def run(
    slots: list[list[Point]], needed: float, grid: int, utility: Floats, floor: float, at_least: float, block: int
) -> Program:
    program = Program(needed, grid, utility, Bounds(np.full(len(utility), floor), utility - needed * floor), at_least)
    while not program.done:
        program.advance(curves_of(slots[program.slots : program.slots + block]))
    return program


@pytest.mark.parametrize("seed", range(300))
def test_program_equals_the_plain_one(seed: int) -> None:
    slots, needed, grid, utility = random_program(seed)
    wanted = twins.program(slots, needed, grid, utility)
    for block in (1, 2, 64):
        found = run(slots, needed, grid, utility, 0.0, -math.inf, block)
        assert found.payoff == wanted.payoff
        assert found.completion == wanted.completion
        if wanted.completion >= 0:
            assert found.plan() == list(wanted.picks)


@pytest.mark.parametrize("seed", range(300))
def test_early_stops_do_not_change_the_answer(seed: int) -> None:
    slots, needed, _, utility = random_program(seed)
    grid = 20_000  # so fine that hardly any two states share a step
    wanted = twins.program(slots[:4], needed, grid, utility[:4])
    for floor in (0.0, 0.5 * floor_of(slots[:4]), floor_of(slots[:4]) * (1 - 1e-9)):
        for at_least in (-math.inf, -5.0, 0.0, wanted.payoff - 1e-6):
            found = run(slots[:4], needed, grid, utility[:4], floor, at_least, 2)
            if wanted.payoff > at_least:
                assert (found.payoff, found.completion) == (wanted.payoff, wanted.completion)
                assert found.plan() == list(wanted.picks)
            else:
                assert found.completion == -1
                assert found.payoff == at_least


@pytest.mark.parametrize("seed", range(300))
def test_early_stops_never_lose_on_a_coarse_grid(seed: int) -> None:
    """States share steps here; leaving out one that cannot win may only make room for a better one."""
    slots, needed, grid, utility = random_program(seed)
    wanted = twins.program(slots, needed, grid, utility)
    found = run(slots, needed, grid, utility, floor_of(slots) * (1 - 1e-9), -math.inf, 3)
    assert found.payoff >= wanted.payoff


@given(st.integers(0, 2**32))
def test_picks_train_the_workload_at_the_stated_payoff(seed: int) -> None:
    slots, needed, grid, utility = random_program(seed)
    found = run(slots, needed, grid, utility, floor_of(slots), 0.0, 4)
    if found.completion < 0:
        return
    picks = found.plan()
    assert [slot for slot, _ in picks] == sorted({slot for slot, _ in picks})
    assert picks[-1][0] == found.completion
    taken = [slots[slot][index] for slot, index in picks]
    assert sum(p.samples for p in taken) >= needed
    paid = sum(p.cost for p in taken)
    assert found.payoff == pytest.approx(float(utility[found.completion]) - paid, rel=1e-12, abs=1e-12)


def test_carried_sums_lose_nothing_to_rounding_in_each_slot() -> None:
    """Nine slots of 1.12 of ten steps: floored in each slot they would be nine steps, carried they are ten."""
    slots = [[Point(1.12, 1.0)]] * 9
    found = run(slots, 10.0, 10, np.full(9, 20.0), 0.0, 0.0, 64)
    assert found.completion == 8
    assert len(found.plan()) == 9


def test_workload_is_met_by_true_samples_not_by_grid_steps() -> None:
    slots = [[Point(4.99, 1.0)], [Point(4.99, 1.0)]]
    assert run(slots, 10.0, 10, np.full(2, 20.0), 0.0, 0.0, 64).completion == -1
    assert run(slots, 9.98, 10, np.full(2, 20.0), 0.0, 0.0, 64).completion == 1


def test_equal_payoffs_go_to_the_earliest_completion() -> None:
    slots = [[Point(1.0, 2.0)], [Point(1.0, 2.0)], [Point(1.0, 1.0)]]
    found = run(slots, 1.0, 10, np.array([5.0, 5.0, 4.0]), 0.0, -math.inf, 1)
    assert (found.payoff, found.completion) == (3.0, 0)


def test_search_ends_when_later_utility_cannot_win() -> None:
    slots = [[Point(1.0, 1.0)]] + [[Point(1.0, 0.1)]] * 50
    utility = np.array([9.0] + [8.0] * 50)
    program = Program(1.0, 10, utility, Bounds(np.zeros(51), utility), 0.0)
    program.advance(curves_of(slots[:2]))
    assert program.done
    assert program.slots <= 2
    assert program.completion == 0


def test_nothing_is_run_where_even_the_cheapest_samples_cost_too_much() -> None:
    five, none = np.array([5.0]), np.array([])
    bounds = Bounds(np.array([0.5]), five - 5.0)
    assert Program(10.0, 10, five, bounds, 0.0).done
    assert not Program(10.0, 10, five, bounds, -math.inf).done
    assert Program(10.0, 10, none, Bounds(none, none), -math.inf).done


@pytest.mark.parametrize("scale", [1e-6, 1e15])
def test_size_of_the_workload_does_not_matter(scale: float) -> None:
    for seed in range(40):
        slots, needed, grid, utility = random_program(seed)
        # A power of two: scaling is exact.
        factor = 2.0 ** round(math.log2(scale))
        scaled = [[Point(p.samples * factor, p.cost) for p in slot] for slot in slots]
        plain = run(slots, needed, grid, utility, 0.0, 0.0, 4)
        found = run(scaled, needed * factor, grid, utility, 0.0, 0.0, 4)
        assert (found.payoff, found.completion) == (plain.payoff, plain.completion)


# --------------------------------------------------------------------------------------------------------- trimming


class Given:
    """A slot solver whose curves are given; it notes what the planner takes in the end."""

    name = "given"

    def __init__(self, slots: list[list[Point]]) -> None:
        self.slots = slots
        self.taken: list[tuple[int, int]] = []

    def curves(self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices) -> Curves:
        return curves_of(self.slots[first : first + count])

    def place(
        self, ledger: Ledger, slot: int, request: Request, choice: int, prices: Prices, way: float = math.nan
    ) -> Placement:
        self.taken.append((slot, choice))
        return Placement((0,), (choice + 1,), (0,))

    def figures(self) -> dict[str, float | None]:
        return {}


def plan_given(slots: list[list[Point]], workload: float, grid: int, utility: float) -> tuple[Given, Plan | None]:
    """Plan over given curves; prices are next to nothing, so that no sample is thought dear."""
    cluster = cluster_of((8.0,))
    job = job_of(worker=(1.0,), batch_size=8, workload=SLOT_SECONDS)
    request = survey(job, cluster, len(slots))
    changed = Request(
        request.id,
        0,
        workload,
        request.ask,
        request.held,
        request.sizes,
        request.steps,
        cluster,
        np.full(len(slots), utility),
        request.bid,
        request.most_workers,
        request.most_samples,
        1,
    )
    solver = Given(slots)
    prices = Prices(np.full(1, -600.0), np.ones(1))
    plan = Planner(solver, grid=grid).plan(changed, Ledger(cluster, len(slots)), prices, at_least=-math.inf)
    return solver, plan


def check_trimming(slots: list[list[Point]], workload: float, grid: int) -> None:
    solver, plan = plan_given(slots, workload, grid, 1000.0)
    needed = workload * (1.0 - 1e-11)
    best = twins.program(slots, needed, grid, np.full(len(slots), 1000.0))
    if best.completion < 0:
        assert plan is None
        return
    assert plan is not None
    wanted = twins.trim([(slot, slots[slot], index) for slot, index in best.picks], needed)
    assert solver.taken == wanted
    assert sum(slots[slot][index].samples for slot, index in solver.taken) >= workload * (1 - 1e-10)


@pytest.mark.parametrize("seed", [*range(300), 556, 559, 1373, 1518, 1728, 2776])
def test_trimming_equals_the_plain_one(seed: int) -> None:
    slots, needed, grid, _ = random_program(seed)
    # The planner takes at least 10 steps; so few hide enough choices that there is something to trim;
    # in the last six cases it matters which slot comes first.
    check_trimming(slots, needed, 10 if seed % 2 or seed >= 300 else max(10, grid))


@given(st.data())
def test_trimming_bears_sums_that_meet_the_workload_to_the_last_bit(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    slots = random_slots(rng)
    order = data.draw(st.permutations(range(len(slots))))
    chosen = rng.random(len(slots)) < 0.7
    total = 0.0
    for i in order:
        if slots[i] and chosen[i]:
            total += slots[i][data.draw(st.integers(0, len(slots[i]) - 1))].samples
    if total > 0:
        solver, plan = plan_given(slots, total / (1.0 - 1e-11), 500, 1000.0)
        if plan is not None:
            trained = sum(slots[slot][index].samples for slot, index in solver.taken)
            assert trained >= total * (1 - 1e-10)


def test_trimming_steps_down_where_the_grid_hid_the_smaller_choice() -> None:
    """3.1 and 3.9 share a step, so the program knows the cheaper one only, which is too little beside 6.2."""
    slots = [[Point(3.1, 1.0), Point(3.9, 2.0), Point(4.5, 3.0)], [Point(6.2, 2.0)]]
    found = run(slots, 10.0, 10, np.full(2, 100.0), 0.0, -math.inf, 4)
    assert found.plan() == [(0, 2), (1, 0)]
    solver, plan = plan_given(slots, 10.0, 10, 100.0)
    assert plan is not None
    assert solver.taken == [(0, 1), (1, 0)]
