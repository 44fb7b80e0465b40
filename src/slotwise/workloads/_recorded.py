"""What a trace says of its jobs, before anything is assumed: what every reader of a trace returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

__all__ = ["COLUMNS", "GPU_WORKERS", "RESOURCES", "Recorded"]

RESOURCES = ("gpu", "cpu", "memory")
"""Resources whose demand a trace may record."""

COLUMNS: Mapping[str, type[pl.DataType]] = {
    "id": pl.String,
    "start": pl.Float64,
    "seconds": pl.Float64,
    "workers": pl.Int64,
    "servers": pl.Int64,
    "model": pl.String,
    "batch": pl.Int64,
    "wait": pl.Float64,
    **dict.fromkeys(RESOURCES, pl.Float64),
}
"""Columns of recorded jobs."""


GPU_WORKERS: Mapping[str, str] = {
    "workers": "The recorded workers are the GPUs of the job; it may run with fewer or more, and is no "
    "fixed gang here.",
    "demand": "A worker takes 1 gpu, and 4 to 8 cpu and 8 to 32 GiB by the model.",
    "speed": "Every job is all-reduce: there are no servers.",
}
"""What is assumed where a trace has a count of GPUs and nothing of the machines."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """The jobs of a trace as recorded.

    Attributes
    ----------
    path : Path
        The trace.
    format : str
        One of ``slotwise.workloads.traces.WORKLOAD_FORMATS``.
    jobs : DataFrame
        One row a job, in the order of the file, with ``COLUMNS``: id; start, seconds since the first of them, >= 0;
        seconds that it ran, >= 1; workers, >= 1; servers, 0 for all-reduce; model that it names; batch, samples of an
        iteration over all workers; wait, seconds from start until it ran; gpu, cpu and memory (GiB) of a worker. Null
        is what the trace does not say.
    assumed : mapping of str to str
        What this format does not say, and what was put there instead.
    skipped : mapping of str to int
        Rows or jobs left out, by reason.
    odd : mapping of str to int
        Contradictions of the trace with itself, and how many jobs show them.
    capacity : mapping of str to float
        Of the machines that it was recorded on, where it says so.
    without_seconds : str
        What is needed to know how long the jobs ran; empty where that is known.
    """

    path: Path
    format: str
    jobs: pl.DataFrame
    assumed: Mapping[str, str] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    odd: Mapping[str, int] = field(default_factory=dict)
    capacity: Mapping[str, float] = field(default_factory=dict)
    without_seconds: str = ""

    def __post_init__(self) -> None:
        jobs = self.jobs.select(
            (pl.col(name) if name in self.jobs.columns else pl.lit(None)).cast(kind).alias(name)
            for name, kind in COLUMNS.items()
        )
        jobs = jobs.with_columns(
            pl.col("start") - pl.col("start").min(),
            # What ran for no time at all is kept as what ran for a second.
            pl.col("seconds").clip(lower_bound=1.0),
            pl.col("servers").fill_null(0),
        )
        object.__setattr__(self, "jobs", jobs)
        skipped = {reason: count for reason, count in sorted(self.skipped.items()) if count}
        object.__setattr__(self, "skipped", skipped)
        object.__setattr__(self, "odd", {what: count for what, count in self.odd.items() if count})

    def __len__(self) -> int:
        """Return how many jobs there are."""
        return len(self.jobs)
