from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import found_or_one_line, reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.workloads import sia

Write = Callable[..., Path]
read = reader(sia.records, "throughputs")
HEADER = ",".join(sia.COLUMNS)


def row(name: str = "j1", at: str = "100", application: str = "net", workers: str = "2", batch: str = "64") -> str:
    return ",".join((name, at, application, workers, batch))


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """One application: 1,000 iterations at a batch of 64, 100 at 640; a step of 0.5 s on 2 workers, 1.5 s on 4."""
    place = tmp_path / "profiles" / "net"
    place.mkdir(parents=True)
    for batch, iterations in ((64, 1000), (640, 100)):
        lines = ["progress,iteration,metric", "1.5,10,0.5", f"99.0,{iterations},0.9"]
        (place / f"validation-{batch}.csv").write_text("\n".join(lines))
    steps = ["placement,local_bsz,step_time,sync_time", "2,16,0.3,0.1", "2,32,0.4,0.1", "11,32,0.6,0.1"]
    (place / "placements.csv").write_text("\n".join(steps))
    (place / "scalability.csv").write_text("num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,4,16,1.5,1\n")
    (place / "placements-aws.csv").write_text("\n".join([steps[0], "2,32,9,1"]))
    return place.parent


def test_iterations_times_a_step_are_seconds(write: Write, profiles: Path) -> None:
    cases = [
        (("2", "64"), 1000 * 0.5),
        (("4", "64"), 1000 * 1.5),
        (("3", "48"), 1000 * (0.3 + 1.5) / 2),  # 16 on each worker, between 2 and 4 workers; few samples as 64
        (("2", "640"), 100 * 0.5 * 10),  # 320 on each worker: ten steps of 32
        (("8", "128"), 10 ** (3 - 0.30103) * 1.5),  # as fast a step as with 4; iterations between 64 and 640
        (("2", "6400"), 100 * 0.5 * 100),
    ]
    rows = [row(f"j{i}", workers=workers, batch=batch) for i, ((workers, batch), _) in enumerate(cases)]
    workload = read(write(HEADER, *rows), throughputs=profiles)
    assert [recorded_seconds(job) for job in workload.jobs] == pytest.approx(
        [seconds for _, seconds in cases], rel=1e-5
    )
    assert [job.batch_size for job in workload.jobs] == [int(batch) for (_, batch), _ in cases]
    assert all(job.worker_demand["gpu"] == 1.0 for job in workload.jobs)


def test_files_with_a_type_of_gpu_stand_in_where_there_are_no_others(write: Write, profiles: Path) -> None:
    for kind in ("placements", "scalability"):
        (profiles / "net" / f"{kind}.csv").unlink()
    assert recorded_seconds(read(write(HEADER, row()), throughputs=profiles).jobs[0]) == pytest.approx(9000.0)


def test_without_profiles_there_are_records_and_no_jobs(write: Write) -> None:
    path = write(HEADER, row(), row("j2", at="160"))
    found = sia.records(path)
    assert found.jobs["start"].to_list() == [0.0, 60.0]
    assert found.jobs["batch"].to_list() == [64, 64]
    with pytest.raises(InvalidTrace, match="durations must come from --throughputs FOLDER"):
        read(path)


@pytest.mark.parametrize("name", ["other", "..", ".", "../net", "a/../net", "n" * 5000, "net\u00e9"])
def test_an_application_without_profile_is_left_out_and_counted(write: Write, profiles: Path, name: str) -> None:
    workload = read(write(HEADER, row(), row("j2", application=name)), throughputs=profiles)
    assert [job.id for job in workload.jobs] == ["j1"]
    assert workload.skipped == {"rows: application without profile": 1}


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (row("j2", workers="0"), "num_replicas must be a whole number in 1 "),
        (row("j2", workers="1.5"), "num_replicas must be a whole number in 1 "),
        (row("j2", batch="1"), r"batch_size must be >= num_replicas \(2\), got 1"),
        (row("j2", batch=""), "batch_size must be a whole number in 1 "),
        (row("j2", at="nan"), "time must be a number in "),
        (row(""), "name must be a name"),
        (row("j2", application=""), "application must be a name"),
        (row("j2") + ",", "row must be 5 fields, got 6"),
    ],
)
def test_malformed_rows_are_counted_or_stop_a_strict_reader(write: Write, bad: str, field: str) -> None:
    path = write(HEADER, row(), bad)
    assert sia.records(path).skipped == {"rows: malformed": 1}
    with pytest.raises(InvalidTrace, match=f":3: {field}"):
        sia.records(path, strict=True)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("validation-64.csv", "", "the file is empty"),
        ("validation-64.csv", "progress,step\n1,2", ":1: header must be a row with the column iteration"),
        ("validation-64.csv", "progress,iteration", "must have at least 1 row with an iteration"),
        ("validation-64.csv", "progress,iteration\n1,many", ":2: iteration must be a number >= 1, got 'many'"),
        ("validation-64.csv", "progress,iteration\n1,0", ":2: iteration must be a number >= 1, got 0"),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\nx,4,1,1", ":2: placement must be"),
    ],
)
def test_a_bad_profile_is_one_line(write: Write, profiles: Path, file: str, text: str, message: str) -> None:
    (profiles / "net" / file).write_text(text)
    with pytest.raises(InvalidTrace, match=message) as caught:
        read(write(HEADER, row()), throughputs=profiles)
    assert "\n" not in str(caught.value)


def test_profiles_that_are_no_folder_or_failed_are_refused(write: Write, profiles: Path) -> None:
    path = write(HEADER, row())
    with pytest.raises(InvalidTrace, match="must be a folder of profiles, it is none"):
        read(path, throughputs=path)
    (profiles / "net" / "placements.csv").write_text("placement,local_bsz,step_time,sync_time\n2,32,0,0\n")
    (profiles / "net" / "scalability.csv").unlink()
    (profiles / "net" / "placements-aws.csv").unlink()
    with pytest.raises(InvalidTrace, match="at least 1 step that did not fail, got 0"):
        read(path, throughputs=profiles)


CELLS = st.sampled_from(["", "1", "2", "x", "-1", "1e99", "nan", "2.5", "net", "é", '"a"', "10000", "0"])


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(st.lists(CELLS, min_size=4, max_size=6), min_size=1, max_size=12))
def test_every_row_is_accounted_for(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_text("\n".join([HEADER, *map(",".join, rows)]), encoding="utf-8")
    found = found_or_one_line(sia.records, path)
    if found is not None:
        assert len(found) + sum(found.skipped.values()) == len(rows)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_jobs_or_one_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(HEADER.encode() + b"\n" + data)
    found_or_one_line(sia.records, path)


@pytest.mark.parametrize("number", range(1, 9))
def test_real_workloads(traces: Path, number: int) -> None:
    path = traces / "sia" / "workloads_philly" / f"workload-{number}.csv"
    found = sia.records(path, strict=True, throughputs=traces / "sia" / "profiles")
    assert (len(found), found.skipped) == (160, {})
    assert found.jobs["seconds"].is_between(60, 200_000).all()
