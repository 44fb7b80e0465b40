from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.builders import HOUR, POLICIES, drawn, elastic, machines, play

from slotwise.errors import SlotwiseError
from slotwise.model.job import Job
from slotwise.model.utility import Linear
from slotwise.policies.catalogue import COMMITTING
from slotwise.report.console import answer_text
from slotwise.sim.metrics import Run

_U = Linear(10.0, 10.0)


def _gang(name: str, size: int, slots: int, arrival: int, gpu: float = 1.0) -> Job:
    """Slots of ten seconds."""
    return elastic(name, 10.0 * size * slots, size, least=size, arrival=arrival, worker={"gpu": gpu}, utility=_U)


@pytest.fixture(scope="module")
def run() -> Run:
    """Seven jobs under fifo on two machines of two GPUs, six slots of ten seconds.

    ====  =======  =======  =====  =====================================================
    job   arrival  workers  slots  what happens
    ====  =======  =======  =====  =====================================================
    a     0        2        2      runs in 0 and 1 on one machine
    b     0        3        2      waits for a, runs in 2 and 3 on both machines
    e     0        1        1      needs 3 GPUs on one machine
    c     1        1        1      is blocked behind b, runs in 2 beside it
    d     4        4        10     cannot end by slot 6
    f     4        4        2      runs in 4 and 5 on both machines
    g     5        1        1      never starts
    ====  =======  =======  =====  =====================================================
    """
    jobs = [
        _gang("a", 2, 2, 0),
        _gang("b", 3, 2, 0),
        _gang("e", 1, 1, 0, gpu=3.0),
        _gang("c", 1, 1, 1),
        _gang("d", 4, 10, 4),
        _gang("f", 4, 2, 4),
        _gang("g", 1, 1, 5),
    ]
    return play("fifo", machines({"gpu": 2.0}, {"gpu": 2.0}), jobs, 6, slot_seconds=10.0, seed=5)[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("policy", "fifo"),
        ("seed", 5),
        ("machines", 2),
        ("horizon", 6),
        ("slot_seconds", 10.0),
        ("jobs", 7),
        ("admitted", 4),
        ("rejected", {"never fits: needs 3 gpu on one machine, the largest has 2": 1}),
        ("completed", 4),
        ("unfinished", 1),
        ("infeasible", 1),
        ("total_utility", pytest.approx(9.0 + 7.0 + 9.0 + 9.0)),
        ("jct_seconds", pytest.approx({"mean": 25.0, "p50": 20.0, "p90": 34.0, "p99": 39.4})),
        ("training_slots_median", 2.0),
        ("makespan_slots", 6),
        ("utilization", pytest.approx({"gpu": (2 * 2 + 3 * 2 + 1 + 4 * 2) / 24})),
        ("colocated_fraction", pytest.approx(3 / 7)),
    ],
)
def test_figures_of_a_run_done_by_hand(run: Run, field: str, value: object) -> None:
    assert run.summary()[field] == value


def test_the_summary_has_these_fields_and_no_others(run: Run) -> None:
    assert list(run.summary()) == [
        "policy",
        "seed",
        "machines",
        "horizon",
        "slot_seconds",
        "jobs",
        "admitted",
        "rejected",
        "completed",
        "unfinished",
        "infeasible",
        "total_utility",
        "jct_seconds",
        "training_slots_median",
        "makespan_slots",
        "utilization",
        "colocated_fraction",
        "decision_seconds",
        "rounding",
    ]


def test_records_say_what_became_of_each_job(run: Run) -> None:
    started = {r.id: (r.started, r.completed, r.active_slots, r.colocated_slots) for r in run.records.values()}

    assert started == {
        "a": (0, 1, 2, 2),
        "b": (2, 3, 2, 0),
        "c": (2, 2, 1, 1),
        "d": (None, None, 0, 0),
        "e": (None, None, 0, 0),
        "f": (4, 5, 2, 0),
        "g": (None, None, 0, 0),
    }


@pytest.mark.parametrize("name", POLICIES)
def test_the_counts_are_those_of_the_rows(name: str) -> None:
    cluster, jobs = drawn(60, 4, 12, 3)
    short = machines({"gpu": 2.0, "cpu": 400.0, "memory": 1000.0})

    for where in (cluster, short):
        run, _ = play(name, where, jobs, 12, prices="learnt", slot_seconds=HOUR)
        figures = run.summary()
        answers = Counter(answer_text(r.reason, r.promised, r.started) for r in run.records.values())
        reasons = Counter(str(r.reason) for r in run.records.values() if r.reason is not None)
        counted = Counter[str]()
        for reason, count in figures["rejected"].items():
            counted[reason.partition(":")[0]] += count

        assert answers["infeasible"] == figures["infeasible"] == reasons.pop("horizon ends", 0)
        assert counted == reasons
        assert answers["rejected"] == sum(figures["rejected"].values())
        assert answers.total() == figures["jobs"] == 60
        entered = answers["admitted"] + answers["started"] + answers["queued"]
        assert entered == figures["completed"] + figures["unfinished"]
        assert answers["admitted"] + answers["started"] == figures["admitted"]


def test_what_never_fits_is_counted_by_resource_and_not_by_amount() -> None:
    jobs = [_gang(f"g{gpu}", 1, 1, 0, gpu=gpu) for gpu in (3.0, 12.0, 8.0)]
    jobs += [elastic(f"s{i}", 10.0, 1, worker={"gpu": 1.0, "storage": 1.0 + i}, utility=_U) for i in range(4)]

    run, _ = play("fifo", machines({"gpu": 2.0}), jobs, 6, slot_seconds=10.0)

    assert run.summary()["rejected"] == {
        "never fits: needs 1 to 4 storage on one machine, the cluster has none": 4,
        "never fits: needs 3 to 12 gpu on one machine, the largest has 2": 3,
    }


def test_jobs_that_never_finish_count_as_the_horizon_in_the_training_time() -> None:
    jobs = [_gang("a", 1, 2, 0), _gang("b", 1, 9, 0), _gang("c", 1, 9, 0)]

    run, _ = play("fifo", machines({"gpu": 1.0}), jobs, 10, slot_seconds=10.0)

    # a takes 2 slots; b runs but is not done, c never starts: 10 each.
    assert run.summary()["training_slots_median"] == 10.0
    assert run.summary()["jct_seconds"]["mean"] == 20.0
    assert (run.summary()["admitted"], run.summary()["unfinished"]) == (2, 2)


def test_a_placing_policy_is_timed_at_each_slot(run: Run) -> None:
    times = run.summary()["decision_seconds"]

    assert len(run.decision_times) == 6
    assert 0.0 < times["p50"] <= times["p99"] <= times["max"] == run.decision_times.max()


def test_a_committing_policy_is_timed_at_each_arrival_that_can_finish() -> None:
    jobs = [_gang("a", 1, 1, 0), _gang("b", 1, 99, 0), _gang("c", 9, 1, 0), _gang("d", 2, 1, 0)]

    run, _ = play("pdors", machines({"gpu": 2.0}), jobs, 4, slot_seconds=10.0)

    assert len(run.decision_times) == 2


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", [0, 1])
def test_counts_add_up(name: str, seed: int) -> None:
    cluster, jobs = drawn(80, 6, 12, seed)

    run, _ = play(name, cluster, jobs, 12, prices="learnt", slot_seconds=HOUR)
    figures = run.summary()

    turned_away = sum(figures["rejected"].values()) + figures["infeasible"]
    assert figures["jobs"] == 80 == figures["completed"] + figures["unfinished"] + turned_away
    assert figures["completed"] <= figures["admitted"] <= figures["completed"] + figures["unfinished"]
    assert figures["infeasible"] > 0
    if name in COMMITTING:
        assert figures["unfinished"] == 0
        assert figures["admitted"] == figures["completed"]
    assert all(0.0 <= share <= 1.0 for share in figures["utilization"].values())


@pytest.mark.parametrize("name", POLICIES)
def test_the_infeasible_are_the_same_under_every_policy(name: str) -> None:
    cluster, jobs = drawn(60, 4, 12, 3)

    figures = play(name, cluster, jobs, 12, prices="learnt", slot_seconds=HOUR)[0].summary()

    expected = play("fifo", cluster, jobs, 12, slot_seconds=HOUR)[0].summary()
    assert figures["infeasible"] == expected["infeasible"]


@pytest.mark.parametrize("name", POLICIES)
def test_a_summary_is_plain_json(name: str) -> None:
    cluster, jobs = drawn(20, 6, 8, 0)
    figures: dict[str, Any] = play(name, cluster, jobs, 8, slot_seconds=HOUR)[0].summary()

    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_utilization_of_an_idle_cluster_is_zero_also_where_it_has_none() -> None:
    run, _ = play("fifo", machines({"gpu": 1.0, "cpu": 0.0}), [], 3)

    assert run.utilization == {"gpu": 0.0, "cpu": 0.0}


def test_a_schedule_is_known_of_committed_jobs_only() -> None:
    jobs = [_gang("in", 1, 2, 0), _gang("out", 3, 1, 0)]
    committed, _ = play("pdors", machines({"gpu": 1.0}), jobs, 4, slot_seconds=10.0)
    placed, _ = play("fifo", machines({"gpu": 1.0}), jobs, 4, slot_seconds=10.0)

    schedule = committed.schedule("in")
    assert schedule is not None
    assert schedule.slots == (0, 1)
    assert committed.schedule("out") is None
    assert placed.schedule("in") is None
    with pytest.raises(SlotwiseError, match="no job 'other' in this run of 2 jobs"):
        committed.schedule("other")
