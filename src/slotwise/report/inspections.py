"""An inspection of a trace as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotwise.report.console import print_notes
from slotwise.words import counted

__all__ = ["print_inspection"]

_WIDTH = 140
"""Columns where the output is no terminal."""
_FULL = 30
"""Characters of a bar that stands for all machines."""
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def print_inspection(report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print an inspection.

    Parameters
    ----------
    report : mapping
        The fields of ``inspect --json``.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = _WIDTH
    roles = report["roles"]
    end = "unknown" if report["end_seconds"] is None else _time(report["end_seconds"])
    lines = [
        f"{report['trace']}: format {report['format']}, {counted(report['jobs'], 'job')}",
        f"arrivals over {_time(report['span_seconds'])}, last end (each starting on arrival) {end}",
        f"{counted(roles['workers'], 'worker')} and {counted(roles['servers'], 'server')}; "
        f"{counted(roles['server_jobs'], 'job')} with servers, "
        f"{roles['all_reduce_jobs']} all-reduce",
    ]
    if report["recorded_capacity"]:
        held = ", ".join(f"{amount:g} {name}" for name, amount in report["recorded_capacity"].items())
        lines.append(f"recorded on machines with {held}")
    for line in lines:
        console.print(escape(line), highlight=False, soft_wrap=True)
    console.print()
    console.print(_quantiles(report))
    if report["load"] is not None:
        console.print(
            f"\noffered load, as a share of {counted(report['machines'], 'machine')} (each job starting on arrival)"
        )
        console.print(_load(report["load"]))
    elif report["machines"] is not None:
        console.print("\nno offered load: durations are unknown")
    if report["contradictions"]:
        console.print("\ncontradictions")
        for each in report["contradictions"]:
            jobs = f"{counted(each['jobs'], 'job')}: " if each["jobs"] else ""
            example = f" ({each['example']} is one)" if each["example"] else ""
            console.print(escape(f"  {jobs}{each['what']}{example}"), highlight=False, soft_wrap=True)
    print_notes(report, console)


def _time(seconds: float) -> str:
    for length, unit in _UNITS:
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"


def _quantiles(report: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    rows = {
        "duration": (report["duration_seconds"], _time),
        "time between arrivals": (report["interarrival_seconds"], _time),
        "wait until it ran": (report["wait_seconds"], _time),
        "workers of a job": (report["workers"], _amount),
        "servers of a job that has any": (report["servers"], _amount),
        **{
            f"{name} of a job{'' if name in report['demand_recorded'] else ' (assumed)'}": (values, _amount)
            for name, values in report["demand"].items()
        },
    }
    names = next(list(values) for values, _ in rows.values() if values is not None)
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for label, (values, shown) in rows.items():
        cells = ["-"] * len(names) if values is None else [shown(value) for value in values.values()]
        table.add_row(escape(label), *cells)
    return table


def _amount(value: float) -> str:
    return f"{value:.4g}"


def _load(load: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    names = list(load["mean"])
    table.add_column("from", justify="right")
    table.add_column("arrivals", justify="right")
    for name in names:
        table.add_column(escape(name), justify="right")
    table.add_column("")
    for stretch in load["over_time"]:
        share = stretch["share"]
        most = max(share.values(), default=0.0)
        bar = "#" * min(_FULL, round(most * _FULL)) + ("+" if most > 1 else "")
        cells = [f"{share[name]:.3g}" for name in names]
        table.add_row(_time(stretch["from_seconds"]), str(stretch["arrivals"]), *cells, bar)
    table.add_row("mean", "", *(f"{load['mean'][name]:.3g}" for name in names), "")
    table.add_row("peak", "", *(f"{load['peak'][name]:.3g}" for name in names), "")
    return table
