"""From measured speeds to a speed model: coefficients >= 0 that miss the seconds of an iteration least.

Seconds an iteration are a sum of parts, each a coefficient times a quantity that is known for each row (``FittedSpeed``
with servers, ``FittedAllReduce`` without). The coefficients minimise the mean of abs(fitted - measured) / measured,
which is the error that is reported: large and small times count alike. That is a linear program,

    min sum_i abs(x_i c - 1)  over c >= 0,    x_i: the known quantities of row i over its seconds,

solved in its dual, which has a bounded column for each row and a constraint for each coefficient,

    max sum_i u_i  with  sum_i u_i x_i <= 0,  -1 <= u_i <= 1,

as the coefficients are the multipliers of these constraints. A row is left out by fixing its u_i to 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput, SolverFailed
from slotwise.model.speed import FittedAllReduce, FittedSpeed
from slotwise.optim.program import LinearProgram, Matrix, Status
from slotwise.words import counted
from slotwise.workloads.speeds import Measured

__all__ = ["Fit", "fit"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_SERVERS = {
    "overhead": "worker counts and batch sizes that differ more",
    "compute": "other worker counts or batch sizes",
    "transfer": "other ratios of workers to servers",
    "per_server": "other server counts at the same worker count",
    "per_worker": "other worker counts at the same ratio of workers to servers",
}
"""Coefficients of ``FittedSpeed``, and what to measure where the rows do not tell one from the rest."""

_ALL_REDUCE = {
    "overhead": "one worker alone, at several batch sizes",
    "compute": "other batch sizes for each worker",
    "transfer": "several workers inside one machine and between machines",
    "per_worker": "more worker counts, up to many",
    "sync": "several workers inside one machine and between machines",
}
"""The same of ``FittedAllReduce``. Of two that are alike in all rows the first is kept: at a single bandwidth, what
goes over the network counts as transfer."""

_OWN = 2
"""The first coefficients, overhead and compute: all that one worker alone has."""

_ALIKE = 1e-6
"""A column is another one, scaled, if this much of it or less is left when that is taken out."""
_CLOSE = 0.03
"""The same for a combination of all others: less is left than measurements scatter."""
_FEW = 2
"""With fewer configurations than this for each coefficient the error says little."""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A speed model and how well it fits.

    Attributes
    ----------
    measured : Measured
        What it was fitted to.
    speed : FittedSpeed or FittedAllReduce
        The model. Its ``bandwidth`` is the lowest measured, None if the rows have none.
    seconds : (K,) float64
        Of an iteration, by the model, for each row.
    in_sample_error : float
        Mean over the rows of abs(fitted - measured) / measured of the seconds of an iteration.
    leave_one_out_error : float
        The same with each row predicted by a fit to the rows of all other configurations.
    folds : int
        How many such fits there were: one for each configuration. Rows are of one configuration if the model cannot
        tell them apart: equal workers, servers, batch and bandwidth.
    warnings : tuple of str
        What the rows do not determine, and what to measure so that they do.
    """

    measured: Measured
    speed: FittedSpeed | FittedAllReduce
    seconds: Floats
    in_sample_error: float
    leave_one_out_error: float
    folds: int
    warnings: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Of the speed in job files."""
        return "fitted-all-reduce" if self.measured.all_reduce else "fitted"

    @property
    def coefficients(self) -> dict[str, float]:
        """Seconds by their names in job files."""
        names = [field.name for field in fields(self.speed) if not field.name.startswith(("bandwidth", "workers"))]
        return {_field(name): float(getattr(self.speed, name)) for name in names}


def fit(measured: Measured) -> Fit:
    """Fit a speed model to what was measured of one model.

    Raises
    ------
    InvalidInput
        If there is no row, there are fewer configurations than coefficients, or some rows have a bandwidth and others
        none.
    SolverFailed
        If HiGHS ends without a solution.
    """
    if not len(measured):
        raise InvalidInput(
            f"{measured.label}: must have a row with a speed > 0, got {counted(measured.skipped, 'failed run')} and "
            "no other"
        )
    links, reference = _links(measured)
    advice = dict(_ALL_REDUCE if measured.all_reduce else _SERVERS)
    if measured.all_reduce and reference is None:
        # Without bandwidths the two are one: what many workers take beside their own part of the batch.
        del advice["transfer"]
    quantities = _quantities(measured, links, reference)
    scaled = np.column_stack([quantities[name] for name in advice]) / measured.seconds[:, None]
    facts = np.column_stack([measured.workers, measured.servers, measured.batch, links])
    groups = np.unique(facts, axis=0, return_inverse=True)[1].ravel()
    folds = int(groups.max()) + 1
    if folds < len(advice):
        raise InvalidInput(
            f"{measured.label}: distinct configurations measured must be >= {len(advice)}, one for each coefficient "
            f"({', '.join(map(_field, advice))}), got {folds} in {counted(len(measured), 'row')} "
            f"({counted(measured.skipped, 'failed run')} skipped)"
        )
    kept, warnings = _identified(scaled, advice)
    coefficients = _Deviations(scaled[:, kept]).solve()
    names = list(advice)
    for dropped in (("transfer", "sync"), ("per_worker",)):
        if not measured.all_reduce or any(c > 0 for c, j in zip(coefficients, kept, strict=True) if j < _OWN):
            break
        # One worker alone would take no time at all.
        kept = [j for j in kept if names[j] not in dropped]
        coefficients = _Deviations(scaled[:, kept]).solve()
        listed = " and ".join(_field(name) for name in dropped)
        verb, them = ("are", "them") if len(dropped) > 1 else ("is", "it")
        warnings.append(
            f"{listed} {verb} 0: with {them} these rows leave nothing to one worker alone; measure {advice['overhead']}"
        )
    if measured.all_reduce and measured.workers.min() > 1:
        warnings.append(
            f"no row has one worker: its speed is extrapolated from {measured.workers.min()}; measure "
            f"{advice['overhead']}"
        )
    if folds < _FEW * len(kept):
        warnings.append(
            f"only {counted(folds, 'configuration')} for {counted(len(kept), 'coefficient')}: "
            f"the leave-one-out error is rough; measure {_FEW * len(kept)} or more"
        )
    found = dict.fromkeys(("overhead", "compute", "transfer", "per_worker"), 0.0)
    found["sync" if measured.all_reduce else "per_server"] = 0.0
    found |= {names[j]: float(c) for j, c in zip(kept, coefficients, strict=True)}
    kind = FittedAllReduce if measured.all_reduce else FittedSpeed
    ratio = scaled[:, kept] @ coefficients
    return Fit(
        measured,
        kind(**found, bandwidth=reference),
        ratio * measured.seconds,
        float(np.abs(ratio - 1.0).mean()),
        _left_out(scaled[:, kept], groups),
        folds,
        tuple(f"{measured.label}: {warning}" for warning in warnings),
    )


def _links(measured: Measured) -> tuple[Floats, float | None]:
    """Return the bandwidth of each row, and the reference: the lowest of those that matter, None if there are none.

    One worker without servers talks to nobody; such a row takes the reference.
    """
    talks = (measured.workers > 1) | (measured.servers > 0)
    given = ~np.isnan(measured.bandwidth)
    if not (given & talks).any():
        return np.zeros(len(measured)), None
    if not given[talks].all():
        raise InvalidInput(
            f"{measured.label}: bandwidth or placement must be given in all rows or in none, got it in "
            f"{int((given & talks).sum())} of {counted(int(talks.sum()), 'row')} with a network"
        )
    reference = float(measured.bandwidth[talks].min())
    return np.where(talks, measured.bandwidth, reference), reference


def _quantities(measured: Measured, links: Floats, reference: float | None) -> Mapping[str, Floats]:
    """Return what each coefficient is multiplied by, (K,) each."""
    workers = measured.workers.astype(np.float64)
    scale = np.ones(len(measured)) if reference is None else reference / links
    shared = {"overhead": np.ones(len(measured)), "compute": measured.batch / workers}
    if measured.all_reduce:
        share = (workers - 1.0) / workers
        return shared | {"transfer": scale * share, "per_worker": workers - 1.0, "sync": share}
    servers = measured.servers.astype(np.float64)
    return shared | {"transfer": scale * workers / servers, "per_server": scale * servers, "per_worker": workers}


def _field(name: str) -> str:
    """Return a coefficient's name in job files."""
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


class _Deviations:
    """The linear program over some rows, solved again with others left out.

    Parameters
    ----------
    scaled : (K, C) float64
        Known quantities over measured seconds, >= 0; no column is 0 throughout.
    """

    def __init__(self, scaled: Floats) -> None:
        self.sizes = scaled.max(axis=0)
        self.scaled = scaled / self.sizes
        rows, count = self.scaled.shape
        self.constraints = np.arange(count, dtype=np.int64)
        self.open = np.full(count, -np.inf)
        self.total = self.scaled.sum(axis=0)
        owners = np.repeat(np.arange(rows, dtype=np.int64), count)
        matrix = Matrix.of(owners, np.tile(self.constraints, rows), self.scaled.ravel(), rows)
        # Lower bounds of a program are 0, so its columns are u + 1.
        self.upper = np.full(rows, 2.0)
        self.program = LinearProgram(np.ones(rows), matrix, self.open, self.total, self.upper, maximise=True)

    def solve(self, out: npt.NDArray[np.bool_] | None = None) -> Floats:
        """Return the coefficients, (C,) float64 >= 0, without the rows of a (K,) mask."""
        upper, total = self.upper, self.total
        if out is not None:
            upper, total = np.where(out, 0.0, upper), total - self.scaled[out].sum(axis=0)
        # Anew each time: of several best answers, that from where the last solve ended would be the one that fits the
        # rows left out.
        self.program.forget()
        self.program.set_upper(upper)
        self.program.set_rows(self.constraints, self.open, total)
        solution = self.program.solve()
        if solution.status is not Status.OPTIMAL or len(solution.duals) != len(self.total):
            raise SolverFailed(f"HiGHS ended with {solution.status.value} at fitting {len(self.total)} coefficients")
        duals = solution.duals
        coefficients: Floats = np.maximum(duals, 0.0) / self.sizes
        return coefficients


def _left_out(scaled: Floats, groups: Ints) -> float:
    """Return the mean error of rows that are predicted from the rows of all other groups."""
    program = _Deviations(scaled)
    errors = np.zeros(len(scaled))
    for group in range(int(groups.max()) + 1):
        out = groups == group
        errors[out] = np.abs(scaled[out] @ program.solve(out) - 1.0)
    return float(errors.mean())


def _identified(scaled: Floats, advice: Mapping[str, str]) -> tuple[list[int], list[str]]:
    """Return which coefficients to fit, and what the rows do not determine.

    A column that is 0 in all rows, or an earlier one scaled, is left out: with it the fit would be no better.
    """
    names = list(advice)
    lengths = np.linalg.norm(scaled, axis=0)
    unit = scaled / np.where(lengths > 0, lengths, 1.0)
    kept: list[int] = []
    warnings: list[str] = []
    for j, name in enumerate(names):
        if lengths[j] == 0:
            warnings.append(f"{_field(name)} is 0: no row says anything of it; measure {advice[name]}")
            continue
        twin = next((i for i in kept if np.linalg.norm(unit[:, j] - unit[:, i]) <= _ALIKE), None)
        if twin is None:
            kept.append(j)
        else:
            warnings.append(
                f"{_field(name)} cannot be told from {_field(names[twin])}, which holds both, and is 0; measure "
                f"{advice[name]}"
            )
    loose = []
    for j in kept:
        others = unit[:, [i for i in kept if i != j]]
        if others.shape[1]:
            rest = unit[:, j] - others @ np.linalg.lstsq(others, unit[:, j], rcond=None)[0]
            if np.linalg.norm(rest) <= _CLOSE:
                loose.append(names[j])
    if loose:
        said = [_field(name) for name in loose]
        listed = ", ".join(said[:-1]) + f" and {said[-1]}" if len(said) > 1 else said[0]
        todo = "; ".join(dict.fromkeys(advice[name] for name in loose))
        warnings.append(f"{listed} can hardly be told apart and may be off one by one; measure {todo}")
    return kept, warnings
