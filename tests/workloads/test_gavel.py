from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import found_or_one_line, reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.model.speed import AllReduceSpeed
from slotwise.workloads import gavel
from slotwise.workloads.traces import read_trace

Write = Callable[..., Path]
read = reader(gavel.records, "throughputs")

SPEEDS: dict[str, Any] = {
    "k80": {"('Net (batch size 8)', 1)": {"null": 1.0}},
    "v100": {
        "('Net (batch size 8)', 1)": {"null": 4.0, "('Net (batch size 8)', 1)": [2.0, 2.0]},
        "('Net (batch size 8)', 4)": {"null": 10.0},
        "('Net (batch size 8)', 8)": {"null": 0.0},
        "('A3C', 1)": {"null": 2.0},
        "Plain (batch size 1)": {"null": 5.0},
    },
}


def row(
    model: str = "Net (batch size 8)", steps: str = "1000", arrival: str = "0.000000", gpus: str = "1", needs: str = "1"
) -> str:
    return "\t".join((model, "cd %s/net && python3 train.py", "-step", needs, steps, arrival, gpus))


def long_row(model: str = "Net (batch size 8)", steps: str = "1000", arrival: str = "0.000000", gpus: str = "1") -> str:
    return "\t".join((model, "python3 train.py", "net", "--steps", "1", steps, gpus, "1.0", "-1", arrival))


@pytest.fixture
def speeds(tmp_path: Path) -> Path:
    path = tmp_path / "throughputs.json"
    path.write_text(json.dumps(SPEEDS))
    return path


def test_steps_over_steps_a_second_are_seconds(write: Write, speeds: Path) -> None:
    path = write(row(), row(steps="1000", gpus="4"), row("A3C", needs="0"), row("Plain (batch size 1)"))
    jobs = read(path, throughputs=speeds).jobs
    assert [job.id for job in jobs] == ["0", "1", "2", "3"]
    assert [round(recorded_seconds(job)) for job in jobs] == [250, 100, 500, 200]
    assert [job.requested_workers for job in jobs] == [1, 4, 1, 1]
    assert all(job.worker_demand["gpu"] == 1.0 and isinstance(job.speed, AllReduceSpeed) for job in jobs)


def test_both_forms_say_the_same(write: Write, speeds: Path) -> None:
    rows = [("5", "2"), ("700", "4"), ("1300.5", "1")]
    short = read(write(*(row(arrival=at, gpus=gpus) for at, gpus in rows)), throughputs=speeds)
    long = read(write(*(long_row(arrival=at, gpus=gpus) for at, gpus in rows)), throughputs=speeds)
    assert short.jobs == long.jobs
    assert long.assumed["weight"].startswith("3 of 3 jobs have a weight")
    assert "weight" not in short.assumed
    mixed = read(write(row(arrival="5", gpus="2"), long_row(arrival="700", gpus="4")), throughputs=speeds)
    assert mixed.jobs == short.jobs[:2]


def test_a_missing_gpu_count_is_one_gpu_and_counted(write: Write, speeds: Path) -> None:
    workload = read(write(row(gpus=""), row(gpus="4"), long_row(gpus="")), throughputs=speeds)
    assert [job.requested_workers for job in workload.jobs] == [1, 4, 1]
    assert workload.assumed["gpus"] == "2 of 3 jobs have no GPU count and get 1."


def test_a_count_that_was_not_measured_takes_the_most_gpus_below_it(write: Write, speeds: Path) -> None:
    rows = [row(gpus=gpus) for gpus in ("1", "2", "3", "4", "7", "8", "20")]
    workload = read(write(*rows), throughputs=speeds)
    assert [round(recorded_seconds(job)) for job in workload.jobs] == [250, 250, 250, 100, 100, 100, 100]
    assert "5 of 7 jobs have a GPU count at which their model was not measured" in workload.assumed["duration"]
    assert "on v100 in" in workload.assumed["duration"]


def test_a_model_without_speed_is_left_out_and_counted(write: Write, speeds: Path) -> None:
    workload = read(write(row("Other"), row()), throughputs=speeds)
    assert [job.id for job in workload.jobs] == ["1"]
    assert workload.skipped == {"rows: model without speed": 1}
    with pytest.raises(InvalidTrace, match=r"at least 1 job, got 0 in 1 row \(1 model without speed\)"):
        read(write(row("Other")), throughputs=speeds)
    assert read(write(row(steps="1e15"), row()), throughputs=speeds).skipped == {"rows: endless": 1}


def test_another_gpu_stands_in_for_v100(write: Write, speeds: Path) -> None:
    speeds.write_text(json.dumps({"k80": SPEEDS["k80"]}))
    workload = read(write(row()), throughputs=speeds)
    assert recorded_seconds(workload.jobs[0]) == pytest.approx(1000.0)
    assert "on k80 in" in workload.assumed["duration"]


def test_without_throughputs_there_are_records_and_no_jobs(write: Write) -> None:
    path = write(row(gpus="2"), row(arrival="90"))
    found = gavel.records(path)
    assert found.jobs["workers"].to_list() == [2, 1]
    assert found.jobs["start"].to_list() == [0.0, 90.0]
    assert found.jobs["seconds"].to_list() == [None, None]
    with pytest.raises(InvalidTrace, match=r"durations must come from --throughputs FILE, .*, got none"):
        read(path)


def test_arrivals_count_from_the_first_in_any_order(write: Write, speeds: Path) -> None:
    workload = read(write(row(arrival="661"), row(arrival="600")), throughputs=speeds, slot_seconds=60.0)
    assert [(job.id, job.arrival) for job in workload.jobs] == [("1", 0), ("0", 2)]


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (row(steps="0"), "steps must be a number in 1 ... "),
        (row(steps=""), "steps must be a number in 1 ... "),
        (row(steps="-5"), "steps must be a number in 1 ... 1e.15, got -5"),
        (row(steps="many"), "steps must be a number in 1 ... 1e.15, got 'many'"),
        (row(arrival=""), "arrival must be a number in "),
        (row(arrival="nan"), "arrival must be a number in "),
        (row(gpus="0"), "gpus must be a whole number in 1 ... 10000 or empty, got 0"),
        (row(gpus="1.5"), "gpus must be a whole number in 1 ... 10000 or empty, got 1.5"),
        (row(""), "model must be a name"),
        (row() + "\t8", "row must be 7 or 10 fields, got 8"),
        (row().replace("\t", ","), "row must be 7 or 10 fields, got 1"),
    ],
)
def test_malformed_rows_are_counted_or_stop_a_strict_reader(write: Write, speeds: Path, bad: str, field: str) -> None:
    path = write(row(), bad, row())
    workload = read(path, throughputs=speeds)
    assert ([job.id for job in workload.jobs], workload.skipped) == (["0", "2"], {"rows: malformed": 1})
    with pytest.raises(InvalidTrace, match=f":2: {field}"):
        read(path, throughputs=speeds, strict=True)


def test_form_of_the_file_makes_no_difference(write: Write, speeds: Path) -> None:
    rows = [row(), row(arrival="900", gpus="4")]
    plain = read(write(*rows), throughputs=speeds).jobs
    for lines, end in ((["\ufeff" + rows[0], rows[1]], "\r\n"), (["", rows[0], "", rows[1]], "\n")):
        assert read(write(*lines, end=end), throughputs=speeds).jobs == plain
    assert read(write("\n".join(rows), end=""), throughputs=speeds).jobs == plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "throughputs must be a JSON file, got an error: line 1: Expecting"),
        ("[" * 100_000, "throughputs must be a JSON file"),
        ("9" * 5000, "throughputs must be a JSON file"),
        ("[]", "throughputs must be a table of types of GPU, got a list of 0"),
        ("{}", "throughputs must be a table of types of GPU, got an empty table"),
        ('{"v100": 3}', "'v100' must be a table of models, got 3"),
        ('{"v100": {}}', "'v100' must have at least 1 throughput > 0, got 0 of 0"),
        ('{"v100": {"a": {"null": 0}}}', "'v100' must have at least 1 throughput > 0, got 0 of 1"),
        ('{"v100": {"a": {}}}', "'v100', 'a': null must be steps a second of the job alone, got nothing"),
        ('{"v100": {"a": 5}}', "'v100', 'a': null must be steps a second"),
        ('{"v100": {"a": {"null": true}}}', "'v100', 'a': null must be steps a second"),
        ('{"v100": {"a": {"null": -1}}}', r"null must be 0 or in 1e-09 \.\.\. 1e.09 steps a second, got -1"),
        ('{"v100": {"a": {"null": NaN}}}', "null must be 0 or in"),
        ('{"v100": {"a": {"null": 1e999}}}', "null must be 0 or in"),
        ('{"a\\nb": {"a": {"null": -1}}}', "null must be 0 or in"),
        ("", "the file is empty"),
    ],
)
def test_a_bad_table_of_throughputs_is_one_line(write: Write, text: str, message: str) -> None:
    with pytest.raises(InvalidTrace, match=message) as caught:
        read(write(row()), throughputs=write(text.encode(), name="table"))
    assert "\n" not in str(caught.value)


def test_throughputs_go_with_traces_that_have_steps(write: Write, speeds: Path) -> None:
    path = write("j,worker,i,w,g,Terminated,5.0,65.0,m")
    with pytest.raises(InvalidTrace, match=r"throughputs go with gavel.*, got them with pai"):
        read_trace(path, throughputs=speeds)


CELLS = st.sampled_from(["", "1", "2", "x", "-1", "1e99", "nan", "2.5", "A3C", "Net (batch size 8)", "é", '"a"', "0"])


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(st.lists(CELLS, min_size=6, max_size=11), min_size=1, max_size=12))
def test_every_row_is_accounted_for(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_text("\n".join(map("\t".join, rows)), encoding="utf-8")
    speeds = tmp_path_factory.getbasetemp() / "speeds"
    speeds.write_text(json.dumps(SPEEDS))
    filled = sum(any(cell for cell in cells) for cells in rows)
    for throughputs in (None, speeds):
        found = found_or_one_line(gavel.records, path, throughputs=throughputs)
        if found is not None:
            assert len(found) + sum(found.skipped.values()) == filled
            assert found.jobs["id"].is_unique().all()


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_jobs_or_one_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path, trace = (tmp_path_factory.getbasetemp() / name for name in ("bytes", "trace"))
    path.write_bytes(data)
    trace.write_text(row())
    for use in ((path, None), (trace, path)):
        with pytest.raises(InvalidTrace) as caught:
            read(use[0], throughputs=use[1])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "jobs"), [("0e4a51", 1181), ("103959", 986)])
def test_real_traces(traces: Path, name: str, jobs: int) -> None:
    path, table = traces / "gavel" / f"{name}.trace", traces / "gavel" / "simulation_throughputs.json"
    rows = [line.split("\t") for line in path.read_text().splitlines()]
    speeds = json.loads(table.read_text())["v100"]
    found = gavel.records(path, strict=True, throughputs=table)
    assert len(found) == len(rows) == jobs
    assert found.skipped == {}
    first = min(float(cells[5]) for cells in rows)
    for job, cells in zip(found.jobs.iter_rows(named=True), rows, strict=True):
        assert job["workers"] == int(cells[6])
        assert job["start"] == pytest.approx(float(cells[5]) - first)
        measured = speeds.get(f"('{cells[0]}', {cells[6]})", speeds[f"('{cells[0]}', 1)"])["null"]
        assert job["seconds"] == pytest.approx(max(1.0, float(cells[4]) / measured))
    unmeasured = sum(f"('{cells[0]}', {cells[6]})" not in speeds for cells in rows)
    assert f"{unmeasured} of {jobs} jobs have a GPU count at which" in found.assumed["duration"]


def test_real_traces_lack_a_speed_in_322_rows(traces: Path) -> None:
    table = traces / "gavel" / "simulation_throughputs.json"
    speeds, gpu = gavel.read_throughputs(table)
    assert gpu == "v100"
    rows = [
        line.split("\t")
        for name in ("0e4a51", "103959")
        for line in (traces / "gavel" / f"{name}.trace").read_text().splitlines()
    ]
    assert sum(int(cells[6]) not in speeds[cells[0]] for cells in rows) == 322
    assert all(math.isfinite(speed) for counts in speeds.values() for speed in counts.values())
    assert pl.Series([len(counts) for counts in speeds.values()]).max() == 4
