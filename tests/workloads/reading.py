"""What the tests of several readers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from slotwise.errors import InvalidTrace
from slotwise.model.job import Job
from slotwise.workloads._base import Workload
from slotwise.workloads._recorded import Recorded
from slotwise.workloads.models import Assumptions


def reader(records: Callable[..., Recorded], *options: str) -> Callable[..., Workload]:
    """Return a reader of jobs: ``strict`` and ``options`` go to ``records``, the rest to the assumptions."""

    def read(path: Path, **given: Any) -> Workload:
        of_reader = {name: given.pop(name) for name in ("strict", *options) if name in given}
        return Assumptions(**given).workload(records(path, **of_reader))

    return read


def found_or_one_line(records: Callable[..., Recorded], path: Path, **given: Any) -> Recorded | None:
    """Return what is found; None where the file is refused, which must be in one line."""
    try:
        return records(path, **given)
    except InvalidTrace as error:
        message = str(error)
    assert message.isprintable()
    return None


def recorded_seconds(job: Job, bandwidth: float = 625.0) -> float:
    """Return how long the recorded counts train."""
    assert job.requested_workers is not None
    pair = job.speed.pairs(job.requested_workers, job.requested_workers, 1)
    rate = job.speed.samples_per_second(*pair, job.batch_size, bandwidth)
    return float(job.workload / rate[0])
