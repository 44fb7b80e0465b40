"""The command line. Heavy libraries are imported where they are used, so that ``--help`` answers at once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from slotwise.errors import InvalidInput, SlotwiseError

if TYPE_CHECKING:
    from slotwise.events import Command, Event
    from slotwise.model.cluster import Cluster
    from slotwise.workloads._base import Workload

__all__ = ["app", "main"]

app = typer.Typer(
    help="Online scheduling of distributed machine-learning training.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

GENERATED = ("paper", "google")
OWN_FORMATS = ("jobs-yaml", "jobs-csv")
_INTERRUPTED = 130
MOST_CELLS = 500_000_000
"""Slots x machines x resources of one run at most: the ledger takes 8 bytes for each."""
DEFAULT_JOBS, DEFAULT_MACHINES, DEFAULT_HORIZON = 50, 100, 20
DEFAULT_SLOT = "10min"


def _version(wanted: bool) -> None:
    if wanted:
        from slotwise import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def simulate(
    workload: Annotated[
        str,
        typer.Option(help="paper, google, or a file: own jobs (YAML, CSV), a PAI instance table, a Tiresias trace."),
    ],
    policy: Annotated[str, typer.Option(envvar="SLOTWISE_POLICY", help="pdors, fifo or drf.")] = "pdors",
    cluster: Annotated[
        str | None, typer.Option(help="A cluster file, or 32x8 for 32 machines of 8 GPUs. Excludes --machines.")
    ] = None,
    cluster_share: Annotated[
        float | None,
        typer.Option(help="Keep this share of the cluster's machines, evenly over types (0.01: a hundredth)."),
    ] = None,
    machines: Annotated[
        int | None, typer.Option(help=f"Machines of a generated workload ({DEFAULT_MACHINES} by default).")
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(help=f"Jobs to draw ({DEFAULT_JOBS} by default); of a file, only so many of the first to arrive."),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help=f"Slots to play ({DEFAULT_HORIZON} for generated workloads; by default to a trace's last end)."
        ),
    ] = None,
    slot: Annotated[
        str | None,
        typer.Option(
            envvar="SLOTWISE_SLOT",
            help=f"Length of a slot for files, {DEFAULT_SLOT} by default (generated workloads: 1h, fixed).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(envvar="SLOTWISE_SEED", help="Source of every draw, >= 0.")] = 0,
    prices: Annotated[
        str, typer.Option(envvar="SLOTWISE_PRICES", help="learnt, learnt=X, literal or scale=X (pdors).")
    ] = "learnt",
    solver: Annotated[
        str, typer.Option(envvar="SLOTWISE_SOLVER", help="sweep or exact, for one job in one slot (pdors).")
    ] = "sweep",
    grid: Annotated[int, typer.Option(help="Least number of workload steps of the program over slots (pdors).")] = 500,
    value: Annotated[
        str | None, typer.Option(help="Value of a trace's job: uniform in [1, 100], or work (its worker-time).")
    ] = None,
    elastic: Annotated[
        float | None, typer.Option(help="Most workers of a trace's job, as a multiple of the recorded ones (2).")
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format of the workload file, if not to be recognised.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first malformed row of a trace.")] = False,
    events: Annotated[
        Path | None, typer.Option(help="Write every event and command to this file, a JSON a line.")
    ] = None,
    no_bound: Annotated[
        bool, typer.Option("--no-bound", help="Do not compute an upper bound (there is none yet).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")] = False,
) -> None:
    """Play a workload against a policy on a virtual clock, and report what it earned."""
    import time

    begin = time.perf_counter()
    source, where = _load(
        workload, cluster, cluster_share, machines, jobs, horizon, slot, seed, value, elastic, format, strict
    )
    from slotwise.policies import catalogue
    from slotwise.sim.simulator import simulate as play
    from slotwise.sim.simulator import warm_up

    if events is not None and any(events.resolve() == Path(given).resolve() for given in (workload, cluster or "")):
        raise InvalidInput(f"--events must not be a file that is read, got {str(events)!r}")
    with _working("loading kernels (compiled once, then cached)"):
        warm_up(policy, solver)
    with ExitStack() as stack:
        log = stack.enter_context(_event_log(events)) if events is not None else None
        progress = stack.enter_context(_progress(f"{policy}: slots", source.horizon))
        run = play(
            policy,
            where,
            source.jobs,
            horizon=source.horizon,
            slot_seconds=source.slot_seconds,
            seed=seed,
            prices=prices,
            slot_solver=solver,
            grid=grid,
            log=log,
            progress=progress,
        )
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
        **{name: figures[name] for name in figures if name not in ("policy", "seed", "decision_seconds")},
        "upper_bound": None,
        "fraction_of_bound": None,
        "bound_seconds": None,
        "decision_seconds": figures["decision_seconds"],
        "wall_seconds": time.perf_counter() - begin,
        "assumed": dict(source.assumed),
        "skipped": dict(source.skipped),
    }
    if figures["unfinished"]:
        typer.echo(f"slotwise: {figures['unfinished']} admitted jobs did not finish by the horizon", err=True)
    if as_json:
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        from slotwise.report.console import print_run

        print_run(report, run)


def _load(
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
) -> tuple[Workload, Cluster]:
    """Read or draw the jobs and the machines that the options name, and check that the options go together."""
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
        )
    file_only = {"--slot": slot, "--value": value, "--elastic": elastic, "--format": format, "--strict": strict or None}
    for option, given in file_only.items():
        if generated and given is not None:
            raise InvalidInput(f"{option} goes with a workload file, got it with --workload {workload}")
    if generated:
        from slotwise.workloads import synthetic

        draw = synthetic.paper if workload == "paper" else synthetic.google
        count, slots = (DEFAULT_JOBS if jobs is None else jobs), (DEFAULT_HORIZON if horizon is None else horizon)
        source = draw(count, DEFAULT_MACHINES if machines is None else machines, slots, seed)
        assert source.cluster is not None  # generated workloads bring their machines
        where, notes, skipped = (source.cluster, {}, {}) if cluster is None else _read_cluster(cluster, strict)
    else:
        if machines is not None:
            raise InvalidInput("--machines goes with --workload paper or google; for a file give --cluster")
        if cluster is None:
            raise InvalidInput(f"--cluster must name the machines for {workload}: a cluster file, or 32x8")
        from slotwise.workloads import traces

        where, notes, skipped = _read_cluster(cluster, strict)
        source = traces.read_trace(
            workload,
            DEFAULT_SLOT if slot is None else slot,
            format=format,
            strict=strict,
            seed=seed,
            value="uniform" if value is None else value,
            elastic=2.0 if elastic is None else elastic,
            bandwidth=where.bandwidth,
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
    late = next((job for job in source.jobs if job.arrival >= source.horizon), None)
    if late is not None:
        bound = f"the arrival of job {late.id!r} (slot {late.arrival})"
        raise InvalidInput(f"{workload}: --horizon must be > {bound}, got {source.horizon}")
    cells = source.horizon * len(where) * len(where.resources)
    if cells > MOST_CELLS:
        raise InvalidInput(
            f"{workload}: slots x machines x resources must be <= {MOST_CELLS}, got {source.horizon} x {len(where)} x "
            f"{len(where.resources)}; use a longer --slot, a shorter --horizon or a smaller --cluster-share"
        )
    return source, where


def _read_cluster(cluster: str, strict: bool) -> tuple[Cluster, dict[str, str], dict[str, int]]:
    from slotwise.workloads import clusters, traces

    if not Path(cluster).exists():
        where = clusters.parse_shorthand(cluster)
        has = ", ".join(f"{amount:g} {name}" for name, amount in zip(where.resources, where.capacity[0], strict=True))
        return where, {"cluster": f"{cluster} stands for {len(where)} machines, each with {has}"}, {}
    if traces.recognise(cluster) == "cluster-yaml":
        return *clusters.read_with_notes(cluster), {}
    where, skipped = traces.read_cluster_counted(cluster, strict=strict)
    return where, {}, skipped


@contextmanager
def _event_log(path: Path) -> Iterator[Callable[[Event | Command], None]]:
    """Write to a file beside the wanted one, and move it there only when the run is complete.

    What exists and is no regular file (a pipe, a device) is written to directly: a move would replace it.
    """
    from slotwise.events import record

    direct = path.exists() and not path.is_file()
    part = path if direct else path.with_name(path.name + ".part")
    try:
        stream: IO[str] = part.open("w", encoding="utf-8")
    except OSError as error:
        reason = f"--events must be a file that can be written, got {str(path)!r}: {error.strerror}"
        raise InvalidInput(reason) from None
    try:
        with stream:
            yield lambda item: print(json.dumps(record(item), separators=(",", ":")), file=stream)
        if not direct:
            os.replace(part, path)
    finally:
        if not direct:
            part.unlink(missing_ok=True)


@contextmanager
def _working(label: str) -> Iterator[None]:
    """Say what is being done, in a terminal, while it is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(label):
        yield


@contextmanager
def _progress(label: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0 done, 1 failure, 2 usage or bad input, 130 interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(args=given or ["--help"], prog_name="slotwise", standalone_mode=False)
    except typer.Abort:
        return _fail("interrupted", _INTERRUPTED)
    except typer.TyperException as error:
        return _fail(error.format_message(), 2)
    except InvalidInput as error:
        return _fail(str(error), 2)
    except SlotwiseError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)
    except SystemError as error:
        # A compiled kernel that is interrupted reports the interrupt in this disguise, sometimes without its cause.
        if "exception set" in str(error):
            return _fail("interrupted", _INTERRUPTED)
        raise
    except MemoryError:
        return _fail("out of memory; use a longer --slot, a shorter --horizon or a smaller --cluster-share", 1)
    except BrokenPipeError:
        # Whoever read our output has seen enough; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _fail(f"output must go somewhere that takes it: {error.strerror}", 1)
    if code == _INTERRUPTED:
        return _fail("interrupted", _INTERRUPTED)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int) -> int:
    print("slotwise: " + " ".join(message.split()), file=sys.stderr)
    return code
