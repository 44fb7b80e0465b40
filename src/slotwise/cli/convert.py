"""``slotwise convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli import options
from slotwise.cli.output import progress, whole_file
from slotwise.cli.source import DEFAULT_SLOT, OWN_FORMATS, files_of, read_machines
from slotwise.errors import InvalidInput

__all__ = ["convert"]


def convert(
    trace: Annotated[Path, typer.Argument(help="A trace.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Write the job list (CSV) to this file.")],
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            help="Calibrate durations at the bandwidth of these machines, as a simulation on them does.",
            show_default="5Gbps between machines",
        ),
    ] = None,
    slot: options.Slot = None,
    seed: options.Seed = 0,
    value: options.Value = None,
    elastic: options.Elastic = None,
    format: options.Format = None,
    throughputs: options.Throughputs = None,
    strict: options.Strict = False,
    as_json: options.AsJson = False,
) -> None:
    """Turn a trace into a job list of our own that can be edited, and gives the same simulation."""
    from slotwise.model.cluster import DEFAULT_BANDWIDTH
    from slotwise.workloads import jobs_csv, traces

    if not trace.exists():
        raise InvalidInput(f"the trace must exist, got {str(trace)!r}")
    chosen = format if format is not None or not trace.is_file() else traces.recognise(trace)
    if chosen in OWN_FORMATS:
        raise InvalidInput(f"{trace}: a trace is converted, got a job list already (format {chosen})")
    bandwidth = DEFAULT_BANDWIDTH if cluster is None else read_machines(cluster, strict)[0].bandwidth
    with whole_file(out, "--out", files_of(trace, cluster, throughputs)) as stream:
        source = traces.read_trace(
            trace,
            DEFAULT_SLOT if slot is None else slot,
            format=format,
            strict=strict,
            seed=seed,
            value="uniform" if value is None else value,
            elastic=2.0 if elastic is None else elastic,
            bandwidth=bandwidth,
            throughputs=throughputs,
            bars=progress,
        )
        with progress("writing: jobs", len(source.jobs)) as shown:
            jobs_csv.write(source, stream, shown)
    report = {
        "out": str(out),
        "format": source.format,
        "jobs": len(source.jobs),
        "slot_seconds": source.slot_seconds,
        "horizon": source.horizon,
        "workload_digest": source.digest,
        "assumed": dict(source.assumed),
        "skipped": dict(source.skipped),
    }
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    from slotwise.report.console import print_figures

    print_figures(report)
    again = f"--slot {source.slot_seconds:.15g} --horizon {source.horizon}"
    typer.echo(f"\nthe same simulation as of the trace: slotwise simulate --workload {out} {again} --cluster ...")
