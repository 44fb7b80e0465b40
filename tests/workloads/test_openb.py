from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workloads.reading import found_or_one_line, reader, recorded_seconds

from slotwise.errors import InvalidTrace
from slotwise.workloads import openb
from slotwise.workloads.models import Assumptions

Write = Callable[..., Path]
read = reader(openb.records)
HEADER = ",".join(openb.COLUMNS)
NODES = ",".join(openb.NODE_COLUMNS)


def row(
    name: str = "p1",
    cpu: str = "6000",
    memory: str = "12288",
    gpus: str = "1",
    milli: str = "460",
    phase: str = "Running",
    created: str = "100",
    deleted: str = "900",
    scheduled: str = "160",
) -> str:
    return ",".join((name, cpu, memory, gpus, milli, "T4|P100", "LS", phase, created, deleted, scheduled))


def test_a_pod_is_one_worker_that_takes_what_the_pod_takes(write: Write) -> None:
    rows = [row(), row("p2", gpus="8", milli="1000"), row("p3", gpus="0", milli="0")]
    jobs = read(write(HEADER, *rows)).jobs
    assert [job.requested_workers for job in jobs] == [1, 1, 1]
    assert jobs[0].worker_demand == {"gpu": 0.46, "cpu": 6.0, "memory": 12.0}
    assert [job.worker_demand["gpu"] for job in jobs[1:]] == [8.0, 0.0]
    assert recorded_seconds(jobs[0]) == pytest.approx(740.0)


def test_a_pod_arrives_when_it_was_created(write: Write) -> None:
    found = openb.records(write(HEADER, row(), row("p2", created="700", scheduled="700")))
    assert found.jobs["start"].to_list() == [0.0, 600.0]
    assert found.jobs["wait"].to_list() == [60.0, 0.0]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (row("p2", phase="Pending", scheduled=""), "rows: pending"),
        (row("p2", phase="Failed"), "rows: failed"),
        (row("p2", phase="Unknown"), "rows: other phase"),
        (row("p2", scheduled=""), "rows: no scheduled time"),
        (row("p2", deleted=""), "rows: no deletion time"),
        (row("p2", deleted="150"), "rows: end before start"),
        (row("p2", cpu="0", memory="0", gpus="0"), "rows: no demand"),
        (row("p1", cpu="1"), "rows: duplicate name"),
    ],
)
def test_pods_that_cannot_be_used_are_counted(write: Write, bad: str, reason: str) -> None:
    workload = read(write(HEADER, row(), bad))
    assert ([job.id for job in workload.jobs], workload.skipped) == (["p1"], {reason: 1})


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (row("p2", cpu="-1"), "cpu_milli must be a number in 0 "),
        (row("p2", gpus="many"), "num_gpu must be a number in 0 "),
        (row("p2", gpus="1e8", milli="1e8"), "num_gpu x gpu_milli must be <= "),
        (row("p2", created=""), "creation_time must be a number in "),
        (row("p2", scheduled="soon"), "scheduled_time must be a number in .* or empty, got 'soon'"),
        (row(""), "name must be a name"),
        (row("p2") + ",", "row must be 11 fields, got 12"),
    ],
)
def test_malformed_rows_are_counted_or_stop_a_strict_reader(write: Write, bad: str, field: str) -> None:
    path = write(HEADER, row(), bad)
    assert read(path).skipped == {"rows: malformed": 1}
    with pytest.raises(InvalidTrace, match=f":3: {field}"):
        read(path, strict=True)


def test_columns_are_found_by_name(write: Write) -> None:
    names = tuple(reversed(openb.COLUMNS))
    cells = dict(zip(openb.COLUMNS, row().split(","), strict=True))
    again = read(write(",".join(names), ",".join(cells[name] for name in names), end="\r\n"))
    assert again.jobs == read(write(HEADER, row())).jobs
    with pytest.raises(InvalidTrace, match=":1: header must be a row with the columns name, cpu_milli"):
        read(write(HEADER.replace("gpu_milli", "milli"), row()))


def test_a_pod_scheduled_before_it_was_created_is_said(write: Write) -> None:
    assert openb.records(write(HEADER, row(created="170"))).odd == {"jobs: scheduled before they were created": 1}


def test_nodes_are_machines(write: Write) -> None:
    cluster, skipped = openb.read_machines(
        write(NODES, "n1,32000,262144,0,", "n2,96000,786432,8,G2", "n2,1,1,1,", "n3,x,1,1,T4")
    )
    assert cluster.names == ("n1", "n2")
    assert cluster.resources == ("gpu", "cpu", "memory")
    assert cluster.capacity.tolist() == [[0, 32, 256], [8, 96, 768]]
    assert skipped == {"rows: duplicate sn": 1, "rows: malformed": 1}


CELLS = st.sampled_from(["", "0", "1", "2", "-1", "1e99", "nan", "2.5", "Running", "Failed", "é", '"a"', "1e8"])


@settings(deadline=None, max_examples=200)
@given(rows=st.lists(st.lists(CELLS, min_size=10, max_size=12), min_size=1, max_size=12))
def test_every_row_is_accounted_for(rows: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_text("\n".join([HEADER, *map(",".join, rows)]), encoding="utf-8")
    found = found_or_one_line(openb.records, path)
    if found is not None:
        assert len(found) + sum(found.skipped.values()) == len(rows)
        assert len(Assumptions(slot_seconds=1e7).workload(found).jobs) == len(found)


@settings(deadline=None, max_examples=200)
@given(data=st.binary(max_size=300))
def test_any_bytes_give_jobs_or_one_error(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(HEADER.encode() + b"\n" + data)
    found_or_one_line(openb.records, path)


def test_real_lists(traces: Path) -> None:
    found = openb.records(traces / "openb2023" / "openb_pod_list_default.csv", strict=True)
    assert len(found) == 5193 + 192
    assert found.skipped == {"rows: failed": 1870, "rows: pending": 897}
    cluster, skipped = openb.read_machines(traces / "openb2023" / "openb_node_list_all_node.csv", strict=True)
    assert (len(cluster), skipped) == (1523, {})
    assert cluster.capacity.sum(axis=0)[0] == 6212
