"""Many policies on the same workloads, in parallel over processes."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.events import Command, Event, record
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.policies import catalogue
from slotwise.policies._base import Policy
from slotwise.sim.metrics import Run
from slotwise.sim.outcomes import Bounded, Failed, Outcome
from slotwise.sim.pricemap import PriceMap
from slotwise.sim.processes import in_processes, processors
from slotwise.sim.simulator import simulate, warm_up
from slotwise.words import one_of
from slotwise.workloads._base import Workload

if TYPE_CHECKING:
    import polars

__all__ = ["BACKENDS", "Comparison", "Conditions", "bound_rounds", "check_policies", "compare", "name_of", "play"]

LARGEST_BOUND = 10_000_000
"""Slots in which a job might run, over all jobs: beyond this the bound is left out."""
BOUND_ROUNDS = 25
"""Rounds that a bound is given at most; ``slotwise bound`` goes on."""
BOUND_WORK = 8_000_000
"""Rounds times slots as above that it is given at most, but two rounds in any case, so that it takes seconds."""

BACKENDS = ("processes", "ray")
"""Where runs may be made: processes of this machine, or an existing Ray cluster."""

_WARM: set[tuple[str, str]] = set()
"""Policies and solvers whose kernels this process has loaded."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What is the same for all runs that are compared; see ``slotwise.policies.catalogue.make``."""

    prices: str = "learnt"
    slot_solver: str = "sweep"
    rounding: Mapping[str, Any] = field(default_factory=dict)
    grid: int = 500
    server_share: float = 0.2


_Call = tuple[str | type[Policy] | None, int, Workload, Conditions, bool]
"""What one run needs."""


def bound_rounds(size: int) -> int | None:
    """Return how many rounds a bound is given; None if there are more job-slots than it is computed for."""
    return None if size > LARGEST_BOUND else max(2, min(BOUND_ROUNDS, BOUND_WORK // max(1, size)))


def name_of(policy: object) -> str:
    """Return the name under which a policy is compared."""
    if isinstance(policy, str):
        return policy
    if not (isinstance(policy, type) and issubclass(policy, Policy)):
        raise InvalidInput(f"policy must be a name or a subclass of Policy, got {policy!r}")
    return policy.name


def play(
    source: Callable[[int], Workload],
    wanted: Sequence[tuple[str | type[Policy] | None, int]],
    conditions: Conditions,
    *,
    events: bool = False,
    processes: int | None = None,
    backend: str = "processes",
) -> Generator[Outcome | Bounded | Failed, None, None]:
    """Make runs, and yield each as soon as it is finished, in no particular order.

    Parameters
    ----------
    source : callable
        The workload of a seed, with its cluster.
    wanted : sequence of (policy, seed)
        Which runs; a policy of None stands for the bound.
    conditions : Conditions
        The same for all.
    events : bool
        Whether to keep the events of each run, and its prices over time.
    processes : int, optional
        How many at once; as many as the machine (or the Ray cluster) has processors if not given.
    backend : str
        One of ``BACKENDS``.
    """
    if processes is not None and processes < 1:
        raise InvalidInput(f"processes must be >= 1, got {processes}")
    if backend not in BACKENDS:
        raise InvalidInput(one_of("parallel", BACKENDS, backend))
    calls = _tasks(source, wanted, conditions, events)
    if backend == "ray":
        yield from _on_ray(calls, processes)
        return
    yield from in_processes(_make, calls, min(processes or processors(), len(wanted)))


def _on_ray(calls: Iterator[_Call], processes: int | None) -> Iterator[Outcome | Bounded | Failed]:
    import joblib

    _join_ray()
    with joblib.parallel_config(backend="ray", n_jobs=-1 if processes is None else processes):
        # It hands over nothing before all is done: some at a time, then.
        runner = joblib.Parallel(batch_size=1)
        while some := list(itertools.islice(calls, 2 * joblib.effective_n_jobs())):
            yield from runner(joblib.delayed(_make)(*call) for call in some)


def _join_ray() -> None:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise InvalidInput("parallel ray needs the extra: pip install 'slotwise[ray]'") from None
    if not ray.is_initialized():
        try:
            ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
        except ConnectionError:
            raise InvalidInput("parallel ray needs a running Ray cluster, found none; start one: ray start") from None
    register_ray()


def _tasks(
    source: Callable[[int], Workload],
    wanted: Sequence[tuple[str | type[Policy] | None, int]],
    conditions: Conditions,
    events: bool,
) -> Iterator[_Call]:
    """Yield what each run needs; the workload of a seed is drawn once."""
    drawn: tuple[int, Workload] | None = None
    for policy, seed in sorted(wanted, key=lambda pair: pair[1]):
        if drawn is None or drawn[0] != seed:
            drawn = seed, source(seed)
        yield policy, seed, drawn[1], conditions, events


def _make(
    policy: str | type[Policy] | None, seed: int, workload: Workload, conditions: Conditions, events: bool
) -> Outcome | Bounded | Failed:
    """Make one run; this is what a process is given."""
    assert workload.cluster is not None
    begin = time.perf_counter()
    if policy is None:
        value, gap = _bound(workload, workload.cluster)
        return Bounded(seed, workload.digest, value, gap, time.perf_counter() - begin)
    try:
        with catalogue.blaming(name_of(policy)):
            return _run(policy, seed, workload, workload.cluster, conditions, events)
    except SlotwiseError as error:
        # One run less; the others are made.
        return Failed(name_of(policy), seed, str(error))


def _run(
    policy: str | type[Policy], seed: int, workload: Workload, cluster: Cluster, conditions: Conditions, events: bool
) -> Outcome:
    begin = time.perf_counter()
    if (name_of(policy), conditions.slot_solver) not in _WARM:
        warm_up(policy, conditions.slot_solver)
        _WARM.add((name_of(policy), conditions.slot_solver))
        begin = time.perf_counter()
    prices = PriceMap(workload.horizon, len(cluster))
    lines = io.BytesIO()
    with gzip.GzipFile(fileobj=lines, mode="wb", compresslevel=1, mtime=0) as packed:

        def log(item: Event | Command) -> None:
            packed.write(json.dumps(record(item), separators=(",", ":")).encode() + b"\n")

        run = simulate(
            policy if isinstance(policy, str) else policy(),
            cluster,
            workload.jobs,
            horizon=workload.horizon,
            slot_seconds=workload.slot_seconds,
            seed=seed,
            prices=conditions.prices,
            slot_solver=conditions.slot_solver,
            rounding=conditions.rounding,
            grid=conditions.grid,
            server_share=conditions.server_share,
            log=log if events else None,
            watch=prices.see if events else None,
        )
    wall = time.perf_counter() - begin
    return Outcome(name_of(policy), seed, workload.digest, run, lines.getvalue() if events else b"", prices.rows, wall)


def _bound(workload: Workload, cluster: Cluster) -> tuple[float | None, float | None]:
    from slotwise.optim.bound import Relaxed

    relaxed = Relaxed(workload.jobs, cluster, workload.horizon, workload.slot_seconds)
    rounds = bound_rounds(relaxed.size)
    if rounds is None:
        return None, None
    *_, found = relaxed.improve(rounds=rounds)
    return found.value, found.gap


class Comparison(Mapping[tuple[str, int], Run]):
    """Runs of several policies on the same workloads: a mapping of (policy, seed) to ``Run``.

    Parameters
    ----------
    outcomes : sequence of Outcome
        Finished runs.
    bounds : sequence of Bounded
        Of their seeds.
    """

    def __init__(self, outcomes: Sequence[Outcome], bounds: Sequence[Bounded] = ()) -> None:
        self.outcomes = {(o.policy, o.seed): o for o in outcomes}
        self.bounds = {bound.seed: bound for bound in bounds}

    def __getitem__(self, key: tuple[str, int]) -> Run:
        """Return one run."""
        return self.outcomes[key].run

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """Go through (policy, seed)."""
        return iter(self.outcomes)

    def __len__(self) -> int:
        """Return how many runs there are."""
        return len(self.outcomes)

    def runs(self) -> polars.DataFrame:
        """Return a row for each run: see ``docs/reference.md`` for the columns."""
        from slotwise.sim import tables

        return tables.frame([tables.run_row(o, self.bounds.get(o.seed)) for o in self.outcomes.values()])

    def jobs(self) -> polars.DataFrame:
        """Return a row for each job of each run."""
        from slotwise.sim import tables

        rows = [row for o in self.outcomes.values() for row in tables.job_rows(o)]
        return tables.frame(rows, tables.JOB_COLUMNS)

    def summary(self) -> polars.DataFrame:
        """Return a row for each policy: means over its runs."""
        from slotwise.sim import tables

        return tables.summary(self.runs())


def compare(
    policies: Sequence[str | type[Policy]],
    cluster: Cluster | None,
    jobs: Sequence[Job] | Workload | Callable[[int], Workload],
    *,
    seeds: Iterable[int] = (0,),
    horizon: int | None = None,
    slot_seconds: float | None = None,
    prices: str = "learnt",
    slot_solver: str = "sweep",
    grid: int = 500,
    server_share: float = 0.2,
    bound: bool = True,
    processes: int | None = None,
    parallel: str = "processes",
) -> Comparison:
    """Play the same jobs against several policies.

    Parameters
    ----------
    policies : sequence of str or type
        Names (``slotwise policies``), ``package.module:Class``, or subclasses of ``Policy`` that are made without
        arguments.
    cluster : Cluster or None
        The machines; None for those that come with a generated workload.
    jobs : sequence of Job, Workload or callable
        Jobs, with a horizon and the length of a slot; or what a reader or a generator returns; or a function that
        returns the workload of a seed, such as ``lambda seed: slotwise.paper(50, 30, 20, seed)``.
    seeds : iterable of int
        One run of each policy for each.
    horizon : int, optional
        Slots played; the workload's own by default.
    slot_seconds : float, optional
        Length of a slot; the workload's own by default.
    prices, slot_solver, grid, server_share
        For policies that commit at arrival.
    bound : bool
        Whether to compute what any scheduler could earn at most, for each seed.
    processes : int, optional
        Runs at once; as many as there are processors by default.
    parallel : str
        ``processes`` or ``ray``, an existing Ray cluster.

    Returns
    -------
    Comparison
        ``runs["pdors", 0]`` is a ``Run``, ``runs.summary()`` a table.

    Raises
    ------
    InvalidInput
        If a name is unknown, occurs twice, or horizon or machines are missing.
    """
    if isinstance(policies, str):
        raise InvalidInput(f"policies must be a list of names or classes, got {policies!r}")
    names = [name_of(policy) for policy in policies]
    check_policies(names)
    for policy in policies:
        if isinstance(policy, str):
            catalogue.source_of(policy)
    seeds = list(dict.fromkeys(seeds))
    conditions = Conditions(prices, slot_solver, {}, grid, server_share)

    def source(seed: int) -> Workload:
        drawn = jobs(seed) if callable(jobs) else jobs
        if not isinstance(drawn, Workload):
            if horizon is None or slot_seconds is None:
                raise InvalidInput("horizon and slot_seconds must be given with a list of jobs")
            drawn = Workload(tuple(drawn), "jobs", slot_seconds, horizon)
        drawn = replace(
            drawn,
            horizon=drawn.horizon if horizon is None else horizon,
            slot_seconds=drawn.slot_seconds if slot_seconds is None else slot_seconds,
            cluster=drawn.cluster if cluster is None else cluster,
        )
        if drawn.cluster is None:
            raise InvalidInput("cluster must be given: the workload brings none")
        return drawn

    # One list of jobs has one bound, whatever the seed.
    wanted: list[tuple[str | type[Policy] | None, int]] = [(policy, seed) for seed in seeds for policy in policies]
    if bound:
        wanted += [(None, seed) for seed in (seeds if callable(jobs) else seeds[:1])]
    outcomes: list[Outcome] = []
    bounds: list[Bounded] = []
    for finished in play(source, wanted, conditions, processes=processes, backend=parallel):
        match finished:
            case Outcome():
                outcomes.append(finished)
            case Bounded():
                bounds.append(finished)
            case Failed():
                raise SlotwiseError(f"seed {finished.seed}: {finished.message}")
    if bounds and not callable(jobs):
        bounds = [replace(bounds[0], seed=seed) for seed in seeds]
    rank = {name: at for at, name in enumerate(names)}
    outcomes.sort(key=lambda outcome: (rank[outcome.policy], outcome.seed))
    return Comparison(outcomes, bounds)


def check_policies(names: Sequence[str]) -> None:
    """Refuse what is no list of distinct policies that can be made."""
    if not names:
        raise InvalidInput(f"policies must name at least one of {', '.join(catalogue.NAMES)}")
    for at, name in enumerate(names):
        if name in names[:at]:
            raise InvalidInput(f"policies must be distinct, got {name!r} twice")
