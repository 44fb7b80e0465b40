"""Ceilings: curves below one miss nothing that is below it, and no plan is another for what is left out."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.instances import SlotCase, cluster_of, contended_case, job_of, load, paper_job, slot_case, survey, wide_case
from tests.optim.test_domains import racked

from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.utility import Sigmoid
from slotwise.optim import planner as planner_module
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.slot import ALL, Ceiling, Curves, sweep_curves
from slotwise.optim.workload import Picks, Program, _none_wins_apart, guess

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


# ------------------------------------------------------------------------------------------------ curves of one slot


def slopes(samples: Floats, costs: Floats) -> Floats:
    """Of the lines through each two points, (0, 0) among them."""
    x, y = np.append(0.0, samples), np.append(0.0, costs)
    i, j = np.triu_indices(len(x), 1)
    return np.asarray((y[j] - y[i]) / (x[j] - x[i]))


def ceilings(samples: Floats, costs: Floats, ceiling: Ceiling) -> Floats:
    """What a whole curve's choices have to be cheaper than, to be within the slack of the best at some rate."""
    low, high, slack = ceiling
    if high == np.inf or len(samples) == 0:
        return np.full(len(samples), np.inf)
    rates = np.clip(np.concatenate([slopes(samples, costs), [low, high]]), low, high)
    gains = np.maximum(0.0, (np.outer(rates, samples) - costs).max(axis=1))
    return np.asarray((np.outer(rates, samples) - gains[:, None]).max(axis=0) + slack)


def random_ceiling(rng: np.random.Generator, samples: Floats, costs: Floats) -> Ceiling:
    """One that is of some use to a curve, or of none."""
    if len(samples) == 0:
        return Ceiling(0.5, 1.0, 1.0)
    rates = np.maximum(0.0, np.quantile(slopes(samples, costs), np.sort(rng.random(2))))
    low, high = float(rng.choice([0.0, rates[0]])), float(rates[1] * rng.choice([1.0, 3.0]))
    return Ceiling(low, high, float(costs.mean() * rng.choice([1e-9, 0.01, 0.1, 1.0])))


def wide(seed: int) -> SlotCase:
    return wide_case(seed, slots=3)


@pytest.mark.parametrize("case_of", [slot_case, contended_case, wide, racked], ids=lambda case_of: case_of.__name__)
@pytest.mark.parametrize("begin", range(0, 120, 40))
def test_below_a_ceiling_nothing_is_missing_and_nothing_is_new(case_of: Callable[[int], SlotCase], begin: int) -> None:
    left_out = kept = 0
    for seed in range(begin, begin + 40):
        case, rng = case_of(seed), np.random.default_rng([seed, 81])
        view, count = case.ledger.view, case.ledger.end
        whole = sweep_curves(view, 0, count, case.ask, case.prices)
        ceiling = random_ceiling(rng, whole.samples[: whole.offsets[1]], whole.costs[: whole.offsets[1]])
        found = sweep_curves(view, 0, count, case.ask, case.prices, ceiling)
        for slot in range(count):
            part, all_of_it = (slice(*of.offsets[slot : slot + 2].tolist()) for of in (found, whole))
            samples, costs, choices = whole.samples[all_of_it], whole.costs[all_of_it], whole.choices[all_of_it]
            at = np.searchsorted(samples, found.samples[part])
            assert found.samples[part].tolist() == samples[at].tolist(), seed
            assert found.costs[part].tolist() == costs[at].tolist(), seed
            assert found.choices[part].tolist() == choices[at].tolist(), seed
            assert np.array_equal(found.ways[part], whole.ways[all_of_it][at], equal_nan=True), seed
            missing = np.delete(np.arange(len(samples)), at)
            assert (costs >= ceilings(samples, costs, ceiling) * (1.0 - 1e-12))[missing].all(), seed
            left_out, kept = left_out + len(missing), kept + len(at)
        assert found.near.tolist() == whole.near.tolist()
    assert left_out > 0
    assert kept > 0


# ------------------------------------------------------------------------------------------- the program over slots


class Drawn:
    """Curves of some slots, whole and below a ceiling."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 82])
        self.slots: list[tuple[Floats, Floats]] = []
        for _ in range(int(rng.integers(4, 40))):
            count = int(rng.integers(0, 9))
            # Roughly convex, more so or less; some slots are like the one before.
            samples = np.cumsum(rng.uniform(0.1, 2.0, count))
            rates = np.sort(rng.uniform(0.1, 4.0, count)) if rng.random() < 0.7 else rng.uniform(0.1, 4.0, count)
            again = bool(self.slots) and rng.random() < 0.2
            drawn = samples, np.cumsum(rates * np.diff(samples, prepend=0.0)) + 0.1 * rng.random()
            self.slots.append(self.slots[-1] if again else drawn)
        self.count = len(self.slots)
        most = sum(float(samples[-1]) for samples, _ in self.slots if len(samples) > 0)
        self.needed = float(rng.uniform(0.05, 0.9)) * most + 0.1
        self.utility = float(rng.choice([20.0, 100.0])) * np.sort(rng.random(self.count))[::-1] + 10.0
        if rng.random() < 0.3:
            self.utility = np.full(self.count, 50.0)
        self.at_least = float(rng.choice([-math.inf, 0.0, 10.0]))
        self.block = int(rng.choice([1, 4, 64]))
        self.grid = int(rng.choice([50, 500]))
        self.rng = rng

    def curves(self, first: int, count: int, ceiling: Ceiling) -> Curves:
        parts = []
        for samples, costs in self.slots[first : first + count]:
            kept = np.flatnonzero(costs < ceilings(samples, costs, ceiling))
            parts.append((samples[kept], costs[kept], kept))
        offsets = np.cumsum([0, *(len(part[0]) for part in parts)], dtype=np.int64)
        samples, costs, choices = (np.concatenate([part[i] for part in parts]) for i in range(3))
        nothing = np.zeros(len(parts) + 1, dtype=np.int64)
        return Curves(offsets, samples, costs, choices, np.full(len(samples), np.nan), nothing, np.empty(0, np.int32))

    def run(self, ceiling: Ceiling) -> tuple[Program, Picks | None]:
        program = Program(self.needed, self.grid, self.utility, self.utility, self.at_least, ceiling)
        while not program.done:
            program.advance(self.curves(program.slots, self.block, ceiling))
        return program, program.plan()

    def near(self, rate: float) -> Ceiling:
        """A ceiling that may do, or not."""
        low = rate * float(self.rng.choice([0.0, self.rng.uniform(0.3, 1.05)]))
        high = rate * float(self.rng.choice([self.rng.uniform(0.95, 2.0), self.rng.uniform(2.0, 10.0)]))
        return Ceiling(low, high, float(10.0 ** self.rng.uniform(-4.0, 1.0)))


def taken(picks: Picks | None) -> list[tuple[int, int]]:
    return [] if picks is None else list(zip(picks.slots.tolist(), picks.choices.tolist(), strict=True))


@pytest.mark.parametrize("begin", range(0, 3000, 500))
def test_a_plan_below_a_ceiling_is_the_plan_of_whole_curves_or_says_that_it_may_not_be(begin: int) -> None:
    sure = unsure = 0
    for seed in range(begin, begin + 500):
        drawn = Drawn(seed)
        program, wanted = drawn.run(ALL)
        assert program.lacking is None
        rate = program._merged.rate if program._merged.rate > 0.0 else 1.0
        for _ in range(4):
            ceiling = drawn.near(rate)
            program, found = drawn.run(ceiling)
            if program.lacking is None:
                assert taken(found) == taken(wanted), seed
                sure += 1
            else:
                unsure += 1
                # What it asks for is enough, or for what comes next.
                for _ in range(3):
                    if program.lacking is not None:
                        program, found = drawn.run(program.lacking)
                assert program.lacking is None, seed
                assert taken(found) == taken(wanted), seed
    assert sure > 100
    assert unsure > 100


@given(st.integers(0, 2**32), st.floats(0.0, 2.0), st.floats(0.5, 20.0), st.floats(1e-6, 1e3))
def test_any_ceiling_will_do_or_is_found_out(seed: int, low: float, high: float, slack: float) -> None:
    drawn = Drawn(seed)
    _, wanted = drawn.run(ALL)
    ceiling: Ceiling | None = Ceiling(low, max(low, high), slack)
    while ceiling is not None:
        program, found = drawn.run(ceiling)
        ceiling = program.lacking
    assert taken(found) == taken(wanted)


def relaxed(slots: list[tuple[Floats, Floats]], needed: float) -> tuple[float, float]:
    """The price of the last sample and the cost of all, by the segments of the hulls in order; +inf if they are few."""
    segments: list[tuple[float, float]] = []
    for samples, costs in slots:
        x, y = 0.0, 0.0
        while (samples > x).any():
            rates = np.where(samples > x, (costs - y) / np.where(samples > x, samples - x, 1.0), np.inf)
            at = int(np.flatnonzero(rates == rates.min())[-1])
            segments.append((float(rates[at]), float(samples[at] - x)))
            x, y = samples[at], costs[at]
    paid, left = 0.0, needed
    for rate, more in sorted(segments):
        paid += rate * min(more, left)
        left -= more
        if left <= 0.0:
            return rate, paid
    return np.inf, np.inf


def test_what_may_win_has_its_rate_between_the_two() -> None:
    apart = 0
    for seed in range(600):
        drawn = Drawn(seed)
        rate, paid = relaxed(drawn.slots, drawn.needed)
        low, high = rate * drawn.rng.uniform(0.7, 1.3), rate * drawn.rng.uniform(1.3, 3.0)
        payoff = float(drawn.utility[-1] - paid + drawn.rng.choice([-1.0, 0.1, 1.0, 10.0]))
        curves = drawn.curves(0, drawn.count, ALL)
        none = _none_wins_apart(*curves[:3], drawn.utility, drawn.needed, low, high, payoff)
        apart += not none
        for last in range(drawn.count if none else 0):
            rate, paid = relaxed(drawn.slots[: last + 1], drawn.needed)
            assert low <= rate <= high or drawn.utility[last] - paid < payoff, seed
    assert 100 < apart < 500


@pytest.mark.parametrize(
    ("ceiling", "utility", "enough"),
    [
        (Ceiling(1.0, 4.0, 5.0), 1000.0, True),
        # No rate near 2 may be beyond the ceiling's.
        (Ceiling(1.0, 2.1, 5.0), 1000.0, False),
        (Ceiling(1.9, 4.0, 5.0), 1000.0, False),
        # Hulls are made without what costs more than a better plan may.
        (Ceiling(1.0, 4.0, 5.0), 0.0, False),
    ],
)
def test_a_ceiling_is_for_rates_nearby_and_for_what_is_not_too_dear(
    ceiling: Ceiling, utility: float, enough: bool
) -> None:
    drawn = Drawn(0)
    samples, costs = np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 7.0])
    # 11 samples of 8 slots, at a rate of 2; 17 is what they cost, a little more than the last slot leaves.
    drawn.slots, drawn.count = [(samples, costs)] * 9, 9
    drawn.needed, drawn.at_least, drawn.block, drawn.grid = 11.5, -math.inf, 64, 500
    drawn.utility = np.append(np.full(8, 1000.0), 1000.0 if utility else 985.5)
    program, _ = drawn.run(ceiling)
    assert program._merged.rate == 2.0
    assert (program.lacking is None) == enough


def test_a_guess_is_right_where_all_slots_are_alike() -> None:
    drawn = Drawn(0)
    samples = np.array([1.0, 2.0, 3.0])
    drawn.slots = [(samples, np.array([1.0, 3.0, 6.0]))] * 60
    # 80 samples of 60 slots: of each one or two, at a rate of 2.
    parts = [drawn.curves(slot, 1, ALL) for slot in (2, 7, 12, 17, 22, 27, 32, 37, 42, 47, 52, 57)]
    found = guess(parts, 5, np.full(12, 1000.0), 80.0, 0.0)
    assert found.low < 2.0 < found.high
    assert found.slack > 0.0
    assert guess(parts, 5, np.full(12, 1000.0), 1e6, 0.0) == ALL


# ------------------------------------------------------------------------------------------------ the planner


def long_case(seed: int) -> tuple[Job, Ledger, Prices]:
    """A job that runs in many slots of a few racks, each machine used for some slots."""
    rng = np.random.default_rng([seed, 83])
    machines, slots = int(rng.integers(6, 30)), int(rng.integers(20, 60))
    rows = [(4.0, 32.0, 64.0) if rng.random() < 0.6 else (0.0, 48.0, 128.0) for _ in range(machines)]
    inside = float(rng.choice([2500.0, 6250.0]))
    racks = (np.arange(machines) // int(rng.integers(2, 6))).tolist()
    cluster = cluster_of(*rows, bandwidth=(6250.0, inside, 625.0), racks=racks)
    ledger = Ledger(cluster, slots)
    for machine in range(machines):
        slot = 0
        while slot < slots:
            end = min(slots, slot + int(rng.integers(1, 8)))
            used = np.floor(cluster.grains[machine] * rng.beta(1.4, 0.6, 1))
            for t in range(slot, end):
                load(ledger, t, machine, used)
            slot = end
    job = paper_job(rng, slots=slots)
    resources = cluster.resources
    worker = {name: float(rng.integers(0 if name == "gpu" else 1, 5)) for name in resources}
    server = {name: float(rng.integers(1, 5)) for name in resources if name != "gpu"}
    utility = Sigmoid(
        float(rng.uniform(1.0, 100.0)), float(rng.choice([0.0, 0.1, 1.0])), float(rng.uniform(1.0, slots))
    )
    batch = int(rng.integers(4, 40))
    workload = job.workload * float(rng.uniform(0.2, 1.5)) * batch / job.batch_size
    job = job_of(
        worker=tuple(worker.values()),
        server=tuple(server.get(name, 0.0) for name in resources),
        batch_size=batch,
        workload=workload,
        speed=job.speed,
        utility=utility,
    )
    low = float(rng.uniform(-9.0, -6.0))
    return job, ledger, Prices(np.full(3, low), rng.uniform(2.0, 6.0, 3), 0, np.sort(rng.uniform(-1.0, 0.0, 4)))


@pytest.mark.parametrize("begin", range(0, 60, 20))
def test_plans_are_the_same_with_a_guess_a_bad_guess_and_without(begin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "_GLANCES", 4)
    guessed = 0
    for seed in range(begin, begin + 20):
        job, ledger, prices = long_case(seed)
        request = survey(job, ledger.cluster, ledger.end)
        if request.reason is not None:
            continue
        planner, rng = Planner(), np.random.default_rng([seed, 84])
        monkeypatch.setattr(planner_module, "_FEWEST_EACH", 10**9)
        wanted = planner.plan(request, ledger, prices)
        monkeypatch.setattr(planner_module, "_FEWEST_EACH", 1)

        def wild(*given: object, by: float) -> Ceiling:
            nonlocal guessed
            guessed += 1
            low, high, slack = guess(*given)  # type: ignore[arg-type]
            return Ceiling(low * by, high * by, slack * by)

        for by in (1.0, float(rng.uniform(0.3, 3.0)), 1e-9, 1e9):
            monkeypatch.setattr(planner_module, "guess", lambda *given, by=by: wild(*given, by=by))
            assert planner.plan(request, ledger, prices) == wanted, (seed, by)
        monkeypatch.setattr(planner_module, "guess", guess)
    assert guessed > 0
