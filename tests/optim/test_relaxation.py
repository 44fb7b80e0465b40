"""The paper's rounding: its gains by their equations, its promises by experiment, its placements by what fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from tests.instances import SLOT_SECONDS, job_of, paper_job, paper_ledger, placement_cost, random_job, tiny_cluster

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.model.speed import PaperSpeed
from slotwise.optim.pricing import Prices
from slotwise.optim.relaxation import Reference, SlotProgram
from slotwise.optim.request import Request, Surveyor
from slotwise.optim.rounding import covering_gain, draw, packing_gain, textbook_gain
from slotwise.optim.slot import exact_costs, sweep_costs

Floats = npt.NDArray[np.float64]


# ------------------------------------------------------------------------------------------ gains


@pytest.mark.parametrize("rows", [1, 5, 121, 4001])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 7.5, 50.0, 1e4])
@pytest.mark.parametrize("delta", [1.0, 0.1, 1e-3])
def test_gains_solve_their_equations(rows: int, ratio: float, delta: float) -> None:
    packing, covering = packing_gain(rows, ratio, delta), covering_gain(rows, ratio, delta)
    assert 0 < packing < 1 < covering
    assert packing - 1 - math.log(packing) == pytest.approx(math.log(3 * rows / delta) / ratio, rel=1e-9)
    # What the lower tail gives: G (1 - 1/G)^2 / 2 = ln(3 m / delta) / W.
    assert covering * (1 - 1 / covering) ** 2 / 2 == pytest.approx(math.log(3 * rows / delta) / ratio, rel=1e-9)


def test_gains_by_hand() -> None:
    # ln(3 m / delta) / W = 1: the covering gain is 1 + 1 + sqrt(2 + 1), the packing gain solves G - ln G = 2.
    ratio = math.log(30.0)
    assert covering_gain(1, ratio, 0.1) == pytest.approx(2 + math.sqrt(3))
    assert packing_gain(1, ratio, 0.1) == pytest.approx(0.158594, abs=1e-6)
    # k = 2 gives 1 + 1 - sqrt(2 + 1).
    assert textbook_gain(1, 1.5 * math.log(10.0), 0.1) == pytest.approx(2 - math.sqrt(3))


def test_the_textbook_form_is_at_least_a_half_where_its_condition_holds() -> None:
    rows, delta = 121, 0.1
    enough = 6 * math.log(rows / delta)
    assert textbook_gain(rows, enough, delta) == pytest.approx(0.5)
    assert textbook_gain(rows, 0.99 * enough, delta) < 0.5 < textbook_gain(rows, 1.01 * enough, delta)


def test_draws_are_the_two_whole_numbers_around() -> None:
    values = np.array([0.0, 0.25, 3.0, 2.75, 5.0 - 1e-12])
    drawn = draw(values, 4000, np.random.default_rng(0))
    assert set(np.unique(drawn[:, 1])) == {0.0, 1.0}
    assert set(np.unique(drawn[:, 3])) == {2.0, 3.0}
    assert (drawn[:, [0, 2, 4]] == [0.0, 3.0, 5.0]).all()
    assert drawn.mean(axis=0) == pytest.approx(values, abs=0.03)
    assert (drawn == draw(values, 4000, np.random.default_rng(0))).all()


# ------------------------------------------------------------------------------------------ promises, by experiment

DELTA = 0.1
DRAWS = 1000


@dataclass(frozen=True)
class Relaxation:
    """One solved relaxation of section 6: 30 machines, half of them without GPU, loaded at random."""

    program: SlotProgram
    workers: int
    servers: int
    cost: float
    values: Floats

    def open(self) -> None:
        assert self.program.solve(self.workers, self.servers) is not None

    def gain(self, name: str) -> float:
        if name == "covering":
            return covering_gain(2, float(min(self.workers, self.servers)), DELTA)
        by_name = {"packing": packing_gain, "textbook": textbook_gain}
        return by_name[name](self.program.packing_rows, self.program.packing_ratio, DELTA)


def relaxations(count: int) -> list[Relaxation]:
    found: list[Relaxation] = []
    seed = 0
    while len(found) < count:
        rng = np.random.default_rng([seed, 51])
        seed += 1
        ledger = paper_ledger(rng)
        request = Surveyor(ledger.cluster, SLOT_SECONDS).survey(paper_job(rng), 1000)
        if request.reason is not None:
            continue
        price = Prices(np.log(0.02 / ledger.cluster.mean_capacity / 4.0), rng.uniform(3.0, 10.0, 4)).at(
            ledger.used(0), ledger.view.capacity, 0
        )
        program = SlotProgram(request, len(ledger.cluster))
        costs = np.concatenate([price @ request.ask.worker_amount, price @ request.ask.server_amount])
        program.open(ledger.free(0), costs)
        for share in (0.1, 0.4, 0.8):
            k = int(share * (len(request.ask.workers) - 1))
            workers, servers = int(request.ask.workers[k]), int(request.ask.servers[k])
            solved = program.solve(workers, servers)
            if solved is not None:
                found.append(Relaxation(program, workers, servers, *solved))
    return found[:count]


@pytest.fixture(scope="module")
def solved() -> list[Relaxation]:
    return relaxations(150)


def rates(relaxation: Relaxation, gain: float, seed: int) -> tuple[float, float, float]:
    """Share of draws that pack, that cover, and that cost more than 3 G / delta times the relaxation."""
    relaxation.open()
    draws = draw(relaxation.values * gain, DRAWS, np.random.default_rng([seed, 52]))
    packs, covers = relaxation.program.holds(draws)
    dear = draws @ relaxation.program.costs > 3 * gain / DELTA * relaxation.cost
    return float(packs.mean()), float(covers.mean()), float(dear.mean())


def at_most(promised: float) -> float:
    """Share of draws above which a probability of ``promised`` is out of the question: four standard errors."""
    return promised + 4 * math.sqrt(promised * (1 - promised) / DRAWS)


def test_the_packing_gain_packs_as_often_as_promised(solved: list[Relaxation]) -> None:
    for i, relaxation in enumerate(solved):
        packs, _, dear = rates(relaxation, relaxation.gain("packing"), i)
        assert 1 - packs <= at_most(DELTA / 3)
        assert dear <= at_most(DELTA / 3)


def test_the_covering_gain_covers_as_often_as_promised(solved: list[Relaxation]) -> None:
    for i, relaxation in enumerate(solved):
        _, covers, dear = rates(relaxation, relaxation.gain("covering"), i)
        assert 1 - covers <= at_most(DELTA / 3)
        assert dear <= at_most(DELTA / 3)


def test_the_textbook_packing_gain_breaks_its_promise_where_all_rows_are_tight_and_small() -> None:
    # Each machine holds one worker or one server. Half of them have workers: the relaxation puts half of each on all,
    # every row is full and W_b is 1, and both go up with probability (G / 2)^2 in each of a thousand rows.
    machines, needed = 1000, 500
    cluster = Cluster(tuple(f"m{i}" for i in range(machines)), ("gpu",), np.ones((machines, 1)))
    job = job_of(worker=(1.0,), server=(1.0,), batch_size=needed, speed=PaperSpeed(1.0, 0.0, 1.0))
    program = SlotProgram(Surveyor(cluster, SLOT_SECONDS).survey(job, 10), machines)
    program.open(cluster.grains, np.ones(2 * machines))
    assert program.solve(needed, needed) is not None
    assert program.packing_ratio == 1.0
    values = np.full(2 * machines, 0.5)

    def packs(gain: float) -> float:
        return float(program.holds(draw(values * gain, DRAWS, np.random.default_rng(0)))[0].mean())

    rows = program.packing_rows
    assert packs(textbook_gain(rows, 1.0, DELTA)) < 0.85
    assert packs(packing_gain(rows, 1.0, DELTA)) >= 1 - DELTA / 3


def test_slots_of_the_paper_are_far_from_what_the_textbook_form_needs(solved: list[Relaxation]) -> None:
    assert all(r.program.packing_ratio < 6 * math.log(r.program.packing_rows / DELTA) / 10 for r in solved)
    assert all(r.gain("packing") < r.gain("textbook") < 0.2 for r in solved)


def test_no_gain_gives_both_sides_at_once(solved: list[Relaxation]) -> None:
    both = {}
    for name in ("packing", "covering", "1"):
        feasible = []
        for i, relaxation in enumerate(solved):
            relaxation.open()
            gain = 1.0 if name == "1" else relaxation.gain(name)
            draws = draw(relaxation.values * gain, DRAWS, np.random.default_rng([i, 53]))
            packs, covers = relaxation.program.holds(draws)
            feasible.append(float((packs & covers).mean()))
        both[name] = float(np.mean(feasible))
    assert both["packing"] < 0.05
    assert both["covering"] < 0.05
    assert 0.2 < both["1"] < 0.9


# ------------------------------------------------------------------------------------------ the solver


def busy(seed: int) -> tuple[Ledger, Request, Prices] | None:
    """A small loaded cluster and a job; None if the cluster could never hold it."""
    rng = np.random.default_rng([seed, 54])
    cluster = tiny_cluster(rng, int(rng.integers(2, 6)), int(rng.integers(1, 4)))
    ledger = Ledger(cluster, 3)
    for slot in range(3):
        for machine in range(len(cluster)):
            if rng.random() < 0.5:
                taken = np.floor(cluster.grains[machine] * rng.choice([0.25, 0.5, 1.0]))
                ledger.commit([slot], [Placement((machine,), (1,), (0,))], taken, np.zeros_like(taken))
    job = random_job(rng, cluster, slots=3, most_workers=5)
    request = Surveyor(cluster, SLOT_SECONDS).survey(job, 10)
    prices = Prices(rng.uniform(-4.0, 0.0, len(cluster.resources)), rng.uniform(1.0, 8.0, len(cluster.resources)))
    return None if not request.held.any() else (ledger, request, prices)


@pytest.mark.parametrize("gain", [1.0, "packing", "covering", 1.3])
def test_what_it_places_fits_and_costs_what_its_curve_says(gain: str | float) -> None:
    points = 0
    for seed in range(120):
        case = busy(seed)
        if case is None:
            continue
        ledger, request, prices = case
        reference = Reference(seed, gain=gain, attempts=20)
        curves = reference.curves(ledger, 0, 3, request, prices)
        for slot in range(3):
            exact = exact_costs(ledger.view, slot, request.ask, prices)
            for at in range(curves.offsets[slot], curves.offsets[slot + 1]):
                choice = int(curves.choices[at])
                level, k = divmod(choice, len(request.ask.workers))
                hints = curves.hints(np.array([slot]), np.array([at]))
                places = reference.places(ledger, np.array([slot]), request, np.array([choice]), hints, prices)
                placement = places.at(0)
                assert (placement.total_workers, placement.total_servers) == (
                    request.ask.workers[k],
                    request.ask.servers[k],
                )
                cost = placement_cost(placement, slot, request, ledger, prices)
                assert cost == pytest.approx(curves.costs[at], rel=1e-9)
                assert cost >= exact[level, k] * (1 - 1e-9)
                ledger.commit([slot], [placement], request.ask.worker, request.ask.server)
                ledger.release([slot], [placement], request.ask.worker, request.ask.server)
                points += 1
    assert points > 300


def test_the_relaxation_never_costs_more_than_the_exact_program() -> None:
    compared = 0
    for seed in range(150):
        case = busy(seed)
        if case is None:
            continue
        ledger, request, prices = case
        program = SlotProgram(request, len(ledger.cluster))
        for slot in range(3):
            price = prices.at(ledger.used(slot), ledger.view.capacity, slot)
            ask = request.ask
            program.open(ledger.free(slot), np.concatenate([price @ ask.worker_amount, price @ ask.server_amount]))
            exact = exact_costs(ledger.view, slot, ask, prices)[-1]
            for k in np.flatnonzero(np.isfinite(exact)):
                solved = program.solve(int(ask.workers[k]), int(ask.servers[k]))
                assert solved is not None
                assert solved[0] <= exact[k] * (1 + 1e-7)
                fresh = SlotProgram(request, len(ledger.cluster))
                fresh.open(ledger.free(slot), program.costs)
                again = fresh.solve(int(ask.workers[k]), int(ask.servers[k]))
                assert again is not None
                assert solved[0] == pytest.approx(again[0], rel=1e-7)
                compared += 1
    assert compared > 300


def test_it_finds_something_wherever_the_sweep_does() -> None:
    for seed in range(100):
        case = busy(seed)
        if case is None:
            continue
        ledger, request, prices = case
        reference = Reference(seed, attempts=1)
        for slot in range(3):
            swept = sweep_costs(ledger.view, slot, request.ask, prices)
            most = np.where(np.isfinite(swept), request.ask.samples, 0.0).max()
            found = reference.curves(ledger, slot, 1, request, prices).samples
            assert found.max(initial=0.0) == pytest.approx(most)


def test_a_slot_does_not_depend_on_what_was_asked_before() -> None:
    case = next(c for c in map(busy, range(100)) if c is not None and len(c[1].ask.workers) > 3)
    ledger, request, prices = case
    together = Reference(7).curves(ledger, 0, 3, request, prices)
    alone = Reference(7).curves(ledger, 2, 1, request, prices)
    assert (together.costs[together.offsets[2] :] == alone.costs).all()
    assert (together.choices[together.offsets[2] :] == alone.choices).all()


def test_one_feasible_draw_is_enough_and_others_fall_back() -> None:
    case = next(c for c in map(busy, range(100)) if c is not None and len(c[1].ask.workers) > 3)
    ledger, request, prices = case
    never, often = Reference(0, gain=0.01, attempts=3), Reference(0, gain=1.0, attempts=50)
    for reference in (never, often):
        reference.curves(ledger, 0, 3, request, prices)
    assert never.rounding.feasible == 0
    assert never.rounding.fallbacks > 0
    assert never.rounding.attempts == 3 * never.rounding.relaxations
    assert never.figures()["cost_over_relaxation"] is None
    assert often.rounding.feasible > 0
    assert often.rounding.excess >= -1e-6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "delta must be > 0 and <= 1"),
        ({"delta": math.nan}, "delta must be > 0 and <= 1"),
        ({"gain": 0.0}, "gain must be packing, covering, textbook or a number > 0"),
        ({"gain": "inf"}, "gain must be packing, covering, textbook or a number > 0"),
        ({"attempts": 0}, "attempts must be in 1 ... 1000000"),
    ],
)
def test_numbers_out_of_bounds_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Reference(**arguments)  # type: ignore[arg-type]  # of several types, as a user may give them
