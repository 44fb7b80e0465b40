"""Comparisons as tables: a row for each run, for each job of each run, for each policy."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars

from slotwise.model.schedule import Reason
from slotwise.sim.outcomes import Bounded, Outcome
from slotwise.words import counted

__all__ = [
    "EMPTY_RUN_SHARE",
    "JOB_COLUMNS",
    "PRICE_COLUMNS",
    "SLOT_COLUMNS",
    "frame",
    "job_rows",
    "notes",
    "price_rows",
    "run_row",
    "slot_rows",
    "summary",
]

Row = dict[str, Any]

EMPTY_RUN_SHARE = 0.95
"""Where ``fifo`` earns this share of what ``pdors`` earns, or more, machines are too many to tell policies apart."""

JOB_COLUMNS: Mapping[str, Any] = {
    "policy": polars.String,
    "seed": polars.Int64,
    "job_id": polars.String,
    "arrival": polars.Int64,
    "admitted": polars.Boolean,
    "reason": polars.String,
    "detail": polars.String,
    "promised": polars.Int64,
    "promised_utility": polars.Float64,
    "cost": polars.Float64,
    "started": polars.Int64,
    "completed": polars.Int64,
    "utility": polars.Float64,
    "active_slots": polars.Int64,
    "colocated_slots": polars.Int64,
}
"""Columns of a table of jobs, of which some may have nothing but nulls."""

SLOT_COLUMNS: Mapping[str, Any] = {
    "policy": polars.String,
    "seed": polars.Int64,
    "slot": polars.Int64,
    "running": polars.Int64,
    "waiting": polars.Int64,
}
"""Columns of a table of slots, before those of the resources: ``use_gpu``, ..."""

PRICE_COLUMNS: Mapping[str, Any] = {
    "policy": polars.String,
    "seed": polars.Int64,
    "first_slot": polars.Int64,
    "last_slot": polars.Int64,
    "first_machine": polars.Int64,
    "last_machine": polars.Int64,
    "resource": polars.String,
    "price": polars.Float64,
}
"""Columns of a table of prices, which is empty for policies that have none."""

_NO_MEAN = ("policy", "seed", "workload_digest")


def frame(rows: Sequence[Row], schema: Mapping[str, Any] | None = None) -> polars.DataFrame:
    """Return rows of one kind as a table; a column that a row lacks is null there."""
    return polars.DataFrame(rows, schema=schema, infer_schema_length=None)


def run_row(outcome: Outcome, bound: Bounded | None) -> Row:
    """Return the figures of one run, flat; names are those of ``simulate --json``, joined by underscores.

    Parameters
    ----------
    outcome : Outcome
        The run.
    bound : Bounded, optional
        What any scheduler could earn under its seed.
    """
    run = outcome.run
    figures = run.summary()
    used = [f"utilization_{word}" for word in _words(run.utilization)]
    value = None if bound is None else bound.value
    rejected = Counter(str(r.reason) for r in run.records.values() if r.rejected)
    done = [r.completed - r.arrival + 1 for r in run.records.values() if r.completed is not None]
    offered = [
        run.horizon if r.completed is None else r.completed - r.arrival + 1
        for r in run.records.values()
        if r.reason not in (Reason.HORIZON_ENDS, Reason.NEVER_FITS)
    ]
    return {
        "policy": outcome.policy,
        "seed": outcome.seed,
        "workload_digest": outcome.digest,
        **{name: figures[name] for name in ("machines", "horizon", "slot_seconds", "jobs")},
        "total_utility": run.total_utility,
        "upper_bound": value,
        "fraction_of_bound": run.total_utility / value if value else None,
        "bound_gap": None if bound is None else bound.gap,
        **{name: figures[name] for name in ("admitted", "completed", "unfinished", "infeasible")},
        "rejected": sum(rejected.values()),
        **{f"rejected_{_word(reason)}": rejected[reason] for reason in map(str, _REJECTIONS)},
        **{f"jct_seconds_{name}": value for name, value in figures["jct_seconds"].items()},
        "training_slots_median": figures["training_slots_median"],
        "offered_slots_median": float(np.median(offered)) if offered else None,
        "finished_slots_median": float(np.median(done)) if done else None,
        "makespan_slots": figures["makespan_slots"],
        **dict(zip(used, run.utilization.values(), strict=True)),
        "colocated_fraction": figures["colocated_fraction"],
        **{f"decision_seconds_{name}": value for name, value in figures["decision_seconds"].items()},
        "wall_seconds": outcome.wall_seconds,
    }


_REJECTIONS = (Reason.NEVER_FITS, Reason.NO_TIME_LEFT, Reason.PRICED_OUT, Reason.MACHINE_LOST)


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _words(names: Iterable[str]) -> list[str]:
    """Return a column's name for each resource; of equal ones the second gets a number, and so on."""
    words: list[str] = []
    for name in names:
        word = plain = _word(name) or "resource"
        number = 1
        while word in words:
            number += 1
            word = f"{plain}_{number}"
        words.append(word)
    return words


def job_rows(outcome: Outcome) -> list[Row]:
    """Return what became of each job of a run, in order of arrival."""
    return [
        {
            "policy": outcome.policy,
            "seed": outcome.seed,
            "job_id": record.id,
            "arrival": record.arrival,
            "admitted": record.let_in,
            "reason": None if record.reason is None else str(record.reason),
            "detail": record.detail,
            "promised": record.promised,
            "promised_utility": record.promised_utility,
            "cost": record.cost,
            "started": record.started,
            "completed": record.completed,
            "utility": record.utility,
            "active_slots": record.active_slots,
            "colocated_slots": record.colocated_slots,
        }
        for record in outcome.run.records.values()
    ]


def slot_rows(outcome: Outcome) -> list[Row]:
    """Return what went on in each slot of a run: jobs, and the share of each resource in use."""
    run = outcome.run
    named = [f"use_{word}" for word in _words(run.utilization)]
    return [
        {
            "policy": outcome.policy,
            "seed": outcome.seed,
            "slot": slot,
            "running": int(run.running[slot]),
            "waiting": int(run.waiting[slot]),
            **dict(zip(named, run.use[slot].tolist(), strict=True)),
        }
        for slot in range(run.horizon)
    ]


def price_rows(outcome: Outcome) -> list[Row]:
    """Return what machines cost over time in a run; see ``slotwise.sim.pricemap``."""
    return [{"policy": outcome.policy, "seed": outcome.seed, **row} for row in outcome.prices]


def summary(runs: polars.DataFrame) -> polars.DataFrame:
    """Return a row for each policy, in the order in which they come: means over its runs.

    ``total_utility_std`` is the standard deviation over the runs, ``fraction_of_bound`` what all runs earned over what
    all bounds allow. Runs without a figure (no job finished, say) are left out of its mean.

    Parameters
    ----------
    runs : polars.DataFrame
        Rows of ``run_row``.
    """
    if runs.is_empty():
        return runs
    means = [name for name in runs.columns if name not in _NO_MEAN]
    bounded = polars.col("upper_bound").is_not_null()
    earned, possible = polars.col("total_utility").filter(bounded).sum(), polars.col("upper_bound").sum()
    table = runs.group_by("policy", maintain_order=True).agg(
        polars.len().alias("runs"),
        polars.col("seed").sort().cast(polars.String).str.join(",").alias("seeds"),
        *(polars.col(name).cast(polars.Float64).mean() for name in means if name != "fraction_of_bound"),
        polars.col("total_utility").std().alias("total_utility_std"),
        # Nothing of nothing is no share.
        polars.when(possible > 0).then(earned / possible).alias("fraction_of_bound"),
    )
    order = ["policy", "runs", "seeds", "total_utility", "total_utility_std", "upper_bound", "fraction_of_bound"]
    return table.select([*order, *(name for name in table.columns if name not in order)])


def notes(table: Sequence[Row]) -> list[str]:
    """Return what a reader of a summary (its rows) must know before believing it."""
    earned = {row["policy"]: row["total_utility"] for row in table}
    out = []
    fifo, pdors = earned.get("fifo"), earned.get("pdors")
    if fifo is not None and pdors is not None and pdors > 0 and fifo >= EMPTY_RUN_SHARE * pdors:
        refused = next(row.get("rejected", 0.0) for row in table if row["policy"] == "pdors")
        reading = "There is hardly any contention; take fewer machines or more jobs"
        if refused > 0:
            reading += f", unless pdors turns away too much ({counted(refused, 'job')} a run)"
        out.append(f"fifo earns {fifo / pdors:.0%} of what pdors earns: this tells nothing about policies. {reading}")
    if len({row["seeds"] for row in table}) > 1:
        runs = "; ".join(f"{row['policy']} {row['seeds']}" for row in table)
        out.append(f"policies have runs of different seeds: their means are not over the same workloads ({runs})")
    left = {row["policy"]: row["unfinished"] for row in table if row["unfinished"] > 0}
    if left:
        named = ", ".join(f"{policy} {count:g}" for policy, count in left.items())
        out.append(f"jobs let in, or still waiting, that did not finish by the horizon, in the mean run: {named}")
    return out
