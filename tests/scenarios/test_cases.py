"""The cases that a scheduler for training jobs must get right, each played through the simulator."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.builders import (
    ANYWHERE,
    HOUR,
    POLICIES,
    Log,
    completions,
    decisions,
    drawn,
    elastic,
    gang,
    machines,
    occupancy,
    orders,
    play,
)
from tests.sim.feasible import assert_feasible

from slotwise.events import Admit, JobArrived, Launch, Reject, Stop, record
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.model.utility import Deadline, Linear

CASES = [(name, "scale=1e-6") for name in ANYWHERE] + [("pdors", "learnt")]
"""Policies that may use every machine, and pdors with the default prices too."""

TURNS = {"max-min", "finish-time-fair"}
"""Those under which jobs take turns."""


def _alone(log: Log, horizon: int) -> list[set[str]]:
    return [set(slot) for slot in occupancy(log, horizon)]


@pytest.mark.parametrize(("name", "prices"), CASES)
def test_one_of_two_gangs_that_fill_the_cluster_runs_whole_while_the_other_holds_nothing(
    name: str, prices: str
) -> None:
    cluster = Cluster.uniform(100, gpu=1)
    jobs = [gang("first", 100, 2), gang("second", 100, 2)]

    run, log = play(name, cluster, jobs, 6, prices=prices)

    assert_feasible(cluster, log, 1.0)
    if name in TURNS:
        assert _alone(log, 6) == [{"first"}, {"second"}, {"first"}, {"second"}, set(), set()]
        assert completions(log) == {"first": 2, "second": 3}
        assert [type(order) for order in orders(log)] == [Launch, Stop, Launch, Stop, Launch, Launch]
    else:
        assert _alone(log, 6) == [{"first"}, {"first"}, {"second"}, {"second"}, set(), set()]
        assert completions(log) == {"first": 1, "second": 3}
        assert [type(order) for order in orders(log)] == [Launch, Launch]
    assert all(order.placement.total_workers == 100 for order in orders(log) if isinstance(order, Launch))
    assert run.summary()["completed"] == 2


@pytest.mark.parametrize(("name", "prices"), CASES)
def test_a_worker_that_no_machine_holds_is_turned_away_though_the_totals_fit(name: str, prices: str) -> None:
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0})
    jobs = [gang("large", 1, worker={"gpu": 8.0}), gang("small", 1)]

    run, log = play(name, cluster, jobs, 3, prices=prices)

    assert_feasible(cluster, log, 1.0)
    refused, admitted = decisions(log)
    assert refused == Reject(0, "large", Reason.NEVER_FITS, "needs 8 gpu on one machine, the largest has 4")
    assert isinstance(admitted, Admit)
    assert completions(log) == {"small": 0}
    assert run.summary()["rejected"] == {"never fits: needs 8 gpu on one machine, the largest has 4": 1}


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_worker_waits_while_only_the_totals_have_room_for_it(name: str) -> None:
    """Two machines of eight have four left each: totals fit a worker of eight, no machine does until slot 2."""
    # Four of eight on each machine: halves that cannot share a machine, for the other resource is full.
    cluster = machines({"gpu": 8.0, "cpu": 1.0}, {"gpu": 8.0, "cpu": 1.0})
    half = {"gpu": 4.0, "cpu": 1.0}
    jobs = [
        gang("a", 1, 2, worker=half),
        gang("b", 1, 2, worker=half),
        gang("large", 1, 2, worker={"gpu": 8.0}),
    ]

    _, log = play(name, cluster, jobs, 6)

    assert_feasible(cluster, log, 1.0)
    # By turns large, due as much as the others, comes before them in slot 1; a has the other machine, then b has it.
    assert completions(log) == ({"a": 1, "b": 2, "large": 2} if name in TURNS else {"a": 1, "b": 1, "large": 3})


@pytest.mark.parametrize("name", POLICIES)
def test_a_gang_beyond_capacity_is_turned_away_and_a_smaller_one_after_it_runs(name: str) -> None:
    cluster = machines({"gpu": 3.0})
    jobs = [gang("four", 4), gang("three", 3)]

    _, log = play(name, cluster, jobs, 3)

    assert_feasible(cluster, log, 1.0)
    refused, admitted = decisions(log)
    assert refused == Reject(
        0, "four", Reason.NEVER_FITS, "needs 4 workers at once, the empty cluster does not hold them"
    )
    assert isinstance(admitted, Admit)
    assert completions(log) == {"three": 0}


def test_endless_small_jobs_do_not_break_the_promise_of_a_large_admitted_job() -> None:
    cluster = machines({"gpu": 4.0}, {"gpu": 4.0})
    horizon = 30
    large = gang("large", 6, 8, arrival=2, utility=Linear(10.0, 100.0))
    small = [
        gang(f"small-{slot}-{k}", 1, 2, arrival=slot, utility=Linear(1000.0, 100.0))
        for slot in range(horizon)
        for k in range(5)
    ]
    jobs = sorted([*small, large], key=lambda job: job.arrival)

    run, log = play("pdors", cluster, jobs, horizon)

    promises = assert_feasible(cluster, log, 1.0)
    assert isinstance(promises["large"], int)
    assert completions(log)["large"] == promises["large"]
    refused_or_later = [item for item in decisions(log) if item.job_id.startswith("small")]
    assert len(refused_or_later) == len(small)
    assert any(isinstance(item, Reject) for item in refused_or_later), "the small jobs must really contend"
    assert all(r.completed == r.promised for r in run.records.values() if r.admitted)


def test_under_fifo_a_large_job_at_the_head_starts_as_soon_as_what_runs_has_ended() -> None:
    cluster = machines({"gpu": 4.0})
    large = gang("large", 4, 2, arrival=5)
    small = [gang(f"small-{slot:02d}", 1, 3, arrival=slot) for slot in range(20)]
    jobs = sorted([*small, large], key=lambda job: (job.arrival, job.id))

    _, log = play("fifo", cluster, jobs, 40)

    assert_feasible(cluster, log, 1.0)
    started = {order.job_id: order.slot for order in orders(log) if isinstance(order, Launch)}
    # small-04 runs in slots 4, 5 and 6; the large job, ahead of small-05, takes slots 7 and 8.
    assert started["large"] == 7
    assert started["small-05"] == 9
    assert len(completions(log)) == 21


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_server_that_needs_no_gpu_is_charged_none(name: str) -> None:
    cluster = machines({"gpu": 2.0, "cpu": 4.0})
    with_servers = gang("a", 1, 2, worker={"gpu": 1.0, "cpu": 1.0}, server={"cpu": 1.0}, workers_per_server=1.0)
    beside = gang("b", 1, 2, worker={"gpu": 1.0, "cpu": 1.0})

    run, log = play(name, cluster, [with_servers, beside], 2)

    assert_feasible(cluster, log, 1.0)
    assert completions(log) == {"a": 1, "b": 1}
    assert run.utilization == {"gpu": 1.0, "cpu": 0.75}


@pytest.mark.parametrize("name", POLICIES)
def test_servers_run_on_a_machine_without_gpus(name: str) -> None:
    cluster = machines({"gpu": 2.0, "cpu": 0.0}, {"gpu": 0.0, "cpu": 2.0})
    job = gang("a", 2, 1, server={"cpu": 1.0}, workers_per_server=1.0)

    _, log = play(name, cluster, [job], 1)

    assert_feasible(cluster, log, 1.0)
    (launch,) = orders(log)
    assert isinstance(launch, Launch)
    assert (launch.placement.workers, launch.placement.servers) == ((2, 0), (0, 2))


@pytest.mark.parametrize("name", ANYWHERE)
def test_server_capacity_is_free_in_the_slot_after_its_job_ends(name: str) -> None:
    """There are GPUs for both jobs but room for one server."""
    cluster = machines({"gpu": 4.0, "cpu": 1.0})
    jobs = [gang(n, 1, 2, server={"cpu": 1.0}, workers_per_server=1.0) for n in ("a", "b")]

    _, log = play(name, cluster, jobs, 4)

    assert_feasible(cluster, log, 1.0)
    if name in TURNS:
        assert completions(log) == {"a": 2, "b": 3}
        assert _alone(log, 4) == [{"a"}, {"b"}, {"a"}, {"b"}]
    else:
        assert completions(log) == {"a": 1, "b": 3}
        assert _alone(log, 4) == [{"a"}, {"a"}, {"b"}, {"b"}]


@pytest.mark.parametrize("name", ANYWHERE)
@pytest.mark.parametrize(
    ("worker", "server"),
    [({"gpu": 1.0}, {"cpu": 1.0}), ({"cpu": 1.0}, {"gpu": 1.0})],
    ids=["workers fit, servers do not", "servers fit, workers do not"],
)
def test_nothing_starts_where_only_workers_or_only_servers_fit(
    name: str, worker: dict[str, float], server: dict[str, float]
) -> None:
    """Of four GPUs and two CPUs one CPU is taken, so one of the two halves of the gang has room, until slot 2.

    By turns the pair, to which half of the time is due, runs in slot 1 and the holder pauses.
    """
    cluster = machines({"gpu": 4.0, "cpu": 2.0})
    jobs = [
        gang("holder", 1, 2, worker={"cpu": 1.0}),
        gang("pair", 2, 2, worker=worker, server=server, workers_per_server=1.0),
    ]

    run, log = play(name, cluster, jobs, 4)

    assert_feasible(cluster, log, 1.0)
    turns = [{"holder"}, {"pair"}, {"holder"}, {"pair"}]
    assert _alone(log, 4) == (turns if name in TURNS else [{"holder"}, {"holder"}, {"pair"}, {"pair"}])
    assert run.utilization == {"gpu": 4 / 16, "cpu": 6 / 8}


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_starts_where_servers_never_fit_beside_workers(name: str) -> None:
    cluster = machines({"gpu": 4.0, "cpu": 1.0})

    run, log = play(name, cluster, [gang("a", 2, server={"cpu": 1.0}, workers_per_server=1.0), gang("b", 1)], 2)

    assert_feasible(cluster, log, 1.0)
    assert run.records["a"].reason is Reason.NEVER_FITS
    assert "2 workers and 2 servers" in run.records["a"].detail
    assert completions(log) == {"b": 0}


def test_under_fifo_two_units_released_are_used_at_the_next_slot_by_the_job_that_waits_for_them() -> None:
    cluster = machines({"gpu": 3.0})
    jobs = [gang("long", 1, 6), gang("pair", 2, 2), gang("waits", 2, 2), gang("behind", 1, 1)]

    run, log = play("fifo", cluster, jobs, 6)

    assert_feasible(cluster, log, 1.0)
    assert _alone(log, 6) == [
        {"long", "pair"},
        {"long", "pair"},
        {"long", "waits"},
        {"long", "waits"},
        {"long", "behind"},
        {"long"},
    ]
    assert run.summary()["completed"] == 4


_SCRIPT = """
import json
from slotwise.events import record
from tests.builders import HOUR, POLICIES, drawn, play
cluster, jobs = drawn(80, 20, 15, 12)
for name in POLICIES:
    run, log = play(name, cluster, jobs, 15, prices="learnt", slot_seconds=HOUR, seed=3)
    for item in log:
        print(json.dumps(record(item)))
    figures = run.summary()
    del figures["decision_seconds"]
    print(json.dumps(figures))
"""


def test_two_processes_write_identical_event_logs() -> None:
    root = Path(__file__).parents[2]
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _SCRIPT],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for seed in ("1", "2")
    ]
    results = [process.communicate(timeout=200) for process in started]

    assert [error.decode() for _, error in results] == ["", ""]
    first, second = (out for out, _ in results)
    for kind in ("Admit", "Reject", "Launch", "Resize", "Stop", "Progressed", "JobCompleted"):
        assert f'"kind": "{kind}"'.encode() in first
    assert first == second


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_prefix_of_the_arrivals_gets_the_decisions_it_gets_in_the_whole(seed: int) -> None:
    cluster, jobs = drawn(80, 10, 16, seed)

    def decide(jobs: list[Job]) -> list[dict[str, object]]:
        _, log = play("pdors", cluster, jobs, 16, prices="learnt", slot_seconds=HOUR)
        return [record(item) for item in decisions(log)]

    whole = decide(jobs)

    assert len({entry["kind"] for entry in whole}) == 2, "some must be in and some out"
    for count in (1, 25, 50, 79):
        assert decide(jobs[:count]) == whole[:count]


@pytest.mark.parametrize("seed", [0, 1])
def test_under_fifo_later_arrivals_never_move_earlier_ones(seed: int) -> None:
    cluster, jobs = drawn(80, 4, 16, seed)
    ids = {job.id for job in jobs[:40]}

    def launched(jobs: list[Job]) -> list[Launch]:
        _, log = play("fifo", cluster, jobs, 16, slot_seconds=HOUR)
        return [order for order in orders(log) if isinstance(order, Launch) and order.job_id in ids]

    assert launched(jobs[:40]) == launched(jobs)
    assert launched(jobs)


def test_a_log_names_every_arrival_once() -> None:
    jobs = [gang("a", 1, utility=Deadline(5.0, 3.0)), elastic("b", 3.0, 2, arrival=1)]

    _, log = play("pdors", machines({"gpu": 2.0}), jobs, 4)

    assert [(e.slot, e.job.id) for e in log if isinstance(e, JobArrived)] == [(0, "a"), (1, "b")]
