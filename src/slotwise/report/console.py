"""A run as text: the answer to each job, then the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotwise.model.schedule import Reason
from slotwise.sim.metrics import JobRecord, Run
from slotwise.words import amount

__all__ = ["WIDTH", "answer_text", "print_figures", "print_notes", "print_run", "print_summary", "seconds_text"]

WIDTH = 140
"""Columns where the output is no terminal."""

_MOST_ANSWERS = 30
"""Runs of more jobs show figures only."""


def print_run(report: Mapping[str, Any], run: Run, console: Console | None = None) -> None:
    """Print the answers of a small run, its figures, and what was assumed and skipped.

    Parameters
    ----------
    report : mapping
        The fields of ``simulate --json``.
    run : Run
        The run that they come from.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = WIDTH
    if 0 < len(run.records) <= _MOST_ANSWERS:
        console.print(_answers(run))
        console.print()
    print_figures(report, console)


def print_figures(report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print the figures of a command, and what was assumed and skipped.

    Parameters
    ----------
    report : mapping
        Its fields of ``--json``.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = WIDTH
    figures = Table(show_header=False, box=None, pad_edge=False)
    for name, value in report.items():
        if name in ("assumed", "skipped"):
            continue
        if isinstance(value, Mapping):
            for inner, figure in value.items():
                figures.add_row(escape(f"{name}: {inner}"), _shown(figure))
        else:
            figures.add_row(name, _shown(value))
    console.print(figures)
    print_notes(report, console)


def print_summary(
    rows: Sequence[Mapping[str, Any]],
    notes: Sequence[str],
    source: Mapping[str, Mapping[str, Any]],
    console: Console | None = None,
) -> None:
    """Print a comparison: a row for each policy, then what must be known to read it.

    Parameters
    ----------
    rows : sequence of mapping
        Of ``slotwise.sim.tables.summary``.
    notes : sequence of str
        Of ``slotwise.sim.tables.notes``.
    source : mapping
        ``assumed`` and ``skipped`` of the workload.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = WIDTH
    table = Table(box=None, pad_edge=False)
    table.add_column("policy")
    for title in (
        "runs", "utility", "of bound", "admitted", "finished", "unfinished", "turned away", "cannot", "JCT mean",
        "JCT p99", "decision p50",
    ):  # fmt: skip
        table.add_column(title, justify="right")
    for row in rows:
        spread = row["total_utility_std"]
        share = row["fraction_of_bound"]
        table.add_row(
            escape(row["policy"]),
            str(row["runs"]),
            f"{row['total_utility']:.1f}" + ("" if spread is None else f" ± {spread:.1f}"),
            "-" if share is None else f"{share:.1%}",
            *(f"{row[name]:.4g}" for name in ("admitted", "completed", "unfinished", "rejected", "infeasible")),
            *(seconds_text(row[name]) for name in ("jct_seconds_mean", "jct_seconds_p99", "decision_seconds_p50")),
        )
    console.print(table)
    for note in notes:
        console.print(f"\nnote: {note}", highlight=False, markup=False)
    print_notes(source, console)


def seconds_text(value: float | None) -> str:
    """Return a duration as a person writes it, with 3 digits."""
    if value is None:
        return "-"
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0), ("s", 1.0)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value * 1e3:.3g} ms"


def print_notes(report: Mapping[str, Any], console: Console) -> None:
    """Print what was assumed and skipped."""
    for name in ("assumed", "skipped"):
        if report[name]:
            console.print(f"\n{name}")
            for key, text in report[name].items():
                console.print(f"  {key}: {text}", highlight=False, markup=False)


def _answers(run: Run) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("job", "arrival", "answer", "promised", "finished"):
        table.add_column(title)
    table.add_column("utility", justify="right")
    table.add_column("why")
    for record in run.records.values():
        answer = answer_text(record.reason, record.promised, record.started)
        row = (_slot(record.arrival), answer, _slot(record.promised), _slot(record.completed), amount(record.utility))
        table.add_row(escape(record.id), *row, escape(_why(record)))
    return table


def _slot(slot: int | None) -> str:
    return "-" if slot is None else f"slot {slot}"


def answer_text(reason: str | None, promised: int | None, started: int | None) -> str:
    """Return what was answered to a job, in a word: ``rejected`` and ``infeasible`` as the summary counts them."""
    if reason is not None:
        return "infeasible" if reason == Reason.HORIZON_ENDS else "rejected"
    # Only a policy that promises an end admits; the others let every job wait.
    if promised is not None:
        return "admitted"
    return "queued" if started is None else "started"


def _why(record: JobRecord) -> str:
    if record.reason is not None:
        return f"{record.reason}: {record.detail}"
    if record.started is None:
        return "waits"
    return "" if record.completed is not None else "runs"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else escape(str(value))
