"""Alibaba PAI GPU cluster, July and August 2020: the instance table, and the machines.

The instance table has one row for each attempt of an instance of a task of a job, grouped by job, without a
header::

    job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine

Times are in seconds. Of a job slotwise uses

- its *workers*: the instances of a worker role that ended as ``Terminated``, with a start and an end that
  is not before it. A job without any is left out. Its duration is from the first start to the last end of
  these (its servers may end a day earlier), and their number is the recorded count W; instances that failed
  are not among them.
- its *servers*: the instances of role ``ps`` that ended as ``Terminated``; if none did, those that ran at
  all, since servers do not finish but are stopped when the workers are done. Their number is S, and a
  server serves W / S workers. A job without servers is all-reduce.

An instance is one worker or server however often it was tried: of its attempts the good one with the latest
end counts, or the last one in the file if none is good. Every row that is not used is counted under a
reason that begins with ``rows:``, so that the rows of the file are the used ones (the sum of W + S over the
jobs) plus these; every job of the file is among the jobs or counted under one that begins with ``jobs:`` (a
job whose name is in no row of nine fields is none).
"""

from __future__ import annotations

from collections import Counter
from os import PathLike
from pathlib import Path

import polars as pl

from slotwise.model.cluster import Cluster
from slotwise.model.job import LARGEST_WORKERS
from slotwise.workloads._machines import machines
from slotwise.workloads._recorded import Recorded
from slotwise.workloads._rows import (
    LARGEST_SECONDS,
    Check,
    Progress,
    Table,
    bad_name,
    bad_number,
    bad_width,
    nothing_usable,
    number,
    sift,
)

__all__ = ["COLUMNS", "MACHINE_COLUMNS", "STATUSES", "WORKER_ROLES", "read_machines", "records"]

COLUMNS = (
    "job_name",
    "task_name",
    "inst_name",
    "worker_name",
    "inst_id",
    "status",
    "start_time",
    "end_time",
    "machine",
)
"""Columns of the instance table, in order."""

MACHINE_COLUMNS = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
"""Columns of the machine table, in order; memory in GiB."""

WORKER_ROLES = ("worker", "tensorflow", "PyTorchWorker", "xComputeWorker", "MWorker", "DecoderWorker")
"""Values of ``task_name`` that are workers; ``ps`` is a server, anything else neither."""

STATUSES = ("Terminated", "Failed", "Interrupted", "Running", "Waiting")
"""Values of ``status``; the first alone is success."""

_NEEDED = ("job_name", "task_name", "inst_name", "status", "start_time", "end_time")
_INSTANCE = ("job_name", "task_name", "inst_name")
_LEFT_OUT = "rows: of a job left out"


def records(path: Path, *, strict: bool = False, progress: Progress | None = None) -> Recorded:
    """Read a PAI instance table.

    Parameters
    ----------
    path : Path
        The table, with or without a header, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.
    progress : callable, optional
        Told how many bytes have been read.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no job is usable, or ``strict`` and a row is
        malformed.
    """
    table, instances, skipped = _instances(path, strict=strict, progress=progress)
    jobs, left_out = _jobs(instances)
    skipped.update(left_out)
    if jobs.is_empty():
        raise nothing_usable(table, "job with a worker that ended well", skipped)
    jobs = jobs.select(
        pl.col("job_name").alias("id"),
        pl.col("first").alias("start"),
        (pl.col("last") - pl.col("first")).alias("seconds"),
        pl.col("W").alias("workers"),
        pl.col("S").alias("servers"),
        pl.lit(0.0).alias("wait"),
    )
    return Recorded(path, "pai", jobs, assumed=_ASSUMED, skipped=skipped)


_ASSUMED = {
    "arrival": "A job arrives in the first slot that begins when, or after, its first worker started, "
    "counted from the first start in the trace.",
    "duration": "A job lasts from the first start to the last end of its workers that ended as Terminated.",
    "workers": "The recorded workers are the worker instances that ended as Terminated, each once, however "
    "often it was tried.",
    "servers": "The recorded servers are the ps instances that ended as Terminated, or all that ran if "
    "none did; a job without any is all-reduce.",
}


_START, _END = number("start_time"), number("end_time")
_ENDED = pl.col("status") == STATUSES[0]
_SERVER, _WORKER = pl.col("task_name") == "ps", pl.col("task_name").is_in(WORKER_ROLES)
_CHECKS = (
    *(bad_name(name) for name in ("job_name", "inst_name")),
    *(bad_number(name, -LARGEST_SECONDS, LARGEST_SECONDS, optional=True) for name in ("start_time", "end_time")),
    Check(
        "end_time",
        ">= start_time ({start_time})",
        _ENDED & (_SERVER | _WORKER) & (_END < _START),
        "rows: end before start",
    ),
)


def _instances(path: Path, *, strict: bool, progress: Progress | None) -> tuple[Table, pl.DataFrame, Counter[str]]:
    """Return the table, one row an instance of a known role, with ``good`` and ``server``, and what was taken out."""
    skipped: Counter[str] = Counter()
    others, broken = [], []

    def each(rows: pl.DataFrame, width: int) -> pl.DataFrame:
        fine, bad = sift(path, rows, [bad_width([width]), *_CHECKS], strict=strict)
        skipped.update(bad)
        known = fine.filter(_SERVER | _WORKER)
        skipped["rows: other roles"] += len(fine) - len(known)
        others.append(fine.filter(~(_SERVER | _WORKER)).select(pl.col("job_name").unique()))
        named = rows.filter((pl.col("width") == width) & (pl.col("job_name") != ""))
        broken.append(named.join(fine, on="line", how="anti").select(pl.col("job_name").unique()))
        good = _ENDED & _START.is_not_null() & _END.is_not_null()
        start, end, is_server = _START.alias("start"), _END.alias("end"), _SERVER.alias("server")
        return known.select("line", *_INSTANCE, "status", start, end, is_server, good.alias("good"))

    table = Table.read(path, COLUMNS, _NEEDED, header=False, progress=progress, each=each)
    known = table.rows
    # Jobs of which every row was taken out must be counted too, so that none disappears.
    without_worker = pl.concat(others).join(known, on="job_name", how="anti")
    faulty = pl.concat(broken).join(pl.concat([known.select("job_name"), *others]), on="job_name", how="anti")
    skipped["jobs: no worker"] = without_worker["job_name"].n_unique()
    skipped["jobs: no row without a fault"] = faulty["job_name"].n_unique()
    # Good before bad, late before early: a bad attempt may have no end.
    ranked = known.sort("good", "end", "line", descending=True, nulls_last=True)
    good_first = pl.concat([ranked.filter("good"), ranked.filter(~pl.col("good")).sort("line", descending=True)])
    kept = good_first.unique(subset=_INSTANCE, keep="first").sort("line")
    skipped["rows: duplicate attempts"] = len(known) - len(kept)
    return table, kept, skipped


def _jobs(instances: pl.DataFrame) -> tuple[pl.DataFrame, Counter[str]]:
    """Return the usable jobs in the order of the file, and why other jobs and instances are not used."""
    good, server = pl.col("good"), pl.col("server")
    ran = server & pl.col("status").is_in(STATUSES[:-1])
    jobs = instances.group_by("job_name", maintain_order=True).agg(
        pl.col("start").filter(good & ~server).min().alias("first"),
        pl.col("end").filter(good & ~server).max().alias("last"),
        (good & ~server).sum().cast(pl.Int64).alias("W"),
        (good & server).sum().cast(pl.Int64).alias("ended_servers"),
        ran.sum().cast(pl.Int64).alias("ran_servers"),
        (~server).any().alias("has_worker"),
    )
    jobs = jobs.with_columns(
        pl.when(pl.col("ended_servers") > 0).then("ended_servers").otherwise("ran_servers").alias("S")
    )
    skipped: Counter[str] = Counter()
    skipped["jobs: no worker"] = len(jobs.filter(~pl.col("has_worker")))
    skipped["jobs: no worker that ended well"] = len(jobs.filter(pl.col("has_worker") & (pl.col("W") == 0)))
    skipped[f"jobs: more than {LARGEST_WORKERS} workers"] = len(jobs.filter(pl.col("W") > LARGEST_WORKERS))
    usable = jobs.filter(pl.col("W").is_between(1, LARGEST_WORKERS))
    used = good | (ran & (pl.col("ended_servers") == 0))
    marked = instances.join(usable.select("job_name", "ended_servers"), on="job_name", how="left")
    unused = marked.filter(~used.fill_null(False) | pl.col("ended_servers").is_null())
    reason = (
        pl.when(good)
        .then(pl.lit(_LEFT_OUT))
        .when(pl.col("status") != STATUSES[0])
        .then(
            pl.when(pl.col("status").is_in(STATUSES))
            .then(pl.format("rows: {}", pl.col("status").str.to_lowercase()))
            .otherwise(pl.lit("rows: other status"))
        )
        .when(pl.col("end").is_null())
        .then(pl.lit("rows: no end time"))
        .otherwise(pl.lit("rows: no start time"))
    )
    for name, count in unused.select(reason.alias("reason")).group_by("reason").len().iter_rows():
        skipped[name] += count
    return usable, skipped


def read_machines(path: str | PathLike[str], *, strict: bool = False) -> tuple[Cluster, dict[str, int]]:
    """Read a PAI machine table: resources gpu, cpu and memory (GiB).

    Parameters
    ----------
    path : str or path
        The table, with or without a header, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.

    Returns
    -------
    cluster : Cluster
        Its machines in the order of the file; the type of GPU is not used.
    skipped : dict of str to int
        Rows left out, by reason.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no row is usable, or ``strict`` and a row is
        malformed.
    """
    return machines(
        Path(path),
        MACHINE_COLUMNS,
        "machine",
        {"gpu": ("cap_gpu", 1.0), "cpu": ("cap_cpu", 1.0), "memory": ("cap_mem", 1.0)},
        header=False,
        strict=strict,
    )
