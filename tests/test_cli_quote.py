"""``slotwise quote``: an answer in words, one document of JSON, one line for bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slotwise.cli import main

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
CLUSTER = str(EXAMPLES / "cluster.yaml")
OPEN = """\
apiVersion: slotwise/v1
kind: TrainingJob
metadata: {name: open}
spec:
  epochs: 2
  samples: 100000
  batchSize: 32
  speed: {kind: fitted, overhead: 0.4, compute: 0.005, transfer: 0.4, perServer: 0.01, perWorker: 0.01}
  worker: {resources: {cpu: 4, memory: 16Gi, gpu: 1}}
  server: {resources: {cpu: 2, memory: 8Gi}}
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.yaml"
    path.write_text(OPEN)
    return path


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["quote", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_one_document_with_plan_and_configurations(capsys: pytest.CaptureFixture[str], job: Path) -> None:
    found = answered(capsys, str(job), "--cluster", "4x8")
    assert (found["job"], found["workload"], found["machines"]) == ("open", 200000.0, 4)
    assert (found["admitted"], found["reason"], found["detail"], found["prices"]) == (True, None, "", "scale=1")
    assert found["payoff"] == pytest.approx(found["utility"] - found["cost"])
    assert found["finish_seconds"] == (found["finish_slot"] + 1) * 600
    assert found["plan"][-1]["slot"] == found["finish_slot"]
    assert sum(slot["samples"] for slot in found["plan"]) >= 200000.0 * (1 - 1e-9)
    for slot in found["plan"]:
        for role in ("workers", "servers"):
            assert sum(held[role] for held in slot["machines"].values()) == slot[role]
        assert (slot["level"] == "machine") == (len(slot["machines"]) == 1)
    assert any(size["useful"] for size in found["configurations"])
    assert any(size["servers"] > size["workers"] for size in found["configurations"])


def test_ten_workers_are_told_their_servers(capsys: pytest.CaptureFixture[str], job: Path) -> None:
    found = answered(capsys, str(job), "--cluster", "4x8", "--workers", "10")
    assert {size["workers"] for size in found["configurations"]} == {10}
    assert len({size["servers"] for size in found["configurations"]}) > 10
    assert {slot["workers"] for slot in found["plan"]} == {10}
    cheapest = min(found["configurations"], key=lambda size: size["cost"])
    assert cheapest["servers"] in {slot["servers"] for slot in found["plan"]}


def test_words(capsys: pytest.CaptureFixture[str], job: Path) -> None:
    assert main(["quote", str(job), "--cluster", "4x8"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("open: admitted, done within ")
    for part in ("within one", "samples/s", "plan", "m0: 1 w + ", "cluster: 4x8 stands for 4 machines"):
        assert part in text


def test_a_hopeless_deadline_is_told_the_soonest_end(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    spec = "epochs: 1, samples: 120000, batchSize: 4, gradientMB: 100, secondsPerSample: 0.1, maxWorkers: 2"
    worth = "worker: {resources: {gpu: 1}}, utility: {kind: deadline, value: 9, deadline: 10min}"
    path.write_text(
        f"apiVersion: slotwise/v1\nkind: TrainingJob\nmetadata: {{name: late}}\nspec: {{{spec}, {worth}}}\n"
    )
    assert main(["quote", str(path), "--cluster", "1x2"]) == 0
    told = capsys.readouterr().out.splitlines()[0]
    # One worker is cheaper, and takes 12,000 s; two take 6,480 s.
    assert told.startswith(
        "late: rejected, no time left; the best plan would be done within 3 h 20 min (slot 19), worth 0"
    )
    assert told.endswith("; the soonest it could be done is within 1 h 50 min (slot 10)")


def test_a_job_of_a_file_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    jobs = str(EXAMPLES / "jobs.yaml")
    found = answered(capsys, jobs, "--cluster", CLUSTER, "--job", "bert-finetune")
    assert (found["job"], found["admitted"]) == ("bert-finetune", True)
    assert main(["quote", jobs, "--cluster", CLUSTER, "--job", "too-large-a-worker"]) == 0
    expected = "too-large-a-worker: rejected, never fits: needs 9 gpu on one machine, the largest has 8\n"
    assert capsys.readouterr().out == expected
    for arguments, message in (
        ((), "holds 3 jobs: --job must name one of them (resnet50-a, bert-finetune, too-large-a-worker)"),
        (("--job", "bert"), "(resnet50-a, bert-finetune, too-large-a-worker), got 'bert'"),
    ):
        assert main(["quote", jobs, "--cluster", CLUSTER, *arguments]) == 2
        captured = capsys.readouterr()
        assert (captured.out, captured.err.count("\n")) == ("", 1)
        assert message in captured.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--workers", "33"], "--workers must be in 1 ... the batch size (32), got 33"),
        (["--workers", "0"], "--workers must be in 1 ... the batch size (32), got 0"),
        (["--horizon", "0"], "--horizon must be >= 1, got 0"),
        (["--solver", "reference"], "--solver of a quote must be one of sweep, exact, got 'reference'"),
        (["--prices", "literal"], "prices of a quote must be learnt, learnt=X or scale=X, got 'literal'"),
        (["--prices", "scale=1.7e308"], "prices must leave costs finite, got 'scale=1.7e308'"),
        (["--prices", "cheap"], "prices must be learnt, learnt=X, literal or scale=X, got 'cheap'"),
        (["--grid", "0"], "grid must be in 1 ... 1000000, got 0"),
        (["--horizon", "999999999"], "slots x machines x resources must be <= 500000000"),
    ],
)
def test_bad_options_are_one_line(
    capsys: pytest.CaptureFixture[str], job: Path, arguments: list[str], message: str
) -> None:
    assert main(["quote", str(job), "--cluster", "4x8", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert message in captured.err


def test_what_is_no_job_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.yaml", "the job file must exist"),
        (Path(CLUSTER), "must be in one of the formats"),
    ):
        assert main(["quote", str(path), "--cluster", "4x8"]) == 2
        assert message in capsys.readouterr().err
