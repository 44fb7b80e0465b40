"""Racks: as few as can be, one where that gains something, and none crossed where a job must not."""

from __future__ import annotations

import numpy as np
import pytest
from tests.builders import ANYWHERE, POLICIES, decisions, play
from tests.instances import prices_of
from tests.sim.feasible import assert_feasible

from slotwise.events import Admit, Launch, Reject
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement, Reason
from slotwise.model.speed import AllReduceSpeed, FittedSpeed, PaperSpeed, SpeedModel
from slotwise.model.utility import Linear
from slotwise.optim.planner import Planner
from slotwise.optim.request import Surveyor
from slotwise.optim.solver import Exact, SlotSolver, Sweep

SLOT = 60.0
GAINS = {"gains": (1000.0, 500.0, 100.0), "gains nothing": (100.0, 100.0, 100.0)}
"""Bandwidths inside a machine, a rack, the cluster."""


def racks(*sizes: int, bandwidth: tuple[float, ...] = GAINS["gains"]) -> Cluster:
    """Machines of one GPU in racks of these sizes, taken in turns so that those of one rack are not listed together."""
    names = [f"r{rack}" for turn in range(max(sizes)) for rack, size in enumerate(sizes) if turn < size]
    listed = [Machine(f"m{i}", {"gpu": 1.0, "cpu": 4.0}, {"rack": rack}) for i, rack in enumerate(names)]
    return Cluster.of(listed, bandwidth, ("machine", "rack", "cluster"))


def job(workers: int, servers: int = 0, *, domain: str | None = None, name: str = "job") -> Job:
    """A gang whose workers, and servers, take a machine each and that trains all it has in a slot."""
    speed: SpeedModel = AllReduceSpeed(1.0, 100.0)
    if servers:
        speed = FittedSpeed(0.0, 1.0, 1.0, 0.0, 0.0, 100.0, workers / servers)
    return Job(name, 0, 4.0, 8, {"gpu": 1.0}, speed, Linear(10.0, 100.0), {"gpu": 1.0}, workers, workers, domain=domain)


def placed(
    cluster: Cluster, asked: Job, solver: SlotSolver, taken: tuple[int, ...] = ()
) -> tuple[Placement, list[int]]:
    """Where a job runs in its first slot, and in which racks; the machines ``taken`` are full."""
    request = Surveyor(cluster, SLOT).survey(asked, 4)
    ledger = Ledger(cluster, 4)
    for machine in taken:
        whole = Placement((machine,), (1,), (0,))
        ledger.commit(range(4), [whole] * 4, cluster.grains[machine], np.zeros(2))
    plan = Planner(solver).plan(request, ledger, prices_of(0.01, 1.0, 2))
    assert plan is not None
    placement = plan.schedule.placements[0]
    return placement, sorted(set(cluster.domains[1, list(placement.machines)].tolist()))


@pytest.mark.parametrize("solver", [Sweep(), Exact()], ids=["sweep", "exact"])
@pytest.mark.parametrize("bandwidth", GAINS.values(), ids=GAINS)
class TestFewRacks:
    def test_four_workers_and_three_racks_of_two_take_two_racks(
        self, solver: SlotSolver, bandwidth: tuple[float, ...]
    ) -> None:
        _, used = placed(racks(2, 2, 2, bandwidth=bandwidth), job(4), solver)
        assert used == [0, 1]

    def test_two_free_machines_in_each_of_three_larger_racks(
        self, solver: SlotSolver, bandwidth: tuple[float, ...]
    ) -> None:
        cluster = racks(3, 3, 3, bandwidth=bandwidth)
        _, used = placed(cluster, job(4), solver, taken=(0, 4, 8))
        assert len(used) == 2

    def test_the_rack_that_holds_all_is_taken_wherever_it_is(
        self, solver: SlotSolver, bandwidth: tuple[float, ...]
    ) -> None:
        for sizes in ((2, 2, 4), (2, 4, 2), (4, 2, 2)):
            _, used = placed(racks(*sizes, bandwidth=bandwidth), job(4), solver)
            assert used == [sizes.index(4)]

    def test_servers_and_workers_go_into_the_rack_that_holds_them_together(
        self, solver: SlotSolver, bandwidth: tuple[float, ...]
    ) -> None:
        for sizes in ((3, 6, 3), (4, 2, 6), (6, 5, 5)):
            placement, used = placed(racks(*sizes, bandwidth=bandwidth), job(4, 2), solver)
            assert (placement.total_workers, placement.total_servers) == (4, 2)
            assert used == [sizes.index(6)]

    def test_the_fewest_racks_that_hold_all(self, solver: SlotSolver, bandwidth: tuple[float, ...]) -> None:
        for sizes, workers, wanted in (((2, 2, 5, 3), 7, 2), ((1, 1, 1, 4), 6, 3), ((3, 3, 3), 3, 1)):
            _, used = placed(racks(*sizes, bandwidth=bandwidth), job(workers), solver)
            assert len(used) == wanted


def test_what_a_rack_gains_is_in_the_plan() -> None:
    """4 samples of 1 s on 4 workers and a ring of 100 MB: 2 x 100 x 3/4 MB at 500 or 100 MB/s."""
    for sizes, seconds in (((4, 4), 1.0 * 8 / 4 + 150 / 500), ((3, 3), 1.0 * 8 / 4 + 150 / 100)):
        cluster = racks(*sizes)
        request = Surveyor(cluster, SLOT).survey(job(4), 4)
        placement, _ = placed(cluster, job(4), Sweep())
        assert request.samples(placement) == pytest.approx(8 / seconds * SLOT)


def test_a_rack_that_is_dear_is_left_for_two_that_are_not() -> None:
    cluster = racks(4, 2, 2)
    asked = job(4)
    request = Surveyor(cluster, SLOT).survey(asked, 4)
    ledger = Ledger(cluster, 4)
    busy = Placement((0, 1, 2, 3), (3,) * 4, (0,) * 4)
    ledger.commit(range(4), [busy] * 4, cluster.grains[0] * np.array([0.0, 0.3]), np.zeros(2))
    cpu_bound = prices_of(np.array([0.01, 0.01]), np.array([0.011, 100.0]), 2)
    demanding = Job("d", 0, 4.0, 8, {"gpu": 1.0, "cpu": 0.4}, AllReduceSpeed(1.0, 100.0), Linear(10.0, 100.0), {}, 4, 4)
    for one, wanted in ((asked, {0}), (demanding, {1, 2})):
        request = Surveyor(cluster, SLOT).survey(one, 4)
        plan = Planner().plan(request, ledger, cpu_bound)
        assert plan is not None
        assert set(cluster.domains[1, list(plan.schedule.placements[0].machines)].tolist()) == wanted


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_job_of_one_rack_never_crosses(name: str) -> None:
    cluster = racks(3, 4, 3)
    bound = [job(4, domain="rack", name=f"job-{i}") for i in range(3)]
    _, log = play(name, cluster, bound, 4, slot_seconds=SLOT)
    assert_feasible(cluster, log, SLOT)
    assert [type(answer) for answer in decisions(log)] == [Admit] * 3
    launched = [item for item in log if isinstance(item, Launch)]
    assert len(launched) == 3
    # One rack holds it: one after the other.
    assert {m for item in launched for m in cluster.domains[1, list(item.placement.machines)].tolist()} == {1}
    assert [item.slot for item in launched] == [0, 1, 2]


@pytest.mark.parametrize("name", POLICIES)
def test_what_no_rack_holds_is_turned_away_at_once(name: str) -> None:
    cluster = racks(3, 3)
    for asked, detail in (
        (job(4, domain="rack"), "needs 4 workers at once in one rack, no empty rack holds them"),
        (job(4, domain="row"), "must stay within one row, the cluster has the levels machine, rack, cluster"),
        (job(2, domain="machine"), "needs 2 workers at once in one machine, no empty machine holds them"),
    ):
        _, log = play(name, cluster, [asked], 4, slot_seconds=SLOT)
        (answer,) = decisions(log)
        assert isinstance(answer, Reject)
        assert (answer.reason, answer.detail) == (Reason.NEVER_FITS, detail)


def test_a_placement_across_racks_is_none_for_a_job_of_one_rack() -> None:
    cluster = racks(2, 2)
    request = Surveyor(cluster, SLOT).survey(job(2, domain="rack"), 4)
    assert request.samples(Placement((0, 1), (1, 1), (0, 0))) > 0
    assert request.samples(Placement((0, 2), (1, 1), (0, 0))) == 0


def test_racks_within_rows() -> None:
    """Six workers: two racks of three in one row, not racks of two rows."""
    places = [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")]
    listed = [
        Machine(f"m{i}{rack}", {"gpu": 1.0}, {"rack": rack, "row": row}) for i in range(3) for rack, row in places
    ]
    cluster = Cluster.of(listed, (800.0, 400.0, 200.0, 100.0), ("machine", "rack", "row", "cluster"))
    asked = Job("job", 0, 4.0, 8, {"gpu": 1.0}, PaperSpeed(1.0, 10.0, 1.0), Linear(10.0, 100.0), {}, 6, 6)
    request = Surveyor(cluster, SLOT).survey(asked, 4)
    plan = Planner().plan(request, Ledger(cluster, 4), prices_of(0.01, 1.0, 1))
    assert plan is not None
    machines = list(plan.schedule.placements[0].machines)
    assert len(set(cluster.domains[1, machines].tolist())) == 2
    assert len(set(cluster.domains[2, machines].tolist())) == 1
    assert cluster.level(machines) == 2
