import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidCluster
from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster, Machine


def _mixed(**counts: int) -> Cluster:
    kinds = {"big": {"gpu": 8.0, "cpu": 64.0}, "small": {"gpu": 1.0, "cpu": 8.0}, "none": {"cpu": 96.0}}
    machines = [Machine(f"{kind}{i}", kinds[kind]) for kind, n in counts.items() for i in range(n)]
    return Cluster.of(machines)


def test_a_resource_that_a_machine_does_not_name_is_zero_there() -> None:
    cluster = Cluster.of([Machine("a", {"gpu": 8.0}), Machine("b", {"cpu": 4.0, "gpu": 0.0})])
    assert cluster.resources == ("gpu", "cpu")
    assert cluster.capacity.tolist() == [[8.0, 0.0], [0.0, 4.0]]
    assert cluster.bandwidth == DEFAULT_BANDWIDTH
    assert len(cluster) == 2


def test_uniform_reads_units_and_pads_names() -> None:
    cluster = Cluster.uniform(machines=11, gpu=8, memory="512Gi", cpu="500m")
    assert cluster.names[0] == "m00"
    assert cluster.names[-1] == "m10"
    assert cluster.capacity[5].tolist() == [8.0, 512.0, 0.5]


def test_classes_group_equal_machines() -> None:
    classes = _mixed(big=2, small=3, none=1).classes
    assert classes.dtype == np.int64
    assert len(set(classes.tolist())) == 3
    assert classes[0] == classes[1] != classes[2] == classes[3] == classes[4] != classes[5]


def test_capacities_that_differ_below_a_grain_are_one_class() -> None:
    cluster = Cluster.of([Machine("a", {"cpu": 0.3}), Machine("b", {"cpu": 0.1 + 0.2})])
    assert cluster.classes.tolist() == [0, 0]


def test_grains_are_rounded_down() -> None:
    assert Cluster.uniform(1, cpu=1 / 3).grains.tolist() == [[333_333.0]]


def test_arrays_cannot_be_written() -> None:
    cluster = Cluster.uniform(2, gpu=1)
    for array in (cluster.capacity, cluster.grains, cluster.classes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_the_callers_array_stays_writable_and_apart() -> None:
    capacity = np.ones((1, 1))
    cluster = Cluster(("a",), ("gpu",), capacity)
    capacity[0, 0] = 7.0
    assert cluster.capacity[0, 0] == 1.0


def test_share_keeps_the_mix_of_types() -> None:
    part = _mixed(big=100, small=60, none=40).share(0.1)
    assert len(part) == 20
    assert [sum(name.startswith(kind) for name in part.names) for kind in ("big", "small", "none")] == [10, 6, 4]


def test_share_of_all_is_all() -> None:
    cluster = _mixed(big=3, small=2)
    assert cluster.share(1.0).names == cluster.names


def test_share_keeps_at_least_one_machine() -> None:
    part = _mixed(big=3, small=2).share(1e-6)
    assert len(part) == 1
    assert part.names == ("big0",)


def test_share_keeps_resources_and_bandwidth_in_order() -> None:
    cluster = Cluster.of([Machine("a", {"gpu": 1.0}), Machine("b", {"cpu": 1.0})], (100.0, 10.0))
    part = cluster.share(0.5)
    assert part.resources == cluster.resources
    assert part.bandwidth == (100.0, 10.0)


_FOUR = ("machine", "rack", "row", "cluster")


def _placed(*places: str) -> Cluster:
    """Machines m0, m1, ... in "rack row" each; "-" is none."""
    machines = []
    for i, place in enumerate(places):
        named = zip(("rack", "row"), place.split(), strict=True)
        machines.append(Machine(f"m{i}", {"gpu": 1.0}, {level: name for level, name in named if name != "-"}))
    return Cluster.of(machines, (4.0, 3.0, 2.0, 1.0), _FOUR)


def test_machines_of_one_domain_are_put_side_by_side() -> None:
    cluster = _placed("r1 north", "r2 south", "r3 north", "r2 south", "r1 north")
    assert cluster.names == ("m0", "m4", "m2", "m1", "m3")
    assert cluster.domains.tolist() == [[0, 1, 2, 3, 4], [0, 0, 1, 2, 2], [0, 0, 0, 1, 1], [0, 0, 0, 0, 0]]


def test_what_names_no_domain_stands_alone() -> None:
    cluster = _placed("r1 -", "- -", "r1 -", "- north", "r2 north", "- -")
    assert cluster.names == ("m0", "m2", "m1", "m3", "m4", "m5")
    assert cluster.domains.tolist() == [[0, 1, 2, 3, 4, 5], [0, 0, 1, 2, 3, 4], [0, 0, 1, 2, 2, 3], [0] * 6]


def test_level_is_the_lowest_that_holds_all() -> None:
    cluster = _placed("r1 north", "r1 north", "r2 north", "r3 south")
    assert [cluster.level(m) for m in ([2], [0, 1], [0, 1, 2], [1, 2], [0, 3], [2, 3])] == [0, 1, 2, 2, 3, 3]
    assert list(cluster.locality.items()) == list(zip(_FOUR, (4.0, 3.0, 2.0, 1.0), strict=True))


def test_machines_of_two_racks_are_of_two_classes() -> None:
    assert _placed("r1 a", "r1 a", "r2 a").classes.tolist() == [0, 0, 1]


def test_share_keeps_racks_together() -> None:
    whole = _placed(*(f"r{i // 4} row{i // 8}" for i in range(16)))
    part = whole.share(0.5)
    assert len(part) == 8
    rack = dict(zip(whole.names, whole.domains[1].tolist(), strict=True))
    for i in range(1, 8):
        same = rack[part.names[i]] == rack[part.names[i - 1]]
        assert (part.domains[1, i] == part.domains[1, i - 1]) == same


_PLACE = st.tuples(st.sampled_from(["r1", "r2", "r3", "-"]), st.sampled_from(["x", "y", "-"])).map(" ".join)


@given(st.lists(_PLACE, min_size=1, max_size=8))
def test_of_keeps_what_is_in_one_domain_there_or_refuses(places: list[str]) -> None:
    rows: dict[str, set[str]] = {}
    for place in places:
        rack, row = place.split()
        if rack != "-":
            rows.setdefault(rack, set()).add(row)
    if any(len(found) > 1 for found in rows.values()):
        with pytest.raises(InvalidCluster, match="it lies within two"):
            _placed(*places)
        return
    cluster = _placed(*places)
    of = {name: places[int(name[1:])].split() for name in cluster.names}
    for i, one in enumerate(cluster.names):
        for j, other in enumerate(cluster.names):
            one_rack = of[one][0] == of[other][0] != "-" or i == j
            one_row = of[one][1] == of[other][1] != "-" or one_rack
            assert (cluster.domains[1, i] == cluster.domains[1, j]) == one_rack
            assert (cluster.domains[2, i] == cluster.domains[2, j]) == one_row


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 40), st.floats(0.001, 1.0))
def test_share_is_even_within_one_machine_a_type(big: int, small: int, none: int, fraction: float) -> None:
    whole = _mixed(big=big, small=small, none=none)
    part = whole.share(fraction)
    assert len(part) == max(1, round(len(whole) * fraction))
    for kind, count in (("big", big), ("small", small), ("none", none)):
        kept = sum(name.startswith(kind) for name in part.names)
        assert abs(kept - count * len(part) / len(whole)) < 1
        assert kept <= count


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, math.nan])
def test_share_refuses_what_is_no_share(fraction: float) -> None:
    with pytest.raises(InvalidCluster, match=r"cluster share must be > 0 and <= 1, got "):
        Cluster.uniform(2, gpu=1).share(fraction)


def test_vector_follows_the_resource_order() -> None:
    cluster = Cluster.uniform(1, gpu=1, cpu=2, memory=3)
    assert cluster.vector({"memory": 0.5, "gpu": 2.0, "fpga": 9.0}).tolist() == [2.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Cluster.of([]), "a cluster must have at least 1 machine, got 0"),
        (lambda: Cluster.of([Machine("a", {})]), "a cluster must have at least 1 resource, got 0"),
        (
            lambda: Cluster.of([Machine("a", {"gpu": 1.0}), Machine("a", {"gpu": 2.0})]),
            "machine names must be distinct, got 'a' twice",
        ),
        (
            lambda: Cluster.of([Machine("a", {"gpu": -1.0})]),
            "machine 'a': gpu must be in 0 ... 1e+08, got -1",
        ),
        (
            lambda: Cluster.of([Machine("a", {"gpu": math.nan})]),
            "machine 'a': gpu must be in 0 ... 1e+08, got nan",
        ),
        (
            lambda: Cluster(("a",), ("gpu",), np.ones((2, 1))),
            "capacity must have shape (machines, resources), got (2, 1)",
        ),
        (
            lambda: Cluster.uniform(1, gpu=1, bandwidth=(0.0, 0.0)),
            "bandwidth must be > 0 MB/s, got (0.0, 0.0)",
        ),
        (
            lambda: Cluster.uniform(1, gpu=1, bandwidth=(10.0, 20.0)),
            "bandwidth inside a machine must be >= that inside a cluster (20 MB/s), got 10",
        ),
        (
            lambda: Cluster.of([Machine("a", {"gpu": 1.0}, {"rack": "r"})]),
            "machine 'a': rack must be a level between machine and cluster (none), got 'r'",
        ),
        (
            lambda: Cluster.uniform(1, gpu=1, bandwidth=(3.0, 2.0, 1.0)),
            "bandwidth must have one number for each level (machine, cluster), got (3.0, 2.0, 1.0)",
        ),
        (
            lambda: _placed("r1 north", "r1 south"),
            "machine 'm1': rack 'r1' must lie within one domain of each level above, as machine 'm0' does; it lies "
            "within two",
        ),
        (
            lambda: _placed("r1 north", "r1 -"),
            "machine 'm1': rack 'r1' must lie within one domain of each level above, as machine 'm0' does; it lies "
            "within two",
        ),
        (
            lambda: Cluster.of([Machine("a", {"gpu": 1.0})], (2.0, 1.0), ("rack", "cluster")),
            "levels must be distinct, from machine to cluster, got rack, cluster",
        ),
        (
            lambda: Cluster.of([Machine("a", {"gpu": 1.0})], (2.0,), ("machine",)),
            "a cluster must have 2 ... 6 locality levels, got 1",
        ),
        (lambda: Cluster.uniform(0, gpu=1), "machines must be >= 1, got 0"),
    ],
)
def test_refuses_with_value_and_bound(build: object, message: str) -> None:
    with pytest.raises(InvalidCluster) as caught:
        build()  # type: ignore[operator]
    assert str(caught.value) == message


def test_arrays_are_in_one_layout_however_a_cluster_was_made() -> None:
    """Kernels are compiled for each layout that they see, which takes half a minute."""
    whole = Cluster.of(
        [Machine(f"m{i}", {"gpu": 1.0 + i % 2, "cpu": 4.0}, {"rack": f"r{i // 3}"}) for i in range(9)],
        (100.0, 50.0, 10.0),
        ("machine", "rack", "cluster"),
    )
    fortran = Cluster(
        whole.names,
        whole.resources,
        np.asfortranarray(whole.capacity),
        whole.bandwidth,
        whole.levels,
        np.asfortranarray(whole.domains),
    )
    for cluster in (whole, whole.share(0.5), fortran):
        for array in (cluster.capacity, cluster.grains, cluster.domains, cluster.classes):
            assert array.flags.c_contiguous
