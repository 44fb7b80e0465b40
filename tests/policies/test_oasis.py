from __future__ import annotations

import numpy as np
import pytest
from tests.builders import HOUR, completions, decisions, drawn, elastic, gang, machines, orders, play, policy
from tests.sim.feasible import assert_feasible

from slotwise.events import Admit, JobArrived, Launch, MachineJoined, MachineLost, Progressed, Reject, SlotOpened
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed
from slotwise.model.utility import Deadline, Linear
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import calibration
from slotwise.optim.split import Split
from slotwise.policies import catalogue
from slotwise.policies.oasis import Oasis
from slotwise.scheduler import Scheduler
from slotwise.sim.simulator import simulate


def pair(name: str = "a", workers: int = 1, slots: float = 1.0, *, value: float = 100.0, cpu: float = 0.0) -> Job:
    """A gang with a server for each worker; both take a GPU, a server ``cpu`` besides."""
    server = {"gpu": 1.0, "cpu": cpu} if cpu else {"gpu": 1.0}
    return gang(name, workers, slots, server=server, workers_per_server=1.0, utility=Deadline(value, 5.0))


def launched(cluster: Cluster, *jobs: Job) -> dict[str, Placement]:
    _, log = play("oasis", cluster, list(jobs), 6)
    assert_feasible(cluster, log, 1.0)
    return {order.job_id: order.placement for order in orders(log) if isinstance(order, Launch)}


def test_workers_and_servers_are_on_machines_apart() -> None:
    """Of two machines the second is for servers; pdors puts all of it on one, where there is room."""
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0})

    assert launched(cluster, pair(workers=2)) == {"a": Placement((0, 1), (2, 0), (0, 2))}
    _, log = play("pdors", cluster, [pair(workers=2)], 6)
    assert [order.placement for order in orders(log) if isinstance(order, Launch)] == [Placement((0,), (2,), (2,))]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("prices", ["learnt", "scale=1e-3", "literal"])
def test_no_machine_ever_holds_workers_and_servers_and_every_promise_is_kept(seed: int, prices: str) -> None:
    cluster, jobs = drawn(100, 12, 20, seed)
    chosen = catalogue.make("oasis", cluster, jobs, slot_seconds=HOUR, horizon=20, prices=prices)

    run, log = play(chosen, cluster, jobs, 20, slot_seconds=HOUR)

    # Nothing has less than the widest level's speed, and jobs with servers have no other: promises hold to the slot.
    assert completions(log) == assert_feasible(cluster, log, HOUR)
    placements = [order.placement for order in orders(log) if isinstance(order, Launch)]
    assert placements
    sides = [
        {m for p in placements for m, count in zip(p.machines, getattr(p, role), strict=True) if count}
        for role in ("workers", "servers")
    ]
    assert not sides[0] & sides[1]
    assert run.total_utility == pytest.approx(sum(i.utility for i in decisions(log) if isinstance(i, Admit)))


@pytest.mark.parametrize(
    ("cluster", "detail"),
    [
        (machines({"gpu": 2.0}), "with workers on 1 machine and servers on 0 others there is no room for 1 worker "),
        (
            machines({"gpu": 2.0, "cpu": 2.0}, {"gpu": 4.0, "cpu": 1.0}),
            "with workers on 1 machine and servers on 1 other there is no room for 1 worker ",
        ),
    ],
    ids=["one machine", "servers fit on the workers' machine only"],
)
def test_what_the_split_has_no_room_for_is_turned_away_though_pdors_runs_it(cluster: Cluster, detail: str) -> None:
    job = pair(cpu=2.0 if len(cluster) > 1 else 0.0)

    _, log = play("oasis", cluster, [job], 6)

    assert decisions(log) == [Reject(0, "a", Reason.NEVER_FITS, detail + "and 1 server")]
    assert completions(play("pdors", cluster, [job], 6)[1]) == {"a": 0}


def test_what_the_workers_machines_cannot_train_in_time_has_no_time_left() -> None:
    """Sixteen worker-slots: four slots on two machines of two, eight on the one that is for workers."""
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0})
    job = elastic("a", 16.0, 4)

    _, log = play("oasis", cluster, [job], 6)

    assert decisions(log) == [
        Reject(
            0,
            "a",
            Reason.NO_TIME_LEFT,
            "with workers on 1 machine and servers on 1 other: needs 8 slots even alone on the cluster, 6 are left "
            "before the horizon (6)",
        )
    ]
    assert completions(play("pdors", cluster, [job], 6)[1]) == {"a": 3}


def test_each_side_has_prices_that_only_its_own_use_moves() -> None:
    """Of two machines of two GPUs each costs 2 a slot empty, a GPU 1; worth at most 16, a GPU costs 16^(used / 2).

    Two workers cost 1 and 4 (the second beside the first); the server of the third job, on an empty machine, 1 beside
    16 for a worker on a full one: there is none, but in the next slot both are empty, for 1 + 1.
    """
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0})
    alone = [gang(f"j{i}", 1, utility=Deadline(16.0, 0.0)) for i in range(2)]

    _, log = play("oasis", cluster, [alone[0], pair("p", value=16.0), alone[1]], 2, prices="scale=2")

    costs = [item.cost for item in decisions(log) if isinstance(item, Admit)]
    # p: a worker beside the first one, or in the next slot for no less utility.
    assert costs[0] == pytest.approx(1.0)
    assert costs[1] == pytest.approx(2.0)
    assert costs[2] == pytest.approx(4.0)
    assert [(o.slot, o.job_id) for o in orders(log) if isinstance(o, Launch)] == [(0, "j0"), (0, "j1"), (1, "p")]


@pytest.mark.parametrize(("value", "answer"), [(6.001, Admit), (6.0, Reject), (5.999, Reject)])
@pytest.mark.parametrize("servers", [False, True], ids=["two slots", "a worker and a server"])
def test_a_job_is_in_exactly_if_it_is_worth_more_than_empty_machines_cost(
    servers: bool, value: float, answer: type
) -> None:
    """A machine of one GPU costs 3 a slot on either side."""
    job = pair(value=value) if servers else gang("a", 1, 2, utility=Deadline(value, 5.0))

    _, log = play("oasis", machines({"gpu": 1.0}, {"gpu": 1.0}), [job], 6, prices="scale=3")

    assert [type(item) for item in decisions(log)] == [answer]


def test_a_job_that_lies_in_one_machine_ends_before_it_was_promised_to() -> None:
    """Two workers: tau F / W = 1 s and 2 g (W - 1) / (W b) = 1 s in a machine, 4 s across: 1 or 0.4 a second."""
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0}, bandwidth=(4.0, 1.0))
    job = Job("a", 0, 4.0, 2, {"gpu": 1.0}, AllReduceSpeed(1.0, 4.0), Linear(9.0, 99.0), min_workers=2, max_workers=2)

    _, log = play("oasis", cluster, [job], 12)

    assert [item.completion for item in decisions(log) if isinstance(item, Admit)] == [9]
    assert completions(log) == {"a": 3}


def test_a_job_of_one_rack_has_workers_and_servers_in_it() -> None:
    """The second machine of each of two racks is for servers."""
    places = "aabb"
    listed = [Machine(f"m{i}", {"gpu": 1.0}, {"rack": rack}) for i, rack in enumerate(places)]
    cluster = Cluster.of(listed, (4.0, 2.0, 1.0), ("machine", "rack", "cluster"))
    bound = [
        Job(n, 0, 2.0, 1, {"gpu": 1.0}, pair().speed, Linear(9.0, 99.0), {"gpu": 1.0}, domain="rack") for n in "xy"
    ]
    split = Split(cluster, 1.0, np.array([1, 3]))

    _, log = play(Oasis(split, Planner(), calibration("scale=1e-6", split.cluster, (), 9)), cluster, bound, 9)

    assert_feasible(cluster, log, 1.0)
    assert {o.job_id: o.placement for o in orders(log) if isinstance(o, Launch)} == {
        "x": Placement((0, 1), (1, 0), (0, 1)),
        "y": Placement((2, 3), (1, 0), (0, 1)),
    }


def test_servers_that_demand_nothing_are_on_machines_for_servers() -> None:
    job = gang("a", 2, 2, server={}, workers_per_server=1.0)

    assert launched(machines({"gpu": 1.0}, {"gpu": 1.0}, {"gpu": 1.0}), job) == {
        "a": Placement((0, 1, 2), (1, 1, 0), (0, 0, 2))
    }


def test_bytes_add_up_exactly_on_both_sides() -> None:
    """Ten MiB hold ten jobs of one; to a millionth of a GiB a job would take 977 of 9,766, and the tenth nothing."""
    cluster = machines({"gpu": 64.0, "memory": 10 / 1024}, {"gpu": 64.0, "memory": 10 / 1024})
    one = {"memory": 1 / 1024}
    jobs = [
        gang(f"j{i}", 1, worker=one, server=one, workers_per_server=1.0, utility=Deadline(9.0, 0.0)) for i in range(11)
    ]

    run, log = play("oasis", cluster, jobs, 1)

    assert_feasible(cluster, log, 1.0)
    assert len(completions(log)) == 10
    assert run.utilization["memory"] == 1.0


def test_after_a_lost_machine_the_rest_is_planned_on_what_is_left_of_its_side() -> None:
    """Eight samples at two a slot; after one slot m0 is lost, and m1 alone trains the other six."""
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0}, {"gpu": 2.0})
    scheduler = Scheduler(cluster, policy("oasis", cluster), slot_seconds=1.0, horizon=20)
    scheduler.handle(JobArrived(0, elastic("a", 8.0, 2)))
    scheduler.handle(SlotOpened(0))
    scheduler.handle(Progressed(0, "a", 2.0))

    (moved,) = scheduler.handle(MachineLost(0, "m0"))
    assert isinstance(moved, Admit)
    assert moved.completion == 3
    assert {p.machines for p in scheduler.schedules["a"].placements} == {(1,)}

    # m2 is for servers.
    (refused,) = [c for c in scheduler.handle(MachineLost(0, "m1")) if isinstance(c, Reject)]
    assert refused == Reject(0, "a", Reason.MACHINE_LOST, "what is left of the cluster cannot train the rest in time")

    scheduler.handle(MachineJoined(0, "m1"))
    (again,) = scheduler.handle(JobArrived(1, elastic("b", 4.0, 2, arrival=1)))
    assert isinstance(again, Admit)
    assert {p.machines for p in scheduler.schedules["b"].placements} == {(1,)}


def test_with_learnt_prices_an_idle_cluster_takes_a_job_worth_less_than_all_before() -> None:
    """As under pdors: the third job comes while the second runs, and is worth less than the first, of 100."""
    jobs = [
        gang("dense", 1, 1, utility=Deadline(100.0, 0.0)),
        gang("poor", 1, 2, arrival=3, utility=Deadline(1.0, 1.0)),
        gang("late", 1, 2, arrival=3, utility=Deadline(2.0, 3.0)),
    ]

    _, log = play("oasis", machines({"gpu": 1.0}, {"gpu": 1.0}), jobs, 9, prices="learnt=0.05")

    assert [type(item) for item in decisions(log)] == [Admit, Admit, Reject]


def test_it_takes_prices_and_a_solver() -> None:
    assert "oasis" in catalogue.COMMITTING
    cluster, jobs = drawn(30, 6, 10, 0)
    earned = {
        solver: simulate("oasis", cluster, jobs, horizon=10, slot_seconds=HOUR, slot_solver=solver).total_utility
        for solver in ("sweep", "exact")
    }
    # Cheapest first is exact where workers and servers never share a machine.
    assert earned["sweep"] == pytest.approx(earned["exact"])
