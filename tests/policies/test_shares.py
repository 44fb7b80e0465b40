"""Shares of time beside the plain programs, one row for each rule."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.optim.program import LinearProgram, Matrix, Status
from slotwise.policies._shares import Gangs, finish_time_shares, max_min_shares

Floats = npt.NDArray[np.float64]

RESOURCES = 2

MOST = 1e3
"""What t is at most, so that it ends where nothing depends on it."""


def plain(gangs: Gangs, least: Floats, times: Floats) -> LinearProgram:
    """Max t with x_j >= least_j + times_j t, x_j <= 1, over x, t and every part on every type."""
    jobs, (parts, types) = len(gangs.dominant), gangs.able.shape
    columns: list[tuple[int, int, float]] = []
    lower: list[float] = []
    upper: list[float] = []

    def row(entries: list[tuple[int, float]], low: float, high: float) -> None:
        columns.extend((column, len(lower), value) for column, value in entries if value != 0.0)
        lower.append(low)
        upper.append(high)

    t = jobs

    def on(part: int, kind: int) -> int:
        return int(jobs + 1 + part * types + kind)

    for j in range(jobs):
        row([(j, 1.0), (t, -float(times[j]))], float(least[j]), np.inf)
    for p in range(parts):
        row([(int(gangs.owner[p]), -1.0), *((on(p, k), 1.0) for k in range(types))], 0.0, 0.0)
    for k in range(types):
        for r in range(gangs.capacity.shape[1]):
            row([(on(p, k), float(gangs.demand[p, r])) for p in range(parts)], -np.inf, float(gangs.capacity[k, r]))
    count = jobs + 1 + parts * types
    bounds = np.concatenate([np.ones(jobs), [MOST], np.where(gangs.able, np.inf, 0.0).ravel()])
    costs = np.zeros(count)
    costs[t] = 1.0
    column, at, value = (np.array(part) for part in zip(*columns, strict=True))
    matrix = Matrix.of(column.astype(np.int64), at.astype(np.int64), value.astype(np.float64), count)
    return LinearProgram(costs, matrix, np.array(lower), np.array(upper), bounds, maximise=True)


@st.composite
def instances(draw: st.DrawFn) -> Gangs:
    jobs = draw(st.integers(1, 5))
    amounts = st.lists(st.integers(0, 3), min_size=RESOURCES, max_size=RESOURCES)
    machines = draw(
        st.lists(st.lists(st.integers(1, 8), min_size=RESOURCES, max_size=RESOURCES), min_size=1, max_size=5)
    )
    capacity = np.array([[9.0, 3.0], *machines], dtype=np.float64)
    worker = np.array([draw(amounts) for _ in range(jobs)], dtype=np.float64)
    worker[:, 1] = np.maximum(worker[:, 1], 1.0)
    server = np.array([draw(amounts) for _ in range(jobs)], dtype=np.float64)
    workers = np.array([draw(st.integers(1, 9)) for _ in range(jobs)])
    servers = np.array([draw(st.integers(0, 5)) for _ in range(jobs)])
    return Gangs.of(worker, server, workers, servers, capacity)


def assert_fit(gangs: Gangs, shares: Floats) -> None:
    assert ((shares >= 0) & (shares <= 1)).all()
    zero = np.zeros(len(shares))
    assert plain(gangs, shares * (1 - 1e-6), zero).solve().status is Status.OPTIMAL


@given(instances(), st.data())
def test_max_min_is_the_optimum_of_the_plain_program(gangs: Gangs, data: st.DataObject) -> None:
    jobs = len(gangs.dominant)
    weights = np.array([data.draw(st.sampled_from([0.5, 1.0, 3.0])) for _ in range(jobs)])

    shares = max_min_shares(gangs, weights)

    best = plain(gangs, np.zeros(jobs), weights / gangs.dominant).solve()
    assert float((shares * gangs.dominant / weights).min()) == pytest.approx(best.objective, rel=1e-6)
    assert_fit(gangs, shares)


@settings(max_examples=25)
@given(instances(), st.data())
def test_finish_time_is_the_optimum_that_plain_bisection_finds(gangs: Gangs, data: st.DataObject) -> None:
    jobs = len(gangs.dominant)
    some = st.floats(0.25, 20.0)
    work, ideal = (np.array([data.draw(some) for _ in range(jobs)]) for _ in range(2))
    elapsed = np.array([float(data.draw(st.integers(0, 9))) for _ in range(jobs)])

    shares = finish_time_shares(gangs, work, elapsed, ideal)

    low, high = float(((work + elapsed) / ideal).max()), 1e6

    def fits(ratio: float) -> bool:
        least = np.minimum(1.0, work / (ratio * ideal - elapsed))
        return plain(gangs, least, np.zeros(jobs)).solve().status is Status.OPTIMAL

    if not fits(low):
        while high - low > 1e-8 * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if fits(middle) else (middle, high)
    found = float(((elapsed + work / shares) / ideal).max())
    assert found == pytest.approx(low, rel=1e-6)
    assert_fit(gangs, shares)


def test_machines_that_hold_the_same_are_of_one_type() -> None:
    """Workers of 2 GPUs fit m0 and m1, servers of 4 CPUs m1 and m2; m3 holds neither."""
    one = np.ones(1, dtype=np.int64)
    capacity = np.array([[2.0, 1.0], [2.0, 4.0], [0.0, 8.0], [1.0, 1.0]])

    gangs = Gangs.of(np.array([[2.0, 0.0]]), np.array([[0.0, 4.0]]), one, one, capacity)

    assert gangs.able.shape == (2, 4)
    assert gangs.dominant == pytest.approx([2 / 5])
    assert gangs.runs.tolist() == [True]


def test_a_gang_without_machines_gets_nothing_and_does_not_count() -> None:
    one = np.ones(2, dtype=np.int64)
    gangs = Gangs.of(np.array([[2.0], [1.0]]), np.zeros((2, 1)), one, 0 * one, np.array([[1.0], [1.0]]))

    assert max_min_shares(gangs, np.ones(2)).tolist() == [0.0, 1.0]
    assert finish_time_shares(gangs, np.ones(2), np.zeros(2), np.ones(2)).tolist() == [0.0, 1.0]
