"""Which size a job has under policies that do not weigh servers against workers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from tests.builders import PLACING, completions, occupancy, play

from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Linear
from slotwise.optim.request import Request, Surveyor

CLUSTER = Cluster.of([Machine("m", {"gpu": 4.0, "cpu": 8.0})], (10.0, 1.0))


def job(*points: tuple[int, int, float], requested: int | None = None, most: int = 4) -> Job:
    speed = TableSpeed(tuple(SpeedPoint(*point) for point in points))
    demand = {"gpu": 1.0, "cpu": 1.0}, {"cpu": 1.0}
    return Job(
        "job", 0, 40.0, 8, demand[0], speed, Linear(100.0, 1000.0), demand[1], 1, most, requested_workers=requested
    )


def request(asked: Job) -> Request:
    return Surveyor(CLUSTER, 10.0).survey(asked, 20)


def pairs(asked: Request, chosen: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    return list(zip(asked.ask.workers[chosen].tolist(), asked.ask.servers[chosen].tolist(), strict=True))


def test_sizes_are_the_thriftiest_of_each_worker_count() -> None:
    # A worker takes (1/4 + 1/8) / 2 of a machine, a server 1/16.
    found = request(job((1, 1, 10.0), (1, 2, 12.0), (2, 1, 12.0), (2, 2, 19.0)))
    assert pairs(found, found.sizes) == [(1, 1), (2, 2)]
    assert pairs(found, found.steps) == [(1, 1), (2, 2)]


def test_a_slow_start_does_not_hide_what_is_larger() -> None:
    found = request(job((2, 1, 1.0), (1, 2, 0.01), (4, 1, 2.0)))
    assert pairs(found, found.sizes) == [(1, 2), (2, 1), (3, 1), (4, 1)]
    # From one worker with two servers on there would be no growing to four with one.
    assert pairs(found, found.steps) == [(2, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("name", PLACING)
def test_a_job_that_asks_for_four_workers_runs_with_four(name: str) -> None:
    asked = job((2, 1, 1.0), (1, 2, 0.01), (4, 1, 2.0), requested=4)
    _, log = play(name, CLUSTER, [asked], 20, slot_seconds=10.0)
    (placement,) = occupancy(log, 20)[0].values()
    assert (placement.total_workers, placement.total_servers) == (4, 1)
    assert completions(log) == {"job": 1}


def test_a_job_none_of_whose_sizes_fits_says_so_of_all() -> None:
    speed = TableSpeed((SpeedPoint(8, 1, 5.0), SpeedPoint(1, 2, 1.0)))
    asked = Job("job", 0, 40.0, 8, {"gpu": 1.0}, speed, Linear(9.0, 99.0), {"cpu": 5.0})
    found = request(asked)
    assert found.reason is Reason.NEVER_FITS
    expected = "needs 8 workers and 1 server or another of its sizes at once, the empty cluster does not hold any"
    assert found.detail == expected
