"""The jobs of a trace as our own job list, for people to edit.

Reading the list back (``slotwise.workloads.jobs``) with the same slot gives the same jobs, to the last bit: numbers are
written so that the reader's arithmetic leads back to them.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from typing import IO

from slotwise.errors import InvalidTrace
from slotwise.model.job import Job
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.units import significant
from slotwise.workloads._base import Workload
from slotwise.workloads.jobs import LATEST_ARRIVAL

__all__ = ["write"]

_MOST_EPOCHS = 1e9
_HOUR_SECONDS = 3600.0
_COLUMNS = (
    "name", "arrival", "epochs", "samples", "batchSize", "gradientMB", "secondsPerSample", "workersPerServer",
    "minWorkers", "maxWorkers", "requestedWorkers", "utility.kind", "utility.value", "utility.urgencyPerHour",
    "utility.target",
)  # fmt: skip


def write(workload: Workload, stream: IO[str], progress: Callable[[int], None] | None = None) -> None:
    """Write the jobs of a trace as a CSV that ``slotwise.workloads.jobs.read`` reads.

    Parameters
    ----------
    workload : Workload
        Of a trace, not of an own list, whose jobs may have what no CSV holds.
    stream : text stream
        Where to.
    progress : callable, optional
        Told how many jobs are written.

    Raises
    ------
    InvalidTrace
        If a name has characters that our list does not allow, or a job arrives after the last slot that it may.
    """
    resources = {
        role: tuple(dict.fromkeys(name for job in workload.jobs for name in getattr(job, f"{role}_demand")))
        for role in ("worker", "server")
    }
    header = [*_COLUMNS, *(f"{role}.{name}" for role, names in resources.items() for name in names)]
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(header)
    for i, job in enumerate(workload.jobs, 1):
        row = _row(job, workload.slot_seconds)
        for role, names in resources.items():
            demand = getattr(job, f"{role}_demand")
            row.extend(repr(float(demand[name])) if name in demand else "" for name in names)
        table.writerow(row)
        if progress is not None and i % 1000 == 0:
            progress(i)


def _row(job: Job, slot_seconds: float) -> list[str]:
    speed, utility = job.speed, job.utility
    assert isinstance(speed, AllReduceSpeed | PaperSpeed)
    assert isinstance(utility, Sigmoid)
    if not job.id.isprintable() or job.id != job.id.strip():
        raise InvalidTrace(f"job name must be printable, without blanks at its ends, to be in a list, got {job.id!a}")
    if job.arrival > LATEST_ARRIVAL:
        raise InvalidTrace(
            f"job {job.id!r}: arrival must be in the first {LATEST_ARRIVAL} slots to be in a list, got {job.arrival}; "
            "take longer slots"
        )
    epochs, samples = _product(job.workload)
    ratio = repr(speed.workers_per_server) if isinstance(speed, PaperSpeed) else ""
    # As ``jobs`` reads them. A target there counts to the end of the slot in which a job finishes.
    per_hour = utility.urgency * _HOUR_SECONDS / slot_seconds
    target = (utility.target + 1.0) * slot_seconds
    assert significant(per_hour * slot_seconds / _HOUR_SECONDS) == utility.urgency
    assert significant(target / slot_seconds - 1.0) == utility.target
    return [
        job.id,
        repr(_arrival(job.arrival, slot_seconds)),
        repr(epochs),
        str(samples),
        str(job.batch_size),
        repr(speed.gradient_mb),
        repr(speed.seconds_per_sample),
        ratio,
        str(job.min_workers),
        str(job.max_workers),
        "" if job.requested_workers is None else str(job.requested_workers),
        "sigmoid",
        repr(utility.value),
        repr(per_hour),
        repr(target),
    ]


def _product(workload: float) -> tuple[float, int]:
    """Return epochs and samples whose product is exactly the workload: samples are a power of two."""
    doublings = max(0, math.ceil(math.log2(workload / _MOST_EPOCHS)))
    return workload / 2**doublings, 2**doublings


def _arrival(slot: int, slot_seconds: float) -> float:
    """Return the first second that the reader counts to this slot and not, by rounding, to the end of the last one."""
    seconds = slot * slot_seconds
    while seconds / slot_seconds < slot:
        seconds = math.nextafter(seconds, math.inf)
    return seconds
