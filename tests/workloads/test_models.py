from __future__ import annotations

import math

import numpy as np
import pytest

from slotwise.errors import InvalidInput
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Sigmoid
from slotwise.workloads.models import MODELS, VALUE_PER_WORKER_HOUR, Assumptions, Record, drawn_model, named


def samples_per_second(job: Job, workers: int, bandwidth: float = 625.0) -> float:
    return float(job.speed.samples_per_second(*job.speed.pairs(workers, workers, 1), job.batch_size, bandwidth)[0])


def sigmoid(job: Job) -> Sigmoid:
    assert isinstance(job.utility, Sigmoid)
    return job.utility


def jobs(count: int, assumptions: Assumptions) -> list[Job]:
    return [assumptions.job(Record(f"job-{i}", 0.0, 7200.0, 1 + i % 7, i % 3)) for i in range(count)]


def test_names_are_distinct_and_numbers_positive() -> None:
    assert len({model.name for model in MODELS}) == len(MODELS)
    for model in MODELS:
        assert model.gradient_mb > 0
        assert model.seconds_per_sample > 0
        assert model.batch_size >= 1


def test_every_worker_and_server_fits_the_smallest_gpu_machine_together() -> None:
    smallest = {"gpu": 2.0, "cpu": 64.0, "memory": 384.0}
    for model in MODELS:
        assert "gpu" not in model.server_demand
        for resource, capacity in smallest.items():
            assert model.worker_demand[resource] + model.server_demand.get(resource, 0.0) <= capacity


def test_some_workers_take_a_fraction_of_a_gpu() -> None:
    assert {0.25, 0.5, 1.0} == {model.worker_demand["gpu"] for model in MODELS}


def test_every_model_is_equally_likely() -> None:
    drawn = [drawn_model((i + 0.5) / 1700) for i in range(1700)]
    assert all(drawn.count(model) == 100 for model in MODELS)
    assert (drawn_model(0.0), drawn_model(1.0 - 2.0**-53)) == (MODELS[0], MODELS[-1])


def test_named_ignores_case_and_knows_no_other() -> None:
    found = named("ResNet152")
    assert found is not None
    assert found.gradient_mb == 149.6
    assert named("resnet1") is None


@pytest.mark.parametrize("servers", [0, 1, 3, 7])
@pytest.mark.parametrize("seconds", [1.0, 59.0, 60.0, 61.0, 600.0, 86400.0])
def test_recorded_counts_take_the_recorded_duration(servers: int, seconds: float) -> None:
    job = Assumptions(slot_seconds=60.0).job(Record("a", 0.0, seconds, 7, servers))
    assert job.workload / samples_per_second(job, 7) == pytest.approx(seconds, rel=1e-8)
    left, slots = job.workload, 0
    while left > 0:  # as a simulator would take them off
        left -= samples_per_second(job, 7) * 60.0
        slots += 1
    assert slots == math.ceil(seconds / 60.0)


def test_servers_follow_the_recorded_ratio() -> None:
    job = Assumptions().job(Record("a", 0.0, 60.0, 7, 3))
    assert isinstance(job.speed, PaperSpeed)
    assert job.speed.workers_per_server == pytest.approx(7 / 3)
    assert job.speed.servers(np.array([7]))[0] == 3


def test_without_servers_it_is_all_reduce_and_demands_none() -> None:
    job = Assumptions().job(Record("a", 0.0, 60.0, 7))
    assert isinstance(job.speed, AllReduceSpeed)
    assert job.server_demand == {}


@pytest.mark.parametrize(
    ("elastic", "workers", "most"), [(1.0, 5, 5), (2.0, 5, 10), (1.5, 5, 7), (1.1, 1, 1), (1e300, 9, LARGEST_WORKERS)]
)
def test_elasticity_bounds_the_workers(elastic: float, workers: int, most: int) -> None:
    job = Assumptions(elastic=elastic).job(Record("a", 0.0, 60.0, workers))
    assert (job.min_workers, job.requested_workers, job.max_workers) == (1, workers, most)
    assert job.batch_size >= most


def test_arrival_is_the_first_slot_at_or_after_the_start() -> None:
    assumptions = Assumptions(slot_seconds=600.0)
    starts = [0.0, 1.0, 599.9, 600.0, 600.1, 1200.0]
    assert [assumptions.job(Record("a", start, 60.0, 1)).arrival for start in starts] == [0, 1, 1, 1, 2, 2]


def test_a_job_is_the_same_whatever_the_others() -> None:
    assert jobs(20, Assumptions(seed=3)) == jobs(60, Assumptions(seed=3))[:20]


def test_another_seed_gives_other_jobs() -> None:
    assert jobs(20, Assumptions(seed=3)) != jobs(20, Assumptions(seed=4))


def test_a_named_model_does_not_change_the_other_draws() -> None:
    drawn = Assumptions().job(Record("a", 0.0, 60.0, 1))
    given = Assumptions().job(Record("a", 0.0, 60.0, 1, model=named("vgg19")))
    assert sigmoid(drawn).value == sigmoid(given).value


def test_urgencies_are_the_papers_mix() -> None:
    slots = 7200.0 / 600.0
    thetas = []
    for job in jobs(2000, Assumptions(elastic=1.0)):
        requested = job.requested_workers
        assert requested is not None
        rate = samples_per_second(job, requested)
        fastest = max(rate, samples_per_second(job, 1))
        thetas.append(sigmoid(job).urgency * slots * rate / fastest)
    theta = np.array(thetas)
    assert np.mean(theta == 0) == pytest.approx(0.10, abs=0.02)
    assert np.mean((theta >= 0.01 - 1e-9) & (theta <= 1 + 1e-9)) == pytest.approx(0.55, abs=0.03)
    assert np.mean((theta >= 4 - 1e-9) & (theta <= 6 + 1e-9)) == pytest.approx(0.35, abs=0.03)


def test_targets_are_in_units_of_the_shortest_duration() -> None:
    for job in jobs(300, Assumptions()):
        most = job.most_workers
        fastest = max(samples_per_second(job, workers) for workers in range(1, most + 1))
        shortest = max(1.0, job.workload / fastest / 600.0)
        assert 1 - 1e-6 <= sigmoid(job).target / shortest <= 15 + 1e-6


def test_a_short_job_counts_as_one_slot() -> None:
    for i in range(100):
        assert sigmoid(Assumptions().job(Record(str(i), 0.0, 1.0, 1))).target >= 1.0


def test_values_are_uniform_or_follow_the_work() -> None:
    values = np.array([sigmoid(job).value for job in jobs(2000, Assumptions())])
    assert values.min() >= 1
    assert values.max() <= 100
    assert values.mean() == pytest.approx(50.5, abs=2)
    worked = Assumptions(value="work").job(Record("a", 0.0, 1800.0, 6))
    assert sigmoid(worked).value == pytest.approx(3.0 * VALUE_PER_WORKER_HOUR)


@pytest.mark.parametrize(
    ("wrong", "bound"),
    [
        ({"slot_seconds": 0.0}, "slot must be >= 0.001"),
        ({"slot_seconds": math.nan}, "slot must be >= 0.001"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"value": "money"}, "value must be one of uniform, work, got 'money'"),
        ({"elastic": 0.5}, "elastic must be >= 1"),
        ({"elastic": math.inf}, "elastic must be >= 1"),
        ({"bandwidth": (6250.0, 0.0)}, "bandwidth must be"),
    ],
)
def test_refuses_options_out_of_bounds(wrong: dict[str, object], bound: str) -> None:
    with pytest.raises(InvalidInput, match=bound):
        Assumptions(**wrong)  # type: ignore[arg-type]
