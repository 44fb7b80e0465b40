"""A quote: what one job would get on an empty cluster."""

from __future__ import annotations

import ast
import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
from tests.builders import elastic, gang, machines
from tests.optim import twins

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger
from slotwise.model.schedule import Reason
from slotwise.model.speed import FittedSpeed
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.pricing import Scale
from slotwise.optim.request import Surveyor
from slotwise.quotation import quote


def open_choice(speed: FittedSpeed | TableSpeed, **changed: object) -> Job:
    job = Job(
        "job", 3, 1e4, 64, {"gpu": 1.0}, speed, Sigmoid(100.0, 0.0, 0.0), {"cpu": 2.0}, max_workers=6, max_servers=5
    )
    return dataclasses.replace(job, **changed)  # type: ignore[arg-type]


def test_sizes_cost_what_brute_force_finds() -> None:
    cluster = Cluster.uniform(3, gpu=3, cpu=8, bandwidth=(100.0, 10.0))
    job = open_choice(FittedSpeed(0.1, 0.05, 0.3, 0.02, 0.01, 10.0))
    found = quote(job, cluster, slot_seconds=60.0, horizon=400, slot_solver="exact")
    request = Surveyor(cluster, 60.0).survey(dataclasses.replace(job, arrival=0), 400)
    prices = Scale(cluster, 1.0).observe(request.bid)
    spots = twins.listing(Ledger(cluster, 1), 0, request.ask, prices)
    by_level = twins.by_level(spots, request.ask, twins.across_convolved)
    pairs = list(zip(request.ask.workers.tolist(), request.ask.servers.tolist(), strict=True))
    assert {(size.workers, size.servers) for size in found.sizes} == set(pairs)
    for size in found.sizes:
        k, level = pairs.index((size.workers, size.servers)), cluster.levels.index(size.level)
        assert size.slot_cost == pytest.approx(by_level[level][k], rel=1e-9)
        rate = job.speed.samples_per_second(
            np.array([size.workers]), np.array([size.servers]), 64, cluster.bandwidth[level]
        )
        assert size.samples_per_second == pytest.approx(float(rate[0]))
        assert size.seconds == pytest.approx(1e4 / float(rate[0]))
        assert size.cost == pytest.approx(size.seconds / 60.0 * size.slot_cost)
    for one, other in itertools.permutations(found.useful, 2):
        assert one.samples_per_second < other.samples_per_second or one.slot_cost > other.slot_cost
    for size in found.sizes:
        if not size.useful:
            assert any(
                other.samples_per_second >= size.samples_per_second and other.slot_cost <= size.slot_cost
                for other in found.useful
            )


def test_the_plan_is_the_cheapest_for_a_job_that_does_not_mind_when() -> None:
    cluster = Cluster.uniform(3, gpu=3, cpu=8, bandwidth=(100.0, 10.0))
    found = quote(open_choice(FittedSpeed(0.1, 0.05, 0.3, 0.02, 0.01, 10.0)), cluster, slot_seconds=60.0, horizon=400)
    assert found.plan is not None
    assert found.reason is None
    least = min(size.cost for size in found.sizes)
    assert found.plan.cost == pytest.approx(least, rel=0.05)
    assert found.plan.cost >= least * (1 - 1e-9)
    assert found.job.arrival == 0
    assert found.plan.schedule.slots[0] == 0


def test_measured_resnet_asks_for_what_is_best_per_unit_cost(traces: Path) -> None:
    rows = [ast.literal_eval(line) for line in (traces / "dl2" / "config_speed.txt").read_text().splitlines()]
    points = tuple(SpeedPoint(w, s, sum(speeds)) for model, _, _, s, w, speeds, *_ in rows if model == "resnet-50")
    cluster = machines(*[{"gpu": 4.0, "cpu": 32.0}] * 8)
    for server_cpu in (1.0, 4.0, 16.0):
        job = Job(
            "resnet", 0, 5e5, 32, {"gpu": 1.0, "cpu": 4.0}, TableSpeed(points), Sigmoid(100.0, 0.0, 0.0),
            {"cpu": server_cpu},
        )  # fmt: skip
        found = quote(job, cluster, slot_seconds=600.0, horizon=200)
        assert found.plan is not None
        # Half a slot of an empty machine for all of its GPUs or all of its cpu.
        costs = {(p.workers, p.servers): p.workers * (0.5 / 4 + 2 / 32) + p.servers * server_cpu / 64 for p in points}
        best = min(points, key=lambda p: costs[p.workers, p.servers] / p.samples_per_second)
        runs = [(p.total_workers, p.total_servers) for p in found.plan.schedule.placements]
        assert max(set(runs), key=runs.count) == (best.workers, best.servers)
        slots = 5e5 / (best.samples_per_second * 600.0)
        assert found.plan.cost == pytest.approx(slots * costs[best.workers, best.servers], rel=0.1)


def test_a_job_that_is_turned_away_has_a_reason() -> None:
    cluster = machines({"gpu": 2.0})
    for job, reason, planned in (
        (elastic("too large", 1.0, 1, worker={"gpu": 3.0}), Reason.NEVER_FITS, False),
        (gang("too many", 3), Reason.NEVER_FITS, False),
        (elastic("too long", 100.0, 1), Reason.HORIZON_ENDS, False),
        (elastic("too late", 8.0, 2, utility=Deadline(9.0, 2.0)), Reason.NO_TIME_LEFT, True),
        (elastic("too poor", 8.0, 2, utility=Linear(1e-3, 100.0)), Reason.PRICED_OUT, True),
        (elastic("fine", 8.0, 2), None, True),
    ):
        found = quote(job, cluster, slot_seconds=1.0, horizon=10)
        assert (found.reason, found.plan is not None) == (reason, planned), job.id
        assert bool(found.detail) == (reason is not None)
        assert bool(found.sizes) == (reason is not Reason.NEVER_FITS)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"horizon": 0}, "horizon must be >= 1, got 0"),
        ({"slot_seconds": 0.0}, "slot_seconds must be > 0 and finite, got 0.0"),
        ({"slot_solver": "reference"}, "solver of a quote must be one of sweep, exact, got 'reference'"),
        ({"prices": "free"}, "prices must be learnt, learnt=X, literal or scale=X, got 'free'"),
    ],
)
def test_refuses_with_value_and_bound(changed: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        quote(gang("a", 1), machines({"gpu": 1.0}), **({"slot_seconds": 1.0, "horizon": 3} | changed))  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_the_default_horizon_is_what_the_job_takes_on_this_cluster() -> None:
    """One GPU in place of the batch's 256: two days, beyond a day and twice what many workers would take."""
    job = elastic("long", 2 * 86_400.0, 256, utility=Linear(1e6, 1e6))
    found = quote(job, machines({"gpu": 1.0}), slot_seconds=3600.0)
    assert found.horizon == 96
    assert found.plan is not None
    assert found.plan.schedule.completion == 47
    assert quote(job, machines({"gpu": 256.0}), slot_seconds=3600.0).horizon == 24
