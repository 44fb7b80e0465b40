"""Gavel: job traces, and its tables of throughputs.

A trace has one row a job and no header; its fields stand between tabs, in one of two forms::

    model, command, steps argument, needs data, steps, arrival, GPUs
    model, command, folder, steps argument, needs data, steps, GPUs, weight, SLO, arrival

Times are in seconds. A job is named by its place in the file, from 0, as Gavel does. It has as many workers as GPUs,
each with one, and is all-reduce; one without a GPU count has one GPU. There is no duration: it is the steps over the
steps a second of a table of throughputs. Without a table the trace can be inspected and not played.

A table of throughputs is a JSON file: type of GPU, then ``('model (batch size n)', GPUs)``, then the steps a second
alone (``null``) and beside other jobs. The times are those of V100 where the table has it, else of its first type,
alone and with all GPUs in one machine. A model that was not measured at the GPU count of a job is as fast as at the
most GPUs below it that were measured, and 0 is no measurement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import polars as pl

from slotwise.errors import InvalidTrace
from slotwise.model.job import LARGEST_WORKERS
from slotwise.words import counted
from slotwise.workloads._fields import LARGEST_NUMBER, shown
from slotwise.workloads._recorded import GPU_WORKERS, Recorded
from slotwise.workloads._rows import (
    LARGEST_SECONDS,
    Check,
    Layout,
    Progress,
    bad_name,
    bad_number,
    nothing_usable,
    number,
    read_text,
    sift,
)

__all__ = ["COLUMNS", "LONG_COLUMNS", "read_throughputs", "records"]

COLUMNS = ("model", "command", "steps_argument", "needs_data", "steps", "arrival", "gpus")
"""Fields of the short form."""

LONG_COLUMNS = (
    "model",
    "command",
    "folder",
    "steps_argument",
    "needs_data",
    "steps",
    "gpus",
    "weight",
    "slo",
    "arrival",
)
"""Fields of the long form."""

_USED = ("model", "steps", "arrival", "gpus")
_GPU = "v100"
_PAIR = re.compile(r"\(\s*(['\"])(.{1,200})\1\s*,\s*([0-9]{1,6})\s*\)")
_SLOWEST, _FASTEST = 1e-9, 1e9
_WITHOUT_SECONDS = (
    "durations must come from --throughputs FILE, a JSON table of steps a second by model and GPU count "
    "(simulation_throughputs.json of Gavel), got none: the trace has steps alone"
)

Throughputs = Mapping[str, Mapping[int, float]]
"""Steps a second, > 0, by model and GPU count."""


def records(
    path: Path,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    throughputs: str | PathLike[str] | None = None,
) -> Recorded:
    """Read a Gavel trace.

    Parameters
    ----------
    path : Path
        The trace, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.
    progress : callable, optional
        Told how many bytes have been read.
    throughputs : str or path, optional
        Table of throughputs, which turns steps into seconds.

    Raises
    ------
    InvalidTrace
        If a file cannot be read, no row is usable, or ``strict`` and a row is malformed.
    """
    measured, gpu = (None, "") if throughputs is None else read_throughputs(Path(throughputs))
    table, skipped = _LAYOUT.read(path, strict=strict, progress=progress)
    jobs = table.rows
    elsewhere = 0
    if measured is not None:
        jobs = jobs.join(_speeds(jobs, measured), on=("model", "workers"), how="left", maintain_order="left")
        jobs = jobs.with_columns((pl.col("steps") / pl.col("speed")).alias("seconds"))
        unknown = Check("model", "in the table of throughputs", pl.col("speed").is_null(), "rows: model without speed")
        endless = Check("steps", "those of a shorter job", pl.col("seconds") > LARGEST_SECONDS, "rows: endless")
        jobs, without = sift(path, jobs, [unknown, endless], strict=False)
        skipped.update(without)
        elsewhere = int((jobs["at"] != jobs["workers"]).sum())
        if jobs.is_empty():
            raise nothing_usable(table, "job", skipped)
    uncounted, longer = int(jobs["uncounted"].sum()), int(jobs["longer"].sum())
    jobs = jobs.with_columns(pl.col("model").str.replace(r" *\(batch size \d+\)$", ""))
    assumed = {
        **GPU_WORKERS,
        "arrival": "A job arrives in the first slot that begins when, or after, it was submitted, counted "
        "from the first submission in the trace.",
    }
    if uncounted:
        assumed["gpus"] = f"{uncounted} of {counted(len(jobs), 'job')} have no GPU count and get 1."
    if longer:
        assumed["weight"] = (
            f"{longer} of {counted(len(jobs), 'job')} have a weight and a deadline (SLO), which are not used."
        )
    if measured is not None:
        assumed["duration"] = (
            f"A job lasts its steps over the steps a second of its model on {gpu} in {throughputs}, alone and with all "
            f"GPUs in one machine; {elsewhere} of {counted(len(jobs), 'job')} have a GPU count at which their model "
            "was not measured, and are as fast as at the most GPUs below it."
        )
    return Recorded(
        path, "gavel", jobs, assumed, skipped, without_seconds="" if measured is not None else _WITHOUT_SECONDS
    )


_PLACES = tuple(f"field {i}" for i in range(1, len(LONG_COLUMNS) + 1))
_IS_LONG = pl.col("width") == len(LONG_COLUMNS)


def _field(name: str) -> pl.Expr:
    """Return a field of a row of either form."""
    places = (pl.col(_PLACES[form.index(name)]) for form in (LONG_COLUMNS, COLUMNS))
    return pl.when(_IS_LONG).then(next(places)).otherwise(next(places))


_LAYOUT = Layout(
    columns=_PLACES,
    wanted=_PLACES,
    key="id",
    what="job",
    header=False,
    separator="\t",
    widths=(len(COLUMNS), len(LONG_COLUMNS)),
    derived={"id": pl.col("row").cast(pl.String)} | {name: _field(name) for name in _USED},
    checks=[
        bad_name("model"),
        bad_number("steps", 1, LARGEST_NUMBER),
        bad_number("arrival", -LARGEST_SECONDS, LARGEST_SECONDS),
        bad_number("gpus", 1, LARGEST_WORKERS, whole=True, optional=True),
    ],
    values={
        "id": pl.col("id"),
        "start": number("arrival"),
        "model": pl.col("model"),
        "steps": number("steps"),
        "workers": number("gpus").fill_null(1.0).cast(pl.Int64),
        "gpu": pl.lit(1.0),
        "uncounted": pl.col("gpus") == "",
        "longer": _IS_LONG,
    },
)


def _speeds(jobs: pl.DataFrame, measured: Throughputs) -> pl.DataFrame:
    """Return the steps a second of each pair of a model and a GPU count, and the count at which they were measured."""
    pairs = jobs.select("model", "workers").unique()
    found = []
    for model, gpus in pairs.iter_rows():
        counts = measured.get(model, {})
        at = max((count for count in counts if count <= gpus), default=None)
        found.append((None if at is None else counts[at], at))
    speed, at_count = [speed for speed, _ in found], [at for _, at in found]
    return pairs.with_columns(pl.Series("speed", speed, pl.Float64), pl.Series("at", at_count, pl.Int64))


def read_throughputs(path: Path) -> tuple[Throughputs, str]:
    """Read a table of throughputs.

    Returns
    -------
    throughputs : mapping
        Steps a second by model and GPU count.
    gpu : str
        Type of GPU that they are of.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, is no such table or has no throughput.
    """
    try:
        table = json.loads(read_text(path))
    except (ValueError, RecursionError) as problem:
        got = f"line {problem.lineno}: {problem.msg}" if isinstance(problem, json.JSONDecodeError) else "another"
        raise InvalidTrace(f"{path}: throughputs must be a JSON file, got an error: {got}") from None
    if not isinstance(table, dict) or not table:
        raise InvalidTrace(f"{path}: throughputs must be a table of types of GPU, got {_kind(table)}")
    gpu = _GPU if _GPU in table else next(iter(table))
    entries = table[gpu]
    where = f"{path}: {shown(gpu)}"
    if not isinstance(entries, dict):
        raise InvalidTrace(f"{where} must be a table of models, got {_kind(entries)}")
    found: dict[str, dict[int, float]] = {}
    for key, entry in entries.items():
        pair = _PAIR.fullmatch(key)
        model, gpus = (pair[2], int(pair[3])) if pair else (key, 1)
        speed = entry.get("null") if isinstance(entry, dict) else None
        if isinstance(speed, bool) or not isinstance(speed, int | float):
            bound = "steps a second of the job alone"
            raise InvalidTrace(f"{where}, {shown(key)}: null must be {bound}, got {shown(speed)}")
        if speed != 0 and not _SLOWEST <= speed <= _FASTEST:
            bound = f"0 or in {_SLOWEST:g} ... {_FASTEST:g} steps a second"
            raise InvalidTrace(f"{where}, {shown(key)}: null must be {bound}, got {shown(speed)}")
        if speed > 0:
            found.setdefault(model, {})[gpus] = float(speed)
    if not found:
        raise InvalidTrace(f"{where} must have at least 1 throughput > 0, got 0 of {len(entries)}")
    return found, gpu


def _kind(value: object) -> str:
    return "an empty table" if value == {} else shown(value)
