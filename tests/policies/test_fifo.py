from __future__ import annotations

import numpy as np
import pytest
from tests.builders import completions, elastic, gang, machines, occupancy, orders, play
from tests.sim.feasible import assert_feasible

from slotwise.events import JobArrived, Launch, MachineJoined, MachineLost, Resize, SlotOpened, Stop
from slotwise.model.job import Job
from slotwise.model.schedule import Placement
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Deadline, Linear
from slotwise.policies.fifo import Fifo
from slotwise.scheduler import Scheduler


def first_workers(job: Job, gpus: float, horizon: int) -> int:
    """Workers that the job starts with on one machine of its own."""
    _, log = play("fifo", machines({"gpu": gpus}), [job], horizon)
    placements = [order.placement for order in orders(log) if isinstance(order, Launch)]
    assert len(placements) == 1
    assert len(orders(log)) == 1, "the size is fixed"
    return placements[0].total_workers


def test_jobs_start_in_order_of_arrival_and_the_head_blocks_those_behind() -> None:
    cluster = machines({"gpu": 4.0})

    _, log = play("fifo", cluster, [gang("a", 3, 2), gang("b", 2, 1), gang("c", 1, 1)], 5)

    # One GPU is free in slots 0 and 1, and c would fit; b is before it.
    assert [set(slot) for slot in occupancy(log, 5)] == [{"a"}, {"a"}, {"b", "c"}, set(), set()]


def test_arrival_slots_come_before_the_order_of_the_list() -> None:
    _, log = play("fifo", machines({"gpu": 1.0}), [gang("late", 1, arrival=1), gang("early", 1, 2)], 4)

    assert completions(log) == {"early": 1, "late": 2}


def test_a_running_job_keeps_its_place_while_others_come_and_go() -> None:
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0})
    jobs = [gang("a", 1, 6), *(gang(f"s{i}", 1, 1, arrival=i) for i in range(6))]

    _, log = play("fifo", cluster, jobs, 7)

    assert [type(order) for order in orders(log) if order.job_id == "a"] == [Launch]
    assert not any(isinstance(order, Resize | Stop) for order in orders(log))


def test_a_trace_job_runs_with_the_workers_that_its_owner_asked_for() -> None:
    assert first_workers(elastic("a", 12.0, 8, requested=3), 8.0, 10) == 3


def test_a_request_that_could_not_finish_by_the_horizon_is_raised_to_the_fewest_that_can() -> None:
    assert first_workers(elastic("a", 12.0, 8, requested=1), 8.0, 12) == 1
    assert first_workers(elastic("a", 12.0, 8, requested=1), 8.0, 11) == 2
    assert first_workers(elastic("a", 12.0, 8, requested=1), 8.0, 4) == 3
    assert first_workers(elastic("a", 12.0, 8, requested=2), 8.0, 2) == 6


def test_a_request_for_more_than_the_cluster_holds_becomes_what_it_holds() -> None:
    assert first_workers(elastic("a", 12.0, 8, requested=8), 5.0, 10) == 5


@pytest.mark.parametrize(("target", "workers"), [(0, 8), (1, 4), (2, 3), (3, 2), (6, 2), (7, 1), (50, 1)])
def test_a_job_without_a_request_takes_the_fewest_workers_that_meet_its_target_alone(target: int, workers: int) -> None:
    """Eight worker-slots; finishing ``target`` slots after arrival leaves target + 1 slots."""
    assert first_workers(elastic("a", 8.0, 8, utility=Deadline(1.0, target)), 8.0, 40) == workers


def test_the_target_never_lies_beyond_the_horizon() -> None:
    assert first_workers(elastic("a", 8.0, 8, utility=Deadline(1.0, 50.0)), 8.0, 4) == 2


def test_a_target_that_cannot_be_met_gets_the_fewest_workers_that_finish_by_the_horizon() -> None:
    job = elastic("a", 100.0, 8, utility=Deadline(1.0, 2.0))

    assert first_workers(job, 8.0, 40) == 3
    assert first_workers(job, 8.0, 13) == 8


@pytest.mark.parametrize(("work", "horizon", "workers"), [(8.0, 40, 4), (10.0, 2, 8)])
def test_a_size_is_found_at_the_speed_across_machines_unless_only_one_machine_is_fast_enough(
    work: float, horizon: int, workers: int
) -> None:
    """One worker trains 1/2 sample a second across machines and 2/3 inside one; the target leaves four slots."""
    job = Job(
        id="a",
        arrival=0,
        workload=work,
        batch_size=8,
        worker_demand={"gpu": 1.0},
        server_demand={"cpu": 1.0},
        speed=PaperSpeed(1.0, 4.0, 1.0),
        utility=Deadline(1.0, 3.0),
    )

    _, log = play("fifo", machines({"gpu": 8.0, "cpu": 8.0}, bandwidth=(2.0, 1.0)), [job], horizon)

    assert [o.placement.total_workers for o in orders(log) if isinstance(o, Launch)] == [workers]


def test_a_gang_that_shares_a_machine_goes_to_the_fullest_that_holds_it() -> None:
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0}, {"gpu": 4.0})

    _, log = play("fifo", cluster, [gang("a", 3, 5), gang("b", 2, 5), gang("c", 2, 5), gang("d", 1, 5)], 5)

    placements = {order.job_id: order.placement for order in orders(log) if isinstance(order, Launch)}
    assert placements == {
        "a": Placement((0,), (3,), (0,)),
        "b": Placement((1,), (2,), (0,)),
        "c": Placement((1,), (2,), (0,)),
        "d": Placement((0,), (1,), (0,)),
    }


def test_the_fullest_machine_comes_first_wherever_it_is() -> None:
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0})

    _, log = play("fifo", cluster, [gang("a", 2, 5), gang("b", 3, 5), gang("c", 1, 5)], 5)

    placements = {order.job_id: order.placement for order in orders(log) if isinstance(order, Launch)}
    assert placements["b"].machines == (1,)
    assert placements["c"] == Placement((1,), (1,), (0,))


def test_a_gang_that_no_machine_holds_spreads_over_as_full_machines_as_possible() -> None:
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0}, {"gpu": 4.0})

    _, log = play("fifo", cluster, [gang("a", 3, 5), gang("b", 2, 5), gang("c", 5, 5)], 5)

    placements = {order.job_id: order.placement for order in orders(log) if isinstance(order, Launch)}
    assert placements["c"] == Placement((0, 1, 2), (1, 2, 2), (0, 0, 0))


def test_a_job_displaced_by_a_lost_machine_moves_and_comes_before_those_who_wait() -> None:
    scheduler = Scheduler(machines({"gpu": 2.0}, {"gpu": 2.0}), Fifo(), slot_seconds=1.0, horizon=50)
    for job in (gang("a", 2, 9), gang("b", 1, 9), gang("c", 2, 9), gang("d", 1, 9)):
        scheduler.handle(JobArrived(0, job))
    started = scheduler.handle(SlotOpened(0))
    assert started == [Launch(0, "a", Placement((0,), (2,), (0,))), Launch(0, "b", Placement((1,), (1,), (0,)))]

    scheduler.handle(MachineLost(0, "m0"))

    # One GPU is left beside b; a, at the head again, blocks d from it.
    assert scheduler.handle(SlotOpened(1)) == [Stop(1, "a")]
    scheduler.handle(MachineJoined(1, "m0"))
    assert scheduler.handle(SlotOpened(2)) == [Launch(2, "a", Placement((0,), (2,), (0,)))]


@pytest.mark.parametrize("workers_per_server", [None, 1.0, 2.5])
@pytest.mark.parametrize("gradient_mb", [0.0, 40.0])
def test_jobs_calibrated_to_their_recorded_durations_finish_in_them_within_a_slot(
    workers_per_server: float | None, gradient_mb: float
) -> None:
    """The yardstick: one worker a machine, one-minute slots, nobody waits; D seconds take ceil(D / 60) slots."""
    slot_seconds, between = 60.0, 625.0
    cluster = machines(*[{"gpu": 1.0, "cpu": 3.0}] * 60, bandwidth=(6250.0, between))
    rng = np.random.default_rng(4)
    jobs, durations = [], {}
    for i, workers in enumerate((2, 3, 4, 5, 6, 7, 8, 9, 10)):
        speed = (
            AllReduceSpeed(0.02, gradient_mb)
            if workers_per_server is None
            else PaperSpeed(0.02, gradient_mb, workers_per_server)
        )
        duration = float(rng.uniform(30.0, 4000.0)) if i % 3 else 60.0 * int(rng.integers(1, 60))
        per_second = float(speed.samples_per_second(np.array([workers]), np.array([1]), 256, between)[0])
        durations[f"job-{i}"] = duration
        jobs.append(
            Job(
                id=f"job-{i}",
                arrival=3 * i,
                workload=per_second * duration,
                batch_size=256,
                worker_demand={"gpu": 1.0, "cpu": 1.0},
                server_demand={"cpu": 1.0},
                speed=speed,
                utility=Linear(10.0, 1000.0),
                max_workers=2 * workers,
                requested_workers=workers,
            )
        )

    run, log = play("fifo", cluster, jobs, 120, slot_seconds=slot_seconds)

    assert_feasible(cluster, log, slot_seconds)
    took = {r.id: r.completed - r.arrival + 1 for r in run.records.values() if r.completed is not None}
    assert took == {name: -int(-durations[name] // slot_seconds) for name in durations}
    assert all(r.started == r.arrival for r in run.records.values())
