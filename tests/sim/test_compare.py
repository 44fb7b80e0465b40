"""Runs of a comparison are those that ``simulate`` makes, on the same jobs for all policies."""

from __future__ import annotations

import dataclasses
import gzip
import importlib.util
import json
import math
import os
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.builders import elastic, gang, machines

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.model.schedule import Placement
from slotwise.optim.bound import upper_bound
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import pack
from slotwise.sim import tables
from slotwise.sim.compare import Comparison, Conditions, compare, play
from slotwise.sim.outcomes import Failed, Outcome
from slotwise.sim.simulator import simulate
from slotwise.workloads._base import Workload
from slotwise.workloads.synthetic import paper


class Shortest(Policy):
    """Run the job with the least workload left first."""

    name = "shortest"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return pack(sorted(state.active, key=lambda job: (state.remaining[job.id], job.id)), state.free)


def drawn(seed: int) -> Workload:
    return paper(30, 10, 20, seed)


def test_under_one_seed_all_policies_see_the_same_jobs_and_another_seed_has_others() -> None:
    runs = compare(["pdors", "fifo", "drf"], None, drawn, seeds=(0, 1), bound=False, processes=1)

    digests = {key: outcome.digest for key, outcome in runs.outcomes.items()}
    assert len({digests[policy, 0] for policy in ("pdors", "fifo", "drf")}) == 1
    assert len({digests[policy, 1] for policy in ("pdors", "fifo", "drf")}) == 1
    assert digests["pdors", 0] == drawn(0).digest != digests["pdors", 1]
    arrivals = [[(r.id, r.arrival) for r in runs[policy, 0].records.values()] for policy in ("pdors", "fifo", "drf")]
    assert arrivals[0] == arrivals[1] == arrivals[2] == [(job.id, job.arrival) for job in drawn(0).jobs]


def test_processes_make_the_runs_that_simulate_makes() -> None:
    runs = compare(["pdors", "drf"], None, drawn, seeds=(0, 1), processes=2)

    assert list(runs) == [("pdors", 0), ("pdors", 1), ("drf", 0), ("drf", 1)]
    for (policy, seed), run in runs.items():
        alone = drawn(seed)
        assert alone.cluster is not None
        expected = simulate(policy, alone.cluster, alone.jobs, horizon=20, slot_seconds=alone.slot_seconds, seed=seed)
        assert run.records == expected.records
        assert run.utilization == expected.utilization
    for seed in (0, 1):
        alone = drawn(seed)
        assert alone.cluster is not None
        bound = upper_bound(alone.jobs, alone.cluster, horizon=20, slot_seconds=alone.slot_seconds)
        found = runs.bounds[seed].value
        assert found is not None
        assert found == pytest.approx(bound.value, rel=1e-3)


def test_a_class_of_ones_own_and_a_list_of_jobs() -> None:
    jobs = [gang("long", 1, 4), gang("short", 1, 2)]

    runs = compare([Shortest, "fifo"], machines({"gpu": 1.0}), jobs, horizon=10, slot_seconds=1.0, processes=1)

    # Lengths 4 and 2 on one GPU: the shorter one first, or in order of arrival.
    completed = {name: {r.id: r.completed for r in runs[name, 0].records.values()} for name in ("shortest", "fifo")}
    assert completed == {"shortest": {"short": 1, "long": 5}, "fifo": {"long": 3, "short": 5}}


def test_one_list_of_jobs_has_one_bound_for_all_seeds() -> None:
    jobs = [elastic("a", 4.0, 2)]

    runs = compare(["fifo"], machines({"gpu": 2.0}), jobs, seeds=(3, 5), horizon=9, slot_seconds=1.0, processes=1)

    assert runs.bounds[3].value == runs.bounds[5].value
    assert runs.runs()["upper_bound"].null_count() == 0


def test_the_events_of_a_run_are_kept_in_order() -> None:
    (only,) = play(drawn, [("fifo", 0)], Conditions(), events=True, processes=1)

    assert isinstance(only, Outcome)
    lines = [json.loads(line) for line in gzip.decompress(only.events).splitlines()]
    slots = [line["slot"] for line in lines if line["kind"] == "SlotOpened"]
    assert slots == list(range(20))
    assert sum(line["kind"] == "JobArrived" for line in lines) == 30
    done = {line["job_id"] for line in lines if line["kind"] == "JobCompleted"}
    assert done == {r.id for r in only.run.records.values() if r.completed is not None}


def test_modules_of_ones_own_are_found_where_one_is_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "import slotwise\n\n\nclass Own(slotwise.Policy):\n    name = 'own'\n\n"
        "    def place(self, state, rng):\n        return {}\n"
    )
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    (tmp_path / "second/found_only_here.py").write_text(source)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path / "first")
    # Processes that stay for the next call.
    compare(["fifo"], None, lambda seed: paper(5, 2, 8, seed), seeds=(0, 1), bound=False, processes=2)
    monkeypatch.chdir(tmp_path / "second")

    runs = compare(
        ["found_only_here:Own"], None, lambda seed: paper(5, 2, 8, seed), seeds=(0, 1), bound=False, processes=2
    )

    assert [run.total_utility for run in runs.values()] == [0.0, 0.0]


def test_a_summary_is_the_mean_over_runs_and_shows_who_did_not_finish() -> None:
    # One GPU for 4 slots: of two jobs of 3 slots each, one finishes. In the other run both do, in slots 2 and 3.
    first = compare(
        ["fifo"], machines({"gpu": 1.0}), [gang("a", 1, 3), gang("b", 1, 3)], horizon=4, slot_seconds=1.0, processes=1
    )
    second = compare(
        ["fifo"], machines({"gpu": 1.0}), [gang("a", 1, 3), gang("b", 1, 1)], horizon=4, slot_seconds=1.0, processes=1
    )
    one, other = first.outcomes["fifo", 0], second.outcomes["fifo", 0]
    moved = Outcome("fifo", 1, other.digest, other.run, b"", [], 0.0)
    both = Comparison([one, moved], [first.bounds[0], dataclasses.replace(second.bounds[0], seed=1)])

    (row,) = both.summary().to_dicts()
    assert row["runs"] == 2
    assert row["unfinished"] == 0.5
    assert row["completed"] == 1.5
    # 3 slots in the first run; 3 and 4 in the second.
    assert row["jct_seconds_mean"] == pytest.approx((3.0 + 3.5) / 2)
    earned = [one.run.total_utility, other.run.total_utility]
    assert row["total_utility"] == pytest.approx(math.fsum(earned) / 2)
    assert row["total_utility_std"] == pytest.approx(np.std(earned, ddof=1))
    bounds = [b.value for b in both.bounds.values()]
    assert row["fraction_of_bound"] == pytest.approx(math.fsum(earned) / math.fsum(v for v in bounds if v is not None))
    assert any("did not finish" in note and "fifo 0.5" in note for note in tables.notes([row]))


def test_says_that_a_run_without_contention_proves_nothing() -> None:
    row = {"policy": "pdors", "runs": 1, "seeds": "0", "total_utility": 100.0, "unfinished": 0.0, "rejected": 0.0}

    assert not tables.notes([row, row | {"policy": "fifo", "total_utility": 94.9}])
    (note,) = tables.notes([row, row | {"policy": "fifo", "total_utility": 95.0}])
    assert note.startswith("fifo earns 95% of what pdors earns")


def test_says_that_means_are_over_different_runs() -> None:
    row = {"policy": "pdors", "runs": 2, "seeds": "0,1", "total_utility": 100.0, "unfinished": 0.0, "rejected": 0.0}

    (note,) = tables.notes([row, row | {"policy": "drf", "seeds": "2,3"}])
    assert "runs of different seeds" in note
    assert "pdors 0,1; drf 2,3" in note


def test_where_nothing_can_be_earned_there_is_no_share() -> None:
    runs = compare(["fifo"], machines({"gpu": 1.0}), [gang("a", 2, 1)], horizon=3, slot_seconds=1.0, processes=1)

    (row,) = runs.summary().to_dicts()
    assert row["upper_bound"] == 0.0
    assert row["fraction_of_bound"] is None


class Boom(Shortest):
    """It fails in the second seed."""

    name = "boom"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        if state.slot == 7:
            raise RuntimeError("out of ideas")
        return super().place(state, rng)


def test_a_policy_that_fails_does_not_take_the_others_with_it() -> None:
    made = list(play(drawn, [("fifo", 0), (Boom, 0), (None, 0), ("drf", 0)], Conditions(), processes=1))

    assert [type(one).__name__ for one in made] == ["Outcome", "Failed", "Bounded", "Outcome"]
    failed = made[1]
    assert isinstance(failed, Failed)
    assert failed.message.startswith("policy 'boom' fails: RuntimeError: out of ideas")
    with pytest.raises(SlotwiseError, match="seed 0: policy 'boom' fails: RuntimeError: out of ideas"):
        compare([Boom], None, drawn, bound=False, processes=1)


@pytest.mark.parametrize(
    ("policies", "says"),
    [
        ([], "policies must name at least one"),
        (["fifo", "drf", "fifo"], "policies must be distinct, got 'fifo' twice"),
        (["best"], "policy must be one of"),
        (["nowhere:Policy"], "must name a class that can be imported"),
        (["json:JSONDecoder"], "must be a subclass of slotwise.Policy"),
        (["slotwise.policies.pdors:PdOrs"], "must be made without arguments"),
        ("fifo", "policies must be a list of names or classes, got 'fifo'"),
        ([dict], "policy must be a name or a subclass of Policy"),
    ],
)
def test_refuses_policies_that_are_none(policies: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        compare(policies, None, drawn, processes=1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"processes": 0}, "processes must be >= 1, got 0"),
        ({"parallel": "threads"}, "parallel must be one of processes, ray, got 'threads'"),
    ],
)
def test_refuses_ways_of_running_that_are_none(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        compare(["fifo"], None, drawn, **arguments)  # type: ignore[arg-type]  # wrong on purpose


def test_a_list_of_jobs_needs_a_horizon_and_machines() -> None:
    with pytest.raises(InvalidInput, match="horizon and slot_seconds must be given"):
        compare(["fifo"], machines({"gpu": 1.0}), [gang("a", 1, 1)], processes=1)
    with pytest.raises(InvalidInput, match="cluster must be given"):
        compare(["fifo"], None, [gang("a", 1, 1)], horizon=3, slot_seconds=1.0, processes=1)


def test_two_ray_nodes_make_the_same_runs() -> None:
    if importlib.util.find_spec("ray") is None:
        pytest.skip("the extra `ray` is not installed")
    # In a process of its own: Ray takes signals and threads for itself, and warns of much.
    script = """
        import json, ray, slotwise
        from ray.cluster_utils import Cluster
        nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, log_to_driver=False)
        try:
            source = lambda seed: slotwise.paper(30, 10, 20, seed)
            runs = slotwise.compare(["pdors", "fifo"], None, source, seeds=(0, 1), parallel="ray")
            alive = sum(node["Alive"] for node in ray.nodes())
            print(json.dumps([alive, [[*key, run.total_utility] for key, run in runs.items()]]))
        finally:
            ray.shutdown()
            nodes.shutdown()
    """
    # By default Ray listens on the machine's own address; so it stays on loopback.
    alone = os.environ | {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=False, env=alone, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    alive, earned = json.loads(done.stdout.splitlines()[-1])
    assert alive == 2
    here = compare(["pdors", "fifo"], None, drawn, seeds=(0, 1), bound=False, processes=1)
    assert earned == [[*key, run.total_utility] for key, run in here.items()]
