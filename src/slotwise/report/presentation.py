"""The files of a comparison that people look at: its plan, its page, its figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slotwise.report import page, plots
from slotwise.report._files import fill_whole, write_whole
from slotwise.report.figures import Gantt, Heat, Panel
from slotwise.report.views import View, plan_table, view

__all__ = ["draw", "look", "write_page"]

_FIGURES = "figures"


def look(folder: Path, chosen: tuple[str, int] | None, machines: Sequence[str], horizon: int) -> View:
    """Write ``plan.parquet`` of a finished folder, and return what its tables look like.

    Parameters
    ----------
    folder : Path
        Of ``slotwise compare --out``, see ``Folder.finish``.
    chosen : (str, int), optional
        Policy and seed of the run whose plan and prices are shown.
    machines : sequence of str
        Names of its machines.
    horizon : int
        Its slots.
    """
    fill_whole(folder / "plan.parquet", plan_table(folder, chosen, horizon, machines).write_parquet)
    return view(folder, machines)


def write_page(folder: Path, seen: View, title: str, told: Mapping[str, Mapping[str, Any]]) -> Path:
    """Write ``report.html``, see ``slotwise.report.page.page``; return its path.

    Raises
    ------
    InvalidInput
        If plotly is not there; no older page stays then.
    """
    path = folder / "report.html"
    path.unlink(missing_ok=True)
    write_whole(path, page.page(seen, title, told).encode())
    return path


def draw(folder: Path, seen: View) -> list[Path]:
    """Write the figures of the page as SVG and PNG into ``figures``; return the files.

    Raises
    ------
    InvalidInput
        If matplotlib is not there.
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
    written = []
    for name, figure in shown.items():
        if figure == []:
            continue
        for format in plots.FORMATS:
            path = folder / _FIGURES / f"{name}.{format}"
            write_whole(path, _picture(figure, format))
            written.append(path)
    return written


def _picture(figure: Sequence[Panel] | Gantt | Heat, format: str) -> bytes:
    match figure:
        case Gantt():
            return plots.gantt(figure, format)
        case Heat():
            return plots.heat(figure, format)
        case _:
            return plots.chart("", figure, format)
