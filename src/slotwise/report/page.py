"""The page of a comparison: the one doorway to plotly, which comes with the extra ``plot``."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slotwise.errors import InvalidInput
from slotwise.report.console import seconds_text
from slotwise.report.figures import BOUND, Gantt, Heat, Panel, colour, job_colour
from slotwise.report.views import View

__all__ = ["page", "require"]

Data = dict[str, Any]

_FONT = "system-ui, sans-serif"
_ROW, _TALLEST = 18, 1_300
"""Pixels of a machine's row, and of all at most."""
_FILLED = 0.92
"""Share of a machine's row that its jobs fill."""
_MOST_NAMED = 60

_COLUMNS: Sequence[tuple[str, str, str]] = (
    ("utility", "total_utility", "number"),
    ("± (std)", "total_utility_std", "number"),
    ("of bound", "fraction_of_bound", "share"),
    ("admitted", "admitted", "number"),
    ("never fits", "rejected_never_fits", "number"),
    ("no time left", "rejected_no_time_left", "number"),
    ("priced out", "rejected_priced_out", "number"),
    ("machine lost", "rejected_machine_lost", "number"),
    ("cannot finish", "infeasible", "number"),
    ("finished", "completed", "number"),
    ("unfinished", "unfinished", "number"),
    ("completion mean", "jct_seconds_mean", "seconds"),
    ("completion p50", "jct_seconds_p50", "seconds"),
    ("completion p99", "jct_seconds_p99", "seconds"),
    ("training slots", "training_slots_median", "number"),
    ("co-located", "colocated_fraction", "share"),
    ("decision p50", "decision_seconds_p50", "seconds"),
    ("decision p99", "decision_seconds_p99", "seconds"),
)
"""Columns of the table: title, name in the summary, kind; use of each resource comes after the training time."""
_MEANING = (
    "Means over the runs of a policy. Of the jobs that arrived, <em>cannot finish</em> could not be completed by the "
    "horizon even alone on the cluster; <em>never fits</em>, <em>no time left</em>, <em>priced out</em> and "
    "<em>machine lost</em> are reasons for which the policy turned jobs away; <em>unfinished</em> were let in, or "
    "wait, and were not done by the horizon. <em>Completion</em> is from arrival to the end of the last slot, of "
    "finished jobs. <em>Training slots</em> is the median of the same in slots, unfinished jobs counted as the whole "
    "horizon. <em>Use</em> is of the whole cluster over the whole horizon. <em>Co-located</em> is the share of job-"
    "slots with all of the job on one machine."
)

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #222; margin: 0 auto; max-width: 1500px; padding: 0 16px 48px; }
h1 { font-size: 1.5rem; margin: 24px 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 36px 0 4px; }
p, ul { max-width: 75ch; margin: 4px 0 10px; }
code { background: #f2f4f6; padding: 1px 4px; border-radius: 3px; overflow-wrap: anywhere; }
.wide { overflow-x: auto; border: 1px solid #dde2e6; border-radius: 6px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; width: 100%; }
th, td { padding: 5px 7px; text-align: right; white-space: nowrap; border-bottom: 1px solid #eceff1; }
th { font-weight: 600; background: #f7f9fa; white-space: normal; min-width: 4em; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; font-weight: 600; }
th:first-child { background: #f7f9fa; }
tr:last-child td { border-bottom: 0; }
.note { border-left: 3px solid #e08e0b; padding: 2px 10px; background: #fdf7ec; max-width: none; }
.two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 8px 24px; }
.two > div { min-width: 0; }
.chart { width: 100%; }
details { margin: 8px 0; }
"""

_SCRIPT = """
for (const node of document.querySelectorAll('script[type="application/json"]')) {
  const figure = JSON.parse(node.textContent);
  if (figure.text) figure.data.forEach(layer => { layer.text = figure.text; });
  Plotly.newPlot(node.dataset.chart, figure.data, figure.layout,
    {responsive: true, displaylogo: false, modeBarButtonsToRemove: ['lasso2d', 'select2d', 'autoScale2d']})
    .then(chart => { chart.dataset.drawn = 'yes'; });
}
"""


def require() -> None:
    """Check that plotly is there.

    Raises
    ------
    InvalidInput
        If not: it names the extra to install.
    """
    try:
        import plotly.offline  # noqa: F401
    except ImportError:
        raise InvalidInput("report.html needs plotly, which is not there: pip install 'slotwise[plot]'") from None


def page(view: View, title: str, told: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a comparison as one HTML page that needs nothing else, no network either.

    Parameters
    ----------
    view : View
        What there is to see.
    title : str
        Above all.
    told : mapping of str to mapping
        What else there is to know, by heading: options, what was assumed and skipped. Empty ones are left out.
    """
    require()
    from plotly.offline import get_plotlyjs

    parts = [
        f"<h1>{_text(title)}</h1>",
        *(f'<p class="note">{_text(note)}</p>' for note in view.notes),
        "<h2>Policies</h2>",
        _table(view),
        f"<p>{_MEANING}</p>",
        '<div class="two">',
        _chart("utility", "Utility earned", _bars(view.utility), _told_of_utility(view)),
        _chart(
            "completion",
            "Completion times",
            _curves([view.completion], view.policies),
            "Of all jobs that arrived, the share that was completed within a time from arrival. A curve that ends low "
            "left jobs out or unfinished.",
        ),
        _chart(
            "use",
            "Use over time",
            _curves(list(view.use.values()), view.policies),
            "Share of a resource of the whole cluster that jobs held in each slot.",
        ),
        _chart(
            "queue",
            "Queue over time",
            _curves([view.queue], view.policies),
            "Jobs that were let in or wait, have not finished, and do not run in a slot.",
        ),
        "</div>",
    ]
    for at, plan in enumerate(view.plan):
        if isinstance(plan, Gantt):
            told_of_plan = (
                "Machines from above, slots from the left; a colour is a job. Plain boxes are workers, hatched ones "
                "servers. Hover for a job's decision; drag to zoom, double-click to see all again."
            )
            if plan.arrivals:
                told_of_plan += (
                    " Above are arrivals, in their slot: triangles of jobs let in, crosses of jobs turned away."
                )
            parts.append(_chart(f"plan-{at}", plan.title, _gantt(plan), told_of_plan))
        else:
            told_of_numbers = "Too much runs to draw it box by box: means over groups of machines and slots."
            parts.append(_chart(f"plan-{at}", plan.title, _heat(plan), told_of_numbers))
    if view.prices is not None:
        told_of_prices = (
            "What all of a machine, or all that it has of one resource, costs in a slot when that slot begins, with "
            "all that was committed for it by then. Colours go by the logarithm. Blank: no price yet, or none of it "
            "there."
        )
        parts.append(_chart("prices", view.prices.title, _heat(view.prices), told_of_prices))
    elif view.chosen is not None:
        parts.append(f"<p>{_text(view.chosen[0])} has no prices to show.</p>")
    parts += _notes(told)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n<script>{get_plotlyjs()}</script>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _notes(told: Mapping[str, Mapping[str, Any]]) -> Iterable[str]:
    for heading, entries in told.items():
        if entries:
            yield f"<h2>{_text(heading)}</h2>"
            yield "<ul>"
            yield from (f"<li><code>{_text(name)}</code> {_text(value)}</li>" for name, value in entries.items())
            yield "</ul>"


def _table(view: View) -> str:
    uses = [name for name in view.summary.columns if name.startswith("utilization_")]
    at = next(i for i, (_, name, _) in enumerate(_COLUMNS) if name == "colocated_fraction")
    columns = [*_COLUMNS[:at], *((f"use {u.removeprefix('utilization_')}", u, "share") for u in uses), *_COLUMNS[at:]]
    rows = view.summary.to_dicts()
    # A reason that no policy had tells nothing.
    columns = [c for c in columns if not c[1].startswith("rejected_") or any(row[c[1]] for row in rows)]
    head = "".join(f"<th>{_text(title)}</th>" for title in ("policy", "runs", *(title for title, _, _ in columns)))
    body = "".join(
        f"<tr><td>{_text(row['policy'])}</td><td>{row['runs']}</td>"
        + "".join(f"<td>{_cell(row.get(name), kind)}</td>" for _, name, kind in columns)
        + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table id="policies"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: float | None, kind: str) -> str:
    if value is None:
        return "-"
    if kind == "seconds":
        return seconds_text(value)
    return f"{value:.1%}" if kind == "share" else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def _told_of_utility(view: View) -> str:
    told = "Mean over the runs of a policy; whiskers are the standard deviation over them."
    if view.utility.limit is not None:
        told += " The dashed line is the bound: no scheduler earns more, not even one that knows the future."
    return told


def _chart(name: str, title: str, figure: Data, told: str) -> str:
    content = json.dumps(figure, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    height = figure["layout"]["height"]
    return (
        f"<div><h2>{_text(title)}</h2>\n<p>{_text(told)}</p>\n"
        f'<div class="chart" id="{name}" style="height:{height}px"></div>\n'
        f'<script type="application/json" data-chart="{name}">{content}</script></div>'
    )


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


def _bars(panel: Panel) -> Data:
    data: list[Data] = []
    for line in panel.lines:
        data.append(
            {
                "type": "bar",
                "name": line.name,
                "x": list(line.xs),
                "y": list(line.ys),
                "marker": {"color": [colour(at) for at in range(len(line.xs))]},
                "error_y": {"type": "data", "array": [0.0 if e is None else e for e in line.errors], "color": "#555"},
                "hovertemplate": "%{x}: %{y:.5g} ± %{error_y.array:.4g}<extra></extra>",
            }
        )
    layout = _layout(
        420,
        showlegend=False,
        xaxis={"type": "category", "tickangle": -40},
        yaxis={"title": {"text": panel.y_label}, "rangemode": "tozero"},
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
        top = max([panel.limit, *(y for line in panel.lines for y in line.ys if y is not None)])
        layout["yaxis"]["range"] = [0, 1.1 * top]
    return {"data": data, "layout": layout}


def _curves(panels: Sequence[Panel], policies: Sequence[str]) -> Data:
    """Draw curves; of several panels one at a time, chosen from a menu."""
    places = {name: at for at, name in enumerate(policies)}
    data: list[Data] = []
    for at, panel in enumerate(panels):
        for line in panel.lines:
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": line.name,
                    "legendgroup": line.name,
                    "x": list(line.xs),
                    "y": list(line.ys),
                    "visible": at == 0,
                    "line": {
                        "color": colour(places[line.name]),
                        "width": 1.8,
                        "shape": "hv" if panel.steps else "linear",
                    },
                    "hovertemplate": f"{_text(line.name)}: %{{y:.4g}} at %{{x:.4g}}<extra></extra>",
                }
            )
    layout = _layout(
        440,
        showlegend=True,
        xaxis={"title": {"text": panels[0].x_label if panels else ""}},
        yaxis={"title": {"text": panels[0].y_label if panels else ""}, "rangemode": "tozero"},
    )
    if len(panels) > 1:
        choices = []
        for at, panel in enumerate(panels):
            seen = [at == other for other, one in enumerate(panels) for _ in one.lines]
            choices.append({"label": panel.title, "method": "restyle", "args": [{"visible": seen}]})
        layout["updatemenus"] = [_menu(choices)]
        layout["margin"]["t"] = 48
    return {"data": data, "layout": layout}


def _menu(choices: Sequence[Data]) -> Data:
    return {
        "buttons": list(choices), "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "pad": {"b": 6},
        "bgcolor": "#fff",
    }  # fmt: skip


def _height(rows: int) -> int:
    return min(_TALLEST, 170 + _ROW * max(6, rows))


def _rows_axis(rows: Sequence[str], top: float) -> Data:
    every = max(1, math.ceil(len(rows) / _MOST_NAMED))
    at = list(range(0, len(rows), every))
    return {
        "tickmode": "array",
        "tickvals": at,
        "ticktext": [_short(rows[i]) for i in at],
        "range": [len(rows) - 0.4, top],
        "showgrid": False,
        "tickfont": {"size": 10},
    }


def _short(name: str, most: int = 22) -> str:
    return _text(name if len(name) <= most else name[: most - 1] + "…")


def _gantt(plan: Gantt) -> Data:
    data: list[Data] = []
    for kind, pattern in (("workers", ""), ("servers", "/")):
        look: Data = {
            "pattern": {"shape": pattern, "fgcolor": "#fff", "size": 5},
            "line": {"color": "#fff", "width": 0.5},
        }
        bar: Data = {"base": [], "x": [], "y": [], "width": [], "customdata": []}
        colours = []
        for box in plan.boxes:
            count = box.workers if kind == "workers" else box.servers
            if not count:
                continue
            high = _FILLED / box.lanes
            top = box.row - _FILLED / 2 + box.lane * high
            share = count / (box.workers + box.servers)
            middle = top + high * (share / 2 if kind == "workers" else 1 - share / 2)
            bar["base"].append(box.first - 0.5)
            bar["x"].append(box.last - box.first + 1)
            bar["y"].append(round(middle, 4))
            bar["width"].append(round(high * share, 4))
            slots = f"slot {box.first}" if box.first == box.last else f"slots {box.first} to {box.last}"
            there = f"{_text(plan.rows[box.row])}, {slots}: {box.workers} workers, {box.servers} servers"
            bar["customdata"].append(f"{there}<br>{_lines(box.note)}")
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
    for admitted, name, symbol in ((True, "let in", "triangle-down"), (False, "turned away", "x")):
        some = [arrival for arrival in plan.arrivals if arrival.admitted == admitted]
        if some:
            data.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": _spread([arrival.slot for arrival in some]),
                    "y": [-1.0 if admitted else -1.7] * len(some),
                    "marker": {
                        "symbol": symbol,
                        "size": 8 if admitted else 6,
                        "color": [job_colour(a.job) if admitted else "#777" for a in some],
                    },
                    "customdata": [_lines(arrival.note) for arrival in some],
                    "hovertemplate": "%{customdata}<extra></extra>",
                }
            )
    top = -2.2 if plan.arrivals else -0.6
    layout = _layout(
        _height(len(plan.rows)),
        barmode="overlay",
        showlegend=True,
        hovermode="closest",
        dragmode="zoom",
        xaxis={"title": {"text": plan.x_label}, "range": [plan.first - 0.6, plan.last + 0.6]},
        yaxis=_rows_axis(plan.rows, top),
    )
    return {"data": data, "layout": layout}


def _spread(slots: Sequence[int]) -> list[float]:
    """Return where to mark what happens in slots, each beside the others of its slot."""
    counts = {slot: slots.count(slot) for slot in set(slots)}
    seen: dict[int, int] = {}
    out = []
    for slot in slots:
        at = seen[slot] = seen.get(slot, 0) + 1
        out.append(round(slot - 0.4 + 0.8 * (at - 0.5) / counts[slot], 3))
    return out


def _lines(note: str) -> str:
    return _text(note).replace("; ", "<br>")


def _heat(heat: Heat) -> Data:
    data: list[Data] = []
    for at, (name, layer) in enumerate(heat.layers.items()):
        some = [value for row in layer for value in row if value is not None]
        numbers: Data = {"z": layer}
        if heat.logarithmic and some:
            numbers["z"] = [[None if v is None else round(math.log10(v), 4) for v in row] for row in layer]
            low, high = math.log10(max(min(some), max(some) * 1e-6)), math.log10(max(some))
            ticks = [tick for tick in range(math.floor(low), math.ceil(high) + 1) if low <= tick <= high]
            if len(ticks) >= 2:
                numbers |= {"tick": {"tickvals": ticks, "ticktext": [f"{10.0**tick:g}" for tick in ticks]}}
            else:
                numbers |= {"tick": {"tickvals": [low, high], "ticktext": [f"{10.0**low:.3g}", f"{10.0**high:.3g}"]}}
            numbers |= {"zmin": low, "zmax": max(high, low + 1e-9)}
        bar = {"title": {"text": heat.unit, "side": "right"}, "thickness": 12, **numbers.pop("tick", {})}
        data.append(
            {
                "type": "heatmap",
                "name": name,
                "x": [slot + (heat.width - 1) / 2 for slot in heat.slots],
                "y": list(range(len(heat.rows))),
                **numbers,
                "customdata": [[None if v is None else float(f"{v:.6g}") for v in row] for row in layer],
                "visible": at == 0,
                "colorscale": "Viridis",
                "colorbar": bar,
                "hoverongaps": False,
                "hovertemplate": f"%{{text}}<br>{_text(name)}: %{{customdata:.5g}} {_text(heat.unit)}<extra></extra>",
            }
        )
    layout = _layout(
        _height(len(heat.rows)),
        xaxis={"title": {"text": heat.x_label}},
        yaxis=_rows_axis(heat.rows, -0.6),
    )
    if len(heat.layers) > 1:
        choices = [
            {"label": name, "method": "restyle", "args": [{"visible": [name == other for other in heat.layers]}]}
            for name in heat.layers
        ]
        layout["updatemenus"] = [_menu(choices)]
        layout["margin"]["t"] = 48
    # Once for all layers.
    where = [[f"{_text(row)}, {_columns(heat, i)}" for i in range(len(heat.slots))] for row in heat.rows]
    return {"data": data, "layout": layout, "text": where}


def _columns(heat: Heat, at: int) -> str:
    first = heat.slots[at]
    return f"slot {first}" if heat.width == 1 else f"slots {first} to {first + heat.width - 1}"
