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

    It is the mixed-integer program

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
    # Columns: workers above the fewest; whether a running job is adjusted; fairness loss of each job; e.
    adjusted, loss, over = jobs + np.arange(len(runs)), jobs + len(runs) + every, 2 * jobs + len(runs)
    count = over + 1
    # Rows: resources; growing and shrinking of running jobs; too much and too little; sum of losses; adjustments.
    grown = resources + np.arange(len(runs))
    shrunk = grown + len(runs)
    above = resources + 2 * len(runs) + every
    below = above + jobs
    losses = resources + 2 * len(runs) + 2 * jobs
    job, resource = np.nonzero(demand)
    entries: list[tuple[Ints, Ints, Floats]] = [
        (job, resource, demand[job, resource]),
        (runs, grown, np.ones(len(runs))),
        (adjusted, grown, -(most - before)[runs].astype(np.float64)),
        (runs, shrunk, -np.ones(len(runs))),
        (adjusted, shrunk, -(before - fewest)[runs].astype(np.float64)),
        (every, above, dominant),
        (loss, above, -np.ones(jobs)),
        (every, below, -dominant),
        (loss, below, -np.ones(jobs)),
        (loss, np.full(jobs, losses), np.ones(jobs)),
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
            fair - dominant * fewest,
            dominant * fewest - fair,
            [loss_limit, float(most_adjusted)],
        ]
    )
    costs = np.zeros(count)
    costs[:jobs] = demand.sum(axis=1)
    costs[over] = -OVER_LIMIT * resources
    upper = np.full(count, np.inf)
    upper[:jobs] = most - fewest
    upper[adjusted] = 1.0
    integer = np.zeros(count, dtype=np.bool_)
    integer[: jobs + len(runs)] = True
    program = LinearProgram(
        costs,
        Matrix.of(columns[kept], rows[kept], values[kept], count),
        np.full(len(row_upper), -np.inf),
        row_upper,
        upper,
        maximise=True,
        integer=integer,
    )
    solution = program.solve(gap=GAP)
    assert solution.status is Status.OPTIMAL
    return fewest + np.rint(solution.values[:jobs]).astype(np.int64)
