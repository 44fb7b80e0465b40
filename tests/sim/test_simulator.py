from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np
import pytest
from tests.builders import (
    HOUR,
    PLACING,
    POLICIES,
    Log,
    completions,
    decisions,
    drawn,
    elastic,
    gang,
    machines,
    orders,
    play,
)
from tests.sim.feasible import assert_feasible, steps

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.events import (
    Admit,
    JobCompleted,
    Launch,
    Progressed,
    Resize,
    SlotOpened,
    Stop,
)
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Decision, Placement
from slotwise.model.speed import AllReduceSpeed
from slotwise.model.utility import Linear
from slotwise.policies._base import Policy, State
from slotwise.policies.fifo import Fifo
from slotwise.sim.simulator import simulate

ON_M0 = Placement((0,), (1,), (0,))
ON_M1 = Placement((1,), (1,), (0,))


class Scripted(Policy):
    """Places what a function of the slot says, of jobs that still run."""

    name: ClassVar[str] = "scripted"

    def __init__(self, script: Callable[[int], dict[str, Placement]]) -> None:
        self._script = script

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return {job_id: p for job_id, p in self._script(state.slot).items() if job_id in state.jobs}


def progress(log: Log) -> list[float]:
    return [item.samples for item in log if isinstance(item, Progressed)]


# ------------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("horizon", [3, 2, 1])
def test_a_horizon_before_an_arrival_is_refused_with_value_and_bound(horizon: int) -> None:
    with pytest.raises(InvalidInput, match=rf"horizon must be > the arrival of job 'late' \(3\), got {horizon}$"):
        simulate(Fifo(), machines({"gpu": 1.0}), [gang("late", 1, arrival=3)], horizon=horizon, slot_seconds=1.0)


@pytest.mark.parametrize("horizon", [0, -1])
def test_a_horizon_below_one_is_refused(horizon: int) -> None:
    with pytest.raises(InvalidInput, match=rf"horizon must be >= 1, got {horizon}$"):
        simulate(Fifo(), machines({"gpu": 1.0}), [], horizon=horizon, slot_seconds=1.0)


@pytest.mark.parametrize("slot_seconds", [0.0, -1.0, math.nan, math.inf])
def test_a_slot_without_a_length_is_refused(slot_seconds: float) -> None:
    with pytest.raises(InvalidInput, match=f"slot_seconds must be > 0 and finite, got {slot_seconds}"):
        simulate(Fifo(), machines({"gpu": 1.0}), [gang("a", 1)], horizon=2, slot_seconds=slot_seconds)


def test_an_id_that_occurs_twice_is_refused_before_anything_runs() -> None:
    log: Log = []

    with pytest.raises(InvalidInput, match="'a' twice"):
        simulate(
            Fifo(),
            machines({"gpu": 1.0}),
            [gang("a", 1), gang("a", 1, arrival=1)],
            horizon=2,
            slot_seconds=1.0,
            log=log.append,
        )
    assert log == []


# ------------------------------------------------------------------------------------------------------- the clock


@pytest.mark.parametrize("name", POLICIES)
def test_every_slot_is_opened_once_in_order_after_the_arrivals_of_that_slot(name: str) -> None:
    jobs = [gang("a", 1, arrival=2), gang("b", 1), gang("c", 1, arrival=2)]

    _, log = play(name, machines({"gpu": 3.0}), jobs, 4)

    events = [event for event, _ in steps(log)]
    assert [e.slot for e in events if isinstance(e, SlotOpened)] == [0, 1, 2, 3]
    opened = {e.slot: events.index(e) for e in events if isinstance(e, SlotOpened)}
    places = {item.job_id: [e for e, c in steps(log) if item in c] for item in decisions(log)}
    assert all(events.index(where[0]) < opened[where[0].slot] for where in places.values())
    assert [item.job_id for item in decisions(log)] == ["b", "a", "c"]


def test_progress_is_called_with_the_slots_played_so_far() -> None:
    seen: list[int] = []

    simulate(Fifo(), machines({"gpu": 1.0}), [], horizon=4, slot_seconds=1.0, progress=seen.append)

    assert seen == [1, 2, 3, 4]


def test_a_job_trains_at_the_bandwidth_of_its_placement() -> None:
    """All-reduce of two workers, tau F / W = 1 s and 2 g (W - 1) / (W b) = 1 s inside a machine, 4 s across."""
    cluster = machines({"gpu": 2.0}, {"gpu": 1.0}, bandwidth=(4.0, 1.0))
    job = Job("a", 0, 1e3, 2, {"gpu": 1.0}, AllReduceSpeed(1.0, 4.0), Linear(1.0, 1e4), min_workers=2, max_workers=2)
    apart = Placement((0, 1), (1, 1), (0, 0))
    together = Placement((0,), (2,), (0,))

    _, log = play(
        Scripted(lambda slot: {"a": together if slot % 2 else apart}), cluster, [job], 2000, slot_seconds=10.0
    )

    assert progress(log)[:4] == pytest.approx([4.0, 10.0, 4.0, 10.0])
    assert_feasible(cluster, log, 10.0)


def test_a_completed_job_is_reported_in_the_slot_that_trains_its_last_sample_and_never_runs_again() -> None:
    _, log = play(Scripted(lambda _: {"a": ON_M0}), machines({"gpu": 1.0}), [gang("a", 1, 2.5)], 6)

    assert completions(log) == {"a": 2}
    assert [item for item in log if isinstance(item, JobCompleted)] == [JobCompleted(2, "a")]
    assert progress(log) == [1.0, 1.0, 1.0]
    assert orders(log) == [Launch(0, "a", ON_M0)]


def test_a_paused_job_keeps_its_progress() -> None:
    script = {0: {"a": ON_M0}, 1: {}, 2: {"a": ON_M0}, 3: {"a": ON_M1}}

    run, log = play(
        Scripted(lambda slot: script.get(slot, {})), machines({"gpu": 1.0}, {"gpu": 1.0}), [gang("a", 1, 3)], 6
    )

    assert orders(log) == [
        Launch(0, "a", ON_M0),
        Stop(1, "a"),
        Launch(2, "a", ON_M0),
        Resize(3, "a", ON_M1),
    ]
    assert completions(log) == {"a": 3}
    assert run.records["a"].active_slots == 3


# ------------------------------------------------------------------------------------------------- restart_seconds


def _restarting(work: float) -> Job:
    return elastic("a", work, 1, restart_seconds=2.0)


def test_a_restart_is_charged_in_the_first_slot_only_while_the_placement_stays() -> None:
    _, log = play(Scripted(lambda _: {"a": ON_M0}), machines({"gpu": 1.0}), [_restarting(28.0)], 8, slot_seconds=10.0)

    assert progress(log) == pytest.approx([8.0, 10.0, 10.0])
    assert completions(log) == {"a": 2}


def test_a_restart_is_charged_whenever_the_placement_changes() -> None:
    policy = Scripted(lambda slot: {"a": ON_M1 if slot % 2 else ON_M0})

    _, log = play(policy, machines({"gpu": 1.0}, {"gpu": 1.0}), [_restarting(28.0)], 8, slot_seconds=10.0)

    assert progress(log) == pytest.approx([8.0, 8.0, 8.0, 8.0])
    assert completions(log) == {"a": 3}


def test_a_restart_is_charged_after_a_pause_though_the_placement_is_the_same() -> None:
    policy = Scripted(lambda slot: {} if slot == 1 else {"a": ON_M0})

    _, log = play(policy, machines({"gpu": 1.0}), [_restarting(26.0)], 8, slot_seconds=10.0)

    assert progress(log) == pytest.approx([8.0, 8.0, 10.0])
    assert completions(log) == {"a": 3}


def test_a_job_that_never_restarts_in_fact_finishes_no_later_than_its_promise() -> None:
    """Plans charge the restart in every slot: 28 samples at 8 a slot are promised for slot 3; 8 + 10 + 10 suffice."""
    run, log = play("pdors", machines({"gpu": 1.0}), [_restarting(28.0)], 8, slot_seconds=10.0)

    assert [item.completion for item in decisions(log) if isinstance(item, Admit)] == [3]
    assert completions(log) == {"a": 2}
    assert run.records["a"].utility == pytest.approx(100.0 * (1 - 2 / 1000))


def test_what_an_early_finisher_was_promised_is_free_again() -> None:
    jobs = [_restarting(28.0), elastic("b", 10.0, 1, arrival=3)]

    _, log = play("pdors", machines({"gpu": 1.0}), jobs, 8, slot_seconds=10.0)

    assert completions(log) == {"a": 2, "b": 3}


# -------------------------------------------------------------------------------------------------------- promises


@pytest.mark.parametrize("prices", ["learnt", "scale=0.1"])
@pytest.mark.parametrize(
    ("jobs", "count", "horizon", "seed"), [(100, 30, 20, 0), (100, 10, 20, 1), (60, 3, 30, 2), (200, 20, 15, 3)]
)
def test_pdors_keeps_every_promise_to_the_slot(jobs: int, count: int, horizon: int, seed: int, prices: str) -> None:
    cluster, arrivals = drawn(jobs, count, horizon, seed)

    run, log = play("pdors", cluster, arrivals, horizon, prices=prices, slot_seconds=HOUR)

    promises = assert_feasible(cluster, log, HOUR)
    assert promises
    assert completions(log) == promises
    for record in run.records.values():
        assert record.completed == record.promised
        if record.schedule is not None:
            assert record.schedule.completion == record.promised
            assert record.active_slots == len(record.schedule.slots)


@pytest.mark.parametrize("name", PLACING)
@pytest.mark.parametrize(("jobs", "count", "horizon", "seed"), [(100, 30, 20, 0), (100, 5, 20, 1), (200, 20, 15, 3)])
def test_placing_policies_never_overcommit(name: str, jobs: int, count: int, horizon: int, seed: int) -> None:
    cluster, arrivals = drawn(jobs, count, horizon, seed)

    _, log = play(name, cluster, arrivals, horizon, slot_seconds=HOUR)

    assert set(assert_feasible(cluster, log, HOUR).values()) == {None}
    assert orders(log)


def test_the_recorded_utility_is_what_was_admitted_for() -> None:
    cluster, arrivals = drawn(100, 30, 20, 0)

    run, log = play("pdors", cluster, arrivals, 20, prices="learnt", slot_seconds=HOUR)

    admitted = [item for item in decisions(log) if isinstance(item, Admit)]
    assert admitted
    for item in admitted:
        assert run.records[item.job_id].utility == item.utility
        assert item.utility > item.cost
    assert run.total_utility == pytest.approx(math.fsum(item.utility for item in admitted))


# ------------------------------------------------------------------------------------------------------ the checker


def _overfull(log: Log) -> Log:
    """Two jobs in the room of one."""
    moved: Log = []
    for item in log:
        if isinstance(item, Launch):
            item = Launch(item.slot, item.job_id, ON_M0)
        moved.append(item)
    return moved


def test_the_checker_of_these_tests_sees_an_overcommitted_machine() -> None:
    cluster: Cluster = machines({"gpu": 1.0}, {"gpu": 1.0})
    _, log = play("fifo", cluster, [gang("a", 1, 2), gang("b", 1, 2)], 3)
    assert_feasible(cluster, log, 1.0)

    with pytest.raises(AssertionError, match="m0 holds 2"):
        assert_feasible(cluster, _overfull(log), 1.0)


def test_the_checker_of_these_tests_sees_a_torn_gang() -> None:
    cluster: Cluster = machines({"gpu": 2.0})
    _, log = play("fifo", cluster, [gang("a", 2, 2)], 3)
    torn: Log = [Launch(i.slot, i.job_id, ON_M0) if isinstance(i, Launch) else i for i in log]

    with pytest.raises(AssertionError, match="runs with 1 workers"):
        assert_feasible(cluster, torn, 1.0)


def test_a_policy_class_in_place_of_an_instance_is_bad_input() -> None:
    cluster = Cluster.uniform(1, gpu=1)
    with pytest.raises(InvalidInput, match="policy must be a name or an instance of Policy, got <class"):
        simulate(Fifo, cluster, [], horizon=1, slot_seconds=1.0)  # type: ignore[arg-type]


def test_a_policy_whose_admit_returns_no_decision_is_named() -> None:
    class Careless(Fifo):
        name = "careless"

        def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
            return False  # type: ignore[return-value]

    cluster = Cluster.uniform(1, gpu=1)
    with pytest.raises(SlotwiseError, match="policy 'careless': admit must return a Decision, got False"):
        simulate(Careless(), cluster, [gang("a", 1)], horizon=1, slot_seconds=1.0)
