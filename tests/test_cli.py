"""The command line: figures out, one line and exit code 2 for bad input, nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import event
from tests.optim.certificate import recompute

from slotwise.cli import main, output
from slotwise.cli.source import load, warn
from slotwise.model.speed import AllReduceSpeed
from slotwise.workloads.synthetic import paper

ROOT = Path(__file__).parents[1]
JOBS, CLUSTER = str(ROOT / "examples/jobs.yaml"), str(ROOT / "examples/cluster.yaml")
OWN = ["simulate", "--workload", JOBS, "--cluster", CLUSTER]
PAPER = ["simulate", "--workload", "paper", "--jobs", "20", "--machines", "10", "--horizon", "20"]

FIELDS = {
    *("policy", "seed", "workload", "solver", "prices", "machines", "horizon", "slot_seconds", "jobs", "admitted"),
    *("rejected", "completed", "unfinished", "infeasible", "total_utility", "upper_bound", "fraction_of_bound"),
    *("bound_seconds", "jct_seconds", "training_slots_median", "makespan_slots", "utilization"),
    *("colocated_fraction", "decision_seconds", "wall_seconds", "assumed", "skipped"),
}


def figures(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    out = capsys.readouterr().out
    found: dict[str, Any] = json.loads(out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run what must fail with exit code 2, nothing on standard output and one line on standard error."""
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("slotwise: ")
    return captured.err.strip()


@pytest.mark.parametrize("policy", ["pdors", "fifo", "drf"])
def test_json_has_the_fields_of_the_design_and_the_jobs_add_up(capsys: pytest.CaptureFixture[str], policy: str) -> None:
    found = figures(capsys, *PAPER, "--policy", policy)
    assert set(found) >= FIELDS
    assert found["jobs"] == 20
    assert found["machines"] == 10
    turned_away = sum(found["rejected"].values()) + found["infeasible"]
    assert found["completed"] + found["unfinished"] + turned_away == 20
    assert set(found["jct_seconds"]) == {"mean", "p50", "p90", "p99"}
    assert set(found["decision_seconds"]) == {"p50", "p99", "max"}
    assert set(found["utilization"]) == {"gpu", "cpu", "memory", "storage"}
    assert found["upper_bound"] >= found["total_utility"] > 0
    assert found["fraction_of_bound"] == pytest.approx(found["total_utility"] / found["upper_bound"])
    assert found["bound_seconds"] > 0
    assert 0 <= found["bound_gap"] <= 1e-3
    assert found["rounding"] is None
    assert (found["solver"], found["prices"]) == (("sweep", "learnt") if policy == "pdors" else (None, None))


def test_own_jobs_are_answered_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(OWN) == 0
    captured = capsys.readouterr()
    lines = {line.split()[0]: line for line in captured.out.splitlines() if line.strip()}
    assert "admitted" in lines["resnet50-a"]
    assert "slot 1" in lines["resnet50-a"]
    assert "needs 9 gpu on one machine, the largest has 8" in lines["too-large-a-worker"]
    found = figures(capsys, *OWN)
    assert found["rejected"] == {"never fits: needs 9 gpu on one machine, the largest has 8": 1}
    assert found["completed"] == 2


def test_unfinished_jobs_are_a_line_on_standard_error_and_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAPER, "--jobs", "60", "--policy", "fifo", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["unfinished"] > 0
    waiting = found["unfinished"] - (found["admitted"] - found["completed"])
    assert 0 < waiting < found["unfinished"]
    assert captured.err == (
        f"slotwise: {found['unfinished']} jobs did not finish by the horizon, {waiting} of them never started\n"
    )


def test_a_share_of_the_machines_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert figures(capsys, *OWN, "--cluster-share", "0.5")["machines"] == 3


def test_a_shorthand_names_what_it_stands_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "simulate", "--workload", JOBS, "--cluster", "4x8")
    assert found["machines"] == 4
    assert found["assumed"]["cluster"] == (
        "4x8 stands for 4 machines, each with 8 gpu, 64 cpu, 512 memory, 1000 storage"
    )


def test_a_domain_that_the_cluster_lacks_is_said(tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(Path(JOBS).read_text().replace("  maxWorkers: 32\n", "  maxWorkers: 32\n  domain: rack\n"))
    source, _ = load(str(path), CLUSTER, None, None, None, None, None, 0, None, None, None, False)
    assert source.assumed["domain"] == "rack: no level of this cluster (machine, cluster); jobs bound to it cannot run"


def racks(path: Path, bandwidth: str) -> str:
    path.write_text(
        f"kind: Cluster\napiVersion: slotwise/v1\nspec:\n{bandwidth}  machines:\n"
        "  - {name: a, rack: r1, resources: {gpu: 8, cpu: 64, memory: 512Gi}}\n"
    )
    return str(path)


@pytest.mark.parametrize("bandwidth", ["", "  bandwidth: {machine: 50Gbps, cluster: 5Gbps}\n"])
@pytest.mark.parametrize("command", ["simulate", "bound", "compare", "quote"])
def test_racks_without_a_bandwidth_of_their_own_are_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, bandwidth: str
) -> None:
    cluster = racks(tmp_path / "cluster.yaml", bandwidth)
    jobs = [JOBS, "--job", "resnet50-a"] if command == "quote" else ["--workload", JOBS]
    more = ["--policies", "fifo", "--processes", "1"] if command == "compare" else []
    assert main([command, *jobs, "--cluster", cluster, "--json", *more]) == 0
    captured = capsys.readouterr()
    text = "machines name racks, and bandwidth has no rack: no job is faster within one, 625 MB/s as anywhere in the"
    assert captured.err.startswith(f"slotwise: {text} cluster; give bandwidth: ")
    assert json.loads(captured.out)["assumed"]["rack"].startswith(text)


def test_a_bandwidth_of_racks_that_no_machine_names_is_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    cluster = racks(path, "  bandwidth: {machine: 50Gbps, rack: 25Gbps, cluster: 5Gbps}\n")
    path.write_text(path.read_text().replace("rack: r1, ", ""))
    assert main(["simulate", "--workload", JOBS, "--cluster", cluster, "--json"]) == 0
    captured = capsys.readouterr()
    text = "bandwidth has rack, and no machine names one: each machine is a rack of its own"
    assert captured.err.startswith(f"slotwise: {text}; give the machines rack: NAME")
    assert json.loads(captured.out)["assumed"]["rack"].startswith(text)


@pytest.mark.parametrize("within", ["25Gbps", "5Gbps"])
def test_nothing_is_said_of_racks_with_a_bandwidth(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, within: str
) -> None:
    cluster = racks(tmp_path / "cluster.yaml", f"  bandwidth: {{machine: 50Gbps, rack: {within}, cluster: 5Gbps}}\n")
    assert main(["simulate", "--workload", JOBS, "--cluster", cluster, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert not any("rack" in text for item in json.loads(captured.out)["assumed"].items() for text in item)


@pytest.mark.parametrize("command", ["simulate", "bound", "compare"])
def test_jobs_none_of_which_can_ever_run_are_refused(capsys: pytest.CaptureFixture[str], command: str) -> None:
    error = refused(capsys, command, "--workload", "paper", "--jobs", "12", "--cluster", CLUSTER)
    assert error == (
        "slotwise: paper: 12 of 12 jobs can never run for want of storage: no machine has any, they have gpu, cpu, "
        "memory; add it to the machines of --cluster, or mend its name"
    )


def test_a_resource_of_which_all_machines_have_none_is_lacking(capsys: pytest.CaptureFixture[str]) -> None:
    assert "jobs can never run for want of gpu" in refused(capsys, "simulate", "--workload", JOBS, "--cluster", "4x0")


def mistyped(path: Path, times: int) -> str:
    """The jobs of examples/jobs.yaml, some of which ask for gpus, not gpu."""
    text = Path(JOBS).read_text().replace("nvidia.com/gpu:", "gpu:")
    assert text.count("gpu:") == 3
    path.write_text(text.replace("gpu:", "GPUs:", times))
    return str(path)


def test_a_resource_that_no_machine_has_is_named_with_the_one_that_may_be_meant(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    some, every = mistyped(tmp_path / "some.yaml", 1), mistyped(tmp_path / "every.yaml", 3)
    said = "can never run for want of GPUs (did you mean gpu?): no machine has any, they have gpu, cpu, memory; "
    assert f"{every}: 3 of 3 jobs {said}" in refused(capsys, "simulate", "--workload", every, "--cluster", CLUSTER)
    assert main(["simulate", "--workload", some, "--cluster", CLUSTER, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err.startswith(f"slotwise: {some}: 1 of 3 jobs {said}")
    assert captured.err.count("\n") == 1
    assert len(json.loads(captured.out)["rejected"]) == 2
    assert main(["quote", some, "--job", "resnet50-a", "--cluster", CLUSTER]) == 0
    captured = capsys.readouterr()
    assert f"job 'resnet50-a' {said}" in captured.err
    assert "never fits: needs 1 GPUs on one machine, the cluster has none" in captured.out


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["simulate", "--workload", "papr"], "paper"),
        ([*PAPER, "--policy", "pdor"], "pdors"),
        ([*OWN, "--format", "job-yaml"], "jobs-yaml"),
        (["compare", *PAPER[1:], "--policies", "fifo,Drf"], "drf"),
        (["compare", *PAPER[1:], "--policies", "fifo,drf", "--plan-of", "fif", "--out", "no"], "fifo"),
        (["compare", *PAPER[1:], "--policies", "fifo", "--parallel", "proceses"], "processes"),
        (["quote", JOBS, "--cluster", CLUSTER, "--job", "bert-finetun"], "bert-finetune"),
        (["quote", JOBS, "--cluster", CLUSTER, "--solver", "swep"], "sweep"),
        (["reproduce", "utility-vs-job"], "utility-vs-jobs"),
        (["reproduce", "google", "--policies", "max_min"], "max-min"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], meant: str
) -> None:
    assert refused(capsys, *arguments).endswith(f"(did you mean {meant}?)")


def test_servers_that_a_job_does_without_lack_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    served = Path(JOBS).read_text().replace("server: {resources: {", "server: {resources: {fpga: 1, ")
    assert served.count("fpga") > 0
    path = tmp_path / "jobs.yaml"
    path.write_text(served)
    source, where = load(str(path), CLUSTER, None, None, None, None, None, 0, None, None, None, False)
    lacking = [job for job in source.jobs if job.server_demand.get("fpga")]
    assert lacking
    warn(lacking, where, "jobs", {}, fatal=False)
    assert "for want of fpga: no machine has any" in capsys.readouterr().err
    warn([replace(job, speed=AllReduceSpeed(0.001, 100.0)) for job in lacking], where, "jobs", {})
    assert capsys.readouterr().err == ""


def test_fewer_jobs_of_a_file_are_counted_as_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, *OWN, "--jobs", "1")
    assert found["jobs"] == 1
    assert found["skipped"] == {"jobs: beyond --jobs": 2}


def test_event_log_is_written_whole_and_equal_in_two_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    figures(capsys, *PAPER, "--events", str(first))
    figures(capsys, *PAPER, "--events", str(second))
    assert first.read_bytes() == second.read_bytes()
    kinds = [json.loads(line)["kind"] for line in first.read_text().splitlines()]
    assert kinds.count("SlotOpened") == 20
    assert kinds.count("JobArrived") == 20
    assert {path.name for path in tmp_path.iterdir()} == {"a.jsonl", "b.jsonl"}


def test_a_pipe_is_written_to_and_not_replaced(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    figures(capsys, *PAPER, "--events", str(pipe))
    out, _ = reader.communicate(timeout=60)
    assert out.count(b"SlotOpened") == 20
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="needs /dev/full, a device that is always full")
def test_a_full_disk_is_one_line_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAPER, "--events", "/dev/full"]) == 1
    assert capsys.readouterr().err == "slotwise: output must go somewhere that takes it: No space left on device\n"
    run = subprocess.run(
        f"{sys.executable} -m slotwise simulate --workload paper --jobs 5 --horizon 4 --json > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_one_line_exit_code_130_and_no_event_log(tmp_path: Path, asked: signal.Signals) -> None:
    path = tmp_path / "run.jsonl"
    arguments = ["simulate", "--workload", "paper", "--jobs", "20000", "--machines", "60", "--horizon", "200"]
    run = subprocess.Popen(
        [sys.executable, "-m", "slotwise", *arguments, "--events", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if any(part.stat().st_size > 0 for part in tmp_path.glob("run.jsonl.*.part")):
            break
        time.sleep(0.1)
    run.send_signal(asked)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out, err) == (130, "", "slotwise: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_an_event_log_never_overwrites_what_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(Path(JOBS).read_text())
    says = refused(capsys, "simulate", "--workload", str(path), "--cluster", "4x8", "--events", str(path))
    assert "--events must not be a file that is read" in says
    assert path.read_text() == Path(JOBS).read_text()


def test_names_are_text_and_no_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(Path(JOBS).read_text().replace("name: resnet50-a", 'name: "[/x]"', 1))
    assert main(["simulate", "--workload", str(path), "--cluster", "4x8"]) == 0
    assert "[/x]" in capsys.readouterr().out


def test_a_run_that_fails_leaves_no_event_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("what was there")
    refused(capsys, *PAPER, "--policy", "nonsense", "--events", str(path))
    assert path.read_text() == "what was there"
    assert [found.name for found in tmp_path.iterdir()] == ["run.jsonl"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate"], "Missing option '--workload'."),
        (["simulate", "--wrkload", "paper"], "No such option: --wrkload"),
        (["plan"], "No such command 'plan'."),
        ([*PAPER, "--seed", "x"], "Invalid value for '--seed'"),
        ([*PAPER, "--seed", "-1"], "--seed must be >= 0, got -1"),
        ([*PAPER, "--horizon", "0"], "--horizon must be >= 1, got 0"),
        ([*PAPER, "--jobs", "0"], "--jobs must be >= 1, got 0"),
        ([*PAPER, "--machines", "0"], "machines must be >= 1, got 0"),
        ([*PAPER, "--cluster", "4x8"], "--cluster and --machines exclude each other, got both"),
        ([*PAPER, "--slot", "1min"], "--slot goes with a workload file, got it with --workload paper"),
        ([*PAPER, "--value", "work"], "--value goes with a workload file, got it with --workload paper"),
        ([*PAPER, "--policy", "best"], "or package.module:Class, got 'best'"),
        ([*PAPER, "--prices", "high"], "prices must be learnt, learnt=X, literal or scale=X, got 'high'"),
        ([*PAPER, "--prices", "scale=0"], "prices scale must be > 0 and finite, got 0.0"),
        ([*PAPER, "--solver", "best"], "solver must be one of sweep, exact, reference, got 'best'"),
        ([*PAPER, "--grid", "0"], "grid must be in 1 ... 1000000, got 0"),
        ([*PAPER, "--cluster-share", "0"], "cluster share must be > 0 and <= 1, got 0.0"),
        ([*PAPER, "--events", "/nowhere/run.jsonl"], "--events must be a file that can be written"),
        (["simulate", "--workload", "nowhere.csv"], "--workload must be paper, google or a file, got 'nowhere.csv'"),
        (["simulate", "--workload", JOBS], "--cluster must name the machines"),
        ([*OWN, "--elastic", "3"], "--elastic goes with a trace, got it with own jobs"),
        (
            [*OWN, "--horizon", "1000000000"],
            "slots x machines x resources must be <= 500000000, got 1000000000 x 6 x 3",
        ),
        ([*PAPER, "--policy", "fifo", "--prices", "high"], "prices must be learnt, learnt=X, literal or scale=X"),
        (["simulate", "--workload", JOBS, "--machines", "4"], "--machines goes with --workload paper or google"),
        (
            ["simulate", "--workload", JOBS, "--cluster", "nowhere.yaml"],
            "cluster must be a file that exists, or machines x GPUs",
        ),
        (["simulate", "--workload", CLUSTER, "--cluster", CLUSTER], "workload must be in one of the formats"),
        (["simulate", "--workload", JOBS, "--cluster", JOBS], "cluster must be in one of the formats"),
        ([*OWN, "--slot", "10parsecs"], "slot must be in ms, s, min, h or d, got '10parsecs'"),
        ([*OWN, "--slot", "0"], "slot must be > 0, got '0'"),
        ([*OWN, "--horizon", "2"], "--horizon must be > the arrival of job 'too-large-a-worker' (slot 2), got 2"),
        (
            [*OWN, "--format", "pai"],
            "must have at least 1 job with a worker that ended well, got 0 in 42 rows (42 malformed)",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


def test_a_bad_field_is_named_with_file_and_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(Path(JOBS).read_text().replace("epochs: 3", "epochs: -3", 1))
    assert f"{path}:5: spec.epochs must be" in refused(capsys, "simulate", "--workload", str(path), "--cluster", "4x8")


def test_environment_sets_defaults_and_an_option_wins(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLOTWISE_POLICY", "fifo")
    assert figures(capsys, *PAPER)["policy"] == "fifo"
    assert figures(capsys, *PAPER, "--policy", "drf")["policy"] == "drf"


def test_without_arguments_it_helps(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "simulate" in capsys.readouterr().out


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    import slotwise

    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == slotwise.__version__


def test_help_loads_no_heavy_library() -> None:
    code = "import sys; from slotwise.cli import main; main(['--help']); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.splitlines()[-1].split())
    assert not loaded & {"numpy", "numba", "polars", "yaml", "slotwise.cli.fields"}


def test_output_closed_early_is_not_an_error() -> None:
    run = subprocess.run(
        f"{sys.executable} -m slotwise simulate --workload paper --jobs 5 --horizon 4 --json | true",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert "Traceback" not in run.stderr


def test_a_link_stays_a_link_and_a_part_of_the_users_own_stays_his(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    real, link, own = tmp_path / "real.jsonl", tmp_path / "run.jsonl", tmp_path / "run.jsonl.part"
    link.symlink_to(real)
    own.write_text("mine")
    figures(capsys, *PAPER, "--no-bound", "--events", str(link))
    assert link.is_symlink()
    assert "SlotOpened" in real.read_text()
    assert own.read_text() == "mine"
    assert len(list(tmp_path.iterdir())) == 3


def test_links_in_a_circle_are_no_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert "--events must be a file that can be written" in refused(capsys, *PAPER, "--events", str(tmp_path / "a"))


def test_a_folder_is_no_event_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    says = refused(capsys, *PAPER, "--events", str(tmp_path))
    assert "--events must be a file that can be written" in says


# ------------------------------------------------------------------------------------------ bounds


SMALL = ["--workload", "paper", "--jobs", "10", "--machines", "5", "--horizon", "10", "--seed", "2"]


def test_no_bound_computes_none(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, *PAPER, "--no-bound")
    assert (found["upper_bound"], found["fraction_of_bound"], found["bound_seconds"]) == (None, None, None)


def test_a_workload_too_large_for_a_quick_bound_goes_without(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotwise.sim.compare.LARGEST_BOUND", 10)
    assert main([*PAPER, "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["upper_bound"] is None
    assert "no upper bound, since jobs x slots is" in captured.err


def test_jobs_that_can_earn_nothing_have_no_fraction(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "simulate", "--workload", "paper", "--jobs", "3", "--machines", "1", "--horizon", "1")
    assert (found["upper_bound"], found["fraction_of_bound"]) == (0.0, None)


def test_the_bound_of_a_run_is_that_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    run = figures(capsys, "simulate", *SMALL)
    found = figures(capsys, "bound", *SMALL, "--exact")
    assert found["upper_bound"] == run["upper_bound"]
    assert run["total_utility"] <= found["offline"]["utility"] <= found["offline"]["bound"] * (1 + 1e-9)
    assert found["offline"]["bound"] <= found["upper_bound"] * (1 + 1e-9)
    assert found["offline"]["proven"] is True
    assert found["workload_digest"] == run["workload_digest"]
    assert 0 <= found["bound_gap"] <= 1e-3


def test_stored_prices_prove_the_bound_to_anybody(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    arguments = ["--workload", "paper", "--jobs", "40", "--machines", "12", "--horizon", "15", "--seed", "4"]
    found = figures(capsys, "bound", *arguments, "--out", str(path))
    stored = json.loads(path.read_text())
    workload = paper(40, 12, 15, 4)
    assert workload.cluster is not None
    assert stored["workload_digest"] == workload.digest
    assert stored["resources"] == list(workload.cluster.resources)
    checked = recompute(workload.jobs, workload.cluster, np.array(stored["prices"]), stored["slot_seconds"])
    assert stored["upper_bound"] == found["upper_bound"] == pytest.approx(checked, rel=1e-6)


def test_bound_reads_traces_and_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "--workload", JOBS, "--cluster", CLUSTER]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("upper_bound") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gap", "0"], "gap must be > 0 and finite, got 0.0"),
        (["--rounds", "0"], "rounds must be >= 1, got 0"),
        (["--seconds", "-1"], "--seconds must be > 0, got -1"),
        (["--out", "/nowhere/prices.json"], "--out must be a file that can be written"),
        (["--exact", "--jobs", "4000", "--horizon", "100"], "--exact goes with small cases"),
    ],
)
def test_bad_input_of_bound_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in refused(capsys, "bound", *SMALL, *arguments)


def test_bound_stops_at_its_time_and_keeps_what_it_has(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--workload", "paper", "--jobs", "100", "--machines", "30", "--horizon", "20"]
    found = figures(capsys, "bound", *arguments, "--seconds", "1e-9")
    assert found["rounds"] == 1
    assert found["upper_bound"] >= figures(capsys, "bound", *arguments)["upper_bound"]


def test_an_interrupted_bound_keeps_what_it_has() -> None:
    arguments = [
        "bound",
        "--workload",
        "paper",
        "--jobs",
        "3000",
        "--machines",
        "40",
        "--horizon",
        "200",
        "--gap",
        "1e-9",
    ]
    run = subprocess.Popen(
        [sys.executable, "-m", "slotwise", *arguments, "--gap", "1e-9", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(8.0)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    if run.returncode == 0:
        found = json.loads(out)
        assert found["upper_bound"] > 0
        assert "stopped after round" in err
    else:
        # A slow machine had no bound yet.
        assert (run.returncode, out, err) == (130, "", "slotwise: interrupted\n")


# ------------------------------------------------------------------------------------------ the reference solver


def test_the_reference_solver_counts_its_roundings(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, *PAPER, "--solver", "reference", "--attempts", "5", "--gain", "packing", "--delta", "0.3")
    counted = found["rounding"]
    assert found["options"] == {"grid": 500, "gain": "packing", "delta": 0.3, "attempts": 5}
    assert counted["relaxations"] >= counted["feasible"] + counted["fallbacks"] > 0
    assert counted["relaxations"] <= counted["attempts"] <= 5 * counted["relaxations"]
    again = figures(capsys, *PAPER, "--solver", "reference", "--attempts", "5", "--gain", "packing", "--delta", "0.3")
    assert again["rounding"] == counted
    assert again["total_utility"] == found["total_utility"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gain", "best"], "gain must be packing, covering, textbook or a number > 0, got 'best'"),
        (["--gain", "-1"], "gain must be packing, covering, textbook or a number > 0, got '-1'"),
        (["--delta", "0"], "delta must be > 0 and <= 1, got 0.0"),
        (["--delta", "nan"], "delta must be > 0 and <= 1, got nan"),
        (["--attempts", "0"], "attempts must be in 1 ... 1000000, got 0"),
    ],
)
def test_bad_options_of_the_reference_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *PAPER, "--solver", "reference", *arguments)
    assert "goes with --solver reference, got it with --solver sweep" in refused(capsys, *PAPER, *arguments)


def test_what_takes_long_is_said_once_where_no_terminal_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with kernels that have to be compiled."""
    monkeypatch.setattr(output, "PATIENCE", 0.0)
    with output.working("loading kernels"):
        deadline = time.monotonic() + 60.0
        said = ""
        while not said and time.monotonic() < deadline:
            said = capsys.readouterr().err
    assert said == "slotwise: loading kernels ...\n"
    monkeypatch.setattr(output, "PATIENCE", 0.2)
    with output.working("loading kernels", "fifo"), event.trigger_event("numba:compile"):
        said = ""
        while not said and time.monotonic() < deadline:
            said = capsys.readouterr().err
    assert said.startswith("slotwise: compiling kernels for fifo, a minute or two")
    monkeypatch.setattr(output, "PATIENCE", 3600.0)
    with output.working("loading kernels"):
        pass
    assert capsys.readouterr().err == ""
