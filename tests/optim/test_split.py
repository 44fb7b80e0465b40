from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from tests.builders import machines

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Placement
from slotwise.model.speed import FittedSpeed, PaperSpeed
from slotwise.model.utility import Linear
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Surveyor
from slotwise.optim.solver import Sweep
from slotwise.optim.split import Split, server_machines


def spread(units: int, rooms: list[int]) -> Iterator[tuple[int, ...]]:
    """Every way to put so many units on machines with these rooms."""
    return (way for way in itertools.product(*(range(room + 1) for room in rooms)) if sum(way) == units)


def cheapest(units: int, rooms: list[int], costs: list[float]) -> float:
    """Least cost over all ways, +inf if there is none."""
    return min((float(np.dot(way, costs)) for way in spread(units, rooms)), default=np.inf)


@pytest.mark.parametrize("seed", range(40))
def test_costs_are_those_of_the_cheapest_workers_and_the_cheapest_servers(seed: int) -> None:
    """Every placement on four machines is looked at, at random prices of either side and a random use."""
    rng = np.random.default_rng(seed)
    cluster = machines(*({"gpu": float(rng.integers(1, 4)), "cpu": float(rng.integers(1, 5))} for _ in range(4)))
    is_server = np.isin(np.arange(4), servers := rng.choice(4, int(rng.integers(1, 4)), replace=False))
    job = Job(
        "a",
        0,
        5.0,
        3,
        {"gpu": 1.0, "cpu": float(rng.integers(0, 2))},
        FittedSpeed(0.1, 1.0, 0.5, 0.1, 0.1, 10.0),
        Linear(9.0, 99.0),
        {"cpu": float(rng.integers(1, 3))},
        max_servers=2,
    )
    ledger = Ledger(cluster, 2)
    for machine in range(4):
        if rng.random() < 0.7:
            used = np.floor(cluster.grains[machine] * rng.choice([0.0, 0.3, 0.5], 2))
            ledger.commit([1], [Placement((machine,), (1,), (0,))], used, np.zeros(2))
    split = Split(cluster, 10.0, np.sort(servers))
    request = split.survey(job, 9)
    if request.reason is not None:
        return
    # Gpu and cpu of workers, then of servers.
    log_low, log_ratio = rng.normal(0.0, 1.0, 4), rng.uniform(1.0, 3.0, 4)
    own = split.ledger(ledger)
    curves = Sweep().curves(own, 1, 1, request, split.prices(Prices(log_low, log_ratio)))

    worker, server = ([d.get("gpu", 0.0), d.get("cpu", 0.0)] for d in (job.worker_demand, job.server_demand))
    share = ledger.used(1) / cluster.grains
    free = cluster.capacity * (1.0 - share)
    # What the split cluster prices are millions of grains: the unit itself of GPUs and CPUs.
    prices = [np.exp(log_low[at : at + 2] + log_ratio[at : at + 2] * share) for at in (0, 2)]
    rooms: list[list[int]] = []
    costs: list[list[float]] = []
    for demand, price, side in ((np.array(worker), prices[0], ~is_server), (np.array(server), prices[1], is_server)):
        fits = [int(min(np.floor(free[m][demand > 0] / demand[demand > 0] + 1e-9))) for m in np.flatnonzero(side)]
        rooms.append(fits)
        costs.append([float(price[m] @ demand) for m in np.flatnonzero(side)])
    real = Surveyor(cluster, 10.0).survey(job, 9).ask
    best: dict[float, float] = {}
    for w, s, samples in zip(real.workers.tolist(), real.servers.tolist(), real.samples[1].tolist(), strict=True):
        cost = cheapest(w, rooms[0], costs[0]) + cheapest(s, rooms[1], costs[1])
        if cost < np.inf:
            best[samples] = min(cost, best.get(samples, np.inf))
    useful = [
        (samples, cost)
        for samples, cost in sorted(best.items())
        if all(cost < other for more, other in best.items() if more > samples)
    ]

    assert curves.samples.tolist() == pytest.approx([samples for samples, _ in useful])
    assert curves.costs.tolist() == pytest.approx([cost for _, cost in useful])


def test_a_plan_costs_what_its_placements_cost_at_the_prices_of_each_side() -> None:
    """Two workers on m0 for 3 each and a server on m2 for 5, in each of two slots: 22."""
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0}, {"gpu": 2.0})
    split = Split(cluster, 1.0, np.array([2]))
    job = Job("a", 0, 4.0, 2, {"gpu": 1.0}, PaperSpeed(1.0, 0.0, 2.0), Linear(99.0, 99.0), {"gpu": 1.0}, min_workers=2)
    request = split.survey(job, 9)
    prices = split.prices(Prices(np.log([3.0, 5.0]), np.ones(2)))

    plan = Planner().plan(request, split.ledger(Ledger(cluster, 9)), prices)

    assert plan is not None
    assert plan.cost == pytest.approx(22.0)
    assert plan.schedule.slots == (0, 1)
    assert set(plan.schedule.placements) == {Placement((0, 2), (2, 0), (0, 1))}


@pytest.mark.parametrize("rolling", [False, True])
def test_the_split_ledger_shows_what_is_committed_lost_and_passed(rolling: bool) -> None:
    """The grains of each machine are in the half of its side; what the ledger derives from them is right."""
    cluster = machines({"gpu": 2.0, "memory": 4.0}, {"gpu": 2.0, "memory": 4.0}, {"gpu": 2.0, "memory": 4.0})
    split = Split(cluster, 1.0, np.array([1]))
    ledger = Ledger(cluster, 3, rolling=rolling)
    split.ledger(ledger)
    amounts = cluster.grains[0] // 3
    ledger.commit([0, 2], [Placement((0, 1), (1, 2), (0, 0)), Placement((1,), (1,), (0,))], amounts, np.zeros(2))
    ledger.lose(2)
    ledger.advance(1)
    if rolling:
        ledger.commit([3], [Placement((0,), (2,), (0,))], amounts, np.zeros(2))

    own = split.ledger(ledger)

    assert (own.origin, own.end) == (ledger.origin, ledger.end)
    view = own.view
    assert not view.used[:, [0, 2], 2:].any()
    assert not view.used[:, 1, :2].any()
    assert (view.used[:, :, :2] + view.used[:, :, 2:4] == ledger.view.used).all()
    assert view.used[2, 1].tolist() == [0.0, 0.0, *amounts, 0.0]
    assert view.capacity[2].tolist() == [0.0] * 5
    assert sorted(view.members.tolist()) == [0, 1]
    # Touched is what is used, and spread is what recounting gives.
    assert (view.flags == view.used.any(axis=2)).all()
    for row in range(3):
        assert view.touched[row, : view.counts[row]].tolist() == np.flatnonzero(view.flags[row]).tolist()
    again = own.copy()
    again.recount()
    assert (again.view.spread == view.spread).all()


def test_machines_without_gpus_are_for_servers() -> None:
    cluster = machines({"gpu": 1.0, "cpu": 1.0}, {"cpu": 1.0}, {"gpu": 2.0}, {}, {"cpu": 4.0})

    assert server_machines(cluster, 0.5).tolist() == [1, 4]


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, []), (2, 0.1, [1]), (3, 0.9, [0, 2]), (10, 0.2, [4, 9]), (10, 0.5, [1, 3, 5, 7, 9])],
)
def test_of_equal_machines_a_share_is_for_servers(count: int, share: float, expected: list[int]) -> None:
    assert server_machines(Cluster.uniform(count, gpu=1), share).tolist() == expected


def test_each_rack_has_its_share() -> None:
    listed = [Machine(f"m{i}", {"gpu": 1.0}, {"rack": "ab"[i % 2]}) for i in range(10)]
    cluster = Cluster.of(listed, (3.0, 2.0, 1.0), ("machine", "rack", "cluster"))

    assert cluster.domains[1, server_machines(cluster, 0.2)].tolist() == [0, 1]


@pytest.mark.parametrize("share", [0.0, 1.0, float("nan")])
def test_a_share_of_nothing_or_of_all_is_refused(share: float) -> None:
    with pytest.raises(InvalidInput, match="server share must be > 0 and < 1"):
        server_machines(Cluster.uniform(4, gpu=1), share)
