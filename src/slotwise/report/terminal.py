"""A plan as text: a quick look at who runs where, in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from string import ascii_uppercase

from rich.console import Console
from rich.style import Style
from rich.text import Text

from slotwise.report.console import WIDTH
from slotwise.report.figures import job_colour, short
from slotwise.sim.binning import bins
from slotwise.sim.stays import Stay

__all__ = ["print_plan"]

_MOST_ROWS = 40
_MOST_KEYS = 60
_LONGEST_NAME = 20
_EMPTY = "·"


def print_plan(
    stays: Sequence[Stay], jobs: Sequence[str], machines: Sequence[str], horizon: int, console: Console | None = None
) -> None:
    """Print machines × slots, a letter for the job that has the most workers and servers there.

    Capital letters stand where that job has workers, small ones where it has servers only. Machines and slots are
    grouped where there are more than fit.

    Parameters
    ----------
    stays : sequence of Stay
        What ran where.
    jobs : sequence of str
        All jobs, in the order of arrival.
    machines : sequence of str
        Names of the machines.
    horizon : int
        Slots of the run.
    console : rich.console.Console, optional
        Where to; standard output by default.
    """
    console = Console() if console is None else console
    if not console.is_terminal:
        console.width = WIDTH
    rows = bins(len(machines), _MOST_ROWS)
    names = [_name(machines, first, end) for first, end in rows]
    margin = max(len(name) for name in names) + 1
    shown = max((stay.last + 1 for stay in stays), default=horizon)
    columns = bins(shown, max(10, console.width - margin))
    tall, wide = rows[0][1], columns[0][1]
    amounts: dict[tuple[int, int], Counter[str]] = {}
    working: set[tuple[int, int, str]] = set()
    for stay in stays:
        row = stay.machine // tall
        for column in range(stay.first // wide, stay.last // wide + 1):
            begin, end = max(stay.first, column * wide), min(stay.last + 1, (column + 1) * wide)
            count = amounts.setdefault((row, column), Counter())
            count[stay.job_id] += (end - begin) * (stay.workers + stay.servers)
            if stay.workers:
                working.add((row, column, stay.job_id))
    rank = {job_id: at for at, job_id in enumerate(jobs)}
    grouped = [
        *([f"{tall} machines a row"] if tall > 1 else []),
        *([f"{wide} slots a column"] if wide > 1 else []),
    ]
    head = f"slots 0 to {shown - 1}" + (f" ({', '.join(grouped)})" if grouped else "")
    if shown < horizon:
        head += f"; nothing runs later, up to slot {horizon - 1}"
    console.print(f"{'':{margin}}{head}", highlight=False, markup=False, soft_wrap=True)
    ran = sorted({stay.job_id for stay in stays}, key=lambda job_id: rank[job_id])
    colours = {job_id: job_colour(at) for at, job_id in enumerate(ran)}
    letters = {job_id: ascii_uppercase[at % len(ascii_uppercase)] for at, job_id in enumerate(ran)}
    for row, name in enumerate(names):
        line = Text(f"{name:<{margin}}")
        for column in range(len(columns)):
            there = amounts.get((row, column))
            if there is None:
                line.append(_EMPTY, Style(dim=True))
                continue
            # Of equals the job that came first.
            job_id = min(there, key=lambda one: (-there[one], rank[one]))
            if (row, column, job_id) in working:
                line.append(letters[job_id], Style(color="white", bgcolor=colours[job_id]))
            else:
                line.append(letters[job_id].lower(), Style(color=colours[job_id]))
        console.print(line, no_wrap=True, overflow="crop")
    _print_key(letters, colours, console)


def _name(machines: Sequence[str], first: int, end: int) -> str:
    return short(machines[first] if end - first == 1 else f"{machines[first]} ...", _LONGEST_NAME)


def _print_key(letters: dict[str, str], colours: dict[str, str], console: Console) -> None:
    """Print which letter is which job."""
    key = Text()
    for job_id in list(letters)[:_MOST_KEYS]:
        key.append(letters[job_id], Style(color="white", bgcolor=colours[job_id]))
        key.append(f" {short(job_id)}  ")
    if len(letters) > _MOST_KEYS:
        key.append(f"and {len(letters) - _MOST_KEYS} more")
    console.print()
    console.print(key if letters else Text("nothing runs"))
    if len(letters) > len(ascii_uppercase):
        apart = "; colours tell them apart" if console.color_system is not None else ""
        console.print(f"a letter stands for more than one job{apart}", highlight=False)
    console.print("capitals: workers (perhaps with servers); small letters: servers only", highlight=False)
