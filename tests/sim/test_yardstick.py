"""The yardstick of a trace reader: with its own counts and nobody waiting, a job takes its recorded duration."""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from slotwise.model.cluster import Cluster, Machine
from slotwise.model.job import Job
from slotwise.sim.simulator import simulate
from slotwise.workloads.traces import read_trace

TRACES = Path(os.environ.get("SLOTWISE_TRACES", Path(__file__).parents[2].parent / "shared/traces"))
MINUTE = 60.0


def slots_taken(job: Job, most: int) -> int:
    """Slots that ``fifo`` takes for a job alone on machines that hold one worker, or one server, each."""
    count = job.requested_workers
    assert count is not None
    servers = math.ceil(count / getattr(job.speed, "workers_per_server", math.inf) - 1e-9)
    rooms: list[Mapping[str, float]] = [job.worker_demand] * count + [job.server_demand] * servers
    cluster = Cluster.of(Machine(f"m{i}", resources) for i, resources in enumerate(rooms))
    job = replace(job, arrival=0)
    run = simulate("fifo", cluster, [job], horizon=most, slot_seconds=MINUTE)
    completed = run.records[job.id].completed
    assert completed is not None
    return completed + 1


def test_jobs_of_a_pai_table_take_their_recorded_time(tmp_path: Path) -> None:
    durations = {"alone": 61.0, "ring": 600.0, "served": 1234.0, "brief": 5.0, "exact": 180.0}
    rows = []
    for name, roles in {
        "alone": ["worker"],
        "ring": ["PyTorchWorker"] * 4,
        "served": ["worker"] * 5 + ["ps"] * 2,
        "brief": ["tensorflow"] * 2,
        "exact": ["worker"] * 3 + ["ps"],
    }.items():
        for i, role in enumerate(roles):
            rows.append(f"{name},{role},{name}{i},w{i},i{i},Terminated,1000.0,{1000.0 + durations[name]},m1")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(rows) + "\n")
    jobs = {job.id: job for job in read_trace(path, "1min").jobs}
    assert {name: slots_taken(job, 30) for name, job in jobs.items()} == {
        name: math.ceil(seconds / MINUTE) for name, seconds in durations.items()
    }


def test_jobs_of_the_tiresias_trace_take_their_recorded_time() -> None:
    path = TRACES / "tiresias/60_job.csv"
    if not path.exists():
        pytest.skip(f"no trace at {path}; set SLOTWISE_TRACES")
    with path.open(newline="") as stream:
        durations = {row["job_id"]: float(row["duration"]) for row in csv.DictReader(stream)}
    jobs = read_trace(path, "1min").jobs
    assert len(jobs) == len(durations) == 60
    for job in jobs:
        slots = math.ceil(durations[job.id] / MINUTE)
        assert slots_taken(job, slots + 10) == slots, job.id


def test_a_sample_of_the_pai_part_takes_its_recorded_time() -> None:
    path = TRACES / "pai2020/pai_instance_table.part.csv"
    if not path.exists():
        pytest.skip(f"no trace at {path}; set SLOTWISE_TRACES")
    roles = {"worker", "tensorflow", "PyTorchWorker", "xComputeWorker", "MWorker", "DecoderWorker"}
    spans: dict[str, tuple[float, float]] = {}
    with path.open(newline="") as stream:
        for name, role, *_, status, start, end, _machine in csv.reader(stream):
            if role in roles and status == "Terminated" and start and end:
                first, last = spans.get(name, (math.inf, -math.inf))
                spans[name] = min(first, float(start)), max(last, float(end))
    checked = 0
    for job in read_trace(path, "1min").jobs[::20]:
        seconds = max(1.0, spans[job.id][1] - spans[job.id][0])
        if seconds < 2500 * MINUTE:
            slots = math.ceil(seconds / MINUTE)
            assert abs(slots_taken(job, slots + 10) - slots) <= 1, job.id
            checked += 1
    assert checked > 80
