"""What comes out of the commands, field by field: the source of ``docs/reference.md``; no command loads this module.

A field is named by its path: ``jct_seconds.p99`` is in an object, ``plan[].slot`` in each object of a list, and a name
in braces stands for any (``utilization.{resource}``). Neighbours with the same entry share a row of the reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

__all__ = ["CERTIFICATE", "COMMANDS", "EVENTS", "EXIT_CODES", "OWN_EXIT_CODES", "TABLES", "Field"]


class Field(NamedTuple):
    """What a field means.

    Attributes
    ----------
    meaning : str
        With its unit.
    null : str
        When it is null; never if empty.
    absent : str
        When it is not there; never if empty.
    """

    meaning: str
    null: str = ""
    absent: str = ""


Fields = Mapping[str, Field]


def _each(names: Iterable[str], meaning: str, null: str = "", absent: str = "") -> dict[str, Field]:
    """Return fields that are said in one row."""
    return dict.fromkeys(names, Field(meaning, null, absent))


def _within(parent: str, names: Iterable[str], meaning: str, null: str = "") -> dict[str, Field]:
    """Return the parts of a field that are said in one row."""
    return _each((f"{parent}.{name}" for name in names), meaning, null)


def _quantiles(parent: str, meaning: str, null: str = "") -> dict[str, Field]:
    """Return a field of mean and quantiles; without ``null`` it is never null, and the parts are all there is."""
    field = Field(f"{meaning}: mean and quantiles", null)
    own = {parent: field} if null else {}
    return own | dict.fromkeys(
        (f"{parent}.{name}" for name in ("mean", "min", "p10", "p50", "p90", "p99", "max")), field
    )


_ASSUMED = {"assumed.{what}": Field("the rule that fills in what the source does not say")}
_SKIPPED = {"skipped.{reason}": Field("how many rows or jobs were left out for it")}
_FORMAT = {"workload_format": Field("recognised format; `paper` or `google` of a generated workload")}
_DIGEST = {
    "workload_digest": Field("16 hexadecimal digits over every field of every job: equal digests are equal jobs")
}
_MACHINES = {"machines": Field("machines of the cluster")}
_HORIZON = {"horizon": Field("slots played")}
_SLOT_SECONDS = {"slot_seconds": Field("length of a slot, seconds")}

_SIMULATE: Fields = {
    **_each(("policy", "seed", "workload"), "as given"),
    **_FORMAT,
    **_DIGEST,
    **_each(("solver", "prices"), "as given", "with policies that use neither"),
    "options.grid": Field("as given"),
    "options.server_share": Field("as given", absent="with other policies than `oasis`"),
    **_each(
        (f"options.{name}" for name in ("cluster_share", "value", "elastic", "delta", "gain", "attempts")),
        "as given",
        absent="unless given",
    ),
    **_MACHINES,
    **_HORIZON,
    **_SLOT_SECONDS,
    "jobs": Field("jobs that arrived: the sum of `completed`, `unfinished`, `rejected` and `infeasible`"),
    "admitted": Field("jobs let in; with policies that place slot by slot, those that ever started"),
    "rejected.{reason}": Field(
        "jobs turned away (answer `rejected`): `never fits: …` (no machine, or not the whole cluster, holds its "
        "smallest size; with the resource and, of several jobs, the least and the most asked for), `no time left` "
        "(worth nothing at its earliest completion), `priced out` (no schedule on what is left costs less than it is "
        "worth), `machine lost` (one of its plan, and no other plan is left)"
    ),
    "completed": Field("jobs that finished by the horizon"),
    "unfinished": Field("jobs let in, or waiting, that did not"),
    "infeasible": Field(
        "jobs that fit, and could not finish by the horizon even alone on the cluster (answer `infeasible`, reason "
        "`horizon ends`); not in `rejected`"
    ),
    "total_utility": Field("sum of u(completion − arrival) over the completed jobs"),
    **_within(
        "jct_seconds",
        ("mean", "p50", "p90", "p99"),
        "seconds from arrival to the end of the last slot, of completed jobs",
        "without any",
    ),
    "training_slots_median": Field(
        "median slots from arrival to the last, over jobs let in or waiting; unfinished ones count as the horizon",
        "without any",
    ),
    "makespan_slots": Field("slots until the last completion; 0 without any"),
    "utilization.{resource}": Field("fraction in use, of the whole cluster over the whole horizon"),
    "colocated_fraction": Field("share of (job, slot) pairs with all of the job on one machine", "if nothing ran"),
    "upper_bound": Field(
        "certified: no scheduler earns more with these jobs on these machines, not even one that knows the future",
        "where it was not computed: with `--no-bound`, or where jobs × slots (of the jobs that can finish, from "
        "arrival to horizon) is beyond 10 million",
    ),
    "fraction_of_bound": Field("`total_utility` over `upper_bound`", "without a bound, or where it is 0"),
    "bound_gap": Field(
        "by this share at most could other prices prove a lower bound; where it is large, `slotwise bound` finds a "
        "better one",
        "without a bound",
    ),
    "bound_seconds": Field("time that the bound took, seconds", "without a bound"),
    **_within(
        "decision_seconds",
        ("p50", "p99", "max"),
        "seconds of one decision: an arrival for policies that commit (`infeasible` and `never fits` left out), a slot "
        "for the others",
        "without any",
    ),
    "rounding": Field("what the roundings of `--solver reference` came to", "with any other solver"),
    "rounding.relaxations": Field("relaxations solved"),
    "rounding.attempts": Field("roundings drawn"),
    **_within("rounding", ("packing", "covering"), "those of them that held all rows of one side"),
    "rounding.feasible": Field("relaxations of which some rounding held all rows"),
    "rounding.fallbacks": Field(
        "relaxations of which none did and the sweep found a placement; for the few others there is none"
    ),
    "rounding.cost_over_relaxation": Field(
        "mean of (cost of a feasible rounding) / (cost of its relaxation) − 1", "if none is feasible"
    ),
    "wall_seconds": Field("time of the whole command, seconds"),
    **_ASSUMED,
    **_SKIPPED,
}

_RUNS: Fields = {
    "policy": Field("its name"),
    "seed": Field("of the run"),
    **_DIGEST,
    **{name: _SIMULATE[name] for name in ("machines", "horizon", "slot_seconds", "jobs")},
    **{name: _SIMULATE[name] for name in ("total_utility", "upper_bound", "fraction_of_bound", "bound_gap")},
    **{name: _SIMULATE[name] for name in ("admitted", "completed", "unfinished", "infeasible")},
    "rejected": Field("jobs turned away in all, `infeasible` ones not among them"),
    **_each(
        (f"rejected_{reason}" for reason in ("never_fits", "no_time_left", "priced_out", "machine_lost")),
        "jobs turned away, by reason",
    ),
    **{f"jct_seconds_{name}": _SIMULATE[f"jct_seconds.{name}"] for name in ("mean", "p50", "p90", "p99")},
    "training_slots_median": _SIMULATE["training_slots_median"],
    "offered_slots_median": Field(
        "the same over all jobs that can finish; those turned away count as the horizon", "without any"
    ),
    "finished_slots_median": Field("the same over finished jobs alone", "without any"),
    "makespan_slots": _SIMULATE["makespan_slots"],
    "utilization_{resource}": _SIMULATE["utilization.{resource}"],
    "colocated_fraction": _SIMULATE["colocated_fraction"],
    **{f"decision_seconds_{name}": _SIMULATE[f"decision_seconds.{name}"] for name in ("p50", "p99", "max")},
    "wall_seconds": Field("time of the run, seconds"),
}

_JOBS: Fields = {
    **{name: _RUNS[name] for name in ("policy", "seed")},
    "job_id": Field("its name"),
    "arrival": Field("slot of arrival"),
    "admitted": Field("whether `admitted` of the run counts it"),
    "reason": Field(
        "why it was turned away, a code: `horizon ends` where `infeasible` of the run counts it, any other where "
        "`rejected` does",
        "if it was not",
    ),
    "detail": Field("the same with numbers; empty if it was not"),
    "promised": Field("last slot of the plan committed at arrival", "without such a plan"),
    "promised_utility": Field("what that plan is worth", "without such a plan"),
    "cost": Field("what it costs at the prices of the decision, in the unit of utility", "without such a plan"),
    "started": Field("first slot in which it ran", "if it never ran"),
    "completed": Field("slot in which it finished", "if it did not"),
    "utility": Field("earned; 0 if it did not finish"),
    "active_slots": Field("slots in which it ran"),
    "colocated_slots": Field("those of them in which all of it was on one machine"),
}

_OF_RUN: Fields = {"policy": _RUNS["policy"], "seed": _RUNS["seed"]}

TABLES: Mapping[str, Fields] = {
    "runs.parquet": _RUNS,
    "jobs.parquet": _JOBS,
    "slots.parquet": {
        **_OF_RUN,
        "slot": Field("a row for each slot of each run"),
        "running": Field("jobs that ran in it"),
        "waiting": Field("jobs that were in, or waited, by then, had not finished and did not run in it"),
        "use_{resource}": Field("share of the resource, of the whole cluster, that jobs held in it"),
    },
    "prices.parquet": {
        **_OF_RUN,
        **_each(("first_slot", "last_slot"), "a slot, or a group of them, both ends included; 200 groups at most"),
        **_each(
            ("first_machine", "last_machine"),
            "a machine, or a group of them: numbers from 0 in the order of the cluster, both ends included; 60 groups "
            "at most",
        ),
        "resource": Field("a resource that a job had asked for by then, or `whole machine`: all of them"),
        "price": Field(
            "utility that all of it on one machine costs in one slot (the mean over both groups), once the arrivals of "
            "the slot are decided: at the prices of the last decision, with all that is committed for it; no rows for "
            "policies without prices"
        ),
    },
    "plan.parquet": {
        **_OF_RUN,
        "job_id": Field("a row for each job, machine and range of slots in which nothing changes, of the run shown"),
        **_each(("machine", "machine_name"), "where: its number from 0 in the order of the cluster, and its name"),
        **_each(("first", "last"), "slots, both ends included"),
        **_each(("workers", "servers"), "how many of the job run there"),
    },
    "summary.csv": {
        "policy": _RUNS["policy"],
        "runs": Field("how many"),
        "seeds": Field("which, between commas"),
        "total_utility": Field("mean over the runs"),
        "total_utility_std": Field("standard deviation over the runs", "of a single run"),
        "upper_bound": Field("mean over the runs", _SIMULATE["upper_bound"].null),
        "fraction_of_bound": Field(
            "sum of `total_utility` over sum of `upper_bound`, of runs with a bound",
            "without a bound, or where it is 0",
        ),
        "{other}": Field(
            "mean over the runs of each other column of `runs.parquet` (but `seed` and `workload_digest`); runs in "
            "which it is null are left out",
            "if it is null in all runs",
        ),
    },
}
"""Columns of the tables in the folder of ``slotwise compare``, by file."""

_COMPARE: Fields = {
    "options.{name}": Field("of the options that name jobs, machines and policies' settings, those with a value"),
    **_FORMAT,
    "workload_digest": Field(f"of the first seed: {_DIGEST['workload_digest'].meaning}"),
    "policies[].{column}": Field(
        "a row for each policy, with the columns of [`summary.csv`](#summarycsv)", "where the column is null"
    ),
    "notes[]": Field(
        "what a reader must know, for one where `fifo` earns 95 % of `pdors` or more: such a run tells nothing about "
        "policies"
    ),
    "out": Field("the folder", "without `--out`"),
    **_ASSUMED,
    **_SKIPPED,
}

_POLICIES: Fields = {
    "[].name": Field("its name"),
    "[].summary": Field("what it does, in one line"),
    "[].source": Field("where it was published"),
}

_EXPLAIN: Fields = {
    "job": Field("its name"),
    **_each(("policy", "seed"), "of the run"),
    **_DIGEST,
    "arrival": _JOBS["arrival"],
    "admitted": Field("whether it was let in; with policies that place slot by slot, whether it ever started"),
    "reason": Field(
        "why it was turned away: `never fits`, `horizon ends`, `no time left`, `priced out` or `machine lost`",
        "if it was not",
    ),
    "detail": _JOBS["detail"],
    "promised": _JOBS["promised"],
    **_each(
        ("started", "completed"),
        "first slot in which it ran, and slot in which it finished",
        "if it did not, and with policies that commit, of which only `promised` is known here",
    ),
    "completion_slots": Field(
        "slots in which it could finish and be worth something; 0 of policies without prices, and of a job that was "
        "turned away before its policy saw it"
    ),
    "completions[]": Field(
        "of policies with prices: what finishing by a slot comes to; at most 24 slots, evenly over those in which it "
        "is worth something"
    ),
    "completions[].slot": Field("last slot"),
    "completions[].utility": Field("what finishing in it is worth"),
    "completions[].cost": Field(
        "what the cheapest plan costs that ends in it or before, in the unit of utility", "if there is too little room"
    ),
    "plan": Field("the best plan, whether it pays or not", "if there is none, or the policy has no prices"),
    "plan.slots[]": Field("slots in which it runs"),
    "plan.completion": Field("the last of them"),
    **_each(("plan.utility", "plan.cost", "plan.payoff"), "what it is worth, what it costs, and the difference"),
    "dearest.{resource}": Field("its share of that cost, the dearest first"),
    "dearest_slot": Field("slot in which the plan pays most", "without a plan that costs anything"),
    "changes[]": Field(
        "of a job that was turned away: what would have let it in, each change alone, at the prices of that moment"
    ),
    "changes[].change": Field(
        "least `value` (in utility), earliest `target` (slots after arrival) or largest `workload` (samples)"
    ),
    **_each(("changes[].was", "changes[].needed"), "the job's own, and what would have done"),
    "machine_cost": Field(
        "what a mean machine costs a slot at the prices of that moment if it is empty, far ahead",
        "of policies without prices",
    ),
    "workers[]": Field("of policies that place slot by slot: its workers in each slot in which it ran"),
    "trained": Field(
        "of such policies: share of its samples that it had trained when the last slot opened",
        "of policies that commit, and of a job that was turned away",
    ),
    "waits[]": Field("of such policies: runs of slots in which it was in and did not run"),
    **_each(("waits[].first", "waits[].last"), "slots"),
    "waits[].reason": Field("`waiting behind a job` or `lost fairness share`"),
    "waits[].detail": Field("the same with numbers, of the last of these slots"),
}

_REPRODUCE: Fields = {
    "[].name": Field("of the experiment"),
    "[].claim": Field("of the paper"),
    "[].measured": Field("what came out here, in words"),
    "[].verdict": Field("whether the two agree"),
    "[].workload_digest": Field("16 hexadecimal digits over all workloads"),
    "[].rows[].{column}": Field(
        "the table behind the figure, with columns of its own", "where there is nothing to tell"
    ),
}

_BOUND: Fields = {
    "workload": Field("as given"),
    **_FORMAT,
    **_DIGEST,
    "seed": Field("as given"),
    **_MACHINES,
    "horizon": Field("slots"),
    **_SLOT_SECONDS,
    "jobs": Field("jobs of the workload"),
    "infeasible": Field(
        "those that cannot finish, or not for any value, even if all machines were one; also such as never fit, which "
        "a run counts in `rejected`"
    ),
    "upper_bound": Field("no scheduler earns more"),
    "bound_gap": Field("other prices may lower it by this share at most"),
    "rounds": Field("rounds of the search"),
    "bound_seconds": Field("time that the search took, seconds"),
    "offline": Field("the offline optimum", "without `--exact`"),
    "offline.utility": Field("of the best schedules found"),
    "offline.bound": Field("no schedules earn more"),
    "offline.gap": Field("between the two, as a share"),
    "offline.proven": Field("whether the solver ended before its time limit"),
    "offline.jobs": Field("jobs that finish"),
    "offline.seconds": Field("time that it took, seconds"),
    **_ASSUMED,
    **_SKIPPED,
}

CERTIFICATE: Fields = {
    "upper_bound": _BOUND["upper_bound"],
    **_DIGEST,
    "horizon": _BOUND["horizon"],
    **_SLOT_SECONDS,
    "resources[]": Field("their names"),
    "capacity[]": Field("of all machines together, in each resource's unit"),
    "prices[][]": Field("for each slot and resource, utility per unit"),
}
"""Fields of the file of ``slotwise bound --out``."""

_QUOTE: Fields = {
    "job": Field("its name"),
    "workload": Field("samples to train"),
    **_MACHINES,
    **_SLOT_SECONDS,
    "horizon": Field("slots looked at"),
    "admitted": Field("whether it would be let in"),
    "reason": Field("why not", "if it would"),
    "detail": Field("the same with numbers; empty if it would"),
    **_each(
        ("utility", "cost", "payoff"),
        "of the best plan, whether it pays or not: what it is worth, what it costs, and the difference",
        "if there is none",
    ),
    "finish_slot": Field("last slot of the plan", "if there is none"),
    "finish_seconds": Field("end of that slot, seconds from now", "if there is none"),
    "plan[].slot": Field("each slot in which it runs, from 0"),
    **_each(("plan[].workers", "plan[].servers"), "all of them in that slot"),
    "plan[].level": Field("of the smallest domain that holds them, such as `machine` or `cluster`"),
    "plan[].samples": Field("trained in that slot"),
    **_within("plan[].machines.{name}", ("workers", "servers"), "those on each machine"),
    "configurations[]": Field(
        "sizes that the empty cluster holds, at the levels at which they gain something; pairs that are slower than "
        "others with no more workers and servers are left out"
    ),
    **_each(("configurations[].workers", "configurations[].servers"), "how many"),
    "configurations[].level": Field("within one domain of this level"),
    "configurations[].samples_per_second": Field("how fast the job trains"),
    "configurations[].slot_cost": Field("what a slot costs, in the unit of utility"),
    **_each(("configurations[].seconds", "configurations[].cost"), "what the whole workload takes, seconds, and costs"),
    "configurations[].useful": Field("whether no other one is faster and no dearer"),
    **_each(("prices", "solver"), "as given"),
    **_ASSUMED,
    **_SKIPPED,
}

_COEFFICIENTS = "models[].coefficients"
_FIT: Fields = {
    "models[].name": Field("of the model"),
    "models[].mode": Field("of the model", "if the file names none"),
    "models[].batch": Field("samples of an iteration", "if the rows differ"),
    "models[].rows": Field("rows used"),
    "models[].skipped": Field("failed runs left out"),
    "models[].kind": Field("as in a job file: `fitted`, or `fitted-all-reduce` for rows without servers"),
    **_within(_COEFFICIENTS, ("overhead", "compute", "transfer", "perWorker"), "as in a job file"),
    f"{_COEFFICIENTS}.perServer": Field("as in a job file", absent="in other kinds than `fitted`"),
    f"{_COEFFICIENTS}.sync": Field("as in a job file", absent="in other kinds than `fitted-all-reduce`"),
    "models[].bandwidth": Field("at which the network's part holds, MB/s", "if it holds at any"),
    **_each(
        ("models[].leave_one_out_error", "models[].in_sample_error"),
        "mean of |fitted − measured| / measured of the seconds of an iteration, a fraction; each row predicted by a "
        "fit to all other configurations, and by the fit itself",
    ),
    "models[].folds": Field("how many such fits: one for each configuration"),
    **_each(
        (f"models[].measured.{name}[]" for name in ("workers", "servers", "batch")),
        "least and most measured; beyond, the model extrapolates",
    ),
    "models[].warnings[]": Field(
        "what the rows do not determine and what to measure; also on standard error and in the YAML's comments"
    ),
    "notes[]": Field("what was assumed about the files, or read once though it is there twice"),
}

_INSPECT: Fields = {
    "trace": Field("the file"),
    "format": Field("recognised format"),
    "jobs": Field("jobs that can be used"),
    "span_seconds": Field("from the first arrival to the last, seconds"),
    "end_seconds": Field(
        "from the first arrival to the last end if each job starts on arrival, seconds", "where durations are unknown"
    ),
    **_within("roles", ("workers", "servers"), "of all jobs; other roles are in `skipped`"),
    **_within("roles", ("all_reduce_jobs", "server_jobs"), "jobs without servers, and with"),
    **_quantiles("duration_seconds", "how long a job lasts, seconds", "where durations are unknown"),
    **_quantiles("interarrival_seconds", "from one arrival to the next, seconds", "of a single job"),
    **_quantiles("wait_seconds", "from arrival until it ran, seconds", "where the trace does not record it"),
    **_quantiles("workers", "of a job"),
    **_quantiles("servers", "of a job that has any", "if none has"),
    **_quantiles("demand.{resource}", "what a job takes with all its workers and servers"),
    "demand_recorded[]": Field("resources of which the trace records what a worker takes; the others are assumed"),
    "recorded_capacity.{resource}": Field(
        "of the machines that it was recorded on, where it says so (`MaxProcs` of swf)"
    ),
    "machines": Field("of `--cluster`", "without it"),
    "load": Field(
        "what the jobs ask for if each starts on arrival, over what all machines of `--cluster` have",
        "without `--cluster`, or where durations are unknown",
    ),
    "load.mean.{resource}": Field("share over the whole time"),
    "load.peak.{resource}": Field("share in the busiest of these stretches"),
    "load.over_time[]": Field("24 stretches of equal length"),
    **_each(("load.over_time[].from_seconds", "load.over_time[].to_seconds"), "since the first arrival"),
    "load.over_time[].arrivals": Field("jobs that arrive in it"),
    "load.over_time[].share.{resource}": Field("share in it"),
    "contradictions[].what": Field(
        "a worker or server larger than any machine of `--cluster`, a job larger than all of them; recorded use above "
        "the recorded capacity or above `--cluster` (of demands that are recorded, where start and end are); what a "
        "format says twice and differently"
    ),
    "contradictions[].jobs": Field("how many jobs show it; 0 where it is none of a job"),
    "contradictions[].example": Field("name of the first of them", "where none is known"),
    **_SKIPPED,
    **_ASSUMED,
}

_CONVERT: Fields = {
    "out": Field("the job list"),
    "format": Field("of the trace"),
    "jobs": Field("how many"),
    **_SLOT_SECONDS,
    "horizon": Field("slots with which the trace itself would be played; a list alone has another default"),
    "workload_digest": Field(f"{_DIGEST['workload_digest'].meaning}; that of the list when it is read back"),
    **_ASSUMED,
    **_SKIPPED,
}

COMMANDS: Mapping[str, Fields] = {
    "simulate": _SIMULATE,
    "compare": _COMPARE,
    "policies": _POLICIES,
    "explain": _EXPLAIN,
    "reproduce": _REPRODUCE,
    "bound": _BOUND,
    "quote": _QUOTE,
    "fit": _FIT,
    "inspect": _INSPECT,
    "convert": _CONVERT,
}
"""Fields of ``--json``, by command."""

EVENTS: Fields = {
    "kind": Field("which event or command"),
    "slot": Field("in which it happens or is decided"),
    "job_id": Field("name of the job"),
    "samples": Field("trained in the slot"),
    "machine": Field("name of the machine"),
    "completion": Field("promised last slot", "with policies that promise nothing"),
    "utility": Field("of the plan; 0 without one"),
    "cost": Field("of the plan at the prices of the decision; 0 without one"),
    "reason": Field("of a rejection, a code"),
    "detail": Field("the same with numbers"),
    "machines[]": Field("machines on which it runs, counted from 0 in the order of the cluster"),
    **_each(("workers[]", "servers[]"), "how many on each of them"),
}
"""Fields of the event log, whatever the kind; ``slotwise.events`` has the kinds."""

EXIT_CODES: Mapping[int, str] = {
    0: "done; jobs left unfinished are a line on standard error and a field",
    1: "failure",
    2: "usage or bad input, in one line: what, where, which value, which bound",
    130: "interrupted by Ctrl-C or SIGTERM",
}
"""Of all commands."""

OWN_EXIT_CODES: Mapping[str, Mapping[int, str]] = {
    "compare": {
        1: "also where the policy of a run raises an error: it is named, and the others are made",
        130: "what is finished is in the folder of `--out`",
    },
    "bound": {
        0: "also after Ctrl-C or SIGTERM, with the best bound so far",
        130: "interrupted before the first round had ended: there is no bound yet",
    },
    "quote": {0: "also for a job that would be turned away"},
}
"""What one command means by a code, where that is more than what all mean."""
