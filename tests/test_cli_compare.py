"""``slotwise compare`` and ``slotwise policies``: tables, folders that go on, and a clean stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from slotwise.cli import main
from slotwise.policies import catalogue

SMALL = ["compare", "--workload", "paper", "--jobs", "20", "--machines", "5", "--processes", "1"]


JOB_OF_MANY = """
apiVersion: slotwise/v1
kind: TrainingJob
metadata: {name: one}
spec:
  epochs: 1
  samples: 1000000
  batchSize: 256
  gradientMB: 10
  secondsPerSample: 0.004
  worker: {resources: {gpu: 1, GPU: 3}}
  maxWorkers: 2
  utility: {kind: sigmoid, value: 80, urgencyPerHour: 0, target: 1h}
"""


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, Any], str]:
    assert main([*arguments, "--json"]) == 0
    captured = capsys.readouterr()
    return json.loads(captured.out), captured.err


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_json_has_a_row_for_each_policy_over_the_same_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    found, _ = answer(capsys, *SMALL, "--policies", "pdors, fifo", "--seeds", "2")

    assert [(row["policy"], row["runs"]) for row in found["policies"]] == [("pdors", 2), ("fifo", 2)]
    assert len(found["workload_digest"]) == 16
    for row in found["policies"]:
        assert row["completed"] + row["unfinished"] + row["rejected"] + row["infeasible"] == 20
        assert 0.0 < row["fraction_of_bound"] <= 1.0


def test_the_text_shows_unfinished_jobs_in_the_table_and_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SMALL, "--policies", "drf", "--no-bound"]) == 0

    out = capsys.readouterr().out
    assert "unfinished" in out.splitlines()[0]
    assert "note: jobs let in, or still waiting, that did not finish by the horizon, in the mean run: drf" in out


def test_a_folder_goes_on_without_making_a_run_twice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    first, _ = answer(capsys, *SMALL, "--policies", "fifo", "--seeds", "2", "--out", str(out))
    stamps = {path.name: path.stat().st_mtime_ns for path in (out / "events").iterdir()}

    second, said = answer(capsys, *SMALL, "--policies", "fifo,drf", "--seeds", "3", "--out", str(out))

    assert "4 of 9 runs and bounds are in" in said
    assert {name: (out / "events" / name).stat().st_mtime_ns for name in stamps} == stamps
    assert [row["policy"] for row in second["policies"]] == ["fifo", "drf"]
    assert first["policies"][0]["runs"] == 2
    assert len(polars.read_parquet(out / "runs.parquet")) == 6
    assert len(polars.read_parquet(out / "jobs.parquet")) == 6 * 20


def test_a_folder_of_other_settings_or_other_files_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, write: Callable[..., Path]
) -> None:
    jobs = write("name,epochs", name="jobs.csv")
    rows = (Path(__file__).parents[1] / "examples/jobs.yaml").read_bytes()
    jobs.write_bytes(rows)
    own = ["compare", "--workload", str(jobs), "--cluster", "4x4", "--policies", "fifo", "--processes", "1"]
    out = str(tmp_path / "out")
    assert main([*own, "--out", out]) == 0
    capsys.readouterr()

    assert "prices" in refused(capsys, *own, "--prices", "literal", "--out", out)
    jobs.write_bytes(rows + b"\n")
    assert "workload_sha256" in refused(capsys, *own, "--out", out)
    assert "must be a new folder" in refused(capsys, *own, "--out", str(tmp_path))


def test_a_policy_of_ones_own_by_module_and_class(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shortest_of_a_test.py").write_text(
        "import slotwise\n\n\n"
        "class ShortestFirst(slotwise.Policy):\n"
        '    """Run the job with the least workload left first."""\n\n'
        '    name = "shortest-first"\n\n'
        "    def place(self, state, rng):\n"
        "        queue = sorted(state.active, key=lambda job: (state.remaining[job.id], job.id))\n"
        "        return slotwise.pack(queue, state.free)\n"
    )
    monkeypatch.chdir(tmp_path)
    name = "shortest_of_a_test:ShortestFirst"

    found, _ = answer(capsys, *SMALL, "--policies", f"fifo,{name}", "--out", "out")
    assert [row["policy"] for row in found["policies"]] == ["fifo", name]
    _, said = answer(capsys, *SMALL, "--policies", name, "--out", "out")
    assert "2 of 2 runs and bounds are in" in said

    assert main(["simulate", "--workload", "paper", "--jobs", "9", "--policy", name, "--json", "--no-bound"]) == 0
    assert json.loads(capsys.readouterr().out)["policy"] == name


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--policies", "fifo,best"], "policy must be one of"),
        (["--policies", "fifo,fifo"], "policies must be distinct, got 'fifo' twice"),
        (["--policies", ""], "policy must be one of"),
        (["--policies", "nowhere:Best"], "must name a class that can be imported"),
        (["--seed", str(2**63)], "--seed must be <"),
        (["--seeds", "0"], "--seeds must be >= 1, got 0"),
        (["--processes", "0"], "--processes must be >= 1, got 0"),
        (["--parallel", "threads"], "--parallel must be one of processes, ray, got 'threads'"),
        (["--prices", "cheap"], "prices must be"),
        (["--solver", "best"], "solver must be"),
        (["--server-share", "1"], "server share must be > 0 and < 1, got 1.0"),
        (["--jobs", "0"], "--jobs must be >= 1, got 0"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], says: str
) -> None:
    out = tmp_path / "out"
    assert says in refused(capsys, *SMALL, *arguments, "--out", str(out))
    assert not out.exists(), "nothing is written before all is checked"


def test_a_policy_that_fails_is_one_line_and_the_others_are_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "failing_of_a_test.py").write_text(
        "import slotwise\n\n\n"
        "class Boom(slotwise.Policy):\n"
        '    """It has no plan."""\n\n'
        '    name = "boom"\n\n'
        "    def place(self, state, rng):\n"
        "        raise RuntimeError('out of ideas')\n"
    )
    (tmp_path / "broken_of_a_test.py").write_text("class Boom(\n")
    monkeypatch.chdir(tmp_path)

    assert main([*SMALL, "--policies", "fifo,failing_of_a_test:Boom,drf", "--out", "out", "--no-bound"]) == 1

    captured = capsys.readouterr()
    assert "seed 0: policy 'failing_of_a_test:Boom' fails: RuntimeError: out of ideas" in captured.err
    assert "line 10" in captured.err
    assert "1 of 3 runs failed, the tables are without them" in captured.err
    assert polars.read_parquet(tmp_path / "out/runs.parquet")["policy"].to_list() == ["fifo", "drf"]
    assert "must name a class that can be imported" in refused(capsys, *SMALL, "--policies", "broken_of_a_test:Boom")


def test_ctrl_c_keeps_what_is_finished_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        *(sys.executable, "-m", "slotwise", "compare", "--workload", "paper", "--jobs", "40", "--machines", "8"),
        *("--policies", "fifo,drf", "--seeds", "60", "--no-bound", "--processes", "2", "--out", str(out)),
    ]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while len(list(out.glob("parts/*.json"))) < 3:
        assert started.poll() is None, started.communicate()
        time.sleep(0.05)
    # As a terminal does: to all processes of the command.
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)

    assert started.returncode == 130
    assert "stopped after" in said
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    kept = len(polars.read_parquet(out / "runs.parquet"))
    assert 3 <= kept < 120
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    assert f"{kept} of 120 runs and bounds are in" in done.stderr
    assert len(polars.read_parquet(out / "runs.parquet")) == 120


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_asked_to_end_while_kernels_compile_does_so_at_once(tmp_path: Path, number: signal.Signals) -> None:
    started = subprocess.Popen(
        [sys.executable, "-m", "slotwise", "simulate", "--workload", "paper", "--jobs", "5", "--policy", "drf"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cold")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert started.stderr is not None
    assert "compiling kernels for drf" in started.stderr.readline()
    started.send_signal(number)
    out, said = started.communicate(timeout=60)

    assert (started.returncode, out, said) == (130, "", "slotwise: interrupted\n")


def test_the_split_of_the_machines_is_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    oasis = [*SMALL, "--policies", "oasis,pdors", "--no-bound"]
    earned = {}
    for share in ("0.2", "0.8"):
        found, _ = answer(capsys, *oasis, "--server-share", share)
        assert found["options"]["server_share"] == float(share)
        earned[share] = {row["policy"]: row["total_utility"] for row in found["policies"]}
    assert earned["0.2"]["pdors"] == earned["0.8"]["pdors"]
    assert earned["0.2"]["oasis"] != earned["0.8"]["oasis"]


def test_the_plan_shown_is_that_of_a_policy_that_is_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    two = [*SMALL, "--policies", "fifo,drf", "--no-bound"]
    assert "--plan-of needs --out" in refused(capsys, *two, "--plan-of", "drf")
    assert "--figures needs --out" in refused(capsys, *two, "--figures")
    out = tmp_path / "out"
    assert "must be one of --policies (fifo, drf), got 'pdors'" in refused(
        capsys, *two, "--plan-of", "pdors", "--out", str(out)
    )
    assert not out.exists()
    for wanted, given in (("fifo", []), ("drf", ["--plan-of", "drf"])):
        assert main([*two, "--out", str(out), *given]) == 0
        assert polars.read_parquet(out / "plan.parquet")["policy"].unique().to_list() == [wanted]
        assert f"Plan of {wanted}, seed 0" in (out / "report.html").read_text(encoding="utf-8")
        assert f"{out / 'report.html'} shows them in a browser" in capsys.readouterr().out


def test_what_cannot_be_drawn_costs_no_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [*SMALL, "--policies", "fifo,pdors", "--no-bound", "--out", str(out), "--plan-of", "fifo"]
    assert main([*command, "--figures"]) == 0
    before = {path.name for path in (out / "figures").iterdir()}
    assert "prices.svg" not in before
    # Figures of another run do not stay behind, asked for or not.
    (out / "figures/prices.svg").write_text("of another run")
    (out / "figures/mine.svg").write_text("not ours")
    assert main(command) == 0
    assert {path.name for path in (out / "figures").iterdir()} == {*before, "mine.svg"}
    capsys.readouterr()

    packed = out / "events/fifo-0.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-40])
    assert main(command) == 2
    told = capsys.readouterr()
    assert told.out.startswith("policy")
    assert f"{packed} must hold the events of a run, it is damaged" in told.err
    packed.unlink()
    assert main(command) == 0
    capsys.readouterr()

    (out / "report.html").unlink()
    (out / "report.html").mkdir()
    assert main(command) == 1
    told = capsys.readouterr()
    assert told.out.startswith("policy")
    assert f"tables are in {out}, and cannot be drawn: " in told.err


def test_resources_of_names_alike_have_columns_of_their_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "apiVersion: slotwise/v1\nkind: Cluster\nspec:\n  bandwidth: {machine: 50Gbps, cluster: 5Gbps}\n"
        "  machines:\n  - {name: m, count: 2, resources: {gpu: 4, GPU: 8, gpu/a: 2, gpu-a: 2}}\n"
    )
    (tmp_path / "jobs.yaml").write_text(JOB_OF_MANY)
    out = tmp_path / "out"
    command = ["compare", "--workload", str(tmp_path / "jobs.yaml"), "--cluster", str(tmp_path / "cluster.yaml")]
    assert main([*command, "--policies", "fifo", "--no-bound", "--out", str(out), "--processes", "1"]) == 0
    slots = polars.read_parquet(out / "slots.parquet")
    assert slots.columns[5:] == ["use_gpu", "use_gpu_2", "use_gpu_a", "use_gpu_a_2"]
    assert slots["use_gpu"].max() == 2 / 8
    assert slots["use_gpu_2"].max() == 6 / 16


def test_without_plotly_the_tables_are_written_and_it_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    command = [*SMALL, "--policies", "fifo", "--no-bound", "--out", str(out)]
    assert main(command) == 0
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    capsys.readouterr()

    assert main(command) == 0

    told = capsys.readouterr()
    assert "report.html needs plotly, which is not there: pip install 'slotwise[plot]'" in told.err
    assert "shows them" not in told.out
    # No page of another day stays behind.
    assert not (out / "report.html").exists()
    assert (out / "plan.parquet").exists()


def test_simulate_shows_the_plan_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["simulate", "--workload", "paper", "--jobs", "30", "--machines", "5", "--policy", "srtf", "--no-bound"]
    assert main([*run, "--gantt"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(at for at, line in enumerate(lines) if line.strip() == "slots 0 to 19")
    rows = [line.split() for line in lines[at + 1 : at + 6]]
    assert [row[0] for row in rows] == ["m0", "m1", "m2", "m3", "m4"]
    assert all(len(row[1]) == 20 for row in rows)
    assert "--gantt is a text" in refused(capsys, *run, "--gantt", "--json")


def test_policies_are_listed_with_one_line_and_the_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policies", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(catalogue.NAMES)
    assert all(row["summary"].endswith(".") and row["source"] for row in rows)

    assert main(["policies"]) == 0
    out = capsys.readouterr().out
    assert all(row["summary"] in out and row["source"] in out for row in rows)
