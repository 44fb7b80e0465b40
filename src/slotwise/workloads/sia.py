"""Sia and Pollux: workloads, with their profiles.

A workload is a CSV with a header; columns may be in any order and beside others::

    name,time,application,num_replicas,batch_size

Times are in seconds. A job has as many workers as replicas, each with one GPU, and is all-reduce; ``batch_size`` is its
batch over all of them. There is no duration: it is the iterations of its application at that batch times the seconds of
a step, both from a folder of profiles. Without one the workload can be inspected and not played. Of the folder of an
application are used

- ``validation-<batch>.csv``: a job trains as long as the run recorded there, that is, up to the last ``iteration``.
  Between two batches the logarithm of the iterations is interpolated over that of the batch; beyond them it is the
  nearest.
- ``placements.csv`` and ``scalability.csv``, or where there is none the first with a type of GPU in its name: the mean
  step over all placements of a count of workers and a batch on each, interpolated over both; beyond the measured
  counts it is the nearest, and beyond the largest batch on a worker its gradients are accumulated over several steps.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from slotwise.errors import InvalidTrace
from slotwise.model.job import LARGEST_WORKERS
from slotwise.workloads import speeds
from slotwise.workloads._fields import Field, shown
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

__all__ = ["COLUMNS", "records"]

COLUMNS = ("name", "time", "application", "num_replicas", "batch_size")
"""Columns of a workload."""

_LARGEST_BATCH = 10**9
_MODELS = {"imagenet": "resnet-50"}
"""Applications that train a model of our table."""

_WITHOUT_SECONDS = (
    "durations must come from --throughputs FOLDER, the profiles of the applications, each in a folder of its own with "
    "validation-*.csv and placements.csv, got none: the workload has no duration"
)
Floats = npt.NDArray[np.float64]


def records(
    path: Path,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    throughputs: str | PathLike[str] | None = None,
) -> Recorded:
    """Read a Sia workload.

    Parameters
    ----------
    path : Path
        The workload, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.
    progress : callable, optional
        Told how many bytes have been read.
    throughputs : str or path, optional
        Folder of profiles, which turns batches into seconds.

    Raises
    ------
    InvalidTrace
        If a file cannot be read, the header lacks a column, no row is usable, or ``strict`` and a row is malformed.
    """
    folder = None if throughputs is None else Path(throughputs)
    if folder is not None and not folder.is_dir():
        raise InvalidTrace(f"{folder}: throughputs of a sia workload must be a folder of profiles, it is none")
    table, skipped = _LAYOUT.read(path, strict=strict, progress=progress)
    jobs = table.rows
    if folder is not None:
        jobs = jobs.join(_durations(jobs, folder), on=_KIND, how="left", maintain_order="left")
        unknown = Check("model", "a profile", pl.col("seconds").is_null(), "rows: application without profile")
        endless = Check("model", "shorter", pl.col("seconds") > LARGEST_SECONDS, "rows: endless")
        jobs, without = sift(path, jobs, [unknown, endless], strict=False)
        skipped.update(without)
        if jobs.is_empty():
            raise nothing_usable(table, "job", skipped)
    jobs = jobs.with_columns(pl.col("model").replace(_MODELS))
    assumed = {
        **GPU_WORKERS,
        "batch_size": "The global batch is the recorded one.",
        "arrival": "A job arrives in the first slot that begins when, or after, it was submitted, counted from the "
        "first submission in the file.",
    }
    if folder is not None:
        assumed["duration"] = (
            f"A job lasts the iterations of its application at its batch times the seconds of a step, both from the "
            f"profiles in {folder}: up to the last iteration of the validation run at that batch, and the mean over "
            "the measured placements of as many workers, interpolated where they were not measured."
        )
    return Recorded(path, "sia", jobs, assumed, skipped, without_seconds="" if folder else _WITHOUT_SECONDS)


_LAYOUT = Layout(
    columns=COLUMNS,
    wanted=COLUMNS,
    key="name",
    what="job",
    checks=[
        bad_name("name"),
        bad_name("application"),
        bad_number("time", -LARGEST_SECONDS, LARGEST_SECONDS),
        bad_number("num_replicas", 1, LARGEST_WORKERS, whole=True),
        bad_number("batch_size", 1, _LARGEST_BATCH, whole=True),
        Check("batch_size", ">= num_replicas ({num_replicas})", number("batch_size") < number("num_replicas")),
    ],
    values={
        "id": pl.col("name"),
        "start": number("time"),
        "model": pl.col("application"),
        "workers": number("num_replicas").cast(pl.Int64),
        "batch": number("batch_size").cast(pl.Int64),
        "gpu": pl.lit(1.0),
    },
)
_KIND = ("model", "workers", "batch")


@dataclass(frozen=True, slots=True)
class _Profile:
    """What was measured of one application.

    Attributes
    ----------
    batches, iterations : (V,) float64
        Batches of the validation runs, rising, and how many iterations they took.
    steps : mapping of int to ((B,), (B,)) float64
        By count of workers, rising: batches on one worker, rising, and the seconds of a step.
    """

    batches: Floats
    iterations: Floats
    steps: Mapping[int, tuple[Floats, Floats]]

    def seconds(self, workers: int, batch: int) -> float:
        """Return how long a job takes."""
        iterations = np.exp(np.interp(np.log(batch), np.log(self.batches), np.log(self.iterations)))
        local = batch / workers
        counts = list(self.steps)
        steps = [
            float(np.interp(local, *self.steps[count])) * max(1.0, local / self.steps[count][0][-1]) for count in counts
        ]
        return float(iterations * np.interp(workers, counts, steps))


def _durations(jobs: pl.DataFrame, folder: Path) -> pl.DataFrame:
    """Return the seconds of each combination of application, replicas and batch."""
    kinds = jobs.select(_KIND).unique(maintain_order=True)
    profiles = {name: _profile(folder, name) for name in kinds["model"].unique(maintain_order=True)}
    found: list[float | None] = []
    for name, workers, batch in kinds.iter_rows():
        profile = profiles[name]
        found.append(None if profile is None else profile.seconds(workers, batch))
    return kinds.with_columns(pl.Series("seconds", found, pl.Float64))


def _profile(folder: Path, application: str) -> _Profile | None:
    """Return the profile of an application, None if the folder has none."""
    if not application.strip(".") or "/" in application or "\\" in application:
        return None
    place = folder / application
    try:
        runs = {_batch(file): file for file in sorted(place.glob("validation-*.csv"))}
        measured = [file for kind in ("placements", "scalability") if (file := _file(place, kind)) is not None]
    except OSError:
        return None
    runs.pop(0, None)
    if not runs or not measured:
        return None
    batches = sorted(runs)
    grouped: dict[int, dict[float, list[float]]] = {}
    for file in measured:
        for found in speeds.read(file).measured:
            for workers, batch, seconds in zip(found.workers, found.batch, found.seconds, strict=True):
                grouped.setdefault(int(workers), {}).setdefault(float(batch / workers), []).append(float(seconds))
    if not grouped:
        raise InvalidTrace(f"{place}: profile must have at least 1 step that did not fail, got 0")
    steps = {
        workers: (np.array(sorted(of)), np.array([np.mean(of[local]) for local in sorted(of)]))
        for workers, of in sorted(grouped.items())
    }
    return _Profile(np.array(batches, float), np.array([_iterations(runs[batch]) for batch in batches]), steps)


def _batch(file: Path) -> int:
    """Return the batch in the name of a validation run, 0 if there is none."""
    text = file.stem.removeprefix("validation-")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 0


def _file(place: Path, kind: str) -> Path | None:
    plain = place / f"{kind}.csv"
    return plain if plain.is_file() else next(iter(sorted(place.glob(f"{kind}-*.csv"))), None)


def _iterations(file: Path) -> float:
    """Return the last iteration of a validation run."""
    rows = csv.reader(io.StringIO(read_text(file), newline=""))
    try:
        header = [cell.strip() for cell in next(rows)]
        column = header.index("iteration") if "iteration" in header else -1
        if column < 0:
            bound = "a row with the column iteration"
            raise InvalidTrace(f"{file}:1: header must be {bound}, got {shown(','.join(header))}")
        last = None
        for row in rows:
            if len(row) > column:
                last = Field(str(file), rows.line_num, "iteration", row[column].strip(), InvalidTrace)
    except csv.Error as problem:
        raise InvalidTrace(f"{file}:{rows.line_num}: file must be CSV, got: {problem}") from None
    if last is None:
        raise InvalidTrace(f"{file}: must have at least 1 row with an iteration, got 0")
    return last.number(1, 1e12)
