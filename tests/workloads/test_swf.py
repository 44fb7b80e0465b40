from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import found_or_one_line, reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.workloads import swf
from slotwise.workloads.models import Assumptions

Write = Callable[..., Path]
read = reader(swf.records)


def row(
    job: str = "1",
    submit: str = "100",
    wait: str = "5",
    run: str = "600",
    allocated: str = "4",
    memory: str = "1048576",
    requested: str = "4",
    limit: str = "900",
    asked_memory: str = "-1",
    status: str = "1",
) -> str:
    rest = ("3", "1", "-1", "1", "-1", "-1", "-1")
    cells = (job, submit, wait, run, allocated, "-1", memory, requested, limit, asked_memory, status, *rest)
    return "   " + "  ".join(cells) + " "


def test_a_worker_is_a_processor_with_its_memory(write: Write) -> None:
    (job,) = read(write(row())).jobs
    assert (job.id, job.min_workers, job.requested_workers, job.max_workers) == ("1", 1, 4, 8)
    assert job.worker_demand == {"gpu": 0.0, "cpu": 1.0, "memory": 1.0}
    assert recorded_seconds(job) == pytest.approx(600.0)


def test_what_is_unknown_falls_back_to_what_was_requested(write: Write) -> None:
    rows = [row("1", allocated="-1", requested="3"), row("2", memory="-1", asked_memory="524288"), row("3", memory="0")]
    workload = read(write(*rows))
    assert [job.requested_workers for job in workload.jobs] == [3, 4, 4]
    assert [job.worker_demand["memory"] for job in workload.jobs] == [1.0, 0.5, 0.0]
    assert "1 of 3 jobs record neither" in workload.assumed["demand"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row("2", status="0"), "rows: failed"),
        (row("2", status="5"), "rows: cancelled"),
        (row("2", status="5", run="-1", allocated="-1", requested="-1"), "rows: cancelled"),
        (row("2", status="2"), "rows: part of a job"),
        (row("2", status="3"), "rows: part of a job"),
        (row("2", status="4"), "rows: part of a job"),
        (row("2", run="0"), "rows: no run time"),
        (row("2", run="-1"), "rows: no run time"),
        (row("2", allocated="-1", requested="-1"), "rows: no processors"),
        (row("2", allocated="0", requested="-1"), "rows: no processors"),
        (row("2", allocated="10001"), "jobs: more than 10000 workers"),
    ],
)
def test_jobs_that_did_not_end_well_are_counted_and_stop_nobody(write: Write, bad: str, reason: str) -> None:
    workload = read(write(row(), bad), strict=True)
    assert [job.id for job in workload.jobs] == ["1"]
    assert workload.skipped == {reason: 1}


@pytest.mark.parametrize("status", ["1", "-1", "1.0"])
def test_completed_and_unknown_status_are_used(write: Write, status: str) -> None:
    assert len(read(write(row(status=status))).jobs) == 1


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (row("2").rsplit(maxsplit=1)[0], "row must be 18 fields, got 17"),
        (row("2") + "7", "row must be 18 fields, got 19"),
        (row("2", submit="noon"), "submit must be a number in .*, got 'noon'"),
        (row("2", run="-2"), "run must be a number in -1 "),
        (row("2", wait="nan"), "wait must be a number in -1 "),
        (row("2", allocated="1.5"), "allocated must be a whole number in -1 "),
        (row("2", status="7"), "status must be a whole number in -1 ... 5, got 7"),
    ],
)
def test_malformed_rows_are_counted_or_stop_a_strict_reader(write: Write, bad: str, field: str) -> None:
    path = write("; Version: 2.2", row(), bad)
    assert read(path).skipped == {"rows: malformed": 1}
    with pytest.raises(InvalidTrace, match=f":3: {field}"):
        read(path, strict=True)


def test_a_second_row_of_a_job_is_counted_unless_it_is_a_part(write: Write) -> None:
    workload = read(write(row(), row(allocated="8"), row(status="3")))
    assert [job.requested_workers for job in workload.jobs] == [4]
    assert workload.skipped == {"rows: duplicate job": 1, "rows: part of a job": 1}


def test_header_and_form_of_the_file_make_no_difference(write: Write) -> None:
    rows = [row("1"), row("2", submit="1300")]
    plain = read(write(*rows)).jobs
    assert [job.arrival for job in plain] == [0, 2]
    header = ["; Version: 2.2", ";", "  ; Note: a, b, c"]
    for lines, end in (([*header, *rows], "\r\n"), ([header[0], rows[0], ";", rows[1]], "\n")):
        assert read(write(*lines, end=end)).jobs == plain
    assert read(write("\n".join(rows), end="")).jobs == plain
    assert read(write(*(line.strip().replace("  ", "\t") for line in rows))).jobs == plain


def test_the_header_says_how_many_processors_there_were(write: Write) -> None:
    assert swf.records(write("; MaxProcs: 128", row())).capacity == {"cpu": 128.0}
    for line in ("; MaxProcs: 0", "; MaxProcs: many", "; MaxNodes: 4"):
        assert swf.records(write(line, row())).capacity == {}


def test_contradictions_are_counted(write: Write) -> None:
    rows = [row("1", run="901"), row("2", limit="-1"), row("3", allocated="2"), row("4", wait="-1")]
    found = swf.records(write(*rows))
    assert found.odd == {
        "jobs: ran longer than they requested": 1,
        "jobs: were allocated fewer processors than they requested": 1,
    }
    assert found.jobs["wait"].to_list() == [5.0, 5.0, 5.0, None]


def test_no_usable_row_is_an_error(write: Write) -> None:
    with pytest.raises(
        InvalidTrace, match=r"at least 1 job that ended well, got 0 in 2 rows \(1 cancelled, 1 malformed\)"
    ):
        read(write("; x", row(status="5"), "1 2 3"))
    with pytest.raises(InvalidTrace, match="must have at least 1 row"):
        read(write("; x", ";"))


CELLS = st.sampled_from(["-1", "0", "1", "2", "5", "1e99", "nan", "2.5", "x", "é", "10001"])


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(st.lists(CELLS, min_size=17, max_size=19), min_size=1, max_size=12))
def test_every_row_is_accounted_for(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_text("\n".join([*map(" ".join, rows)]), encoding="utf-8")
    found = found_or_one_line(swf.records, path)
    if found is not None:
        assert len(found) + sum(found.skipped.values()) == len(rows)
        assert len(Assumptions(slot_seconds=1e7).workload(found).jobs) == len(found)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_jobs_or_one_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(data)
    found_or_one_line(swf.records, path)


def test_real_log(traces: Path) -> None:
    path = traces / "swf" / "accasim_workload.swf"
    rows = [line.split() for line in path.read_text().splitlines()]
    found = swf.records(path, strict=True)
    assert (len(found), found.skipped, found.capacity) == (25, {}, {})
    assert found.jobs["id"].to_list() == [cells[0] for cells in rows]
    assert found.jobs["seconds"].to_list() == [float(cells[3]) for cells in rows]
    assert found.jobs["workers"].to_list() == [int(cells[4]) for cells in rows]
