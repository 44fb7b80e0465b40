"""``slotwise inspect``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slotwise.cli import options
from slotwise.cli.output import progress
from slotwise.cli.source import DEFAULT_SLOT, OWN_FORMATS, read_machines
from slotwise.errors import InvalidInput

if TYPE_CHECKING:
    from slotwise.model.cluster import Cluster

__all__ = ["inspect"]


def inspect(
    trace: Annotated[Path, typer.Argument(help="A trace, or a job list of our own.", show_default=False)],
    cluster: Annotated[
        str | None, typer.Option("--cluster", help="Machines to hold the jobs against: a file, or 32x8.")
    ] = None,
    cluster_share: options.ClusterShare = None,
    seed: options.Seed = 0,
    format: options.Format = None,
    throughputs: options.Throughputs = None,
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what is in a trace: jobs, roles, demands, durations, what was skipped and assumed, and what cannot be."""
    from slotwise.inspection import inspect_jobs, inspect_trace
    from slotwise.workloads import traces

    if not trace.exists():
        raise InvalidInput(f"the trace must exist, got {str(trace)!r}")
    if cluster is None and cluster_share is not None:
        raise InvalidInput("--cluster-share goes with --cluster, got it without")
    if seed < 0:
        raise InvalidInput(f"--seed must be >= 0, got {seed}")
    where: Cluster | None = None
    notes: dict[str, str] = {}
    skipped: dict[str, int] = {}
    if cluster is not None:
        where, notes, skipped = read_machines(cluster, strict)
        where = where if cluster_share is None else where.share(cluster_share)
    chosen = format if format is not None or not trace.is_file() else traces.recognise(trace)
    if chosen in OWN_FORMATS:
        if throughputs is not None:
            raise InvalidInput(f"--throughputs goes with a trace, got it with own jobs ({trace})")
        found = inspect_jobs(trace, traces.read_trace(trace, DEFAULT_SLOT, format=chosen), where)
    else:
        recorded = traces.read_recorded(trace, format=format, strict=strict, throughputs=throughputs, bars=progress)
        found = inspect_trace(recorded, where, seed=seed)
    report = found.as_data()
    report["assumed"] |= notes
    report["skipped"] |= skipped
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        from slotwise.report.inspections import print_inspection

        print_inspection(report)
