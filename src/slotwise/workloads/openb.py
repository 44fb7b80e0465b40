"""Alibaba GPU cluster, 2023 (openb): lists of nodes and of pods.

Both are CSVs with a header; columns may be in any order and beside others::

    sn,cpu_milli,memory_mib,gpu,model
    name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time

A pod is a job of one worker that takes what the pod takes: ``num_gpu`` times ``gpu_milli`` thousandths of a GPU, and
its cpu and memory. Most pods are services and not training, so that the pods say what a cluster of this kind is asked
for, and nothing of how a job scales. A pod is used if it ran and was deleted (its phase is then ``Running`` or
``Succeeded``); it arrives when it was created, and lasts from when it was scheduled to when it was deleted.
``gpu_spec``, the types of GPU that a pod may have, and ``qos`` are not used.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import polars as pl

from slotwise.model.cluster import Cluster
from slotwise.units import GRAIN, LARGEST_AMOUNT
from slotwise.workloads._machines import machines
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

__all__ = ["COLUMNS", "NODE_COLUMNS", "read_machines", "records"]

NODE_COLUMNS = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
"""Columns of the list of nodes."""

COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "qos",
    "pod_phase",
    "creation_time",
    "deletion_time",
    "scheduled_time",
)
"""Columns of the list of pods."""

_AMOUNTS = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")


def records(path: Path, *, strict: bool = False, progress: Progress | None = None) -> Recorded:
    """Read a list of pods.

    Parameters
    ----------
    path : Path
        The list, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it. A pod that did not run is not malformed.
    progress : callable, optional
        Told how many bytes have been read.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no pod is usable, or ``strict`` and a row is malformed.
    """
    table, skipped = _LAYOUT.read(path, strict=strict, progress=progress)
    early = int((table.rows["wait"] < 0).sum())
    return Recorded(
        path, "openb", table.rows, _ASSUMED, skipped, odd={"jobs: scheduled before they were created": early}
    )


_CREATED, _BEGUN, _ENDED = (number(name) for name in ("creation_time", "scheduled_time", "deletion_time"))
_PHASE = pl.col("pod_phase")
_GPU = number("num_gpu") * number("gpu_milli") / 1000.0
_CPU, _MEMORY = number("cpu_milli") / 1000.0, number("memory_mib") / 1024.0
_NOTHING = pl.all_horizontal(amount < GRAIN for amount in (_CPU, _MEMORY, _GPU))

_LAYOUT = Layout(
    columns=COLUMNS,
    wanted=("name", *_AMOUNTS, "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
    key="name",
    what="pod that ran",
    checks=[
        bad_name("name"),
        *(bad_number(name, 0, LARGEST_AMOUNT) for name in _AMOUNTS),
        bad_number("creation_time", -LARGEST_SECONDS, LARGEST_SECONDS),
        *(
            bad_number(name, -LARGEST_SECONDS, LARGEST_SECONDS, optional=True)
            for name in ("deletion_time", "scheduled_time")
        ),
        Check("num_gpu x gpu_milli", f"<= {1000 * LARGEST_AMOUNT:g}", _GPU > LARGEST_AMOUNT, source="num_gpu"),
    ],
    unusable=[
        Check("pod_phase", "Running", _PHASE == "Failed", "rows: failed"),
        Check("pod_phase", "Running", _PHASE == "Pending", "rows: pending"),
        Check("pod_phase", "Running", ~_PHASE.is_in(("Running", "Succeeded")), "rows: other phase"),
        Check("scheduled_time", "given", _BEGUN.is_null(), "rows: no scheduled time"),
        Check("deletion_time", "given", _ENDED.is_null(), "rows: no deletion time"),
        Check("deletion_time", ">= scheduled_time", _ENDED < _BEGUN, "rows: end before start"),
        Check("cpu_milli", "> 0", _NOTHING, "rows: no demand"),
    ],
    values={
        "id": pl.col("name"),
        "start": _CREATED,
        "seconds": _ENDED - _BEGUN,
        "workers": pl.lit(1),
        "wait": _BEGUN - _CREATED,
        "gpu": _GPU,
        "cpu": _CPU,
        "memory": _MEMORY,
    },
)

_ASSUMED = {
    "arrival": "A job arrives in the first slot that begins when, or after, its pod was created, counted from the "
    "first that is used.",
    "duration": "A job lasts from when its pod was scheduled to when it was deleted.",
    "workers": "A pod is a job of one worker, which takes what the pod takes. Most pods are services and not "
    "training; how a job scales is assumed.",
    "demand": "As recorded, a fraction of a GPU too; the types of GPU that a pod may have are not used.",
    "speed": "Every job is all-reduce: there are no servers.",
}


def read_machines(path: str | PathLike[str], *, strict: bool = False) -> tuple[Cluster, dict[str, int]]:
    """Read a list of nodes: resources gpu, cpu and memory (GiB).

    Parameters
    ----------
    path : str or path
        The list, plain or gzip.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.

    Returns
    -------
    cluster : Cluster
        Its machines in the order of the file; the model of the GPU is not used.
    skipped : dict of str to int
        Rows left out, by reason.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no row is usable, or ``strict`` and a row is malformed.
    """
    return machines(
        Path(path),
        NODE_COLUMNS,
        "sn",
        {"gpu": ("gpu", 1.0), "cpu": ("cpu_milli", 1.0 / 1000.0), "memory": ("memory_mib", 1.0 / 1024.0)},
        header=True,
        strict=strict,
    )
