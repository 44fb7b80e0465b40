"""What a trace does not say: a table of models, and how a recorded job becomes a Job.

Public traces hold arrivals, durations and counts. Gradients, batch sizes, seconds per sample and demands
come from the table below; the samples to train are calibrated so that the recorded counts take the recorded
time.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import polars as pl

from slotwise.errors import InvalidInput, InvalidJob, InvalidTrace
from slotwise.model.cluster import DEFAULT_BANDWIDTH
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.speed import AllReduceSpeed, PaperSpeed, SpeedModel
from slotwise.model.utility import Sigmoid
from slotwise.units import significant
from slotwise.words import counted, one_of
from slotwise.workloads._base import Bars, Workload, no_bars
from slotwise.workloads._draws import uniforms
from slotwise.workloads._recorded import RESOURCES, Recorded

__all__ = [
    "LONGEST_HORIZON",
    "MODELS",
    "VALUES",
    "VALUE_PER_WORKER_HOUR",
    "Assumptions",
    "Model",
    "Record",
    "drawn_model",
    "named",
    "records",
]

LONGEST_HORIZON = 10_000_000
"""Most slots that a trace may span; beyond it a time stamp is out of place, or the slot is far too short."""

VALUES = ("uniform", "work")
"""Ways to value a job: uniform in [1, 100], or in proportion to its worker-time."""

VALUE_PER_WORKER_HOUR = 5.0
"""Value of one recorded worker-hour with ``value="work"``: ten of them are worth an average uniform job."""

_DRAWS = 5
_SLACK = 1e-9
"""Share of the workload left off, so that rounding in a sum over slots never costs a slot more."""


@dataclass(frozen=True, slots=True)
class Model:
    """A kind of model that jobs train.

    Attributes
    ----------
    name : str
        As its source spells it.
    gradient_mb : float
        Size of the gradient, and of the parameters pulled back, MB.
    seconds_per_sample : float
        Compute time of one sample on one worker.
    batch_size : int
        Samples of one iteration on one worker.
    worker_demand, server_demand : mapping of str to float
        What one worker, one server takes: gpu (fractions are shares of one), cpu, memory in GiB.
    """

    name: str
    gradient_mb: float
    seconds_per_sample: float
    batch_size: int
    worker_demand: Mapping[str, float]
    server_demand: Mapping[str, float]


def _model(
    name: str,
    gradient_mb: float,
    batch_seconds: float,
    batch: int,
    worker: tuple[float, float, float],
    server: float,
) -> Model:
    gpu, cpu, memory = worker
    return Model(
        name,
        gradient_mb,
        batch_seconds / batch,
        batch,
        {"gpu": gpu, "cpu": cpu, "memory": memory},
        {"cpu": server, "memory": 2.0 * server},
    )


# Sizes in MB and seconds an iteration are facts carried over from public measurements:
# - the first eight, pengyanghua/DL2: model_size_MB and local_comp_time_s_per_batch of its trace.py, and the
#   batch sizes of its config_speed.txt;
# - the last nine, SymbioticLab/Tiresias: sums of its tensor sizes, and duration / iterations of the one-GPU
#   jobs in its 60-job trace (its batch size is not recorded; 32 is ours).
# The demands are ours: a GPU for most, with 4 to 8 cores and up to 32 GiB beside it; half a GPU or a
# quarter for the small models, which leave most of one idle; servers need no GPU, and more cores the larger
# the model. All of them fit the smallest GPU machine of the PAI cluster (2 gpu, 64 cpu, 384 GiB) and, with
# one GPU a worker, fill a Tiresias node.
MODELS: tuple[Model, ...] = (
    _model("resnet-50", 102.2, 0.449, 32, (1.0, 6.0, 29.0), 4.0),
    _model("vgg-16", 553.4, 0.535, 32, (1.0, 8.0, 32.0), 8.0),
    _model("resnext-110", 6.92, 0.226, 128, (1.0, 6.0, 24.0), 2.0),
    _model("inception-bn", 42.1, 0.815, 128, (1.0, 8.0, 29.0), 2.0),
    _model("seq2seq", 36.5, 0.075, 64, (0.5, 4.0, 16.0), 2.0),
    _model("cnn-text-classification", 24.0, 0.585, 50, (0.25, 4.0, 8.0), 2.0),
    _model("dssm", 6.0, 0.567, 256, (0.25, 4.0, 12.0), 2.0),
    _model("wlm", 19.2, 0.154, 160, (1.0, 6.0, 24.0), 2.0),
    _model("vgg19", 547.1, 0.271, 32, (1.0, 8.0, 32.0), 8.0),
    _model("vgg16", 526.8, 0.236, 32, (1.0, 8.0, 32.0), 8.0),
    _model("vgg11", 506.5, 0.156, 32, (1.0, 8.0, 32.0), 8.0),
    _model("alexnet", 235.8, 0.054, 32, (1.0, 8.0, 24.0), 6.0),
    _model("resnet152", 149.6, 0.371, 32, (1.0, 6.0, 29.0), 4.0),
    _model("resnet101", 119.7, 0.260, 32, (1.0, 6.0, 29.0), 4.0),
    _model("resnet50", 80.6, 0.153, 32, (1.0, 6.0, 29.0), 4.0),
    _model("inception4", 132.8, 0.478, 32, (1.0, 6.0, 29.0), 4.0),
    _model("inception3", 56.6, 0.232, 32, (1.0, 6.0, 29.0), 2.0),
)
"""The models, in the order in which they are drawn. Adding one changes what every seed draws."""

_BY_NAME = {model.name: model for model in MODELS}


def drawn_model(uniform: float) -> Model:
    """Return one of ``MODELS``, each equally likely, from a number that is uniform in [0, 1)."""
    return MODELS[min(int(uniform * len(MODELS)), len(MODELS) - 1)]


def named(name: str) -> Model | None:
    """Return the model of that name (case does not count), or None."""
    return _BY_NAME.get(name.strip().lower())


@dataclass(frozen=True, slots=True)
class Record:
    """What a trace says of one job.

    Attributes
    ----------
    id : str
        Its name, unique in the trace.
    start : float
        Seconds since the first job of the trace, >= 0.
    seconds : float
        How long it ran, > 0.
    workers, servers : int
        How many it ran with, workers >= 1, servers >= 0; 0 servers are all-reduce.
    model : Model, optional
        What it trains, where the trace says so and the table knows it.
    batch : int, optional
        Samples of an iteration over all workers, where the trace says so.
    demand : mapping of str to float
        What one worker takes, where the trace says so; the model's in every other resource.
    """

    id: str
    start: float
    seconds: float
    workers: int
    servers: int = 0
    model: Model | None = None
    batch: int | None = None
    demand: Mapping[str, float] = field(default_factory=dict)


def records(recorded: Recorded) -> Iterator[Record]:
    """Yield the jobs of a trace one by one."""
    columns = ("id", "start", "seconds", "workers", "servers", "model", "batch", *RESOURCES)
    for name, start, seconds, workers, servers, model, batch, *amounts in recorded.jobs.select(columns).iter_rows():
        demand = {resource: amount for resource, amount in zip(RESOURCES, amounts, strict=True) if amount is not None}
        yield Record(name, start, seconds, workers, servers, named(model) if model else None, batch, demand)


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Everything that is put where a trace is silent.

    Attributes
    ----------
    slot_seconds : float
        Length of a slot, >= 0.001.
    seed : int
        Of the draws, >= 0. Each job draws from its own generator, made of the seed and its id: what one job
        gets does not depend on which others are in the trace.
    value : str
        One of ``VALUES``.
    elastic : float
        Most workers of a job, as a multiple of the recorded ones, >= 1.
    bandwidth : tuple of float
        MB/s from inside a machine to across the cluster; durations are calibrated at the last.
    """

    slot_seconds: float = 600.0
    seed: int = 0
    value: str = "uniform"
    elastic: float = 2.0
    bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slot_seconds) and self.slot_seconds >= 1e-3):
            raise InvalidInput(f"slot must be >= 0.001 seconds and finite, got {self.slot_seconds!r}")
        if self.seed < 0:
            raise InvalidInput(f"seed must be >= 0, got {self.seed!r}")
        if self.value not in VALUES:
            raise InvalidInput(one_of("value", VALUES, self.value))
        if not (math.isfinite(self.elastic) and self.elastic >= 1):
            raise InvalidInput(f"elastic must be >= 1 and finite, got {self.elastic!r}")
        if not all(math.isfinite(speed) and speed >= 1e-6 for speed in self.bandwidth):
            raise InvalidInput(f"bandwidth must be >= 1e-6 MB/s and finite, got {self.bandwidth!r}")

    def slots(self, seconds: float) -> int:
        """Return the whole slots that cover ``seconds``; 1e-9 of a slot more is no slot more."""
        return math.ceil(seconds / self.slot_seconds - 1e-9)

    def end(self, start: float, seconds: float) -> int:
        """Return the first slot in which a job that started on arrival no longer runs."""
        return self.slots(start) + max(1, self.slots(seconds))

    def draws(self, ids: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return the numbers that each job draws from its own generator: model, value, kind, urgency and target."""
        return uniforms(self.seed, np.array([zlib.crc32(name.encode()) for name in ids], dtype=np.uint32), _DRAWS)

    def demands(self, recorded: Recorded) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return what one worker and one server of each job takes, as ``job`` has it: two arrays (K, RESOURCES)."""
        jobs = recorded.jobs
        drawn = np.minimum((self.draws(jobs["id"].to_list())[:, 0] * len(MODELS)).astype(np.int64), len(MODELS) - 1)
        names = jobs["model"].unique().drop_nulls().to_list()
        known = {name: MODELS.index(model) for name in names if (model := named(name)) is not None}
        index = jobs["model"].replace_strict(known, default=None, return_dtype=pl.Int64).fill_null(pl.Series(drawn))
        workers, servers = (
            np.array([[getattr(model, role).get(name, 0.0) for name in RESOURCES] for model in MODELS])[
                index.to_numpy()
            ]
            for role in ("worker_demand", "server_demand")
        )
        for i, name in enumerate(RESOURCES):
            workers[:, i] = jobs[name].fill_null(pl.Series(workers[:, i])).to_numpy()
        return workers, servers

    def job(self, record: Record) -> Job:
        """Fill in what ``record`` does not say."""
        return self._job(record, self.draws([record.id])[0].tolist())

    def _job(self, record: Record, drawn: Sequence[float]) -> Job:
        # A number is drawn for the model even where the trace names it, so that the others are the same.
        model = drawn_model(drawn[0]) if record.model is None else record.model
        workers = record.workers
        most = max(workers, math.floor(min(self.elastic * workers + 1e-9, LARGEST_WORKERS)))
        if record.servers:  # elasticity never asks for more servers than a job may have
            most = max(workers, min(most, LARGEST_WORKERS * workers // record.servers))
        batch_size = max(model.batch_size * workers if record.batch is None else record.batch, most)
        speed: SpeedModel = AllReduceSpeed(model.seconds_per_sample, model.gradient_mb)
        if record.servers:
            speed = PaperSpeed(model.seconds_per_sample, model.gradient_mb, workers / record.servers)
        # Both models rise or fall all along the worker count, so the fastest configuration is at one of its
        # ends.
        counts = np.array([workers, 1, most], dtype=np.int64)
        rates = speed.samples_per_second(counts, np.ones_like(counts), batch_size, self.bandwidth[-1])
        workload = float(rates[0]) * record.seconds * (1.0 - _SLACK)
        shortest = max(1.0, record.seconds * float(rates[0] / rates.max()) / self.slot_seconds)
        return Job(
            id=record.id,
            arrival=self.slots(record.start),
            workload=workload,
            batch_size=batch_size,
            worker_demand={**model.worker_demand, **record.demand},
            server_demand=model.server_demand if record.servers else {},
            speed=speed,
            utility=self._utility(drawn[1:], shortest, workers * record.seconds / 3600.0),
            min_workers=1,
            max_workers=most,
            requested_workers=workers,
        )

    def workload(self, recorded: Recorded, bars: Bars = no_bars) -> Workload:
        """Turn the jobs of a trace into a workload.

        Raises
        ------
        InvalidTrace
            If the trace does not say how long its jobs ran, spans more than ``LONGEST_HORIZON`` slots, or no job is
            within the bounds of the model.
        """
        path = recorded.path
        if recorded.without_seconds:
            raise InvalidTrace(f"{path}: {recorded.without_seconds}")
        horizon = max(map(self.end, recorded.jobs["start"].to_list(), recorded.jobs["seconds"].to_list()))
        if horizon > LONGEST_HORIZON:
            raise InvalidTrace(
                f"{path}: trace must span at most {LONGEST_HORIZON} slots of {self.slot_seconds:g} s, "
                f"got {horizon}; take longer slots, or look for a time stamp out of place"
            )
        counted = Counter(recorded.skipped)
        jobs = []
        with bars("jobs", len(recorded)) as shown:
            drawn = self.draws(recorded.jobs["id"].to_list())
            for i, record in enumerate(records(recorded)):
                try:
                    jobs.append(self._job(record, drawn[i].tolist()))
                except InvalidJob:  # only counts of workers and servers are not in bounds yet
                    counted["jobs: more servers, or more to a worker, than a job may have"] += 1
                    counted["rows: of a job left out"] += record.workers + record.servers
                if shown is not None and i % 1000 == 0:
                    shown(i)
        if not jobs:
            raise InvalidTrace(f"{path}: must have at least 1 job of at most {LARGEST_WORKERS} servers, got 0")
        jobs.sort(key=lambda job: job.arrival)
        return Workload(
            jobs=tuple(jobs),
            format=recorded.format,
            slot_seconds=self.slot_seconds,
            horizon=horizon,
            assumed=self.described(recorded),
            skipped={reason: count for reason, count in sorted(counted.items()) if count},
        )

    def _utility(self, drawn: Sequence[float], shortest: float, worker_hours: float) -> Sigmoid:
        """Return what finishing is worth, from the numbers drawn for value, kind, urgency and target."""
        value, kind, urgency, target = drawn
        if kind < 0.10:
            theta = 0.0
        elif kind < 0.65:
            theta = 0.01 + 0.99 * urgency
        else:
            theta = 4.0 + 2.0 * urgency
        return Sigmoid(
            value=1.0 + 99.0 * value if self.value == "uniform" else VALUE_PER_WORKER_HOUR * worker_hours,
            # Rounded, so that a job list, which has them per hour and in seconds, gives back the same numbers.
            urgency=significant(theta / shortest),
            target=significant((1.0 + 14.0 * target) * shortest),
        )

    def described(self, recorded: Recorded) -> dict[str, str]:
        """Return one sentence for each assumption."""
        values = {
            "uniform": "uniform in [1, 100]",
            "work": f"{VALUE_PER_WORKER_HOUR:g} for each recorded worker-hour",
        }
        general = {
            "model": f"Each job trains one of {len(MODELS)} models (gradient size, seconds per sample, "
            f"demands), drawn with equal chances from its id and seed {self.seed}.",
            "demand": "By the model, a worker takes 0.25 to 1 gpu, 4 to 8 cpu and 8 to 32 GiB, and a "
            "server no gpu, 2 to 8 cpu and 4 to 16 GiB.",
            "batch_size": "The global batch is the model's batch on one worker times the recorded workers.",
            "workload": f"The samples to train are what the recorded counts train at {self.bandwidth[-1]:g} "
            "MB/s in the recorded duration, which is at least 1 second.",
            "elasticity": f"A job may run with 1 worker up to {self.elastic:g} times the recorded ones.",
            "value": f"The value of a job is {values[self.value]}.",
            "urgency": "10 % of the jobs do not mind when they finish, 55 % have an urgency in 0.01 to 1 "
            "and 35 % in 4 to 6, for each stretch of their own shortest duration (at least one slot).",
            "target": "The target of a job is uniform in 1 to 15 of its own shortest durations.",
        }
        names = recorded.jobs["model"].drop_nulls()
        if len(names):
            unknown = len(recorded) - sum(named(name) is not None for name in names.to_list())
            drawn = "every job names one of them."
            if unknown:
                drawn = (
                    f"{unknown} of {counted(len(recorded), 'job')} name none of them and draw one from their id and "
                    f"seed {self.seed}."
                )
            general["model"] = (
                f"A job's gradient size, seconds per sample and demands are those of the model that it names; {drawn}"
            )
        return general | dict(recorded.assumed)
