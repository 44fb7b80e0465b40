from __future__ import annotations

import csv
import gzip
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.model.job import Job
from slotwise.model.speed import AllReduceSpeed, PaperSpeed
from slotwise.workloads import pai
from slotwise.workloads._base import Workload
from slotwise.workloads.traces import read_trace

Write = Callable[..., Path]
read = reader(pai.records)


def row(
    job: str = "j1",
    role: str = "worker",
    instance: str = "i1",
    status: str = "Terminated",
    start: str = "1000.0",
    end: str = "1600.0",
) -> str:
    return ",".join((job, role, instance, "w", "g", status, start, end, "m"))


def servers(job: Job) -> int:
    assert job.requested_workers is not None
    return int(job.speed.pairs(job.requested_workers, job.requested_workers, 1)[1][0])


def rows_accounted_for(workload: Workload) -> int:
    used = sum((job.requested_workers or 0) + servers(job) for job in workload.jobs)
    return used + sum(count for reason, count in workload.skipped.items() if reason.startswith("rows:"))


def jobs_accounted_for(workload: Workload) -> int:
    skipped = sum(count for reason, count in workload.skipped.items() if reason.startswith("jobs:"))
    return len(workload.jobs) + skipped


# Roles


@pytest.mark.parametrize("role", pai.WORKER_ROLES)
def test_worker_roles_are_workers(write: Write, role: str) -> None:
    (job,) = read(write(row(role=role), row(role=role, instance="i2"))).jobs
    assert job.requested_workers == 2
    assert isinstance(job.speed, AllReduceSpeed)


def test_ps_is_a_server_and_the_ratio_need_not_be_whole(write: Write) -> None:
    workers = [row(instance=f"w{i}") for i in range(5)]
    (job,) = read(write(*workers, row(role="ps", instance="p1"), row(role="ps", instance="p2"))).jobs
    assert isinstance(job.speed, PaperSpeed)
    assert job.speed.workers_per_server == 2.5
    assert (job.requested_workers, servers(job)) == (5, 2)
    assert job.server_demand.get("gpu", 0.0) == 0.0


@pytest.mark.parametrize("role", ["evaluator", "chief", "TensorboardTask", "PS", "Worker", ""])
def test_other_roles_are_counted_and_left_out(write: Write, role: str) -> None:
    workload = read(write(row(), row(role=role, instance="x"), row("j2", role)))
    assert [job.id for job in workload.jobs] == ["j1"]
    assert workload.jobs[0].requested_workers == 1
    assert workload.skipped == {"rows: other roles": 2, "jobs: no worker": 1}


def test_job_with_servers_alone_is_left_out(write: Write) -> None:
    workload = read(write(row(), row("j2", "ps")))
    assert workload.skipped == {"rows: of a job left out": 1, "jobs: no worker": 1}


def test_duration_is_the_workers_own(write: Write) -> None:
    ps = row(role="ps", instance="p", start="10.0", end="90000.0")
    path = write(ps, row(instance="a", start="1000.0", end="1300.0"), row(instance="b", start="1050.0", end="1700.0"))
    assert recorded_seconds(read(path).jobs[0]) == pytest.approx(700.0)


def test_servers_that_were_stopped_still_count_where_none_ended_well(write: Write) -> None:
    stopped = row(role="ps", instance="p1", status="Running", end="")
    (job,) = read(write(row(), stopped, row(role="ps", instance="p2", status="Waiting", start="", end=""))).jobs
    assert servers(job) == 1
    workload = read(write(row(), stopped, row(role="ps", instance="p2")))
    assert servers(workload.jobs[0]) == 1
    assert workload.skipped == {"rows: running": 1}


# Status


@pytest.mark.parametrize(
    ("status", "start", "end"),
    [
        ("Failed", "5.0", ""),
        ("Failed", "", "5.0"),
        ("Failed", "5.0", "6.0"),
        ("Interrupted", "", "5.0"),
        ("Running", "", ""),
        ("Running", "5.0", ""),
        ("Waiting", "", ""),
    ],
)
def test_only_terminated_succeeds(write: Write, status: str, start: str, end: str) -> None:
    other = row("j2", status=status, start=start, end=end)
    workload = read(write(row(), row(instance="i2", status=status, start=start, end=end), other))
    assert [(job.id, job.requested_workers) for job in workload.jobs] == [("j1", 1)]
    assert workload.skipped == {f"rows: {status.lower()}": 2, "jobs: no worker that ended well": 1}


def test_unknown_status_is_counted(write: Write) -> None:
    assert read(write(row(), row(instance="i2", status="Paused"))).skipped == {"rows: other status": 1}


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        ("5.0", "", "rows: no end time"),
        ("", "5.0", "rows: no start time"),
        ("6.0", "5.0", "rows: end before start"),
        ("soon", "5.0", "rows: malformed"),
        ("nan", "5.0", "rows: malformed"),
        ("5.0", "inf", "rows: malformed"),
        ("5.0", "1e300", "rows: malformed"),
    ],
)
def test_times_that_cannot_be_are_counted(write: Write, start: str, end: str, reason: str) -> None:
    workload = read(write(row(), row(instance="i2", start=start, end=end)))
    assert workload.skipped == {reason: 1}
    assert workload.jobs[0].requested_workers == 1


# Retries


def test_retries_of_an_instance_are_no_more_workers(write: Write) -> None:
    failed = [row(status="Failed", start=str(i), end="") for i in range(11)]
    workload = read(write(*failed, row(start="1000.0", end="1060.0")))
    assert workload.jobs[0].requested_workers == 1
    assert recorded_seconds(workload.jobs[0]) == pytest.approx(60.0)
    assert workload.skipped == {"rows: duplicate attempts": 11}


def test_an_instance_that_never_ended_well_counts_once_by_its_last_attempt(write: Write) -> None:
    tried = [row("j2", status="Failed", end=""), row("j2", status="Interrupted", start="")]
    workload = read(write(row(), *tried))
    assert workload.skipped == {
        "jobs: no worker that ended well": 1,
        "rows: duplicate attempts": 1,
        "rows: interrupted": 1,
    }


def test_of_two_attempts_that_ended_well_the_later_counts(write: Write) -> None:
    late, early = row(start="500.0", end="600.0"), row(start="0.0", end="10.0")
    workload = read(write(late, early))
    assert recorded_seconds(workload.jobs[0]) == pytest.approx(100.0)
    assert workload.skipped == {"rows: duplicate attempts": 1}


def test_one_instance_name_in_two_jobs_or_roles_is_two_instances(write: Write) -> None:
    workload = read(write(row(), row("j2"), row(role="ps")))
    assert [(job.requested_workers, servers(job)) for job in workload.jobs] == [(1, 1), (1, 0)]


# Order and time


def test_rows_need_no_order(write: Write) -> None:
    rows = [
        row("late", start="5000.0", end="5600.0"),
        row("early"),
        row("late", instance="i2", start="4000.0", end="4100.0"),
    ]
    workload = read(write(*rows), slot_seconds=600.0)
    assert [(job.id, job.arrival) for job in workload.jobs] == [("early", 0), ("late", 5)]
    assert recorded_seconds(workload.jobs[1]) == pytest.approx(1600.0)


def test_arrival_counts_from_the_first_start_rounded_up(write: Write) -> None:
    starts = {"a": 1000, "b": 1001, "c": 1600, "d": 1601}
    path = write(*(row(job, start=f"{start}.0", end="9000.0") for job, start in starts.items()))
    assert [job.arrival for job in read(path, slot_seconds=600.0).jobs] == [0, 1, 1, 2]


def test_jobs_of_one_slot_stay_in_the_order_of_the_file(write: Write) -> None:
    names = ["z", "a", "m", "b"]
    workload = read(write(row("first", start="0.0"), *(row(name, start="5.0") for name in names)))
    assert [job.id for job in workload.jobs] == ["first", *names]


def test_horizon_covers_every_recorded_duration(write: Write) -> None:
    workload = read(write(row(start="0.0", end="60.0"), row("j2", start="700.0", end="1901.0")), slot_seconds=600.0)
    assert workload.horizon == 2 + 3


def test_zero_seconds_count_as_one(write: Write) -> None:
    assert recorded_seconds(read(write(row(end="1000.0"))).jobs[0]) == pytest.approx(1.0)


def test_a_time_stamp_out_of_place_is_named(write: Write) -> None:
    with pytest.raises(InvalidTrace, match="trace must span at most 10000000 slots of 1 s, got 9999"):
        read(write(row(start="0.0", end="10.0"), row("j2", start="9999999000", end="9999999999")), slot_seconds=1.0)


# Form of the file

HEADER = ",".join(pai.COLUMNS)


def test_header_blank_lines_crlf_mark_and_missing_newline_make_no_difference(write: Write) -> None:
    rows = [row(), row(instance="i2"), row("j2", start="9000.0", end="9900.0")]
    plain = read(write(*rows)).jobs
    for lines, end in (
        ([HEADER, *rows], "\n"),
        (["", *rows, "", "  "], "\n"),
        (rows, "\r\n"),
        (rows, "\r"),
        (["\ufeff" + rows[0], *rows[1:]], "\n"),
        (["\ufeff" + HEADER, *rows], "\r\n"),
        (["\n".join(rows)], ""),
        ([line.replace(",", " , ") for line in rows], "\n"),
    ):
        workload = read(write(*lines, end=end))
        assert (workload.jobs, workload.skipped) == (plain, {})


def test_columns_of_a_header_may_be_in_any_order(write: Write) -> None:
    names = (*reversed(pai.COLUMNS), "note")
    cells = dict(zip(pai.COLUMNS, row().split(","), strict=True)) | {"note": "x"}
    (job,) = read(write(",".join(names), ",".join(cells[name] for name in names))).jobs
    assert (job.id, job.requested_workers) == ("j1", 1)


def test_gzip_is_read(write: Write) -> None:
    assert len(read(write(gzip.compress(row().encode()))).jobs) == 1


def test_unreadable_hash_characters_are_part_of_the_name(write: Write) -> None:
    assert [job.id for job in read(write(row("a?b"), row("a??"))).jobs] == ["a?b", "a??"]


def test_bad_header_is_named(write: Write) -> None:
    header = HEADER.replace("end_time", "endtime")
    with pytest.raises(InvalidTrace, match=r":1: header must be a row with the columns .*end_time, got 'job_name"):
        read(write(header, row()))


def test_malformed_rows_are_skipped_and_counted(write: Write) -> None:
    workload = read(write(row(), row() + ",more", "a,b", row(job=""), row(instance=""), row(job="a\tb")))
    assert len(workload.jobs) == 1
    assert workload.skipped == {"rows: malformed": 5, "jobs: no row without a fault": 1}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (row() + ",more", ":4: row must be 9 fields, got 10"),
        (row(job=""), ":4: job_name must be a name without control characters, got ''"),
        (row(start="soon"), r":4: start_time must be a number in .* or empty, got 'soon'"),
        (row(end="999.0"), r":4: end_time must be >= start_time \(1000.0\), got 999.0"),
    ],
)
def test_strict_stops_at_the_first_malformed_row(write: Write, bad: str, message: str) -> None:
    path = write(HEADER, row(), "", bad, "worse")
    with pytest.raises(InvalidTrace, match=message) as caught:
        read(path, strict=True)
    assert str(caught.value).startswith(f"{path}:4: ")
    assert len(read(path).jobs) == 1


def test_strict_accepts_what_is_not_malformed(write: Write) -> None:
    rows = [row(), row(role="chief"), row("j2", status="Waiting", start="", end=""), row("j3", status="Failed", end="")]
    assert len(read(write(*rows), strict=True).jobs) == 1


def test_no_usable_row_is_an_error_with_the_reasons(write: Write) -> None:
    path = write(row(status="Failed"), row(role="chief"), row(role="chief", instance="i2"))
    with pytest.raises(InvalidTrace, match=r"got 0 in 3 rows \(1 failed, 2 other roles\)"):
        read(path)
    with pytest.raises(InvalidTrace, match=r"got 0 in 0 rows \(no row\)"):
        read(write(HEADER))


# What the trace does not say


def test_everything_assumed_is_a_sentence(write: Write) -> None:
    assumed = read(write(row())).assumed
    assert {"model", "demand", "batch_size", "workload", "arrival", "servers", "value", "urgency"} <= set(assumed)
    assert all(text.endswith(".") for text in assumed.values())


def test_the_same_seed_gives_the_same_workload(write: Write) -> None:
    path = write(*(row(f"j{i}") for i in range(30)))
    assert read(path, seed=1).digest == read(path, seed=1).digest
    assert read(path, seed=1).digest != read(path, seed=2).digest


def test_a_prefix_gives_the_same_jobs(write: Write) -> None:
    rows = [row(f"j{i}", start=f"{1000 + 97 * (i % 13)}.0", end="9000.0") for i in range(40)]
    whole = {job.id: job for job in read(write(*rows)).jobs}
    for job in read(write(*rows[:15])).jobs:
        assert whole[job.id] == job


CELLS = st.sampled_from(
    [
        "",
        "a",
        "b",
        "ps",
        "worker",
        "Terminated",
        "Failed",
        "Waiting",
        "1.0",
        "2",
        "-5",
        "1e9",
        "nan",
        "x,y",
        '"',
        "é",
        "{0}",
    ]
)
ROWS = st.builds(
    row,
    st.sampled_from(["a", "b", "c", ""]),
    st.sampled_from(["worker", "ps", "tensorflow", "chief"]),
    st.sampled_from(["i1", "i2", "i3", ""]),
    st.sampled_from([*pai.STATUSES, "Odd"]),
    st.sampled_from(["", "0", "10.0", "700", "x"]),
    st.sampled_from(["", "0", "20.0", "9000", "-3"]),
)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20)
LINES = st.lists(st.one_of(ROWS, ROWS, st.lists(CELLS, max_size=11).map(",".join), TEXT), max_size=25)


@settings(deadline=None, max_examples=300)
@given(lines=LINES)
def test_every_row_and_job_is_accounted_for(lines: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    text = "\n".join(lines)
    path.write_bytes(text.encode("utf-8", "ignore"))
    try:
        workload = read(path)
    except InvalidTrace as error:
        lines_of_error = str(error).split("\n")
        assert len(lines_of_error) == 1
        return
    rows = [line.split(",") for line in path.read_text().split("\n") if line.strip()]
    names = {cells[0].strip(' \t"') for cells in rows if len(cells) == 9} - {""}
    if len(set(rows[0]) & set(pai.COLUMNS)) < 2:
        assert rows_accounted_for(workload) == len(rows)
        assert jobs_accounted_for(workload) == len(names)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_jobs_or_one_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    for read_any in (read, pai.read_machines):
        with pytest.raises(InvalidTrace) as caught:
            read_any(path)
        assert "\n" not in str(caught.value)


# Machines


def test_machines_have_gpu_cpu_and_memory(write: Write) -> None:
    rows = ["a,CPU,96,512,0", "b,T4,64.0,384.5,2"]
    for lines in (rows, [",".join(pai.MACHINE_COLUMNS), *rows]):
        cluster, skipped = pai.read_machines(write(*lines, end="\r\n"))
        assert cluster.names == ("a", "b")
        assert cluster.resources == ("gpu", "cpu", "memory")
        assert cluster.capacity.tolist() == [[0, 96, 512], [2, 64, 384.5]]
        assert skipped == {}


def test_bad_machines_are_counted_or_stop_a_strict_reader(write: Write) -> None:
    path = write("a,T4,96,512,2", "b,T4,-1,512,2", "a,T4,96,512,2", "c,T4,96", ",T4,96,512,2")
    cluster, skipped = pai.read_machines(path)
    assert len(cluster) == 1
    assert skipped == {"rows: malformed": 3, "rows: duplicate machine": 1}
    with pytest.raises(InvalidTrace, match=r":2: cap_cpu must be a number in 0 ... 1e\+08, got -1"):
        pai.read_machines(path, strict=True)
    with pytest.raises(InvalidTrace, match=r"at least 1 machine, got 0 in 1 row \(1 malformed\)"):
        pai.read_machines(write("a,T4,96,x,2"))


# The real table


def plain_count(path: Path) -> tuple[int, Counter[str], dict[str, tuple[int, float, float]]]:
    """Counts the table again, in plain Python: rows, rows by status and the recorded workers of each job."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    workers = defaultdict(dict)  # type: defaultdict[str, dict[str, tuple[float, float]]]
    for job, role, instance, _, _, status, start, end, _ in rows:
        if role in pai.WORKER_ROLES and status == "Terminated":
            workers[job][instance] = (float(start), float(end))
    spans = {
        job: (len(seen), min(s for s, _ in seen.values()), max(e for _, e in seen.values()))
        for job, seen in workers.items()
    }
    return len(rows), Counter(cells[5] for cells in rows), spans


def test_real_table(traces: Path) -> None:
    path = traces / "pai2020" / "pai_instance_table.part.csv"
    total, statuses, spans = plain_count(path)
    workload = read(path, slot_seconds=60.0, strict=True)
    assert rows_accounted_for(workload) == total
    assert jobs_accounted_for(workload) == 2613
    assert workload.skipped["rows: waiting"] <= statuses["Waiting"]
    assert {job.id for job in workload.jobs} == set(spans)
    origin = min(start for _, start, _ in spans.values())
    slots = workload.horizon
    assert slots == max(
        math.ceil((start - origin) / 60) + max(1, math.ceil((end - start) / 60)) for _, start, end in spans.values()
    )
    for job in workload.jobs:
        count, start, end = spans[job.id]
        assert job.requested_workers == count
        assert job.arrival == math.ceil((start - origin) / 60)
        assert recorded_seconds(job) == pytest.approx(max(1.0, end - start), rel=1e-8)


def test_real_table_at_its_recorded_counts_takes_the_recorded_slots(traces: Path) -> None:
    path = traces / "pai2020" / "pai_instance_table.part.csv"
    _, _, spans = plain_count(path)
    for job in read(path, slot_seconds=60.0).jobs:
        configurations = job.configurations({"machine": 6250.0, "cluster": 625.0}, 60.0)
        count, start, end = spans[job.id]
        samples = configurations.samples[-1, np.searchsorted(configurations.workers, count)]
        assert math.ceil(job.workload / samples) == max(1, math.ceil((end - start) / 60))


def test_real_machines(traces: Path) -> None:
    cluster, skipped = pai.read_machines(traces / "pai2020" / "pai_machine_spec.csv", strict=True)
    assert len(cluster) == 1897
    assert skipped == {}
    assert cluster.capacity[:, 0].sum() == 280 * 8 + 798 * 2 + 497 * 2 + (45 + 59 + 135) * 8


def test_real_load_is_high_on_a_hundredth_of_the_machines(traces: Path) -> None:
    machines, _ = pai.read_machines(traces / "pai2020" / "pai_machine_spec.csv")
    share = machines.share(0.01)
    workload = read(traces / "pai2020" / "pai_instance_table.part.csv", slot_seconds=600.0)
    use = np.zeros((workload.horizon + 1, 3))
    for job in workload.jobs:
        demand = (job.requested_workers or 0) * share.vector(job.worker_demand)
        demand = demand + servers(job) * share.vector(job.server_demand)
        use[job.arrival : job.arrival + math.ceil(recorded_seconds(job) / 600.0 - 1e-6)] += demand
    load = use / share.capacity.sum(axis=0)
    assert 0.3 < load.mean(axis=0).max() < 0.5
    assert load.max() > 4


def test_a_job_with_servers_out_of_bounds_is_counted_and_the_others_go_on(write: Callable[..., Path]) -> None:
    def row(job: str, role: str, i: int) -> str:
        return f"{job},{role},{job}{role}{i},w{i},i{i},Terminated,100.0,700.0,m1"

    many = [row("many", "worker", 0)] + [row("many", "ps", i) for i in range(1100)]
    some = [row("some", "worker", i) for i in range(2)] + [row("some", "ps", i) for i in range(1200)]
    workload = read_trace(write(*many, *some, row("plain", "worker", 0)), "10min", elastic=20)
    assert {job.id: job.most_workers for job in workload.jobs} == {"some": 16, "plain": 20}
    assert workload.skipped == {
        "jobs: more servers, or more to a worker, than a job may have": 1,
        "rows: of a job left out": 1101,
    }
