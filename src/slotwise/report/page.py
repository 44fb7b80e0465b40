"""The page of a comparison: the one doorway to plotly, which comes with the extra ``plot``."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slotwise.report import _extras, charts
from slotwise.report.charts import Data
from slotwise.report.console import answer_text, seconds_text
from slotwise.report.figures import Gantt, short
from slotwise.report.views import View
from slotwise.words import amount, counted

__all__ = ["page", "require"]

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
_MOST_JOBS = 500
_MEANING = (
    "Means over the runs of a policy. Of the jobs that arrived, <em>cannot finish</em> could not be completed by the "
    "horizon even alone on the cluster; <em>never fits</em>, <em>no time left</em>, <em>priced out</em> and "
    "<em>machine lost</em> are reasons for which others were turned away; <em>unfinished</em> were let in, or "
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
code { background: #f2f4f6; padding: 1px 4px; border-radius: 3px; }
li, p, code { overflow-wrap: anywhere; }
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
summary { cursor: pointer; }
#jobs td:last-child { text-align: left; white-space: normal; min-width: 24em; }
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
    _extras.require("plotly.offline", "report.html needs")


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
        _chart("utility", "Utility earned", charts.bars(view.utility), _told_of_utility(view)),
        _chart(
            "completion",
            "Completion times",
            charts.curves([view.completion], view.policies),
            "Of the jobs that could finish by the horizon, alone on the cluster, the share that was completed within a "
            "time from arrival. A curve that ends low turned jobs away or left them unfinished.",
        ),
        _chart(
            "use",
            "Use over time",
            charts.curves(list(view.use.values()), view.policies),
            "Share of a resource of the whole cluster that jobs held.",
        ),
        _chart(
            "queue",
            "Queue over time",
            charts.curves([view.queue], view.policies),
            "Jobs that are in or wait, have not finished, and do not run.",
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
                    " Above are arrivals, in their slot: of jobs let in (they may wait), of jobs turned away, and of "
                    "jobs that could not finish by the horizon even alone on the cluster."
                )
            parts.append(_chart(f"plan-{at}", plan.title, charts.gantt(plan), told_of_plan))
        else:
            told_of_numbers = "Too much to draw box by box: means over groups of machines and slots, and a part below."
            parts.append(_chart(f"plan-{at}", plan.title, charts.heat(plan), told_of_numbers))
    if view.prices is not None:
        told_of_prices = (
            "What all of a machine, or all that it has of one resource, costs in a slot once its arrivals are decided, "
            "at the prices of the last decision; of groups the mean. Colours go by the logarithm. Blank: no price yet, "
            "or none of it there."
        )
        parts.append(_chart("prices", view.prices.title, charts.heat(view.prices), told_of_prices))
    else:
        parts.append(f"<p>{_text(view.chosen[0])} has no prices to show.</p>")
    parts += [*_jobs(view), *_notes(told)]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n<script>{get_plotlyjs()}</script>\n</head>\n<body>\n"
        + "\n".join(parts)
        + f"\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
    )


def _text(value: object) -> str:
    return html.escape(str(value))


def _jobs(view: View) -> Iterable[str]:
    """Yield the table of what was answered to each job of the run that is shown."""
    rows = view.jobs.head(_MOST_JOBS).iter_rows(named=True)
    titles = ("job", "arrival", "answer", "promised", "finished", "utility", "why")
    policy, seed = view.chosen
    yield f"<h2>Jobs of {_text(policy)}, seed {seed}</h2>"
    yield (
        f"<p>A slot is {seconds_text(view.slot_seconds)} long; times are from the beginning of slot 0 to the end of "
        "the slot in which a job ends."
        + (f" The first {_MOST_JOBS} of {len(view.jobs)}; jobs.parquet has all." if len(view.jobs) > _MOST_JOBS else "")
        + "</p>"
    )
    table = _rows("jobs", titles, (_answer(row, view.slot_seconds) for row in rows))
    yield f"<details><summary>{counted(len(view.jobs), 'job')}</summary>{table}</details>"


def _answer(row: Mapping[str, Any], slot_seconds: float) -> Iterable[str]:
    """Yield the cells of a job's row."""

    def ends(slot: int | None) -> str:
        return "-" if slot is None else f"slot {slot} ({seconds_text((slot + 1) * slot_seconds)})"

    yield short(row["job_id"], 40)
    yield f"slot {row['arrival']}"
    yield answer_text(row["reason"], row["promised"], row["started"])
    yield ends(row["promised"])
    yield ends(row["completed"])
    yield amount(row["utility"])
    yield "" if row["reason"] is None else f"{row['reason']}: {row['detail']}"


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
    # A reason that no policy had tells nothing, nor does a column without a number.
    columns = [c for c in columns if any(row.get(c[1]) is not None for row in rows)]
    columns = [c for c in columns if not c[1].startswith("rejected_") or any(row.get(c[1]) for row in rows)]
    titles = ("policy", "runs", *(title for title, _, _ in columns))
    cells = (
        (short(row["policy"], 40), str(row["runs"]), *(_cell(row.get(name), kind) for _, name, kind in columns))
        for row in rows
    )
    return _rows("policies", titles, cells)


def _rows(name: str, titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table that scrolls by itself where it is too wide."""
    head = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table id="{name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(value: float | None, kind: str) -> str:
    if value is None:
        return "-"
    if kind == "seconds":
        return seconds_text(value)
    return f"{value:.1%}" if kind == "share" else f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"


def _told_of_utility(view: View) -> str:
    told = "Mean over the runs of a policy; whiskers are the standard deviation over them."
    if view.utility.limit is None:
        told += " No bound is drawn: not every run here has one."
    else:
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
