"""The doorway to the solver: every outcome has its status, and a changed program is the same as a new one."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from slotwise.optim.program import LinearProgram, Matrix, Status

Floats = npt.NDArray[np.float64]
INF = math.inf


def dense(rows: list[list[float]]) -> Matrix:
    table = np.array(rows)
    at = np.argwhere(table.T != 0)
    return Matrix.of(at[:, 0], at[:, 1], table.T[at[:, 0], at[:, 1]], table.shape[1])


def knapsack(values: list[float], weights: list[float], room: float, *, whole: bool = False) -> LinearProgram:
    count = len(values)
    integer = np.ones(count, dtype=np.bool_) if whole else None
    sides = np.array([-INF]), np.array([room])
    matrix = dense([weights])
    return LinearProgram(np.array(values), matrix, *sides, np.ones(count), maximise=True, integer=integer)


def test_a_linear_program_has_values_and_duals() -> None:
    solution = knapsack([6.0, 5.0, 1.0], [2.0, 2.0, 2.0], 3.0).solve()
    assert solution.status is Status.OPTIMAL
    assert solution.objective == solution.bound == pytest.approx(8.5)
    assert solution.values == pytest.approx([1.0, 0.5, 0.0])
    assert solution.duals == pytest.approx([2.5])  # one more unit of room lets in half of the second


def test_a_mixed_integer_program_is_whole() -> None:
    solution = knapsack([6.0, 5.0, 1.0], [2.0, 2.0, 2.0], 3.0, whole=True).solve()
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(6.0)
    assert solution.bound == pytest.approx(6.0)
    assert solution.values == pytest.approx([1.0, 0.0, 0.0])


def test_a_program_without_a_solution_says_so() -> None:
    program = LinearProgram(np.ones(1), dense([[1.0]]), np.array([2.0]), np.array([INF]), np.ones(1))
    solution = program.solve()
    assert solution.status is Status.INFEASIBLE
    assert math.isnan(solution.objective)
    assert len(solution.values) == len(solution.duals) == 0


def test_a_time_limit_leaves_a_bound() -> None:
    rng = np.random.default_rng(0)
    # Many equal ratios: hard to prove, easy to bound.
    weights = rng.integers(10**5, 2 * 10**5, size=60).astype(float) * 2.0
    program = knapsack(weights.tolist(), weights.tolist(), float(weights.sum() // 2 // 2 * 2 + 1), whole=True)
    solution = program.solve(seconds=0.05)
    assert solution.status in (Status.STOPPED, Status.OPTIMAL)
    assert solution.bound >= 0.99 * weights.sum() / 2


def test_a_changed_program_equals_a_new_one() -> None:
    rng = np.random.default_rng(5)
    columns, rows = 6, 4
    matrix = dense(rng.uniform(0.5, 3.0, size=(rows, columns)).tolist())
    program = LinearProgram(
        np.zeros(columns), matrix, np.full(rows, -INF), np.ones(rows), np.zeros(columns), maximise=True
    )
    for _ in range(20):
        costs, upper = rng.uniform(-1.0, 5.0, columns), rng.uniform(0.0, 2.0, columns)
        sides = rng.uniform(0.5, 5.0, rows)
        program.set_costs(costs)
        program.set_upper(upper)
        program.set_rows(np.arange(rows), np.full(rows, -INF), sides)
        new = LinearProgram(costs, matrix, np.full(rows, -INF), sides, upper, maximise=True)
        assert program.solve().objective == pytest.approx(new.solve().objective, rel=1e-9, abs=1e-9)


def test_added_columns_count() -> None:
    program = knapsack([1.0], [1.0], 2.0)
    assert program.solve().objective == pytest.approx(1.0)
    program.add(np.array([3.0, 2.0]), dense([[1.0, 1.0]]), np.array([0.5, INF]))
    assert program.solve().objective == pytest.approx(4.5)


def test_duals_have_the_sign_of_what_a_row_gains() -> None:
    # At least two of something that costs 3: one more costs 3.
    program = LinearProgram(np.array([3.0]), dense([[1.0]]), np.array([2.0]), np.array([INF]), np.array([9.0]))
    solution = program.solve()
    assert solution.objective == pytest.approx(6.0)
    assert solution.duals == pytest.approx([3.0])


def test_a_limit_to_the_nodes_stops_the_search() -> None:
    rng = np.random.default_rng(0)
    whole = np.ones(40, dtype=np.bool_)
    weights = rng.uniform(1.0, 2.0, size=(3, 40))
    program = LinearProgram(
        weights.sum(axis=0),
        dense(weights.tolist()),
        np.full(3, -INF),
        np.full(3, 20.5),
        np.ones(40),
        maximise=True,
        integer=whole,
    )
    stopped = program.solve(nodes=1, gap=1e-9)
    assert stopped.status is Status.STOPPED
    assert stopped.bound >= stopped.objective
