"""What a comparison looks like: its tables on disk turned into a table and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars

from slotwise.model.schedule import Reason
from slotwise.report.figures import ARRIVALS, Arrival, Box, Gantt, Heat, Line, Panel
from slotwise.report.folder import read_events
from slotwise.sim import tables
from slotwise.sim.binning import bins
from slotwise.sim.pricemap import WHOLE
from slotwise.sim.stays import stays
from slotwise.words import amount, counted

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
MOST_BOXES, MOST_ROWS, MOST_SLOTS = 2_500, 60, 400
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
    chosen : (str, int)
        Policy and seed of the run whose plan is shown.
    plan : sequence of Gantt or Heat
        Its plan; as numbers, then a part of it, if it is large.
    prices : Heat, optional
        Its prices, if it has any.
    jobs : polars.DataFrame
        Its jobs in order of arrival, see ``slotwise.sim.tables.JOB_COLUMNS``.
    slot_seconds : float
        Length of a slot.
    """

    policies: Sequence[str]
    summary: polars.DataFrame
    notes: Sequence[str]
    utility: Panel
    completion: Panel
    use: Mapping[str, Panel]
    queue: Panel
    chosen: tuple[str, int]
    plan: Sequence[Gantt | Heat]
    prices: Heat | None
    jobs: polars.DataFrame
    slot_seconds: float


def plan_table(folder: Path, chosen: tuple[str, int], horizon: int, machines: Sequence[str]) -> polars.DataFrame:
    """Return what ran where in one run of a folder, from its events.

    Parameters
    ----------
    folder : Path
        Of ``slotwise compare --out``.
    chosen : (str, int)
        Policy and seed of the run.
    horizon : int
        Its slots.
    machines : sequence of str
        Names of the machines.

    Raises
    ------
    InvalidInput
        If the file of its events is damaged.
    """
    policy, seed = chosen
    rows = (
        (policy, seed, s.job_id, s.machine, machines[s.machine], s.first, s.last, s.workers, s.servers)
        for s in stays(read_events(folder, policy, seed), horizon)
    )
    return polars.DataFrame(list(rows), schema=PLAN_COLUMNS, orient="row")


def view(folder: Path, chosen: tuple[str, int], machines: Sequence[str]) -> View:
    """Look at the tables of a folder of ``slotwise compare``: ``runs``, ``jobs``, ``slots``, ``prices``, ``plan``.

    Parameters
    ----------
    folder : Path
        With at least one run.
    chosen : (str, int)
        Policy and seed of the run whose plan and prices are shown.
    machines : sequence of str
        Names of its machines.
    """
    runs, slots, plan = (polars.read_parquet(folder / f"{name}.parquet") for name in ("runs", "slots", "plan"))
    # Of millions of jobs only what is shown.
    jobs, prices = (polars.scan_parquet(folder / f"{name}.parquet") for name in ("jobs", "prices"))
    of_run = (polars.col("policy") == chosen[0]) & (polars.col("seed") == chosen[1])
    summary = tables.summary(runs)
    policies = summary["policy"].to_list()
    about = runs.filter(of_run).row(0, named=True)
    slot_seconds = float(about["slot_seconds"])
    of_chosen = jobs.filter(of_run).collect()
    end = _end(slots)
    slots = slots.filter(polars.col("slot") < end)
    return View(
        policies,
        summary,
        tables.notes(summary.to_dicts()),
        _utility(runs, summary),
        _completion(jobs, slot_seconds, policies),
        _use(slots, slot_seconds, policies),
        _over_time(slots, slot_seconds, policies, "waiting", "Jobs that wait", "jobs"),
        chosen,
        _plan(plan, of_chosen, about | {"horizon": end}, machines),
        _prices(prices.filter(of_run, polars.col("first_slot") < end).collect(), about, machines),
        of_chosen,
        slot_seconds,
    )


def _end(slots: polars.DataFrame) -> int:
    """Return the slot from which on nothing is left to run or to wait in any run."""
    busy = slots.filter((polars.col("running") > 0) | (polars.col("waiting") > 0))["slot"]
    return int(busy.to_numpy().max()) + 1 if len(busy) else int(slots["slot"].to_numpy().max()) + 1


def _utility(runs: polars.DataFrame, summary: polars.DataFrame) -> Panel:
    line = Line(
        "utility",
        summary["policy"].to_list(),
        summary["total_utility"].to_list(),
        summary["total_utility_std"].to_list(),
    )
    # A mean of bounds is a limit of a mean of runs only where both are of the same seeds.
    limit = None
    if summary["seeds"].n_unique() == 1 and not runs["upper_bound"].null_count():
        limit = float(runs.group_by("seed").agg(polars.col("upper_bound").max())["upper_bound"].to_numpy().mean())
    return Panel("Utility earned", "", "utility of a run, mean over seeds", [line], bars=True, limit=limit)


def _completion(jobs: polars.LazyFrame, slot_seconds: float, policies: Sequence[str]) -> Panel:
    """Show, of all jobs that could finish, the share that was completed within a time.

    Jobs never completed keep the curve low.
    """
    hopeless = [str(Reason.HORIZON_ENDS), str(Reason.NEVER_FITS)]
    timed = (
        jobs.filter(polars.col("reason").is_null() | ~polars.col("reason").is_in(hopeless))
        .select("policy", ((polars.col("completed") - polars.col("arrival") + 1) * slot_seconds).alias("seconds"))
        .collect()
    )
    found = timed["seconds"].drop_nulls().to_numpy()
    longest = float(found.max()) if len(found) else slot_seconds
    unit, size = _unit(longest)
    lines = []
    for policy in policies:
        of_policy = timed.filter(polars.col("policy") == policy)["seconds"]
        took = np.sort(of_policy.drop_nulls().to_numpy()) / size
        shares = np.arange(1, len(took) + 1) / max(1, len(of_policy))
        some = np.unique(np.linspace(0, len(took) - 1, min(len(took), MOST_POINTS)).round().astype(int))
        xs, ys = [0.0, *took[some].tolist()], [0.0, *shares[some].tolist()]
        lines.append(Line(policy, [*xs, 1.03 * longest / size], [*ys, ys[-1]]))
    title = "share of the jobs that could finish"
    return Panel("Completion times", f"time from arrival, {unit}", title, lines, steps=True, shares=True)


def _use(slots: polars.DataFrame, slot_seconds: float, policies: Sequence[str]) -> dict[str, Panel]:
    return {
        name.removeprefix("use_"): _over_time(
            slots,
            slot_seconds,
            policies,
            name,
            f"Use of {name.removeprefix('use_')}",
            "share of the cluster",
            shares=True,
        )
        for name in slots.columns
        if name.startswith("use_")
    }


def _over_time(
    slots: polars.DataFrame,
    slot_seconds: float,
    policies: Sequence[str],
    column: str,
    title: str,
    y_label: str,
    *,
    shares: bool = False,
) -> Panel:
    """Show a column over slots, the mean over seeds and, of a long run, over ranges of slots."""
    means = slots.group_by("policy", "slot").agg(polars.col(column).mean()).sort("slot")
    lines = []
    width = 1
    for policy in policies:
        values = means.filter(polars.col("policy") == policy)[column].to_numpy()
        ranges = bins(len(values), MOST_POINTS)
        width = ranges[0][1]
        heights = [float(values[a:b].mean()) for a, b in ranges]
        begins = [float(first) for first, _ in ranges]
        # The last height holds to the end of its slots.
        lines.append(Line(policy, [*begins, float(len(values))], [*heights, heights[-1]]))
    y_label += ", mean over seeds" + (f" and {width} slots" if width > 1 else "")
    return Panel(title, _slot_label(slot_seconds), y_label, lines, steps=True, shares=shares)


def _slot_label(seconds: float) -> str:
    unit, size = _unit(seconds)
    return f"slot ({seconds / size:g} {unit if seconds != size else unit.removesuffix('s')})"


def _unit(seconds: float) -> tuple[str, float]:
    return next(((unit, size) for unit, size in _UNITS if seconds >= size), _UNITS[-1])


def _plan(plan: polars.DataFrame, jobs: polars.DataFrame, about: Row, names: Sequence[str]) -> list[Gantt | Heat]:
    title, x_label = f"Plan of {about['policy']}, seed {about['seed']}", _slot_label(about["slot_seconds"])
    horizon, machines = about["horizon"], len(names)
    # Those that run come first: their colours lie far apart.
    ran = set(plan["job_id"])
    ordered = sorted(jobs["job_id"], key=lambda job_id: job_id not in ran)
    rank = {job_id: at for at, job_id in enumerate(ordered)}
    notes = {row["job_id"]: _note(row) for row in jobs.iter_rows(named=True)}
    arrivals = [
        Arrival(row["arrival"], _kind(row["reason"]), rank[row["job_id"]], notes[row["job_id"]])
        for row in jobs.filter(polars.col("arrival") < horizon).iter_rows(named=True)
    ]
    few = len(plan) <= MOST_BOXES and len(arrivals) <= MOST_BOXES
    if few and machines <= MOST_ROWS and horizon <= MOST_SLOTS:
        return [Gantt(title, x_label, names, 0, horizon - 1, _boxes(plan, rank, notes), arrivals)]
    rows, first, last, part = _excerpt(plan, machines, horizon)
    place = {machine: at for at, machine in enumerate(rows)}
    shown = part.with_columns(
        polars.col("machine").replace_strict(place, return_dtype=polars.Int64),
        polars.col("first").clip(first, last),
        polars.col("last").clip(first, last),
    )
    where = "all machines" if len(rows) == machines else f"the {len(rows)} busiest of {counted(machines, 'machine')}"
    return [
        _amounts(plan, f"{title}: workers and servers", x_label, names, horizon),
        Gantt(
            f"{title}: {where}, slots {first} to {last}, when most runs",
            x_label,
            [names[machine] for machine in rows],
            first,
            last,
            _boxes(shown, rank, notes),
        ),
    ]


def _kind(reason: str | None) -> str:
    """Return one of ``ARRIVALS``."""
    if reason is None:
        return ARRIVALS[0]
    return ARRIVALS[2] if reason == Reason.HORIZON_ENDS else ARRIVALS[1]


def _excerpt(plan: polars.DataFrame, machines: int, horizon: int) -> tuple[list[int], int, int, polars.DataFrame]:
    """Return machines, the first and the last slot of a part with few boxes, and what runs there."""
    there = np.zeros(horizon + 1)
    np.add.at(there, plan["first"].to_numpy(), 1.0)
    np.add.at(there, plan["last"].to_numpy() + 1, -1.0)
    middle = int(np.argmax(there.cumsum()[:-1]))
    length = min(horizon, _EXCERPT_SLOTS)
    while True:
        first = max(0, min(middle - length // 2, horizon - length))
        last = first + length - 1
        part = plan.filter((polars.col("first") <= last) & (polars.col("last") >= first))
        slots = polars.col("last").clip(upper_bound=last) - polars.col("first").clip(lower_bound=first) + 1
        busy = part.group_by("machine").agg(slots.sum()).sort("last", "machine", descending=[True, False])["machine"]
        # Where little runs, others fill the room.
        others = sorted(set(range(machines)) - set(busy))
        rows = sorted([*busy, *others][:_EXCERPT_ROWS])
        part = part.filter(polars.col("machine").is_in(rows))
        if len(part) <= MOST_BOXES or length == 1:
            return rows, first, last, part
        length = -(-length // 2)


def _group(names: Sequence[str], first: int, last: int) -> str:
    return names[first] if first == last else f"{names[first]} to {names[last]}"


def _boxes(plan: polars.DataFrame, rank: Mapping[str, int], notes: Mapping[str, Sequence[str]]) -> list[Box]:
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


def _note(row: Row) -> list[str]:
    """Say what was decided on a job, and what became of it."""
    lines = [f"job {row['job_id']}, arrived in slot {row['arrival']}"]
    if row["promised"] is not None:
        worth, cost = row["promised_utility"], row["cost"]
        lines.append(f"promised slot {row['promised']}")
        lines.append(f"utility {amount(worth)} - cost {amount(cost)} = payoff {amount(worth - cost)}")
    elif row["started"] is not None:
        lines.append(f"started in slot {row['started']}, nothing promised")
    if row["completed"] is not None:
        lines.append(f"finished in slot {row['completed']}, earned {amount(row['utility'])}")
    elif row["reason"] == Reason.HORIZON_ENDS:
        lines.append("cannot finish by the horizon, even alone on the cluster")
    elif row["reason"] is not None:
        lines.append(f"turned away: {row['reason']}")
    else:
        lines.append("not finished by the horizon" + ("" if row["started"] is not None else ", never started"))
    return lines


def _amounts(plan: polars.DataFrame, title: str, x_label: str, names: Sequence[str], horizon: int) -> Heat:
    """Show how many workers and servers a machine has, the mean over groups of machines and slots."""
    groups, columns = bins(len(names), MOST_ROWS), bins(horizon, _MOST_COLUMNS)
    machine, first, end = (plan[name].to_numpy() for name in ("machine", "first", "last"))
    size = groups[0][1] - groups[0][0]
    layers = {}
    for name, held in (
        ("workers on a machine", plan["workers"].to_numpy()),
        ("servers on a machine", plan["servers"].to_numpy()),
        ("jobs on a machine", np.ones(len(plan))),
    ):
        change = np.zeros((len(groups), horizon + 1))
        np.add.at(change, (machine // size, first), held)
        np.add.at(change, (machine // size, end + 1), -held)
        there = change.cumsum(axis=1)[:, :-1]
        layers[name] = [
            [float(there[g, a:b].mean() / (to - begin)) for a, b in columns] for g, (begin, to) in enumerate(groups)
        ]
    return Heat(
        title,
        x_label,
        "mean over a group",
        [first for first, _ in columns],
        columns[0][1],
        [_group(names, begin, end - 1) for begin, end in groups],
        layers,
    )


def _prices(prices: polars.DataFrame, about: Row, names: Sequence[str]) -> Heat | None:
    groups = prices.select("first_machine", "last_machine").unique().sort("first_machine").rows()
    columns = prices.select("first_slot", "last_slot").unique().sort("first_slot").rows()
    row_of = {first: at for at, (first, _) in enumerate(groups)}
    column_of = {first: at for at, (first, _) in enumerate(columns)}
    layers = {}
    for resource in [WHOLE, *(name for name in prices["resource"].unique(maintain_order=True) if name != WHOLE)]:
        layer: list[list[float | None]] = [[None] * len(columns) for _ in groups]
        some = prices.filter(polars.col("resource") == resource).select("first_machine", "first_slot", "price")
        for machine, slot, price in some.iter_rows():
            layer[row_of[machine]][column_of[slot]] = price if price > 0 else None
        if any(price is not None for line in layer for price in line):
            layers[resource] = layer
    if not layers:
        return None
    return Heat(
        f"Prices of {about['policy']}, seed {about['seed']}",
        _slot_label(about["slot_seconds"]),
        "utility a slot",
        [first for first, _ in columns],
        max(last - first + 1 for first, last in columns),
        [_group(names, first, last) for first, last in groups],
        layers,
        logarithmic=True,
    )
