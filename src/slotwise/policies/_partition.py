"""The program of ``dorm`` on plain arrays: how many workers each job has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from slotwise.optim.program import LinearProgram, Matrix, Status

__all__ = ["GAP", "OVER_LIMIT", "fair_shares", "partition"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

GAP = 1e-3
"""Relative gap at which the program counts as solved: a limit that does not depend on the machine, as time does."""

_NODES = 50
"""Nodes of the search after which the best that was found is taken."""

_WHOLE = 1e-7
"""By how much a whole number may be missed when a solution is rounded down."""

OVER_LIMIT = 10.0
"""What a unit of fairness loss beyond the limit costs, in clusters full of every resource."""


def fair_shares(demand: Floats, most: Ints) -> Floats:
    """Return the dominant shares, (J,), of dominant resource fairness if workers could be divided.

    All dominant shares rise together; a job stops when it has ``most`` workers, (J,), or when a resource that it needs
    is used up. ``demand``, (J, R), is what one worker takes of the cluster.
    """
    dominant = demand.max(axis=1)
    shares = np.zeros(len(most))
    free = np.ones(demand.shape[1])
    rises = dominant > 0
    per_share = np.divide(demand, dominant[:, None], out=np.zeros_like(demand), where=rises[:, None])
    level = 0.0
    while rises.any():
        use = per_share[rises].sum(axis=0)
        room = np.divide(free, use, out=np.full(len(free), np.inf), where=use > 0)
        full = float((most * dominant)[rises].min())
        step = min(full - level, float(room.min()))
        level += step
        shares[rises] = level
        free = np.maximum(free - step * use, 0.0)
        free[room <= step] = 0.0
        stuck = (per_share[:, free <= 0.0] > 0).any(axis=1)
        rises &= ~stuck & (most * dominant > level)
    return shares


def partition(
    demand: Floats,
    fewest: Ints,
    most: Ints,
    before: Ints,
    *,
    loss_limit: float,
    most_adjusted: int,
) -> Ints:
    """Return how many workers, (J,), each job has: fewest <= n_j <= most, and as much of the cluster in use as can be.

    It is the mixed-integer program, solved to ``GAP`` or to what the first nodes of the search find,

        max   Σ_jr d_j^r n_j - OVER_LIMIT R e
        with  Σ_j d_j^r n_j <= 1                          for each resource r
              Σ_j |σ_j n_j - ŝ_j| <= loss_limit + e       σ_j = max_r d_j^r, ŝ_j of ``fair_shares``, e >= 0
              Σ_j [n_j != before_j] <= most_adjusted      over jobs that had workers before

    Parameters
    ----------
    demand : (J, R) float64
        d, what one worker takes of the cluster.
    fewest, most : (J,) int64
        Bounds.
    before : (J,) int64
        Workers until now, within the bounds; 0 for a job that starts.
    loss_limit : float
        Of the fairness loss.
    most_adjusted : int
        Jobs that may be given other workers than they have. Some choice of them must leave room for those who start.
    """
    jobs, resources = demand.shape
    dominant = demand.max(axis=1)
    fair = fair_shares(demand, most)
    runs = np.flatnonzero(before > 0)
    every = np.arange(jobs)
    # |s - ŝ| = s - ŝ + 2 (ŝ - s)⁺: the last term, what a job is short of, is a column where it can be more than 0.
    short = np.flatnonzero(dominant * fewest < fair)
    # Columns: workers above the fewest; whether a running job is adjusted; what a job is short of; e.
    adjusted, lacks, over = jobs + np.arange(len(runs)), jobs + len(runs) + np.arange(len(short)), jobs + len(runs)
    over += len(short)
    count = over + 1
    # Rows: resources; growing and shrinking of running jobs; what jobs are short of; sum of losses; adjustments.
    grown = resources + np.arange(len(runs))
    shrunk = grown + len(runs)
    below = resources + 2 * len(runs) + np.arange(len(short))
    losses = resources + 2 * len(runs) + len(short)
    job, resource = np.nonzero(demand)
    entries: list[tuple[Ints, Ints, Floats]] = [
        (job, resource, demand[job, resource]),
        (runs, grown, np.ones(len(runs))),
        (adjusted, grown, -(most - before)[runs].astype(np.float64)),
        (runs, shrunk, -np.ones(len(runs))),
        (adjusted, shrunk, -(before - fewest)[runs].astype(np.float64)),
        (short, below, -dominant[short]),
        (lacks, below, -np.ones(len(short))),
        (every, np.full(jobs, losses), dominant),
        (lacks, np.full(len(short), losses), np.full(len(short), 2.0)),
        (np.array([over]), np.array([losses]), np.array([-1.0])),
        (adjusted, np.full(len(runs), losses + 1), np.ones(len(runs))),
    ]
    columns, rows = (np.concatenate([entry[i] for entry in entries]).astype(np.int64) for i in range(2))
    values = np.concatenate([entry[2] for entry in entries])
    kept = values != 0
    row_upper = np.concatenate(
        [
            1.0 - fewest @ demand,
            (before - fewest)[runs],
            (fewest - before)[runs],
            (dominant * fewest - fair)[short],
            [loss_limit + float((fair - dominant * fewest).sum()), float(most_adjusted)],
        ]
    )
    # What the fewest workers use and lose is left out of the objective.
    costs = np.zeros(count)
    costs[:jobs] = demand.sum(axis=1)
    costs[over] = -OVER_LIMIT * resources
    upper = np.full(count, np.inf)
    upper[:jobs] = most - fewest
    upper[adjusted] = 1.0
    given = costs, Matrix.of(columns[kept], rows[kept], values[kept], count)
    sides = np.full(len(row_upper), -np.inf), row_upper

    def worth(workers: Ints) -> float:
        beyond = np.abs(dominant * workers - fair).sum() - loss_limit
        return float((workers @ demand).sum() - OVER_LIMIT * resources * max(0.0, beyond))

    # Most often rounding comes near enough to the linear program: then the integer one need not be solved.
    linear = LinearProgram(*given, *sides, upper, maximise=True)
    relaxed = linear.solve()
    assert relaxed.status is Status.OPTIMAL  # who is cut to the fewest for those who start is one choice
    bound = relaxed.objective + float((fewest @ demand).sum())
    chosen = runs[np.argsort(-relaxed.values[adjusted], kind="stable")[:most_adjusted]]
    free = before == 0
    free[chosen] = True
    upper[adjusted] = free[runs]
    linear.set_upper(upper)
    rounded = linear.solve()
    best = None
    if rounded.status is Status.OPTIMAL:
        down = fewest + np.floor(rounded.values[:jobs] + _WHOLE).astype(np.int64)
        best = _filled(np.where(free, down, before), demand, np.where(free, most, before), fair, loss_limit)
        if worth(best) >= bound - GAP * abs(bound):
            return best
    upper[adjusted] = 1.0
    integer = np.arange(count) < jobs + len(runs)
    solution = LinearProgram(*given, *sides, upper, maximise=True, integer=integer).solve(gap=GAP, nodes=_NODES)
    if len(solution.values):
        found = fewest + np.rint(solution.values[:jobs]).astype(np.int64)
        if best is None or worth(found) > worth(best):
            return found
    return np.maximum(before, fewest) if best is None else best


def _filled(workers: Ints, demand: Floats, most: Ints, fair: Floats, loss_limit: float) -> Ints:
    """Return counts to which workers are added while they fit and the objective gains.

    Next comes the one that gains most for what it takes of what is left: what is scarce is dear.
    """
    dominant = demand.max(axis=1)
    penalty = OVER_LIMIT * demand.shape[1]
    room = 1.0 - workers @ demand
    beyond = float(np.abs(dominant * workers - fair).sum()) - loss_limit
    while True:
        more = np.abs(dominant * (workers + 1) - fair) - np.abs(dominant * workers - fair)
        gain = demand.sum(axis=1) - penalty * (np.maximum(beyond + more, 0.0) - max(beyond, 0.0))
        gain[(workers >= most) | (demand > room).any(axis=1)] = 0.0
        job = int(np.argmax(gain / (demand @ (1.0 / np.maximum(room, 1e-9)))))
        if gain[job] <= 0.0:
            return workers
        workers[job] += 1
        room = room - demand[job]
        beyond += float(more[job])
