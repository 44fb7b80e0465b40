import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.model.job import Job
from slotwise.model.speed import PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.workloads import synthetic
from slotwise.workloads._base import Workload

GENERATORS = (synthetic.paper, synthetic.google)
Generator = Callable[[int, int, int, int], Workload]
both = pytest.mark.parametrize("generate", GENERATORS)


def _speed(job: Job) -> PaperSpeed:
    assert isinstance(job.speed, PaperSpeed)
    return job.speed


def _urgencies(workload: Workload) -> np.ndarray:
    utilities = [job.utility for job in workload.jobs]
    return np.array([utility.urgency for utility in utilities if isinstance(utility, Sigmoid)])


def _by_id(workload: Workload) -> dict[str, Job]:
    return {job.id: job for job in workload.jobs}


@both
def test_draws_stay_in_the_papers_ranges(generate: Generator) -> None:
    workload = generate(600, 5, 20, 1)
    whole: list[tuple[str, list[float], int, int]] = [
        ("batch_size", [job.batch_size for job in workload.jobs], 1, 200),
        ("gamma", [_speed(job).workers_per_server for job in workload.jobs], 1, 10),
        *((f"worker {r}", [job.worker_demand[r] for job in workload.jobs], low, high) for r, low, high in (
            ("gpu", 0, 4), ("cpu", 1, 10), ("memory", 2, 32), ("storage", 5, 10))),
        *((f"server {r}", [job.server_demand[r] for job in workload.jobs], low, high) for r, low, high in (
            ("cpu", 1, 10), ("memory", 2, 32), ("storage", 5, 10))),
    ]  # fmt: skip
    for name, values, low, high in whole:
        assert all(float(value).is_integer() for value in values), name
        assert min(values) >= low, name
        assert max(values) <= high, name
        assert np.mean(values) == pytest.approx((low + high) / 2, rel=0.12), name
    for drawn, least, most in (
        ([_speed(job).gradient_mb for job in workload.jobs], 30.0, 575.0),
        ([_speed(job).seconds_per_sample for job in workload.jobs], 0.036, 0.36),
        ([job.utility.value for job in workload.jobs if isinstance(job.utility, Sigmoid)], 1.0, 100.0),
        ([job.utility.target for job in workload.jobs], 1.0, 15.0),
    ):
        assert min(drawn) >= least
        assert max(drawn) <= most
        assert np.mean(drawn) == pytest.approx((least + most) / 2, rel=0.06)
    for job in workload.jobs:
        assert 50 * 20_000 <= job.workload <= 200 * 500_000
        assert job.workload.is_integer()
        assert (job.min_workers, job.most_workers, job.requested_workers) == (1, job.batch_size, None)
        assert "gpu" not in job.server_demand
    assert np.mean([job.workload for job in workload.jobs]) == pytest.approx(125 * 260_000, rel=0.1)


def test_a_worker_may_need_no_gpu() -> None:
    gpus = [job.worker_demand["gpu"] for job in synthetic.paper(300, 1, 10, 0).jobs]
    assert 0.1 < np.mean([gpu == 0 for gpu in gpus]) < 0.3


@both
def test_machines_and_slots_are_the_papers(generate: Generator) -> None:
    workload = generate(3, 30, 20, 0)
    assert (workload.slot_seconds, workload.horizon, workload.format) == (3600.0, 20, generate.__name__)
    assert workload.cluster is not None
    assert len(workload.cluster) == 30
    assert workload.cluster.resources == ("gpu", "cpu", "memory", "storage")
    assert (workload.cluster.capacity == [36.0, 99.0, 306.0, 135.0]).all()
    assert workload.cluster.bandwidth == (6250.0, 625.0)


@both
def test_jobs_come_by_arrival_then_by_index(generate: Generator) -> None:
    workload = generate(200, 1, 20, 4)
    order = [(job.arrival, job.id) for job in workload.jobs]
    assert order == sorted(order)
    assert len({job.id for job in workload.jobs}) == 200
    assert all(0 <= job.arrival < 20 for job in workload.jobs)


@pytest.mark.parametrize(
    ("generate", "insensitive", "sensitive"), [(synthetic.paper, 0.10, 0.55), (synthetic.google, 0.30, 0.69)]
)
def test_urgencies_follow_the_mix(generate: Generator, insensitive: float, sensitive: float) -> None:
    urgencies = _urgencies(generate(4000, 1, 20, 2))
    within = (urgencies >= 0.01) & (urgencies <= 1.0)
    critical = (urgencies >= 4.0) & (urgencies <= 6.0)
    assert ((urgencies == 0) | within | critical).all()
    assert np.mean(urgencies == 0) == pytest.approx(insensitive, abs=0.03)
    assert np.mean(within) == pytest.approx(sensitive, abs=0.03)
    assert urgencies[within].mean() == pytest.approx(0.505, abs=0.03)


def test_arrivals_of_the_paper_are_uniform() -> None:
    counts = np.bincount([job.arrival for job in synthetic.paper(4000, 1, 10, 3).jobs], minlength=10)
    assert counts == pytest.approx(400, abs=80)


def test_arrivals_of_google_follow_the_bins() -> None:
    weights = np.array(synthetic._GOOGLE_ARRIVALS, dtype=np.float64)
    assert len(weights) == 75
    counts = np.bincount([job.arrival for job in synthetic.google(6000, 1, 75, 3).jobs], minlength=75)
    expected = weights / weights.sum() * 6000
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected) + 1).all()


@pytest.mark.parametrize("horizon", [1, 2, 20, 75, 100, 150])
def test_google_bins_are_stretched_over_the_horizon(horizon: int) -> None:
    weights = np.array(synthetic._GOOGLE_ARRIVALS, dtype=np.float64)
    fine = np.repeat(weights / horizon, horizon).reshape(horizon, 75).sum(axis=1)
    shares = np.diff(synthetic._google_edges(horizon))
    assert shares == pytest.approx(fine / weights.sum())
    assert (shares > 0).all()


@both
def test_one_seed_gives_one_workload(generate: Generator) -> None:
    assert generate(50, 30, 20, 7).digest == generate(50, 30, 20, 7).digest
    assert generate(50, 30, 20, 7).digest != generate(50, 30, 20, 8).digest


def test_two_processes_draw_the_same() -> None:
    code = "from slotwise.workloads import synthetic; print(synthetic.paper(40, 3, 20, 11).digest)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "5"}
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert printed.strip() == synthetic.paper(40, 3, 20, 11).digest


@both
def test_the_first_jobs_do_not_depend_on_how_many_follow(generate: Generator) -> None:
    few, many = _by_id(generate(10, 5, 20, 9)), _by_id(generate(80, 50, 20, 9))
    assert few == {name: many[name] for name in few}


def test_sizes_and_utilities_do_not_depend_on_the_horizon() -> None:
    short, long = _by_id(synthetic.paper(10, 5, 10, 9)), _by_id(synthetic.paper(10, 5, 100, 9))
    for name, job in short.items():
        other = long[name]
        assert (job.workload, job.speed, job.utility) == (other.workload, other.speed, other.utility)
        assert other.arrival // 10 == job.arrival


def test_google_keeps_the_sizes_of_the_paper() -> None:
    paper, google = _by_id(synthetic.paper(10, 5, 20, 9)), _by_id(synthetic.google(10, 5, 20, 9))
    for name, job in paper.items():
        assert (job.workload, job.speed, job.worker_demand) == (
            google[name].workload, google[name].speed, google[name].worker_demand,
        )  # fmt: skip
        assert job.utility.target == google[name].utility.target


@pytest.mark.parametrize(("horizon", "share"), [(20, 0.73), (100, 0.35)])
def test_as_many_jobs_as_stated_cannot_finish_even_alone(horizon: int, share: float) -> None:
    late = []
    for seed in range(5):
        for job in synthetic.paper(400, 30, horizon, seed).jobs:
            fastest = job.configurations({"cluster": 625.0}, 3600.0).samples.max()
            late.append(job.workload > fastest * (horizon - job.arrival))
    assert np.mean(late) == pytest.approx(share, abs=0.04)


@both
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 1, 0), "jobs must be >= 1, got 0"),
        ((-3, 1, 1, 0), "jobs must be >= 1, got -3"),
        ((1, 0, 1, 0), "machines must be >= 1, got 0"),
        ((1, 1, 0, 0), "horizon must be >= 1, got 0"),
        ((1, 1, 1, -1), "seed must be >= 0, got -1"),
    ],
)
def test_refuses_with_value_and_bound(generate: Generator, arguments: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        generate(*arguments)
    assert str(caught.value) == message


@both
def test_one_job_one_machine_one_slot(generate: Generator) -> None:
    (job,) = generate(1, 1, 1, 0).jobs
    assert (job.id, job.arrival) == ("job-0000", 0)
