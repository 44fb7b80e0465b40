import math
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slotwise.errors import InvalidInput, InvalidJob, InvalidTrace
from slotwise.model.job import Job
from slotwise.model.speed import AllReduceSpeed, FittedAllReduce, FittedSpeed, PaperSpeed
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.workloads import _fields, clusters, jobs
from slotwise.workloads.traces import recognise

HOUR = 3600.0

# Line by line, so that a test can replace one and expect the error on that line.
LINES = (
    "apiVersion: slotwise/v1",  # 1
    "kind: TrainingJob",  # 2
    "metadata: {name: resnet50-a}",  # 3
    "spec:",  # 4
    "  epochs: 90",  # 5
    "  samples: 1281167",  # 6
    "  batchSize: 256",  # 7
    "  gradientMB: 97.5",  # 8
    "  secondsPerSample: 0.004",  # 9
    "  workersPerServer: 4",  # 10
    "  worker: {resources: {cpu: 4, memory: 16Gi, nvidia.com/gpu: 1}}",  # 11
    "  server: {resources: {cpu: 2, memory: 8Gi}}",  # 12
    "  minWorkers: 1",  # 13
    "  maxWorkers: 64",  # 14
    "  utility: {kind: sigmoid, value: 80, urgencyPerHour: 0.5, target: 6h}",  # 15
    "  arrival: 0s",  # 16
    "  command: [python, train.py]",  # 17
)
ALL_REDUCE = "\n".join((*LINES[:9], "  worker: {resources: {gpu: 1}}"))
COLUMNS = "name,epochs,samples,batchSize,gradientMB,secondsPerSample,worker.gpu"


def _replaced(number: int, line: str) -> str:
    return "\n".join((*LINES[: number - 1], line, *LINES[number:]))


def _named(name: str, *more: str) -> str:
    return "\n".join((ALL_REDUCE.replace("resnet50-a", name), *(f"  {line}" for line in more)))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("jobs.txt")


def _refusal(file: Path, text: str) -> str:
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput) as caught:
        jobs.read(file, slot_seconds=HOUR)
    assert isinstance(caught.value, InvalidJob | InvalidTrace)
    return str(caught.value)


def test_reads_every_field_of_a_yaml_document(file: Path) -> None:
    more = "\n  requestedWorkers: 8\n  restartSeconds: 30\n"
    file.write_text("\n".join(LINES).replace("arrival: 0s", "arrival: 90min") + more)
    workload = jobs.read(file, slot_seconds=HOUR)
    assert (workload.format, workload.slot_seconds, workload.cluster) == ("jobs-yaml", HOUR, None)
    assert workload.assumed == {}
    assert workload.skipped == {}
    (job,) = workload.jobs
    assert (job.id, job.arrival, job.workload, job.batch_size) == ("resnet50-a", 2, 90 * 1281167, 256)
    assert job.worker_demand == {"cpu": 4.0, "memory": 16.0, "gpu": 1.0}
    assert job.server_demand == {"cpu": 2.0, "memory": 8.0}
    assert job.speed == PaperSpeed(0.004, 97.5, 4.0)
    # Half an hour until its first slot begins, and that slot.
    assert job.utility == Sigmoid(80.0, 0.5, 4.5)
    assert (job.min_workers, job.most_workers, job.requested_workers) == (1, 64, 8)
    assert job.restart_seconds == 30.0


def test_defaults_of_a_short_document(file: Path) -> None:
    file.write_text(ALL_REDUCE)
    workload = jobs.read(file, slot_seconds=HOUR)
    (job,) = workload.jobs
    assert job.speed == AllReduceSpeed(0.004, 97.5)
    assert job.server_demand == {}
    assert (job.arrival, job.min_workers, job.most_workers) == (0, 1, 256)
    assert job.utility == Sigmoid(100.0, 0.0, 23.0)
    assert job.utility.values(3).tolist() == [50.0] * 3
    assert workload.assumed == {"utility": "worth 50 whenever it finishes; fifo aims at 24 h (1 of 1 job have none)"}


def test_csv_and_yaml_of_the_same_job_are_the_same(file: Path) -> None:
    file.write_text("\n".join(LINES))
    from_yaml = jobs.read(file, slot_seconds=600.0)
    file.write_text(
        "name,epochs,samples,batchSize,gradientMB,secondsPerSample,workersPerServer,"
        "worker.cpu,worker.memory,worker.nvidia.com/gpu,server.cpu,server.memory,minWorkers,maxWorkers,"
        "utility.kind,utility.value,utility.urgencyPerHour,utility.target,arrival,command\n"
        "resnet50-a,90,1281167,256,97.5,0.004,4,4,16Gi,1,2,8Gi,1,64,sigmoid,80,0.5,6h,0s,python train.py\n"
    )
    from_csv = jobs.read(file, slot_seconds=600.0)
    assert from_csv.format == "jobs-csv"
    assert from_csv.jobs == from_yaml.jobs
    assert from_csv.digest == from_yaml.digest
    assert from_csv.horizon == from_yaml.horizon


def test_json_is_yaml(file: Path) -> None:
    file.write_text(yaml.safe_dump(yaml.safe_load("\n".join(LINES)), default_flow_style=True, width=9999))
    assert jobs.read(file, slot_seconds=HOUR).format == "jobs-yaml"


def test_an_empty_cell_is_an_absent_field(file: Path) -> None:
    file.write_text(
        f"{COLUMNS},server.cpu,workersPerServer,maxWorkers,utility.kind,utility.value,utility.end,utility.deadline\n"
        "a,1,100,8,10,0.1,1,,,,,,,\n"
        "\n"
        "b,1,100,8,10,0.1,0.5,2,4,3,linear,10,5h,\n"
        "c,0.5,1e2,8,10,0.1,1,0,4,,deadline,7,,90min\n"
    )
    first, second, third = jobs.read(file, slot_seconds=HOUR).jobs
    assert first.speed == AllReduceSpeed(0.1, 10.0)
    assert first.most_workers == 8
    assert second.speed == PaperSpeed(0.1, 10.0, 4.0)
    assert second.utility == Linear(10.0, 5.0, 1.0)
    assert second.most_workers == 3
    assert second.worker_demand == {"gpu": 0.5}
    assert third.utility == Deadline(7.0, 0.5)
    assert third.server_demand == {"cpu": 0.0}
    assert third.workload == 50.0


def test_jobs_come_by_arrival_then_in_file_order(file: Path) -> None:
    arrivals = {"z": "90min", "y": "0s", "x": "61min", "w": "1h", "v": "0"}
    file.write_text("\n---\n".join(_named(name, f"arrival: {at}") for name, at in arrivals.items()))
    workload = jobs.read(file, slot_seconds=HOUR)
    assert [(job.id, job.arrival) for job in workload.jobs] == [
        ("y", 0), ("v", 0), ("w", 1), ("z", 2), ("x", 2),
    ]  # fmt: skip


@pytest.mark.parametrize(("slot", "arrival", "slots"), [(600, "30min", 3), (0.1, "300ms", 3), (7, "1s", 1)])
def test_arrival_is_the_first_slot_that_begins_then_or_later(file: Path, slot: float, arrival: str, slots: int) -> None:
    file.write_text(_named("a", f"arrival: {arrival}"))
    assert jobs.read(file, slot_seconds=slot).jobs[0].arrival == slots


@pytest.mark.parametrize("slot_seconds", [60.0, 600.0, 3600.0, 7200.0])
def test_slot_length_does_not_change_what_a_job_is_worth(file: Path, slot_seconds: float) -> None:
    file.write_text("\n".join(LINES))
    utility = jobs.read(file, slot_seconds=slot_seconds).jobs[0].utility
    slots_of_four_hours = round(4 * HOUR / slot_seconds)
    expected = 80 / (1 + math.exp(0.5 * (4 - 6)))
    assert utility.values(slots_of_four_hours)[-1] == pytest.approx(expected)


@pytest.mark.parametrize(("arrival", "in_time"), [("0", 48), ("10min", 48), ("5min", 47), ("9min", 47)])
def test_a_deadline_is_the_end_of_the_last_slot_that_is_in_time(file: Path, arrival: str, in_time: int) -> None:
    """8 hours are 48 slots of 10 minutes, one less where the first begins after the job was handed in."""
    file.write_text(_named("a", f"arrival: {arrival}\n  utility: {{kind: deadline, value: 5, deadline: 8h}}"))
    values = jobs.read(file, slot_seconds=600.0).jobs[0].utility.values(60)
    assert np.count_nonzero(values) == in_time
    file.write_text(_named("a", f"arrival: {arrival}\n  utility: {{kind: linear, value: 5, end: 8h}}"))
    job = jobs.read(file, slot_seconds=600.0).jobs[0]
    late = (job.arrival + 1) * 600.0 - {"0": 0.0, "10min": 600.0, "5min": 300.0, "9min": 540.0}[arrival]
    assert job.utility.values(1)[0] == pytest.approx(5.0 * (1.0 - late / (8 * HOUR)))


def test_gamma_may_exceed_the_batch_and_be_fractional(file: Path) -> None:
    file.write_text(_replaced(10, "  workersPerServer: 300.5"))
    assert jobs.read(file, slot_seconds=HOUR).jobs[0].speed == PaperSpeed(0.004, 97.5, 300.5)


def test_a_gang_has_equal_bounds(file: Path) -> None:
    file.write_text(_named("a", "minWorkers: 4", "maxWorkers: 4"))
    (job,) = jobs.read(file, slot_seconds=HOUR).jobs
    assert (job.min_workers, job.most_workers) == (4, 4)


def test_a_server_may_demand_nothing(file: Path) -> None:
    file.write_text(_replaced(12, "  server: {resources: {}}"))
    assert jobs.read(file, slot_seconds=HOUR).jobs[0].server_demand == {}


# Speeds

SERVER = LINES[11]
FITTED = "  speed: {kind: fitted, overhead: 0.1, compute: 0.002, transfer: 0.3, perServer: 0.01, bandwidth: 5Gbps}"
TABLE = (
    "  speed:",
    "    kind: table",
    "    points:",
    "    - {workers: 1, servers: 2, samplesPerSecond: 40}",
    "    - {workers: 4, servers: 2, samplesPerSecond: 120}",
)
TABLE_OF_WORKERS = (*TABLE[:3], *(line.replace("servers: 2, ", "") for line in TABLE[3:]))


def _with(*lines: str) -> str:
    """A job of seven lines and its worker, and these: line 9 is the first of them."""
    return "\n".join((*LINES[:7], LINES[10], *lines))


def _job_of(file: Path, *lines: str) -> Job:
    file.write_text(_with(*lines))
    return jobs.read(file, slot_seconds=HOUR).jobs[0]


def test_a_fitted_speed_leaves_the_servers_open(file: Path) -> None:
    job = _job_of(file, FITTED, SERVER, "  maxServers: 12", "  domain: rack")
    assert job.speed == FittedSpeed(0.1, 0.002, 0.3, 0.01, 0.0, 625.0)
    assert job.server_demand == {"cpu": 2.0, "memory": 8.0}
    assert (job.max_servers, job.domain) == (12, "rack")


def test_a_fitted_speed_without_servers(file: Path) -> None:
    line = (
        "  speed: {kind: fitted-all-reduce, compute: 0.002, sync: 1, transfer: 0.3, perWorker: 0.01, bandwidth: 1GB/s}"
    )
    job = _job_of(file, line)
    assert job.speed == FittedAllReduce(0.0, 0.002, 1.0, 0.3, 0.01, 1000.0)
    assert job.server_demand == {}
    for wrong, message in ((SERVER, "spec.server must be absent"), ("  workersPerServer: 2", "must be absent")):
        assert message in _refusal(file, _with(line, wrong))


@pytest.mark.parametrize("beside", [True, False])
def test_a_fitted_speed_may_have_a_ratio(file: Path, beside: bool) -> None:
    lines = (FITTED, LINES[9]) if beside else (FITTED.replace("bandwidth: 5Gbps", "workersPerServer: 4"),)
    speed = _job_of(file, *lines, SERVER).speed
    assert speed == FittedSpeed(0.1, 0.002, 0.3, 0.01, 0.0, 625.0 if beside else None, 4.0)


def test_a_table_is_read_point_by_point(file: Path) -> None:
    job = _job_of(file, *TABLE, SERVER)
    assert job.speed == TableSpeed((SpeedPoint(1, 2, 40.0), SpeedPoint(4, 2, 120.0)))
    assert (job.min_workers, job.most_workers, job.max_servers) == (1, 4, None)
    assert job.configurations({"cluster": 625.0}, 1.0).servers.tolist() == [2, 2, 2, 2]


def test_a_table_without_servers_has_bandwidths(file: Path) -> None:
    text = "    - {workers: 2, samplesPerSecond: 40, bandwidth: 5Gbps}"
    job = _job_of(file, *TABLE[:3], text)
    assert job.speed == TableSpeed((SpeedPoint(2, 0, 40.0, 625.0),))
    assert job.server_demand == {}


@pytest.mark.parametrize("ratio", ["", ", workersPerServer: 4"])
def test_kinds_paper_and_all_reduce_are_the_fields_beside_speed(file: Path, ratio: str) -> None:
    inside = "secondsPerSample: 0.004, gradientMB: 97.5"
    paper = _job_of(file, f"  speed: {{kind: paper, {inside}{ratio}}}", SERVER, "" if ratio else LINES[9])
    assert paper == _job_of(file, *LINES[7:10], SERVER)
    reduced = _job_of(file, f"  speed: {{kind: all-reduce, {inside}}}")
    assert reduced == _job_of(file, *LINES[7:9])
    assert _job_of(file, "  speed: {kind: all-reduce}", *LINES[7:9]) == reduced


def test_the_horizon_knows_every_kind_of_speed(file: Path) -> None:
    for lines in ((FITTED, SERVER), (*TABLE, SERVER), TABLE_OF_WORKERS, (FITTED, SERVER, "  domain: machine")):
        file.write_text(_with(*lines))
        assert jobs.read(file, slot_seconds=HOUR).horizon > 24


def test_the_examples_of_the_documentation_are_read(file: Path) -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = "".join((docs / page).read_text(encoding="utf-8") for page in ("workloads.md", "traces/jobs-yaml.md"))
    # Files that a page runs are read where it is run.
    examples = [block.partition("```")[0] for block in text.split("```yaml\n")[1:] if not block.startswith("# file:")]
    kinds = []
    for example in examples:
        file.write_text(example)
        if recognise(file) == "cluster-yaml":
            assert clusters.read(file).levels == ("machine", "rack", "row", "cluster")
        else:
            kinds += [type(job.speed) for job in jobs.read(file, slot_seconds=HOUR).jobs]
    assert kinds == [PaperSpeed, AllReduceSpeed, FittedSpeed, TableSpeed]


FEW = "name,epochs,samples,batchSize,worker.gpu"
SPACED = FEW.replace(",", ", ")


def test_csv_has_the_speed_of_each_row_in_columns(file: Path) -> None:
    file.write_text(
        f"{FEW},server.cpu,speed.kind,speed.overhead,speed.compute,speed.bandwidth,speed.secondsPerSample,gradientMB,"
        "workersPerServer,maxServers,domain\n"
        "a,1,100,8,1,2,fitted,0.1,0.2,5Gbps,,,,3,rack\n"
        "b,1,100,8,1,2,paper,,,,0.1,10,2,,\n"
        "c,1,100,8,1,,all-reduce,,,,0.1,10,,,machine\n"
    )
    fitted, paper, reduced = jobs.read(file, slot_seconds=HOUR).jobs
    assert fitted.speed == FittedSpeed(0.1, 0.2, 0.0, 0.0, 0.0, 625.0)
    assert (fitted.max_servers, fitted.domain) == (3, "rack")
    assert paper.speed == PaperSpeed(0.1, 10.0, 2.0)
    assert (reduced.speed, reduced.domain) == (AllReduceSpeed(0.1, 10.0), "machine")
    assert recognise(file) == "jobs-csv"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            (FITTED,),
            "4: spec.server must be given with a speed of kind fitted, whose equation has servers (without servers it "
            "is of kind fitted-all-reduce), got nothing",
        ),
        (
            ("  speed: {kind: paper}", *LINES[7:10]),
            "4: spec.server must be given with a speed of kind paper (without servers it is of kind all-reduce), got "
            "nothing",
        ),
        (("  speed: {kind: paper}", *LINES[7:9], SERVER), "4: spec.workersPerServer must be given, got nothing"),
        (TABLE, "4: spec.server must be given with a table of pairs with servers, got nothing"),
        (
            (*TABLE_OF_WORKERS, SERVER),
            "14: spec.server must be absent with a table of pairs without servers, which has no servers, got one",
        ),
        (
            ("  speed: {kind: all-reduce}", *LINES[7:9], SERVER),
            "12: spec.server must be absent with a speed of kind all-reduce, which has no servers, got one",
        ),
        ((FITTED, SERVER, LINES[7]), "11: spec.gradientMB must be absent with a speed of kind fitted, got 97.5"),
        ((*TABLE, SERVER, LINES[8]), "15: spec.secondsPerSample must be absent with a speed of kind table, got 0.004"),
        ((*TABLE, SERVER, LINES[9]), "15: spec.workersPerServer must be absent with a speed of kind table, got 4"),
        (
            ("  speed: {kind: all-reduce, gradientMB: 9}", *LINES[7:9]),
            "10: spec.gradientMB must be absent where speed.gradientMB is given, got 97.5",
        ),
        (("  speed: fast",), "9: spec.speed must be a mapping of fields, got 'fast'"),
        (("  speed: {overhead: 1}",), "9: spec.speed.kind must be given, got nothing"),
        (
            ("  speed: {kind: fited}",),
            "9: spec.speed.kind must be one of paper, all-reduce, fitted, fitted-all-reduce, table, got 'fited' "
            "(did you mean fitted?)",
        ),
        (
            ("  speed: {kind: fitted, overheads: 1}", SERVER),
            "9: spec.speed.overheads must be a known field (did you mean overhead?), got 'overheads'",
        ),
        (
            ("  speed: {kind: all-reduce, overhead: 1}",),
            "9: spec.speed.overhead must be absent with kind all-reduce (which has secondsPerSample, gradientMB), "
            "got 1",
        ),
        (
            ("  speed: {kind: fitted, overhead: 0}", SERVER),
            "9: spec.speed must be > 0 seconds in one of overhead, compute, transfer, perServer, perWorker, got 0 for "
            "all of them",
        ),
        (("  speed: {kind: fitted, compute: -1}", SERVER), "9: spec.speed.compute must be a number >= 0, got -1"),
        (
            ("  speed: {kind: fitted, compute: 1, bandwidth: 0}", SERVER),
            "9: spec.speed.bandwidth must be > 0, got 0",
        ),
        (("  speed: {kind: table}", SERVER), "9: spec.speed.points must be given, got nothing"),
        (
            ("  speed: {kind: table, points: []}",),
            "9: spec.speed.points must be a list of 1 ... 100000 points, got a list of 0",
        ),
        (
            (*TABLE, "    - {workers: 2, samplesPerSec: 2}"),
            "14: spec.speed.points[2].samplesPerSec must be a known field (did you mean samplesPerSecond?), got "
            "'samplesPerSec'",
        ),
        (
            (*TABLE, "    - {workers: 2, samplesPerSecond: 2}"),
            "14: spec.speed.points[2] must be > 0 servers as in line 12, got 0",
        ),
        (
            (*TABLE_OF_WORKERS, "    - {workers: 2, servers: 3, samplesPerSecond: 2}"),
            "14: spec.speed.points[2].servers must be 0 servers as in line 12, got 3",
        ),
        (
            (*TABLE, "    - {workers: 2, servers: 3, samplesPerSecond: 2, bandwidth: 5Gbps}"),
            "14: spec.speed.points[2] must be without a bandwidth as in line 12, got one",
        ),
        (
            (*TABLE[:3], "    - {workers: 2, samplesPerSecond: 0}"),
            "11: spec.speed.points must have one of > 0 samples a second, got 1 point of 0",
        ),
        (
            (*TABLE, SERVER, "  minWorkers: 5"),
            "15: spec.minWorkers must be <= 4, the most workers measured, got 5",
        ),
        (
            (*TABLE, SERVER, "  requestedWorkers: 5"),
            "15: spec.requestedWorkers must be in 1 ... 4 (minWorkers ... the most measured), got 5",
        ),
        (
            (*TABLE, SERVER, "  maxServers: 1"),
            "15: spec.maxServers must be >= the fewest servers that it can have (2), got 1",
        ),
        ((*LINES[7:9], "  maxServers: 1"), "11: spec.maxServers must be absent without servers, got 1"),
        ((FITTED, SERVER, "  maxServers: 0"), "11: spec.maxServers must be a whole number >= 1, got 0"),
        (
            (*LINES[7:9], "  domain: [rack]"),
            "11: spec.domain must be a text of printable characters, got a list of 1",
        ),
        ((*LINES[7:9], "  domian: rack"), "11: spec.domian must be a known field (did you mean domain?), got 'domian'"),
    ],
)
def test_refuses_bad_speeds_in_one_line(file: Path, lines: tuple[str, ...], message: str) -> None:
    assert _refusal(file, _with(*lines)) == f"jobs.txt:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"{FEW},speed.kind\na,1,100,8,1,table\n",
            "2: speed.kind must be of a kind whose numbers fit in one row (a table of points needs a YAML file), got "
            "'table'",
        ),
        (f"{FEW}\na,1,100,8,1\n", f"1: header must have the column gradientMB, got '{SPACED}'"),
        (
            f"{FEW},speed.overhead\na,1,100,8,1,2\n",
            f"1: header must have the column speed.kind, got '{SPACED}, speed.overhead'",
        ),
        (
            f"{FEW},speed.kind,speed.overhed\na,1,100,8,1,fitted,2\n",
            "1: column must be a known field (did you mean speed.overhead?), got 'speed.overhed'",
        ),
        (f"{FEW},speed.kind\na,1,100,8,1,\n", "2: secondsPerSample must be given, got nothing"),
        (f"{FEW},speed.kind,speed.compute\na,1,100,8,1,,3\n", "2: speed.kind must be given, got nothing"),
    ],
)
def test_refuses_bad_speeds_of_a_csv_in_one_line(file: Path, text: str, message: str) -> None:
    assert _refusal(file, text) == f"jobs.txt:{message}"


def test_horizon_is_the_last_arrival_and_a_day(file: Path) -> None:
    file.write_text(f"{COLUMNS},arrival\na,1,100,8,10,0.1,1,10h\nb,1,100,8,10,0.1,1,\n")
    assert jobs.read(file, slot_seconds=HOUR).horizon == 10 + 24
    assert jobs.read(file, slot_seconds=600.0).horizon == 60 + 144


def test_horizon_has_twice_the_longest_job(file: Path) -> None:
    # one worker of 1,000 s a sample: 100 h alone
    file.write_text(f"{COLUMNS},maxWorkers\na,1,360,8,0,1000,1,1\n")
    assert jobs.read(file, slot_seconds=HOUR).horizon == 200


def test_horizon_counts_the_longest_job_to_thirty_days(file: Path) -> None:
    file.write_text(f"{COLUMNS}\na,1e9,1e15,1,0,1e9,1\n")
    assert jobs.read(file, slot_seconds=HOUR).horizon == 2 * 30 * 24


def test_a_job_that_never_trains_does_not_stretch_the_horizon(file: Path) -> None:
    file.write_text(_named("a", "restartSeconds: 7200"))
    assert jobs.read(file, slot_seconds=HOUR).horizon == 24


def test_reads_byte_order_mark_windows_lines_and_empty_documents(file: Path) -> None:
    file.write_bytes(b"\xef\xbb\xbf---\r\n---\r\n" + "\n".join(LINES).replace("\n", "\r\n").encode() + b"\r\n---\r\n")
    assert [job.id for job in jobs.read(file, slot_seconds=HOUR).jobs] == ["resnet50-a"]
    file.write_bytes(b"\xef\xbb\xbf" + f"{COLUMNS}\r\na,1,100,8,10,0.1,1\r\n".encode())
    assert [job.id for job in jobs.read(file, slot_seconds=HOUR).jobs] == ["a"]


def test_a_comment_with_commas_does_not_make_a_csv(file: Path) -> None:
    file.write_text("# my jobs, all of them\n" + "\n".join(LINES))
    assert jobs.read(file, slot_seconds=HOUR).format == "jobs-yaml"


def test_null_is_absent(file: Path) -> None:
    file.write_text(_replaced(14, "  maxWorkers: null"))
    assert jobs.read(file, slot_seconds=HOUR).jobs[0].most_workers == 256


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (1, "apiVersion: v2", "1: apiVersion must be slotwise/v1, got 'v2'"),
        (2, "kind: Cluster", "2: kind must be TrainingJob, got 'Cluster'"),
        (2, "", "1: kind must be given, got nothing"),
        (2, "kidn: TrainingJob", "2: kidn must be a known field (did you mean kind?), got 'kidn'"),
        (3, "metadata: {}", "3: metadata.name must be given, got nothing"),
        (3, "metadata: {name: [a]}", "3: metadata.name must be a text of printable characters, got a list of 1"),
        (3, 'metadata: {name: "a\\nb"}', "3: metadata.name must be a text of printable characters, got 'a\\nb'"),
        (3, "metadata: resnet", "3: metadata must be a mapping of fields, got 'resnet'"),
        (5, "  epochs: -90", "5: spec.epochs must be a number > 0, got -90"),
        (5, "  epochs: 0", "5: spec.epochs must be a number > 0, got 0"),
        (5, "  epochs: 1e99", "5: spec.epochs must be a number <= 1e+09, got 1e99"),
        (5, "  epochs: true", "5: spec.epochs must be a number > 0, got 'true'"),
        (5, "  epochs: .nan", "5: spec.epochs must be a number > 0, got '.nan'"),
        (5, "  epochs: {a: 1}", "5: spec.epochs must be a number > 0, got a mapping"),
        (5, "", "4: spec.epochs must be given, got nothing"),
        (5, "  epoch: 90", "5: spec.epoch must be a known field (did you mean epochs?), got 'epoch'"),
        (
            5,
            "  xyzzy: 90",
            "5: spec.xyzzy must be a known field (known: epochs, samples, batchSize, speed, gradientMB, "
            "secondsPerSample, workersPerServer, worker, server, minWorkers, maxWorkers, maxServers, domain, "
            "requestedWorkers, restartSeconds, utility, arrival, command), got 'xyzzy'",
        ),
        (6, "  samples: 0", "6: spec.samples must be a whole number >= 1, got 0"),
        (6, "  samples: 1.5", "6: spec.samples must be a whole number >= 1, got 1.5"),
        (6, "  samples: many", "6: spec.samples must be a whole number >= 1, got 'many'"),
        (6, "  epochs: 90", "6: spec.epochs must be given once, got a second one (first at line 5)"),
        (7, "  batchSize: -1", "7: spec.batchSize must be a whole number >= 1, got -1"),
        (8, "  gradientMB: -2", "8: spec.gradientMB must be a number >= 0, got -2"),
        (8, "  gradientMB: 2GB", "8: spec.gradientMB must be a number >= 0, got '2GB'"),
        (9, "  secondsPerSample: 0", "9: spec.secondsPerSample must be a number >= 1e-12, got 0"),
        (
            10,
            "",
            "4: spec.workersPerServer must be given with a server (or a speed of kind fitted or table, "
            "which leave the number of servers open), got nothing",
        ),
        (10, "  workersPerServer: 0", "10: spec.workersPerServer must be a number >= 0.001, got 0"),
        (11, "", "4: spec.worker must be given, got nothing"),
        (11, "  worker: {gpu: 1}", "11: spec.worker.gpu must be a known field (known: resources), got 'gpu'"),
        (11, "  worker: {}", "11: spec.worker.resources must be given, got nothing"),
        (
            11,
            "  worker: {resources: {}}",
            "11: spec.worker.resources must be a demand of at least 1e-06 of some resource, got none",
        ),
        (
            11,
            "  worker: {resources: {gpu: 0, cpu: 0}}",
            "11: spec.worker.resources must be a demand of at least 1e-06 of some resource, got gpu 0, cpu 0",
        ),
        (11, "  worker: {resources: {gpu: -1}}", "11: spec.worker.resources.gpu must be >= 0, got -1"),
        (11, "  worker: {resources: {gpu: 1e10}}", "11: spec.worker.resources.gpu must be <= 1e+08, got 10000000000.0"),
        (
            11,
            "  worker: {resources: {memory: 16GiB}}",
            "11: spec.worker.resources.memory must be a number with one of the units "
            "Ki, Mi, Gi, Ti, k, M, G, T, got '16GiB'",
        ),
        (
            11,
            "  worker: {resources: {gpu: 1, nvidia.com/gpu: 1}}",
            "11: spec.worker.resources.nvidia.com/gpu must be the only amount of gpu, got a second one",
        ),
        (
            11,
            "  worker: {resources: {'g p u': 1}}",
            "11: spec.worker.resources.g p u must be a resource name of letters, digits and ._/-, got 'g p u'",
        ),
        (12, "", "4: spec.server must be given with workersPerServer, got nothing"),
        (12, "  server: 3", "12: spec.server must be a mapping of fields, got 3"),
        (13, "  minWorkers: 65", "13: spec.minWorkers must be <= maxWorkers (64), got 65"),
        (13, "  minWorkers: 0", "13: spec.minWorkers must be a whole number >= 1, got 0"),
        (14, "  maxWorkers: 257", "14: spec.maxWorkers must be <= batchSize (256), got 257"),
        (14, "  maxWorkers: 10001", "14: spec.maxWorkers must be a whole number <= 10000, got 10001"),
        (
            14,
            "  requestedWorkers: 300",
            "14: spec.requestedWorkers must be in 1 ... 256 (minWorkers ... maxWorkers), got 300",
        ),
        (15, "  utility: 80", "15: spec.utility must be a mapping of fields, got 80"),
        (15, "  utility: {value: 80}", "15: spec.utility.kind must be given, got nothing"),
        (15, "  utility: {kind: step}", "15: spec.utility.kind must be one of sigmoid, linear, deadline, got 'step'"),
        (
            15,
            "  utility: {kind: sigmoid, value: 0, urgencyPerHour: 0.5, target: 6h}",
            "15: spec.utility.value must be a number > 0, got 0",
        ),
        (
            15,
            "  utility: {kind: sigmoid, value: 8, urgencyPerHour: -0.5, target: 6h}",
            "15: spec.utility.urgencyPerHour must be a number >= 0, got -0.5",
        ),
        (
            15,
            "  utility: {kind: sigmoid, value: 8, urgencyPerHour: 1, target: 6 moons}",
            "15: spec.utility.target must be in ms, s, min, h or d, got '6 moons'",
        ),
        (15, "  utility: {kind: linear, value: 8}", "15: spec.utility.end must be given, got nothing"),
        (15, "  utility: {kind: linear, value: 8, end: 0s}", "15: spec.utility.end must be > 0, got '0s'"),
        (15, "  utility: {kind: linear, value: 8, end: 1e9d}", "15: spec.utility.end must be <= 1e+12 s, got '1e9d'"),
        (
            15,
            "  utility: {kind: deadline, value: 8, deadline: 1h, target: 6h}",
            "15: spec.utility.target must be absent with kind deadline (which has value, deadline), got '6h'",
        ),
        (
            15,
            "  utility: {kind: sigmoid, value: 8, urgency: 1, target: 6h}",
            "15: spec.utility.urgency must be a known field (did you mean urgencyPerHour?), got 'urgency'",
        ),
        (16, "  arrival: -1s", "16: spec.arrival must be >= 0, got '-1s'"),
        (16, "  arrival: 1e6d", "16: spec.arrival must be <= 1000000 slots of 3600 s, got '1e6d'"),
        (16, "  restartSeconds: -1", "16: spec.restartSeconds must be a number >= 0, got -1"),
        (17, "  command: python", "17: spec.command must be a list, got 'python'"),
        (17, "  command: [python, [a]]", "17: spec.command[1] must be a text, got a list of 1"),
    ],
)
def test_refuses_bad_yaml_fields_in_one_line(file: Path, line: int, text: str, message: str) -> None:
    assert _refusal(file, _replaced(line, text)) == f"jobs.txt:{message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: file must hold something, got nothing"),
        (" \n\n", "1: file must hold something, got nothing"),
        ("# nothing\n---\n", "1: file must hold at least 1 job, got 0"),
        ("hello", "1: document must be a mapping of fields, got 'hello'"),
        ("- a\n- b\n", "1: document must be a mapping of fields, got a list of 2"),
        ("a: &x 1\nb: *x\n", "2: b must be written out (aliases are not supported), got an alias"),
        (
            "a: !!python/object:os.system x\n",
            "1: a must be without a tag, got 'tag:yaml.org,2002:python/object:os.system'",
        ),
        ("? [a]\n: b\n", "1: document must be a mapping with texts as keys, got another key"),
        ("kind: a\nkind: b\n", "2: kind must be given once, got a second one (first at line 1)"),
        ("apiVersion: slotwise/v1\n", "1: kind must be given, got nothing"),
    ],
)
def test_refuses_bad_yaml_files_in_one_line(file: Path, text: str, message: str) -> None:
    assert _refusal(file, text) == f"jobs.txt:{message}"


@pytest.mark.parametrize("loader", ["SafeLoader", "CSafeLoader"])
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a: [1, 2\nb: 3\n", 2),
        ("a: 1\n  b: 2\n", 2),
        ('a: "x\n', 2),
        ("a: \x00\n", 1),
        ("a: @b\n", 1),
        ("a:\n\t- b\n", 2),
    ],
)
def test_names_the_line_of_a_syntax_error(
    file: Path, monkeypatch: pytest.MonkeyPatch, loader: str, text: str, line: int
) -> None:
    if not hasattr(yaml, loader):
        pytest.skip(f"this PyYAML has no {loader}")
    monkeypatch.setattr(_fields, "_LOADER", getattr(yaml, loader))
    message = _refusal(file, text)
    assert "\n" not in message
    assert message.startswith("jobs.txt:")
    assert " file must be YAML, got a syntax error: " in message
    assert int(message.split(":")[1]) in (line, line - 1)


def test_names_the_second_document_of_a_name(file: Path) -> None:
    message = _refusal(file, f"{_named('a')}\n---\n{_named('a')}\n")
    assert message == "jobs.txt:14: metadata.name must be unique (first at line 3), got 'a'"


def test_a_bomb_of_aliases_is_refused_at_once(file: Path) -> None:
    levels = ["a0: &a0 [lol, lol]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    message = _refusal(file, "\n".join(levels))
    assert message == "jobs.txt:2: a1[0] must be written out (aliases are not supported), got an alias"


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_deep_nesting_is_refused_at_once(file: Path, opening: str) -> None:
    message = _refusal(file, opening * 20_000)
    assert "\n" not in message
    assert len(message) < 500


def test_long_values_make_short_messages(file: Path) -> None:
    message = _refusal(file, _replaced(5, "  epochs: " + "9" * 100_000))
    assert message == f"jobs.txt:5: spec.epochs must be a number > 0, got '{'9' * 60}...'"
    assert len(_refusal(file, _replaced(16, "  arrival: " + "9" * 100_000))) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,epochz\na,1\n", "1: column must be a known field (did you mean epochs?), got 'epochz'"),
        ("name,epochs,name\n", "1: header must name each column once, got 'name' twice"),
        ("name,epochs\na,1\n", "1: header must have the column samples, got 'name, epochs'"),
        (
            "name,epochs,samples,batchSize,gradientMB,secondsPerSample\n",
            "1: header must have the column worker.gpu, worker.cpu or another of its resources, "
            "got 'name, epochs, samples, batchSize, gradientMB, secondsPerSamp...'",
        ),
        (f"{COLUMNS}\n", "1: file must hold at least 1 job, got 0"),
        (f"{COLUMNS}\na,1,100,8,10,0.1\n", "2: row must have 7 cells, got 6"),
        (f"\n\n{COLUMNS}\n\na,1,100,8,10,0.1,1,5\n", "5: row must have 7 cells, got 8"),
        (f"{COLUMNS}\na,-1,100,8,10,0.1,1\n", "2: epochs must be a number > 0, got -1"),
        (f"{COLUMNS}\na,1,100,8,10,0.1,1\nb,,100,8,10,0.1,1\n", "3: epochs must be given, got nothing"),
        (f"{COLUMNS}\n,1,100,8,10,0.1,1\n", "2: name must be given, got nothing"),
        (f"{COLUMNS}\na,1,100,8,10,0.1,\n", "2: worker must be given, got nothing"),
        (
            f"{COLUMNS}\na,1,100,8,10,0.1,0\n",
            "2: worker must be a demand of at least 1e-06 of some resource, got gpu 0",
        ),
        (f"{COLUMNS}\na,1,100,8,10,0.1,x\n", "2: worker.gpu must be a number with an optional unit, got 'x'"),
        (
            f"{COLUMNS},worker.\na,1,100,8,10,0.1,1,2\n",
            "2: worker. must be a resource name of letters, digits and ._/-, got ''",
        ),
        (f"{COLUMNS}\na,1,100,8,10,0.1,1\na,1,100,8,10,0.1,1\n", "3: name must be unique (first at line 2), got 'a'"),
        (f"{COLUMNS},utility.value\na,1,100,8,10,0.1,1,5\n", "2: utility.kind must be given, got nothing"),
        (
            f"{COLUMNS},server.cpu\na,1,100,8,10,0.1,1,5\n",
            "2: workersPerServer must be given with a server (or a speed of kind fitted or table, "
            "which leave the number of servers open), got nothing",
        ),
        (
            f'{COLUMNS},command\n"a",1,100,8,10,0.1,1,"x\ny"\nb,0,100,8,10,0.1,1,\n',
            "4: epochs must be a number > 0, got 0",
        ),
        (f'{COLUMNS}\n"a"b,1,100,8,10,0.1,1\n', "2: file must be CSV, got a syntax error: ',' expected after '\"'"),
        (
            f'{COLUMNS}\na,1,100,8,10,0.1,1\n"b,1,100\n',
            "3: file must be CSV, got a syntax error: unexpected end of data",
        ),
    ],
)
def test_refuses_bad_csv_in_one_line(file: Path, text: str, message: str) -> None:
    assert _refusal(file, text) == f"jobs.txt:{message}"


def test_refuses_a_file_that_is_not_utf8(file: Path) -> None:
    file.write_bytes(b"name,epochs\na\xff,1\n")
    with pytest.raises(InvalidTrace) as caught:
        jobs.read(file, slot_seconds=HOUR)
    assert str(caught.value) == "jobs.txt:2: file must be UTF-8 text, got byte 0xff"


def test_refuses_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(InvalidTrace) as caught:
        jobs.read(file, slot_seconds=HOUR)
    assert str(caught.value) == "jobs.txt: file must be readable, got No such file or directory"
    with pytest.raises(InvalidTrace) as caught:
        jobs.read(".", slot_seconds=HOUR)
    assert str(caught.value) == ".: file must be readable, got Is a directory"


@pytest.mark.parametrize("slot_seconds", [0.0, -1.0, math.nan, math.inf])
def test_refuses_a_slot_without_length(file: Path, slot_seconds: float) -> None:
    with pytest.raises(InvalidInput) as caught:
        jobs.read(file, slot_seconds=slot_seconds)
    assert str(caught.value) == f"slot_seconds must be in 0.001 ... 1e+09, got {slot_seconds!r}"


_PIECES = st.sampled_from(
    [
        *LINES,
        *(f"{line}\n" for line in (*LINES, FITTED, *TABLE, *TABLE_OF_WORKERS)),
        *(f"{COLUMNS}\n", "a,1,100,8,10,0.1,1\n", "---\n", "...\n", "%YAML 1.1\n", "|\n", "&a", "*a", "!t "),
        *("\n", "  ", "\t", "[", "]", "{", "}", "? ", ": ", "- ", '"', "'", ">", ",", "\\uD800"),
    ]
)
_TEXTS = st.text(max_size=60) | st.lists(_PIECES | st.text(max_size=6), max_size=30).map("".join)


def _replace_values(values: list[tuple[int, str]]) -> str:
    lines = list(LINES)
    for number, value in values:
        lines[number] = f"{lines[number].partition(':')[0]}: {value}"
    return "\n".join(lines)


_VALUES = st.text(max_size=12) | st.sampled_from(["-1", "0", "1e308", "1e-308", "[]", "{}", "1e308d", "null", "9" * 30])
_MUTATED = st.lists(st.tuples(st.integers(0, len(LINES) - 1), _VALUES), max_size=3).map(_replace_values)


@pytest.mark.parametrize("loader", ["SafeLoader", "CSafeLoader"])
@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=_TEXTS | _MUTATED, slot_seconds=st.sampled_from([0.001, 60.0, 3600.0, 1e9]))
def test_any_text_is_jobs_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, loader: str, text: str, slot_seconds: float
) -> None:
    if not hasattr(yaml, loader):
        pytest.skip(f"this PyYAML has no {loader}")
    file = tmp_path_factory.getbasetemp() / "fuzzed"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fields, "_LOADER", getattr(yaml, loader))
        try:
            workload = jobs.read(file, slot_seconds=slot_seconds)
        except InvalidInput as error:
            message = str(error)
        else:
            assert workload.jobs
            assert workload.horizon > max(job.arrival for job in workload.jobs)
            return
    assert message.isprintable()
    assert message.startswith(f"{file}:")
