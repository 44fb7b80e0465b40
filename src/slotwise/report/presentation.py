"""The files of a comparison that people look at: its plan, its page, its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotwise.errors import InvalidInput
from slotwise.report import page, plots
from slotwise.report._files import fill_whole, write_whole
from slotwise.report.figures import Gantt, Heat, Panel
from slotwise.report.views import View, plan_table, view

__all__ = ["draw", "has_figures", "look", "write_page"]

_FIGURES = "figures"
_NAMES = ("utility", "completion", "use", "queue", "plan", "plan-1", "prices")


def look(folder: Path, chosen: tuple[str, int], machines: Sequence[str], horizon: int) -> View:
    """Write ``plan.parquet`` of a folder with finished runs, and return what its tables look like.

    Parameters
    ----------
    folder : Path
        Of ``slotwise compare --out``, see ``Folder.finish``.
    chosen : (str, int)
        Policy and seed of the run whose plan and prices are shown.
    machines : sequence of str
        Names of its machines.
    horizon : int
        Its slots.

    Raises
    ------
    InvalidInput
        If the events of the run are damaged.
    OSError
        If a file cannot be written.
    """
    fill_whole(folder / "plan.parquet", plan_table(folder, chosen, horizon, machines).write_parquet)
    return view(folder, chosen, machines)


def write_page(folder: Path, seen: View, title: str, told: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write ``report.html``, see ``slotwise.report.page.page``; return its path.

    Raises
    ------
    InvalidInput
        If plotly is not there; no older page stays then.
    OSError
        If the file cannot be written.
    """
    path = folder / "report.html"
    try:
        page.require()
    except InvalidInput:
        path.unlink(missing_ok=True)
        raise
    write_whole(path, page.page(seen, title, told).encode())
    return path


def has_figures(folder: Path) -> bool:
    """Whether figures were drawn before, which would be of other runs now."""
    return (folder / _FIGURES).is_dir()


def draw(folder: Path, seen: View) -> list[Path]:
    """Write the figures of the page as SVG and PNG into ``figures``, in place of older ones; return the files.

    Raises
    ------
    InvalidInput
        If matplotlib is not there.
    OSError
        If a file cannot be written.
    """
    plots.require()
    (folder / _FIGURES).mkdir(exist_ok=True)
    shown: dict[str, Sequence[Panel] | Gantt | Heat] = {
        "utility": [seen.utility],
        "completion": [seen.completion],
        "use": list(seen.use.values()),
        "queue": [seen.queue],
        **{f"plan-{at}" if at else "plan": chart for at, chart in enumerate(seen.plan)},
    }
    if seen.prices is not None:
        shown["prices"] = seen.prices
    written = {}
    for name, figure in shown.items():
        for format in plots.FORMATS:
            path = folder / _FIGURES / f"{name}.{format}"
            write_whole(path, _picture(figure, format))
            written[path.name] = path
    for name in _NAMES:
        for format in plots.FORMATS:
            if f"{name}.{format}" not in written:
                (folder / _FIGURES / f"{name}.{format}").unlink(missing_ok=True)
    return list(written.values())


def _picture(figure: Sequence[Panel] | Gantt | Heat, format: str) -> bytes:
    match figure:
        case Gantt():
            return plots.gantt(figure, format)
        case Heat():
            return plots.heat(figure, format)
        case _:
            return plots.chart("", figure, format)
