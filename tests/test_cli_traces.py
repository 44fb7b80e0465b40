"""``slotwise inspect`` and ``slotwise convert``, and traces on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.test_cli import JOBS, figures, refused

from slotwise.cli import main
from slotwise.workloads.traces import read_trace

Write = Callable[..., Path]

FIELDS = {
    *("trace", "format", "jobs", "span_seconds", "end_seconds", "roles", "duration_seconds", "interarrival_seconds"),
    *("wait_seconds", "workers", "servers", "demand", "demand_recorded", "recorded_capacity", "machines", "load"),
    *("contradictions", "skipped", "assumed"),
}
PAI = [
    *(f"j{i},worker,w{k},x,x,Terminated,{100 * i}.0,{100 * i + 2000}.0,m" for i in range(8) for k in range(1 + i % 3)),
    "j1,ps,p,x,x,Terminated,100.0,2100.0,m",
    "j1,evaluator,e,x,x,Terminated,100.0,2100.0,m",
    "broken",
]
SPEEDS = json.dumps({"v100": {"A3C": {"null": 2.0}}})
GAVEL = [f"A3C\tpython3 train.py\t-n\t0\t{2000 * (i + 1)}\t{300.5 * i}\t{1 + i % 2}" for i in range(6)]


def test_inspect_says_what_is_in_a_trace(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(*PAI)
    found = figures(capsys, "inspect", str(path))
    assert set(found) == FIELDS
    assert (found["format"], found["jobs"]) == ("pai", 8)
    assert found["roles"] == {"workers": 15, "servers": 1, "all_reduce_jobs": 7, "server_jobs": 1}
    assert found["skipped"] == {"rows: malformed": 1, "rows: other roles": 1}
    assert (found["machines"], found["load"], found["contradictions"]) == (None, None, [])
    assert found["duration_seconds"]["p50"] == 2000
    assert found["interarrival_seconds"]["max"] == 100
    assert found["demand_recorded"] == []
    assert "drawn with equal chances" in found["assumed"]["model"]


def test_inspect_prints_the_same_for_people(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(write(*PAI)), "--cluster", "1x1"]) == 0
    out = capsys.readouterr().out
    for text in ("format pai, 8 jobs", "15 workers and 1 server", "gpu of a job (assumed)", "offered load"):
        assert text in out
    assert "all workers and servers together are larger than all machines together" in out
    assert "rows: malformed: 1" in out


def test_inspect_works_without_throughputs(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path, speeds = write(*GAVEL, name="trace"), write(SPEEDS, name="speeds")
    found = figures(capsys, "inspect", str(path), "--cluster", "2x2")
    assert (found["jobs"], found["duration_seconds"], found["end_seconds"], found["load"]) == (6, None, None, None)
    assert found["assumed"]["duration"].startswith("Unknown: durations must come from --throughputs FILE")
    found = figures(capsys, "inspect", str(path), "--cluster", "2x2", "--throughputs", str(speeds))
    assert found["duration_seconds"]["max"] == 6000
    assert main(["inspect", str(path), "--cluster", "2x2"]) == 0
    assert "durations are unknown" in capsys.readouterr().out
    error = refused(capsys, "simulate", "--workload", str(path), "--cluster", "2x2")
    assert "durations must come from --throughputs FILE" in error


def test_offered_load_is_what_jobs_ask_for_over_what_there_is(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    # Two jobs of 1,200 s on 4 processors each, one after the other, on 8 processors.
    rest = "-1 -1 4 1200 -1 1 1 1 1 1 1 -1 -1"
    path = write(f"1 0 0 1200 4 {rest}", f"2 1200 600 1200 4 {rest}")
    found = figures(capsys, "inspect", str(path), "--cluster", "1x0")  # 64 cpu
    load = found["load"]
    assert load["mean"]["cpu"] == pytest.approx(4 / 64)
    assert load["peak"]["cpu"] == pytest.approx(4 / 64)
    assert sum(stretch["arrivals"] for stretch in load["over_time"]) == 2
    assert load["over_time"][-1]["to_seconds"] == found["end_seconds"] == 2400
    assert found["demand_recorded"] == ["gpu", "cpu", "memory"]


def test_contradictions_are_named(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    rest = "-1 4194304 -1 1000 -1 1 1 1 1 1 1 -1 -1"
    path = write("; MaxProcs: 10", f"1 0 0 1200 8 {rest}", f"2 0 100 500 8 {rest}", f"3 5000 0 60 200 {rest}")
    found = figures(capsys, "inspect", str(path), "--cluster", "2x1")
    assert found["recorded_capacity"] == {"cpu": 10.0}
    said = {each["what"]: (each["jobs"], each["example"]) for each in found["contradictions"]}
    assert said["ran longer than they requested"] == (1, None)
    assert said["all workers and servers together are larger than all machines together"] == (1, "3")
    peak = "recorded use of cpu reaches 200 at 5000 s, above the 10 of the machines that it was recorded on"
    assert said[peak] == (0, None)
    assert any("reaches 200 at 5000 s, above the 16 of the given machines" in what for what in said)
    nodes = write("sn,cpu_milli,memory_mib,gpu,model", "n,8000,2048,0,", name="nodes")
    found = figures(capsys, "inspect", str(path), "--cluster", str(nodes))
    assert ("one worker is larger than any machine", 3) in [(e["what"], e["jobs"]) for e in found["contradictions"]]


def test_recorded_use_that_fits_is_no_contradiction(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    rest = "-1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1"
    # The second begins in the second in which the first ends.
    path = write("; MaxProcs: 8", f"1 0 0 1200 8 {rest}", f"2 100 1100 500 8 {rest}")
    assert figures(capsys, "inspect", str(path))["contradictions"] == []


def test_own_jobs_can_be_inspected(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures(capsys, "inspect", JOBS, "--cluster", "4x8")
    assert (found["format"], found["jobs"]) == ("jobs-yaml", 3)
    (said,) = found["contradictions"]
    assert (said["what"], said["example"]) == ("one worker is larger than any machine", "too-large-a-worker")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "absent"], "the trace must exist, got 'absent'"),
        (["convert", "absent", "-o", "x.csv"], "the trace must exist, got 'absent'"),
        (["inspect", JOBS, "--cluster-share", "0.5"], "--cluster-share goes with --cluster"),
        (["inspect", JOBS, "--throughputs", JOBS], "--throughputs goes with a trace"),
        (["inspect", JOBS, "--seed", "-1"], "--seed must be >= 0, got -1"),
        (["inspect", JOBS, "--format", "sge"], "format must be one of pai, "),
        (["convert", JOBS, "-o", "x.csv"], "a trace is converted, got a job list already"),
        (["convert", JOBS], "'--out'"),
        (["simulate", "--workload", "paper", "--throughputs", "x"], "--throughputs goes with a workload file"),
    ],
)
def test_bad_use_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert message in refused(capsys, *arguments)


def test_machines_are_no_trace(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write("sn,cpu_milli,memory_mib,gpu,model", "n,8000,2048,0,"))
    assert "trace must be in one of the formats pai, " in refused(capsys, "inspect", path)
    assert "got openb-nodes" in refused(capsys, "convert", path, "-o", str(tmp_path / "out.csv"))


def test_a_terminal_sees_how_much_is_read(
    write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    path = write(*PAI)
    assert main(["inspect", str(path)]) == 0
    assert "reading: bytes" in capsys.readouterr().err


def played(capsys: pytest.CaptureFixture[str], folder: Path, workload: Path, *options: str) -> list[dict[str, Any]]:
    """Return the events of a run."""
    events = folder / "events.jsonl"
    arguments = ["simulate", "--workload", str(workload), "--cluster", "2x4", "--no-bound", *options]
    assert main([*arguments, "--events", str(events)]) == 0
    capsys.readouterr()
    return [json.loads(line) for line in events.read_text().splitlines()]


@pytest.mark.parametrize("policy", ["fifo", "pdors"])
@pytest.mark.parametrize("slot", ["10min", "433.3s"])
def test_a_converted_trace_gives_the_same_events(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str, slot: str
) -> None:
    path, out = write(*PAI), tmp_path / "jobs.csv"
    done = figures(capsys, "convert", str(path), "-o", str(out), "--slot", slot)
    assert done["workload_digest"] == read_trace(out, slot).digest
    options = ("--policy", policy, "--slot", slot, "--horizon", str(done["horizon"]))
    events = played(capsys, tmp_path, path, *options)
    assert any(event["kind"] == "Launch" for event in events)
    assert played(capsys, tmp_path, out, *options) == events


def test_every_kind_of_trace_can_be_converted_and_read_back(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rest = "-1 4194304 -1 1000 -1 1 1 1 1 1 1 -1 -1"
    pod = "1500,2048,1,333,,LS,Running,1,901.7,5"
    pods = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
    )
    speeds = write(SPEEDS, name="speeds")
    cases = [
        (GAVEL, ["--throughputs", str(speeds)]),
        ([f"1 0 0 1200 8 {rest}", f"2 97.3 100 500.1 3 {rest}"], ["--value", "work", "--elastic", "3.3"]),
        ([pods, f"a,{pod}", f'"b c",{pod}'], ["--seed", "7"]),
        (["job_id,num_gpu,submit_time,iterations,model_name,duration", "=1+1,3,0,1,vgg19,1e6"], ["--cluster", "2x4"]),
    ]
    for lines, options in cases:
        out = tmp_path / "jobs.csv"
        done = figures(capsys, "convert", str(write(*lines)), "-o", str(out), "--slot", "7.7s", *options)
        back = read_trace(out, 7.7)
        assert back.format == "jobs-csv"
        assert (len(back.jobs), back.digest) == (done["jobs"], done["workload_digest"])


def test_convert_is_whole_or_not_there_and_never_overwrites_its_input(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = write(*PAI, name="trace"), tmp_path / "jobs.csv"
    before = path.read_bytes()
    link = tmp_path / "link"
    link.symlink_to(path)
    for target in (path, link):
        error = refused(capsys, "convert", str(path), "-o", str(target))
        assert "--out must not be a file that is read" in error
    assert path.read_bytes() == before
    out.write_text("mine")
    unnameable = write("j\u200b,worker,i,w,g,Terminated,5.0,65.0,m", name="other")
    assert "job name must be printable" in refused(capsys, "convert", str(unnameable), "-o", str(out))
    late = write(*PAI[:1], "z,worker,i,w,g,Terminated,2000000.0,2000001.0,m", name="late")
    assert "take longer slots" in refused(capsys, "convert", str(late), "-o", str(out), "--slot", "1s")
    assert out.read_text() == "mine"
    assert main(["convert", str(path), "-o", str(out)]) == 0
    assert "slotwise simulate --workload" in capsys.readouterr().out
    assert sorted(file.name for file in tmp_path.iterdir()) == ["jobs.csv", "late", "link", "other", "trace"]


@pytest.mark.parametrize(
    ("name", "throughputs", "jobs", "skipped"),
    [
        ("pai2020/pai_instance_table.part.csv", None, 1942, 6271),
        ("tiresias/60_job.csv", None, 60, 0),
        ("gavel/0e4a51.trace", "gavel/simulation_throughputs.json", 1181, 0),
        ("gavel/103959.trace", "gavel/simulation_throughputs.json", 986, 0),
        ("sia/workloads_philly/workload-1.csv", "sia/profiles", 160, 0),
        ("swf/accasim_workload.swf", None, 25, 0),
        ("openb2023/openb_pod_list_default.csv", None, 5385, 2767),
    ],
)
def test_public_traces(
    traces: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    throughputs: str | None,
    jobs: int,
    skipped: int,
) -> None:
    options = [] if throughputs is None else ["--throughputs", str(traces / throughputs)]
    found = figures(capsys, "inspect", str(traces / name), "--cluster", "64x8", *options)
    assert (found["jobs"], sum(found["skipped"].values())) == (jobs, skipped)
    assert found["load"]["mean"]["cpu"] > 0
    out = tmp_path / "jobs.csv"
    done = figures(capsys, "convert", str(traces / name), "-o", str(out), *options)
    assert read_trace(out).digest == done["workload_digest"]
