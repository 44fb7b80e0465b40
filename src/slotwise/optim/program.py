"""The one doorway to the LP and MILP solver (HiGHS): arrays in, one ``Solution`` out."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import SolverFailed

__all__ = ["LinearProgram", "Matrix", "Solution", "Status"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_TIGHT = 1e-9
"""By how much a row or a whole number of a mixed-integer program may be missed: a thousandth of what HiGHS allows."""


class Status(enum.Enum):
    """Every outcome of a solve. Look at it before anything else of a solution."""

    OPTIMAL = "optimal"
    """To the tolerances, or to the gap that was asked for."""
    INFEASIBLE = "infeasible"
    """No point satisfies all rows and bounds (or, if there is one, the objective has no end)."""
    STOPPED = "stopped"
    """Out of time or nodes; there may be a solution, and there is a bound."""


@dataclass(frozen=True, slots=True, eq=False)
class Matrix:
    """A sparse matrix by columns.

    Attributes
    ----------
    starts : (columns + 1,) int64
        Where each column begins in the other two.
    rows : (entries,) int64
        Row of each entry.
    values : (entries,) float64
        Its coefficient.
    """

    starts: Ints
    rows: Ints
    values: Floats

    @classmethod
    def of(cls, columns: Ints, rows: Ints, values: Floats, count: int) -> Matrix:
        """Build from triplets in any order; ``count`` columns in all."""
        order = np.argsort(columns, kind="stable")
        sizes = np.bincount(columns, minlength=count)
        return cls(np.concatenate([[0], np.cumsum(sizes)]), rows[order], values[order])


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What came out of a solve.

    Attributes
    ----------
    status : Status
        Whether the rest means anything.
    objective : float
        Of ``values``; nan without any.
    bound : float
        No solution is better than this. The objective itself for an optimal linear program.
    values : (columns,) float64
        Empty if none was found.
    duals : (rows,) float64
        What the objective gains for each unit by which the row's active side moves up; linear programs only, else
        empty.
    """

    status: Status
    objective: float
    bound: float
    values: Floats
    duals: Floats


class LinearProgram:
    """A linear or mixed-integer program that is built once and then changed.

    Solving again after a change starts from where the last solve ended.

    Parameters
    ----------
    costs : (n,) float64
        Objective coefficients.
    matrix : Matrix
        n columns, m rows.
    row_lower, row_upper : (m,) float64
        Sides of the rows, infinite where there is none.
    upper : (n,) float64
        Upper bounds of the columns; all lower bounds are 0.
    maximise : bool
        Sense of the objective.
    integer : (n,) bool, optional
        Columns that must be whole.
    """

    def __init__(
        self,
        costs: Floats,
        matrix: Matrix,
        row_lower: Floats,
        row_upper: Floats,
        upper: Floats,
        *,
        maximise: bool = False,
        integer: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        import highspy

        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(costs), len(row_lower)
        program.sense_ = highspy.ObjSense.kMaximize if maximise else highspy.ObjSense.kMinimize
        program.col_cost_ = costs
        program.col_lower_, program.col_upper_ = np.zeros(len(costs)), upper
        program.row_lower_, program.row_upper_ = row_lower, row_upper
        program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        program.a_matrix_.start_ = matrix.starts.astype(np.int32)
        program.a_matrix_.index_ = matrix.rows.astype(np.int32)
        program.a_matrix_.value_ = matrix.values
        if integer is not None:
            kinds = highspy.HighsVarType
            program.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in integer]
        self._whole = integer is not None and bool(integer.any())
        self._highs: highspy.Highs = highspy.Highs()  # type: ignore[no-untyped-call]  # has no types of its own
        self._highs.silent()
        # Threads would make the outcome depend on the machine.
        self._set("threads", 1)
        if self._whole:
            # Presolve of 1.15.1 calls some programs infeasible that are not; on ours it gains no time.
            self._set("presolve", "off")
            self._set("mip_feasibility_tolerance", _TIGHT)
            self._set("primal_feasibility_tolerance", _TIGHT)
        self._check(self._highs.passModel(program), "reading the program")

    def _set(self, option: str, value: float | str) -> None:
        self._check(self._highs.setOptionValue(option, value), f"setting {option}")

    def _check(self, status: object, doing: str) -> None:
        import highspy

        if status == highspy.HighsStatus.kError:
            raise SolverFailed(f"HiGHS failed at {doing}")

    def set_costs(self, costs: Floats) -> None:
        """Change all objective coefficients."""
        columns = np.arange(len(costs), dtype=np.int32)
        self._check(self._highs.changeColsCost(len(costs), columns, costs), "changing costs")

    def set_upper(self, upper: Floats) -> None:
        """Change all upper bounds of columns."""
        columns = np.arange(len(upper), dtype=np.int32)
        self._check(self._highs.changeColsBounds(len(upper), columns, np.zeros(len(upper)), upper), "changing bounds")

    def set_rows(self, rows: Ints, lower: Floats, upper: Floats) -> None:
        """Change both sides of some rows."""
        for row, low, high in zip(rows.tolist(), lower.tolist(), upper.tolist(), strict=True):
            self._check(self._highs.changeRowBounds(row, low, high), "changing rows")

    def add(self, costs: Floats, matrix: Matrix, upper: Floats) -> None:
        """Add columns over the rows that there are."""
        count = len(costs)
        starts, rows = matrix.starts[:-1].astype(np.int32), matrix.rows.astype(np.int32)
        entries = len(matrix.values)
        status = self._highs.addCols(count, costs, np.zeros(count), upper, entries, starts, rows, matrix.values)
        self._check(status, "adding columns")

    def forget(self) -> None:
        """Start the next solve from nothing, so that it does not depend on the ones before."""
        self._check(self._highs.clearSolver(), "clearing the solver")

    def solve(self, *, seconds: float | None = None, nodes: int | None = None, gap: float = 0.0) -> Solution:
        """Solve.

        Parameters
        ----------
        seconds : float, optional
            Time limit.
        nodes : int, optional
            Limit to the nodes of the search of a mixed-integer program: unlike time it is the same everywhere.
        gap : float
            Relative gap at which a mixed-integer program counts as solved.

        Raises
        ------
        SolverFailed
            If HiGHS ends in any way that is no ``Status``.
        """
        import highspy

        if seconds is not None:
            # HiGHS counts the time of all solves of a program.
            self._set("time_limit", self._highs.getRunTime() + seconds)
        if self._whole:
            self._set("mip_rel_gap", gap)
            self._set("mip_abs_gap", 0.0)
            if nodes is not None:
                self._set("mip_max_nodes", nodes)
        self._check(self._highs.run(), "solving")
        outcome = self._highs.getModelStatus()
        statuses = highspy.HighsModelStatus
        status = {
            statuses.kOptimal: Status.OPTIMAL,
            statuses.kModelEmpty: Status.OPTIMAL,
            statuses.kInfeasible: Status.INFEASIBLE,
            statuses.kUnboundedOrInfeasible: Status.INFEASIBLE,
            statuses.kTimeLimit: Status.STOPPED,
            statuses.kSolutionLimit: Status.STOPPED,
        }.get(outcome)
        if status is None:
            raise SolverFailed(f"HiGHS ended with {self._highs.modelStatusToString(outcome)!r}")
        info, solution = self._highs.getInfo(), self._highs.getSolution()
        found = status is not Status.INFEASIBLE and solution.value_valid
        values = np.array(solution.col_value) if found else np.empty(0)
        objective = float(info.objective_function_value) if found else float("nan")
        bound = float(info.mip_dual_bound) if self._whole else objective
        duals = np.array(solution.row_dual) if found and solution.dual_valid else np.empty(0)
        return Solution(status, objective, bound, values, duals)
