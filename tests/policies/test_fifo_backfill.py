from __future__ import annotations

import numpy as np
from tests.builders import completions, gang, machines, occupancy, orders, play

from slotwise.events import JobArrived, Launch, MachineLost, Resize, SlotOpened
from slotwise.model.schedule import Placement, Reason
from slotwise.policies.fifo_backfill import FifoBackfill
from slotwise.scheduler import Scheduler


def test_later_jobs_use_what_is_left_beside_the_head_of_the_line() -> None:
    """Of 4 GPUs a takes 3 in slots 0 and 1; b needs 2; c takes the one that is left, in 0, 1 and 2.

    fifo makes c wait.
    """
    cluster = machines({"gpu": 4.0})
    jobs = [gang("a", 3, 2), gang("b", 2, 1), gang("c", 1, 3)]

    _, log = play("fifo-backfill", cluster, jobs, 5)

    assert [set(slot) for slot in occupancy(log, 5)] == [{"a", "c"}, {"a", "c"}, {"b", "c"}, set(), set()]
    assert completions(play("fifo", cluster, jobs, 5)[1]) == {"a": 1, "b": 2, "c": 4}


def test_of_those_that_fit_the_first_goes_first() -> None:
    """One GPU is left beside a: c before d, though both fit, and b before c once there is room for it."""
    jobs = [gang("a", 2, 2), gang("b", 2, 1), gang("c", 1, 1), gang("d", 1, 1)]

    _, log = play("fifo-backfill", machines({"gpu": 3.0}), jobs, 4)

    assert [set(slot) for slot in occupancy(log, 4)] == [{"a", "c"}, {"a", "d"}, {"b"}, set()]


def test_a_large_job_waits_for_as_long_as_small_ones_keep_coming() -> None:
    """Each slot one of the two GPUs is still taken by the small job of the slot before."""
    small = [gang(f"s{slot}", 1, 2, arrival=slot) for slot in range(9)]
    jobs = [small[0], small[1], gang("large", 2, 1, arrival=1), *small[2:]]

    backfilled = completions(play("fifo-backfill", machines({"gpu": 2.0}), jobs, 12)[1])
    blocked = completions(play("fifo", machines({"gpu": 2.0}), jobs, 12)[1])

    # s8 runs in 8 and 9.
    assert backfilled["large"] == 10
    # s1 runs in 1 and 2.
    assert blocked["large"] == 3


def test_a_running_job_keeps_its_place_while_others_come_and_go() -> None:
    jobs = [gang("a", 1, 6), gang("large", 4, 1), *(gang(f"s{i}", 1, 1, arrival=i) for i in range(6))]

    _, log = play("fifo-backfill", machines({"gpu": 2.0}, {"gpu": 2.0}), jobs, 7)

    assert [type(order) for order in orders(log) if order.job_id == "a"] == [Launch]


def test_a_job_moves_off_a_lost_machine() -> None:
    scheduler = Scheduler(machines({"gpu": 1.0}, {"gpu": 1.0}), FifoBackfill(), slot_seconds=1.0, horizon=9)
    scheduler.handle(JobArrived(0, gang("a", 1, 5)))
    scheduler.handle(SlotOpened(0))
    scheduler.handle(MachineLost(0, "m0"))

    assert scheduler.handle(SlotOpened(1)) == [Resize(1, "a", Placement((1,), (1,), (0,)))]


def test_who_waits_is_told_who_is_before_it_and_how_many_passed_it() -> None:
    policy = FifoBackfill()
    scheduler = Scheduler(machines({"gpu": 4.0}), policy, slot_seconds=1.0, horizon=9)
    jobs = [gang("a", 3, 2), gang("b", 2, 1), gang("c", 1, 3)]
    for job in jobs:
        scheduler.handle(JobArrived(0, job))
    placed = policy.place(scheduler.state, np.random.default_rng(0))

    assert policy.waiting(jobs[1], scheduler.state, placed) == (
        Reason.WAITING,
        "its 2 workers and 0 servers do not fit beside 1 running job before it, the last of them 'a'; passed by 1 job",
    )
