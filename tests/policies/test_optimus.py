from __future__ import annotations

import numpy as np
import pytest
from tests.builders import elastic, gang, machines

from slotwise.events import JobArrived, Launch, Progressed, Resize, SlotOpened
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear
from slotwise.policies.optimus import Optimus
from slotwise.scheduler import Scheduler
from slotwise.sim.simulator import simulate


def fill(cluster: Cluster, *jobs: Job) -> dict[str, Placement]:
    """Who runs where in the first slot."""
    scheduler = Scheduler(cluster, Optimus(), slot_seconds=1.0, horizon=1000)
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    return {c.job_id: c.placement for c in scheduler.handle(SlotOpened(0)) if isinstance(c, Launch)}


def workers(placed: dict[str, Placement]) -> dict[str, int]:
    return {name: placement.total_workers for name, placement in placed.items()}


def test_each_next_worker_goes_where_it_cuts_most() -> None:
    """Six GPUs, 1/6 each. Slots left of a: 100, 50, 33.3, 25, 20; of b: 30, 15, 10.

    One each; a's second worker cuts 50, its third 16.7; b's second 15; a's fourth 8.3, before b's third, 5.
    """
    placed = fill(machines({"gpu": 6.0}), elastic("b", 30.0, 9), elastic("a", 100.0, 9))

    assert workers(placed) == {"b": 2, "a": 4}


@pytest.mark.parametrize(("gpus", "expected"), [(3, (2, 1)), (4, (3, 1)), (5, (3, 2)), (6, (4, 2)), (7, (5, 2))])
def test_one_worker_at_a_time(gpus: int, expected: tuple[int, int]) -> None:
    """As above; a's fifth cuts 5, as b's third does: the tie is a's, which arrived first."""
    placed = fill(machines({"gpu": float(gpus)}), elastic("a", 100.0, 9), elastic("b", 30.0, 9))

    assert (placed["a"].total_workers, placed["b"].total_workers) == expected


@pytest.mark.parametrize("first", ["a", "b"])
def test_ties_go_to_the_job_that_arrived_earlier(first: str) -> None:
    second = "b" if first == "a" else "a"

    placed = fill(machines({"gpu": 3.0}), elastic(first, 1000.0, 5), elastic(second, 1000.0, 5))

    assert workers(placed) == {first: 2, second: 1}


def test_a_cut_counts_by_what_it_takes_of_the_dominant_resource() -> None:
    """Of 8 GPUs a worker of a takes 2, one of b 1; a has 40 slots left with one worker, b 24. One each: 5 GPUs left.

    a's 2nd: 20 / (2/8) = 80; b's 2nd: 12 / (1/8) = 96. b. Its 3rd: 4 / (1/8) = 32. a. Its 3rd: 6.7 / (2/8) = 26.7. b,
    and one GPU is left, too little for a; b's 4th. By the cut alone a would have 3 and b 2.
    """
    placed = fill(machines({"gpu": 8.0}), elastic("a", 40.0, 9, worker={"gpu": 2.0}), elastic("b", 24.0, 9))

    assert workers(placed) == {"a": 2, "b": 4}


def test_the_server_that_comes_with_a_worker_counts() -> None:
    """Of 3 GPUs and 12 GB: a worker takes 1/3, a's server 1/2. a's 2nd: 20 / (1/2) = 40; b's 2nd: 15 / (1/3) = 45.

    By workers alone a's would be 20 / (1/3) = 60.
    """
    cluster = machines({"gpu": 3.0, "memory": 12.0})

    placed = fill(cluster, elastic("a", 40.0, 9, server={"memory": 6.0}, workers_per_server=1.0), elastic("b", 30.0, 9))

    assert placed == {"a": Placement((0,), (1,), (1,)), "b": Placement((0,), (2,), (0,))}


def test_every_job_first_gets_its_fewest_workers_in_order_of_arrival() -> None:
    """a could cut 500 slots with a second worker; b, c and the gang come first; e finds nothing left."""
    jobs = [elastic("a", 1000.0, 9), elastic("b", 3.0, 9), gang("c", 3, 2), elastic("d", 2.0, 9), elastic("e", 9.0, 9)]
    assert workers(fill(machines({"gpu": 6.0}), *jobs)) == {"a": 1, "b": 1, "c": 3, "d": 1}


def test_no_job_takes_more_than_trains_what_it_has_left() -> None:
    placed = fill(machines({"gpu": 10.0}), elastic("short", 2.5, 10), elastic("long", 6.0, 10))

    assert workers(placed) == {"short": 3, "long": 6}


def test_gains_are_those_of_what_is_left() -> None:
    """a has 4 of its 40 left when b comes with 10: of 5 GPUs b's 2nd (5), a's 2nd (2) and b's 3rd (1.7) are given.

    As of its whole workload a would have 3 and b 2.
    """
    scheduler = Scheduler(machines({"gpu": 5.0}), Optimus(), slot_seconds=1.0, horizon=50)
    scheduler.handle(JobArrived(0, elastic("a", 40.0, 9)))
    assert scheduler.handle(SlotOpened(0)) == [Launch(0, "a", Placement((0,), (5,), (0,)))]
    scheduler.handle(Progressed(0, "a", 36.0))
    scheduler.handle(JobArrived(1, elastic("b", 10.0, 9, arrival=1)))

    assert scheduler.handle(SlotOpened(1)) == [
        Resize(1, "a", Placement((0,), (2,), (0,))),
        Launch(1, "b", Placement((0,), (3,), (0,))),
    ]


def test_a_worker_that_would_slow_its_job_down_is_not_added() -> None:
    job = Job("a", 0, 500.0, 64, {"gpu": 1.0}, AllReduceSpeed(1.0, 6e6), Deadline(10.0, 15.0))
    run = simulate("optimus", Cluster.uniform(16, gpu=1), [job], horizon=15, slot_seconds=100.0)
    # One worker trains 100 samples a slot, two across machines next to nothing.
    assert run.records["a"].completed == 4


def test_a_job_whose_next_worker_gains_nothing_grows_no_more() -> None:
    """Two workers are measured to be slower than one; that three are faster is out of sight."""
    measured = TableSpeed((SpeedPoint(1, 1, 10.0), SpeedPoint(2, 1, 5.0), SpeedPoint(3, 1, 20.0)))
    job = Job("a", 0, 4000.0, 8, {"gpu": 1.0}, measured, Linear(9.0, 99.0), {"cpu": 1.0}, max_workers=3)

    assert fill(machines({"gpu": 4.0, "cpu": 4.0}), job) == {"a": Placement((0,), (1,), (1,))}


def test_who_waits_is_told_who_is_before_it() -> None:
    policy = Optimus()
    scheduler = Scheduler(machines({"gpu": 2.0}), policy, slot_seconds=1.0, horizon=50)
    jobs = [elastic(name, 9.0, 3) for name in "abc"]
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    placed = policy.place(scheduler.state, np.random.default_rng(0))

    assert policy.waiting(jobs[2], scheduler.state, placed) == (
        Reason.WAITING,
        "its fewest workers (1, with 0 servers) found no room beside those of 2 jobs before it, the last of them 'b'",
    )
