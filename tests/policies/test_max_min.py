from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tests.builders import completions, elastic, gang, machines, occupancy, orders, play

from slotwise.events import JobArrived, MachineLost, SlotOpened, Stop
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.policies._base import State
from slotwise.policies._shares import Gangs
from slotwise.policies.max_min import MaxMin
from slotwise.scheduler import Scheduler


def turns(jobs: list[Job], *gpus: float, slots: int) -> list[set[str]]:
    """Who runs in each of the first slots."""
    _, log = play("max-min", machines(*({"gpu": g} for g in gpus)), jobs, 500)
    return [set(slot) for slot in occupancy(log, 500)[:slots]]


def test_three_jobs_on_two_machines() -> None:
    """By hand, of 4 GPUs: a takes 1/4, b 1/2, c 1, so time in the ratio 4 : 2 : 1. At level L all three take
    min(1/4, L) + min(1/2, L) + min(1, L) = 1: L = 3/8, and x = (1, 3/4, 3/8).

    Due / (received + 1/2) in each slot, and who runs:

        a     b    c
        2    1.5  .75   a b  (c does not fit)
      4/3     1   1.5   c
        2   1.5   .75   a b
      8/5   6/5     1   a b  (c does not fit)
     10/7  15/14  5/4   a b  (a first, so that c does not fit)
      4/3     1  3/2    c
    """
    jobs = [gang("a", 1, 100), gang("b", 2, 100), gang("c", 4, 100)]

    assert turns(jobs, 2.0, 2.0, slots=6) == [{"a", "b"}, {"c"}, {"a", "b"}, {"a", "b"}, {"a", "b"}, {"c"}]


def test_a_gang_that_needs_everything_gets_a_share_of_time() -> None:
    """Of 2 GPUs large takes both, the others one each: L is 1/3 with two small ones, x = (1/3, 2/3, 2/3)."""
    jobs = [gang("large", 2, 100), gang("s1", 1, 100), gang("s2", 1, 100)]

    run = turns(jobs, 2.0, slots=30)

    assert sum("large" in slot for slot in run) == 10
    assert sum("s1" in slot for slot in run) == sum("s2" in slot for slot in run) == 20


def test_a_job_that_came_later_is_not_due_what_others_had_before() -> None:
    jobs = [gang("old", 1, 100), gang("new", 1, 100, arrival=10)]

    run = turns(jobs, 1.0, slots=30)

    assert run[:10] == [{"old"}] * 10
    assert sum("old" in slot for slot in run[10:]) == 10


def test_what_shares_leave_is_used() -> None:
    """Two gangs of two on three GPUs have 3/4 of the time each; the third GPU is of no use but to the small job."""
    jobs = [gang("a", 2, 100), gang("b", 2, 100), gang("small", 1, 100)]

    assert all("small" in slot and len(slot) == 2 for slot in turns(jobs, 3.0, slots=8))


def test_who_runs_on_stays_where_it_is() -> None:
    jobs = [gang("a", 1, 2), gang("b", 2, 9), gang("c", 1, 9)]

    _, log = play("max-min", machines({"gpu": 2.0}, {"gpu": 2.0}), jobs, 9)

    assert completions(log) == {"a": 1, "b": 8, "c": 8}
    assert len(orders(log)) == 3


def test_a_job_runs_with_the_size_that_its_owner_asked_for() -> None:
    _, log = play("max-min", machines({"gpu": 4.0}), [elastic("a", 6.0, 4, requested=3)], 9)

    assert completions(log) == {"a": 1}


def test_a_job_that_waits_says_what_is_due_to_it() -> None:
    scheduler = Scheduler(machines({"gpu": 1.0}), MaxMin(), slot_seconds=1.0, horizon=9)
    a, b = gang("a", 1, 2), gang("b", 1, 2)
    scheduler.handle(JobArrived(0, a))
    scheduler.handle(JobArrived(0, b))
    scheduler.handle(SlotOpened(0))

    reason, detail = scheduler.policy.waiting(b, scheduler.state, scheduler.state.running)

    assert reason is Reason.LOST_SHARE
    assert detail == (
        "its share of time is 0.5; slots due to it so far: 0.5, received: 0; "
        "it waits for 1 running job further behind or fitting beside"
    )


def test_a_gang_that_lost_machines_leave_no_room_for_pauses_and_holds_nobody_back() -> None:
    scheduler = Scheduler(machines({"gpu": 2.0}, {"gpu": 1.0}), MaxMin(), slot_seconds=1.0, horizon=50)
    scheduler.handle(JobArrived(0, gang("pair", 1, 9, worker={"gpu": 2.0})))
    scheduler.handle(JobArrived(0, gang("one", 1, 9)))
    assert len(scheduler.handle(SlotOpened(0))) == 2

    scheduler.handle(MachineLost(0, "m0"))

    assert scheduler.handle(SlotOpened(1)) == [Stop(1, "pair")]
    assert scheduler.handle(SlotOpened(2)) == []
    _, detail = scheduler.policy.waiting(gang("pair", 1), scheduler.state, scheduler.state.running)
    assert detail.startswith("its share of time is 0;")


def test_nothing_is_kept_of_jobs_that_have_ended() -> None:
    policy = MaxMin()
    play(policy, machines({"gpu": 1.0}), [gang(f"j{i}", 1, 1, arrival=i) for i in range(20)], 25)

    assert not policy._shares
    assert not policy._due
    assert not policy._received


class Noted(MaxMin):
    """Notes the slots in which shares are found anew."""

    def __init__(self) -> None:
        super().__init__()
        self.solved: list[int] = []

    def shares(self, jobs: Sequence[Job], gangs: Gangs, state: State) -> npt.NDArray[np.float64]:
        self.solved.append(state.slot)
        return super().shares(jobs, gangs, state)


def test_shares_are_found_anew_when_a_job_comes_or_ends_and_only_then() -> None:
    policy = Noted()

    _, log = play(policy, machines({"gpu": 1.0}), [gang("a", 1, 4), gang("b", 1, 5, arrival=2)], 20)

    assert completions(log) == {"a": 4, "b": 8}
    assert policy.solved == [0, 2, 5]
