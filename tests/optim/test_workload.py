"""The program over slots and trimming, against plain twins that never prune and never stop early."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.instances import SLOT_SECONDS, cluster_of, job_of, survey
from tests.optim import twins
from tests.optim.twins import Best, Point

from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import Curves, Hints, Places
from slotwise.optim.workload import Program, _round, _trim

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


def curves_of(slots: list[list[Point]]) -> Curves:
    points = [p for slot in slots for p in slot]
    return Curves(
        np.cumsum([0, *(len(slot) for slot in slots)], dtype=np.int64),
        np.array([p.samples for p in points], dtype=np.float64),
        np.array([p.cost for p in points], dtype=np.float64),
        np.array([i for slot in slots for i in range(len(slot))], dtype=np.int64),
        np.full(len(points), np.nan),
        np.zeros(len(slots) + 1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
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
    slots: list[list[Point]], needed: float, grid: int, utility: Floats, reach: Floats, at_least: float, block: int
) -> Program:
    program = Program(needed, grid, utility, reach, at_least)
    while not program.done:
        program.advance(curves_of(slots[program.slots : program.slots + block]))
    return program


def solved(
    slots: list[list[Point]],
    needed: float,
    grid: int,
    utility: Floats,
    reach: Floats | None = None,
    at_least: float = -math.inf,
    block: int = 64,
) -> Best:
    """Run it all, check that what comes out is a plan, and say what it is worth."""
    reach = utility if reach is None else reach
    picks = run(slots, needed, grid, utility, reach, at_least, block).plan()
    if picks is None:
        return Best(-math.inf, -1, ())
    assert (np.diff(picks.slots) > 0).all()
    taken = list(zip(picks.slots.tolist(), picks.choices.tolist(), strict=True))
    points = [slots[slot][index] for slot, index in taken]
    assert [p.samples for p in points] == picks.samples.tolist()
    assert [p.cost for p in points] == picks.costs.tolist()
    # To the last bits of a sum in another order.
    assert math.fsum(picks.samples) >= needed * (1 - 1e-13)
    assert taken == twins.trim([(slot, slots[slot], index) for slot, index in taken], needed)
    payoff = float(utility[picks.slots[-1]]) - math.fsum(picks.costs)
    assert payoff > at_least
    return Best(payoff, int(picks.slots[-1]), tuple(taken))


def wanted_of(slots: list[list[Point]], needed: float, grid: int, utility: Floats) -> float:
    """What the plan must be worth: as much as the plain program and the rounded relaxation, -inf if there is none."""
    return max(twins.program(slots, needed, grid, utility).payoff, twins.rounded(slots, needed, utility).payoff)


def truth(slots: list[list[Point]], needed: float, utility: Floats) -> float:
    """Largest payoff of all schedules."""
    options = [{0.0: 0.0} | {p.samples: p.cost for p in slot} for slot in slots]
    return twins.best_over_schedules(options, needed, utility)


def tightest_reach(slots: list[list[Point]], needed: float, utility: Floats) -> Floats:
    """The largest payoff of what ends in each slot or after it, by looking at all schedules."""
    after = []
    for slot in range(len(slots)):
        # A utility of nothing before it: what pays then is known to end later.
        late = np.where(np.arange(len(slots)) < slot, -1e9, utility)
        after.append(truth(slots, needed, late))
    return np.array(after)


@pytest.mark.parametrize("seed", range(300))
def test_no_plan_is_worse_than_the_plain_program_and_the_rounded_relaxation(seed: int) -> None:
    slots, needed, grid, utility = random_program(seed)
    found = [solved(slots, needed, grid, utility, block=block) for block in (1, 2, 64)]
    assert found[0] == found[1] == found[2]
    wanted = wanted_of(slots, needed, grid, utility)
    assert found[0].payoff >= wanted - 1e-9
    assert (found[0].completion < 0) == (wanted == -math.inf)


@pytest.mark.parametrize("seed", range(300))
def test_on_a_fine_grid_it_is_the_best_of_all_schedules(seed: int) -> None:
    slots, needed, _, utility = random_program(seed)
    slots, utility = slots[:4], utility[:4]
    grid = 20_000  # so fine that hardly any two states share a step
    best = truth(slots, needed, utility)
    found = solved(slots, needed, grid, utility)
    assert wanted_of(slots, needed, grid, utility) == pytest.approx(best, abs=1e-9)
    assert found.payoff == pytest.approx(best, abs=1e-9)
    for coarse in (1, 7, 50):
        assert solved(slots, needed, coarse, utility).payoff <= best + 1e-9


@pytest.mark.parametrize("seed", range(300))
def test_early_stops_do_not_change_the_answer(seed: int) -> None:
    slots, needed, _, utility = random_program(seed)
    slots, utility = slots[:4], utility[:4]
    grid = 20_000
    wanted = solved(slots, needed, grid, utility)
    floor = floor_of(slots)
    tightest = tightest_reach(slots, needed, utility)
    reaches = [utility - needed * share * floor for share in (0.0, 0.5, 1 - 1e-9)]
    reaches += [np.maximum.accumulate((tightest + more)[::-1])[::-1] for more in (1e-9, 0.5)]
    for reach in reaches:
        for at_least in (-math.inf, -5.0, 0.0, wanted.payoff - 1e-6):
            found = solved(slots, needed, grid, utility, reach, at_least, 2)
            if wanted.payoff > at_least:
                assert found.payoff == pytest.approx(wanted.payoff, abs=1e-9)
            else:
                assert found.completion == -1


@pytest.mark.parametrize("seed", range(300))
def test_early_stops_never_lose_on_a_coarse_grid(seed: int) -> None:
    """States share steps here; leaving out one that cannot win may only make room for a better one."""
    slots, needed, grid, utility = random_program(seed)
    reach = utility - needed * floor_of(slots) * (1 - 1e-9)
    found = solved(slots, needed, grid, utility, reach, -math.inf, 3)
    assert found.payoff >= wanted_of(slots, needed, grid, utility) - 1e-9


@given(st.integers(0, 2**32), st.sampled_from([-math.inf, 0.0, 7.0, 20.0]))
@example(35785, 7.0)
def test_what_is_of_interest_is_found_and_nothing_else(seed: int, at_least: float) -> None:
    slots, needed, grid, utility = random_program(seed)
    reach = utility - needed * floor_of(slots) * (1 - 1e-9)
    # On a step or seven, what is left out may make room for what displaces a winner later: not what is asked here.
    grid = max(grid, 50)
    found = solved(slots, needed, grid, utility, reach, at_least, 4)
    plain = twins.program(slots, needed, grid, utility).payoff
    # The rounded relaxation must be of interest before it is trimmed.
    before, _ = twins.untrimmed(slots, needed, utility)
    if found.completion < 0:
        assert max(plain, before) <= at_least + 1e-9
    else:
        trimmed = twins.rounded(slots, needed, utility).payoff if before > at_least + 1e-9 else -math.inf
        assert found.payoff >= max(plain, trimmed) - 1e-9


def test_carried_sums_lose_nothing_to_rounding_in_each_slot() -> None:
    """Nine slots of 1.12 of ten steps: floored in each slot they would be nine steps, carried they are ten."""
    slots = [[Point(1.12, 1.0)]] * 9
    found = solved(slots, 10.0, 10, np.full(9, 20.0))
    assert found.completion == 8
    assert len(found.picks) == 9


def test_workload_is_met_by_true_samples_not_by_grid_steps() -> None:
    slots = [[Point(4.99, 1.0)], [Point(4.99, 1.0)]]
    assert solved(slots, 10.0, 10, np.full(2, 20.0)).completion == -1
    assert solved(slots, 9.98, 10, np.full(2, 20.0)).completion == 1


def test_equal_payoffs_go_to_the_earliest_completion() -> None:
    slots = [[Point(1.0, 2.0)], [Point(1.0, 2.0)], [Point(1.0, 1.0)]]
    found = solved(slots, 1.0, 10, np.array([5.0, 5.0, 4.0]), block=1)
    assert (found.payoff, found.completion) == (3.0, 0)


@pytest.mark.parametrize("cost", [0.010000000000000004, 0.1, 0.3, 1.7])
@pytest.mark.parametrize("needed", [180.0, 180.0 * (1 - 1e-11)])
def test_equal_slots_are_no_better_for_the_rounding_of_their_payoff(cost: float, needed: float) -> None:
    """5 - (5 - 0.03) is a little more than 0.03."""
    slots = [[Point(60.0, cost), Point(120.0, 2 * cost), Point(180.0, 3 * cost)]] * 3
    for utility in (5.0, 7.3, 1000.0):
        assert solved(slots, needed, 5000, np.full(3, utility)).picks == ((0, 2),)


def test_search_ends_when_later_utility_cannot_win() -> None:
    slots = [[Point(1.0, 1.0)]] + [[Point(1.0, 0.1)]] * 50
    utility = np.array([9.0] + [8.0] * 50)
    program = Program(1.0, 10, utility, utility, 0.0)
    program.advance(curves_of(slots[:2]))
    assert program.done
    assert program.slots <= 2
    picks = program.plan()
    assert picks is not None
    assert picks.slots.tolist() == [0]


def test_bounds_of_what_one_program_found_stay_with_it() -> None:
    """They skip what is not better than its own best plan, which the next one need not find."""
    utility = np.array([9.0, 9.0, 8.0, 8.0])
    reach = np.array([9.0, 9.0, 8.0, 8.0])
    program = Program(2.0, 10, utility, reach, 0.0)
    program.advance(curves_of([[Point(1.0, 1.0)]]))
    program.tighten(np.array([7.0, 1.0]))
    assert program.reach.tolist() == [9.0, 7.0, 1.0, 8.0]
    assert reach.tolist() == [9.0, 9.0, 8.0, 8.0]


def test_nothing_is_run_where_even_the_cheapest_samples_cost_too_much() -> None:
    five, none = np.array([5.0]), np.array([])
    assert Program(10.0, 10, five, five - 5.0, 0.0).done
    assert Program(10.0, 10, five, five - 5.0, 0.0).plan() is None
    assert not Program(10.0, 10, five, five - 5.0, -math.inf).done
    assert Program(10.0, 10, none, none, -math.inf).done


@pytest.mark.parametrize(("missing", "payoff"), [(5e-14, 98.0), (5e-12, 47.0)])
def test_a_sum_suffices_to_rounding_or_not_at_all(missing: float, payoff: float) -> None:
    """Two slots miss the workload by less than sums of another order might, or by more; three are needed then."""
    slots, needed = [[Point(1.0, 1.0)]] * 4, 2.0 * (1.0 + missing)
    utility = np.array([100.0, 100.0, 50.0, 40.0])
    for block in (1, 4):
        assert solved(slots, needed, 10, utility, at_least=0.0, block=block).payoff == payoff


def test_a_slot_that_is_far_too_dear_does_not_drown_the_others() -> None:
    slots = [[Point(10.0, 1e20)], [Point(10.0, 30_000.0)]]
    assert solved(slots, 10.0, 10, np.full(2, 32_000.0), at_least=0.0).payoff == 2_000.0


@pytest.mark.parametrize("scale", [1e-6, 1e15])
def test_size_of_the_workload_does_not_matter(scale: float) -> None:
    for seed in range(40):
        slots, needed, grid, utility = random_program(seed)
        # A power of two: scaling is exact.
        factor = 2.0 ** round(math.log2(scale))
        scaled = [[Point(p.samples * factor, p.cost) for p in slot] for slot in slots]
        assert solved(scaled, needed * factor, grid, utility) == solved(slots, needed, grid, utility)


# --------------------------------------------------------------------------------------- rounding of the relaxation


@pytest.mark.parametrize("seed", range(300))
def test_rounding_equals_the_plain_one_at_each_completion(seed: int) -> None:
    slots, needed, _, _ = random_program(seed)
    curves = curves_of(slots)
    for completion in range(len(slots)):
        wanted = twins.rounded_picks(slots[: completion + 1], needed)
        if wanted is None:
            continue
        picks = np.full(len(slots), -1, dtype=np.int64)
        # No utility: nothing is left out because a plan before it is better.
        _round(*curves[:3], np.full(len(slots), -np.inf), needed, -np.inf, completion, picks)
        assert [(slot, index) for slot, index in enumerate(picks.tolist()) if index >= 0] == wanted


# --------------------------------------------------------------------------------------------------------- trimming


class Given:
    """A slot solver whose curves are given; it notes what the planner takes in the end."""

    name = "given"

    def __init__(self, slots: list[list[Point]]) -> None:
        self.slots = slots
        self.taken: list[tuple[int, int]] = []

    def curves(self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices) -> Curves:
        return curves_of(self.slots[first : first + count])

    def places(
        self, ledger: Ledger, slots: Ints, request: Request, choices: Ints, hints: Hints, prices: Prices
    ) -> Places:
        self.taken = list(zip(slots.tolist(), choices.tolist(), strict=True))
        return Places.of([Placement((0,), (choice + 1,), (0,)) for choice in choices.tolist()])

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


def check_trimming(slots: list[list[Point]], picks: list[tuple[int, int]], needed: float) -> None:
    utility = np.arange(len(slots), 0, -1) * 1000.0
    found = np.full(len(slots), -1, dtype=np.int64)
    for slot, index in picks:
        found[slot] = index
    payoff = _trim(*curves_of(slots)[:3], utility, needed, found)
    left = [(slot, index) for slot, index in enumerate(found.tolist()) if index >= 0]
    assert left == twins.trim([(slot, slots[slot], index) for slot, index in picks], needed)
    paid = math.fsum(slots[slot][index].cost for slot, index in left)
    assert payoff == pytest.approx(utility[left[-1][0]] - paid, abs=1e-9)


@pytest.mark.parametrize("seed", [*range(300), 556, 559, 1373, 1518, 1728, 2776])
def test_trimming_equals_the_plain_one(seed: int) -> None:
    """Of plans of the plain program, of rounded ones, and of any that are enough."""
    slots, needed, grid, _ = random_program(seed)
    # So few steps hide enough choices that there is something to trim; in the last six cases it matters which slot
    # comes first.
    grid = 10 if seed % 2 or seed >= 300 else max(10, grid)
    best = twins.program(slots, needed, grid, np.full(len(slots), 1000.0))
    if best.completion < 0:
        return
    check_trimming(slots, list(best.picks), needed)
    picks = twins.rounded_picks(slots, needed)
    assert picks is not None
    check_trimming(slots, picks, needed)
    rng = np.random.default_rng(seed)
    for _ in range(5):
        order = rng.permutation([slot for slot, points in enumerate(slots) if points])
        chosen: dict[int, int] = {}
        for slot in order.tolist():
            chosen[slot] = int(rng.integers(len(slots[slot])))
            if sum(slots[t][i].samples for t, i in chosen.items()) >= needed:
                check_trimming(slots, sorted(chosen.items()), needed)
                break


@pytest.mark.parametrize("seed", range(0, 300, 3))
def test_the_planner_takes_the_plan_of_the_program(seed: int) -> None:
    slots, needed, _, _ = random_program(seed)
    solver, plan = plan_given(slots, needed, 10, 1000.0)
    wanted = solved(slots, needed * (1.0 - 1e-11), 10, np.full(len(slots), 1000.0))
    assert solver.taken == list(wanted.picks)
    assert (plan is None) == (wanted.completion < 0)
    if plan is not None:
        assert sum(slots[slot][index].samples for slot, index in solver.taken) >= needed * (1 - 1e-10)


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
    assert twins.program(slots, 10.0, 10, np.full(2, 100.0)).picks == ((0, 2), (1, 0))
    check_trimming(slots, [(0, 2), (1, 0)], 10.0)
    solver, plan = plan_given(slots, 10.0, 10, 100.0)
    assert plan is not None
    assert solver.taken == [(0, 1), (1, 0)]
