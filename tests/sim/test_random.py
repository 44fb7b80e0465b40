"""Random small workloads, played whole under every policy and looked at by the independent checker."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import POLICIES, completions, decisions, play
from tests.sim.feasible import assert_feasible

from slotwise.events import Admit, record
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.model.schedule import Reason
from slotwise.model.speed import AllReduceSpeed, FittedSpeed, PaperSpeed, SpeedModel
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid, Utility
from slotwise.policies.catalogue import COMMITTING

SLOT_SECONDS = 10.0
HORIZON = 8

_POINTS = tuple(SpeedPoint(w, s, w * s / (w + s + w * w / 6.0), b) for w in (1, 5) for s in (1, 3) for b in (1.0, 10.0))

_amounts = st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0, 2.0])


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    racks = draw(st.sampled_from([None, ["a"], ["a", "b"]]))
    listed = [
        Machine(
            f"m{i}",
            {"gpu": draw(st.sampled_from([0.0, 1.0, 2.0, 4.0])), "cpu": draw(st.sampled_from([1.0, 4.0]))},
            {} if racks is None else {"rack": draw(st.sampled_from(racks))},
        )
        for i in range(draw(st.integers(1, 5)))
    ]
    between = draw(st.sampled_from([1.0, 10.0]))
    if racks is None:
        return Cluster.of(listed, (10.0, between))
    return Cluster.of(listed, (10.0, draw(st.sampled_from([between, 10.0])), between), ("machine", "rack", "cluster"))


@st.composite
def jobs(draw: st.DrawFn, index: int, restarts: bool) -> Job:
    batch = draw(st.integers(1, 12))
    most = draw(st.integers(1, batch))
    least = draw(st.sampled_from([1, most]))
    gradient = draw(st.sampled_from([0.0, 1.0, 30.0]))
    speed: SpeedModel = draw(
        st.one_of(
            st.just(AllReduceSpeed(1.0, gradient)),
            st.sampled_from([0.5, 1.0, 1.5, 3.0, 20.0]).map(lambda g: PaperSpeed(1.0, gradient, g)),
            st.sampled_from([0.0, 0.1, 1.0]).map(lambda c: FittedSpeed(0.1, 1.0, gradient / 10.0, c, c / 10.0, 10.0)),
            st.just(TableSpeed(_POINTS)).filter(lambda _: least <= 5),
        )
    )
    worth: list[Utility] = [Sigmoid(50.0, 0.5, 3.0), Sigmoid(9.0, 6.0, 1.0), Linear(20.0, 5.0), Deadline(7.0, 2.0)]
    worker = {"gpu": draw(_amounts), "cpu": draw(_amounts)}
    if not any(worker.values()):
        worker["cpu"] = 1.0
    return Job(
        id=f"job-{index:02d}",
        arrival=draw(st.integers(0, HORIZON - 1)),
        workload=draw(st.floats(1.0, 150.0)),
        batch_size=batch,
        worker_demand=worker,
        server_demand={"cpu": draw(_amounts)},
        speed=speed,
        utility=draw(st.sampled_from(worth)),
        min_workers=least,
        max_workers=most,
        requested_workers=draw(st.one_of(st.none(), st.integers(least, most))),
        restart_seconds=draw(st.sampled_from([0.0, 3.0])) if restarts else 0.0,
        domain=draw(st.sampled_from([None, None, "machine", "rack", "cluster"])),
    )


@st.composite
def workloads(draw: st.DrawFn, *, restarts: bool) -> tuple[Cluster, list[Job]]:
    count = draw(st.integers(1, 14))
    return draw(clusters()), [draw(jobs(i, restarts)) for i in range(count)]


@pytest.mark.parametrize(
    ("name", "prices"),
    [*((name, "learnt") for name in POLICIES), *((name, "scale=1e-3") for name in ("pdors", "oasis"))],
)
@given(workload=workloads(restarts=True))
@settings(max_examples=60)
def test_any_workload_is_played_within_capacity_and_its_counts_add_up(
    name: str, prices: str, workload: tuple[Cluster, list[Job]]
) -> None:
    cluster, arrivals = workload

    run, log = play(name, cluster, arrivals, HORIZON, prices=prices, slot_seconds=SLOT_SECONDS)

    promises = assert_feasible(cluster, log, SLOT_SECONDS)
    done = completions(log)
    figures = run.summary()
    reasons = Counter(r.reason for r in run.records.values())
    assert figures["infeasible"] == reasons[Reason.HORIZON_ENDS]
    turned_away = sum(figures["rejected"].values()) + figures["infeasible"]
    assert figures["jobs"] == figures["completed"] + figures["unfinished"] + turned_away == len(arrivals)
    assert len(done) == figures["completed"]
    assert set(done) <= set(promises)
    for job in arrivals:
        earned = float(job.utility.values(HORIZON)[done[job.id] - job.arrival]) if job.id in done else 0.0
        assert run.records[job.id].utility == pytest.approx(earned)
    if name in COMMITTING:
        assert set(done) == set(promises)
        restarting = {job.id for job in arrivals if job.restart_seconds}
        for job_id, promised in promises.items():
            assert promised is not None
            assert done[job_id] <= promised
            # oasis does not count on locality, which then makes up for time.
            assert done[job_id] == promised or job_id in restarting or name == "oasis"


@given(workload=workloads(restarts=False), data=st.data())
@settings(max_examples=40)
def test_with_learnt_prices_the_future_changes_no_decision(
    workload: tuple[Cluster, list[Job]], data: st.DataObject
) -> None:
    cluster, arrivals = workload
    arrivals.sort(key=lambda job: job.arrival)
    count = data.draw(st.integers(0, len(arrivals)))

    def decide(jobs: list[Job]) -> list[dict[str, object]]:
        _, log = play("pdors", cluster, jobs, HORIZON, prices="learnt", slot_seconds=SLOT_SECONDS)
        return [record(item) for item in decisions(log)]

    assert decide(arrivals[:count]) == decide(arrivals)[:count]


@pytest.mark.parametrize("name", POLICIES)
@given(workload=workloads(restarts=True))
@settings(max_examples=20)
def test_a_run_repeats_itself(name: str, workload: tuple[Cluster, list[Job]]) -> None:
    cluster, arrivals = workload

    first = play(name, cluster, arrivals, HORIZON, prices="learnt", slot_seconds=SLOT_SECONDS)[1]
    second = play(name, cluster, arrivals, HORIZON, prices="learnt", slot_seconds=SLOT_SECONDS)[1]

    assert first == second


@given(workload=workloads(restarts=False))
@settings(max_examples=40)
def test_a_payoff_never_comes_from_a_cost_below_zero(workload: tuple[Cluster, list[Job]]) -> None:
    cluster, arrivals = workload

    _, log = play("pdors", cluster, arrivals, HORIZON, prices="learnt", slot_seconds=SLOT_SECONDS)

    for item in decisions(log):
        if isinstance(item, Admit):
            assert 0.0 < item.cost < item.utility
