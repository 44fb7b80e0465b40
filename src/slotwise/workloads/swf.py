"""Standard Workload Format: logs of batch systems.

One row a job of 18 numbers between white space, -1 where nothing is known; lines that begin with ``;`` are the
header. Of a row slotwise uses the number of the job, its submission, wait and run time in seconds, its processors and
their memory, and its status.

A worker is a processor: it takes 1 cpu, no gpu, and the memory that a processor was recorded to use, or else had
requested, or else none. A job has as many as it was allocated, or else requested. It is all-reduce. A job that failed
or was cancelled, a part of one that was interrupted, and one without run time or processors is left out and counted.
"""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl

from slotwise.model.job import LARGEST_WORKERS
from slotwise.units import LARGEST_AMOUNT
from slotwise.words import counted
from slotwise.workloads._recorded import Recorded
from slotwise.workloads._rows import (
    LARGEST_SECONDS,
    Check,
    Layout,
    Progress,
    bad_name,
    bad_number,
    number,
)

__all__ = ["COLUMNS", "COMMENT", "records"]

COLUMNS = (
    "job",
    "submit",
    "wait",
    "run",
    "allocated",
    "cpu_used",
    "memory_used",
    "requested",
    "requested_time",
    "requested_memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding",
    "think",
)
"""Fields of a row, in order; memory in KB of one processor."""

COMMENT = ";"
"""What a line of the header begins with."""

_NEEDED = (
    "job",
    "submit",
    "wait",
    "run",
    "allocated",
    "memory_used",
    "requested",
    "requested_time",
    "requested_memory",
    "status",
)
_KIB_PER_GIB = 2.0**20
_PROCESSORS = re.compile(r";\s*MaxProcs\s*:\s*([0-9]{1,9})\s*$", re.ASCII)


def records(path: Path, *, strict: bool = False, progress: Progress | None = None) -> Recorded:
    """Read a log in the Standard Workload Format.

    Parameters
    ----------
    path : Path
        The log, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it. A job that did not end well is not
        malformed.
    progress : callable, optional
        Told how many bytes have been read.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, no job is usable, or ``strict`` and a row is malformed.
    """
    table, skipped = _LAYOUT.read(path, strict=strict, progress=progress)
    jobs = table.rows
    without_memory = jobs["memory"].null_count()
    odd = {what: int(jobs[name].sum()) for name, what in _ODD.items()}
    jobs = jobs.with_columns(pl.col("memory").fill_null(0.0) / _KIB_PER_GIB)
    assumed = {
        "arrival": "A job arrives in the first slot that begins when, or after, it was submitted, counted from the "
        "first submission of a job that is used.",
        "duration": "A job lasts its recorded run time, whatever it requested.",
        "workers": "A worker is a processor; a job has those that it was allocated, or else requested, and may run "
        "with fewer or more.",
        "demand": "A worker takes 1 cpu, no gpu, and the memory that a processor used, or else requested; "
        f"{without_memory} of {counted(len(jobs), 'job')} record neither and take none.",
        "speed": "Every job is all-reduce: there are no servers.",
    }
    capacity = next((int(found[1]) for line in table.comments if (found := _PROCESSORS.match(line.strip()))), 0)
    return Recorded(path, "swf", jobs, assumed, skipped, odd, {"cpu": float(capacity)} if capacity else {})


def _known(*names: str) -> pl.Expr:
    """Return the first of some columns that is > 0 (-1 and 0 are nothing known), null if none is."""
    return pl.coalesce(pl.when(number(name) > 0).then(number(name)) for name in names)


_UNKNOWN = -1.0
_WORKERS = _known("allocated", "requested")
_STATUS = pl.col("status").str.replace(r"\.0*$", "")
_ODD = {
    "late": "jobs: ran longer than they requested",
    "fewer": "jobs: were allocated fewer processors than they requested",
}

_LAYOUT = Layout(
    columns=COLUMNS,
    wanted=_NEEDED,
    key="job",
    what="job that ended well",
    header=False,
    separator=" ",
    comment=COMMENT,
    checks=[
        bad_name("job"),
        bad_number("submit", -LARGEST_SECONDS, LARGEST_SECONDS),
        *(bad_number(name, _UNKNOWN, LARGEST_SECONDS) for name in ("wait", "run", "requested_time")),
        *(bad_number(name, _UNKNOWN, 1e9, whole=True) for name in ("allocated", "requested")),
        *(bad_number(name, _UNKNOWN, LARGEST_AMOUNT * _KIB_PER_GIB) for name in ("memory_used", "requested_memory")),
        bad_number("status", _UNKNOWN, 5, whole=True),
    ],
    unusable=[
        Check("status", "1", _STATUS == "0", "rows: failed"),
        Check("status", "1", _STATUS == "5", "rows: cancelled"),
        Check("status", "1", _STATUS.is_in(("2", "3", "4")), "rows: part of a job"),
        Check("run", "> 0", ~(number("run") > 0), "rows: no run time"),
        Check("allocated", "> 0", _WORKERS.is_null(), "rows: no processors"),
        Check("allocated", "fewer", _WORKERS > LARGEST_WORKERS, f"jobs: more than {LARGEST_WORKERS} workers"),
    ],
    values={
        "id": pl.col("job"),
        "start": number("submit"),
        "seconds": number("run"),
        "workers": _WORKERS,
        "wait": pl.when(number("wait") >= 0).then(number("wait")),
        "gpu": pl.lit(0.0),
        "cpu": pl.lit(1.0),
        "memory": _known("memory_used", "requested_memory"),
        "late": (number("requested_time") > 0) & (number("run") > number("requested_time")),
        "fewer": (number("requested") > 0) & (number("requested") > _WORKERS),
    },
)
