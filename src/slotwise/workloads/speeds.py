"""Measured speeds: rows of workers, servers, batch and speed, for fitting a speed model to them.

Three formats, told apart by their content:

- Own rows, a CSV with a header. ``workers``, ``samples_per_second`` (total over the workers; also ``samples/s``) and
  ``batch`` (samples of an iteration over all workers) are needed. ``servers`` (absent, empty or 0: all-reduce),
  ``model`` (also ``name``), ``mode``, ``bandwidth`` (MB/s, or with a unit: ``5Gbps``) and ``placement`` (``machine``,
  ``cluster``, or workers on each machine as a string of digits: ``44``) may be there.
- The DL2 table (pengyanghua/DL2, ``config_speed.txt``): one Python tuple a line, (model, mode, batch, servers, workers,
  [samples/s of each worker], ...). The batch is the total; what follows the rates is not used.
- Sia's profiles (siasosp23/artifacts): a CSV with ``local_bsz`` (samples of a worker), ``step_time`` and ``sync_time``
  in seconds, and ``placement`` (digits, GPUs on each node) or ``num_nodes`` and ``num_replicas``. All-reduce; a step is
  an iteration and holds its synchronisation. In the files of its pipeline-parallel model (gpt) some steps are shorter
  than their synchronisation: they cannot hold it, and seconds are the sum of both in all rows of such a file.

A row with a speed of 0 (of one worker or of all) is a failed run: it is left out and counted. Everything else that does
not follow its format is refused, with file and line.
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidTrace
from slotwise.model.cluster import DEFAULT_BANDWIDTH
from slotwise.model.job import LARGEST_WORKERS
from slotwise.words import counted, hint
from slotwise.workloads._fields import Field
from slotwise.workloads._rows import read_text, refusal

__all__ = ["COLUMNS", "Measured", "Speeds", "read"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

COLUMNS = ("workers", "servers", "samples_per_second", "batch", "model", "mode", "bandwidth", "placement")
"""Columns of own rows."""

_ALIASES = {"samples/s": "samples_per_second", "name": "model"}
_NEEDED = ("workers", "samples_per_second", "batch")
_SIA = frozenset({"local_bsz", "step_time", "sync_time"})
_SIA_FILES = ("placements", "scalability")
_LARGEST = 1e9
"""Largest batch, and largest speed or time and inverse of the smallest."""
_LONGEST_LINE = 100_000
_DL2_FIELDS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What was measured of one model.

    Attributes
    ----------
    name : str
        Of the model.
    mode : str
        How it was run (``dist_sync``), empty where the file does not say.
    servers, workers : (K,) int64
        Of each row. Servers are 0 in all rows (all-reduce) or in none.
    batch : (K,) float64
        Samples of an iteration over all workers (F).
    seconds : (K,) float64
        Of one iteration, > 0.
    bandwidth : (K,) float64
        MB/s of the domain that the row ran in; nan where the row does not say.
    skipped : int
        Rows of failed runs, left out.
    """

    name: str
    mode: str
    workers: Ints
    servers: Ints
    batch: Floats
    seconds: Floats
    bandwidth: Floats
    skipped: int

    def __len__(self) -> int:
        """Return K, how many rows there are."""
        return len(self.seconds)

    @property
    def label(self) -> str:
        """Name and mode, for people."""
        return f"{self.name}, {self.mode}" if self.mode else self.name

    @property
    def all_reduce(self) -> bool:
        """Whether there are no servers."""
        return not self.servers.any()


@dataclass(frozen=True, slots=True, eq=False)
class Speeds:
    """What a file, or a folder, holds.

    Attributes
    ----------
    measured : tuple of Measured
        In order of appearance.
    notes : tuple of str
        What was assumed or left out, one sentence each.
    """

    measured: tuple[Measured, ...]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Row:
    """One run, before rows are put together; ``seconds`` is 0 for a failed one."""

    name: str
    mode: str
    workers: int
    servers: int
    batch: float
    seconds: float
    bandwidth: float | None


def read(path: str | PathLike[str], *, bandwidth: tuple[float, float] = DEFAULT_BANDWIDTH) -> Speeds:
    """Read measured speeds.

    Parameters
    ----------
    path : str or path
        A file, plain or gzip, or a folder of Sia's profiles, in which each ``placements*.csv`` and
        ``scalability*.csv`` at any depth is a model of its own. One without a GPU type in its name that is a copy of
        one beside it is not read again.
    bandwidth : tuple of float
        MB/s inside a machine and between machines, for rows that say where they ran but not how fast the links are.

    Raises
    ------
    InvalidTrace
        If it cannot be read or a row does not follow its format: one line with file and line.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path, bandwidth)
    files = sorted(file for file in path.rglob("*.csv") if file.name.startswith(_SIA_FILES) and file.is_file())
    if not files:
        raise InvalidTrace(f"{path}: folder must have files {' or '.join(f'{kind}*.csv' for kind in _SIA_FILES)}")
    measured: list[Measured] = []
    notes: list[str] = []
    for file in files:
        same = _original(file, files)
        if same is not None:
            notes.append(f"{file}: the same as {same.name}, read once")
            continue
        found = _read_file(file, bandwidth)
        measured.extend(found.measured)
        notes.extend(found.notes)
    return Speeds(tuple(measured), tuple(notes))


def _original(file: Path, files: list[Path]) -> Path | None:
    """Return the file of which one without a GPU type in its name is a copy, None if it is none."""
    if file.stem not in _SIA_FILES:
        return None
    beside = (other for other in files if other.parent == file.parent and other.name.startswith(f"{file.stem}-"))
    text = read_text(file)
    return next((other for other in beside if read_text(other) == text), None)


def _read_file(path: Path, bandwidth: tuple[float, float]) -> Speeds:
    text = read_text(path)
    notes: list[str] = []
    if text.lstrip().startswith(("(", "#")):
        rows = list(_dl2(path, text))
    else:
        header, lines = _csv(path, text)
        if set(header) >= _SIA:
            rows, notes = _sia(path, header, lines, bandwidth)
        else:
            rows = list(_own(path, header, lines, bandwidth))
    groups: dict[tuple[str, str, bool], list[_Row]] = {}
    for row in rows:
        groups.setdefault((row.name, row.mode, row.servers == 0), []).append(row)
    if not groups:
        raise InvalidTrace(f"{path}: must have at least 1 row, got none")
    return Speeds(tuple(_together(group) for group in groups.values()), tuple(notes))


def _together(rows: list[_Row]) -> Measured:
    kept = [row for row in rows if row.seconds > 0]
    return Measured(
        rows[0].name,
        rows[0].mode,
        np.array([row.workers for row in kept], dtype=np.int64),
        np.array([row.servers for row in kept], dtype=np.int64),
        np.array([row.batch for row in kept], dtype=np.float64),
        np.array([row.seconds for row in kept], dtype=np.float64),
        np.array([np.nan if row.bandwidth is None else row.bandwidth for row in kept], dtype=np.float64),
        len(rows) - len(kept),
    )


def _named(path: Path) -> str:
    """Return a file's name and that of its folder: ``bert/placements-aws``."""
    stem = path.name.removesuffix(".gz").removesuffix(".csv")
    folder = path.resolve().parent.name
    name = f"{folder}/{stem}" if folder else stem
    return name if name.isprintable() else ascii(name)


# The DL2 table.


def _dl2(path: Path, text: str) -> Iterator[_Row]:
    for line, content in enumerate(text.split("\n"), 1):
        content = content.strip()
        if not content or content.startswith("#"):
            continue
        bound = "(model, mode, batch, servers, workers, [samples/s of each worker], ...)"
        if len(content) > _LONGEST_LINE:
            raise refusal(path, line, "row", f"at most {_LONGEST_LINE} characters long", f"{len(content)}")
        try:
            fields = ast.literal_eval(content)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise refusal(path, line, "row", bound, content) from None
        if not isinstance(fields, tuple) or len(fields) < _DL2_FIELDS:
            raise refusal(path, line, "row", bound, content)
        name, mode, batch, servers, workers, rates = fields[:_DL2_FIELDS]
        for label, value in (("model", name), ("mode", mode)):
            if not isinstance(value, str) or not value.strip() or not value.isprintable():
                raise refusal(path, line, label, "a text of printable characters", value)
        limits = {"batch": _LARGEST, "servers": LARGEST_WORKERS, "workers": LARGEST_WORKERS}
        for (label, most), value in zip(limits.items(), (batch, servers, workers), strict=True):
            if not _is_number(value) or value != int(value) or not 1 <= value <= most:
                raise refusal(path, line, label, f"a whole number in 1 ... {most:g}", value)
        if not isinstance(rates, list | tuple) or len(rates) != workers:
            got = f"{len(rates)} rates" if isinstance(rates, list | tuple) else rates
            raise refusal(path, line, "samples/s", f"a list of {workers}, one of each worker", got)
        for rate in rates:
            if not _is_number(rate) or not (rate == 0 or 1 / _LARGEST <= rate <= _LARGEST):
                raise refusal(path, line, "samples/s", f"0 or in {1 / _LARGEST:g} ... {_LARGEST:g}", rate)
        seconds = batch / sum(rates) if all(rates) else 0.0
        yield _Row(name, mode, int(workers), int(servers), float(batch), seconds, None)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


# CSV files.


def _csv(path: Path, text: str) -> tuple[list[str], Iterator[dict[str, Field]]]:
    """Return the names of the columns, and the rows as fields; an empty cell is an absent field."""
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)

    def cells() -> Iterator[tuple[int, list[str]]]:
        try:
            for row in rows:
                if any(cell.strip() for cell in row):
                    yield rows.line_num, [cell.strip() for cell in row]
        except csv.Error as problem:
            raise InvalidTrace(f"{path}:{rows.line_num}: file must be CSV, got: {problem}") from None

    lines = cells()
    at, header = next(lines)
    header = [_ALIASES.get(name.lower(), name.lower()) for name in header]
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise refusal(path, at, "header", f"a row with one column {twice}", ",".join(header))

    def fields() -> Iterator[dict[str, Field]]:
        for line, row in lines:
            if len(row) != len(header):
                raise refusal(path, line, "row", f"{len(header)} fields", f"{len(row)} fields")
            yield {
                name: Field(str(path), line, name, cell or None, InvalidTrace)
                for name, cell in zip(header, row, strict=True)
            }

    return header, fields()


def _positive(field: Field, noun: str = "a number") -> float:
    """Read 0, or a number that no sum or quotient of its like overflows."""
    value = field.number(0.0, _LARGEST, noun=noun)
    if 0 < value < 1 / _LARGEST:
        field.refuse(f"0 or >= {1 / _LARGEST:g}")
    return value


def _digits(field: Field, others: str = "", instead: str = "") -> tuple[int, int]:
    """Read a placement; return its workers and machines. ``others`` and ``instead`` say what else there may be."""
    text = field.text()
    if not (text.isascii() and text.isdigit()) or "0" in text:
        field.refuse(f"{others}workers on each machine as digits 1 ... 9, such as 44{instead}")
    return sum(map(int, text)), len(text)


def _own(
    path: Path, header: list[str], lines: Iterator[dict[str, Field]], bandwidth: tuple[float, float]
) -> Iterator[_Row]:
    for name in header:
        if name not in COLUMNS:
            # A mistyped `servers` that is passed over would make the rows all-reduce.
            meant = hint(name, COLUMNS) or f" (known: {', '.join(COLUMNS)})"
            raise refusal(path, 1, "header", f"a row of known columns{meant}", name)
    missing = next((name for name in _NEEDED if name not in header), None)
    if missing is not None:
        raise refusal(path, 1, "header", f"a row with the columns {', '.join(_NEEDED)}", ",".join(header))
    for row in lines:
        given = {name: field for name, field in row.items() if field.value is not None}
        for name in _NEEDED:
            if name not in given:
                row[name].refuse("given")
        workers = given["workers"].whole(1, LARGEST_WORKERS)
        servers = given["servers"].whole(0, LARGEST_WORKERS) if "servers" in given else 0
        batch = given["batch"].number(1, _LARGEST)
        rate = _positive(given["samples_per_second"])
        link: float | None = None
        if "placement" in given:
            place = given["placement"]
            if place.value in ("machine", "cluster"):
                inside = place.value == "machine"
            else:
                placed, machines = _digits(
                    place, "machine, cluster or ", "; another level, such as a rack, by its bandwidth"
                )
                if placed != workers:
                    place.refuse(f"the places of {counted(workers, 'worker')}", f"{place.value} ({placed})")
                inside = machines == 1
            link = bandwidth[0 if inside else 1]
        if "bandwidth" in given:
            link = given["bandwidth"].rate()
        name = given["model"].text() if "model" in given else _named(path).rpartition("/")[2]
        mode = given["mode"].text() if "mode" in given else ""
        yield _Row(name, mode, workers, servers, batch, batch / rate if rate else 0.0, link)


def _sia(
    path: Path, header: list[str], lines: Iterator[dict[str, Field]], bandwidth: tuple[float, float]
) -> tuple[list[_Row], list[str]]:
    counts = ("num_nodes", "num_replicas")
    if "placement" not in header and not set(counts) <= set(header):
        bound = f"a row with the columns placement, or {' and '.join(counts)}"
        raise refusal(path, 1, "header", bound, ",".join(header))
    rows: list[_Row] = []
    syncs: list[float] = []
    name = _named(path)
    for row in lines:
        if "placement" in row:
            workers, machines = _digits(row["placement"])
        else:
            machines, workers = (row[column].whole(1, LARGEST_WORKERS) for column in counts)
            if machines > workers:
                row["num_nodes"].refuse(f"<= num_replicas ({workers})")
        batch = row["local_bsz"].number(1, _LARGEST / LARGEST_WORKERS) * workers
        seconds = _positive(row["step_time"], "a number of seconds")
        syncs.append(_positive(row["sync_time"], "a number of seconds"))
        rows.append(_Row(name, "", workers, 0, batch, seconds, bandwidth[0 if machines == 1 else 1]))
    apart = any(0 < row.seconds < sync for row, sync in zip(rows, syncs, strict=True))
    if not apart:
        return rows, []
    for run, sync in zip(rows, syncs, strict=True):
        run.seconds += sync if run.seconds else 0.0
    return rows, [f"{path}: steps shorter than their synchronisation; seconds are the sum of both in all rows"]
