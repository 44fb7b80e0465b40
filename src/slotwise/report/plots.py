"""Pictures: the one doorway to matplotlib, which comes with the extra ``plot``."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.fitting import Fit

__all__ = ["FORMATS", "Line", "Panel", "chart", "measured_against_fitted", "require"]

FORMATS = ("png", "svg")
"""Formats of a picture, as endings of its file's name."""

_BAND = 0.1
"""Share by which the band around the diagonal misses."""
_PANEL = 3.2
"""Width and height of a panel, inches."""
_MOST_ACROSS = 4

_CHART_WIDTH, _CHART_HEIGHT, _LEGEND_WIDTH = 4.2, 3.6, 1.9
"""Of each panel of a chart, and what its legend takes, inches."""
_LIMIT = "bound"
_COLOURS = (
    "#1f5a94", "#d1495b", "#2e8b57", "#e08e0b", "#7b4fa3", "#8c6d46", "#d66bb2", "#5f6b73", "#a3a12f", "#2aa7b8",
    "#f0704a",
)  # fmt: skip
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "h")
_MOST_MARKED = 25
"""Points of a curve beyond which they are not marked."""
_LONGEST_TITLE = 34
_TICKS, _FEWER_TICKS, _WIDE = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 3.0), 30.0
"""Where an axis has numbers, in each power of ten, and the range from which on it has fewer."""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, or one set of bars.

    Attributes
    ----------
    name : str
        In the legend.
    xs : sequence of float or str
        Where its points are; names for bars.
    ys : sequence of float or None
        As many heights, None where there is none.
    errors : sequence of float
        Half widths of the bars that show how sure a height is, None where that is not known; none if empty.
    """

    name: str
    xs: Sequence[float] | Sequence[str]
    ys: Sequence[float | None]
    errors: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a figure.

    Attributes
    ----------
    title, x_label, y_label : str
        What it shows.
    lines : sequence of Line
        Its curves. One that is called ``bound`` is drawn as a limit.
    bars : bool
        Whether heights over names are drawn as bars.
    logarithmic : bool
        Whether the x axis is.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    bars: bool = False
    logarithmic: bool = False


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

    figure = Figure(figsize=(_CHART_WIDTH * len(panels) + _LEGEND_WIDTH, _CHART_HEIGHT), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False).ravel()
    names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines if not panel.bars))
    styles = {name: at for at, name in enumerate(name for name in names if name != _LIMIT)}
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes, panels, strict=True):
        axis.set_title(panel.title, fontsize=9)
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
                axis.bar(at, heights, color=_COLOURS[0], width=0.7)
                axis.set_xticks(at, [str(x) for x in line.xs], rotation=60, ha="right", fontsize=8)
                continue
            if line.name == _LIMIT:
                look: dict[str, Any] = {"color": "0.2", "linestyle": "--", "linewidth": 1.2}
            else:
                at_style = styles[line.name]
                look = {
                    "color": _COLOURS[at_style % len(_COLOURS)],
                    "marker": _MARKERS[at_style % len(_MARKERS)] if len(heights) <= _MOST_MARKED else None,
                    "markersize": 4,
                    "linewidth": 1.4,
                }
            widths = np.array([math.nan if e is None else e for e in line.errors]) if len(line.errors) else None
            drawn = axis.errorbar(line.xs, heights, yerr=widths, elinewidth=0.7, **look)
            handles.setdefault(line.name, drawn)
        if panel.logarithmic:
            axis.set_xscale("log")
        axis.set_ylim(bottom=0.0)
    if handles:
        figure.legend(list(handles.values()), list(handles), loc="outside right center", fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=10)
    return _saved(figure, format)


def _saved(figure: Any, format: str) -> bytes:
    """Return a figure as a file: without a date, and with names that do not change."""
    import matplotlib

    image = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "slotwise"}):
        figure.savefig(image, format=format, dpi=150, metadata={"Date": None} if format == "svg" else None)
    return image.getvalue()


def require() -> None:
    """Check that matplotlib is there.

    Raises
    ------
    InvalidInput
        If not: it names the extra to install.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InvalidInput("--plot needs matplotlib, which is not there: pip install 'slotwise[plot]'") from None


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
