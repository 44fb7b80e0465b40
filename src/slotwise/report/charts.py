"""Figures in the terms of plotly.js: plain data that a page hands over to it."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from slotwise.report.figures import ARRIVALS, BOUND, Gantt, Heat, Panel, colour, job_colour, short
from slotwise.words import counted

__all__ = ["Data", "bars", "curves", "gantt", "heat"]

Data = dict[str, Any]

_FONT = "system-ui, sans-serif"
_ROW, _TALLEST = 18, 1_300
"""Pixels of a machine's row, and of all at most."""
_MOST_NAMED = 60
_FEW_BARS = 5
"""Up to so many have their names beside each other."""
_FEW_SLOTS = 12
"""Up to so many each has a tick."""
_MARKS = dict(zip(ARRIVALS, (("triangle-down", 8, -1.0), ("x", 6, -1.7), ("x-thin-open", 6, -2.4)), strict=True))
"""Symbol, size and row of an arrival."""


def _text(value: object) -> str:
    """Return a text as plotly takes it: it reads tags, entities, and formulas between dollar signs."""
    return html.escape(str(value), quote=False).replace("$", "&#36;")


def _layout(height: int, **more: Any) -> Data:
    axis: Data = {"automargin": True, "gridcolor": "#eceff1", "zeroline": False, "linecolor": "#c5ccd2", "ticks": ""}
    layout: Data = {
        "height": height,
        "font": {"family": _FONT, "size": 12, "color": "#222"},
        "margin": {"l": 8, "r": 8, "t": 28, "b": 8},
        "paper_bgcolor": "#fff",
        "plot_bgcolor": "#fff",
        "hoverlabel": {"align": "left", "bgcolor": "#fff", "font": {"family": _FONT, "size": 12, "color": "#222"}},
        "xaxis": dict(axis),
        "yaxis": dict(axis),
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    }
    for name, value in more.items():
        layout[name] = {**layout[name], **value} if isinstance(layout.get(name), dict) else value
    return layout


def bars(panel: Panel) -> Data:
    """Return bars over names, with the limit above them."""
    data: list[Data] = []
    for line in panel.lines:
        data.append(
            {
                "type": "bar",
                "name": line.name,
                "x": list(line.xs),
                "y": list(line.ys),
                "marker": {"color": [colour(at) for at in range(len(line.xs))]},
                **(
                    {"error_y": {"type": "data", "array": list(line.errors), "color": "#555"}}
                    if any(e is not None for e in line.errors)
                    else {}
                ),
                "text": [
                    f"{_text(x)}: {y:.5g}" + ("" if e is None else f" ± {e:.4g}")
                    for x, y, e in zip(line.xs, line.ys, line.errors, strict=True)
                ],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
            }
        )
    names = [_text(short(str(x), 20)) for line in panel.lines for x in line.xs]
    layout = _layout(
        420,
        showlegend=False,
        xaxis={
            "type": "category",
            "tickangle": -40 if len(names) > _FEW_BARS else 0,
            "ticktext": names,
            "tickvals": list(range(len(names))),
        },
        yaxis={"title": {"text": panel.y_label}},
    )
    if panel.limit is not None:
        dashed = {"color": "#333", "dash": "dash", "width": 1.5}
        layout["shapes"] = [
            {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": panel.limit, "y1": panel.limit, "line": dashed}
        ]
        layout["annotations"] = [
            {
                "xref": "paper", "x": 1, "xanchor": "right", "y": panel.limit, "yanchor": "bottom", "showarrow": False,
                "text": f"{BOUND} {panel.limit:.5g}",
            }
        ]  # fmt: skip
    tops = [y + (e or 0.0) for line in panel.lines for y, e in zip(line.ys, line.errors, strict=True) if y is not None]
    layout["yaxis"]["range"] = [0, 1.1 * max([*tops, panel.limit or 0.0]) or 1.0]
    return {"data": data, "layout": layout}


def curves(panels: Sequence[Panel], policies: Sequence[str]) -> Data:
    """Return curves; of several panels one at a time, chosen from a menu."""
    places = {name: at for at, name in enumerate(policies)}
    data: list[Data] = []
    for at, panel in enumerate(panels):
        for line in panel.lines:
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": _text(short(line.name)),
                    "legendgroup": line.name,
                    "x": list(line.xs),
                    "y": list(line.ys),
                    "visible": at == 0,
                    "line": {
                        "color": colour(places[line.name]),
                        "width": 1.8,
                        "shape": "hv" if panel.steps else "linear",
                    },
                    "hovertemplate": f"{_text(line.name)}<br>{_text(panel.x_label)}: %{{x:.4g}}<br>"
                    f"{_text(panel.y_label)}: %{{y:{'.2%' if panel.shares else '.4g'}}}<extra></extra>",
                }
            )
    layout = _layout(
        440,
        showlegend=True,
        xaxis={"title": {"text": panels[0].x_label if panels else ""}},
        yaxis={"title": {"text": panels[0].y_label if panels else ""}, "rangemode": "tozero"},
    )
    if panels and panels[0].shares:
        layout["yaxis"] |= {"tickformat": ".0%", "minallowed": 0}
    if not any(y for panel in panels for line in panel.lines for y in line.ys):
        layout["yaxis"]["range"] = [0, 1]
    titles = [panel.title for panel in panels for _ in panel.lines]
    _offer(layout, [(panel.title, [panel.title == title for title in titles]) for panel in panels])
    return {"data": data, "layout": layout}


def _offer(layout: Data, choices: Sequence[tuple[str, list[bool]]]) -> None:
    """Give a figure a menu, if there is a choice: a label, and which parts of the data are visible then."""
    if len(choices) < 2:
        return
    buttons = [{"label": label, "method": "restyle", "args": [{"visible": seen}]} for label, seen in choices]
    layout["updatemenus"] = [
        {"buttons": buttons, "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 6}, "bgcolor": "#fff"}
    ]
    layout["margin"]["t"] = 48


def _height(rows: int) -> int:
    return min(_TALLEST, 170 + _ROW * max(6, rows))


def _rows_axis(rows: Sequence[str], top: float) -> Data:
    every = max(1, math.ceil(len(rows) / _MOST_NAMED))
    at = list(range(0, len(rows), every))
    return {
        "tickmode": "array",
        "tickvals": at,
        "ticktext": [_text(short(rows[i])) for i in at],
        "range": [len(rows) - 0.4, top],
        "showgrid": False,
        "tickfont": {"size": 10},
    }


def gantt(plan: Gantt) -> Data:
    """Return a plan: a box for each part of a stay, arrivals above."""
    data: list[Data] = []
    for kind, pattern in (("workers", ""), ("servers", "/")):
        look: Data = {
            "pattern": {"shape": pattern, "fgcolor": "#fff", "size": 5},
            "line": {"color": "#fff", "width": 0.5},
        }
        bar: Data = {"base": [], "x": [], "y": [], "width": [], "customdata": []}
        colours = []
        for box in plan.boxes:
            for name, top, height in box.parts():
                if name != kind:
                    continue
                bar["base"].append(box.first - 0.5)
                bar["x"].append(box.last - box.first + 1)
                bar["y"].append(round(top + height / 2, 4))
                bar["width"].append(round(height, 4))
                slots = f"slot {box.first}" if box.first == box.last else f"slots {box.first} to {box.last}"
                there = (
                    f"{plan.rows[box.row]}, {slots}: {counted(box.workers, 'worker')}, {counted(box.servers, 'server')}"
                )
                bar["customdata"].append(_lines([there, *box.note]))
                colours.append(job_colour(box.job))
        data.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": kind,
                "legendgroup": kind,
                "showlegend": False,
                **bar,
                "marker": {"color": colours, **look},
                "hovertemplate": "%{customdata}<extra></extra>",
            }
        )
        # In the legend no job's colour stands for all.
        data.append(
            {
                "type": "bar",
                "name": kind,
                "legendgroup": kind,
                "x": [None],
                "y": [0],
                "orientation": "h",
                "marker": {"color": "#888", "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": "#fff"}},
            }
        )
    for kind, (symbol, size, row) in _MARKS.items():
        some = [arrival for arrival in plan.arrivals if arrival.kind == kind]
        if some:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": f"arrives, {kind}",
                    "x": _spread([arrival.slot for arrival in some]),
                    "y": [row] * len(some),
                    "marker": {
                        "symbol": symbol,
                        "size": size,
                        "color": [job_colour(a.job) if kind == ARRIVALS[0] else "#777" for a in some],
                    },
                    "customdata": [_lines(arrival.note) for arrival in some],
                    "hovertemplate": "%{customdata}<extra></extra>",
                }
            )
    top = -2.9 if plan.arrivals else -0.6
    layout = _layout(
        _height(len(plan.rows)),
        barmode="overlay",
        showlegend=True,
        hovermode="closest",
        dragmode="zoom",
        xaxis={
            "title": {"text": plan.x_label},
            "range": [plan.first - 0.6, plan.last + 0.6],
            **({"dtick": 1} if plan.last - plan.first < _FEW_SLOTS else {}),
        },
        yaxis=_rows_axis(plan.rows, top),
    )
    return {"data": data, "layout": layout}


def _spread(slots: Sequence[int]) -> list[float]:
    """Return where to mark what happens in slots, each beside the others of its slot."""
    counts = Counter(slots)
    seen: dict[int, int] = {}
    out = []
    for slot in slots:
        at = seen[slot] = seen.get(slot, 0) + 1
        out.append(round(slot - 0.4 + 0.8 * (at - 0.5) / counts[slot], 3))
    return out


def _lines(note: Sequence[str]) -> str:
    return "<br>".join(map(_text, note))


def heat(numbers: Heat) -> Data:
    """Return numbers as colours; of several layers one at a time, chosen from a menu."""
    data: list[Data] = []
    for at, (name, layer) in enumerate(numbers.layers.items()):
        layered: Data = {"z": layer}
        if numbers.logarithmic:
            layered["z"] = [[None if v is None else round(math.log10(v), 4) for v in row] for row in layer]
            low, high = map(math.log10, numbers.ends(name))
            ticks = [tick for tick in range(math.floor(low), math.ceil(high) + 1) if low <= tick <= high]
            if len(ticks) >= 2:
                layered |= {"tick": {"tickvals": ticks, "ticktext": [f"{10.0**tick:g}" for tick in ticks]}}
            else:
                layered |= {"tick": {"tickvals": [low, high], "ticktext": [f"{10.0**low:.3g}", f"{10.0**high:.3g}"]}}
            layered |= {"zmin": low, "zmax": max(high, low + 1e-9)}
        bar = {"title": {"text": numbers.unit, "side": "right"}, "thickness": 12, **layered.pop("tick", {})}
        data.append(
            {
                "type": "heatmap",
                "name": name,
                "x": [slot + (numbers.width - 1) / 2 for slot in numbers.slots],
                "y": list(range(len(numbers.rows))),
                **layered,
                "customdata": [[None if v is None else float(f"{v:.6g}") for v in row] for row in layer],
                "visible": at == 0,
                "colorscale": "Viridis",
                "colorbar": bar,
                "hoverongaps": False,
                "hovertemplate": f"%{{text}}<br>{_text(name)}: %{{customdata:.5g}}"
                f", {_text(numbers.unit)}<extra></extra>",
            }
        )
    layout = _layout(
        _height(len(numbers.rows)),
        xaxis={"title": {"text": numbers.x_label}, **({"dtick": 1} if len(numbers.slots) <= _FEW_SLOTS else {})},
        yaxis=_rows_axis(numbers.rows, -0.6),
    )
    _offer(layout, [(name, [name == other for other in numbers.layers]) for name in numbers.layers])
    # Once for all layers.
    where = [[f"{_text(row)}, {_columns(numbers, i)}" for i in range(len(numbers.slots))] for row in numbers.rows]
    return {"data": data, "layout": layout, "text": where}


def _columns(heat: Heat, at: int) -> str:
    first = heat.slots[at]
    return f"slot {first}" if heat.width == 1 else f"slots {first} to {first + heat.width - 1}"
