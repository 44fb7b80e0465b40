"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from slotwise.cli.source import DEFAULT_HORIZON, DEFAULT_JOBS, DEFAULT_MACHINES, DEFAULT_SLOT

WorkloadName = Annotated[
    str,
    typer.Option("--workload", help="paper, google, or a file: own jobs (YAML, CSV) or a trace (see docs/traces)."),
]
ClusterName = Annotated[
    str | None,
    typer.Option("--cluster", help="A cluster file, or 32x8 for 32 machines of 8 GPUs. Excludes --machines."),
]
ClusterShare = Annotated[
    float | None,
    typer.Option(
        "--cluster-share", help="Keep this share of the cluster's machines, evenly over types (0.01: a hundredth)."
    ),
]
Machines = Annotated[
    int | None,
    typer.Option("--machines", help=f"Machines of a generated workload ({DEFAULT_MACHINES} by default)."),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        help=f"Jobs to draw ({DEFAULT_JOBS} by default); of a file, only so many of the first to arrive.",
    ),
]
Horizon = Annotated[
    int | None,
    typer.Option(
        "--horizon",
        help=f"Slots to play ({DEFAULT_HORIZON} for generated workloads; by default to a trace's last end).",
    ),
]
Slot = Annotated[
    str | None,
    typer.Option(
        "--slot",
        envvar="SLOTWISE_SLOT",
        help=f"Length of a slot for files, {DEFAULT_SLOT} by default (generated workloads: 1h, fixed).",
    ),
]
Seed = Annotated[int, typer.Option("--seed", envvar="SLOTWISE_SEED", help="Source of every draw, >= 0.")]
Value = Annotated[
    str | None,
    typer.Option("--value", help="Value of a trace's job: uniform in [1, 100], or work (its worker-time)."),
]
Elastic = Annotated[
    float | None,
    typer.Option("--elastic", help="Most workers of a trace's job, as a multiple of the recorded ones (2)."),
]
Format = Annotated[str | None, typer.Option("--format", help="Format of the workload file, if not to be recognised.")]
Throughputs = Annotated[
    str | None,
    typer.Option(
        "--throughputs",
        help="What turns the steps of a trace into time: a JSON table of steps a second (Gavel).",
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first malformed row of a trace.")]
PricesText = Annotated[
    str,
    typer.Option(
        "--prices", envvar="SLOTWISE_PRICES", help="learnt, learnt=X, literal or scale=X (policies that commit)."
    ),
]
SolverName = Annotated[
    str,
    typer.Option(
        "--solver", envvar="SLOTWISE_SOLVER", help="sweep, exact or reference, for one job in one slot (pdors)."
    ),
]
Grid = Annotated[
    int,
    typer.Option("--grid", help="Least number of workload steps of the program over slots (policies that commit)."),
]
ServerShare = Annotated[
    float,
    typer.Option(
        "--server-share",
        help="Share of the machines that hold servers, where the cluster has none without GPUs (oasis).",
    ),
]
NoBound = Annotated[bool, typer.Option("--no-bound", help="Do not compute what any scheduler could earn at most.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
