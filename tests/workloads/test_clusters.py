from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slotwise.errors import InvalidCluster
from slotwise.model.cluster import Cluster
from slotwise.workloads import clusters

LINES = (
    "apiVersion: slotwise/v1",  # 1
    "kind: Cluster",  # 2
    "spec:",  # 3
    "  bandwidth: {machine: 50Gbps, rack: 25Gbps, cluster: 5Gbps}",  # 4
    "  machines:",  # 5
    "  - {name: a, count: 16, rack: r1, resources: {gpu: 8, cpu: 64, memory: 512Gi}}",  # 6
    "  - {name: b, count: 2, rack: r2, resources: {cpu: 96, memory: 768Gi}}",  # 7
)


def _replaced(number: int, line: str) -> str:
    return "\n".join((*LINES[: number - 1], line, *LINES[number:]))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path("cluster.yaml")


def _refusal(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(InvalidCluster) as caught:
        clusters.read(file)
    return str(caught.value)


def test_reads_machines_in_order_and_expands_counts(file: Path) -> None:
    file.write_text("\n".join(LINES))
    cluster = clusters.read(file)
    assert cluster.names == (*(f"a-{i:02d}" for i in range(16)), "b-0", "b-1")
    assert cluster.resources == ("gpu", "cpu", "memory")
    assert cluster.capacity[0].tolist() == [8.0, 64.0, 512.0]
    assert cluster.capacity[17].tolist() == [0.0, 96.0, 768.0]
    assert cluster.locality == {"machine": 6250.0, "rack": 3125.0, "cluster": 625.0}
    assert cluster.domains[1].tolist() == [0] * 16 + [1, 1]
    assert len(set(cluster.classes.tolist())) == 2


def _placed(file: Path, bandwidth: str, *places: str) -> Cluster:
    machines = [f"  - {{name: m{i}, {place}resources: {{gpu: 1}}}}" for i, place in enumerate(places)]
    file.write_text("\n".join((*LINES[:3], f"  bandwidth: {{{bandwidth}}}", "  machines:", *machines)))
    return clusters.read(file)


FOUR = "machine: 50Gbps, rack: 25Gbps, row: 10Gbps, cluster: 5Gbps"


def test_levels_are_the_names_of_the_bandwidths_in_order(file: Path) -> None:
    places = ("rack: r1, row: north, ", "rack: r2, row: south, ", "row: north, rack: r1, ", "row: south, ", "")
    cluster = _placed(file, FOUR, *places)
    assert cluster.levels == ("machine", "rack", "row", "cluster")
    assert cluster.bandwidth == (6250.0, 3125.0, 1250.0, 625.0)
    assert cluster.names == ("m0", "m2", "m1", "m3", "m4")
    assert cluster.domains[1].tolist() == [0, 0, 1, 2, 3]
    assert cluster.domains[2].tolist() == [0, 0, 1, 1, 2]


def test_racks_without_a_bandwidth_are_a_level_of_the_clusters(file: Path) -> None:
    cluster = _placed(file, "machine: 8Gbps, cluster: 4Gbps", "rack: r1, ", "", "rack: r1, ")
    assert cluster.locality == {"machine": 1000.0, "rack": 500.0, "cluster": 500.0}
    assert cluster.domains[1].tolist() == [0, 0, 1]


def test_a_rack_bandwidth_needs_no_racks(file: Path) -> None:
    cluster = _placed(file, "machine: 8Gbps, rack: 6Gbps, cluster: 4Gbps", "", "")
    assert cluster.levels == ("machine", "rack", "cluster")
    assert cluster.domains[1].tolist() == [0, 1]


def test_without_racks_there_are_two_levels_in_whatever_order(file: Path) -> None:
    cluster = _placed(file, "cluster: 4Gbps, machine: 8Gbps", "rack: null, ", "")
    assert cluster.locality == {"machine": 1000.0, "cluster": 500.0}


def test_one_machine_keeps_its_name_and_bandwidth_has_a_default(file: Path) -> None:
    file.write_text(
        "apiVersion: slotwise/v1\nkind: Cluster\nmetadata: {name: lab}\nspec:\n  machines:\n"
        "  - {name: a, resources: {nvidia.com/gpu: 4, cpu: 0}}\n  - {name: b, count: 1, resources: {fpga: 2}}\n"
    )
    cluster = clusters.read(file)
    assert cluster.names == ("a", "b")
    assert cluster.resources == ("gpu", "cpu", "fpga")
    assert cluster.bandwidth == (6250.0, 625.0)


@pytest.mark.parametrize(
    ("line", "text", "message"),
    [
        (1, "apiVersion: 1", "1: apiVersion must be slotwise/v1, got 1"),
        (2, "kind: TrainingJob", "2: kind must be Cluster, got 'TrainingJob'"),
        (3, "specs:", "3: specs must be a known field (did you mean spec?), got 'specs'"),
        (4, "  bandwidth: {machine: 50Gbps}", "4: spec.bandwidth.cluster must be given, got nothing"),
        (
            4,
            "  bandwidth: {machine: 0, cluster: 5Gbps}",
            "4: spec.bandwidth.machine must be > 0, got 0",
        ),
        (
            4,
            "  bandwidth: {machine: fast, cluster: 5Gbps}",
            "4: spec.bandwidth.machine must be a number with an optional unit, got 'fast'",
        ),
        (
            4,
            "  bandwidth: {machine: 50Gbps, rack: 60Gbps, cluster: 5Gbps}",
            "4: spec.bandwidth.rack must be <= the level inside it (6250 MB/s), got 7500 MB/s",
        ),
        (
            4,
            "  bandwidth: {machine: 1Gbps, cluster: 5Gbps}",
            "4: spec.bandwidth.cluster must be <= the level inside it (125 MB/s), got 625 MB/s",
        ),
        (
            4,
            "  bandwidth: {machine: 1Gbps, clsuter: 1Gbps}",
            "4: spec.bandwidth.clsuter must be a known field (did you mean cluster?), got 'clsuter'",
        ),
        (
            4,
            "  bandwidth: {rack: 2Gbps, machine: 4Gbps, row: 2Gbps, cluster: 1Gbps}",
            "4: spec.bandwidth must be in order from machine to cluster, got rack, machine, row, cluster",
        ),
        (
            4,
            "  bandwidth: {machine: 4, a: 4, b: 4, c: 4, d: 4, e: 4, cluster: 4}",
            "4: spec.bandwidth must be at most 6 levels, got 7",
        ),
        (
            4,
            "  bandwidth: {machine: 4, count: 4, cluster: 4}",
            "4: spec.bandwidth.count must be the name of a level: letters, digits, _ and -, none of name, count, "
            "resources, got 'count'",
        ),
        (
            4,
            "  bandwidth: {machine: 4, rakc: 4, cluster: 4}",
            "6: spec.machines[0].rack must be a known field (did you mean rakc?), got 'rack'",
        ),
        (4, "  bandwidth: 5Gbps", "4: spec.bandwidth must be a mapping of fields, got '5Gbps'"),
        (6, "  - {count: 16, resources: {gpu: 8}}", "6: spec.machines[0].name must be given, got nothing"),
        (6, "  - {name: a}", "6: spec.machines[0].resources must be given, got nothing"),
        (
            6,
            "  - {name: a, resources: {}}",
            "6: spec.machines[0].resources must be amounts of at least 1 resource (0 is allowed), got none",
        ),
        (
            6,
            "  - {name: a, count: -1, resources: {gpu: 8}}",
            "6: spec.machines[0].count must be a whole number >= 1, got -1",
        ),
        (
            6,
            "  - {name: a, count: 100001, resources: {gpu: 8}}",
            "6: spec.machines[0].count must be a whole number <= 100000, got 100001",
        ),
        (
            7,
            "  - {name: b, count: 100000, resources: {gpu: 8}}",
            "7: spec.machines[1] must be at most 100000 machines with those before, got 100016",
        ),
        (
            6,
            "  - {name: a, resources: {gpu: -8}}",
            "6: spec.machines[0].resources.gpu must be >= 0, got -8",
        ),
        (
            6,
            "  - {name: a, gpu: 8, resources: {cpu: 1}}",
            "6: spec.machines[0].gpu must be a known field (known: name, count, rack, resources), got 'gpu'",
        ),
        (
            6,
            "  - {name: a, rack: [1], resources: {gpu: 8}}",
            "6: spec.machines[0].rack must be a text of printable characters, got a list of 1",
        ),
        (
            7,
            "  - {name: a-03, resources: {gpu: 8}}",
            "7: spec.machines[1].name must be unique (machine 'a-03' is at line 6), got 'a-03'",
        ),
        (
            7,
            "  - {name: b, row: north, resources: {gpu: 8}}",
            "7: spec.machines[1].row must be a known field (known: name, count, rack, resources), got 'row'",
        ),
        (7, "---\nkind: Cluster", "8: file must hold 1 document of kind Cluster, got 2"),
    ],
)
def test_refuses_bad_fields_in_one_line(file: Path, line: int, text: str, message: str) -> None:
    assert _refusal(file, _replaced(line, text)) == f"cluster.yaml:{message}"


@pytest.mark.parametrize(
    ("first", "second", "got"),
    [
        ("row: north", "row: south", "row of rack 'r1' ('north' at line 6), got 'south'"),
        ("row: north", "row: null", "row of rack 'r1' ('north' at line 6), got nothing"),
        ("row: null", "row: north", "row of rack 'r1' (nothing at line 6), got 'north'"),
    ],
)
def test_refuses_a_rack_in_two_rows(file: Path, first: str, second: str, got: str) -> None:
    with pytest.raises(InvalidCluster) as caught:
        _placed(file, FOUR, f"rack: r1, {first}, ", f"rack: r1, {second}, ")
    assert str(caught.value) == f"cluster.yaml:7: spec.machines[1].rack must be in the one {got}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "1: file must hold something, got nothing"),
        ("---\n", "1: file must hold 1 document of kind Cluster, got 0"),
        ("32x8", "1: document must be a mapping of fields, got '32x8'"),
        (
            "\n".join((*LINES[:4], "  machines: []")),
            "5: spec.machines must be a list of at least 1 machine, got a list of 0",
        ),
        ("\n".join((*LINES[:4], "  machines: 3")), "5: spec.machines must be a list, got 3"),
        ("\n".join(LINES[:4]), "3: spec.machines must be given, got nothing"),
    ],
)
def test_refuses_bad_files_in_one_line(file: Path, text: str, message: str) -> None:
    assert _refusal(file, text) == f"cluster.yaml:{message}"


def test_refuses_bad_syntax_and_missing_files(file: Path) -> None:
    assert " file must be YAML, got a syntax error: " in _refusal(file, "a: [1\n")
    with pytest.raises(InvalidCluster) as caught:
        clusters.read("nowhere.yaml")
    assert str(caught.value) == "nowhere.yaml: file must be readable, got No such file or directory"


def test_shorthand_fills_in_the_rest_by_gpu() -> None:
    cluster = clusters.parse_shorthand("32x8")
    assert len(cluster) == 32
    assert cluster.resources == ("gpu", "cpu", "memory", "storage")
    assert cluster.capacity[31].tolist() == [8.0, 64.0, 512.0, 1000.0]
    assert cluster.bandwidth == (6250.0, 625.0)


def test_shorthand_of_machines_without_gpu_has_cpu() -> None:
    assert clusters.parse_shorthand("4x0").capacity[0].tolist() == [0.0, 64.0, 512.0, 1000.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0x8", "cluster machines must be in 1 ... 100000, got 0 in '0x8'"),
        ("100001x8", "cluster machines must be in 1 ... 100000, got 100001 in '100001x8'"),
        ("2x1001", "cluster GPUs a machine must be in 0 ... 1000, got 1001 in '2x1001'"),
        ("32", "cluster must be a file that exists, or machines x GPUs such as 32x8, got 32"),
        ("-1x8", "cluster must be a file that exists, or machines x GPUs such as 32x8, got '-1x8'"),
        ("32x8\n", "cluster must be a file that exists, or machines x GPUs such as 32x8, got '32x8\\n'"),
        ("", "cluster must be a file that exists, or machines x GPUs such as 32x8, got ''"),
    ],
)
def test_shorthand_refuses_with_value_and_bound(text: str, message: str) -> None:
    with pytest.raises(InvalidCluster) as caught:
        clusters.parse_shorthand(text)
    assert str(caught.value) == message


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([f"{line}\n" for line in LINES]) | st.text(max_size=8), max_size=12).map("".join))
def test_any_text_is_a_cluster_or_one_line(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "fuzzed-cluster"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        cluster = clusters.read(file)
    except InvalidCluster as error:
        message = str(error)
    else:
        assert len(cluster) >= 1
        return
    assert message.isprintable()
    assert message.startswith(f"{file}:")
