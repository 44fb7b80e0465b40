"""One way in: which format a file has is seen from what is in it, not from its name."""

from __future__ import annotations

import re
from collections import Counter
from os import PathLike
from pathlib import Path

from slotwise.errors import InvalidInput, InvalidTrace
from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster
from slotwise.units import duration
from slotwise.workloads import pai, tiresias
from slotwise.workloads._base import Workload
from slotwise.workloads._fields import shown
from slotwise.workloads._rows import read_text

__all__ = [
    "CLUSTER_FORMATS",
    "WORKLOAD_FORMATS",
    "read_cluster",
    "read_cluster_counted",
    "read_trace",
    "recognise",
]

WORKLOAD_FORMATS = ("jobs-yaml", "jobs-csv", "pai", "tiresias")
"""Formats of jobs."""

CLUSTER_FORMATS = ("cluster-yaml", "pai-machines", "tiresias-cluster")
"""Formats of machines."""

_JOBS_CSV = (
    "name epochs samples batchSize gradientMB secondsPerSample workersPerServer minWorkers maxWorkers "
    "requestedWorkers restartSeconds arrival maxServers domain speed.kind utility.kind utility.value"
)
_HEADERS = {
    "jobs-csv": frozenset(_JOBS_CSV.split()),
    "pai": frozenset(pai.COLUMNS),
    "tiresias": frozenset(tiresias.COLUMNS),
    "pai-machines": frozenset(pai.MACHINE_COLUMNS),
    "tiresias-cluster": frozenset(tiresias.CLUSTER_COLUMNS),
}
_LOOKED_AT = 1000
_KEY = re.compile(r"""^[ \t{\[-]*["']?(apiVersion|kind|metadata|spec)["']?\s*:(\s|$)""", re.MULTILINE)
_OF_KIND = re.compile(r"""^[^#\n]*\bkind["']?\s*:\s*["']?(TrainingJob|Cluster)\b""", re.MULTILINE)
_MACHINES = re.compile(r"""^[^#\n]*\bmachines["']?\s*:""", re.MULTILINE)


def recognise(path: str | PathLike[str]) -> str:
    """Return the format of a file, one of ``WORKLOAD_FORMATS`` or ``CLUSTER_FORMATS``, from its content.

    Raises
    ------
    InvalidTrace
        If it cannot be read, or is in none of these formats.
    """
    path = Path(path)
    found = _format(read_text(path))
    if found is None:
        known = ", ".join((*WORKLOAD_FORMATS, *CLUSTER_FORMATS))
        raise InvalidTrace(f"{path}: content must be in a known format ({known}), got another; name it with --format")
    return found


def _format(text: str) -> str | None:
    lines: list[str] = []
    start = 0
    while len(lines) < _LOOKED_AT and start < len(text):  # the rest of a long trace is not looked at
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        if text[start:end].strip():
            lines.append(text[start:end])
        start = end + 1
    if not lines:
        return None
    rows = [[field.strip().strip("\"'") for field in line.split(",")] for line in lines]
    matches = {name: len(set(rows[0]) & columns) for name, columns in _HEADERS.items()}
    best = max(matches, key=matches.__getitem__)
    if matches[best] >= 2:
        return best
    votes = Counter(name for name in map(_row_format, rows) if name is not None)
    if votes:
        return votes.most_common(1)[0][0]
    if _KEY.search(text):
        kind = _OF_KIND.search(text)
        if kind is not None:
            return "cluster-yaml" if kind[1] == "Cluster" else "jobs-yaml"
        return "cluster-yaml" if _MACHINES.search(text) else "jobs-yaml"
    return None


def _row_format(fields: list[str]) -> str | None:
    """Return which of the formats without a header one row follows."""
    if len(fields) == len(pai.COLUMNS):
        times = all(map(_number_or_empty, fields[6:8]))
        return "pai" if times and fields[5] in pai.STATUSES else None
    if len(fields) == len(pai.MACHINE_COLUMNS) and fields[0] and not _number_or_empty(fields[1]):
        return "pai-machines" if all(x and _number_or_empty(x) for x in fields[2:]) else None
    return None


def _number_or_empty(text: str) -> bool:
    try:
        float(text or "0")
    except ValueError:
        return False
    return True


def _chosen(path: Path, given: str | None, formats: tuple[str, ...], what: str) -> str:
    if given is not None:
        if given not in formats:
            raise InvalidTrace(f"{path}: format must be one of {', '.join(formats)}, got {shown(given)}")
        return given
    found = recognise(path)
    if found not in formats:
        raise InvalidTrace(f"{path}: {what} must be in one of the formats {', '.join(formats)}, got {found}")
    return found


def read_trace(
    path: str | PathLike[str],
    slot: str | float = "10min",
    *,
    format: str | None = None,
    strict: bool = False,
    seed: int = 0,
    value: str = "uniform",
    elastic: float = 2.0,
    bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH,
) -> Workload:
    """Read jobs from a file.

    Parameters
    ----------
    path : str or path
        Own jobs (YAML or CSV), a PAI instance table or a Tiresias trace; traces may be in gzip.
    slot : str or float
        Length of a slot, > 0: ``"10min"``, or seconds.
    format : str, optional
        One of ``WORKLOAD_FORMATS``; recognised from the content if not given.
    strict : bool
        Whether to stop at the first malformed row of a trace instead of counting it. Own jobs are always
        strict.
    seed : int
        Of what a trace does not say, >= 0.
    value : str
        Value of a job of a trace: ``uniform`` in [1, 100], or ``work``, in proportion to its worker-time.
    elastic : float
        Most workers of a job of a trace, as a multiple of the recorded ones, >= 1.
    bandwidth : tuple of float
        MB/s from inside a machine to across the cluster; the durations of a trace are calibrated at the last.

    Returns
    -------
    Workload
        The jobs, what was assumed and what was skipped.

    Raises
    ------
    InvalidTrace
        If the file cannot be read or used; one line with file, line, field, value and bound.
    InvalidInput
        If another argument is out of its bounds, or a job of an own file is bad.
    """
    path = Path(path)
    slot_seconds = duration(slot, "slot")
    if slot_seconds <= 0:
        raise InvalidInput(f"slot must be > 0, got {slot!r}")
    chosen = _chosen(path, format, WORKLOAD_FORMATS, "workload")
    if chosen in ("pai", "tiresias"):
        reader = pai.read if chosen == "pai" else tiresias.read
        return reader(
            path,
            slot_seconds=slot_seconds,
            seed=seed,
            strict=strict,
            value=value,
            elastic=elastic,
            bandwidth=bandwidth,
        )
    from slotwise.workloads import jobs

    return jobs.read(path, slot_seconds=slot_seconds)


def read_cluster(path: str | PathLike[str], *, format: str | None = None, strict: bool = False) -> Cluster:
    """Read machines from a file.

    Parameters
    ----------
    path : str or path
        A cluster file, a PAI machine table or a Tiresias cluster specification.
    format : str, optional
        One of ``CLUSTER_FORMATS``; recognised from the content if not given.
    strict : bool
        Whether to stop at the first malformed row of a PAI machine table; the other formats are always
        strict.

    Raises
    ------
    InvalidTrace
        If the file cannot be read or used; one line with file, line, field, value and bound.
    InvalidCluster
        If a machine of a cluster file is bad.
    """
    return read_cluster_counted(path, format=format, strict=strict)[0]


def read_cluster_counted(
    path: str | PathLike[str], *, format: str | None = None, strict: bool = False
) -> tuple[Cluster, dict[str, int]]:
    """Read machines as ``read_cluster`` does, and count the rows that were skipped, by reason."""
    path = Path(path)
    chosen = _chosen(path, format, CLUSTER_FORMATS, "cluster")
    if chosen == "pai-machines":
        return pai.read_machines(path, strict=strict)
    if chosen == "tiresias-cluster":
        return tiresias.read_cluster(path), {}
    from slotwise.workloads import clusters

    return clusters.read(path), {}
