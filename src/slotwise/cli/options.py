"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from slotwise.cli.source import DEFAULT_HORIZON, DEFAULT_JOBS, DEFAULT_MACHINES, DEFAULT_SLOT

WorkloadName = Annotated[
    str,
    typer.Option(
        "--workload",
        help="paper, google, or a file: own jobs (YAML, CSV) or a trace (PAI, Tiresias, Gavel, Sia, swf, openb); see "
        "docs/workloads.md and docs/traces.",
    ),
]
ClusterName = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="A cluster file, the machines of a trace (PAI, Tiresias, openb), or 32x8 for 32 machines of 8 GPUs. A "
        "workload file needs it. Excludes --machines.",
    ),
]
ClusterShare = Annotated[
    float | None,
    typer.Option(
        "--cluster-share",
        help="Keep this share of the cluster's machines, evenly over types (0.01: a hundredth).",
        show_default="1",
    ),
]
Machines = Annotated[
    int | None,
    typer.Option("--machines", help="Machines of a generated workload.", show_default=f"{DEFAULT_MACHINES}"),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        help="Jobs to draw; of a file, only so many of the first to arrive.",
        show_default=f"{DEFAULT_JOBS}; all of a file",
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon",
        help="Slots to play.",
        show_default=f"{DEFAULT_HORIZON} for generated workloads; for a trace up to its last recorded end; for own "
        "jobs the last arrival plus the larger of 24 h and twice the longest job alone",
    ),
]
Slot = Annotated[
    str | None,
    typer.Option(
        "--slot",
        envvar="SLOTWISE_SLOT",
        help="Length of a slot, for files (generated workloads: 1h, fixed).",
        show_default=DEFAULT_SLOT,
    ),
]
Seed = Annotated[int, typer.Option("--seed", envvar="SLOTWISE_SEED", help="Source of every draw, >= 0.")]
Value = Annotated[
    str | None,
    typer.Option(
        "--value",
        help="Value of a trace's job: uniform in [1, 100], or work, in proportion to its worker-time.",
        show_default="uniform",
    ),
]
Elastic = Annotated[
    float | None,
    typer.Option(
        "--elastic", help="Most workers of a trace's job, as a multiple of the recorded ones.", show_default="2"
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Format of the file: jobs-yaml, jobs-csv, pai, tiresias, gavel, sia, swf or openb.",
        show_default="recognised from the content",
    ),
]
Throughputs = Annotated[
    str | None,
    typer.Option(
        "--throughputs",
        help="What turns the steps of a trace into time: for gavel a JSON table of steps a second, for sia a folder of "
        "profiles. These two cannot be played without.",
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at the first malformed row of a trace instead of counting it.")
]
PricesText = Annotated[
    str,
    typer.Option(
        "--prices",
        envvar="SLOTWISE_PRICES",
        help="For policies that commit: learnt or learnt=X, from the jobs so far; literal, the paper's, from all jobs "
        "beforehand; or scale=X, an empty machine costs X a slot.",
    ),
]
SolverName = Annotated[
    str,
    typer.Option(
        "--solver",
        envvar="SLOTWISE_SOLVER",
        help="For one job in one slot (pdors): sweep; exact, a program over machines, slow; or reference, the paper's "
        "LP relaxation with randomized rounding, slower.",
    ),
]
Grid = Annotated[
    int,
    typer.Option(
        "--grid",
        help="Least number of workload steps of the program over slots (policies that commit). At least 10 a slot that "
        "the job needs are used, up to 20,000 steps, and 120 million steps x slots.",
    ),
]
ServerShare = Annotated[
    float,
    typer.Option(
        "--server-share",
        help="Of oasis: share of the machines that hold servers and no workers. Not used where the cluster has "
        "machines without GPUs, which then hold the servers.",
    ),
]
NoBound = Annotated[
    bool,
    typer.Option(
        "--no-bound",
        help="Do not compute what any scheduler could earn at most. It is left out by itself where jobs x slots is "
        "beyond 10 million.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
