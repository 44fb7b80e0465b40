"""The files of an experiment: the figure, the table behind it, and a page that says what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slotwise.errors import InvalidInput
from slotwise.report import plots
from slotwise.report._files import write_whole
from slotwise.report.experiments._base import Experiment, Found
from slotwise.report.experiments.small import WAYS
from slotwise.sim import tables

__all__ = ["index", "try_out", "write", "write_index"]

_MOST_ROWS = 130
"""Rows of a table on a page; the CSV file has all."""
_SHOWN = (
    "panel", "x", "policy", "prices", "gain", "where", "ratio", "seed", "runs", "total_utility", "total_utility_std",
    "standard_error", "upper_bound", "fraction_of_bound", "admitted", "completed", "unfinished", "infeasible",
    "rejected", "training_slots_median", "finished_slots_median", "optimum", "proven", "packs", "covers", "both",
    "feasible", "attempts_per_relaxation", "fallbacks", "cost_over_relaxation", "colocated_fraction",
)  # fmt: skip
"""Columns of a table on a page, of those that there are."""
_WAYS = frozenset(way.name for way in WAYS)


def write(folder: Path, experiment: Experiment, found: Found, command: str) -> list[Path]:
    """Write NAME.csv, NAME.svg, NAME.png and NAME.md; each is whole or as it was before.

    Parameters
    ----------
    folder : Path
        Where to, see ``try_out``.
    experiment : Experiment
        What was asked.
    found : Found
        What came out.
    command : str
        That makes it again.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    InvalidInput
        If the folder cannot be written, or matplotlib is not there.
    """
    name = experiment.name
    pictures = {f: plots.chart(experiment.title, found.panels, f) for f in plots.FORMATS} if found.panels else {}
    files = {f"{name}.csv": tables.frame(found.rows).write_csv(None).encode()}
    files |= {f"{name}.{format}": image for format, image in pictures.items()}
    files[f"{name}.md"] = page(experiment, found, command).encode()
    with _named(folder):
        for file, content in files.items():
            write_whole(folder / file, content)
    return [folder / file for file in files]


def try_out(folder: Path) -> None:
    """See that a folder can be written, before hours are spent on what goes there."""
    with _named(folder):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / ".slotwise", b"")
        (folder / ".slotwise").unlink()


@contextmanager
def _named(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"--out must be a folder that can be written, got {str(folder)!r}: {error}") from None


def page(experiment: Experiment, found: Found, command: str) -> str:
    """Return the page of an experiment, Markdown."""
    name = experiment.name
    rows = found.rows[:_MOST_ROWS]
    lines = [
        f"# {experiment.title}",
        "",
        *([f"![{experiment.title}]({name}.svg)", ""] if found.panels else []),
        f"**Claim.** {experiment.claim}",
        "",
        f"**Measured.** {found.measured}",
        "",
        f"**Verdict.** The measurement {_sentence(found.agrees)}",
        "",
        *(["Made with less than the experiment's own points, seeds or policies: rough.", ""] if found.rough else []),
        f"    {command}",
        "",
        f"Digest of the workloads: `{found.digest}`. All rows and columns: [{name}.csv]({name}.csv).",
        "",
        *_table(rows),
    ]
    return "\n".join(lines) + "\n"


def _sentence(agrees: str) -> str:
    return "cannot be judged." if agrees == "-" else f"{agrees}."


def index(entries: Iterable[tuple[Experiment, Found]], command: str) -> str:
    """Return a page that lists experiments with their verdicts."""
    lines = ["# Experiments", "", "| experiment | claim | verdict |", "|---|---|---|"]
    lines += [f"| [{e.name}]({e.name}.md) | {e.claim} | {_sentence(f.agrees)} |" for e, f in entries]
    return "\n".join([*lines, "", f"    {command}"]) + "\n"


def write_index(folder: Path, entries: Sequence[tuple[Experiment, Found]], command: str) -> Path:
    """Write the list of experiments as README.md."""
    path = folder / "README.md"
    with _named(folder):
        write_whole(path, index(entries, command).encode())
    return path


def _table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    columns = [name for name in _SHOWN if name in rows[0]]
    # Ways of deciding are columns of the small cases.
    columns += [name for name in rows[0] if name in _WAYS]
    lines = [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
    lines += [f"| {' | '.join(_cell(row.get(name)) for name in columns)} |" for row in rows]
    return lines


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
