"""The jobs and the machines that the options of a command name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slotwise.cli.output import progress
from slotwise.errors import InvalidInput
from slotwise.words import counted, hint

if TYPE_CHECKING:
    from slotwise.model.cluster import Cluster
    from slotwise.model.job import Job
    from slotwise.workloads._base import Workload

__all__ = [
    "DEFAULT_HORIZON",
    "DEFAULT_JOBS",
    "DEFAULT_MACHINES",
    "DEFAULT_SLOT",
    "files_of",
    "load",
    "read_machines",
    "warn",
]

GENERATED = ("paper", "google")
OWN_FORMATS = ("jobs-yaml", "jobs-csv")  # as in workloads.traces, which is not loaded before it is needed
DEFAULT_JOBS, DEFAULT_MACHINES, DEFAULT_HORIZON = 50, 100, 20
DEFAULT_SLOT = "10min"


def load(
    workload: str,
    cluster: str | None,
    cluster_share: float | None,
    machines: int | None,
    jobs: int | None,
    horizon: int | None,
    slot: str | None,
    seed: int,
    value: str | None,
    elastic: float | None,
    format: str | None,
    strict: bool,
    throughputs: str | None = None,
) -> tuple[Workload, Cluster]:
    """Read or draw the jobs and the machines that the options name, and check that the options go together.

    Raises
    ------
    InvalidInput
        If an option does not go with another, or a file cannot be read.
    """
    generated = workload in GENERATED
    if cluster is not None and machines is not None:
        raise InvalidInput("--cluster and --machines exclude each other, got both")
    if seed < 0:
        raise InvalidInput(f"--seed must be >= 0, got {seed}")
    if horizon is not None and horizon < 1:
        raise InvalidInput(f"--horizon must be >= 1, got {horizon}")
    if jobs is not None and jobs < 1:
        raise InvalidInput(f"--jobs must be >= 1, got {jobs}")
    if not generated and not Path(workload).exists():
        raise InvalidInput(
            f"--workload must be {', '.join(GENERATED)} or a file, got {workload!r}, which does not exist"
            + hint(workload, GENERATED)
        )
    file_only = {
        "--slot": slot,
        "--value": value,
        "--elastic": elastic,
        "--format": format,
        "--strict": strict or None,
        "--throughputs": throughputs,
    }
    for option, given in file_only.items():
        if generated and given is not None:
            raise InvalidInput(f"{option} goes with a workload file, got it with --workload {workload}")
    if generated:
        from slotwise.workloads import synthetic

        draw = synthetic.paper if workload == "paper" else synthetic.google
        count, slots = (DEFAULT_JOBS if jobs is None else jobs), (DEFAULT_HORIZON if horizon is None else horizon)
        source = draw(count, DEFAULT_MACHINES if machines is None else machines, slots, seed)
        assert source.cluster is not None  # generated workloads bring their machines
        where, notes, skipped = (source.cluster, {}, {}) if cluster is None else read_machines(cluster, strict)
    else:
        if machines is not None:
            raise InvalidInput("--machines goes with --workload paper or google; for a file give --cluster")
        if cluster is None:
            raise InvalidInput(f"--cluster must name the machines for {workload}: a cluster file, or 32x8")
        from slotwise.workloads import traces

        where, notes, skipped = read_machines(cluster, strict)
        source = traces.read_trace(
            workload,
            DEFAULT_SLOT if slot is None else slot,
            format=format,
            strict=strict,
            seed=seed,
            value="uniform" if value is None else value,
            elastic=2.0 if elastic is None else elastic,
            bandwidth=where.bandwidth,
            throughputs=throughputs,
            bars=progress,
        )
        for option, given in {"--value": value, "--elastic": elastic}.items():
            if given is not None and source.format in OWN_FORMATS:
                raise InvalidInput(f"{option} goes with a trace, got it with own jobs ({workload})")
    if cluster_share is not None:
        where = where.share(cluster_share)
    kept, dropped = source.jobs, 0
    if jobs is not None and len(kept) > jobs:
        kept, dropped = kept[:jobs], len(kept) - jobs
    counted = dict(source.skipped) | skipped | ({"jobs: beyond --jobs": dropped} if dropped else {})
    source = replace(
        source,
        jobs=kept,
        horizon=source.horizon if horizon is None else horizon,
        assumed=dict(source.assumed) | notes,
        skipped=counted,
    )
    lacking = sorted({job.domain for job in source.jobs if job.domain is not None} - set(where.levels))
    if lacking:
        levels = f"{', '.join(lacking)}: no level of this cluster ({', '.join(where.levels)})"
        source = replace(source, assumed=dict(source.assumed) | {"domain": f"{levels}; jobs bound to it cannot run"})
    late = next((job for job in source.jobs if job.arrival >= source.horizon), None)
    if late is not None:
        bound = f"the arrival of job {late.id!r} (slot {late.arrival})"
        raise InvalidInput(f"{workload}: --horizon must be > {bound}, got {source.horizon}")
    from slotwise.model.ledger import MOST_CELLS

    cells = source.horizon * len(where) * len(where.resources)
    if cells > MOST_CELLS:
        raise InvalidInput(
            f"{workload}: slots x machines x resources must be <= {MOST_CELLS}, got {source.horizon} x {len(where)} x "
            f"{len(where.resources)}; use a longer --slot, a shorter --horizon or a smaller --cluster-share"
        )
    return source, where


def warn(jobs: Sequence[Job], where: Cluster, workload: str, assumed: Mapping[str, str], *, fatal: bool = True) -> None:
    """Say on standard error what of the jobs and the machines is hardly meant so.

    Parameters
    ----------
    jobs, where
        What is asked for, and what there is.
    workload : str
        What the user calls the jobs.
    assumed : mapping
        The rules by which was filled in what the files leave open.
    fatal : bool
        Whether to refuse jobs of which not one can run for want of a resource.

    Raises
    ------
    InvalidInput
        If they are refused.
    """
    for level in where.levels[1:-1]:
        if level in assumed:
            typer.echo(f"slotwise: {assumed[level]}", err=True)
    has = [name for name, most in zip(where.resources, where.capacity.max(axis=0), strict=True) if most > 0]
    there = set(has)
    lacking = [names for job in jobs if (names := _needs(job) - there)]
    if not lacking:
        return
    asked = sorted({name for names in lacking for name in names})
    named = " and ".join(f"{name}{hint(name, has)}" for name in asked)
    who = f"{len(lacking)} of {counted(len(jobs), 'job')}" if len(jobs) > 1 else f"job {jobs[0].id!r}"
    message = (
        f"{workload}: {who} can never run for want of {named}: no machine has any, they have {', '.join(has)}; add it "
        "to the machines of --cluster, or mend its name"
    )
    if fatal and len(lacking) == len(jobs):
        raise InvalidInput(message)
    typer.echo(f"slotwise: {message}", err=True)


def _needs(job: Job) -> set[str]:
    """Return the resources without which a job never runs."""
    needs = {name for name, amount in job.worker_demand.items() if amount > 0}
    served = {name for name, amount in job.server_demand.items() if amount > 0} - needs
    if served and job.speed.pairs(job.min_workers, job.most_workers, job.max_servers)[1].min() > 0:
        needs |= served
    return needs


def files_of(*names: str | Path | None) -> list[str]:
    """Return the files that some options name, those of a folder one by one."""
    paths = [Path(name) for name in names if name is not None]
    return [str(file) for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]


def read_machines(cluster: str, strict: bool) -> tuple[Cluster, dict[str, str], dict[str, int]]:
    """Return the machines of a file or a shorthand, what was assumed, and what was skipped and how often."""
    from slotwise.workloads import clusters, traces

    if not Path(cluster).exists():
        where = clusters.parse_shorthand(cluster)
        has = ", ".join(f"{amount:g} {name}" for name, amount in zip(where.resources, where.capacity[0], strict=True))
        return where, {"cluster": f"{cluster} stands for {counted(len(where), 'machine')}, each with {has}"}, {}
    if traces.recognise(cluster) == "cluster-yaml":
        where, notes = clusters.read_noted(cluster)
        return where, notes, {}
    where, skipped = traces.read_cluster_counted(cluster, strict=strict)
    return where, {}, skipped
