from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.model.job import Job
from slotwise.model.speed import AllReduceSpeed
from slotwise.workloads import tiresias
from slotwise.workloads._base import Workload

Write = Callable[..., Path]
read = reader(tiresias.records)
HEADER = ",".join(tiresias.COLUMNS)
CLUSTER_HEADER = ",".join(tiresias.CLUSTER_COLUMNS)


def row(job: str = "1", gpus: str = "2", submit: str = "0", model: str = "vgg19", duration: str = "90") -> str:
    return ",".join((job, gpus, submit, "500", model, duration, "7"))


def gradient_mb(job: Job) -> float:
    assert isinstance(job.speed, AllReduceSpeed)
    return job.speed.gradient_mb


def test_a_job_has_one_gpu_a_worker_and_no_servers(write: Write) -> None:
    (job,) = read(write(HEADER, row(gpus="4"))).jobs
    assert (job.min_workers, job.requested_workers, job.max_workers) == (1, 4, 8)
    assert job.worker_demand["gpu"] == 1.0
    assert isinstance(job.speed, AllReduceSpeed)
    assert recorded_seconds(job) == pytest.approx(90.0)


def test_interval_is_the_gap_to_the_next_job_and_moves_nothing(write: Write) -> None:
    rows = ["a,1,0,10,vgg16,60,120", "b,1,120,10,vgg16,60,600", "c,1,720,10,vgg16,60,9"]
    workload = read(write(HEADER, *rows), slot_seconds=60.0)
    assert [(job.id, job.arrival) for job in workload.jobs] == [("a", 0), ("b", 2), ("c", 12)]


def test_arrival_counts_from_the_first_submission_in_any_order(write: Write) -> None:
    workload = read(write(HEADER, row("a", submit="661"), row("b", submit="600")), slot_seconds=60.0)
    assert [(job.id, job.arrival) for job in workload.jobs] == [("b", 0), ("a", 2)]
    assert workload.horizon == 2 + 2


def test_columns_are_found_by_name(write: Write) -> None:
    names = ("extra", *reversed(tiresias.COLUMNS))
    cells = dict(zip(tiresias.COLUMNS, row().split(","), strict=True)) | {"extra": "x"}
    (job,) = read(write(",".join(names), ",".join(cells[name] for name in names))).jobs
    assert (job.id, job.requested_workers) == ("1", 2)
    slim = "job_id,num_gpu,submit_time,model_name,duration"
    assert len(read(write(slim, "1,2,0,vgg19,90")).jobs) == 1


def test_known_models_have_their_size_and_others_are_drawn_and_counted(write: Write) -> None:
    workload = read(write(HEADER, row("a", model="vgg19"), row("b", model="resnet50"), row("c", model="my-net")))
    assert [gradient_mb(job) for job in workload.jobs[:2]] == [547.1, 80.6]
    assert "1 of 3 jobs name none of them" in workload.assumed["model"]
    assert all(job.worker_demand["gpu"] == 1.0 for job in workload.jobs)


def test_form_of_the_file_makes_no_difference(write: Write) -> None:
    rows = [row("a"), row("b", submit="900")]
    plain = read(write(HEADER, *rows)).jobs
    for lines, end in (
        (["\ufeff" + HEADER, *rows], "\r\n"),
        (["", HEADER, "", *rows, " "], "\n"),
        (["\n".join([HEADER, *rows])], ""),
    ):
        assert read(write(*lines, end=end)).jobs == plain


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (row("9", gpus="0"), "num_gpu must be a whole number in 1 ... 10000, got 0"),
        (row("9", gpus="-2"), "num_gpu must be a whole number in 1 ... 10000, got -2"),
        (row("9", gpus="1.5"), "num_gpu must be a whole number in 1 ... 10000, got 1.5"),
        (row("9", submit=""), "submit_time must be a number"),
        (row("9", duration="-1"), "duration must be a number in 0 ... "),
        (row("9", duration="long"), "duration must be a number in 0 ... .*, got 'long'"),
        (row(""), "job_id must be a name"),
        (row() + ",8", "row must be 7 fields, got 8"),
    ],
)
def test_malformed_rows_are_counted_or_stop_a_strict_reader(write: Write, bad: str, field: str) -> None:
    path = write(HEADER, row("a"), bad)
    workload = read(path)
    assert (len(workload.jobs), workload.skipped) == (1, {"rows: malformed": 1})
    with pytest.raises(InvalidTrace, match=f":3: {field}"):
        read(path, strict=True)


def test_a_second_row_of_a_job_is_counted(write: Write) -> None:
    path = write(HEADER, row("a"), row("a", gpus="8"))
    workload = read(path)
    assert [job.requested_workers for job in workload.jobs] == [2]
    assert workload.skipped == {"rows: duplicate job_id": 1}
    with pytest.raises(InvalidTrace, match=":3: job_id must be distinct, got 'a'"):
        read(path, strict=True)


def test_bad_header_and_no_usable_row_are_errors(write: Write) -> None:
    with pytest.raises(InvalidTrace, match=":1: header must be a row with the columns job_id, num_gpu"):
        read(write(HEADER.replace("num_gpu", "gpus"), row()))
    with pytest.raises(InvalidTrace, match=":1: header must be a row with one column duration"):
        read(write(HEADER.replace("interval", "duration"), row()))
    with pytest.raises(InvalidTrace, match=r"at least 1 job, got 0 in 1 row \(1 malformed\)"):
        read(write(HEADER, row(gpus="x")))
    with pytest.raises(InvalidTrace, match=r"at least 1 job, got 0 in 0 rows \(no row\)"):
        read(write(HEADER))


def test_seed_and_prefix(write: Write) -> None:
    rows = [row(f"j{i}", submit=str(30 * i), model="unheard-of") for i in range(20)]

    def first(count: int, seed: int = 0) -> Workload:
        return read(write(HEADER, *rows[:count]), seed=seed)

    assert first(20).digest == first(20).digest
    assert first(20).digest != first(20, seed=1).digest
    assert first(8).jobs == first(20).jobs[:8]


CELLS = st.sampled_from(["", "1", "2", "x", "-1", "1e99", "nan", "2.5", "vgg19", "é", '"a"', "10000"])


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(st.lists(CELLS, min_size=6, max_size=8), max_size=12))
def test_every_row_is_accounted_for(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_text("\n".join([HEADER, *map(",".join, rows)]), encoding="utf-8")
    try:
        workload = read(path)
    except InvalidTrace as error:
        lines_of_error = str(error).split("\n")
        assert len(lines_of_error) == 1
    else:
        assert len(workload.jobs) + sum(workload.skipped.values()) == len(rows)


def test_cluster_is_switches_times_nodes(write: Write) -> None:
    cluster = tiresias.read_cluster(write(CLUSTER_HEADER, "2,3,4,40,256"))
    assert cluster.names == ("s0n0", "s0n1", "s0n2", "s1n0", "s1n1", "s1n2")
    assert cluster.resources == ("gpu", "cpu", "memory")
    assert cluster.capacity[5].tolist() == [4, 40, 256]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0,3,4,40,256"], ":2: num_switch must be a whole number in 1 ... 100000, got 0"),
        (["2,3,-4,40,256"], ":2: num_gpu_p_node must be a number in 0 ... "),
        (["2,3,4,40"], ":2: row must be 5 fields, got 4"),
        (["90000,2,4,40,256"], ":2: num_switch x num_node_p_switch must be at most 100000 machines, got 180000"),
        (["1,3,4,40,256", "1,3,4,40,256"], ":3: row must be the only one, got '2 rows'"),
        ([], r"at least 1 row, got 0 in 0 rows \(no row\)"),
    ],
)
def test_cluster_with_a_fault_is_an_error(write: Write, lines: list[str], message: str) -> None:
    with pytest.raises(InvalidTrace, match=message):
        tiresias.read_cluster(write(CLUSTER_HEADER, *lines))


def test_real_trace(traces: Path) -> None:
    path = traces / "tiresias" / "60_job.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = {cells["job_id"]: cells for cells in csv.DictReader(file)}
    workload = read(path, slot_seconds=60.0, strict=True)
    assert len(workload.jobs) == len(rows) == 60
    assert workload.skipped == {}
    assert "6 of 60 jobs name none of them" in workload.assumed["model"]  # googlenet has no published tensor sizes
    first = min(float(cells["submit_time"]) for cells in rows.values())
    for job in workload.jobs:
        cells = rows[job.id]
        assert job.requested_workers == int(cells["num_gpu"])
        assert job.arrival == math.ceil((float(cells["submit_time"]) - first) / 60)
        assert recorded_seconds(job) == pytest.approx(float(cells["duration"]), rel=1e-8)


@pytest.mark.parametrize(("name", "machines", "gpus"), [("cluster_spec", 16, 4), ("n32g4", 32, 4), ("n160g8", 160, 8)])
def test_real_clusters(traces: Path, name: str, machines: int, gpus: int) -> None:
    cluster = tiresias.read_cluster(traces / "tiresias" / f"{name}.csv")
    assert len(cluster) == machines
    assert set(cluster.capacity[:, 0].tolist()) == {gpus}
