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

from collections import Counter
from os import PathLike
from pathlib import Path

import polars as pl

from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster, Machine
from slotwise.model.job import LARGEST_WORKERS
from slotwise.units import LARGEST_AMOUNT
from slotwise.workloads._base import Workload
from slotwise.workloads._rows import (
    LARGEST_SECONDS,
    Check,
    Table,
    bad_name,
    bad_number,
    nothing_usable,
    number,
    refusal,
    sift,
)
from slotwise.workloads.models import Assumptions, Record, named

__all__ = ["CLUSTER_COLUMNS", "COLUMNS", "MOST_MACHINES", "read", "read_cluster"]

COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "duration", "interval")
"""Columns of a job trace."""

CLUSTER_COLUMNS = ("num_switch", "num_node_p_switch", "num_gpu_p_node", "num_cpu_p_node", "mem_p_node")
"""Columns of a cluster specification; memory in GiB."""

MOST_MACHINES = 100_000
"""Most machines of a cluster specification."""

_NEEDED = ("job_id", "num_gpu", "submit_time", "model_name", "duration")


def read(
    path: str | PathLike[str],
    *,
    slot_seconds: float = 600.0,
    seed: int = 0,
    strict: bool = False,
    value: str = "uniform",
    elastic: float = 2.0,
    bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH,
) -> Workload:
    """Read a Tiresias job trace.

    Parameters
    ----------
    path : str or path
        The trace, plain or gzip.
    slot_seconds : float
        Length of a slot, > 0.
    seed : int
        Of what the trace does not say, >= 0.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.
    value : str
        ``uniform`` or ``work``, see ``slotwise.workloads.models``.
    elastic : float
        Most workers of a job, as a multiple of the recorded ones, >= 1.
    bandwidth : tuple of float
        MB/s from inside a machine to across the cluster; durations are calibrated at the last.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no row is usable, or ``strict`` and a row is
        malformed.
    InvalidInput
        If another argument is out of its bounds.
    """
    assumptions = Assumptions(slot_seconds, seed, value, elastic, bandwidth)
    path = Path(path)
    table = Table.read(path, COLUMNS, _NEEDED, header=True)
    checks = [
        table.checked_width(),
        bad_name("job_id"),
        bad_number("num_gpu", 1, LARGEST_WORKERS, whole=True),
        bad_number("submit_time", -LARGEST_SECONDS, LARGEST_SECONDS),
        bad_number("duration", 0, LARGEST_SECONDS),
    ]
    rows, skipped = sift(path, table.rows, checks, strict=strict)
    twice = Check("job_id", "distinct", ~pl.col("job_id").is_first_distinct(), "rows: duplicate job_id")
    rows, repeated = sift(path, rows, [twice], strict=strict)
    skipped.update(repeated)
    if rows.is_empty():
        raise nothing_usable(table, "job", skipped)
    columns = rows.select("job_id", "model_name", *map(number, ("num_gpu", "submit_time", "duration")))
    origin = float(columns["submit_time"].min())  # type: ignore[arg-type]
    records = [
        Record(name, submitted - origin, max(1.0, seconds), int(gpus), model=named(model))
        for name, model, gpus, submitted, seconds in columns.iter_rows()
    ]
    unknown = Counter(model for model in columns["model_name"].to_list() if named(model) is None)
    return assumptions.workload(
        path, "tiresias", records, gpu=1.0, assumed=_assumed(unknown, len(records), seed), skipped=skipped
    )


def _assumed(unknown: Counter[str], jobs: int, seed: int) -> dict[str, str]:
    drawn = f"{unknown.total()} of {jobs} jobs name none of them and draw one from their id and seed {seed}."
    if not unknown:
        drawn = "every job names one of them."
    return {
        "model": f"A job's gradient size, seconds per sample and demands are those of the model that it names; {drawn}",
        "workers": "The recorded workers are the GPUs of the job; it may run with fewer or more, and is no "
        "fixed gang here.",
        "demand": "A worker takes 1 gpu, and 4 to 8 cpu and 8 to 32 GiB by the model.",
        "speed": "Every job is all-reduce: there are no servers.",
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
    checks = [table.checked_width()]
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
