"""``slotwise bound``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.cli import options
from slotwise.cli.output import progress, whole_file
from slotwise.cli.source import load, warn
from slotwise.errors import InvalidInput

if TYPE_CHECKING:
    from slotwise.model.cluster import Cluster
    from slotwise.optim.bound import Bound, Relaxed
    from slotwise.workloads._base import Workload

__all__ = ["LARGEST_EXACT", "bound"]

LARGEST_EXACT = 5_000
"""Jobs x slots x machines of the offline optimum at most: beyond, the program alone takes minutes to write down."""


def bound(
    workload: options.WorkloadName,
    cluster: options.ClusterName = None,
    cluster_share: options.ClusterShare = None,
    machines: options.Machines = None,
    jobs: options.Jobs = None,
    horizon: options.Horizon = None,
    slot: options.Slot = None,
    seed: options.Seed = 0,
    gap: Annotated[
        float, typer.Option(help="Stop where no prices can prove a bound that is lower by more than this share.")
    ] = 1e-3,
    rounds: Annotated[
        int, typer.Option(help="Stop after so many rounds (20 subgradient steps and a linear program each).")
    ] = 500,
    seconds: Annotated[
        float | None,
        typer.Option(
            help="Stop after the round in which so many seconds are up; the offline optimum gets as many of its own."
        ),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Find the offline optimum too, as a mixed-integer program; for small cases: jobs that can finish x "
            f"slots x machines up to {LARGEST_EXACT:,}.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write the prices that prove the bound to this file, as JSON.")
    ] = None,
    value: options.Value = None,
    elastic: options.Elastic = None,
    format: options.Format = None,
    strict: options.Strict = False,
    throughputs: options.Throughputs = None,
    as_json: options.AsJson = False,
) -> None:
    """Compute what any scheduler could earn at most; Ctrl-C stops with the best bound so far."""
    if seconds is not None and not seconds > 0:
        raise InvalidInput(f"--seconds must be > 0, got {seconds:g}")
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
    from slotwise.optim.bound import Relaxed

    relaxed = Relaxed(source.jobs, where, source.horizon, source.slot_seconds)
    columns = relaxed.size * len(where)
    if exact and columns > LARGEST_EXACT:
        raise InvalidInput(
            f"--exact goes with small cases: jobs that can finish x slots x machines must be <= {LARGEST_EXACT}, got "
            f"{columns}"
        )
    report = {
        "workload": workload,
        "workload_format": source.format,
        "workload_digest": source.digest,
        "seed": seed,
        "machines": len(where),
        "horizon": source.horizon,
        "slot_seconds": source.slot_seconds,
        "jobs": len(source.jobs),
        "infeasible": len(source.jobs) - len(relaxed.jobs),
    }
    if out is None:
        found, figures = _search(relaxed, gap, rounds, seconds)
    else:
        with whole_file(out, "--out", [workload, cluster]) as stream:
            found, figures = _search(relaxed, gap, rounds, seconds)
            json.dump(_certificate(found, relaxed, source, where), stream)
    report |= figures
    report["offline"] = _offline(source, where, seconds) if exact else None
    report |= {"assumed": dict(source.assumed), "skipped": dict(source.skipped)}
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        from slotwise.report.console import print_figures

        print_figures(report)


def _search(relaxed: Relaxed, gap: float, rounds: int, seconds: float | None) -> tuple[Bound, dict[str, Any]]:
    """Improve the bound until it is good enough, time is up or the user has had enough."""
    import time

    begin = time.perf_counter()
    found: Bound | None = None
    stopped = False
    with progress("upper bound: rounds", rounds) as shown:
        try:
            for found in relaxed.improve(gap, rounds):
                if shown is not None:
                    shown(found.rounds)
                if seconds is not None and time.perf_counter() - begin > seconds:
                    break
        except KeyboardInterrupt:
            if found is None:
                raise
            stopped = True
    assert found is not None
    if stopped:
        typer.echo(f"slotwise: stopped after round {found.rounds}; the bound holds", err=True)
    return found, {
        "upper_bound": found.value,
        "bound_gap": found.gap,
        "rounds": found.rounds,
        "bound_seconds": time.perf_counter() - begin,
    }


def _certificate(found: Bound, relaxed: Relaxed, source: Workload, where: Cluster) -> dict[str, Any]:
    """Return what somebody else needs to compute the bound again."""
    return {
        "upper_bound": found.value,
        "workload_digest": source.digest,
        "horizon": source.horizon,
        "slot_seconds": source.slot_seconds,
        "resources": list(where.resources),
        "capacity": relaxed.capacity.tolist(),
        "prices": found.prices.tolist(),
    }


def _offline(source: Workload, where: Cluster, seconds: float | None) -> dict[str, Any]:
    import time

    from slotwise.cli.output import working
    from slotwise.optim.offline import offline_optimum

    begin = time.perf_counter()
    with working("offline optimum"):
        best = offline_optimum(
            source.jobs, where, horizon=source.horizon, slot_seconds=source.slot_seconds, seconds=seconds
        )
    return {
        "utility": best.value,
        "bound": best.bound,
        "gap": best.gap,
        "proven": best.proven,
        "jobs": len(best.schedules),
        "seconds": time.perf_counter() - begin,
    }
