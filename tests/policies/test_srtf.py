from __future__ import annotations

import numpy as np
import pytest
from tests.builders import completions, gang, machines, occupancy, orders, play

from slotwise.events import Command, JobArrived, Launch, Progressed, Resize, SlotOpened, Stop
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies.srtf import Srtf
from slotwise.scheduler import Scheduler


def on(machine: int, workers: int = 1) -> Placement:
    return Placement((machine,), (workers,), (0,))


def who(cluster: Cluster, jobs: list[Job], horizon: int) -> list[set[str]]:
    return [set(slot) for slot in occupancy(play("srtf", cluster, jobs, horizon)[1], horizon)]


def second_slot(cluster: Cluster, first: list[Job], then: list[Job]) -> tuple[list[Command], list[Command]]:
    """Commands of slot 0, and those of slot 1 after every running job has trained one sample a worker."""
    scheduler = Scheduler(cluster, Srtf(), slot_seconds=1.0, horizon=50)
    for job in first:
        scheduler.handle(JobArrived(0, job))
    begin = scheduler.handle(SlotOpened(0))
    for name, placement in list(scheduler.state.running.items()):
        scheduler.handle(Progressed(0, name, float(placement.total_workers)))
    for job in then:
        scheduler.handle(JobArrived(1, job))
    return begin, scheduler.handle(SlotOpened(1))


def test_a_shorter_job_takes_the_place_of_a_longer_one_which_goes_on_later() -> None:
    """After slot 0 long has 4 slots left, short has 2: it runs in 1 and 2."""
    jobs = [gang("long", 1, 5), gang("short", 1, 2, arrival=1)]

    assert who(machines({"gpu": 1.0}), jobs, 8) == [{"long"}, {"short"}, {"short"}, *[{"long"}] * 4, set()]


@pytest.mark.parametrize(("slots", "last"), [(3, "old"), (4, "new"), (5, "new")])
def test_at_a_tie_the_job_that_arrived_first_goes_on(slots: int, last: str) -> None:
    """When new arrives, old has 4 of its 5 slots left."""
    _, log = play("srtf", machines({"gpu": 1.0}), [gang("old", 1, 5), gang("new", 1, slots, arrival=1)], 12)

    assert max(completions(log), key=completions(log).__getitem__) == last


def test_time_counts_and_not_samples() -> None:
    """Wide has 8 samples, 2 slots of 4 workers; thin has 3 samples, 3 slots of one."""
    assert who(machines({"gpu": 4.0}), [gang("thin", 1, 3), gang("wide", 4, 2)], 6) == [
        {"wide"},
        {"wide"},
        {"thin"},
        {"thin"},
        {"thin"},
        set(),
    ]


def test_what_does_not_fit_leaves_its_room_to_longer_ones() -> None:
    """Of 3 GPUs: a (1 slot) takes 2, b (2 slots) needs 2, c (3 slots) takes the last; then b and c."""
    jobs = [gang("c", 1, 3), gang("b", 2, 2), gang("a", 2, 1)]

    assert who(machines({"gpu": 3.0}), jobs, 4) == [{"a", "c"}, {"b", "c"}, {"b", "c"}, set()]


def test_the_longest_gives_way_and_the_others_stay_where_they_are() -> None:
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0}, {"gpu": 1.0})
    first, second = second_slot(
        cluster, [gang("a", 1, 4), gang("b", 1, 9), gang("c", 1, 6)], [gang("d", 1, 1, arrival=1)]
    )

    assert first == [Launch(0, "a", on(0)), Launch(0, "c", on(1)), Launch(0, "b", on(2))]
    assert second == [Stop(1, "b"), Launch(1, "d", on(2))]


def test_whoever_gave_way_for_nothing_does_not_even_notice() -> None:
    """y has more left than x and would go first; but only x is in the way of z, which needs both GPUs."""
    cluster = machines({"gpu": 2.0}, {"gpu": 0.0, "cpu": 1.0})
    x, y = gang("x", 1, 5), gang("y", 1, 9, worker={"cpu": 1.0})
    _, second = second_slot(cluster, [x, y], [gang("z", 2, 1, arrival=1)])

    assert second == [Stop(1, "x"), Launch(1, "z", on(0, 2))]


def test_a_job_in_the_way_moves_where_it_can() -> None:
    """z needs two GPUs on one machine, w has one of the only machine with two."""
    cluster = machines({"gpu": 2.0}, {"gpu": 1.0})
    first, second = second_slot(cluster, [gang("w", 1, 9)], [gang("z", 1, 1, arrival=1, worker={"gpu": 2.0})])

    assert first == [Launch(0, "w", on(0))]
    assert second == [Launch(1, "z", on(0)), Resize(1, "w", on(1))]


def test_a_job_that_would_have_to_push_away_a_shorter_one_waits() -> None:
    cluster = machines({"gpu": 2.0})
    _, second = second_slot(cluster, [gang("a", 1, 3)], [gang("b", 2, 4, arrival=1), gang("c", 1, 9, arrival=1)])

    assert second == [Launch(1, "c", on(0))]


@pytest.mark.parametrize("seed", range(20))
def test_who_runs_is_decided_by_time_left_alone(seed: int) -> None:
    """Ten GPUs on three machines, workers of one each: what fits is a matter of the sum."""
    rng = np.random.default_rng(seed)
    drawn = sorted((int(rng.integers(0, 12)), int(rng.integers(1, 8)), int(rng.integers(1, 7))) for _ in range(25))
    jobs = [gang(f"j{i:02d}", size, slots, arrival=arrival) for i, (arrival, size, slots) in enumerate(drawn)]
    left = {job.id: slots for job, (_, _, slots) in zip(jobs, drawn, strict=True)}
    expected: list[set[str]] = []
    for slot in range(80):
        free = 10
        expected.append(set())
        here = [job for job in jobs if job.arrival <= slot and left[job.id] > 0]
        for job in sorted(here, key=lambda job: (left[job.id], job.id)):
            if job.min_workers <= free:
                free -= job.min_workers
                expected[-1].add(job.id)
        for name in expected[-1]:
            left[name] -= 1

    assert who(machines({"gpu": 3.0}, {"gpu": 5.0}, {"gpu": 2.0}), jobs, 80) == expected
    assert not any(left.values())


def test_without_others_to_come_nothing_ever_moves() -> None:
    jobs = [gang(f"j{i}", 1 + i % 3, 3 + i) for i in range(6)]

    _, log = play("srtf", machines({"gpu": 4.0}, {"gpu": 4.0}), jobs, 40)

    assert [type(order) for order in orders(log)] == [Launch] * 6
    assert len(completions(log)) == 6


def test_who_waits_is_told_how_long_it_needs_and_who_is_before_it() -> None:
    policy = Srtf()
    scheduler = Scheduler(machines({"gpu": 2.0}), policy, slot_seconds=1.0, horizon=50)
    jobs = [gang("a", 1, 3), gang("b", 2, 4.5), gang("c", 1, 9)]
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    placed = policy.place(scheduler.state, np.random.default_rng(0))

    assert list(placed) == ["a", "c"]
    assert policy.waiting(jobs[1], scheduler.state, placed) == (
        Reason.WAITING,
        "4.5 slots left; its 2 workers and 0 servers do not fit beside the 1 running job before it, the last of them "
        "'a'",
    )
