"""One way in: which format a file has is seen from what is in it, not from its name."""

from __future__ import annotations

import re
from collections import Counter
from os import PathLike
from pathlib import Path

from slotwise.errors import InvalidInput, InvalidTrace
from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster
from slotwise.units import duration
from slotwise.words import hint
from slotwise.workloads import gavel, openb, pai, sia, swf, tiresias
from slotwise.workloads._base import Bars, Workload, no_bars
from slotwise.workloads._fields import shown
from slotwise.workloads._recorded import Recorded
from slotwise.workloads._rows import blocks
from slotwise.workloads.models import Assumptions

__all__ = [
    "CLUSTER_FORMATS",
    "OWN_FORMATS",
    "WORKLOAD_FORMATS",
    "read_cluster",
    "read_cluster_counted",
    "read_recorded",
    "read_trace",
    "recognise",
]

OWN_FORMATS = ("jobs-yaml", "jobs-csv")
"""Formats of our own job lists."""

_READERS = {
    "pai": pai.records,
    "tiresias": tiresias.records,
    "gavel": gavel.records,
    "sia": sia.records,
    "swf": swf.records,
    "openb": openb.records,
}
_WITH_THROUGHPUTS = ("gavel", "sia")

WORKLOAD_FORMATS = (*OWN_FORMATS, *_READERS)
"""Formats of jobs."""

_MACHINES_READERS = {"pai-machines": pai.read_machines, "openb-nodes": openb.read_machines}

CLUSTER_FORMATS = ("cluster-yaml", "tiresias-cluster", *_MACHINES_READERS)
"""Formats of machines."""

_JOBS_CSV = (
    "name epochs samples batchSize gradientMB secondsPerSample workersPerServer minWorkers maxWorkers "
    "requestedWorkers restartSeconds arrival maxServers domain speed.kind utility.kind utility.value"
)
_HEADERS = {
    "jobs-csv": frozenset(_JOBS_CSV.split()),
    "pai": frozenset(pai.COLUMNS),
    "tiresias": frozenset(tiresias.COLUMNS),
    "sia": frozenset(sia.COLUMNS),
    "openb": frozenset(openb.COLUMNS),
    "openb-nodes": frozenset(openb.NODE_COLUMNS),
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
    # Of a long trace the first megabytes say enough.
    found = _format(next(text for _, text in blocks(path) if text.strip()))
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
    votes.update(name for name in map(_line_format, lines) if name is not None)
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


def _line_format(line: str) -> str | None:
    """Return which of the formats without commas one row follows."""
    fields = [field.strip() for field in line.split("\t")]
    for columns in (gavel.COLUMNS, gavel.LONG_COLUMNS):
        if len(fields) == len(columns):
            row = dict(zip(columns, fields, strict=True))
            numbers = (row["steps"], row["arrival"], row["needs_data"])
            return "gavel" if all(x and _number_or_empty(x) for x in numbers) else None
    fields = line.split()
    if len(fields) == len(swf.COLUMNS) and not line.lstrip().startswith(swf.COMMENT):
        return "swf" if all(map(_number_or_empty, fields)) else None
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
            raise InvalidTrace(
                f"{path}: format must be one of {', '.join(formats)}, got {shown(given)}{hint(given, formats)}"
            )
        return given
    found = recognise(path)
    if found not in formats:
        raise InvalidTrace(f"{path}: {what} must be in one of the formats {', '.join(formats)}, got {found}")
    return found


def read_recorded(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    strict: bool = False,
    throughputs: str | PathLike[str] | None = None,
    bars: Bars = no_bars,
) -> Recorded:
    """Read what a trace says of its jobs, and assume nothing.

    Parameters
    ----------
    path, format, strict, throughputs, bars
        As ``read_trace`` has them; own jobs are no trace.

    Raises
    ------
    InvalidTrace
        If the file cannot be read or used; one line with file, line, field, value and bound.
    """
    path = Path(path)
    chosen = _chosen(path, format, tuple(_READERS), "trace")
    if throughputs is not None and chosen not in _WITH_THROUGHPUTS:
        raise InvalidTrace(f"{path}: throughputs go with {' and '.join(_WITH_THROUGHPUTS)}, got them with {chosen}")
    given = {} if throughputs is None else {"throughputs": throughputs}
    with bars("reading: bytes", path.stat().st_size if path.is_file() else 0) as shown_bytes:
        return _READERS[chosen](path, strict=strict, progress=shown_bytes, **given)


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
    throughputs: str | PathLike[str] | None = None,
    bars: Bars = no_bars,
) -> Workload:
    """Read jobs from a file.

    Parameters
    ----------
    path : str or path
        Own jobs (YAML or CSV), or a trace in one of ``WORKLOAD_FORMATS``; traces may be in gzip.
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
    throughputs : str or path, optional
        What turns the steps of a trace into time: a table of throughputs for Gavel, a folder of profiles for Sia.
    bars : callable, optional
        Makes the progress bars, of bytes and of jobs.

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
    if chosen not in OWN_FORMATS:
        assumptions = Assumptions(slot_seconds, seed, value, elastic, bandwidth)
        recorded = read_recorded(path, format=chosen, strict=strict, throughputs=throughputs, bars=bars)
        return assumptions.workload(recorded, bars)
    if throughputs is not None:
        raise InvalidTrace(f"{path}: throughputs go with {' and '.join(_WITH_THROUGHPUTS)}, got them with {chosen}")
    from slotwise.workloads import jobs

    return jobs.read(path, slot_seconds=slot_seconds)


def read_cluster(path: str | PathLike[str], *, format: str | None = None, strict: bool = False) -> Cluster:
    """Read machines from a file.

    Parameters
    ----------
    path : str or path
        A file in one of ``CLUSTER_FORMATS``.
    format : str, optional
        One of ``CLUSTER_FORMATS``; recognised from the content if not given.
    strict : bool
        Whether to stop at the first malformed row of a table of machines (PAI, openb); the other formats are
        always strict.

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
    if chosen in _MACHINES_READERS:
        return _MACHINES_READERS[chosen](path, strict=strict)
    if chosen == "tiresias-cluster":
        return tiresias.read_cluster(path), {}
    from slotwise.workloads import clusters

    return clusters.read(path), {}
