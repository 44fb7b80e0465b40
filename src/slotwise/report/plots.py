"""Pictures: the one doorway to matplotlib, which comes with the extra ``plot``."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from slotwise.fitting import Fit
from slotwise.report import _extras
from slotwise.report.figures import ARRIVALS, BOUND, Gantt, Heat, Panel, colour, job_colour, short

__all__ = ["FORMATS", "chart", "gantt", "heat", "measured_against_fitted", "require"]

FORMATS = ("png", "svg")
"""Formats of a picture, as endings of its file's name."""

_BAND = 0.1
"""Share by which the band around the diagonal misses."""
_PANEL = 3.2
"""Width and height of a panel, inches."""
_MOST_ACROSS = 4

_CHART_WIDTH, _CHART_HEIGHT, _LEGEND_WIDTH = 4.2, 3.6, 1.9
"""Of each panel of a chart, and what its legend takes, inches."""
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
_WIDTH, _ROW, _TALLEST, _MOST_NAMED = 9.0, 0.17, 9.0, 40
"""Of a plan and of numbers over machines: inches across, a machine's row and all at most, and rows that are named."""
_MOST_MARKED = 25
"""Points of a curve beyond which they are not marked."""
_LONGEST_TITLE = 34
_TICKS, _FEWER_TICKS, _WIDE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 3.0), 30.0
"""Where an axis has numbers, in each power of ten, and the range from which on it has fewer."""


def chart(title: str, panels: Sequence[Panel], format: str) -> bytes:
    """Draw curves or bars, panel beside panel, with one legend.

    Parameters
    ----------
    title : str
        Above all.
    panels : sequence of Panel
        At least 1.
    format : str
        One of ``FORMATS``.

    Returns
    -------
    bytes
        The picture; equal panels give equal files.
    """
    require()
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    across = min(_MOST_ACROSS, len(panels))
    down = -(-len(panels) // across)
    size = _CHART_WIDTH * across + _LEGEND_WIDTH, _CHART_HEIGHT * down
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines if not panel.bars))
    styles = {name: at for at, name in enumerate(name for name in names if name != BOUND)}
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes, panels, strict=False):
        axis.set_title(panel.title, fontsize=9, parse_math=False)
        axis.set_xlabel(panel.x_label, fontsize=9)
        axis.set_ylabel(panel.y_label, fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(axis="y", color="0.9", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        for line in panel.lines:
            heights = np.array([math.nan if y is None else y for y in line.ys])
            if panel.bars:
                at = np.arange(len(heights))
                spread = [math.nan if e is None else e for e in line.errors] or None
                axis.bar(at, heights, color=colour(0), width=0.7, yerr=spread, ecolor="0.3", capsize=2)
                axis.set_xticks(
                    at, [short(str(x), 20) for x in line.xs], rotation=60, ha="right", fontsize=8, parse_math=False
                )
                continue
            if line.name == BOUND:
                look: dict[str, Any] = {"color": "0.2", "linestyle": "--", "linewidth": 1.2}
            else:
                at_style = styles[line.name]
                look = {
                    "color": colour(at_style),
                    "marker": _MARKERS[at_style % len(_MARKERS)] if len(heights) <= _MOST_MARKED else None,
                    "markersize": 4,
                    "linewidth": 1.4,
                }
            widths = np.array([math.nan if e is None else e for e in line.errors]) if len(line.errors) else None
            if panel.steps:
                look |= {"drawstyle": "steps-post", "marker": None}
            drawn = axis.errorbar(line.xs, heights, yerr=widths, elinewidth=0.7, **look)
            handles.setdefault(line.name, drawn)
        if panel.limit is not None:
            drawn = axis.axhline(panel.limit, color="0.2", linestyle="--", linewidth=1.2)
            handles.setdefault(BOUND, drawn)
        if panel.logarithmic:
            axis.set_xscale("log")
        if panel.shares:
            axis.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
        if panel.steps:
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        axis.set_ylim(bottom=0.0)
    if handles:
        figure.legend(
            list(handles.values()),
            [short(name) for name in handles],
            loc="outside right center",
            fontsize=8,
            frameon=False,
        )
    figure.suptitle(title, fontsize=10)
    return _saved(figure, format)


def gantt(plan: Gantt, format: str) -> bytes:
    """Draw a plan: machines from above, slots from the left, a colour for each job; servers are hatched.

    Parameters
    ----------
    plan : Gantt
        What to draw.
    format : str
        One of ``FORMATS``.
    """
    require()
    from matplotlib.collections import PatchCollection
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch, Rectangle

    height = min(_TALLEST, 1.4 + _ROW * (len(plan.rows) + 1))
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axis = figure.subplots()
    patches: dict[str, list[Rectangle]] = {"": [], "////": []}
    for box in plan.boxes:
        for name, above, high in box.parts():
            corner, long = (box.first - 0.5, above), box.last - box.first + 1
            patches["" if name == "workers" else "////"].append(
                Rectangle(corner, long, high, color=job_colour(box.job))
            )
    for hatch, some in patches.items():
        look: dict[str, Any] = {"edgecolor": "white", "linewidth": 0.3} | ({"hatch": hatch} if hatch else {})
        axis.add_collection(PatchCollection(some, facecolors=[p.get_facecolor() for p in some], **look))
    marks = dict(zip(ARRIVALS, (("v", "0.25"), ("x", "0.45"), ("|", "0.65")), strict=True))
    for at, (kind, (marker, grey)) in enumerate(marks.items()):
        slots = [arrival.slot for arrival in plan.arrivals if arrival.kind == kind]
        axis.scatter(slots, [-1.0 - 0.6 * at] * len(slots), s=12, marker=marker, color=grey, linewidths=1)
    top = -2.7 if plan.arrivals else -0.6
    axis.set(xlim=(plan.first - 0.5, plan.last + 0.5), ylim=(len(plan.rows) - 0.4, top), xlabel=plan.x_label)
    _name_rows(axis, plan.rows)
    axis.set_title(plan.title, fontsize=10, parse_math=False)
    key: list[Any] = [
        Patch(facecolor="0.6", label="workers"),
        Patch(facecolor="0.6", edgecolor="white", hatch="////", label="servers"),
    ]
    if plan.arrivals:
        key += [
            Line2D([], [], linestyle="", marker=marker, color=grey, label=f"arrives, {kind}")
            for kind, (marker, grey) in marks.items()
        ]
    figure.legend(handles=key, loc="outside lower center", ncols=5, fontsize=8, frameon=False)
    return _saved(figure, format)


def heat(numbers: Heat, format: str) -> bytes:
    """Draw the first layer of numbers over slots and machines as colours.

    Parameters
    ----------
    numbers : Heat
        What to draw.
    format : str
        One of ``FORMATS``.
    """
    require()
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure

    height = min(_TALLEST, 1.4 + _ROW * len(numbers.rows))
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    axis = figure.subplots()
    name, layer = next(iter(numbers.layers.items()))
    values = np.array([[math.nan if v is None else v for v in row] for row in layer])
    edges = [*numbers.slots, numbers.slots[-1] + numbers.width]
    norm = LogNorm(*numbers.ends(name)) if numbers.logarithmic else None
    drawn = axis.pcolormesh(
        np.array(edges) - 0.5, np.arange(len(numbers.rows) + 1) - 0.5, values, norm=norm, rasterized=True
    )
    axis.invert_yaxis()
    axis.set_xlabel(numbers.x_label)
    _name_rows(axis, numbers.rows)
    axis.set_title(f"{numbers.title}: {name}", fontsize=10, parse_math=False)
    figure.colorbar(drawn, label=numbers.unit)
    return _saved(figure, format)


def _name_rows(axis: Any, rows: Sequence[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    every = -(-len(rows) // _MOST_NAMED)
    at = range(0, len(rows), every)
    axis.set_yticks(list(at), [short(rows[i]) for i in at], fontsize=7, parse_math=False)
    axis.tick_params(axis="x", labelsize=8)
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _saved(figure: Any, format: str) -> bytes:
    """Return a figure as a file: without a date, and with names that do not change."""
    import matplotlib

    image = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "slotwise"}), warnings.catch_warnings():
        # Of letters that the font lacks, and of names so long that little is left of the rest.
        warnings.simplefilter("ignore", UserWarning)
        figure.savefig(image, format=format, dpi=150, metadata={"Date": None} if format == "svg" else None)
    return image.getvalue()


def require() -> None:
    """Check that matplotlib is there.

    Raises
    ------
    InvalidInput
        If not: it names the extra to install.
    """
    _extras.require("matplotlib", "pictures need")


def measured_against_fitted(fits: Sequence[Fit], format: str) -> bytes:
    """Draw measured against fitted seconds of an iteration, one panel a model, both axes logarithmic.

    Parameters
    ----------
    fits : sequence of Fit
        The models, at least 1.
    format : str
        One of ``FORMATS``.

    Returns
    -------
    bytes
        The picture. The line is where both are equal; the band around it is 10 % wide to each side.
    """
    require()
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    across = min(_MOST_ACROSS, len(fits))
    down = -(-len(fits) // across)
    figure = Figure(figsize=(across * _PANEL, down * _PANEL), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel in panels[len(fits) :]:
        panel.set_axis_off()
    for panel, fit in zip(panels, fits, strict=False):
        measured = fit.measured.seconds
        every = np.concatenate([measured, fit.seconds[fit.seconds > 0]])
        ends = np.array([every.min() / 1.3, every.max() * 1.3])
        panel.fill_between(ends, ends * (1 - _BAND), ends * (1 + _BAND), color="0.88", linewidth=0)
        panel.plot(ends, ends, color="0.45", linewidth=0.8)
        panel.scatter(measured, fit.seconds, s=7, color="#1f5a94", alpha=0.6, linewidths=0)
        panel.set(xscale="log", yscale="log", xlim=ends, ylim=ends, box_aspect=1)
        label = fit.measured.label
        shown = label if len(label) <= _LONGEST_TITLE else label[: _LONGEST_TITLE - 3] + "..."
        # A dollar sign would begin a formula.
        title = f"{shown}\nleave-one-out error {fit.leave_one_out_error:.1%}"
        panel.set_title(title, fontsize=9, parse_math=False)
        panel.tick_params(which="both", labelsize=7)
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_locator(LogLocator(subs=_TICKS if ends[1] / ends[0] < _WIDE else _FEWER_TICKS))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_formatter(NullFormatter())
    figure.supxlabel("measured seconds of an iteration", fontsize=10)
    figure.supylabel("fitted seconds of an iteration", fontsize=10)
    # Equal fits give equal files.
    return _saved(figure, format)
