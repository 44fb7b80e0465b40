"""``slotwise explain``: the run is the one of the folder, or it says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars
import pytest

from slotwise.cli import main

ROOT = Path(__file__).parents[1]
JOBS, CLUSTER = str(ROOT / "examples/jobs.yaml"), str(ROOT / "examples/cluster.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    arguments = ["--workload", "paper", "--jobs", "30", "--machines", "6", "--policies", "pdors,fifo,drf"]
    assert main(["compare", *arguments, "--seeds", "2", "--processes", "1", "--no-bound", "--out", str(out)]) == 0
    return out


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["explain", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("policy", ["pdors", "fifo", "drf"])
def test_agrees_with_the_tables_of_the_folder(capsys: pytest.CaptureFixture[str], folder: Path, policy: str) -> None:
    jobs = polars.read_parquet(folder / "jobs.parquet")
    rows = jobs.filter(polars.col("policy") == policy, polars.col("seed") == 1).to_dicts()
    assert len(rows) == 30
    # One of each kind of answer.
    for row in {row["reason"]: row for row in rows}.values():
        found = told(capsys, row["job_id"], "--run", str(folder), "--policy", policy, "--seed", "1")
        for name in ("arrival", "admitted", "reason", "detail", "promised"):
            assert found[name] == row[name], (row["job_id"], name)
        if policy != "pdors":
            waited = sum(wait["last"] - wait["first"] + 1 for wait in found["waits"])
            last = row["completed"] if row["completed"] is not None else 19
            if row["reason"] is None:
                assert waited + row["active_slots"] == last - row["arrival"] + 1


def test_the_text_names_policy_answer_and_reason(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    jobs = polars.read_parquet(folder / "jobs.parquet")
    out_of_price = jobs.filter(polars.col("policy") == "pdors", polars.col("reason") == "priced out")
    job, seed = out_of_price["job_id"][0], str(out_of_price["seed"][0])
    capsys.readouterr()

    # Without --policy it is pdors.
    assert main(["explain", job, "--run", str(folder), "--seed", seed]) == 0

    out = capsys.readouterr().out
    assert out.startswith(f"{job}, arrived in slot")
    assert "policy pdors: rejected" in out
    assert "reason: priced out." in out
    assert "costs at least" in out


def test_own_jobs_that_have_changed_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    jobs, out = tmp_path / "jobs.yaml", tmp_path / "out"
    jobs.write_bytes(Path(JOBS).read_bytes())
    arguments = ["--workload", str(jobs), "--cluster", CLUSTER, "--policies", "fifo", "--processes", "1"]
    assert main(["compare", *arguments, "--out", str(out)]) == 0
    name = polars.read_parquet(out / "jobs.parquet")["job_id"][0]
    assert told(capsys, name, "--run", str(out))["policy"] == "fifo"

    jobs.write_bytes(jobs.read_bytes() + b"\n# a note\n")
    assert main(["explain", name, "--run", str(out)]) == 2
    assert "which has changed since" in capsys.readouterr().err
    jobs.unlink()
    assert main(["explain", name, "--run", str(out)]) == 2
    assert "which is not there any more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["job-9999"], "job must be one of the 30 jobs of the run, got 'job-9999'"),
        (["job-0000", "--policy", "oracle"], "--policy must be one of those in"),
        (["job-0000", "--seed", "7"], "--seed must be one of those of pdors in"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: list[str], says: str
) -> None:
    capsys.readouterr()
    assert main(["explain", *arguments, "--run", str(folder)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_a_folder_of_something_else_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", "job-0000", "--run", str(tmp_path)]) == 2
    assert "must be a folder that slotwise compare wrote" in capsys.readouterr().err


def test_a_folder_of_another_version_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    arguments = ["--workload", "paper", "--jobs", "9", "--machines", "2", "--policies", "fifo", "--processes", "1"]
    assert main(["compare", *arguments, "--no-bound", "--out", out]) == 0
    monkeypatch.setattr("slotwise.__version__", "9.9")
    capsys.readouterr()

    assert main(["explain", "job-0000", "--run", out]) == 2
    assert "was written by slotwise 0.1.0, this is 9.9" in capsys.readouterr().err
