from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.builders import gang, machines, occupancy, orders, play

from slotwise.errors import InvalidInput
from slotwise.events import JobArrived, JobCompleted, Launch, SlotOpened
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.policies.las import Las
from slotwise.scheduler import Scheduler


def who(threshold: float, cluster: Cluster, jobs: list[Job], horizon: int) -> list[str]:
    """Who runs in each slot, one letter each."""
    _, log = play(Las(threshold), cluster, jobs, horizon)
    return ["".join(sorted(slot)) for slot in occupancy(log, horizon)]


def test_two_jobs_of_two_gpus_and_a_threshold_of_six() -> None:
    """a has 6 GPU-seconds after 3 slots and is demoted; so is b after 3 of its 4. Then a, which came first, goes on."""
    jobs = [gang("a", 2, 10), gang("b", 2, 4)]

    assert "".join(who(6.0, machines({"gpu": 2.0}), jobs, 14)) == "aaa" + "bbb" + "aaaaaaa" + "b"


@pytest.mark.parametrize(("threshold", "slots"), [(4.0, 2), (4.001, 3), (5.999, 3), (6.0, 3), (6.001, 4)])
def test_a_job_is_demoted_in_the_slot_in_which_what_it_has_had_reaches_the_threshold(
    threshold: float, slots: int
) -> None:
    """Two GPU-seconds a slot: the other job, which waits in the first queue, starts as soon as it is."""
    _, log = play(Las(threshold), machines({"gpu": 2.0}), [gang("a", 2, 10), gang("b", 2, 10)], 20)

    assert next(order.slot for order in orders(log) if isinstance(order, Launch) and order.job_id == "b") == slots


@pytest.mark.parametrize(
    ("worker", "server", "slots"),
    [
        ({"gpu": 1.0}, {}, 6),
        ({"gpu": 2.0}, {}, 3),
        ({"gpu": 1.0}, {"gpu": 1.0}, 3),
        ({"cpu": 4.0}, {}, 6),
        ({"cpu": 4.0}, {"gpu": 3.0}, 2),
    ],
    ids=["one gpu", "two gpus a worker", "a gpu for its server", "no gpu: workers", "only its server"],
)
def test_service_is_gpus_of_workers_and_servers_times_time(
    worker: Mapping[str, float], server: Mapping[str, float], slots: int
) -> None:
    """6 GPU-seconds at one, two or three a slot of one second."""
    cluster = machines({"gpu": 3.0, "cpu": 4.0})
    per_server = 1.0 if server else None
    a = gang("a", 1, 9, worker=worker, server=server, workers_per_server=per_server)
    whole = gang("b", 1, 3, worker={"gpu": 3.0, "cpu": 4.0})

    _, log = play(Las(6.0), cluster, [a, whole], 20)

    assert next(order.slot for order in orders(log) if order.job_id == "b") == slots


def test_the_first_queue_goes_before_the_second_and_each_is_in_order_of_arrival() -> None:
    """One GPU, threshold 2: a is demoted in slot 2, b (a slot) and c (one, from 3 on) go first; d waits behind a."""
    jobs = [gang("a", 1, 4), gang("b", 1, 1, arrival=1), gang("c", 1, 1, arrival=3), gang("d", 1, 3, arrival=4)]

    # d has its two slots in the first queue before a goes on, and its third after a.
    assert "".join(who(2.0, machines({"gpu": 1.0}), jobs, 10)) == "aa" + "b" + "c" + "dd" + "aa" + "d"


@pytest.mark.parametrize("seed", range(20))
def test_who_runs_is_decided_by_the_queue_and_by_arrival_alone(seed: int) -> None:
    """Ten GPUs on three machines, workers of one each: what fits is a matter of the sum."""
    rng = np.random.default_rng(seed)
    drawn = sorted((int(rng.integers(0, 12)), int(rng.integers(1, 8)), int(rng.integers(1, 7))) for _ in range(25))
    jobs = [gang(f"j{i:02d}", size, slots, arrival=arrival) for i, (arrival, size, slots) in enumerate(drawn)]
    had = dict.fromkeys((job.id for job in jobs), 0)
    expected = []
    for slot in range(80):
        free = 10
        runs = []
        here = [job for job in jobs if job.arrival <= slot and had[job.id] < job.workload]
        for job in sorted(here, key=lambda job: (had[job.id] >= 7, job.id)):
            if job.min_workers <= free:
                free -= job.min_workers
                runs.append(job)
        expected.append("".join(sorted(job.id for job in runs)))
        for job in runs:
            had[job.id] += job.min_workers

    assert who(7.0, machines({"gpu": 3.0}, {"gpu": 5.0}, {"gpu": 2.0}), jobs, 80) == expected
    assert not expected[-1]


def test_within_a_queue_nobody_takes_the_place_of_who_came_first() -> None:
    jobs = [gang("a", 1, 5), gang("b", 1, 1, arrival=1)]

    assert "".join(who(100.0, machines({"gpu": 1.0}), jobs, 7)) == "aaaaab"


def test_what_it_has_had_is_kept_while_it_waits() -> None:
    """a has one of its two GPU-seconds when it stops for want of a machine; it needs one more to be demoted."""
    policy = Las(2.0)
    scheduler = Scheduler(machines({"gpu": 1.0}), policy, slot_seconds=1.0, horizon=20)
    a, b = gang("a", 1, 9), gang("b", 1, 9)
    scheduler.handle(JobArrived(0, a))
    scheduler.handle(JobArrived(0, b))
    for slot in range(2):
        scheduler.handle(SlotOpened(slot))
        assert list(scheduler.state.running) == ["a"]
    scheduler.handle(SlotOpened(2))
    assert list(scheduler.state.running) == ["b"]
    scheduler.handle(SlotOpened(3))
    scheduler.handle(SlotOpened(4))
    # b has had two as well.
    assert list(scheduler.state.running) == ["a"]


def test_jobs_that_have_ended_are_forgotten() -> None:
    policy = Las(2.0)
    scheduler = Scheduler(machines({"gpu": 1.0}), policy, slot_seconds=1.0, horizon=20)
    scheduler.handle(JobArrived(0, gang("a", 1, 1)))
    scheduler.handle(SlotOpened(0))
    scheduler.handle(JobCompleted(0, "a"))
    scheduler.handle(SlotOpened(1))

    assert not any(vars(policy)[name] for name in ("_attained", "_choices", "_ranks"))


@pytest.mark.parametrize(
    ("cluster", "seconds", "threshold"),
    [
        (machines({"gpu": 4.0}, {"gpu": 8.0}), 600.0, "7200"),
        (machines({"gpu": 4.0}, {"gpu": 8.0}), 60.0, "3250"),
        (machines({"cpu": 4.0}, {"cpu": 8.0}), 3600.0, "7200"),
    ],
    ids=["12 GPUs for 600 s", "at least Tiresias'", "2 machines for an hour"],
)
def test_the_threshold_is_what_the_cluster_serves_in_a_slot(cluster: Cluster, seconds: float, threshold: str) -> None:
    policy = Las()
    scheduler = Scheduler(cluster, policy, slot_seconds=seconds, horizon=20)
    resource = cluster.resources[0]
    jobs = [gang("a", 3, 600.0, worker={resource: 4.0}), gang("b", 1, 600.0, worker={resource: 4.0})]
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    placed = policy.place(scheduler.state, np.random.default_rng(0))

    reason, detail = policy.waiting(jobs[1], scheduler.state, placed)

    assert reason is Reason.WAITING
    assert detail == (
        f"in the first of two queues with 0 GPU-seconds (threshold {threshold}); its 1 worker and 0 servers do not "
        "fit beside the 1 running job before it, the last of them 'a'"
    )


def test_a_threshold_must_be_positive() -> None:
    with pytest.raises(InvalidInput, match="threshold must be > 0 GPU-seconds, got 0"):
        Las(0.0)
