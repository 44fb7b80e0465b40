"""A quote as text: the answer, the sizes to choose among, the plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from slotwise.model.schedule import Placement
from slotwise.quotation import Quote, Size
from slotwise.report.console import answer_text, print_notes
from slotwise.words import amount

__all__ = ["print_quote"]

_WIDTH = 140
"""Columns where the output is no terminal."""
_MOST_SIZES = 25
"""Sizes shown at most, evenly over them."""
_MOST_MACHINES = 6
_MOST_SPANS = 30


def print_quote(found: Quote, report: Mapping[str, Any], console: Console | None = None) -> None:
    """Print a quote.

    Parameters
    ----------
    found : Quote
        The quote.
    report : mapping
        The fields of ``quote --json``.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = _WIDTH
    console.print(escape(_answer(found)), highlight=False, soft_wrap=True)
    sizes = found.useful
    if sizes:
        shown = _some(sizes)
        count = f", {len(shown)} of {len(sizes)} (--json lists all)" if len(shown) < len(sizes) else ""
        console.print(f"\nsizes on empty machines of which no other is faster and no dearer{count}")
        console.print(_sizes(shown))
    if found.plan is not None:
        console.print("\nplan")
        console.print(_plan(found))
    print_notes(report, console)


def _answer(found: Quote) -> str:
    job = found.job
    if found.plan is None:
        return f"{job.id}: {answer_text(found.reason, None, None)}, {found.reason}: {found.detail}"
    plan = found.plan
    end = duration((plan.schedule.completion + 1) * found.slot_seconds)
    what = (
        f"done within {end} (slot {plan.schedule.completion}), worth {amount(plan.utility)}, "
        f"costs {amount(plan.cost)}, payoff {amount(plan.payoff)}"
    )
    if found.reason is None:
        return f"{job.id}: admitted, {what}"
    last = math.ceil(min(size.seconds for size in found.sizes) / found.slot_seconds) - 1
    if last < plan.schedule.completion:
        what += f"; the soonest it could be done is within {duration((last + 1) * found.slot_seconds)} (slot {last})"
    return f"{job.id}: rejected, {found.reason}; the best plan would be {what}"


def _some(sizes: Sequence[Size]) -> list[Size]:
    """Return not too many of them, the first and the last included."""
    if len(sizes) <= _MOST_SIZES:
        return list(sizes)
    return [sizes[i] for i in np.linspace(0, len(sizes) - 1, _MOST_SIZES).round().astype(int).tolist()]


def _sizes(sizes: Sequence[Size]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("workers", "servers"):
        table.add_column(title, justify="right")
    table.add_column("within one")
    for title in ("samples/s", "cost a slot", "all of it takes", "and costs"):
        table.add_column(title, justify="right")
    for size in sizes:
        table.add_row(
            str(size.workers),
            str(size.servers),
            escape(size.level),
            f"{size.samples_per_second:.4g}",
            amount(size.slot_cost),
            duration(size.seconds),
            amount(size.cost),
        )
    return table


def _plan(found: Quote) -> Table:
    assert found.plan is not None
    table = Table(box=None, pad_edge=False)
    table.add_column("slots")
    for title in ("workers", "servers"):
        table.add_column(title, justify="right")
    table.add_column("within one")
    table.add_column("machines")
    schedule = found.plan.schedule
    spans: list[tuple[int, int, Placement]] = []
    for placement, run in groupby(zip(schedule.slots, schedule.placements, strict=True), key=lambda pair: pair[1]):
        slots = [slot for slot, _ in run]
        for begin, end in _runs(slots):
            spans.append((begin, end, placement))
    for begin, end, placement in spans[:_MOST_SPANS]:
        table.add_row(
            str(begin) if begin == end else f"{begin} - {end}",
            str(placement.total_workers),
            str(placement.total_servers),
            escape(found.cluster.levels[found.cluster.level(placement.machines)]),
            escape(_machines(found, placement)),
        )
    if len(spans) > _MOST_SPANS:
        table.add_row("...", "", "", "", f"{len(spans) - _MOST_SPANS} more; --json lists all")
    return table


def _runs(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Return (first, last) of each stretch of slots without a gap."""
    runs: list[tuple[int, int]] = []
    for slot in slots:
        if runs and slot == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], slot
        else:
            runs.append((slot, slot))
    return runs


def _machines(found: Quote, placement: Placement) -> str:
    parts = []
    for machine, workers, servers in zip(placement.machines, placement.workers, placement.servers, strict=True):
        held = [f"{workers} w"] * (workers > 0) + [f"{servers} s"] * (servers > 0)
        parts.append(f"{found.cluster.names[machine]}: {' + '.join(held)}")
    more = f", {len(parts) - _MOST_MACHINES} more" if len(parts) > _MOST_MACHINES else ""
    return ", ".join(parts[:_MOST_MACHINES]) + more


def duration(seconds: float) -> str:
    """Return a duration as people write it: ``40 s``, ``1 h 20 min``, ``3.2 days``."""
    if seconds < 99.5:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60.0)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min" if minutes % 60 else f"{minutes // 60} h"
    return f"{seconds / 86_400.0:.3g} days"
