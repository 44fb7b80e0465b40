"""Readers of measured speeds. All rows are made up."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from slotwise.errors import InvalidTrace
from slotwise.workloads import speeds
from slotwise.workloads.speeds import Measured

Write = Callable[..., Path]
OWN = "workers,servers,samples_per_second,batch"


def only(path: Path) -> Measured:
    (measured,) = speeds.read(path).measured
    return measured


def refused(path: Path) -> str:
    with pytest.raises(InvalidTrace) as caught:
        speeds.read(path)
    return str(caught.value)


# Own rows.


def test_own_rows_by_hand(write: Write) -> None:
    measured = only(write(OWN, "2,1,50,100", "4,2,80,100", name="mine.csv"))
    assert (measured.name, measured.mode, measured.label, measured.skipped) == ("mine", "", "mine", 0)
    assert measured.workers.tolist() == [2, 4]
    assert measured.servers.tolist() == [1, 2]
    assert measured.batch.tolist() == [100.0, 100.0]
    assert measured.seconds.tolist() == [2.0, 1.25]
    assert np.isnan(measured.bandwidth).all()


def test_columns_are_found_by_name_and_alias(write: Write) -> None:
    measured = only(write("Batch, samples/s ,name,workers", "10,5,net,3"))
    assert (measured.name, measured.workers.tolist(), measured.seconds.tolist()) == ("net", [3], [2.0])
    assert measured.all_reduce


@pytest.mark.parametrize("servers", ["", "0"])
def test_no_servers_is_all_reduce(write: Write, servers: str) -> None:
    assert only(write(OWN, f"2,{servers},50,100")).all_reduce


def test_models_modes_and_all_reduce_are_fitted_apart(write: Write) -> None:
    header = "model,mode,workers,servers,samples_per_second,batch"
    rows = ["a,sync,1,1,1,8", "a,async,1,1,2,8", "b,sync,1,1,3,8", "a,sync,2,0,4,8", "a,sync,2,1,5,8"]
    found = [(m.name, m.mode, m.all_reduce, len(m)) for m in speeds.read(write(header, *rows)).measured]
    assert found == [("a", "sync", False, 2), ("a", "async", False, 1), ("b", "sync", False, 1), ("a", "sync", True, 1)]


def test_failed_runs_are_skipped_and_counted(write: Write) -> None:
    measured = only(write(OWN, "2,1,0,100", "4,2,80,100", "4,1,0.0,100"))
    assert (len(measured), measured.skipped) == (1, 2)


def test_bandwidth_has_units_and_outweighs_the_placement(write: Write) -> None:
    header = "workers,samples_per_second,batch,placement,bandwidth"
    rows = ["2,1,8,2,", "2,1,8,11,", "3,1,8,machine,", "3,1,8,cluster,", "2,1,8,11,8Gbps", "2,1,8,,250"]
    measured = speeds.read(write(header, *rows), bandwidth=(900.0, 90.0)).measured[0]
    assert measured.bandwidth.tolist() == [900.0, 90.0, 900.0, 90.0, 1000.0, 250.0]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("0,1,50,100", "workers must be"),
        ("1.5,1,50,100", "workers must be"),
        ("2,-1,50,100", "servers must be"),
        ("2,1,-5,100", "samples_per_second must be a number >= 0, got -5"),
        ("2,1,nan,100", "samples_per_second must be"),
        ("2,1,1e300,100", "samples_per_second must be"),
        ("2,1,1e-300,100", "samples_per_second must be"),
        ("2,1,50,0", "batch must be"),
        ("2,1,50,", "batch must be given"),
        ("2,1,,100", "samples_per_second must be given"),
        ("2,1,50", "row must be 4 fields, got '3 fields'"),
        ('2,1,50,"100', "must be CSV"),
    ],
)
def test_bad_own_rows_are_refused_with_file_and_line(write: Write, row: str, words: str) -> None:
    path = write(OWN, "2,1,50,100", row)
    assert refused(path).startswith(f"{path}:3: ")
    assert words in refused(path)


@pytest.mark.parametrize(
    ("placement", "words"),
    [("12", "3"), ("20", "digits"), ("rack", "such as a rack, by its bandwidth"), ("-2", "digits"), ("²", "digits")],
)
def test_placements_must_be_digits_that_add_up(write: Write, placement: str, words: str) -> None:
    path = write("workers,samples_per_second,batch,placement", f"2,50,100,{placement}")
    assert words in refused(path)
    assert f"{path}:2: placement must be" in refused(path)


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("workers,server,samples_per_second,batch", "did you mean servers?"),
        ("workers,samples_per_second", "with the columns workers, samples_per_second, batch"),
        ("workers,workers,samples_per_second,batch", "one column workers"),
        ("workers,samples/s,samples_per_second,batch", "one column samples_per_second"),
    ],
)
def test_headers_that_say_something_else_are_refused(write: Write, header: str, words: str) -> None:
    assert words in refused(write(header, "1,1,1,1"))


def test_a_file_without_rows_is_refused(write: Write) -> None:
    assert "at least 1 row" in refused(write(OWN))
    assert "there is none" in refused(Path("no-such-file.csv"))


# The DL2 table.


def test_dl2_rates_are_summed_over_the_workers(write: Write) -> None:
    measured = only(write("('net', 'dist_sync', 32, 3, 2, [5.0, 3], [0.5], [0.1, 0.2])", "", end="\r\n"))
    assert (measured.name, measured.mode, measured.label) == ("net", "dist_sync", "net, dist_sync")
    assert (measured.workers.tolist(), measured.servers.tolist()) == ([2], [3])
    assert (measured.batch.tolist(), measured.seconds.tolist()) == ([32.0], [4.0])


def test_dl2_modes_are_apart(write: Write) -> None:
    found = speeds.read(write("('n', 'dist_sync', 8, 1, 1, [1.0])", "('n', 'dist_async', 8, 1, 1, [1.0])")).measured
    assert [m.mode for m in found] == ["dist_sync", "dist_async"]


def test_dl2_rows_with_one_or_all_workers_at_zero_are_failed_runs(write: Write) -> None:
    row = "('n', 'dist_sync', 8, 1, 2, [{}])"
    measured = only(write(*map(row.format, ("1.0, 1.0", "0.0, 1.0", "0, 0"))))
    assert (len(measured), measured.skipped) == (1, 2)


@pytest.mark.parametrize(
    "row",
    [
        "('n', 'dist_sync', 8, 1, 2, [1.0])",
        "('n', 'dist_sync', 8, 1, 1, [-1.0])",
        "('n', 'dist_sync', 8, 1, 1, [1e999])",
        "('n', 'dist_sync', 8, 1, 1, [True])",
        "('n', 'dist_sync', 8, 1, 1, ['1'])",
        "('n', 'dist_sync', 8, 1, 1, 1.0)",
        "('n', 'dist_sync', 8, 0, 1, [1.0])",
        "('n', 'dist_sync', 8, 1, 0, [])",
        "('n', 'dist_sync', 8.5, 1, 1, [1.0])",
        "('n', 'dist_sync', 1e999, 1, 1, [1.0])",
        f"('n', 'dist_sync', 8, 1, {10**400}, [1.0])",
        "(1, 'dist_sync', 8, 1, 1, [1.0])",
        "('a\\nb', 'dist_sync', 8, 1, 1, [1.0])",
        "('n', 'dist_sync', 8, 1, 1)",
        "(__import__('os').getcwd(), 'dist_sync', 8, 1, 1, [1.0])",
        "('n', 'dist_sync', 8, 1, 1, [1.0]",
        "(" * 300,
        "(" + "-" * 5000 + "1,)",
        "(" + "1," * 60000 + ")",
        "not a tuple",
    ],
)
def test_bad_dl2_rows_are_refused_and_never_run(write: Write, row: str) -> None:
    path = write("('n', 'dist_sync', 8, 1, 1, [1.0])", row)
    assert refused(path).startswith(f"{path}:2: ")


# Sia's profiles.


def test_sia_placements_are_digits(write: Write) -> None:
    path = write("placement,local_bsz,step_time,sync_time", "1124,4,0.5,0.1", "3,4,0.25,0.1", name="placements-x.csv")
    measured = only(path)
    assert measured.name == f"{path.parent.name}/placements-x"
    assert measured.all_reduce
    assert measured.workers.tolist() == [8, 3]
    assert measured.batch.tolist() == [32.0, 12.0]
    assert measured.seconds.tolist() == [0.5, 0.25]
    assert measured.bandwidth.tolist() == [625.0, 6250.0]


def test_sia_nodes_and_replicas_in_any_order_of_columns(write: Write) -> None:
    path = write("local_bsz,step_time,sync_time,num_nodes,num_replicas", "4,0.5,0.1,2,12", "4,0.5,0.1,1,4", "4,0,0,1,2")
    measured = speeds.read(path, bandwidth=(80.0, 8.0)).measured[0]
    assert measured.workers.tolist() == [12, 4]
    assert measured.bandwidth.tolist() == [8.0, 80.0]
    assert measured.skipped == 1


def test_steps_shorter_than_their_synchronisation_do_not_hold_it(write: Write) -> None:
    found = speeds.read(write("placement,local_bsz,step_time,sync_time", "2,1,0.5,0.125", "22,1,0.5,0.75"))
    assert found.measured[0].seconds.tolist() == [0.625, 1.25]
    assert "the sum of both" in found.notes[0]


@pytest.mark.parametrize("row", ["10,4,0.5,0.1", "2,0,0.5,0.1", "2,4,x,0.1", "2,4,-1,0.1", "2,4,1,", ",4,1,1"])
def test_bad_sia_rows_are_refused_with_file_and_line(write: Write, row: str) -> None:
    path = write("placement,local_bsz,step_time,sync_time", "2,4,0.5,0.1", row)
    assert refused(path).startswith(f"{path}:3: ")


def test_sia_nodes_are_no_more_than_replicas(write: Write) -> None:
    path = write("local_bsz,step_time,sync_time,num_nodes,num_replicas", "4,0.5,0.1,3,2")
    assert "num_nodes must be <= num_replicas (2), got 3" in refused(path)
    assert "placement, or num_nodes" in refused(write("local_bsz,step_time,sync_time,num_nodes", "4,0.5,0.1,3"))


def test_a_folder_is_a_model_for_each_file_and_copies_without_a_type_are_read_once(tmp_path: Path) -> None:
    text = "placement,local_bsz,step_time,sync_time\n2,4,0.5,0.1\n"
    for name in ("b/placements-aws.csv", "b/placements.csv", "b/placements-dgx.csv", "a/placements.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "b/validation-4.csv").write_text("progress\n1\n")
    (tmp_path / "a/scalability.csv").write_text(text.replace("0.5", "0.25"))
    found = speeds.read(tmp_path)
    names = ["a/placements", "a/scalability", "b/placements-aws", "b/placements-dgx"]
    assert [m.name for m in found.measured] == names
    assert len(found.notes) == 1
    assert "placements.csv: the same as placements-aws.csv" in found.notes[0]


def test_a_folder_without_profiles_is_refused(tmp_path: Path) -> None:
    assert "folder must have files placements*.csv or scalability*.csv" in refused(tmp_path)


def test_gzip_files_are_read(write: Write) -> None:
    measured = only(write(gzip.compress(f"{OWN}\n2,1,50,100\n".encode()), name="mine.csv.gz"))
    assert (measured.name, measured.seconds.tolist()) == ("mine", [2.0])


def test_every_row_of_the_public_table_is_used_or_counted(traces: Path) -> None:
    found = speeds.read(traces / "dl2/config_speed.txt").measured
    assert len(found) == 8
    assert sum(len(m) + m.skipped for m in found) == 804
    assert sum(m.skipped for m in found) == 10
