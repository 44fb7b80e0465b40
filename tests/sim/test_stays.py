"""Stays are what the event log says, slot by slot."""

from __future__ import annotations

from typing import Any

import pytest

from slotwise.events import record
from slotwise.model.job import Job
from slotwise.sim.simulator import simulate
from slotwise.sim.stays import Stay, stays
from slotwise.workloads.synthetic import paper

Row = dict[str, Any]


def move(kind: str, slot: int, job_id: str, **machines: tuple[int, int]) -> Row:
    """``m0=(2, 1)``: 2 workers and 1 server on machine 0."""
    return {
        "kind": kind,
        "slot": slot,
        "job_id": job_id,
        "machines": [int(name[1:]) for name in machines],
        "workers": [workers for workers, _ in machines.values()],
        "servers": [servers for _, servers in machines.values()],
    }


def test_a_stay_ends_when_what_runs_on_its_machine_changes() -> None:
    rows = [
        move("Launch", 0, "a", m0=(2, 1), m1=(1, 0)),
        move("Resize", 2, "a", m0=(2, 1), m2=(3, 0)),  # stays on machine 0
        move("Stop", 3, "a"),
        move("Launch", 5, "a", m0=(2, 1)),
        move("JobCompleted", 6, "a"),
        move("Launch", 6, "b", m1=(0, 4)),
    ]

    assert set(stays(rows, 8)) == {
        Stay("a", 0, 0, 2, 2, 1),
        Stay("a", 1, 0, 1, 1, 0),
        Stay("a", 2, 2, 2, 3, 0),
        Stay("a", 0, 5, 6, 2, 1),  # a job runs in the slot in which it completes
        Stay("b", 1, 6, 7, 0, 4),  # up to the horizon
    }


@pytest.mark.parametrize("policy", ["pdors", "drf", "srtf"])
def test_stays_of_a_run_take_what_the_run_used(policy: str) -> None:
    workload = paper(60, 8, 20, 3)
    assert workload.cluster is not None
    rows: list[Row] = []
    run = simulate(
        policy,
        workload.cluster,
        workload.jobs,
        horizon=20,
        slot_seconds=workload.slot_seconds,
        log=lambda item: rows.append(record(item)),
    )

    found = list(stays(rows, 20))

    jobs: dict[str, Job] = {job.id: job for job in workload.jobs}
    at = {name: index for index, name in enumerate(workload.cluster.resources)}
    offered = workload.cluster.capacity.sum(axis=0)
    for slot in range(20):
        here = [stay for stay in found if stay.first <= slot <= stay.last]
        assert len({stay.job_id for stay in here}) == run.running[slot]
        for name, index in at.items():
            used = sum(
                stay.workers * jobs[stay.job_id].worker_demand.get(name, 0.0)
                + stay.servers * (jobs[stay.job_id].server_demand or {}).get(name, 0.0)
                for stay in here
            )
            assert used / offered[index] == pytest.approx(run.use[slot, index], rel=1e-9, abs=1e-12)
    pairs = [(stay.job_id, stay.machine, slot) for stay in found for slot in range(stay.first, stay.last + 1)]
    assert len(pairs) == len(set(pairs)), "two stays of one job on one machine overlap"


def test_jobs_wait_that_are_in_and_do_not_run() -> None:
    workload = paper(60, 8, 20, 3)
    assert workload.cluster is not None
    sizes: dict[str, Any] = {"horizon": 20, "slot_seconds": workload.slot_seconds}
    run = simulate("fifo", workload.cluster, workload.jobs, **sizes)

    for slot in range(20):
        inside = [
            r
            for r in run.records.values()
            if r.admitted and r.arrival <= slot and (r.completed is None or r.completed >= slot)
        ]
        # Who completes in this slot ran in it, and is gone when the slot is over.
        done = sum(r.completed == slot for r in inside)
        assert run.running[slot] + run.waiting[slot] == len(inside), (slot, done)
    assert run.waiting.max() > 0
