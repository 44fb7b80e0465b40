from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotwise.errors import InvalidInput, InvalidTrace
from slotwise.workloads.traces import (
    CLUSTER_FORMATS,
    WORKLOAD_FORMATS,
    read_cluster,
    read_cluster_counted,
    read_trace,
    recognise,
)

Write = Callable[..., Path]

PAI = "j,worker,i,w,g,Terminated,5.0,65.0,m"
PAI_HEADER = "job_name,task_name,inst_name,worker_name,inst_id,status,start_time,end_time,machine"
TIRESIAS_HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
MACHINES_HEADER = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu"
NODES_HEADER = "sn,cpu_milli,memory_mib,gpu,model"
PODS_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
)
SPEC_HEADER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node"
JOBS_CSV = """\
name,epochs,samples,batchSize,gradientMB,secondsPerSample,worker.gpu
a,2,1000,32,10,0.01,1
"""
JOBS_YAML = """\
# two jobs
apiVersion: slotwise/v1
kind: TrainingJob
metadata: {name: a}
spec:
  epochs: 2
  samples: 1000
  batchSize: 32
  gradientMB: 10
  secondsPerSample: 0.01
  worker: {resources: {gpu: 1}}
  utility: {kind: sigmoid, value: 80, urgencyPerHour: 0.5, target: 6h}
"""
GAVEL = "ResNet-50 (batch size 64)\tpython3 main.py\t--steps\t1\t600\t5.5\t2"
GAVEL_LONG = "A3C\tpython3 main.py\trl\t--steps\t0\t600\t2\t1.0\t-1\t5.5"
THROUGHPUTS = """{"v100": {"('ResNet-50 (batch size 64)', 1)": {"null": 4.0}}}"""
CLUSTER_YAML = """\
apiVersion: slotwise/v1
kind: Cluster
spec:
  machines:
  - {name: a, count: 2, resources: {gpu: 8, cpu: 64, memory: 512Gi}}
"""
EXAMPLES = {
    "pai": PAI,
    "tiresias": f"{TIRESIAS_HEADER}\n1,2,0,500,vgg19,90,7",
    "gavel": GAVEL,
    "sia": "name,time,application,num_replicas,batch_size\na,5,bert,2,12",
    "swf": "; MaxProcs: 8\n1 0 0 10 4 -1 -1 4 20 -1 1 3 1 -1 1 -1 -1 -1",
    "openb": f"{PODS_HEADER}\np,1000,2048,1,500,T4,LS,Running,0,90,5",
    "openb-nodes": f"{NODES_HEADER}\nn,64000,262144,2,T4",
    "pai-machines": "a,T4,96,512,2",
    "tiresias-cluster": f"{SPEC_HEADER}\n1,2,4,40,256",
    "jobs-csv": JOBS_CSV,
    "jobs-yaml": JOBS_YAML,
    "cluster-yaml": CLUSTER_YAML,
}


@pytest.mark.parametrize(
    ("text", "format"),
    [
        *((text, name) for name, text in EXAMPLES.items()),
        (f"{PAI_HEADER}\n{PAI}", "pai"),
        (PAI_HEADER, "pai"),
        ("j,ps,i,,g,Waiting,,,", "pai"),
        (f"broken\n\n{PAI}\n{PAI}", "pai"),
        ("job_name,inst_id,user,status,start_time,end_time", "pai"),
        ("duration,num_gpu,job_id", "tiresias"),
        ("; Version: 2\n;\n 1   0 0 10 4 9.5 -1 4 20 -1 1 3 1 -1 1 -1 -1 -1 ", "swf"),
        ("name,cpu_milli,memory_mib,num_gpu", "openb"),
        ("model,gpu,memory_mib,cpu_milli,sn", "openb-nodes"),
        ("batch_size,num_replicas,application,time,name", "sia"),
        (GAVEL_LONG, "gavel"),
        (GAVEL.removesuffix("2"), "gavel"),
        (f"{MACHINES_HEADER}\na,T4,96,512,2", "pai-machines"),
        ("a,CPU,96,512,0\nb,T4,x,512,2", "pai-machines"),
        ('"batchSize", "secondsPerSample"\n1,2', "jobs-csv"),
        ('{"apiVersion": "slotwise/v1", "kind": "Cluster", "spec": {}}', "cluster-yaml"),
        ("---\nkind: TrainingJob\n---\nkind: TrainingJob", "jobs-yaml"),
        ("spec:\n  machines: []\n", "cluster-yaml"),
        ("kind: TraningJob\nspec: {}\n", "jobs-yaml"),
    ],
)
def test_format_is_seen_from_the_content(write: Write, text: str, format: str) -> None:
    for end, mark in (("\n", ""), ("\r\n", "\ufeff")):
        path = write(mark + text.replace("\n", end), end=end, name="data.yaml.csv")
        assert recognise(path) == format


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "a,b,c",
        "a\tb\tc\t1\tmany\t3\t4",
        "; swf\n1 0 0 10 4 -1 -1",
        "1 0 0 10 4 -1 -1 4 20 -1 1 3 1 -1 1 -1 -1 many",
        "1,2,3,4,5",
        "{}",
        "# kind: Cluster",
    ],
)
def test_other_content_is_one_line_of_error(write: Write, text: str) -> None:
    with pytest.raises(InvalidTrace, match=r"content must be in a known format .*pai, tiresias") as caught:
        recognise(write(text))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("format", WORKLOAD_FORMATS)
def test_workloads_are_read_by_the_reader_of_their_format(write: Write, format: str) -> None:
    path = write(EXAMPLES[format])
    throughputs = write(THROUGHPUTS, name="throughputs") if format == "gavel" else None
    if format == "sia":
        throughputs = path.with_name("profiles")
        (throughputs / "bert").mkdir(parents=True)
        (throughputs / "bert" / "validation-12.csv").write_text("progress,iteration,metric\n7,7387,86\n")
        (throughputs / "bert" / "placements.csv").write_text("placement,local_bsz,step_time,sync_time\n2,6,0.5,0.1\n")
    for named in (None, format):
        workload = read_trace(path, slot="1min", format=named, throughputs=throughputs)
        assert workload.format == format
        assert workload.slot_seconds == 60.0
        assert len(workload.jobs) == 1


@pytest.mark.parametrize("format", CLUSTER_FORMATS)
def test_clusters_are_read_by_the_reader_of_their_format(write: Write, format: str) -> None:
    path = write(EXAMPLES[format])
    for named in (None, format):
        cluster = read_cluster(path, format=named)
        assert cluster.resources == ("gpu", "cpu", "memory")


def test_options_reach_the_reader(write: Write) -> None:
    path = write(PAI, PAI.replace("i,w", "k,w"), "broken")
    workload = read_trace(path, slot=30, seed=7, value="work", elastic=3.0)
    assert workload.slot_seconds == 30.0
    assert workload.jobs[0].max_workers == 6
    assert workload.skipped == {"rows: malformed": 1}
    assert workload.digest != read_trace(path, slot=30, seed=8, value="work", elastic=3.0).digest
    with pytest.raises(InvalidTrace, match=":3: row must be 9 fields, got 1"):
        read_trace(path, strict=True)
    slower = read_trace(path, slot=30, seed=7, value="work", elastic=3.0, bandwidth=(1000.0, 100.0))
    assert slower.jobs[0].workload < workload.jobs[0].workload


def test_skipped_machines_are_counted(write: Write) -> None:
    path = write("a,T4,96,512,2", "b,T4,96,512,many")
    cluster, skipped = read_cluster_counted(path)
    assert (len(cluster), skipped) == (1, {"rows: malformed": 1})
    with pytest.raises(InvalidTrace, match=":2: cap_gpu must be a number"):
        read_cluster(path, strict=True)


def test_gzip_is_recognised(write: Write) -> None:
    assert read_trace(write(gzip.compress(PAI.encode()))).format == "pai"
    with pytest.raises(InvalidTrace, match="must be a whole gzip file"):
        read_trace(write(gzip.compress(PAI.encode())[:20]))


def test_a_cluster_is_no_workload_and_the_reverse(write: Write) -> None:
    with pytest.raises(InvalidTrace, match=r"workload must be in one of the formats .*, got pai-machines"):
        read_trace(write(EXAMPLES["pai-machines"]))
    with pytest.raises(InvalidTrace, match=r"cluster must be in one of the formats .*, got pai"):
        read_cluster(write(PAI))


def test_unknown_format_is_an_error(write: Write) -> None:
    with pytest.raises(InvalidTrace, match=r"format must be one of jobs-yaml, .*, got 'sge'"):
        read_trace(write(PAI), format="sge")
    with pytest.raises(InvalidTrace, match=r"format must be one of cluster-yaml, .*, got 'pai'"):
        read_cluster(write(PAI), format="pai")


@pytest.mark.parametrize(
    ("slot", "message"),
    [("0s", "slot must be > 0"), (-5, "slot must be > 0"), ("soon", "slot must be"), ("5 parsecs", "slot must be in")],
)
def test_bad_slot_is_an_error(write: Write, slot: str | float, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_trace(write(PAI), slot)


def test_files_that_cannot_be_read_are_one_line_of_error(write: Write, tmp_path: Path) -> None:
    cases = [
        (tmp_path / "absent", "file must exist"),
        (tmp_path, "it is a directory"),
        (Path("a\0b"), "file must be readable"),
        (write(b"", name="empty"), "the file is empty"),
        (write(b"\n \r\n", name="blank"), "the file is empty"),
        (write("\u00a0", name="space"), "the file is blank"),
        (write(PAI, b"\xff\xfe", name="undecodable"), ":2: must be UTF-8 text, got byte 0xff"),
        (write(b"\xef\xbb\xbf\n\xff", name="marked"), ":2: must be UTF-8 text, got byte 0xff"),
        (write(PAI, b"a\0b", name="binary"), ":2: must be UTF-8 text, got byte 0x00"),
    ]
    for path, message in cases:
        for read in (recognise, read_trace, read_cluster):
            with pytest.raises(InvalidTrace, match=message) as caught:
                read(path)
            assert "\n" not in str(caught.value)


@settings(deadline=None, max_examples=150)
@given(
    data=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "ignore")),
        st.tuples(st.sampled_from(list(EXAMPLES.values())), st.integers(0, 300), st.binary(max_size=4)).map(
            lambda cut: cut[0].encode()[: cut[1]] + cut[2] + cut[0].encode()[cut[1] :]
        ),
    ),
    format=st.sampled_from([None, *WORKLOAD_FORMATS, *CLUSTER_FORMATS]),
)
def test_any_content_gives_a_result_or_one_line(
    data: bytes, format: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    for read in (read_trace, read_cluster):
        try:
            read(path, format=format)
        except InvalidInput as error:
            lines_of_error = str(error).split("\n")
            assert len(lines_of_error) == 1


def test_real_files_are_recognised(traces: Path) -> None:
    expected = {
        "pai2020/pai_instance_table.part.csv": "pai",
        "pai2020/pai_machine_spec.csv": "pai-machines",
        "tiresias/60_job.csv": "tiresias",
        "gavel/0e4a51.trace": "gavel",
        "gavel/103959.trace": "gavel",
        "sia/workloads_philly/workload-1.csv": "sia",
        "swf/accasim_workload.swf": "swf",
        "openb2023/openb_pod_list_default.csv": "openb",
        "openb2023/openb_node_list_all_node.csv": "openb-nodes",
        "tiresias/cluster_spec.csv": "tiresias-cluster",
    }
    assert {name: recognise(traces / name) for name in expected} == expected


@pytest.mark.parametrize("name", ["dl2/config_speed.txt", "gavel/simulation_throughputs.json", "dl2/model_table.json"])
def test_real_files_of_other_formats_are_not(traces: Path, name: str) -> None:
    with pytest.raises(InvalidTrace, match="content must be in a known format"):
        recognise(traces / name)


def test_a_file_of_many_blocks_is_read_as_one(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [PAI.replace("j,", f"job-{i},", 1) for i in range(50)]
    path = write("\ufeff" + PAI_HEADER, *rows, "", "broken", *rows[:2], end="\r\n")
    packed = write(gzip.compress(path.read_bytes()), name="packed")
    whole = read_trace(path)
    with pytest.raises(InvalidTrace, match=":53: row must be 9 fields, got 1"):
        read_trace(path, strict=True)
    for size in (7, 64, 500):
        monkeypatch.setattr("slotwise.workloads._rows._BLOCK", size)
        for file in (path, packed):
            again = read_trace(file, format="pai")
            assert (again.jobs, again.skipped) == (whole.jobs, whole.skipped)
        with pytest.raises(InvalidTrace, match=":53: row must be 9 fields, got 1"):
            read_trace(path, format="pai", strict=True)
        with pytest.raises(InvalidTrace, match=":56: must be UTF-8 text, got byte 0xff"):
            read_trace(write(path.read_bytes(), b"a\xff", name="bad").rename(path.with_name("c")), format="pai")
