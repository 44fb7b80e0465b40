"""Tiresias: job traces, and its cluster specifications.

A trace is a CSV with a header; its columns may be in any order and beside others::

    job_id,num_gpu,submit_time,iterations,model_name,duration,interval

``submit_time`` and ``duration`` are in seconds, and ``interval`` is the gap to the *next* job: it says
nothing that the submit times do not, and is not used; nor are the iterations, as the duration is what
counts. A job has as many workers as GPUs, each with one, and is all-reduce. The size of a model comes from
our table where the table knows its name.

A cluster specification is a CSV with a header and one row::

    num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import polars as pl

from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import LARGEST_WORKERS
from slotwise.units import LARGEST_AMOUNT
from slotwise.workloads._recorded import GPU_WORKERS, Recorded
from slotwise.workloads._rows import (
    LARGEST_SECONDS,
    Layout,
    Progress,
    Table,
    bad_name,
    bad_number,
    bad_width,
    nothing_usable,
    number,
    refusal,
    sift,
)

__all__ = ["CLUSTER_COLUMNS", "COLUMNS", "MOST_MACHINES", "read_cluster", "records"]

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")
"""Columns of a job trace."""

CLUSTER_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
"""Columns of a cluster specification; memory in GiB."""

MOST_MACHINES = 100_000
"""Most machines of a cluster specification."""


def records(path: Path, *, strict: bool = False, progress: Progress | None = None) -> Recorded:
    """Read a Tiresias job trace.

    Parameters
    ----------
    path : Path
        The trace, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.
    progress : callable, optional
        Told how many bytes have been read.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no row is usable, or ``strict`` and a row is
        malformed.
    """
    table, skipped = _LAYOUT.read(path, strict=strict, progress=progress)
    return Recorded(path, "tiresias", table.rows, assumed=_ASSUMED, skipped=skipped)


_LAYOUT = Layout(
    columns=COLUMNS,
    wanted=("job_id", "num_gpu", "submit_time", "model_name", "duration"),
    key="job_id",
    what="job",
    checks=[
        bad_name("job_id"),
        bad_number("num_gpu", 1, LARGEST_WORKERS, whole=True),
        bad_number("submit_time", -LARGEST_SECONDS, LARGEST_SECONDS),
        bad_number("duration", 0, LARGEST_SECONDS),
    ],
    values={
        "id": pl.col("job_id"),
        "model": pl.col("model_name"),
        "start": number("submit_time"),
        "seconds": number("duration"),
        "workers": number("num_gpu"),
        "gpu": pl.lit(1.0),
    },
)

_ASSUMED = {
    **GPU_WORKERS,
    "arrival": "A job arrives in the first slot that begins when, or after, it was submitted, counted "
    "from the first submission in the trace.",
}


def read_cluster(path: str | PathLike[str]) -> Cluster:
    """Read a Tiresias cluster specification: machines s0n0, s0n1 ... with gpu, cpu and memory (GiB).

    Parameters
    ----------
    path : str or path
        The specification; s counts switches, n the machines of a switch. Switches make no difference to the
        bandwidth.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, it has not exactly one row, or a count is out
        of bounds.
    """
    path = Path(path)
    table = Table.read(path, CLUSTER_COLUMNS, CLUSTER_COLUMNS, header=True)
    switches, machines, *amounts = CLUSTER_COLUMNS
    checks = [bad_width([table.width])]
    checks += [bad_number(name, 1, MOST_MACHINES, whole=True) for name in (switches, machines)]
    checks += [bad_number(name, 0, LARGEST_AMOUNT) for name in amounts]
    rows, _ = sift(path, table.rows, checks, strict=True)
    if rows.is_empty():
        raise nothing_usable(table, "row", {})
    if len(rows) > 1:
        raise refusal(path, rows["line"][1], "row", "the only one", f"{len(rows)} rows")
    numbers = rows.select(map(number, CLUSTER_COLUMNS)).row(0)
    if numbers[0] * numbers[1] > MOST_MACHINES:
        bound = f"at most {MOST_MACHINES} machines"
        raise refusal(path, rows["line"][0], f"{switches} x {machines}", bound, f"{numbers[0] * numbers[1]:g}")
    resources = dict(zip(("gpu", "cpu", "memory"), numbers[2:], strict=True))
    return Cluster.of(Machine(f"s{s}n{n}", resources) for s in range(int(numbers[0])) for n in range(int(numbers[1])))
