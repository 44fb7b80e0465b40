import math
from typing import Any

import numpy as np
import pytest

from slotwise.errors import InvalidJob
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.speed import AllReduceSpeed, FittedSpeed, PaperSpeed
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Sigmoid

_TWO = {"machine": 6250.0, "cluster": 625.0}
_ONE = {"cluster": 625.0}
_OPEN = FittedSpeed(0.1, 0.1, 0.2, 0.05, 0.01, bandwidth=625.0)


def _job(**changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": "a",
        "arrival": 3,
        "workload": 1000.0,
        "batch_size": 8,
        "worker_demand": {"gpu": 1.0, "cpu": 4.0},
        "speed": PaperSpeed(0.5, 100.0, 4.0),
        "utility": Sigmoid(10.0, 1.0, 3.0),
    }
    return Job(**(values | changes))


def test_defaults_allow_one_worker_to_one_a_sample() -> None:
    job = _job()
    assert (job.min_workers, job.most_workers) == (1, 8)
    assert job.server_demand == {}
    assert job.requested_workers is None
    assert job.restart_seconds == 0.0


def test_default_of_max_workers_is_bounded() -> None:
    assert _job(batch_size=10**6).most_workers == LARGEST_WORKERS


def test_configurations_follow_the_speed_model_at_each_level() -> None:
    configurations = _job().configurations(_TWO, 3600.0)
    assert configurations.workers.tolist() == list(range(1, 9))
    assert configurations.servers.tolist() == [1, 1, 1, 1, 2, 2, 2, 2]
    assert configurations.samples.shape == (2, 8)
    # one worker: 1 / (0.5 + 4/8 * 200/b) samples a second
    assert configurations.samples[:, 0] == pytest.approx([3600 / 0.516, 3600 / 0.66])
    assert configurations.samples[1, 7] == pytest.approx(8 * 3600 / 0.66)


def test_gamma_may_exceed_the_batch() -> None:
    job = _job(speed=PaperSpeed(0.5, 100.0, 20.0))
    assert job.configurations(_ONE, 1.0).servers.tolist() == [1] * 8
    assert job.configurations(_ONE, 1.0).samples[0, 0] == pytest.approx(1 / (0.5 + 20 / 8 * 200 / 625))


def test_a_gang_has_one_configuration() -> None:
    configurations = _job(min_workers=5, max_workers=5).configurations(_ONE, 3600.0)
    assert configurations.workers.tolist() == [5]
    assert configurations.servers.tolist() == [2]


def test_all_reduce_needs_no_servers() -> None:
    configurations = _job(speed=AllReduceSpeed(0.5, 10.0)).configurations(_ONE, 3600.0)
    assert configurations.servers.tolist() == [0] * 8


def test_restart_is_taken_off_each_slot() -> None:
    whole = _job().configurations(_ONE, 3600.0).samples
    assert _job(restart_seconds=900.0).configurations(_ONE, 3600.0).samples == pytest.approx(whole * 0.75)
    assert (_job(restart_seconds=7200.0).configurations(_ONE, 3600.0).samples == 0).all()


def test_of_an_open_choice_only_useful_pairs_are_left() -> None:
    job = _job(speed=_OPEN)
    found = job.configurations(_TWO, 1.0)
    workers, servers = _OPEN.pairs(1, 8, 8)
    samples = np.stack([_OPEN.samples_per_second(workers, servers, 8, b) for b in _TWO.values()])
    useful = []
    for k in range(len(workers)):
        no_more = (workers <= workers[k]) & (servers <= servers[k])
        no_more[k] = False
        useful.append((samples[:, k] > samples[:, no_more].max(axis=1, initial=0.0)).any())
    assert found.workers.tolist() == workers[useful].tolist()
    assert found.servers.tolist() == servers[useful].tolist()
    assert len(found) < len(workers)


def test_max_servers_bounds_an_open_choice_and_a_ratio() -> None:
    assert _job(speed=_OPEN, max_servers=2).configurations(_TWO, 1.0).servers.max() == 2
    assert _job(speed=_OPEN).configurations({"cluster": 6250.0}, 1.0).servers.max() <= 8
    paper = _job(max_servers=1).configurations(_TWO, 1.0)
    assert paper.workers.tolist() == [1, 2, 3, 4]


def test_a_job_trains_nothing_outside_its_domain() -> None:
    levels = {"machine": 6250.0, "rack": 1250.0, "cluster": 625.0}
    anywhere = _job().configurations(levels, 1.0).samples
    inside = _job(domain="rack").configurations(levels, 1.0).samples
    assert inside[:2].tolist() == anywhere[:2].tolist()
    assert (inside[2] == 0).all()
    assert (_job(domain="row").configurations(levels, 1.0).samples == 0).all()


def test_servers_of_a_table_are_bounded_by_what_was_measured() -> None:
    table = TableSpeed((SpeedPoint(1, 4, 10.0), SpeedPoint(1, 20, 30.0), SpeedPoint(2, 20, 50.0)))
    found = _job(speed=table, max_workers=2).configurations(_ONE, 1.0)
    assert found.servers.max() == 20
    assert found.samples.max() == 50.0
    assert _job(speed=table, max_workers=2, max_servers=9).configurations(_ONE, 1.0).servers.max() == 9


def test_a_worker_without_gpu_is_a_worker() -> None:
    assert _job(worker_demand={"gpu": 0.0, "cpu": 1.0}).worker_demand["gpu"] == 0.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"id": ""}, "job id must not be empty"),
        ({"arrival": -1}, "job 'a': arrival must be >= 0, got -1"),
        ({"arrival": 0.5}, "job 'a': arrival must be a whole slot, got 0.5"),
        ({"arrival": math.nan}, "job 'a': arrival must be a whole slot, got nan"),
        ({"workload": 0.0}, "job 'a': workload must be in 1e-30 ... 1e+30, got 0.0"),
        ({"workload": math.inf}, "job 'a': workload must be in 1e-30 ... 1e+30, got inf"),
        ({"batch_size": 0}, "job 'a': batch_size must be >= 1, got 0"),
        ({"min_workers": 0}, "job 'a': min_workers must be in 1 ... batch_size (8), got 0"),
        ({"min_workers": 9}, "job 'a': min_workers must be in 1 ... batch_size (8), got 9"),
        ({"max_workers": 9}, "job 'a': max_workers must be in min_workers (1) ... batch_size (8), got 9"),
        (
            {"min_workers": 4, "max_workers": 3},
            "job 'a': max_workers must be in min_workers (4) ... batch_size (8), got 3",
        ),
        (
            {"batch_size": 20_000, "max_workers": 10_001},
            "job 'a': max_workers must be <= 10000, got 10001",
        ),
        ({"requested_workers": 9}, "job 'a': requested_workers must be in 1 ... 8, got 9"),
        ({"restart_seconds": -1.0}, "job 'a': restart_seconds must be >= 0 and finite, got -1.0"),
        (
            {"worker_demand": {"gpu": -1.0}},
            "job 'a': worker_demand['gpu'] must be in 0 ... 1e+08, got -1.0",
        ),
        (
            {"server_demand": {"cpu": math.nan}},
            "job 'a': server_demand['cpu'] must be in 0 ... 1e+08, got nan",
        ),
        ({"max_servers": 0}, "job 'a': max_servers must be in 1 ... 10000, got 0"),
        (
            {"min_workers": 5, "max_servers": 1},
            "job 'a': max_servers must be >= the servers of 5 workers (2), got 1",
        ),
        ({"domain": ""}, "job 'a': domain must be the name of a locality level, got ''"),
        (
            {"speed": TableSpeed((SpeedPoint(9, 2, 1.0), SpeedPoint(16, 2, 1.0)))},
            "job 'a': speed must be known for 1 ... 8 workers, got a table of others",
        ),
        (
            {"speed": TableSpeed((SpeedPoint(2, 4, 1.0),)), "max_servers": 3},
            "job 'a': speed must be known for 1 ... 8 workers and at most 3 servers, got a table of others",
        ),
        ({"worker_demand": {}}, "job 'a': worker_demand must be > 0 in at least one resource, got {}"),
        (
            {"worker_demand": {"gpu": 0.0}},
            "job 'a': worker_demand must be > 0 in at least one resource, got {'gpu': 0.0}",
        ),
    ],
)
def test_refuses_with_value_and_bound(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        _job(**changes)
    assert str(caught.value) == message
