from __future__ import annotations

import pytest
from tests.builders import elastic, gang, machines

from slotwise.events import JobArrived, Launch, MachineLost, Progressed, Resize, SlotOpened
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Placement
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Deadline
from slotwise.policies.drf import Drf
from slotwise.scheduler import Scheduler
from slotwise.sim.simulator import simulate


def fill(cluster: Cluster, *jobs: Job, horizon: int = 1000) -> dict[str, Placement]:
    """Who runs where in the first slot."""
    scheduler = Scheduler(cluster, Drf(), slot_seconds=1.0, horizon=horizon)
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    commands = scheduler.handle(SlotOpened(0))
    assert all(isinstance(command, Launch) for command in commands)
    return {command.job_id: command.placement for command in commands if isinstance(command, Launch)}


def workers(placed: dict[str, Placement]) -> dict[str, int]:
    return {name: placement.total_workers for name, placement in placed.items()}


def test_the_example_of_the_paper_gives_three_and_two_tasks() -> None:
    """Ghodsi et al. 2011, figure 1: 9 CPUs and 18 GB; tasks of (1, 4) and (3, 1); both end at a share of 2/3."""
    cluster = machines({"cpu": 9.0, "memory": 18.0})
    a = elastic("a", 1000.0, 20, worker={"cpu": 1.0, "memory": 4.0})
    b = elastic("b", 1000.0, 20, worker={"cpu": 3.0, "memory": 1.0})

    assert workers(fill(cluster, a, b)) == {"a": 3, "b": 2}
    assert workers(fill(cluster, b, a)) == {"a": 3, "b": 2}


def test_three_jobs_of_different_dominant_resources_share_two_machines() -> None:
    """By hand, of 8 CPUs and 16 GB: a 1/4 CPU, b 1/4 memory, c 1/8 CPU, c 1/4, a 1/2; b needs 4 GB on one machine
    and neither has both them and a CPU; c 3/8; then nothing fits."""
    cluster = machines({"cpu": 4.0, "memory": 8.0}, {"cpu": 4.0, "memory": 8.0})

    placed = fill(
        cluster,
        elastic("a", 1000.0, 20, worker={"cpu": 2.0, "memory": 1.0}),
        elastic("b", 1000.0, 20, worker={"cpu": 1.0, "memory": 4.0}),
        elastic("c", 1000.0, 20, worker={"cpu": 1.0, "memory": 1.0}),
    )

    assert placed == {
        "a": Placement((0,), (2,), (0,)),
        "b": Placement((1,), (1,), (0,)),
        "c": Placement((1,), (3,), (0,)),
    }


def test_shares_are_of_the_whole_cluster_not_of_one_machine() -> None:
    """By hand, of 4 GPUs and 8 CPUs: a 1/4 GPU; b 1/8 and 2/8 CPU on m1; a 1/2; b 3/8, 4/8, and m1 is full; a 3/4;
    b 5/8 with the last CPU of m0. Of one machine's four CPUs b's shares would be twice that, with all GPUs for a."""
    cluster = machines({"gpu": 4.0, "cpu": 4.0}, {"gpu": 0.0, "cpu": 4.0})

    placed = fill(
        cluster,
        elastic("a", 1000.0, 20, worker={"gpu": 1.0, "cpu": 1.0}),
        elastic("b", 1000.0, 20, worker={"cpu": 1.0}),
    )

    assert placed == {"a": Placement((0,), (3,), (0,)), "b": Placement((0, 1), (1, 4), (0, 0))}


@pytest.mark.parametrize("first", ["a", "b"])
def test_ties_go_to_the_job_that_arrived_earlier(first: str) -> None:
    second = "b" if first == "a" else "a"

    placed = fill(machines({"gpu": 3.0}), elastic(first, 1000.0, 5), elastic(second, 1000.0, 5))

    assert workers(placed) == {first: 2, second: 1}


def test_no_job_takes_more_than_trains_what_it_has_left() -> None:
    placed = fill(machines({"gpu": 10.0}), elastic("short", 2.5, 10), elastic("long", 1000.0, 10))

    assert workers(placed) == {"short": 3, "long": 7}


def test_a_job_shrinks_to_what_it_needs_as_it_nears_its_end() -> None:
    scheduler = Scheduler(machines({"gpu": 4.0}), Drf(), slot_seconds=1.0, horizon=10)
    scheduler.handle(JobArrived(0, elastic("a", 5.0, 4)))

    first = scheduler.handle(SlotOpened(0))
    scheduler.handle(Progressed(0, "a", 4.0))
    second = scheduler.handle(SlotOpened(1))

    assert first == [Launch(0, "a", Placement((0,), (4,), (0,)))]
    assert second == [Resize(1, "a", Placement((0,), (1,), (0,)))]


def test_a_gang_gets_all_of_its_workers_at_once() -> None:
    placed = fill(machines({"gpu": 2.0}, {"gpu": 2.0}), elastic("a", 1000.0, 4), gang("b", 3, 9))

    assert workers(placed) == {"a": 1, "b": 3}


def test_a_gang_that_does_not_fit_whole_gets_nothing_and_leaves_its_room_to_others() -> None:
    placed = fill(machines({"gpu": 4.0}), gang("a", 3, 9), gang("b", 3, 9), elastic("c", 1000.0, 9))

    assert workers(placed) == {"a": 3, "c": 1}


def test_a_job_starts_with_its_fewest_workers_and_grows_one_by_one() -> None:
    placed = fill(machines({"gpu": 8.0}), elastic("a", 1000.0, 8, least=3), elastic("b", 1000.0, 8))

    # a 3, b 1 2 3, at the tie a 4, b 4.
    assert workers(placed) == {"a": 4, "b": 4}


def test_every_second_worker_brings_a_server_that_counts_in_the_share() -> None:
    """By hand, of 4 GPUs and 4 CPUs: a 1 worker, 1 server: 1/4; b 1/4; a 2: 1/2; b 1/2; a 3 workers, 2 servers: no CPU
    is left for b; a 4."""
    cluster = machines({"gpu": 4.0, "cpu": 4.0})

    placed = fill(
        cluster,
        elastic("a", 1000.0, 4, server={"cpu": 1.0}, workers_per_server=2.0),
        elastic("b", 1000.0, 4, worker={"cpu": 1.0}),
    )

    assert placed == {"a": Placement((0,), (4,), (2,)), "b": Placement((0,), (2,), (0,))}


def test_the_server_may_be_what_dominates() -> None:
    """Of 8 GPUs and 9 GB a's first worker takes 1/8, its server 4/9; b leaves no room for a second server.

    By workers alone it would be a's turn after b's first, and the second server would leave b with one.
    """
    cluster = machines({"gpu": 8.0, "memory": 9.0})

    placed = fill(
        cluster,
        elastic("a", 1000.0, 8, server={"memory": 4.0}, workers_per_server=1.0),
        elastic("b", 1000.0, 8, worker={"gpu": 1.0, "memory": 1.0}),
    )

    assert placed == {"a": Placement((0,), (1,), (1,)), "b": Placement((0,), (5,), (0,))}


def test_a_worker_whose_server_does_not_fit_is_not_placed() -> None:
    cluster = machines({"gpu": 4.0, "cpu": 1.0})

    placed = fill(cluster, elastic("a", 1000.0, 4, server={"cpu": 1.0}, workers_per_server=1.0), gang("b", 3, 9))

    assert placed == {"a": Placement((0,), (1,), (1,)), "b": Placement((0,), (3,), (0,))}


def test_a_job_grows_on_its_own_machine_before_it_spreads() -> None:
    cluster = machines({"gpu": 2.0}, {"gpu": 3.0}, {"gpu": 1.0})

    placed = fill(cluster, elastic("a", 1000.0, 5))

    assert placed == {"a": Placement((0, 1), (2, 3), (0, 0))}


def test_a_lost_machine_counts_neither_as_room_nor_in_shares() -> None:
    scheduler = Scheduler(machines({"gpu": 2.0}, {"gpu": 6.0}), Drf(), slot_seconds=1.0, horizon=50)
    scheduler.handle(JobArrived(0, elastic("a", 50.0, 8)))
    scheduler.handle(SlotOpened(0))

    scheduler.handle(MachineLost(0, "m1"))

    assert scheduler.handle(SlotOpened(1)) == [Resize(1, "a", Placement((0,), (2,), (0,)))]


def test_an_all_reduce_job_gets_no_workers_that_would_slow_it_down() -> None:
    job = Job("a", 0, 500.0, 64, {"gpu": 1.0}, AllReduceSpeed(1.0, 6e6), Deadline(10.0, 15.0))
    cluster = Cluster.uniform(16, gpu=1)
    run = simulate("drf", cluster, [job], horizon=15, slot_seconds=100.0)
    assert run.records["a"].completed == 4  # one worker trains 100 samples a slot, two across machines next to nothing


def test_a_server_goes_first_where_the_worker_would_take_its_only_machine() -> None:
    cluster = machines({"cpu": 1.0, "memory": 1.0}, {"cpu": 2.0, "memory": 3.0})
    speed = PaperSpeed(1.0, 1.0, 3.0)
    worker, server = {"cpu": 1.0, "memory": 1.0}, {"cpu": 2.0, "memory": 2.0}
    job = Job("a", 0, 10.0, 2, worker, speed, Deadline(10.0, 3.0), server)
    assert fill(cluster, job) == {"a": Placement((0, 1), (1, 0), (0, 1))}
