"""``slotwise simulate``."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.cli import options
from slotwise.cli.output import event_log, progress, working
from slotwise.cli.source import load, warn
from slotwise.errors import InvalidInput
from slotwise.words import counted

if TYPE_CHECKING:
    from slotwise.events import Command, Event
    from slotwise.model.cluster import Cluster
    from slotwise.sim.simulator import Log
    from slotwise.workloads._base import Workload

__all__ = ["simulate"]


def simulate(
    workload: options.WorkloadName,
    policy: Annotated[
        str,
        typer.Option(envvar="SLOTWISE_POLICY", help="A name (slotwise policies), or package.module:Class of your own."),
    ] = "pdors",
    cluster: options.ClusterName = None,
    cluster_share: options.ClusterShare = None,
    machines: options.Machines = None,
    jobs: options.Jobs = None,
    horizon: options.Horizon = None,
    slot: options.Slot = None,
    seed: options.Seed = 0,
    prices: options.PricesText = "learnt",
    solver: options.SolverName = "sweep",
    delta: Annotated[
        float | None,
        typer.Option(
            help="Of --solver reference: probability of failure that a gain by name allows for.", show_default="0.1"
        ),
    ] = None,
    gain: Annotated[
        str | None,
        typer.Option(
            help="Of --solver reference: what the relaxation is scaled by before it is rounded; a number, or packing, "
            "covering or textbook, computed from --delta.",
            show_default="1",
        ),
    ] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            help="Of --solver reference: roundings of one relaxation at most, after which the sweep stands in.",
            show_default="100",
        ),
    ] = None,
    grid: options.Grid = 500,
    server_share: options.ServerShare = 0.2,
    value: options.Value = None,
    elastic: options.Elastic = None,
    format: options.Format = None,
    strict: options.Strict = False,
    throughputs: options.Throughputs = None,
    events: Annotated[
        Path | None, typer.Option(help="Write every event and command to this file, one JSON object a line.")
    ] = None,
    gantt: Annotated[
        bool, typer.Option("--gantt", help="Also print who ran where: machines and slots, a letter for each job.")
    ] = False,
    no_bound: options.NoBound = False,
    as_json: options.AsJson = False,
) -> None:
    """Play a workload against a policy on a virtual clock, and report what it earned."""
    import time

    begin = time.perf_counter()
    of_reference = {"delta": delta, "gain": gain, "attempts": attempts}
    given = {name: value for name, value in of_reference.items() if value is not None}
    if given and solver != "reference":
        raise InvalidInput(f"--{next(iter(given))} goes with --solver reference, got it with --solver {solver}")
    if gantt and as_json:
        raise InvalidInput("--gantt is a text, --json a document: give one of them")
    source, where = load(
        workload,
        cluster,
        cluster_share,
        machines,
        jobs,
        horizon,
        slot,
        seed,
        value,
        elastic,
        format,
        strict,
        throughputs,
    )
    warn(source.jobs, where, workload, source.assumed)
    from slotwise.policies import catalogue
    from slotwise.sim.simulator import simulate as play
    from slotwise.sim.simulator import warm_up

    with ExitStack() as stack:
        log = stack.enter_context(event_log(events, [workload, cluster])) if events is not None else None
        moves: list[dict[str, Any]] = []
        if gantt:
            log = _noting(moves, log)
        stack.enter_context(catalogue.blaming(policy))
        with working("loading kernels", policy):
            warm_up(policy, solver)
        shown = stack.enter_context(progress(f"{policy}: slots", source.horizon))
        run = play(
            policy,
            where,
            source.jobs,
            horizon=source.horizon,
            slot_seconds=source.slot_seconds,
            seed=seed,
            prices=prices,
            slot_solver=solver,
            rounding=given,
            grid=grid,
            server_share=server_share,
            log=log,
            progress=shown,
        )
    bound, bound_gap, bound_seconds = (None, None, None) if no_bound else _bound(source, where)
    options_given = {
        "grid": grid,
        "server_share": server_share if policy == "oasis" else None,
        "cluster_share": cluster_share,
        "value": value,
        "elastic": elastic,
    } | of_reference
    figures = run.summary()
    prices_used, solver_used = (prices, solver) if policy in catalogue.COMMITTING else (None, None)
    report = {
        "policy": policy,
        "seed": seed,
        "workload": workload,
        "workload_format": source.format,
        "workload_digest": source.digest,
        "solver": solver_used,
        "prices": prices_used,
        "options": {name: given for name, given in options_given.items() if given is not None},
        **{name: figures[name] for name in figures if name not in ("policy", "seed", "decision_seconds", "rounding")},
        "upper_bound": bound,
        "fraction_of_bound": run.total_utility / bound if bound else None,
        "bound_gap": bound_gap,
        "bound_seconds": bound_seconds,
        "decision_seconds": figures["decision_seconds"],
        "rounding": figures["rounding"],
        "wall_seconds": time.perf_counter() - begin,
        "assumed": dict(source.assumed),
        "skipped": dict(source.skipped),
    }
    if figures["unfinished"]:
        waiting = figures["unfinished"] - (figures["admitted"] - figures["completed"])
        started = f", {waiting} of them never started" if waiting else ""
        typer.echo(
            f"slotwise: {counted(figures['unfinished'], 'job')} did not finish by the horizon{started}", err=True
        )
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        from slotwise.report.console import print_run

        print_run(report, run)
        if gantt:
            from slotwise.report.terminal import print_plan
            from slotwise.sim.stays import stays

            typer.echo()
            print_plan(list(stays(moves, source.horizon)), list(run.records), where.names, source.horizon)


def _noting(moves: list[dict[str, Any]], log: Log | None) -> Log:
    """Return a log that also keeps who moved where."""
    from slotwise.events import JobCompleted, Launch, Resize, Stop, record

    def note(item: Event | Command) -> None:
        if isinstance(item, Launch | Resize | Stop | JobCompleted):
            moves.append(record(item))
        if log is not None:
            log(item)

    return note


def _bound(source: Workload, where: Cluster) -> tuple[float | None, float | None, float | None]:
    """Return the certified bound, its gap and the seconds it took; None for all where the workload is too large."""
    import time

    from slotwise.optim.bound import Relaxed
    from slotwise.sim.compare import LARGEST_BOUND, bound_rounds

    begin = time.perf_counter()
    relaxed = Relaxed(source.jobs, where, source.horizon, source.slot_seconds)
    rounds = bound_rounds(relaxed.size)
    if rounds is None:
        typer.echo(
            f"slotwise: no upper bound, since jobs x slots is {relaxed.size}, beyond {LARGEST_BOUND}; slotwise bound "
            "takes its time for it",
            err=True,
        )
        return None, None, None
    with progress("upper bound: rounds", rounds) as shown:
        for bound in relaxed.improve(rounds=rounds):
            if shown is not None:
                shown(bound.rounds)
    return bound.value, bound.gap, time.perf_counter() - begin
