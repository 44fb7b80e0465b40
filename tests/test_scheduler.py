from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.builders import PLACING, POLICIES, Log, elastic, gang, machines, policy
from tests.sim.feasible import assert_feasible

from slotwise.errors import InvalidInput, Overcommitted, SlotwiseError
from slotwise.events import (
    Admit,
    Command,
    Event,
    JobArrived,
    JobCancelled,
    JobCompleted,
    Launch,
    MachineJoined,
    MachineLost,
    Progressed,
    Reject,
    Resize,
    SlotOpened,
    Stop,
)
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Decision, Placement, Reason, Schedule
from slotwise.model.utility import Deadline, Linear
from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.policies.catalogue import COMMITTING
from slotwise.scheduler import Scheduler
from slotwise.sim.simulator import simulate

# ------------------------------------------------------------------------------------------------------ invariants


class Watched:
    """A scheduler whose history is kept, and whose invariants can be checked at any time."""

    def __init__(self, cluster: Cluster, make: Callable[[], Policy], horizon: int, *, rolling: bool = False) -> None:
        self.cluster = cluster
        self.horizon = horizon
        self.rolling = rolling
        self.make = make
        self.scheduler = self._fresh()
        self.history: list[tuple[Event, list[Command]]] = []

    def _fresh(self) -> Scheduler:
        return Scheduler(
            self.cluster, self.make(), slot_seconds=1.0, horizon=self.horizon, rolling=self.rolling, seed=3
        )

    def handle(self, *events: Event) -> list[Command]:
        """Take in events and return the answers to the last one."""
        commands: list[Command] = []
        for event in events:
            commands = self.scheduler.handle(event)
            self.history.append((event, commands))
        return commands

    @property
    def log(self) -> Log:
        return [item for event, commands in self.history for item in (event, *commands)]

    @property
    def used(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Committed grains from the next slot on."""
        ledger = self.scheduler.state.ledger
        rows = [ledger.used(slot) for slot in range(self.scheduler.state.slot, ledger.end)]
        return np.array(rows).reshape(-1, len(self.cluster), len(self.cluster.resources))

    def check(self) -> None:
        """Nothing is overcommitted, and ledger, agenda and schedules say the same."""
        scheduler, state = self.scheduler, self.scheduler.state
        view = state.ledger.view
        assert set(state.running) <= set(state.jobs)
        assert set(scheduler.schedules) <= set(state.jobs)
        assert set(state.jobs) == set(state.requests) == set(state.remaining)
        planned: dict[int, dict[str, Placement]] = {}
        for job_id, schedule in scheduler.schedules.items():
            assert list(schedule.slots) == sorted(set(schedule.slots))
            for slot, placement in zip(schedule.slots, schedule.placements, strict=True):
                if slot >= state.ledger.origin:
                    planned.setdefault(slot, {})[job_id] = placement
        for slot in range(state.slot, state.ledger.end):
            assert scheduler._agenda.get(slot, {}) == planned.get(slot, {})
            used = np.zeros_like(view.capacity)
            for job_id, placement in planned.get(slot, {}).items():
                job = state.jobs[job_id]
                assert slot >= job.arrival
                for machine, w, s in zip(placement.machines, placement.workers, placement.servers, strict=True):
                    for r, resource in enumerate(self.cluster.resources):
                        amount = w * job.worker_demand.get(resource, 0.0) + s * job.server_demand.get(resource, 0.0)
                        used[machine, r] += round(amount * 1e6)
            assert np.array_equal(used, state.ledger.used(slot)), f"slot {slot}: the ledger is not the agenda"
            assert (state.ledger.free(slot) >= 0).all(), f"slot {slot} is overcommitted"
            row = slot % state.ledger.window
            holds = used.any(axis=1)
            assert np.array_equal(view.flags[row], holds)
            assert view.touched[row][: view.counts[row]].tolist() == np.flatnonzero(holds).tolist()

    def check_replay(self) -> None:
        """The same events give a fresh scheduler the same answers and the same state."""
        fresh = self._fresh()
        for event, commands in self.history:
            assert fresh.handle(event) == commands
        mine, other = self.scheduler.state, fresh.state
        for name in ("used", "capacity", "flags", "counts", "members", "starts"):
            assert np.array_equal(getattr(mine.ledger.view, name), getattr(other.ledger.view, name)), name
        for row, count in enumerate(mine.ledger.view.counts):  # what lies behind the count is of no meaning
            assert np.array_equal(mine.ledger.view.touched[row, :count], other.ledger.view.touched[row, :count])
        assert snapshot(self.scheduler) == snapshot(fresh)


def snapshot(scheduler: Scheduler) -> dict[str, Any]:
    """What a scheduler knows, as values."""
    state = scheduler.state
    return deepcopy(
        {
            "slot": state.slot,
            "jobs": list(state.jobs),
            "remaining": dict(state.remaining),
            "requests": list(state.requests),
            "running": dict(state.running),
            "planned": dict(state.planned),
            "schedules": dict(scheduler.schedules),
            "agenda": {slot: dict(jobs) for slot, jobs in scheduler._agenda.items()},
            "seen": set(scheduler._seen),
            "lost": dict(scheduler._lost),
            "origin": state.ledger.origin,
            "used": state.ledger.view.used.tolist(),
            "capacity": state.ledger.view.capacity.tolist(),
        }
    )


Watch = Callable[..., Watched]


@pytest.fixture
def watch() -> Iterator[Watch]:
    """Makes schedulers; what they came to is checked when the test is over."""
    made: list[Watched] = []

    def make(cluster: Cluster, chosen: str | Callable[[], Policy], horizon: int, *, rolling: bool = False) -> Watched:
        build = chosen if callable(chosen) else lambda: policy(chosen, cluster)
        made.append(Watched(cluster, build, horizon, rolling=rolling))
        return made[-1]

    yield make
    for watched in made:
        watched.check()
        watched.check_replay()


def on(machine: int, workers: int = 1, servers: int = 0) -> Placement:
    return Placement((machine,), (workers,), (servers,))


def assert_refused(watched: Watched, event: Event, words: str) -> None:
    """The event is refused in these words, and nothing has changed."""
    before = snapshot(watched.scheduler)
    with pytest.raises(SlotwiseError, match=words):
        watched.scheduler.handle(event)
    assert snapshot(watched.scheduler) == before


# ---------------------------------------------------------------------------------------------------------- course


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_is_admitted_launched_once_and_forgotten_when_it_completes(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 2.0}), name, 6)

    (admit,) = watched.handle(JobArrived(0, gang("a", 2, 2)))
    assert isinstance(admit, Admit)
    assert (admit.slot, admit.job_id, admit.completion) == (0, "a", 1 if name in COMMITTING else None)
    assert watched.handle(SlotOpened(0)) == [Launch(0, "a", on(0, 2))]
    assert watched.handle(Progressed(0, "a", 2.0)) == []
    assert watched.scheduler.state.remaining == {"a": 2.0}
    assert watched.handle(SlotOpened(1)) == []
    assert watched.handle(Progressed(1, "a", 2.0), JobCompleted(1, "a")) == []
    assert watched.scheduler.state.jobs == {}
    assert watched.handle(SlotOpened(2)) == []


def test_a_changed_placement_is_a_resize_and_a_pause_a_stop(watch: Watch) -> None:
    plan = {0: {"a": on(0)}, 1: {"a": on(1)}, 2: {"a": on(1)}, 3: {}, 4: {"a": on(1)}}
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), lambda: Scripted(plan), 9)
    watched.handle(JobArrived(0, gang("a", 1, 8)))

    assert [watched.handle(SlotOpened(slot)) for slot in range(5)] == [
        [Launch(0, "a", on(0))],
        [Resize(1, "a", on(1))],
        [],
        [Stop(3, "a")],
        [Launch(4, "a", on(1))],
    ]


def test_stops_come_before_launches_into_the_room_they_free(watch: Watch) -> None:
    plan = {0: {"a": on(0)}, 1: {"b": on(0)}}
    watched = watch(machines({"gpu": 1.0}), lambda: Scripted(plan), 9)
    watched.handle(JobArrived(0, gang("a", 1, 5)), JobArrived(0, gang("b", 1, 5)), SlotOpened(0))

    assert watched.handle(SlotOpened(1)) == [Stop(1, "a"), Launch(1, "b", on(0))]


def test_a_paused_job_of_a_committed_schedule_is_stopped_and_launched_again(watch: Watch) -> None:
    """A gap of a schedule: the worthier job, admitted first, holds the machine in slots 1 and 2."""
    busy = Schedule((1, 2), (on(0), on(0)), (1.0, 1.0))
    split = Schedule((0, 3), (on(0), on(0)), (1.0, 1.0))
    watched = watch(machines({"gpu": 1.0}), lambda: Promising({"busy": busy, "split": split}), 9)
    watched.handle(JobArrived(0, gang("busy", 1, 2)), JobArrived(0, gang("split", 1, 2)))

    assert [watched.handle(SlotOpened(slot)) for slot in range(4)] == [
        [Launch(0, "split", on(0))],
        [Stop(1, "split"), Launch(1, "busy", on(0))],
        [],
        [Stop(3, "busy"), Launch(3, "split", on(0))],
    ]


def test_an_arrival_after_its_slot_was_opened_is_planned_from_the_next_slot_on(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 9)
    watched.handle(SlotOpened(0))

    (admit,) = watched.handle(JobArrived(0, gang("a", 1, 2, utility=Linear(100.0, 100.0))))

    assert isinstance(admit, Admit)
    assert admit.completion == 2
    assert admit.utility == pytest.approx(98.0)  # finished two slots after it arrived
    assert watched.handle(SlotOpened(1)) == [Launch(1, "a", on(0))]


def test_a_job_submitted_some_slots_after_its_arrival_is_worth_what_is_left(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 9)

    (admit,) = watched.handle(JobArrived(4, gang("a", 1, 1, arrival=1, utility=Linear(100.0, 10.0))))

    assert isinstance(admit, Admit)
    assert admit.completion == 4
    assert admit.utility == pytest.approx(70.0)


def test_a_rejected_job_leaves_nothing_behind(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 3)

    (reject,) = watched.handle(JobArrived(0, gang("a", 2)))

    assert isinstance(reject, Reject)
    assert reject.reason is Reason.NEVER_FITS
    assert watched.scheduler.state.jobs == {}
    assert not watched.used.any()
    assert_refused(watched, JobCancelled(0, "a"), "not active")


def test_a_survey_decides_nothing(watch: Watch) -> None:
    watched = watch(machines({"gpu": 2.0}), "pdors", 3)
    before = snapshot(watched.scheduler)

    assert watched.scheduler.survey(gang("a", 1, 2)).fewest_slots == 2
    assert snapshot(watched.scheduler) == before
    assert isinstance(watched.handle(JobArrived(0, gang("a", 1, 2)))[0], Admit)
    assert watched.scheduler.request("a").fewest_slots == 2


# --------------------------------------------------------------------------------------------- events out of place


@pytest.mark.parametrize("name", POLICIES)
def test_an_id_arrives_only_once_even_if_it_was_rejected_or_has_ended(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 1.0}), name, 9)
    watched.handle(JobArrived(0, gang("in", 1)), JobArrived(0, gang("out", 2)))
    for job_id in ("in", "out"):
        assert_refused(watched, JobArrived(0, gang(job_id, 1)), f"job '{job_id}' arrived before")
    watched.handle(SlotOpened(0), Progressed(0, "in", 1.0), JobCompleted(0, "in"))
    assert_refused(watched, JobArrived(1, gang("in", 1)), "job 'in' arrived before")


def test_a_job_cannot_arrive_before_its_time_or_behind_the_horizon(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "fifo", 5)

    assert_refused(watched, JobArrived(1, gang("a", 1, arrival=2)), r"'a' must arrive in 2 \.\.\. 4")
    assert_refused(watched, JobArrived(5, gang("a", 1, arrival=2)), r"'a' must arrive in 2 \.\.\. 4")
    assert isinstance(watched.handle(JobArrived(4, gang("a", 1, arrival=2)))[0], Admit)


@pytest.mark.parametrize("name", POLICIES)
def test_slots_open_in_order_each_once_and_within_the_horizon(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 1.0}), name, 3)
    watched.handle(JobArrived(0, gang("a", 1, 3)), SlotOpened(0), SlotOpened(1))

    assert_refused(watched, SlotOpened(1), "slot 1 cannot be opened, the next one is 2")
    assert_refused(watched, SlotOpened(0), "slot 0 cannot be opened, the next one is 2")
    assert_refused(watched, SlotOpened(3), "slot 3 cannot be opened, the horizon ends before slot 3")
    assert watched.handle(SlotOpened(2)) == []


@pytest.mark.parametrize(
    "event", [Progressed(0, "x", 1.0), JobCompleted(0, "x"), JobCancelled(0, "x")], ids=lambda e: type(e).__name__
)
def test_news_of_an_unknown_job_is_refused(watch: Watch, event: Event) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 3)
    watched.handle(JobArrived(0, gang("a", 1, 2)), SlotOpened(0))

    assert_refused(watched, event, f"{type(event).__name__} of job 'x', which is not active")


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_cannot_train_in_a_slot_that_is_not_open(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 1.0}), name, 9)
    watched.handle(JobArrived(0, gang("a", 1, 5)))

    assert_refused(watched, Progressed(0, "a", 1.0), "not open yet")
    assert_refused(watched, JobCompleted(0, "a"), "not open yet")
    watched.handle(SlotOpened(0))
    assert_refused(watched, JobCompleted(6, "a"), "not open yet")


def test_a_completion_that_is_reported_late_frees_what_can_still_be_freed(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("a", 1, 6)), SlotOpened(0), SlotOpened(1), SlotOpened(2), SlotOpened(3))

    assert watched.handle(JobCompleted(0, "a")) == []

    assert not watched.used.any()
    assert watched.handle(SlotOpened(4)) == []


def test_unknown_lost_and_present_machines_are_told_apart(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), "pdors", 3)

    assert_refused(watched, MachineLost(0, "other"), "machine 'other' is not of this cluster")
    assert_refused(watched, MachineJoined(0, "m0"), "machine 'm0' is not lost")
    assert_refused(watched, MachineJoined(0, "other"), "machine 'other' is not lost")
    watched.handle(MachineLost(0, "m0"))
    assert_refused(watched, MachineLost(0, "m0"), "machine 'm0' is lost already")
    watched.handle(MachineJoined(0, "m0"))
    assert_refused(watched, MachineJoined(0, "m0"), "machine 'm0' is not lost")


# ---------------------------------------------------------------------------------------------------------- cancel


@pytest.mark.parametrize("name", POLICIES)
def test_a_cancelled_job_is_stopped_only_if_it_runs(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 1.0}), name, 9)
    watched.handle(JobArrived(0, gang("runs", 1, 3)), JobArrived(0, gang("waits", 1, 3)), SlotOpened(0))

    assert watched.handle(JobCancelled(0, "waits")) == []
    assert watched.handle(JobCancelled(0, "runs")) == [Stop(0, "runs")]
    assert watched.scheduler.state.jobs == {}
    assert watched.handle(SlotOpened(1)) == []


def test_a_cancelled_job_releases_exactly_what_it_held_from_the_next_slot_on(watch: Watch) -> None:
    cluster = machines({"gpu": 2.0, "cpu": 3.0}, {"gpu": 2.0, "cpu": 3.0})
    worker = {"gpu": 0.1, "cpu": 0.3}
    alone = watch(cluster, "pdors", 9)
    both = watch(cluster, "pdors", 9)
    for watched in (alone, both):
        watched.handle(JobArrived(0, elastic("a", 7.0, 3, worker=worker)))
    both.handle(JobArrived(0, elastic("b", 9.0, 3, worker=worker, server={"cpu": 0.7}, workers_per_server=2.0)))
    assert not np.array_equal(alone.used, both.used)
    alone.handle(SlotOpened(0))
    both.handle(SlotOpened(0))

    both.handle(JobCancelled(0, "b"))

    assert np.array_equal(alone.used, both.used)


def test_a_cancelled_job_makes_room_for_the_next_arrival(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 4)
    watched.handle(JobArrived(0, gang("a", 1, 4)))
    assert isinstance(watched.handle(JobArrived(0, gang("b", 1, 2)))[0], Reject)

    watched.handle(JobCancelled(0, "a"))

    assert isinstance(watched.handle(JobArrived(0, gang("c", 1, 4)))[0], Admit)


# -------------------------------------------------------------------------------------------------------- machines


def test_a_job_on_a_lost_machine_is_promised_anew_elsewhere(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("a", 1, 4)), SlotOpened(0), Progressed(0, "a", 1.0))
    assert watched.scheduler.state.running == {"a": on(0)}

    (admit,) = watched.handle(MachineLost(0, "m0"))

    assert isinstance(admit, Admit)
    assert (admit.slot, admit.job_id, admit.completion) == (0, "a", 3)
    assert not watched.used[:, 0].any()
    assert watched.handle(SlotOpened(1)) == [Resize(1, "a", on(1))]


def test_jobs_that_do_not_use_a_lost_machine_hear_nothing(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("a", 1, 3)), JobArrived(0, gang("b", 1, 3)))
    before = watched.scheduler.schedules["a"]

    commands = watched.handle(MachineLost(0, "m1"))

    assert [command.job_id for command in commands] == ["b"]
    assert watched.scheduler.schedules["a"] == before


def test_a_machine_that_was_used_only_in_the_past_is_lost_without_news(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("a", 1, 1)), SlotOpened(0))

    assert watched.handle(MachineLost(0, "m0")) == []


def test_a_job_without_another_plan_is_stopped_and_rejected_as_machine_lost(watch: Watch) -> None:
    watched = watch(machines({"gpu": 2.0}, {"gpu": 1.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("runs", 2, 3)), JobArrived(0, gang("later", 2, 2)), SlotOpened(0))

    commands = watched.handle(MachineLost(0, "m0"))

    assert [(type(c), c.job_id) for c in commands] == [(Stop, "runs"), (Reject, "runs"), (Reject, "later")]
    assert all(command.reason is Reason.MACHINE_LOST for command in commands if isinstance(command, Reject))
    assert watched.scheduler.state.jobs == {}
    assert watched.handle(SlotOpened(1)) == []


def test_jobs_are_planned_anew_in_order_of_arrival_also_after_an_earlier_loss(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 2.0}), "pdors", 20)
    watched.handle(JobArrived(0, gang("a", 1, 4)), JobArrived(0, gang("b", 1, 4)))
    assert [command.job_id for command in watched.handle(MachineLost(0, "m0"))] == ["a"]
    assert list(watched.scheduler.schedules) == ["b", "a"], "a was committed last, though it arrived first"

    commands = watched.handle(MachineLost(0, "m1"))

    assert [command.job_id for command in commands] == ["a", "b"]


def test_nothing_is_committed_on_a_lost_machine_until_it_joins_again(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), "pdors", 6)
    watched.handle(MachineLost(0, "m0"), JobArrived(0, gang("a", 1, 3)), JobArrived(0, gang("b", 1, 3)))
    assert not watched.used[:, 0].any()
    assert watched.used[:, 1].all()
    assert isinstance(watched.handle(JobArrived(0, gang("c", 1, 1)))[0], Reject)

    watched.handle(MachineJoined(0, "m0"))

    assert isinstance(watched.handle(JobArrived(0, gang("d", 1, 6)))[0], Admit)
    assert watched.used[:, 0].all()


def test_a_job_that_has_trained_everything_is_not_planned_anew(watch: Watch) -> None:
    """Its completion is on the way: news of its last samples and of the loss came first."""
    watched = watch(machines({"gpu": 4.0}, {"gpu": 4.0}), "pdors", 9)
    watched.handle(JobArrived(0, gang("a", 4, 3)), SlotOpened(0), Progressed(0, "a", 12.0))

    assert watched.handle(MachineLost(0, "m0")) == []
    assert watched.handle(JobCompleted(0, "a")) == []
    assert not watched.used.any()


@pytest.mark.parametrize("name", PLACING)
def test_a_placing_policy_moves_its_jobs_off_a_lost_machine_at_the_next_slot(watch: Watch, name: str) -> None:
    watched = watch(machines({"gpu": 1.0}, {"gpu": 1.0}), name, 9)
    watched.handle(JobArrived(0, gang("a", 1, 8)), SlotOpened(0))

    assert watched.handle(MachineLost(0, "m0")) == []
    assert watched.handle(SlotOpened(1)) == [Resize(1, "a", on(1))]
    assert watched.handle(MachineLost(1, "m1")) == []
    assert watched.handle(SlotOpened(2)) == [Stop(2, "a")]
    watched.handle(MachineJoined(2, "m1"))
    assert watched.handle(SlotOpened(3)) == [Launch(3, "a", on(1))]


# ------------------------------------------------------------------------------------------------- rolling horizon


def test_a_rolling_horizon_reaches_as_far_from_every_open_slot(watch: Watch) -> None:
    """Four slots, the open one among them: three are left to plan. Twelve slots go three times around the ledger."""
    watched = watch(machines({"gpu": 1.0}), "pdors", 4, rolling=True)
    watched.handle(SlotOpened(0))

    for slot in range(0, 12, 3):
        assert_refused(watched, JobArrived(slot + 4, gang(f"far-{slot}", 1, arrival=slot)), "the horizon's last slot")
        (admit,) = watched.handle(JobArrived(slot, gang(f"job-{slot}", 1, 3, arrival=slot)))
        assert isinstance(admit, Admit)
        assert admit.completion == slot + 3
        assert isinstance(watched.handle(JobArrived(slot, gang(f"no-{slot}", 1, 1, arrival=slot)))[0], Reject)
        assert watched.handle(SlotOpened(slot + 1)) == [Launch(slot + 1, f"job-{slot}", on(0))]
        assert watched.handle(SlotOpened(slot + 2), SlotOpened(slot + 3)) == []
        watched.handle(JobCompleted(slot + 3, f"job-{slot}"))


def test_a_slot_that_has_passed_opens_one_at_the_far_end(watch: Watch) -> None:
    watched = watch(machines({"gpu": 1.0}), "pdors", 3, rolling=True)
    watched.handle(JobArrived(0, gang("a", 1, 3)))
    assert isinstance(watched.handle(JobArrived(0, gang("b", 1, 1)))[0], Reject)

    watched.handle(SlotOpened(0), SlotOpened(1))

    (admit,) = watched.handle(JobArrived(1, gang("c", 1, 1, arrival=1)))
    assert isinstance(admit, Admit)
    assert admit.completion == 3


# ------------------------------------------------------------------------------------- policies that break the rules


class Scripted(Policy):
    """Places what a table says."""

    name: ClassVar[str] = "scripted"

    def __init__(self, plan: Mapping[int, dict[str, Placement]]) -> None:
        self._plan = plan

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return self._plan.get(state.slot, {})


class Promising(CommitAtArrival):
    """Commits what a table says."""

    name: ClassVar[str] = "promising"

    def __init__(
        self, schedules: Mapping[str, Schedule], extra: Mapping[int, dict[str, Placement]] | None = None
    ) -> None:
        self._schedules = schedules
        self._extra = extra or {}

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        return Decision(True, self._schedules[job.id], 1.0, 0.5)

    def replan(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        return Decision(False, reason=Reason.PRICED_OUT, detail="never twice")

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return {**state.planned, **self._extra.get(state.slot, {})}


PAIR = gang("a", 2, 3)

BROKEN_PLACEMENTS = [
    ({"a": on(0, 2), "b": on(0, 2)}, "slot 0: machine 'm0' would hold more gpu than it has"),
    ({"a": on(1, 2)}, "slot 0: machine 'm1' would hold more gpu than it has"),
    ({"x": on(0, 2)}, "slot 0: places 'x', which is not active"),
    ({"a": on(0, 1)}, "slot 0: job 'a' cannot run with 1 worker and 0 servers"),
    ({"a": on(0, 2, 1)}, "slot 0: job 'a' cannot run with 2 workers and 1 server"),
    ({"a": Placement((0, 0), (1, 1), (0, 0))}, "job 'a' must have >= 1 worker or server on each"),
    ({"a": Placement((1, 0), (1, 1), (0, 0))}, "job 'a' must have >= 1 worker or server on each"),
    ({"a": Placement((0, 1), (3, -1), (0, 0))}, "job 'a' must have >= 1 worker or server on each"),
    ({"a": Placement((0, 1), (2, 0), (0, 0))}, "job 'a' must have >= 1 worker or server on each"),
    ({"a": Placement((0, 9), (1, 1), (0, 0))}, r"rising in 0 \.\.\. 1"),
    ({"a": Placement((-1, 0), (1, 1), (0, 0))}, r"rising in 0 \.\.\. 1"),
    ({"a": Placement((0,), (1, 1), (0, 0))}, r"rising in 0 \.\.\. 1"),
    ({"a": Placement((), (), ())}, r"rising in 0 \.\.\. 1"),
]


@pytest.mark.parametrize(("placed", "words"), BROKEN_PLACEMENTS)
def test_a_policy_that_places_what_cannot_be_is_refused_by_its_name(
    watch: Watch, placed: dict[str, Placement], words: str
) -> None:
    watched = watch(machines({"gpu": 3.0}, {"gpu": 1.0}), lambda: Scripted({0: placed}), 9)
    watched.handle(JobArrived(0, PAIR), JobArrived(0, gang("b", 2, 3)))

    assert_refused(watched, SlotOpened(0), f"policy 'scripted': .*{words}")
    assert watched.scheduler.state.running == {}


def test_what_was_kept_stays_as_it_was_when_a_policy_places_too_much() -> None:
    plan = {0: {"a": on(0), "b": on(1), "c": on(2)}, 1: {"c": on(0), "b": on(0), "a": on(1)}}
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0}, {"gpu": 1.0})
    scheduler = Scheduler(cluster, Scripted(plan), slot_seconds=1.0, horizon=9)
    for name in "abc":
        scheduler.handle(JobArrived(0, gang(name, 1, 3)))
    scheduler.handle(SlotOpened(0))
    state = scheduler.state
    kept, held = list(state.kept.items()), state.held.used(0).tolist()

    with pytest.raises(Overcommitted, match="policy 'scripted': slot 1: machine 'm0' would hold more gpu than it has"):
        scheduler.handle(SlotOpened(1))
    assert list(state.kept.items()) == kept == [("a", on(0)), ("b", on(1)), ("c", on(2))]
    assert state.held.used(0).tolist() == held


def test_a_policy_cannot_write_into_what_is_kept() -> None:
    class Writing(Scripted):
        def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
            state.kept["a"] = on(0, 9)  # type: ignore[index]  # a mapping, not to be written to
            return state.kept

    scheduler = Scheduler(machines({"gpu": 1.0}), Writing({}), slot_seconds=1.0, horizon=9)
    scheduler.handle(JobArrived(0, gang("a", 1, 3)))
    with pytest.raises(TypeError, match="item assignment"):
        scheduler.handle(SlotOpened(0))


@pytest.mark.parametrize(("placed", "words"), [(p, w) for p, w in BROKEN_PLACEMENTS if set(p) == {"a"}])
def test_a_policy_that_commits_what_cannot_be_is_refused_by_its_name(
    watch: Watch, placed: dict[str, Placement], words: str
) -> None:
    broken = Schedule((0, 1, 2), (on(0, 2), on(0, 2), placed["a"]), (2.0, 2.0, 2.0))
    watched = watch(machines({"gpu": 3.0}, {"gpu": 1.0}), lambda: Promising({"a": broken}), 9)

    said = words.replace("slot 0", "slot 2").replace("slot 2: machine 'm1' would hold more gpu than it has", "'m1'")
    assert_refused(watched, JobArrived(0, PAIR), f"policy 'promising': .*{said}")
    assert not watched.used.any()


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ((), "a schedule must have rising slots"),
        ((1, 0, 2), "a schedule must have rising slots"),
        ((0, 0, 1), "a schedule must have rising slots"),
        ((0, 1, 5), r"slot must be in 0 \.\.\. 4, got 5"),
    ],
)
def test_a_schedule_in_impossible_slots_is_refused_by_the_name_of_its_policy(
    watch: Watch, slots: tuple[int, ...], words: str
) -> None:
    broken = Schedule(slots, (on(0, 2),) * len(slots), (2.0,) * len(slots))
    watched = watch(machines({"gpu": 3.0}), lambda: Promising({"a": broken}), 5)

    assert_refused(watched, JobArrived(0, PAIR), f"policy 'promising': job 'a': {words}")


def test_a_schedule_in_a_slot_that_was_opened_is_refused(watch: Watch) -> None:
    late = Schedule((0, 1, 2), (on(0, 2),) * 3, (2.0,) * 3)
    watched = watch(machines({"gpu": 3.0}), lambda: Promising({"a": late}), 5)
    watched.handle(SlotOpened(0))

    assert_refused(watched, JobArrived(0, PAIR), "policy 'promising': job 'a' must start in slot 1 or later, got 0")


def test_a_refused_commitment_may_be_submitted_again(watch: Watch) -> None:
    """The error is the policy's, not the job's."""
    schedules = {"a": Schedule((0, 1, 2), (on(0, 4),) * 3, (2.0,) * 3)}
    watched = watch(machines({"gpu": 3.0}), lambda: Promising(schedules), 5)
    with pytest.raises(SlotwiseError):
        watched.scheduler.handle(JobArrived(0, PAIR))

    schedules["a"] = Schedule((0, 1, 2), (on(0, 2),) * 3, (2.0,) * 3)

    assert watched.handle(JobArrived(0, PAIR)) == [Admit(0, "a", 2, 1.0, 0.5)]


def test_two_commitments_that_overfill_a_machine_together_are_refused(watch: Watch) -> None:
    schedule = Schedule((0, 1, 2), (on(0, 2),) * 3, (2.0,) * 3)
    watched = watch(machines({"gpu": 3.0}), lambda: Promising({"a": schedule, "b": schedule}), 5)
    watched.handle(JobArrived(0, PAIR))
    before = snapshot(watched.scheduler)

    with pytest.raises(Overcommitted, match="policy 'promising': job 'b': machine 'm0'"):
        watched.scheduler.handle(JobArrived(0, gang("b", 2, 3)))
    assert snapshot(watched.scheduler) == before


def test_a_committing_policy_that_places_more_than_it_promised_is_refused(watch: Watch) -> None:
    one = Schedule((0, 1, 2), (on(0, 2),) * 3, (2.0,) * 3)
    late = Schedule((1, 2, 3), (on(1, 2),) * 3, (2.0,) * 3)
    watched = watch(
        machines({"gpu": 3.0}, {"gpu": 3.0}), lambda: Promising({"a": one, "b": late}, {0: {"b": on(0, 2)}}), 5
    )
    watched.handle(JobArrived(0, PAIR), JobArrived(0, gang("b", 2, 3)))

    assert_refused(watched, SlotOpened(0), "policy 'promising': slot 0: machine 'm0' would hold more gpu")


def test_a_policy_may_not_use_a_lost_machine(watch: Watch) -> None:
    watched = watch(machines({"gpu": 3.0}, {"gpu": 3.0}), lambda: Scripted({0: {"a": on(1, 2)}}), 5)
    watched.handle(JobArrived(0, PAIR), MachineLost(0, "m1"))

    assert_refused(watched, SlotOpened(0), "policy 'scripted': slot 0: machine 'm1' would hold more gpu than it has")


def test_the_random_numbers_of_a_policy_come_from_the_seed() -> None:
    class Drawing(Policy):
        name: ClassVar[str] = "drawing"

        def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
            return {"a": on(int(rng.integers(50)))}

    def draws(seed: int) -> list[list[Command]]:
        scheduler = Scheduler(Cluster.uniform(50, gpu=1), Drawing(), slot_seconds=1.0, horizon=9, seed=seed)
        scheduler.handle(JobArrived(0, gang("a", 1, 9)))
        return [scheduler.handle(SlotOpened(slot)) for slot in range(6)]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


# --------------------------------------------------------------------------------------------------- random courses


class _Course(RuleBasedStateMachine):
    """Any order of events. Jobs train what they should, some at half speed, and complete when they have it all."""

    policy_name: ClassVar[str]
    rolling: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        cluster = machines(
            {"gpu": 2.0, "cpu": 2.0}, {"gpu": 1.0, "cpu": 3.0}, {"gpu": 0.0, "cpu": 2.0}, {"gpu": 2.0, "cpu": 2.0}
        )
        self.watched = Watched(cluster, lambda: policy(self.policy_name, cluster), 7, rolling=self.rolling)
        self.count = 0
        self.next_slot = 0
        self.lost: list[str] = []
        self.running: dict[str, Placement] = {}
        self.slow: set[str] = set()

    @property
    def state(self) -> State:
        return self.watched.scheduler.state

    def take(self, event: Event) -> list[Command]:
        commands = self.watched.handle(event)
        for command in commands:
            assert command.slot == event.slot
            match command:
                case Launch(_, job_id, placement):
                    assert job_id not in self.running
                    self.running[job_id] = placement
                case Resize(_, job_id, placement):
                    assert self.running[job_id] != placement
                    self.running[job_id] = placement
                case Stop(_, job_id):
                    del self.running[job_id]
                case _:
                    pass
        return commands

    @precondition(lambda self: self.next_slot < self.state.ledger.end)
    @rule(
        work=st.floats(0.5, 12.0),
        most=st.integers(1, 4),
        rigid=st.booleans(),
        gamma=st.sampled_from([None, 1.0, 2.5]),
        cpu=st.sampled_from([0.0, 0.5]),
        urgent=st.booleans(),
        slow=st.booleans(),
    )
    def arrive(
        self, work: float, most: int, rigid: bool, gamma: float | None, cpu: float, urgent: bool, slow: bool
    ) -> None:
        self.count += 1
        job = elastic(
            f"job-{self.count}",
            work,
            most,
            least=most if rigid else 1,
            arrival=self.next_slot,
            worker={"gpu": 0.5, "cpu": cpu},
            server={"cpu": 0.5},
            workers_per_server=gamma,
            utility=Deadline(5.0, 2.0) if urgent else Linear(10.0, 50.0),
        )
        if slow and self.policy_name not in COMMITTING:
            self.slow.add(job.id)
        (answer,) = self.take(JobArrived(self.next_slot, job))
        assert isinstance(answer, Admit | Reject)
        if isinstance(answer, Admit) and self.policy_name in COMMITTING:
            assert answer.completion is not None
            assert self.next_slot <= answer.completion < self.state.ledger.end

    @precondition(lambda self: self.next_slot < self.state.ledger.end)
    @rule()
    def open_and_train(self) -> None:
        slot = self.next_slot
        self.take(SlotOpened(slot))
        self.next_slot += 1
        assert self.state.running == self.running
        for job_id, placement in list(self.running.items()):
            samples = self.watched.scheduler.request(job_id).samples(placement)
            assert samples > 0.0
            self.take(Progressed(slot, job_id, samples * (0.5 if job_id in self.slow else 1.0)))
            if self.state.remaining[job_id] <= 1e-9:
                self.take(JobCompleted(slot, job_id))
                del self.running[job_id]

    @precondition(lambda self: self.state.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.state.jobs)))
        runs = job_id in self.running
        commands = self.take(JobCancelled(self.next_slot, job_id))
        assert commands == ([Stop(self.next_slot, job_id)] if runs else [])

    @precondition(lambda self: len(self.lost) < 3)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        names = [name for name in self.watched.cluster.names if name not in self.lost]
        name = data.draw(st.sampled_from(names))
        index = self.watched.cluster.names.index(name)
        hit = {
            job_id
            for job_id, schedule in self.watched.scheduler.schedules.items()
            for slot, placement in zip(schedule.slots, schedule.placements, strict=True)
            if slot >= self.next_slot and index in placement.machines
        }
        commands = self.take(MachineLost(self.next_slot, name))
        self.lost.append(name)
        answered = [command.job_id for command in commands if isinstance(command, Admit | Reject)]
        assert sorted(answered) == sorted(hit)
        assert all(c.reason is Reason.MACHINE_LOST for c in commands if isinstance(c, Reject))

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def join(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.lost))
        self.lost.remove(name)
        assert self.take(MachineJoined(self.next_slot, name)) == []

    @rule(data=st.data())
    def something_impossible(self, data: st.DataObject) -> None:
        wrong: list[Event] = [
            Progressed(self.next_slot, "nobody", 1.0),
            JobCompleted(self.next_slot, "nobody"),
            JobCancelled(self.next_slot, "nobody"),
            SlotOpened(self.next_slot - 1),
            SlotOpened(self.state.ledger.end),
            MachineLost(self.next_slot, "nowhere"),
            MachineJoined(self.next_slot, "nowhere"),
            *(JobArrived(self.next_slot, gang(job_id, 1)) for job_id in self.state.jobs),
            *(JobCompleted(self.next_slot, job_id) for job_id in self.state.jobs),
        ]
        assert_refused(self.watched, data.draw(st.sampled_from(wrong)), ".")

    @invariant()
    def nothing_contradicts(self) -> None:
        self.watched.check()
        lost = [self.watched.cluster.names.index(name) for name in self.lost]
        assert not self.watched.used[:, lost].any()
        assert list(self.state.jobs) == sorted(self.state.jobs, key=lambda job_id: int(job_id[4:]))

    def teardown(self) -> None:
        self.watched.check_replay()
        if not self.slow:
            assert_feasible(self.watched.cluster, self.watched.log, 1.0)


class _PdorsFixed(_Course):
    policy_name, rolling = "pdors", False


class _PdorsRolling(_Course):
    policy_name, rolling = "pdors", True


class _OasisFixed(_Course):
    policy_name, rolling = "oasis", False


class _OasisRolling(_Course):
    policy_name, rolling = "oasis", True


class _Fifo(_Course):
    policy_name, rolling = "fifo", True


class _FifoBackfill(_Course):
    policy_name, rolling = "fifo-backfill", True


class _Srtf(_Course):
    policy_name, rolling = "srtf", True


class _Las(_Course):
    policy_name, rolling = "las", True


class _Optimus(_Course):
    policy_name, rolling = "optimus", True


class _Drf(_Course):
    policy_name, rolling = "drf", True


_COURSES = settings(max_examples=40, stateful_step_count=25)

TestPdorsOverAFixedHorizon = _PdorsFixed.TestCase
TestPdorsOverAFixedHorizon.settings = _COURSES
TestPdorsOverARollingHorizon = _PdorsRolling.TestCase
TestPdorsOverARollingHorizon.settings = _COURSES
TestOasisOverAFixedHorizon = _OasisFixed.TestCase
TestOasisOverAFixedHorizon.settings = _COURSES
TestOasisOverARollingHorizon = _OasisRolling.TestCase
TestOasisOverARollingHorizon.settings = _COURSES
TestFifoOverARollingHorizon = _Fifo.TestCase
TestFifoOverARollingHorizon.settings = _COURSES
TestFifoBackfillOverARollingHorizon = _FifoBackfill.TestCase
TestFifoBackfillOverARollingHorizon.settings = _COURSES
TestSrtfOverARollingHorizon = _Srtf.TestCase
TestSrtfOverARollingHorizon.settings = _COURSES
TestLasOverARollingHorizon = _Las.TestCase
TestLasOverARollingHorizon.settings = _COURSES
TestOptimusOverARollingHorizon = _Optimus.TestCase
TestOptimusOverARollingHorizon.settings = _COURSES
TestDrfOverARollingHorizon = _Drf.TestCase
TestDrfOverARollingHorizon.settings = _COURSES


def test_a_policy_that_places_nothing_at_all_is_named() -> None:
    class Forgetful(Policy):
        name = "forgetful"

        def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
            return None  # type: ignore[return-value]  # what a policy that forgot its return gives

    scheduler = Scheduler(machines({"gpu": 1.0}), Forgetful(), slot_seconds=1.0, horizon=2)
    with pytest.raises(SlotwiseError, match=r"policy 'forgetful': place must return a mapping .*, got None"):
        scheduler.handle(SlotOpened(0))


def test_a_policy_without_a_name_is_told_so() -> None:
    class Nameless(Policy):
        def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
            return {}

    with pytest.raises(InvalidInput, match="policy Nameless must have a class attribute name"):
        simulate(Nameless(), machines({"gpu": 1.0}), [], horizon=1, slot_seconds=1.0)
