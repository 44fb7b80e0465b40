"""An explanation says what is true: what it costs, what would have been let in, why a job waits."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from tests.builders import elastic, gang, machines

from slotwise.errors import InvalidInput
from slotwise.explanation import Explanation, WhatIf, explain
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import Bid, Prices
from slotwise.policies.pdors import PdOrs
from slotwise.report.explanations import as_data, as_text
from slotwise.sim.simulator import simulate
from slotwise.workloads.synthetic import paper

SECOND: dict[str, Any] = {"horizon": 12, "slot_seconds": 1.0}


class Constant:
    """Prices that no job changes."""

    def __init__(self, prices: Prices) -> None:
        self.prices = prices

    def observe(self, bid: Bid, *, idle: bool = False) -> Prices:
        return self.prices


def asked(job: Job, *others: Job, prices: str = "scale=2", policy: str = "pdors") -> Explanation:
    return explain(policy, machines({"gpu": 1.0}), [*others, job], job.id, **SECOND, prices=prices)


def change(found: Explanation, name: str) -> WhatIf | None:
    return next((one for one in found.changes if one.change == name), None)


def test_a_job_that_is_priced_out_hears_what_it_costs_and_what_would_do() -> None:
    # One GPU at 2 a slot for 3 slots: 6, against a worth of 5 in slots 0 to 8.
    found = asked(elastic("poor", 3.0, 1, utility=Deadline(5.0, 8.0)))

    assert found.record.reason is Reason.PRICED_OUT
    assert [(one.slot, one.utility) for one in found.completions] == [(slot, 5.0) for slot in range(2, 9)]
    assert [one.cost for one in found.completions] == [pytest.approx(6.0)] * 7
    assert found.plan is not None
    assert found.plan.cost == pytest.approx(6.0)
    assert [name for name, _ in found.dearest] == ["gpu"]
    value, workload = change(found, "value"), change(found, "workload")
    assert value is not None
    assert value.was == 5.0
    assert value.needed == pytest.approx(6.0, rel=1e-4)
    # Two slots cost 4.
    assert workload is not None
    assert workload.was == 3.0
    assert workload.needed == pytest.approx(2.0, rel=1e-3)
    assert change(found, "target") is None, "later is no cheaper"
    text = as_text(found, 1.0)
    assert "poor, arrived in slot 0, policy pdors: rejected" in text
    assert "reason: priced out." in text
    assert "if its value were 6 in place of 5 (1.2 times)" in text


def test_a_job_without_room_in_time_hears_which_target_would_do() -> None:
    first = elastic("rich", 3.0, 1, utility=Deadline(1000.0, 2.0))
    # Until slot 2 the GPU is taken; three slots more end in slot 5.
    found = asked(elastic("late", 3.0, 1, utility=Deadline(100.0, 3.0)), first)

    assert found.record.reason is Reason.PRICED_OUT
    assert [one.cost for one in found.completions] == [None, None]
    target = change(found, "target")
    assert target is not None
    assert (target.was, target.needed) == (3.0, 5.0)
    assert "too little room" in as_text(found, 3600.0)
    assert "(2 h later)" in as_text(found, 3600.0)


def test_a_job_that_is_worth_nothing_in_time_hears_which_target_would_do() -> None:
    found = asked(elastic("hasty", 3.0, 1, utility=Deadline(100.0, 1.0)))

    assert found.record.reason is Reason.NO_TIME_LEFT
    target = change(found, "target")
    assert target is not None
    assert target.needed == 2.0
    assert found.completions == []


def test_a_job_that_is_let_in_hears_its_price() -> None:
    found = asked(elastic("rich", 3.0, 1, utility=Deadline(50.0, 8.0)))

    assert found.record.admitted
    assert found.record.reason is None
    assert found.changes == []
    assert found.record.promised_utility == 50.0
    assert found.record.cost == pytest.approx(6.0)
    assert "admitted, promised to end in slot" in as_text(found, 1.0)
    assert as_data(found)["plan"]["payoff"] == pytest.approx(44.0)


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (elastic("wide", 3.0, 1, worker={"gpu": 2.0}), Reason.NEVER_FITS),
        (elastic("long", 13.0, 1), Reason.HORIZON_ENDS),
    ],
)
@pytest.mark.parametrize("policy", ["pdors", "fifo"])
def test_hopeless_jobs_have_a_code_of_their_own(job: Job, reason: Reason, policy: str) -> None:
    found = asked(job, policy=policy)

    assert found.record.reason is reason
    assert f"reason: {reason}." in as_text(found, 1.0)
    assert as_data(found)["reason"] == str(reason)


def test_completions_that_are_left_out_are_counted() -> None:
    job = elastic("long", 3.0, 1, utility=Deadline(5.0, 80.0))
    found = explain("pdors", machines({"gpu": 1.0}), [job], "long", horizon=90, slot_seconds=1.0)

    assert (len(found.completions), found.completion_slots) == (24, 79)
    assert as_data(found)["completion_slots"] == 79
    assert "\n(24 of 79 shown, evenly over the slots in which it could finish and be worth something: " in as_text(
        found, 1.0
    )
    few = asked(elastic("poor", 3.0, 1, utility=Deadline(5.0, 8.0)))
    assert few.completion_slots == len(few.completions) == 7
    assert "shown" not in as_text(few, 1.0)


@pytest.mark.parametrize("policy", ["pdors", "oasis"])
def test_worths_next_to_nothing_are_told_without_exponents(policy: str) -> None:
    job = elastic("late", 3.0, 1, utility=Sigmoid(1.0, 30.0, 1.0))
    found = asked(job, policy=policy)
    text = as_text(found, 1.0)

    assert found.record.reason is Reason.PRICED_OUT
    assert 0.0 < found.completions[0].utility < 1e-12
    assert "0 (below 1e-6)" in found.record.detail
    assert re.search(r"\de[+-]\d", text.replace("1e-6", "")) is None
    # Columns stay columns.
    head = next(line for line in text.splitlines() if line.startswith("finishing by"))
    row = next(line for line in text.splitlines() if line.startswith("slot "))
    assert row[head.index("worth") :].startswith("0 (below 1e-6)")
    assert row[head.index("costs") - 1] == " " != row[head.index("costs")]


def test_a_job_that_waits_hears_behind_whom() -> None:
    jobs = [gang("a", 1, 3), gang("b", 1, 2), gang("c", 1, 9)]
    cluster = machines({"gpu": 1.0})

    second, third = (explain("fifo", cluster, jobs, name, **SECOND) for name in ("b", "c"))

    assert [(w.first, w.last, w.reason) for w in second.waits] == [(0, 2, Reason.WAITING)]
    assert second.waits[0].detail == "it is the first in line, and does not fit beside the job that runs: 'a'"
    assert second.record.completed == 4
    assert [(w.first, w.last, w.detail) for w in third.waits] == [
        (0, 2, "behind 'b', the first in line, which does not fit beside the job that runs: 'a'"),
        (3, 4, "it is the first in line, and does not fit beside the job that runs: 'b'"),
    ]
    assert "slots 3 to 4: waiting behind a job" in as_text(third, 1.0)
    # Of 9 slots of work 6 were done when slot 11 opened.
    assert "not finished by the horizon (12), 67% trained when the last slot opened" in as_text(third, 1.0)
    assert "ran in 7 slots with 1 worker, waited in 5" in as_text(third, 1.0)


def test_a_wait_behind_one_job_fewer_is_the_same_wait() -> None:
    jobs = [gang("a", 1, 1), gang("b", 1, 3), gang("c", 2, 1)]

    found = explain("fifo-backfill", machines({"gpu": 2.0}), jobs, "c", **SECOND)

    assert [(w.first, w.last, w.detail) for w in found.waits] == [
        (
            0,
            2,
            "its 2 workers and 0 servers do not fit beside 1 running job before it, the last of them 'b'; passed by 0 "
            "jobs",
        )
    ]
    assert "ran in 1 slot with 2 workers" in as_text(found, 1.0)


def test_a_job_that_loses_its_share_hears_so() -> None:
    jobs = [gang("a", 1, 9), gang("b", 1, 9)]

    found = explain("drf", machines({"gpu": 1.0}), jobs, "b", **SECOND)

    assert found.waits[0].reason is Reason.LOST_SHARE
    assert "lost fairness share" in as_text(found, 1.0)


def test_the_decision_is_that_of_the_run() -> None:
    drawn = paper(40, 10, 20, 3)
    assert drawn.cluster is not None
    sizes: dict[str, Any] = {"horizon": 20, "slot_seconds": drawn.slot_seconds}
    run = simulate("pdors", drawn.cluster, drawn.jobs, **sizes)
    for record in run.records.values():
        found = explain("pdors", drawn.cluster, drawn.jobs, record.id, **sizes)
        assert (found.record.admitted, found.record.reason, found.record.detail, found.record.promised) == (
            record.admitted,
            record.reason,
            record.detail,
            record.promised,
        )


def test_what_would_have_been_let_in_is_let_in_and_a_little_less_is_not() -> None:
    drawn = paper(40, 8, 20, 1)
    cluster = drawn.cluster
    assert cluster is not None
    sizes: dict[str, Any] = {"horizon": 20, "slot_seconds": drawn.slot_seconds}
    # Prices that do not depend on the job asked about.
    high = np.full(len(cluster.resources), np.log(1e5))
    prices = Prices(-np.log(cluster.mean_capacity * len(cluster.resources) * 0.5), high)

    def policy() -> PdOrs:
        return PdOrs(Planner(), Constant(prices))

    def let_in(at: int, job: Job) -> bool:
        jobs = [*drawn.jobs[:at], job, *drawn.jobs[at + 1 :]]
        return simulate(policy(), cluster, jobs, **sizes).records[job.id].admitted

    told = {"value": 0, "target": 0, "workload": 0}
    for at, job in enumerate(drawn.jobs):
        found = explain(policy(), cluster, drawn.jobs, job.id, **sizes)
        for one in found.changes:
            utility = job.utility
            assert isinstance(utility, Sigmoid)
            match one.change:
                case "value":
                    if one.needed > 1e3 * one.was:
                        continue
                    does = dataclasses.replace(job, utility=dataclasses.replace(utility, value=one.needed * 1.001))
                    fails = dataclasses.replace(job, utility=dataclasses.replace(utility, value=one.needed * 0.999))
                case "target":
                    does = dataclasses.replace(job, utility=dataclasses.replace(utility, target=one.needed))
                    fails = dataclasses.replace(job, utility=dataclasses.replace(utility, target=one.needed - 1.0))
                case _:
                    does = dataclasses.replace(job, workload=one.needed)
                    fails = dataclasses.replace(job, workload=one.needed * 1.01)
            assert let_in(at, does), (job.id, one)
            assert not let_in(at, fails), (job.id, one)
            told[one.change] += 1
    assert told["value"] >= 2
    assert told["workload"] >= 4


def test_utilities_move_their_target() -> None:
    from slotwise.explanation import _moved

    for utility in (Sigmoid(10.0, 0.5, 3.0), Deadline(10.0, 3.0), Linear(10.0, 6.0)):
        assert _moved(utility, 4).target == utility.target + 4.0
    insensitive = Sigmoid(10.0, 0.0, 3.0)
    assert _moved(insensitive, 4) == insensitive


def test_refuses_a_job_that_is_not_there() -> None:
    with pytest.raises(InvalidInput, match="job must be one of the 1 job of the run, got 'ghost'"):
        explain("fifo", machines({"gpu": 1.0}), [gang("a", 1, 1)], "ghost", **SECOND)
