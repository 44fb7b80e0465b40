"""``slotwise quote``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.cli import options
from slotwise.cli.output import working
from slotwise.cli.source import DEFAULT_SLOT, OWN_FORMATS, read_machines, warn
from slotwise.errors import InvalidInput, InvalidJob
from slotwise.words import counted, hint, one_of

if TYPE_CHECKING:
    from slotwise.model.job import Job
    from slotwise.quotation import Quote

__all__ = ["quote"]


def quote(
    jobs: Annotated[Path, typer.Argument(help="A job file (YAML or CSV).", show_default=False)],
    cluster: Annotated[
        str, typer.Option("--cluster", help="A cluster file, or 32x8 for 32 machines of 8 GPUs; all of it free.")
    ],
    job: Annotated[
        str | None, typer.Option(help="Which job, where the file holds several.", show_default="the only one")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="As if it had to run with exactly so many: how many servers go with them?",
            show_default="as in the file",
        ),
    ] = None,
    slot: options.Slot = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="Slots to look at.",
            show_default="the larger of 24 h and twice what the job takes alone on the cluster, of which at most 30 "
            "days count",
        ),
    ] = None,
    prices: Annotated[
        str,
        typer.Option(
            help="scale=X: an empty machine costs X a slot, spread evenly over its resources; or learnt, which knows "
            "of no other job here."
        ),
    ] = "scale=1",
    solver: Annotated[str, typer.Option(help="sweep or exact.")] = "sweep",
    grid: Annotated[int, typer.Option(help="Least number of workload steps of the program over slots.")] = 500,
    as_json: options.AsJson = False,
) -> None:
    """Plan one job on an empty cluster: the sizes it may have, what each costs, the best plan and its end."""
    from slotwise.quotation import SOLVERS
    from slotwise.workloads import traces

    if solver not in SOLVERS:
        raise InvalidInput(one_of("--solver of a quote", SOLVERS, solver))
    if horizon is not None and horizon < 1:
        raise InvalidInput(f"--horizon must be >= 1, got {horizon}")
    if not jobs.exists():
        raise InvalidInput(f"the job file must exist, got {str(jobs)!r}")
    where, assumed, skipped = read_machines(cluster, strict=False)
    source = traces.read_trace(jobs, DEFAULT_SLOT if slot is None else slot, bandwidth=where.bandwidth)
    if source.format not in OWN_FORMATS:
        raise InvalidInput(f"{jobs}: a quote is for a job file (YAML or CSV), got a file of format {source.format}")
    chosen = _chosen(source.jobs, job, jobs)
    if workers is not None:
        chosen = _with(chosen, workers)
    warn([chosen], where, str(jobs), assumed, fatal=False)
    from slotwise.quotation import quote as ask

    with working("planning", "a quote"):
        found = ask(
            chosen,
            where,
            slot_seconds=source.slot_seconds,
            horizon=horizon,
            prices=prices,
            slot_solver=solver,
            grid=grid,
        )
    report = _report(found) | {"prices": prices, "solver": solver, "assumed": assumed, "skipped": skipped}
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        from slotwise.report.quotes import print_quote

        print_quote(found, report)


def _chosen(listed: tuple[Job, ...], name: str | None, path: Path) -> Job:
    names = ", ".join(job.id for job in listed[:10]) + (", ..." if len(listed) > 10 else "")
    if name is None:
        if len(listed) > 1:
            raise InvalidInput(f"{path} holds {counted(len(listed), 'job')}: --job must name one of them ({names})")
        return listed[0]
    for job in listed:
        if job.id == name:
            return job
    raise InvalidInput(
        f"--job must be one of those in {path} ({names}), got {name!r}{hint(name, [job.id for job in listed])}"
    )


def _with(job: Job, workers: int) -> Job:
    """Return the job as a gang of a size of its own."""
    if not 1 <= workers <= job.batch_size:
        raise InvalidInput(f"--workers must be in 1 ... the batch size ({job.batch_size}), got {workers}")
    try:
        return replace(job, min_workers=workers, max_workers=workers, requested_workers=None)
    except InvalidJob as error:
        raise InvalidInput(f"--workers {workers}: {error}") from None


def _report(found: Quote) -> dict[str, Any]:
    plan = found.plan
    return {
        "job": found.job.id,
        "workload": found.job.workload,
        "machines": len(found.cluster),
        "slot_seconds": found.slot_seconds,
        "horizon": found.horizon,
        "admitted": found.reason is None,
        "reason": found.reason,
        "detail": found.detail,
        "utility": plan.utility if plan else None,
        "cost": plan.cost if plan else None,
        "payoff": plan.payoff if plan else None,
        "finish_slot": plan.schedule.completion if plan else None,
        "finish_seconds": (plan.schedule.completion + 1) * found.slot_seconds if plan else None,
        "plan": [
            {
                "slot": slot,
                "workers": placement.total_workers,
                "servers": placement.total_servers,
                "level": found.cluster.levels[found.cluster.level(placement.machines)],
                "samples": samples,
                "machines": {
                    found.cluster.names[m]: {"workers": w, "servers": s}
                    for m, w, s in zip(placement.machines, placement.workers, placement.servers, strict=True)
                },
            }
            for slot, placement, samples in zip(
                plan.schedule.slots, plan.schedule.placements, plan.schedule.samples, strict=True
            )
        ]
        if plan
        else [],
        "configurations": [
            {
                "workers": size.workers,
                "servers": size.servers,
                "level": size.level,
                "samples_per_second": size.samples_per_second,
                "slot_cost": size.slot_cost,
                "seconds": size.seconds,
                "cost": size.cost,
                "useful": size.useful,
            }
            for size in found.sizes
        ],
    }
