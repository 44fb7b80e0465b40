"""What a comparison looks like: its tables on disk turned into a table and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars

from slotwise.report.figures import Arrival, Box, Gantt, Heat, Line, Panel
from slotwise.report.folder import read_events
from slotwise.sim import tables
from slotwise.sim.binning import bins
from slotwise.sim.pricemap import WHOLE
from slotwise.sim.stays import stays

__all__ = ["PLAN_COLUMNS", "View", "plan_table", "view"]

Row = dict[str, Any]
Floats = npt.NDArray[np.float64]

PLAN_COLUMNS: Mapping[str, Any] = {
    "policy": polars.String,
    "seed": polars.Int64,
    "job_id": polars.String,
    "machine": polars.Int64,
    "machine_name": polars.String,
    "first": polars.Int64,
    "last": polars.Int64,
    "workers": polars.Int64,
    "servers": polars.Int64,
}
"""Columns of a table of what ran where: a row for each job, machine and range of slots in which nothing changed."""

MOST_POINTS = 240
"""Of a curve: beyond, it is the mean of so many ranges."""
MOST_BOXES, MOST_ROWS = 2_500, 60
"""Of a plan: beyond, it is shown as numbers, and a part of it as it is."""
_EXCERPT_ROWS, _EXCERPT_SLOTS = 24, 96
_MOST_COLUMNS = 200
_UNITS = (("days", 86_400.0), ("hours", 3_600.0), ("minutes", 60.0), ("seconds", 1.0))


@dataclass(frozen=True, slots=True)
class View:
    """All there is to see of a comparison.

    Attributes
    ----------
    policies : sequence of str
        In the order in which they are shown.
    summary : polars.DataFrame
        A row for each policy, see ``slotwise.sim.tables.summary``.
    notes : sequence of str
        What a reader must know before believing it.
    utility, completion, queue : Panel
        Utility earned, shares of jobs completed over time, jobs that wait in each slot.
    use : mapping of str to Panel
        Share of each resource in use, by resource.
    chosen : (str, int), optional
        Policy and seed of the run whose plan is shown; None if there is no run.
    plan : sequence of Gantt or Heat
        Its plan; as numbers, then a part of it, if it is large.
    prices : Heat, optional
        Its prices, if it has any.
    """

    policies: Sequence[str]
    summary: polars.DataFrame
    notes: Sequence[str]
    utility: Panel
    completion: Panel
    use: Mapping[str, Panel]
    queue: Panel
    chosen: tuple[str, int] | None
    plan: Sequence[Gantt | Heat]
    prices: Heat | None


def plan_table(folder: Path, chosen: tuple[str, int] | None, horizon: int, machines: Sequence[str]) -> polars.DataFrame:
    """Return what ran where in one run of a folder, from its events.

    Parameters
    ----------
    folder : Path
        Of ``slotwise compare --out``.
    chosen : (str, int), optional
        Policy and seed of the run; without one the table is empty.
    horizon : int
        Its slots.
    machines : sequence of str
        Names of the machines.
    """
    if chosen is None:
        return polars.DataFrame(schema=PLAN_COLUMNS)
    policy, seed = chosen
    rows = (
        (policy, seed, s.job_id, s.machine, machines[s.machine], s.first, s.last, s.workers, s.servers)
        for s in stays(read_events(folder, policy, seed), horizon)
    )
    return polars.DataFrame(list(rows), schema=PLAN_COLUMNS, orient="row")


def view(folder: Path, machines: Sequence[str]) -> View:
    """Look at the tables of a folder of ``slotwise compare``: ``runs``, ``jobs``, ``slots``, ``prices``, ``plan``.

    ``machines`` are the names of those of the plan.
    """
    runs, jobs, slots, prices, plan = (
        polars.read_parquet(folder / f"{name}.parquet") for name in ("runs", "jobs", "slots", "prices", "plan")
    )
    summary = tables.summary(runs)
    policies = runs["policy"].unique(maintain_order=True).to_list() if len(runs) else []
    chosen = None
    charts: list[Gantt | Heat] = []
    heat = None
    if len(plan):
        chosen = plan["policy"][0], plan["seed"][0]
        of_run = (polars.col("policy") == chosen[0]) & (polars.col("seed") == chosen[1])
        about = runs.filter(of_run).row(0, named=True)
        charts = _plan(plan, jobs.filter(of_run), about, machines)
        heat = _prices(prices.filter(of_run), about, machines)
    return View(
        policies,
        summary,
        tables.notes(summary.to_dicts()),
        _utility(runs, summary),
        _completion(runs, jobs, policies),
        _use(runs, slots, policies),
        _over_time(runs, slots, policies, "waiting", "Jobs that wait", "jobs"),
        chosen,
        charts,
        heat,
    )


def _utility(runs: polars.DataFrame, summary: polars.DataFrame) -> Panel:
    if not len(runs):
        return Panel("Utility earned", "", "utility of a run", [], bars=True)
    bounds = runs.group_by("seed").agg(polars.col("upper_bound").max())["upper_bound"].drop_nulls()
    line = Line(
        "utility",
        summary["policy"].to_list(),
        summary["total_utility"].to_list(),
        summary["total_utility_std"].to_list(),
    )
    limit = None if bounds.is_empty() else float(np.mean(bounds.to_numpy()))
    return Panel("Utility earned", "", "utility of a run, mean over seeds", [line], bars=True, limit=limit)


def _completion(runs: polars.DataFrame, jobs: polars.DataFrame, policies: Sequence[str]) -> Panel:
    """Show of all jobs that arrived the share that was completed within a time: those never completed keep it low."""
    if not len(runs):
        return Panel("Completion times", "time from arrival", "share of all jobs", [], steps=True)
    seconds = (polars.col("completed") - polars.col("arrival") + 1) * polars.col("slot_seconds")
    timed = jobs.join(runs.select("policy", "seed", "slot_seconds"), on=["policy", "seed"]).select(
        "policy", seconds.alias("seconds")
    )
    longest = timed["seconds"].max()
    unit, size = _unit(float(longest) if isinstance(longest, int | float) else 0.0)
    lines = []
    for policy in policies:
        of_policy = timed.filter(polars.col("policy") == policy)["seconds"]
        took = np.sort(of_policy.drop_nulls().to_numpy()) / size
        shares = np.arange(1, len(took) + 1) / max(1, len(of_policy))
        some = np.unique(np.linspace(0, len(took) - 1, min(len(took), MOST_POINTS)).round().astype(int))
        xs, ys = [0.0, *took[some].tolist()], [0.0, *shares[some].tolist()]
        if isinstance(longest, int | float):
            xs.append(float(longest) / size)
            ys.append(ys[-1])
        lines.append(Line(policy, xs, ys))
    return Panel("Completion times", f"time from arrival, {unit}", "share of all jobs", lines, steps=True)


def _use(runs: polars.DataFrame, slots: polars.DataFrame, policies: Sequence[str]) -> dict[str, Panel]:
    return {
        name.removeprefix("use_"): _over_time(
            runs, slots, policies, name, f"Use of {name.removeprefix('use_')}", "share of the cluster"
        )
        for name in slots.columns
        if name.startswith("use_")
    }


def _over_time(
    runs: polars.DataFrame, slots: polars.DataFrame, policies: Sequence[str], column: str, title: str, y_label: str
) -> Panel:
    """Show a column over slots, the mean over seeds."""
    means = slots.group_by("policy", "slot").agg(polars.col(column).mean()).sort("slot")
    lines = []
    for policy in policies:
        values = means.filter(polars.col("policy") == policy)[column].to_numpy()
        ranges = bins(len(values), MOST_POINTS)
        heights = [float(values[a:b].mean()) for a, b in ranges]
        # The last height holds to the end of its slots.
        begins = [float(first) for first, _ in ranges]
        lines.append(Line(policy, [*begins, float(len(values))], [*heights, heights[-1]]))
    return Panel(title, _slot_label(runs), f"{y_label}, mean over seeds", lines, steps=True)


def _slot_label(runs: polars.DataFrame) -> str:
    if not len(runs):
        return "slot"
    seconds = float(runs["slot_seconds"][0])
    unit, size = _unit(seconds)
    return f"slot ({seconds / size:g} {unit if seconds != size else unit.removesuffix('s')})"


def _unit(seconds: float) -> tuple[str, float]:
    return next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])


def _plan(plan: polars.DataFrame, jobs: polars.DataFrame, about: Row, names: Sequence[str]) -> list[Gantt | Heat]:
    title, x_label = f"Plan of {about['policy']}, seed {about['seed']}", _slot_label(polars.DataFrame([about]))
    horizon, machines = about["horizon"], len(names)
    rank = {job_id: at for at, job_id in enumerate(jobs["job_id"])}
    notes = {row["job_id"]: _note(row) for row in jobs.iter_rows(named=True)}
    arrivals = [
        Arrival(row["arrival"], row["admitted"], rank[row["job_id"]], notes[row["job_id"]])
        for row in jobs.iter_rows(named=True)
    ]
    if len(plan) <= MOST_BOXES and machines <= MOST_ROWS and len(arrivals) <= MOST_BOXES:
        return [Gantt(title, x_label, names, 0, horizon - 1, _boxes(plan, rank, notes), arrivals)]
    counts = np.zeros((machines, horizon + 1))
    np.add.at(counts, (plan["machine"].to_numpy(), plan["first"].to_numpy()), 1.0)
    np.add.at(counts, (plan["machine"].to_numpy(), plan["last"].to_numpy() + 1), -1.0)
    begin = int(np.argmax(counts.cumsum(axis=1)[:, :-1].sum(axis=0)))
    part = polars.DataFrame()
    rows_shown = min(machines, _EXCERPT_ROWS)
    length = min(horizon, _EXCERPT_SLOTS)
    while True:
        first = max(0, min(begin - length // 2, horizon - length))
        last = first + length - 1
        part = plan.filter(
            (polars.col("machine") < rows_shown) & (polars.col("first") <= last) & (polars.col("last") >= first)
        )
        if len(part) <= MOST_BOXES or length == 1:
            break
        length = -(-length // 2)
    shown = part.with_columns(polars.col("first").clip(first, last), polars.col("last").clip(first, last))
    return [
        _amounts(plan, f"{title}: workers and servers", x_label, names, horizon),
        Gantt(
            f"{title}: {rows_shown} of {machines} machines, slots {first} to {last}, when most runs",
            x_label,
            names[:rows_shown],
            first,
            last,
            _boxes(shown, rank, notes),
        ),
    ]


def _group(names: Sequence[str], first: int, last: int) -> str:
    return names[first] if first == last else f"{names[first]} to {names[last]}"


def _boxes(plan: polars.DataFrame, rank: Mapping[str, int], notes: Mapping[str, str]) -> list[Box]:
    """Give each stay a lane of its machine that no other has in its slots, the job's own before if that is free."""
    placed: list[tuple[int, Row]] = []
    lanes: dict[int, list[int]] = {}
    of_job: dict[tuple[int, str], int] = {}
    for row in plan.sort("first", "machine", "job_id").iter_rows(named=True):
        # The slot from which on each lane is free.
        free = lanes.setdefault(row["machine"], [])
        lane = of_job.get((row["machine"], row["job_id"]), -1)
        if lane < 0 or free[lane] > row["first"]:
            lane = next((at for at, end in enumerate(free) if end <= row["first"]), len(free))
        if lane == len(free):
            free.append(0)
        free[lane] = row["last"] + 1
        of_job[row["machine"], row["job_id"]] = lane
        placed.append((lane, row))
    return [
        Box(
            row["machine"],
            lane,
            len(lanes[row["machine"]]),
            row["first"],
            row["last"],
            rank[row["job_id"]],
            row["workers"],
            row["servers"],
            notes[row["job_id"]],
        )
        for lane, row in placed
    ]


def _note(row: Row) -> str:
    """Say what was decided on a job, and what became of it."""
    parts = [f"job {row['job_id']}, arrived in slot {row['arrival']}"]
    if row["promised"] is not None:
        payoff = row["promised_utility"] - row["cost"]
        parts.append(
            f"promised slot {row['promised']}: utility {row['promised_utility']:.4g} - cost {row['cost']:.4g} = payoff "
            f"{payoff:.4g}"
        )
    elif row["admitted"]:
        parts.append(f"started in slot {row['started']}, nothing promised")
    if row["reason"] is not None:
        parts.append(f"not let in: {row['reason']}")
    elif row["completed"] is None:
        parts.append("not finished by the horizon")
    else:
        parts.append(f"finished in slot {row['completed']}, earned {row['utility']:.4g}")
    return "; ".join(parts)


def _amounts(plan: polars.DataFrame, title: str, x_label: str, names: Sequence[str], horizon: int) -> Heat:
    """Show how many workers and servers a machine has, the mean over groups of machines and slots."""
    groups, columns = bins(len(names), MOST_ROWS), bins(horizon, _MOST_COLUMNS)
    machine, first, end = (plan[name].to_numpy() for name in ("machine", "first", "last"))
    size = groups[0][1] - groups[0][0]
    layers = {}
    for name, amount in (
        ("workers on a machine", plan["workers"].to_numpy()),
        ("servers on a machine", plan["servers"].to_numpy()),
        ("jobs on a machine", np.ones(len(plan))),
    ):
        change = np.zeros((len(groups), horizon + 1))
        np.add.at(change, (machine // size, first), amount)
        np.add.at(change, (machine // size, end + 1), -amount)
        there = change.cumsum(axis=1)[:, :-1]
        layers[name] = [
            [float(there[g, a:b].mean() / (to - begin)) for a, b in columns] for g, (begin, to) in enumerate(groups)
        ]
    return Heat(
        title,
        x_label,
        "mean",
        [first for first, _ in columns],
        columns[0][1],
        [_group(names, begin, end - 1) for begin, end in groups],
        layers,
    )


def _prices(prices: polars.DataFrame, about: Row, names: Sequence[str]) -> Heat | None:
    if not len(prices):
        return None
    groups = prices.select("first_machine", "last_machine").unique().sort("first_machine").rows()
    row_of = {first: at for at, (first, _) in enumerate(groups)}
    slots = prices["slot"].unique().sort().to_list()
    width = slots[1] - slots[0] if len(slots) > 1 else 1
    resources = [WHOLE, *(name for name in prices["resource"].unique(maintain_order=True) if name != WHOLE)]
    column_of = {slot: at for at, slot in enumerate(slots)}
    layers = {}
    for resource in resources:
        layer: list[list[float | None]] = [[None] * len(slots) for _ in groups]
        some = prices.filter(polars.col("resource") == resource).select("first_machine", "slot", "price")
        for first, slot, price in some.iter_rows():
            layer[row_of[first]][column_of[slot]] = price if price > 0 else None
        if any(price is not None for line in layer for price in line):
            layers[resource] = layer
    return Heat(
        f"Prices of {about['policy']}, seed {about['seed']}",
        _slot_label(polars.DataFrame([about])),
        "utility a slot",
        slots,
        width,
        [_group(names, first, last) for first, last in groups],
        layers,
        logarithmic=True,
    )
