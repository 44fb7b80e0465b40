"""Inputs at the edge: each has a result, none a NaN or a traceback."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.builders import (
    ANYWHERE,
    HOUR,
    PLACING,
    POLICIES,
    completions,
    decisions,
    drawn,
    elastic,
    gang,
    machines,
    orders,
    play,
)
from tests.sim.feasible import assert_feasible

from slotwise.events import Admit, Launch, Reject
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import calibration
from slotwise.optim.request import Surveyor
from slotwise.policies import catalogue
from slotwise.policies.pdors import PdOrs

ALL = [(name, "scale=1e-6") for name in POLICIES] + [("pdors", "learnt"), ("pdors", "learnt=2")]


def assert_finite(figures: Any) -> None:
    """Fail at any number in nested figures that is NaN or infinite."""
    if isinstance(figures, dict):
        for value in figures.values():
            assert_finite(value)
    elif isinstance(figures, float):
        assert math.isfinite(figures)


@pytest.mark.parametrize(("name", "prices"), ALL)
def test_zero_jobs_give_empty_figures(name: str, prices: str) -> None:
    run, log = play(name, machines({"gpu": 1.0}), [], 3, prices=prices)

    figures = run.summary()
    assert_finite(figures)
    assert (figures["jobs"], figures["completed"], figures["makespan_slots"]) == (0, 0, 0)
    assert (figures["rejected"], figures["utilization"]) == ({}, {"gpu": 0.0})
    assert figures["jct_seconds"] == {"mean": None, "p50": None, "p90": None, "p99": None}
    assert figures["training_slots_median"] is None
    assert figures["colocated_fraction"] is None
    assert orders(log) == []


@pytest.mark.parametrize("name", POLICIES)
def test_a_horizon_of_one_slot_runs_what_fits_into_it(name: str) -> None:
    jobs = [gang("now", 1), gang("too-long", 1, 2)]

    run, log = play(name, machines({"gpu": 2.0}), jobs, 1)

    assert completions(log) == {"now": 0}
    assert run.records["too-long"].reason is Reason.HORIZON_ENDS
    assert run.records["too-long"].detail == (
        "needs 2 slots even alone on the cluster, 1 is left before the horizon (1)"
    )
    assert_finite(run.summary())


@pytest.mark.parametrize("name", POLICIES)
def test_a_job_that_arrives_in_the_last_slot_runs_in_it(name: str) -> None:
    run, log = play(name, machines({"gpu": 2.0}), [gang("late", 2, arrival=7)], 8)

    assert completions(log) == {"late": 7}
    assert run.records["late"].utility == 100.0


@pytest.mark.parametrize(("name", "prices"), ALL)
def test_resources_of_zero_capacity_and_workers_without_gpus_are_no_trouble(name: str, prices: str) -> None:
    cluster = machines({"gpu": 0.0, "cpu": 8.0, "memory": 0.0}, {"gpu": 0.0, "cpu": 8.0, "memory": 0.0})
    jobs = [
        elastic("cpu-only", 4.0, 4, arrival=6, worker={"cpu": 1.0, "gpu": 0.0}),
        gang("wants-gpu", 1, arrival=6),
    ]

    run, log = play(name, cluster, jobs, 12, prices=prices)

    assert_feasible(cluster, log, 1.0)
    assert "cpu-only" in completions(log)
    assert run.records["wants-gpu"].detail == "needs 1 gpu on one machine, the largest has 0"
    assert run.utilization["gpu"] == 0.0
    assert_finite(run.summary())


@pytest.mark.parametrize("name", POLICIES)
def test_a_machine_without_anything_is_never_used(name: str) -> None:
    cluster = machines({"gpu": 0.0}, {"gpu": 1.0}, {"gpu": 0.0})

    _, log = play(name, cluster, [gang("a", 1, 2)], 3)

    assert [o.placement.machines for o in orders(log) if isinstance(o, Launch)] == [(1,)]


@pytest.mark.parametrize("name", POLICIES)
def test_a_cluster_of_nothing_turns_every_job_away(name: str) -> None:
    run, _ = play(name, machines({"gpu": 0.0}), [gang("a", 1)], 3)

    assert run.summary()["rejected"] == {"never fits: needs 1 gpu on one machine, the largest has 0": 1}
    assert_finite(run.summary())


@pytest.mark.parametrize("name", POLICIES)
def test_a_resource_that_the_cluster_lacks_is_named(name: str) -> None:
    jobs = [gang("a", 1, worker={"gpu": 1.0, "tpu": 2.0}), gang("b", 1)]

    run, log = play(name, machines({"gpu": 1.0}), jobs, 3)

    assert run.records["a"].detail == "needs 2 tpu on one machine, the cluster has none"
    assert completions(log) == {"b": 0}


@pytest.mark.parametrize("name", POLICIES)
def test_a_demand_of_zero_for_a_resource_that_the_cluster_lacks_is_no_demand(name: str) -> None:
    _, log = play(name, machines({"gpu": 1.0}), [gang("a", 1, worker={"gpu": 1.0, "tpu": 0.0})], 1)

    assert completions(log) == {"a": 0}


@pytest.mark.parametrize("name", ANYWHERE)
def test_one_server_serves_a_job_whose_batch_is_smaller_than_workers_per_server(name: str) -> None:
    cluster = machines({"gpu": 4.0, "cpu": 2.0})
    job = gang("a", 2, 2, server={"cpu": 1.0}, workers_per_server=7.5)

    _, log = play(name, cluster, [job], 3)

    assert_feasible(cluster, log, 1.0)
    (launch,) = orders(log)
    assert isinstance(launch, Launch)
    assert (launch.placement.total_workers, launch.placement.total_servers) == (2, 1)


@pytest.mark.parametrize("prices", ["scale=1e-6", "learnt", "learnt=2"])
def test_an_urgent_job_that_would_be_120_slots_late_has_no_time_left(prices: str) -> None:
    late = gang("late", 1, 125, utility=Sigmoid(50.0, 6.0, 1.0))
    fine = gang("fine", 1, 1, arrival=10, utility=Sigmoid(50.0, 6.0, 1.0))

    run, log = play("pdors", machines({"gpu": 2.0}), [late, fine], 130, prices=prices)

    assert run.summary()["rejected"] == {"no time left": 1}
    assert run.records["late"].detail == ("worth nothing 124 slots after arrival, when it could finish at the earliest")
    assert completions(log) == {"fine": 10}
    assert_finite(run.summary())


@pytest.mark.parametrize("name", PLACING)
def test_an_urgent_job_that_is_120_slots_late_earns_nothing(name: str) -> None:
    late = gang("late", 1, 125, utility=Sigmoid(50.0, 6.0, 1.0))

    run, log = play(name, machines({"gpu": 2.0}), [late], 130)

    assert completions(log) == {"late": 124}
    assert run.total_utility == 0.0
    assert_finite(run.summary())


@pytest.mark.parametrize(("name", "prices"), ALL)
def test_utilities_that_are_zero_everywhere_earn_zero(name: str, prices: str) -> None:
    jobs = [gang(f"j{i}", 1, 2, arrival=i % 3, utility=Deadline(5.0, 0.0)) for i in range(6)]

    run, log = play(name, machines({"gpu": 2.0}), jobs, 8, prices=prices)

    assert run.total_utility == 0.0
    if name in catalogue.COMMITTING:
        assert run.summary()["rejected"] == {"no time left": 6}
        assert orders(log) == []
    else:
        assert len(completions(log)) == 6
    assert_finite(run.summary())


def test_literal_prices_of_jobs_that_are_worth_nothing_late_are_finite() -> None:
    cluster = machines({"gpu": 2.0})
    jobs = [
        gang("urgent", 1, 1, utility=Sigmoid(50.0, 6.0, 1.0)),
        gang("dead", 1, 3, utility=Deadline(5.0, 0.0)),
        gang("calm", 1, 2, utility=Sigmoid(50.0, 0.0, 1.0)),
    ]
    surveyor = Surveyor(cluster, 1.0)
    bids = [surveyor.survey(job, 130).bid for job in jobs]

    run, log = play(PdOrs(Planner(), calibration("literal", cluster, bids, 130)), cluster, jobs, 130)

    assert run.summary()["rejected"] == {"no time left": 1}
    assert completions(log) == {"urgent": 0, "calm": 1}
    assert_finite(run.summary())


def test_literal_prices_of_no_jobs_at_all_are_of_no_consequence() -> None:
    cluster = machines({"gpu": 2.0})

    run, _ = play(PdOrs(Planner(), calibration("literal", cluster, (), 4)), cluster, [], 4)

    assert run.total_utility == 0.0


@pytest.mark.parametrize("name", POLICIES)
def test_equal_jobs_are_served_in_the_order_given(name: str) -> None:
    jobs = [gang(n, 1, 2) for n in ("c", "a", "b")]

    _, log = play(name, machines({"gpu": 1.0}), jobs, 6)

    turns = name in {"max-min", "finish-time-fair"}
    assert completions(log) == ({"c": 3, "a": 4, "b": 5} if turns else {"c": 1, "a": 3, "b": 5})


@pytest.mark.parametrize("name", POLICIES)
def test_equal_machines_are_taken_from_the_first(name: str) -> None:
    cluster = Cluster.uniform(5, gpu=1)

    _, log = play(name, cluster, [gang("a", 3)], 1)

    assert [o.placement.machines for o in orders(log) if isinstance(o, Launch)] == [(0, 1, 2)]


@pytest.mark.parametrize("name", POLICIES)
def test_one_machine_holds_everything_together(name: str) -> None:
    cluster, jobs = drawn(30, 1, 10, 5)

    run, log = play(name, cluster, jobs, 10, slot_seconds=HOUR, prices="learnt")

    assert_feasible(cluster, log, HOUR)
    assert run.summary()["colocated_fraction"] in (None, 1.0)
    assert_finite(run.summary())


@pytest.mark.parametrize("name", POLICIES)
def test_more_workers_may_be_slower_without_trouble(name: str) -> None:
    """All-reduce with a huge gradient: two workers on two machines train less than one."""
    job = Job(
        id="heavy",
        arrival=0,
        workload=4.0,
        batch_size=2,
        worker_demand={"gpu": 1.0},
        speed=AllReduceSpeed(1.0, 1000.0),
        utility=Linear(10.0, 100.0),
    )
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0})

    _, log = play(name, cluster, [job], 2000 if name == "drf" else 6)

    assert_feasible(cluster, log, 1.0)
    assert "heavy" in completions(log)
    if name != "drf":
        assert completions(log) == {"heavy": 3}


@pytest.mark.parametrize("name", POLICIES)
def test_a_restart_that_eats_the_whole_slot_leaves_no_time_to_train(name: str) -> None:
    for seconds in (1.0, 5.0):
        run, _ = play(name, machines({"gpu": 1.0}), [gang("a", 1, restart_seconds=seconds)], 10)

        assert run.records["a"].reason is Reason.HORIZON_ENDS
        assert "needs endlessly many slots" in run.records["a"].detail


@pytest.mark.parametrize("name", POLICIES)
def test_a_transfer_that_all_but_never_ends_is_infeasible(name: str) -> None:
    job = Job(
        id="a",
        arrival=0,
        workload=1e6,
        batch_size=1,
        worker_demand={"gpu": 1.0},
        speed=PaperSpeed(1e-9, 1e15, 1e6),
        utility=Linear(10.0, 100.0),
    )

    run, _ = play(name, machines({"gpu": 1.0}), [job], 10)

    assert run.records["a"].reason is Reason.HORIZON_ENDS
    assert_finite(run.summary())


@pytest.mark.parametrize("name", POLICIES)
def test_fractions_of_a_gpu_add_up_exactly(name: str) -> None:
    """Ten tenths are one: 0.1 has no exact binary form, and nothing is lost or gained over ten jobs."""
    jobs = [gang(f"j{i}", 1, worker={"gpu": 0.1}, utility=Deadline(100.0, 0.0)) for i in range(11)]

    run, log = play(name, machines({"gpu": 1.0}), jobs, 1)

    assert completions(log) == {f"j{i}": 0 for i in range(10)}
    assert run.utilization == {"gpu": pytest.approx(1.0, abs=1e-12)}


@pytest.mark.parametrize(
    ("name", "prices", "least"), [*((name, "learnt", 4000) for name in PLACING), ("pdors", "scale=1e-6", 3500)]
)
def test_five_thousand_tiny_jobs_are_played(name: str, prices: str, least: int) -> None:
    """Of 100 jobs a slot 80 fit."""
    cluster = Cluster.uniform(10, gpu=8)
    jobs = [gang(f"j{i:04d}", 1, arrival=i // 100, utility=Linear(1.0 + i % 7, 30.0)) for i in range(5000)]

    run, log = play(name, cluster, jobs, 50, prices=prices)

    assert_feasible(cluster, log, 1.0)
    figures = run.summary()
    assert figures["jobs"] == 5000
    assert figures["completed"] + figures["unfinished"] + sum(figures["rejected"].values()) == 5000
    assert least <= figures["completed"] <= 4000
    assert_finite(figures)


def test_tiny_prices_and_values_stay_apart() -> None:
    jobs = [gang("poor", 1, utility=Linear(1e-200, 100.0)), gang("rich", 1, utility=Linear(1e200, 100.0))]

    _, log = play("pdors", machines({"gpu": 1.0}), jobs, 4, prices="learnt=10")

    assert [type(item) for item in decisions(log)] == [Admit, Admit]
    assert len(completions(log)) == 2


def test_a_job_worth_less_than_an_empty_machine_is_priced_out_with_numbers() -> None:
    _, log = play("pdors", machines({"gpu": 1.0}), [gang("poor", 1, utility=Linear(2.0, 100.0))], 4, prices="scale=3")

    (refused,) = decisions(log)
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.PRICED_OUT
    assert refused.detail
