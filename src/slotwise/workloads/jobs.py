"""Our own job list: a YAML file with one document a job, or a CSV file with one row a job.

Fields (a column of the CSV has the same name; nested ones are dotted, ``worker.gpu``, ``utility.value``; an
empty cell is an absent field):

==================  ======================================================================================
metadata.name       name, unique in the file (CSV: ``name``)
epochs, samples     passes over the data, and samples in one; together the workload
batchSize           samples of one iteration, over all workers
speed               how fast it trains, see below
gradientMB          size of the gradient in MB, for the kinds paper and all-reduce
secondsPerSample    compute time of one sample on one worker, in seconds, for the same kinds
workersPerServer    workers that one parameter server serves, for the kinds paper and fitted
worker, server      ``{resources: {cpu: 4, memory: 16Gi, gpu: 1}}``; ``nvidia.com/gpu`` is ``gpu``
minWorkers          1 unless given
maxWorkers          ``batchSize`` unless given, at most 10,000; with a table at most the most measured
maxServers          servers at most where their number is open: 64, or ``maxWorkers`` if that is more, unless
                    given; with a table the most measured
domain              locality level whose bounds the job may never cross: ``machine``, ``rack`` or another
                    one of the cluster file; the whole cluster unless given
requestedWorkers    what the job's owner asked for, for policies that do not scale jobs; optional
restartSeconds      time lost where the allocation changes; 0 unless given
utility             what finishing is worth, see below
arrival             duration since the start; 0 unless given. A job exists from the first slot that begins
                    then or later
command             what the job runs, a list of texts (CSV: one text); no part of planning
==================  ======================================================================================

Speeds, times in seconds of one iteration:

- ``{kind: paper, secondsPerSample, gradientMB, workersPerServer}``: the paper's equation, with servers.
- ``{kind: all-reduce, secondsPerSample, gradientMB}``: without servers.
- ``{kind: fitted, overhead, compute, transfer, perServer, perWorker, bandwidth}``: overhead + compute F / W +
  transfer W / S + perServer S + perWorker W of a batch of F samples on W workers and S servers, each
  coefficient 0 unless given; ``bandwidth`` is that at which transfer and perServer were fitted. The number of
  servers is open unless ``workersPerServer`` says it.
- ``{kind: fitted-all-reduce, overhead, compute, sync, transfer, perWorker, bandwidth}``: overhead + compute F / W +
  (sync + transfer) (W - 1) / W + perWorker (W - 1), without servers; ``bandwidth`` is that at which transfer was
  fitted.
- ``{kind: table, points: [{workers, servers, samplesPerSecond, bandwidth}]}``: as measured; YAML only.

Without ``speed`` a job with ``server`` and ``workersPerServer`` is of kind paper, one with neither all-reduce.

Utilities are per hour and in durations, from ``arrival`` to the end of the slot in which the job finishes, so that the
slot length does not change what a time is worth:
``{kind: sigmoid, value, urgencyPerHour, target}``, ``{kind: linear, value, end}``, ``{kind: deadline,
value, deadline}``. A job without one is time-insensitive: worth 50 whenever it finishes (half of value 100,
urgency 0), with a target of 24 h.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from slotwise.errors import InvalidInput, InvalidJob, InvalidTrace
from slotwise.model.cluster import DEFAULT_BANDWIDTH
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.speed import SpeedModel
from slotwise.model.table import TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid, Utility
from slotwise.units import GRAIN, significant
from slotwise.words import counted
from slotwise.workloads import _speed
from slotwise.workloads._base import Workload
from slotwise.workloads._fields import Field, documents, read_text, shown

__all__ = ["LATEST_ARRIVAL", "read"]

LATEST_ARRIVAL = 1_000_000
"""Last slot in which a job of a file may arrive."""

_DAY_SECONDS = 86_400.0
_HOUR_SECONDS = 3_600.0
_ROLES = ("worker", "server")
_UTILITIES = {
    "sigmoid": ("kind", "value", "urgencyPerHour", "target"),
    "linear": ("kind", "value", "end"),
    "deadline": ("kind", "value", "deadline"),
}
_UTILITY_FIELDS = tuple(dict.fromkeys(name for names in _UTILITIES.values() for name in names))
_SPEC = (
    "epochs", "samples", "batchSize", "speed", "gradientMB", "secondsPerSample", "workersPerServer", "worker",
    "server", "minWorkers", "maxWorkers", "maxServers", "domain", "requestedWorkers", "restartSeconds", "utility",
    "arrival", "command",
)  # fmt: skip
_COLUMNS = (
    "name",
    *(name for name in _SPEC if name not in (*_ROLES, "speed", "utility")),
    *(f"speed.{name}" for name in _speed.FIELDS),
    *(f"utility.{name}" for name in _UTILITY_FIELDS),
)
_NEEDED_COLUMNS = ("name", "epochs", "samples", "batchSize")
_NEEDED_WITHOUT_SPEED = ("gradientMB", "secondsPerSample")


def read(path: str | Path, *, slot_seconds: float) -> Workload:
    """Read a job list, YAML or CSV, told apart by content.

    Parameters
    ----------
    path : str or Path
        The file, in the format of this module's docstring.
    slot_seconds : float
        Length of a slot, 0.001 ... 1e9. A job exists from slot ceil(arrival / slot).

    Returns
    -------
    Workload
        Jobs in order of arrival, those of one slot in the order of the file; format ``jobs-yaml`` or
        ``jobs-csv``. Its horizon is the last arrival plus the larger of 24 h and twice the time that the
        longest job needs alone, with the best of its worker counts at the paper's bandwidth between
        machines (counted to at most 30 days).

    Raises
    ------
    InvalidInput
        If ``slot_seconds`` is out of bounds.
    InvalidTrace
        If the file is not YAML or CSV, has a bad header, or holds no job.
    InvalidJob
        If a job is bad; the message is one line, ``file:line: field must be ..., got ...``.
    """
    if not 0.001 <= slot_seconds <= 1e9:
        raise InvalidInput(f"slot_seconds must be in 0.001 ... 1e+09, got {slot_seconds!r}")
    text = read_text(path, InvalidTrace)
    is_csv = _looks_like_csv(text)
    fields = _csv_rows(str(path), text) if is_csv else _yaml_documents(path, text)
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    without_utility = 0
    for name, spec in fields:
        job = _job(name, spec, slot_seconds)
        if job.id in lines:
            name.refuse(f"unique (first at line {lines[job.id]})")
        lines[job.id] = name.line
        without_utility += spec.get("utility") is None
        jobs.append(job)
    if not jobs:
        raise InvalidTrace(f"{path}:1: file must hold at least 1 job, got 0")
    jobs.sort(key=lambda job: job.arrival)  # stable: jobs of one slot stay in the order of the file
    assumed = {}
    if without_utility:
        share = f"{without_utility} of {counted(len(jobs), 'job')} have none"
        assumed["utility"] = f"worth 50 whenever it finishes; fifo aims at 24 h ({share})"
    return Workload(
        jobs=tuple(jobs),
        format="jobs-csv" if is_csv else "jobs-yaml",
        slot_seconds=float(slot_seconds),
        horizon=_horizon(jobs, slot_seconds),
        assumed=assumed,
    )


def _horizon(jobs: Sequence[Job], slot_seconds: float) -> int:
    longest = 0
    most = math.ceil(30 * _DAY_SECONDS / slot_seconds)
    for job in jobs:
        anywhere = {job.domain or "cluster": DEFAULT_BANDWIDTH[-1]}
        samples = float(job.configurations(anywhere, slot_seconds).samples.max())
        if samples > 0:
            longest = max(longest, math.ceil(min(job.workload / samples, most)))
    return jobs[-1].arrival + max(math.ceil(_DAY_SECONDS / slot_seconds), 2 * longest)


def _looks_like_csv(text: str) -> bool:
    first = next(line for line in text.splitlines() if line.strip())
    if first.lstrip().startswith(("#", "%", "---", "{", "[")):
        return False
    try:
        cells = [cell.strip() for cell in next(csv.reader([first]))]
    except csv.Error:
        return False
    return any(cell in _COLUMNS for cell in cells) or (len(cells) > 1 and ":" not in first)


def _yaml_documents(path: str | Path, text: str) -> Iterator[tuple[Field, Field]]:
    for document in documents(path, text, InvalidJob, InvalidTrace):
        document.entries(("apiVersion", "kind", "metadata", "spec"))
        document.need("apiVersion").text(one_of=("slotwise/v1",))
        document.need("kind").text(one_of=("TrainingJob",))
        metadata, spec = document.need("metadata"), document.need("spec")
        metadata.entries(("name",))
        spec.entries(_SPEC)
        for role in _ROLES:
            field = spec.get(role)
            if field is not None:
                field.entries(("resources",))
                field.need("resources")
        command = spec.get("command")
        for word in command.items() if command is not None else ():
            if not isinstance(word.value, str):
                word.refuse("a text")
        yield metadata.need("name"), spec


def _csv_rows(path: str, text: str) -> Iterator[tuple[Field, Field]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    start = 1  # a row may have line ends within its quotes: its line is where it starts
    try:
        for row in rows:
            line, start = start, rows.line_num + 1
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not header:
                header = _header(path, line, cells)
            elif len(cells) != len(header):
                raise InvalidTrace(f"{path}:{line}: row must have {len(header)} cells, got {len(cells)}")
            else:
                yield _csv_job(path, line, header, cells)
    except csv.Error as problem:
        raise InvalidTrace(f"{path}:{start}: file must be CSV, got a syntax error: {problem}") from None


def _header(path: str, line: int, cells: list[str]) -> list[str]:
    columns = {cell: Field(path, line, "column", cell, InvalidTrace) for cell in cells}
    if len(columns) < len(cells):
        twice = next(cell for i, cell in enumerate(cells) if cell in cells[:i])
        raise InvalidTrace(f"{path}:{line}: header must name each column once, got {shown(twice)} twice")
    free = [cell for cell in cells if cell.startswith(("worker.", "server."))]
    Field(path, line, "header", dict(columns), InvalidTrace).entries((*_COLUMNS, *free))
    # What a kind of speed needs differs from row to row, so that each row is looked at by itself.
    of_speed = ("speed.kind",) if any(cell.startswith("speed.") for cell in cells) else _NEEDED_WITHOUT_SPEED
    needed = [name for name in (*_NEEDED_COLUMNS, *of_speed) if name not in columns]
    if not any(cell.startswith("worker.") for cell in free):
        needed.append("worker.gpu, worker.cpu or another of its resources")
    if needed:
        got = shown(", ".join(cells))
        raise InvalidTrace(f"{path}:{line}: header must have the column {needed[0]}, got {got}")
    return cells


def _csv_job(path: str, line: int, header: list[str], cells: list[str]) -> tuple[Field, Field]:
    nested: dict[str, dict[str, Field]] = {"worker": {}, "server": {}, "speed": {}, "utility": {}, "": {}}
    for column, cell in zip(header, cells, strict=True):
        group, dot, name = column.partition(".")
        if not dot:
            group, name = "", column
        if cell:
            nested[group][name] = Field(path, line, column, cell, InvalidJob)
    spec = Field(path, line, "", nested[""], InvalidJob)
    named = spec.need("name")
    for role in _ROLES:
        if nested[role]:
            resources = Field(path, line, role, dict(nested[role]), InvalidJob)
            nested[""][role] = Field(path, line, role, {"resources": resources}, InvalidJob)
    for group in ("speed", "utility"):
        if nested[group]:
            nested[""][group] = Field(path, line, group, dict(nested[group]), InvalidJob)
    kind = nested["speed"].get("kind")
    if kind is not None and kind.value == "table":
        kind.refuse("of a kind whose numbers fit in one row (a table of points needs a YAML file)")
    return named, spec


def _job(name: Field, spec: Field, slot_seconds: float) -> Job:
    epochs = spec.need("epochs").number(above=True, high=1e9)
    samples = spec.need("samples").whole(1)
    batch_size = spec.need("batchSize").whole(1)
    worker = spec.need("worker").need("resources")
    worker_demand = worker.resources()
    if not any(amount >= GRAIN for amount in worker_demand.values()):
        got = ", ".join(f"{resource} {amount:g}" for resource, amount in worker_demand.items()) or "none"
        worker.refuse(f"a demand of at least {GRAIN:g} of some resource", shown(got).strip("'"))
    speed, server_demand = _speed.read_speed(spec)
    minimum, maximum, requested = _workers(spec, batch_size, speed)
    most_servers = _most_servers(spec, speed, minimum, maximum)
    domain = spec.get("domain")
    within = domain.text() if domain is not None else None
    restart = spec.get("restartSeconds")
    restart_seconds = restart.number(high=1e9) if restart is not None else 0.0
    identifier, (arrival, lag) = name.text(), _arrival(spec, slot_seconds)
    utility = _utility(spec.get("utility"), slot_seconds, lag)
    try:
        return Job(
            id=identifier,
            arrival=arrival,
            workload=epochs * samples,
            batch_size=batch_size,
            worker_demand=worker_demand,
            server_demand=server_demand,
            speed=speed,
            utility=utility,
            min_workers=minimum,
            max_workers=maximum,
            max_servers=most_servers,
            domain=within,
            requested_workers=requested,
            restart_seconds=restart_seconds,
        )
    except InvalidJob as error:  # a rule of the model that the checks above lack
        raise InvalidJob(f"{spec.path}:{spec.line}: {error}") from None


def _workers(spec: Field, batch_size: int, speed: SpeedModel) -> tuple[int, int, int | None]:
    maximum, most = min(batch_size, LARGEST_WORKERS), spec.get("maxWorkers")
    if most is not None:
        wanted = most.whole(1, LARGEST_WORKERS)
        if wanted > batch_size:
            most.refuse(f"<= batchSize ({batch_size})")
        maximum = wanted
    bound, named = f"{'batchSize' if most is None else 'maxWorkers'} ({maximum})", "minWorkers ... maxWorkers"
    if isinstance(speed, TableSpeed) and speed.measured_workers[-1] < maximum:
        # Beyond what was measured the job has no speed.
        maximum = speed.measured_workers[-1]
        bound, named = f"{maximum}, the most workers measured", "minWorkers ... the most measured"
    minimum, least = 1, spec.get("minWorkers")
    if least is not None:
        minimum = least.whole(1)
        if minimum > maximum:
            least.refuse(f"<= {bound}")
    requested, asked = None, spec.get("requestedWorkers")
    if asked is not None:
        requested = asked.whole(1)
        if not minimum <= requested <= maximum:
            asked.refuse(f"in {minimum} ... {maximum} ({named})")
    return minimum, maximum, requested


def _most_servers(spec: Field, speed: SpeedModel, minimum: int, maximum: int) -> int | None:
    field = spec.get("maxServers")
    if field is None:
        return None
    wanted = field.whole(1, LARGEST_WORKERS)
    servers = speed.pairs(minimum, maximum, LARGEST_WORKERS)[1]
    if len(servers) and servers.max() == 0:
        field.refuse("absent without servers")
    if len(servers) and servers.min() > wanted:
        field.refuse(f">= the fewest servers that it can have ({servers.min()})")
    return wanted


def _arrival(spec: Field, slot_seconds: float) -> tuple[int, float]:
    """Return the slot of arrival, and how many slots have gone by since the job was handed in when it ends."""
    arrival = spec.get("arrival")
    if arrival is None:
        return 0, 1.0
    slots = arrival.duration() / slot_seconds
    if slots > LATEST_ARRIVAL:
        arrival.refuse(f"<= {LATEST_ARRIVAL} slots of {slot_seconds:g} s")
    first = math.ceil(round(slots, 9))
    return first, max(0.0, first - slots) + 1.0


def _utility(field: Field | None, slot_seconds: float, lag: float) -> Utility:
    """Read what finishing is worth, by the time from being handed in to the end of the slot in which it finishes."""
    if field is None:
        return Sigmoid(value=100.0, urgency=0.0, target=_DAY_SECONDS / slot_seconds - lag)
    field.entries(_UTILITY_FIELDS)
    kind = field.need("kind").text(one_of=tuple(_UTILITIES))
    for name, given in field.entries().items():
        if given.value is not None and name not in _UTILITIES[kind]:
            given.refuse(f"absent with kind {kind} (which has {', '.join(_UTILITIES[kind][1:])})")
    value = field.need("value").number(above=True, high=1e12)
    if kind == "sigmoid":
        urgency = field.need("urgencyPerHour").number(high=1e9) * slot_seconds / _HOUR_SECONDS
        target = field.need("target").duration() / slot_seconds - lag
        # What ``jobs_csv`` writes for the job of a trace gives back that job.
        return Sigmoid(value, significant(urgency), significant(target))
    if kind == "linear":
        return Linear(value, field.need("end").duration(above=True) / slot_seconds, lag)
    # Rounding must not make a deadline at the end of a slot one before it.
    return Deadline(value, round(field.need("deadline").duration() / slot_seconds - lag, 9))
