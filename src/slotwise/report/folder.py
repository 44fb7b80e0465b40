"""The folder of a comparison: what is finished is kept, whatever happens, and tables are made of it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars

from slotwise.errors import InvalidInput
from slotwise.report._files import fill_whole, write_whole
from slotwise.sim import tables
from slotwise.sim.outcomes import Bounded, Outcome

__all__ = ["Folder", "read_events", "read_runs", "read_settings"]

_SETTINGS = "comparison.json"
_PARTS = "parts"
_EVENTS = "events"
_TABLES = {"jobs": "jobs.parquet", "slots": "slots.parquet", "prices": "prices.parquet"}
"""Tables of all runs, and how the part of one run is called."""
_EMPTY = {"jobs": tables.JOB_COLUMNS, "slots": tables.SLOT_COLUMNS, "prices": tables.PRICE_COLUMNS}

Row = dict[str, Any]


class Folder:
    """Runs of one comparison on disk.

    ``comparison.json`` says how they were made. ``parts/`` has a row and a job table for each finished run and a row
    for each bound, ``events/`` the events of each run. Each file is whole or not there, and the row is written last:
    a run whose row is there is finished. ``runs.parquet``, ``jobs.parquet``, ``slots.parquet``, ``prices.parquet`` and
    ``summary.csv`` are made of the parts.

    Parameters
    ----------
    path : Path
        Made if it does not exist.
    settings : mapping
        What all runs have in common; plain data.

    Raises
    ------
    InvalidInput
        If the folder cannot be written, holds something else, or runs with other settings.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any]) -> None:
        self.path = path
        self.settings = dict(settings)
        known = read_settings(path) if (path / _SETTINGS).exists() else None
        if known is None and path.is_dir() and any(path.iterdir()):
            raise InvalidInput(
                f"--out must be a new folder or one of slotwise compare, {str(path)!r} holds other files"
            )
        if known is not None:
            for name in [*settings, *known]:
                if known.get(name) != self.settings.get(name):
                    raise InvalidInput(
                        f"--out {str(path)!r} holds runs with {name} {_shown(known.get(name))}, now it is "
                        f"{_shown(self.settings.get(name))}; name another folder, or delete this one"
                    )
        try:
            for folder in (path, path / _PARTS, path / _EVENTS):
                folder.mkdir(parents=True, exist_ok=True)
            if known is None:
                write_whole(path / _SETTINGS, _text(self.settings))
        except OSError as error:
            raise InvalidInput(f"--out must be a folder that can be written, got {str(path)!r}: {error}") from None

    def has(self, policy: str | None, seed: int, source: str = "") -> bool:
        """Whether a run, or with None the bound, is finished; of a policy of one's own with this source text."""
        row = _read(self._part(policy, seed, "json"))
        if row is None or row.get("policy_source", "") != source:
            return False
        if policy is None:
            return True
        tables_ = [self._part(policy, seed, ending) for ending in _TABLES.values()]
        return all(path.exists() for path in [*tables_, self._events(policy, seed)])

    def keep(self, finished: Outcome | Bounded, source: str = "") -> None:
        """Write a finished run or bound."""
        if isinstance(finished, Bounded):
            row: Row = {
                "seed": finished.seed,
                "workload_digest": finished.digest,
                "upper_bound": finished.value,
                "bound_gap": finished.gap,
                "wall_seconds": finished.wall_seconds,
            }
            write_whole(self._part(None, finished.seed, "json"), _text(row))
            return
        for name, table in (
            ("jobs", tables.frame(tables.job_rows(finished), tables.JOB_COLUMNS)),
            ("slots", tables.frame(tables.slot_rows(finished))),
            ("prices", tables.frame(tables.price_rows(finished), tables.PRICE_COLUMNS)),
        ):
            fill_whole(self._part(finished.policy, finished.seed, _TABLES[name]), table.write_parquet)
        write_whole(self._events(finished.policy, finished.seed), finished.events)
        row = tables.run_row(finished, None) | {"policy_source": source}
        write_whole(self._part(finished.policy, finished.seed, "json"), _text(row))

    def finish(self, policies: list[str]) -> polars.DataFrame:
        """Write the tables and ``summary.csv`` of all that is finished; return the summary.

        ``policies`` come first, in this order, then those of earlier calls.
        """
        rows = _rows(self.path)
        bounds = {row["seed"]: row for row in rows if "policy" not in row}
        made = [row for row in rows if "policy" in row and self.has(row["policy"], row["seed"], row["policy_source"])]
        rank = {name: at for at, name in enumerate(policies)}
        made.sort(key=lambda row: (rank.get(row["policy"], len(rank)), row["policy"], row["seed"]))
        runs = []
        for row in made:
            row.pop("policy_source", None)
            bound = bounds.get(row["seed"])
            if bound is not None and bound["upper_bound"] is not None:
                row["upper_bound"], row["bound_gap"] = bound["upper_bound"], bound["bound_gap"]
                if bound["upper_bound"] > 0:
                    row["fraction_of_bound"] = row["total_utility"] / bound["upper_bound"]
            runs.append(row)
        table = tables.frame(runs)
        summary = tables.summary(table)
        fill_whole(self.path / "runs.parquet", table.write_parquet)
        for name, ending in _TABLES.items():
            # Job by job through memory would be much: one part after another.
            parts = [self._part(row["policy"], row["seed"], ending) for row in runs]
            rows_of_all = polars.scan_parquet(parts) if parts else polars.LazyFrame(schema=_EMPTY[name])
            fill_whole(self.path / f"{name}.parquet", rows_of_all.sink_parquet)
        fill_whole(self.path / "summary.csv", summary.write_csv)
        return summary

    def _events(self, policy: str, seed: int) -> Path:
        return self.path / _EVENTS / f"{_stem(policy, seed)}.jsonl.gz"

    def _part(self, policy: str | None, seed: int, ending: str) -> Path:
        return self.path / _PARTS / f"{_stem(policy, seed)}.{ending}"


def read_settings(path: Path) -> Row:
    """Return how the runs of a folder were made.

    Raises
    ------
    InvalidInput
        If it is no folder of ``slotwise compare``.
    """
    found = _read(path / _SETTINGS)
    if found is None:
        raise InvalidInput(f"{path} must be a folder that slotwise compare wrote, it has no readable {_SETTINGS}")
    return found


def read_runs(path: Path) -> list[Row]:
    """Return the rows of all finished runs of a folder, in no particular order."""
    return [row for row in _rows(path) if {"policy", "seed", "workload_digest", "policy_source"} <= set(row)]


def read_events(path: Path, policy: str, seed: int) -> Iterator[Row]:
    """Yield the events and commands of a run of a folder.

    Raises
    ------
    InvalidInput
        If their file cannot be read or is damaged.
    """
    file = path / _EVENTS / f"{_stem(policy, seed)}.jsonl.gz"
    try:
        with gzip.open(file, "rt", encoding="utf-8") as stream:
            for line in stream:
                yield json.loads(line)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InvalidInput(
            f"{file} must hold the events of a run, it is damaged ({error}); delete it, and slotwise compare makes it "
            "again"
        ) from None


def _rows(path: Path) -> list[Row]:
    """Return the rows of all parts that are whole, of runs and of bounds."""
    return [row for part in sorted((path / _PARTS).glob("*.json")) if (row := _read(part)) is not None]


def _read(path: Path) -> Row | None:
    """Return what a file holds; None if it is not there or not whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _stem(policy: str | None, seed: int) -> str:
    """Return the name of a run's files; what no file name may hold is replaced, and told apart by a digest."""
    name = "bound" if policy is None else policy
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    if plain != name or (policy is not None and name == "bound"):
        plain += "-" + hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain}-{seed}"


def _shown(value: object) -> str:
    return "not given" if value is None else json.dumps(value)


def _text(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, indent=2, allow_nan=False).encode() + b"\n"
