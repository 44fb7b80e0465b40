"""``slotwise compare``."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slotwise.cli import options
from slotwise.cli.output import progress, working
from slotwise.cli.source import load, warn
from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.words import counted, hint, one_of

if TYPE_CHECKING:
    from polars import DataFrame

    from slotwise.workloads._base import Workload

__all__ = ["compare"]

_LARGEST_SEED = 2**63
"""Seeds are 64-bit numbers in tables."""


def compare(
    workload: options.WorkloadName,
    policies: Annotated[
        str,
        typer.Option(
            envvar="SLOTWISE_POLICIES",
            help="Names between commas (slotwise policies lists them), package.module:Class among them, or all.",
        ),
    ] = "all",
    seeds: Annotated[
        int,
        typer.Option(
            help="Runs of each policy, with seeds from --seed on. A seed draws a generated workload, and what a trace "
            "does not say."
        ),
    ] = 1,
    cluster: options.ClusterName = None,
    cluster_share: options.ClusterShare = None,
    machines: options.Machines = None,
    jobs: options.Jobs = None,
    horizon: options.Horizon = None,
    slot: options.Slot = None,
    seed: options.Seed = 0,
    prices: options.PricesText = "learnt",
    solver: options.SolverName = "sweep",
    grid: options.Grid = 500,
    server_share: options.ServerShare = 0.2,
    value: options.Value = None,
    elastic: options.Elastic = None,
    format: options.Format = None,
    strict: options.Strict = False,
    throughputs: options.Throughputs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for tables, events and report.html; the same command with the same folder goes on.",
            show_default="none: a table only",
        ),
    ] = None,
    plan_of: Annotated[
        str | None,
        typer.Option(
            help="Whose plan and prices report.html shows, of the first seed.",
            show_default="pdors, or the first policy",
        ),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write what report.html shows as SVG and PNG, to OUT/figures.")
    ] = False,
    parallel: Annotated[str, typer.Option(help="processes, or ray: on an existing Ray cluster.")] = "processes",
    processes: Annotated[
        int | None, typer.Option(help="Runs at once.", show_default="as many as there are processors")
    ] = None,
    no_bound: options.NoBound = False,
    as_json: options.AsJson = False,
) -> None:
    """Play the same workload against several policies; Ctrl-C keeps what is finished."""
    from slotwise.policies import catalogue
    from slotwise.sim.compare import BACKENDS, Comparison, Conditions, check_policies, play
    from slotwise.sim.outcomes import Bounded, Failed, Outcome
    from slotwise.sim.simulator import warm_up

    names = list(catalogue.NAMES) if policies == "all" else [name.strip() for name in policies.split(",")]
    check_policies(names)
    if seeds < 1:
        raise InvalidInput(f"--seeds must be >= 1, got {seeds}")
    if seed + seeds > _LARGEST_SEED:
        raise InvalidInput(f"--seed must be < {_LARGEST_SEED} - --seeds, got {seed}")
    if processes is not None and processes < 1:
        raise InvalidInput(f"--processes must be >= 1, got {processes}")
    if parallel not in BACKENDS:
        raise InvalidInput(one_of("--parallel", BACKENDS, parallel))
    if plan_of is not None and plan_of not in names:
        raise InvalidInput(
            f"--plan-of must be one of --policies ({', '.join(names)}), got {plan_of!r}{hint(plan_of, names)}"
        )
    for option, wanted_too in (("--plan-of", plan_of is not None), ("--figures", figures)):
        if wanted_too and out is None:
            raise InvalidInput(f"{option} needs --out, a folder to write to")
    if figures:
        from slotwise.report import plots

        plots.require()

    # The first one is looked at here and then played.
    @functools.lru_cache(maxsize=1)
    def source(number: int) -> Workload:
        found, where = load(
            workload,
            cluster,
            cluster_share,
            machines,
            jobs,
            horizon,
            slot,
            number,
            value,
            elastic,
            format,
            strict,
            throughputs,
        )
        return replace(found, cluster=where)

    first = source(seed)
    assert first.cluster is not None
    warn(first.jobs, first.cluster, workload, first.assumed)
    for name in names:
        # A mistake shows before any run is made.
        catalogue.make(
            name,
            first.cluster,
            (),
            slot_seconds=first.slot_seconds,
            horizon=first.horizon,
            prices=prices,
            slot_solver=solver,
            grid=grid,
            server_share=server_share,
        )
    given = {
        **_named("workload", workload),
        **_named("cluster", cluster),
        "cluster_share": cluster_share,
        "machines": machines,
        "jobs": jobs,
        "horizon": horizon,
        "slot": slot,
        "prices": prices,
        "solver": solver,
        "grid": grid,
        "server_share": server_share,
        "value": value,
        "elastic": elastic,
        "format": format,
        "strict": strict,
        **_named("throughputs", throughputs),
    }
    sources = {name: catalogue.source_of(name) for name in names}
    wanted = [(name, number) for number in range(seed, seed + seeds) for name in names]
    asked: list[tuple[str | None, int]] = [*wanted]
    if not no_bound:
        asked += [(None, number) for number in range(seed, seed + seeds)]
    folder = None
    if out is not None:
        from slotwise import __version__
        from slotwise.report.folder import Folder

        folder = Folder(out, {"slotwise": __version__, **given})
        total = len(asked)
        asked = [(name, n) for name, n in asked if not folder.has(name, n, "" if name is None else sources[name])]
        if len(asked) < total:
            typer.echo(f"slotwise: {total - len(asked)} of {total} runs and bounds are in {out} already", err=True)
    conditions = Conditions(prices, solver, {}, grid, server_share)
    finished: list[Outcome | Bounded] = []
    failed: list[Failed] = []
    count = 0
    interrupted = False
    try:
        for name in sorted({name for name, _ in asked if name is not None}):
            # Whoever fails does so again below, where it is told.
            with working("loading kernels", name), suppress(SlotwiseError), catalogue.blaming(name):
                warm_up(name, solver)
        with progress("compare: runs", len(asked)) as shown:
            made = play(source, asked, conditions, events=folder is not None, processes=processes, backend=parallel)
            with closing(made):
                for one in made if asked else ():
                    if isinstance(one, Failed):
                        failed.append(one)
                        typer.echo(f"slotwise: seed {one.seed}: {one.message}", err=True)
                    elif folder is None:
                        finished.append(one)
                    else:
                        folder.keep(one, sources[one.policy] if isinstance(one, Outcome) else "")
                    count += 1
                    if shown is not None:
                        shown(count)
    except KeyboardInterrupt:
        interrupted = True
        kept = f"what is finished is in {out}, and the same command goes on from there" if folder else "nothing is kept"
        typer.echo(f"slotwise: stopped after {count} of {len(asked)} runs and bounds; {kept}", err=True)
    if folder is not None:
        table = folder.finish(names)
    else:
        runs = [one for one in finished if isinstance(one, Outcome)]
        runs.sort(key=lambda one: (names.index(one.policy), one.seed))
        table = Comparison(runs, [one for one in finished if isinstance(one, Bounded)]).summary()
    _report(table.to_dicts(), first, given, out, as_json)
    if folder is not None and (chosen := _chosen(table, plan_of, names, seed)) is not None:
        played = first if chosen[1] == seed else source(chosen[1])
        if _present(folder.path, chosen, played, _about(given, table, played.digest), figures) and not as_json:
            typer.echo(f"{folder.path / 'report.html'} shows them in a browser")
    if interrupted:
        raise KeyboardInterrupt
    if failed:
        raise SlotwiseError(f"{len(failed)} of {counted(len(asked), 'run')} failed, the tables are without them")


def _chosen(table: DataFrame, plan_of: str | None, names: list[str], seed: int) -> tuple[str, int] | None:
    """Return the run whose plan is shown: of a policy, the first seed that is finished."""
    finished = {row["policy"]: [int(number) for number in row["seeds"].split(",")] for row in table.to_dicts()}
    for name in [*([] if plan_of is None else [plan_of]), "pdors", *names, *finished]:
        if name in finished:
            return name, seed if seed in finished[name] else min(finished[name])
    return None


def _present(folder: Path, chosen: tuple[str, int], played: Workload, about: Mapping[str, Any], figures: bool) -> bool:
    """Write what people look at; return whether that is a page: without plotly the rest is there all the same."""
    from slotwise.report.presentation import draw, has_figures, look, write_page

    assert played.cluster is not None
    told = {"How it was made": about, "Assumed": dict(played.assumed), "Skipped": dict(played.skipped)}
    title = f"slotwise compare: {Path(str(about['--workload'])).name}"
    try:
        with working("drawing"):
            seen = look(folder, chosen, played.cluster.names, played.horizon)
            missing = None
            try:
                write_page(folder, seen, title, told)
            except InvalidInput as error:
                missing = error
            if figures or has_figures(folder):
                draw(folder, seen)
    except OSError as error:
        raise SlotwiseError(f"tables are in {folder}, and cannot be drawn: {error}") from None
    if missing is not None:
        typer.echo(f"slotwise: {missing}", err=True)
    return missing is None


def _about(given: Mapping[str, Any], table: DataFrame, digest: str) -> dict[str, Any]:
    """Return how the runs of a page were made, as its command says it where it can."""
    from slotwise import __version__

    seeds = "; ".join(dict.fromkeys(table["seeds"]))
    options_given = {name: value for name, value in given.items() if value not in (None, False)}
    return {
        "slotwise": __version__,
        **{f"--{name.replace('_', '-')}": v for name, v in options_given.items() if not name.endswith("_sha256")},
        "policies": ", ".join(table["policy"]),
        "seeds": seeds,
        **{f"SHA-256 of --{n.removesuffix('_sha256')}": v for n, v in options_given.items() if n.endswith("_sha256")},
        "digest of the jobs": digest,
    }


def _report(
    rows: list[dict[str, Any]], first: Workload, given: dict[str, Any], out: Path | None, as_json: bool
) -> None:
    from slotwise.sim import tables

    said = tables.notes(rows)
    if as_json:
        report = {
            "options": {name: value for name, value in given.items() if value is not None},
            "workload_format": first.format,
            "workload_digest": first.digest,
            "policies": rows,
            "notes": said,
            "out": None if out is None else str(out),
            "assumed": dict(first.assumed),
            "skipped": dict(first.skipped),
        }
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
        return
    from slotwise.report.console import print_summary

    print_summary(rows, said, {"assumed": first.assumed, "skipped": first.skipped})
    if out is not None:
        typer.echo(f"\ntables and events are in {out}; slotwise explain JOB --run {out} says why")


def _named(option: str, name: str | None) -> dict[str, str | None]:
    """Return what an option names; of a file its full path, and a digest of what is in it to see that it stays."""
    path = None if name is None else Path(name)
    if path is None or not path.is_file():
        return {option: name}
    return {option: str(path.resolve()), f"{option}_sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
