import ast
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidJob
from slotwise.model.speed import SpeedModel
from slotwise.model.table import SpeedPoint, TableSpeed

TRACES = Path(os.environ.get("SLOTWISE_TRACES", Path(__file__).parents[2].parent / "shared/traces"))


def _rate(speed: TableSpeed, workers: int, servers: int, bandwidth: float = 100.0, batch: int = 7) -> float:
    return float(speed.samples_per_second(np.array([workers]), np.array([servers]), batch, bandwidth)[0])


def _table(*points: tuple[float, ...]) -> TableSpeed:
    return TableSpeed(tuple(SpeedPoint(int(w), int(s), *rest) for w, s, *rest in points))


# Two worker counts and two server counts, all four measured.
SQUARE = _table((2, 1, 10.0), (6, 1, 14.0), (2, 5, 20.0), (6, 5, 40.0))


def test_between_measured_counts_the_speed_is_bilinear() -> None:
    assert _rate(SQUARE, 3, 1) == pytest.approx(11.0)
    assert _rate(SQUARE, 2, 3) == pytest.approx(15.0)
    assert _rate(SQUARE, 4, 3) == pytest.approx((10 + 14 + 20 + 40) / 4)


def test_beyond_measured_counts_it_is_as_fast_as_the_best_that_is_no_larger() -> None:
    assert _rate(SQUARE, 60, 5) == 40.0
    assert _rate(SQUARE, 6, 50) == 40.0
    assert _rate(SQUARE, 60, 4) == 14.0
    assert _rate(SQUARE, 5, 6) == 20.0


def test_below_measured_counts_it_is_unknown() -> None:
    assert [_rate(SQUARE, *pair) for pair in ((1, 1), (1, 9), (9, 0))] == [0.0, 0.0, 0.0]


def test_a_gap_of_the_grid_is_as_fast_as_the_best_that_is_no_larger() -> None:
    gaps = _table((1, 1, 10.0), (3, 2, 8.0), (2, 3, 30.0))
    assert _rate(gaps, 3, 1) == 10.0
    assert _rate(gaps, 1, 3) == 10.0
    assert _rate(gaps, 3, 3) == 30.0
    assert _rate(gaps, 3, 2) == 8.0


def test_a_pair_with_no_measured_one_below_it_is_none_of_the_jobs() -> None:
    corner = _table((1, 4, 10.0), (4, 1, 12.0))
    workers, servers = corner.pairs(1, 9, 9)
    assert list(zip(workers.tolist(), servers.tolist(), strict=True)) == [
        (4, 1), (4, 2), (4, 3), (1, 4), (2, 4), (3, 4), (4, 4),
    ]  # fmt: skip
    assert _rate(corner, 2, 2) == 0.0


def test_several_measurements_of_a_pair_count_as_their_mean() -> None:
    assert _rate(_table((1, 1, 10.0), (1, 1, 13.0), (1, 1, 1.0)), 1, 1) == 8.0


def test_failed_runs_are_no_points() -> None:
    table = _table((1, 1, 10.0), (1, 1, 0.0), (2, 1, 0.0))
    assert table.points == (SpeedPoint(1, 1, 10.0),)
    assert _rate(table, 2, 1) == 10.0


def test_without_a_bandwidth_the_speed_holds_at_any() -> None:
    assert [_rate(SQUARE, 2, 1, b) for b in (1e-3, 1.0, 1e9)] == [10.0] * 3


def test_between_bandwidths_seconds_are_linear_in_the_inverse() -> None:
    # 1/b: 0.1, 0.04 and 0.02; seconds a sample 0.5 and 0.1: at 0.04 a quarter of the way back.
    table = _table((1, 1, 2.0, 10.0), (1, 1, 10.0, 50.0))
    assert _rate(table, 1, 1, 10.0) == 2.0
    assert _rate(table, 1, 1, 50.0) == 10.0
    assert _rate(table, 1, 1, 25.0) == pytest.approx(1 / (0.1 + 0.4 * 0.02 / 0.08))


def test_above_the_largest_bandwidth_nothing_is_gained_and_below_the_smallest_all_grows() -> None:
    table = _table((1, 1, 2.0, 10.0), (1, 1, 10.0, 50.0))
    assert _rate(table, 1, 1, 5000.0) == 10.0
    assert _rate(table, 1, 1, 5.0) == pytest.approx(1.0)


def test_a_pair_is_judged_by_the_bandwidths_at_which_it_is_known() -> None:
    # Four workers were tried at 10 MB/s only, one worker at both.
    table = _table((1, 1, 2.0, 10.0), (4, 1, 5.0, 10.0), (2, 1, 8.0, 50.0))
    assert _rate(table, 1, 1, 50.0) == 2.0
    assert _rate(table, 4, 1, 50.0) == 8.0
    assert _rate(table, 1, 1, 5.0) == 1.0


def test_without_servers_the_table_is_one_of_worker_counts() -> None:
    table = _table((1, 0, 4.0), (3, 0, 10.0))
    workers, servers = table.pairs(1, 8, 8)
    assert workers.tolist() == [1, 2, 3]
    assert servers.tolist() == [0, 0, 0]
    assert table.samples_per_second(workers, servers, 9, 1.0).tolist() == [4.0, 7.0, 10.0]


def test_pairs_lie_between_the_bounds_and_the_measured_counts() -> None:
    workers, servers = SQUARE.pairs(1, 4, 3)
    assert set(zip(workers.tolist(), servers.tolist(), strict=True)) == {(w, s) for w in (2, 3, 4) for s in (1, 2, 3)}
    assert [len(a) for a in SQUARE.pairs(7, 9, 9)] == [0, 0]


def test_pairs_keep_measured_counts_that_a_free_choice_skips() -> None:
    workers, _ = _table((1, 1, 1.0), (50, 1, 9.0), (100, 1, 12.0)).pairs(1, 200, 1)
    assert 50 in workers
    assert 49 not in workers
    assert workers[-1] == 100


def test_order_and_repetition_make_no_other_table() -> None:
    one = _table((1, 1, 4.0), (2, 1, 6.0), (2, 1, 8.0))
    other = _table((2, 1, 7.0), (1, 1, 4.0))
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    assert one != SQUARE
    assert isinstance(one, SpeedModel)


# Hypothesis: small tables with gaps, noise and several bandwidths.


Points = list[SpeedPoint]


def _points(least_servers: int, bandwidths: list[float | None]) -> st.SearchStrategy[list[SpeedPoint]]:
    servers = st.sampled_from([1, 2, 5, 9]) if least_servers else st.just(0)
    point = st.builds(
        SpeedPoint, st.sampled_from([1, 2, 4, 7]), servers, st.floats(1e-3, 1e3), st.sampled_from(bandwidths)
    )
    return st.lists(point, min_size=1, max_size=12)


_PLAIN = st.sampled_from([0, 1]).flatmap(lambda least: _points(least, [None]))
_AT: list[list[float | None]] = [[None], [10.0, 25.0, 400.0]]
_TABLES = st.tuples(st.sampled_from([0, 1]), st.sampled_from(_AT)).flatmap(lambda drawn: _points(*drawn))
_COUNTS = st.integers(1, 12)


@given(_TABLES)
def test_at_a_measured_point_it_is_the_measured_speed(points: list[SpeedPoint]) -> None:
    speed = TableSpeed(tuple(points))
    for point in points:
        same = [p.samples_per_second for p in points if p[:2] == point[:2] and p.bandwidth == point.bandwidth]
        at = 123.0 if point.bandwidth is None else point.bandwidth
        assert _rate(speed, point.workers, point.servers, at) == math.fsum(same) / len(same)


@given(_TABLES, _COUNTS, _COUNTS, st.floats(1.0, 1e4))
def test_it_is_never_faster_than_the_largest_measured(
    points: list[SpeedPoint], w: int, s: int, bandwidth: float
) -> None:
    speed = TableSpeed(tuple(points))
    servers = s if points[0].servers else 0
    most = max(point.samples_per_second for point in points)
    assert 0.0 <= _rate(speed, w, servers, bandwidth) <= most


@given(_PLAIN, _COUNTS, _COUNTS)
def test_inside_it_lies_between_the_speeds_around_it(points: list[SpeedPoint], w: int, s: int) -> None:
    speed = TableSpeed(tuple(points))
    s = s if points[0].servers else 0
    workers, servers = speed.measured_workers, speed.measured_servers
    if not (workers[0] <= w <= workers[-1] and servers[0] <= s <= servers[-1]):
        return
    rate = _rate(speed, w, s)
    around = [
        _rate(speed, a, b)
        for a in (max(c for c in workers if c <= w), min(c for c in workers if c >= w))
        for b in (max(c for c in servers if c <= s), min(c for c in servers if c >= s))
    ]
    assert rate <= max(around)
    assert rate == 0.0 or rate >= min(around)


@given(_PLAIN, _COUNTS, _COUNTS)
def test_outside_it_is_the_best_measured_one_that_is_no_larger(points: list[SpeedPoint], w: int, s: int) -> None:
    speed = TableSpeed(tuple(points))
    s = s if points[0].servers else 0
    if w <= speed.measured_workers[-1] and s <= speed.measured_servers[-1]:
        w = speed.measured_workers[-1] + w
    best = max((p.samples_per_second for p in speed.points if p.workers <= w and p.servers <= s), default=0.0)
    assert _rate(speed, w, s) == best


@given(_PLAIN, _COUNTS, _COUNTS, st.integers(0, 5), st.integers(0, 5))
def test_outside_more_is_never_slower(points: list[SpeedPoint], w: int, s: int, more: int, other: int) -> None:
    speed = TableSpeed(tuple(points))
    servers = 1 if points[0].servers else 0
    w, s = w + speed.measured_workers[-1], s * servers
    assert _rate(speed, w + more, s + other * servers) >= _rate(speed, w, s)


@given(_TABLES, st.integers(1, 8), st.integers(0, 8), st.integers(1, 12))
def test_every_pair_has_a_speed_and_keeps_the_bounds(
    points: list[SpeedPoint], least: int, more: int, servers: int
) -> None:
    speed = TableSpeed(tuple(points))
    found = speed.pairs(least, least + more, servers)
    assert len(set(zip(*(a.tolist() for a in found), strict=True))) == len(found[0])
    assert found[0].tolist() == found[0][np.lexsort(found)].tolist()
    assert ((found[0] >= least) & (found[0] <= least + more) & (found[1] <= servers)).all()
    for bandwidth in (1.0, 10.0, 30.0, 1e4):
        assert (speed.samples_per_second(*found, 8, bandwidth) > 0).all()
    measured = {p[:2] for p in points if least <= p.workers <= least + more and p.servers <= servers}
    assert measured <= set(zip(*(a.tolist() for a in found), strict=True))


@given(st.floats(1.0, 1e3), st.floats(1.0, 1e3), st.floats(1.0, 1e4), st.floats(1.0, 2.0))
def test_faster_links_never_slow_a_table_that_faster_links_never_slowed(
    one: float, other: float, bandwidth: float, factor: float
) -> None:
    slow, fast = sorted((one, other))
    speed = _table((1, 1, slow, 20.0), (1, 1, fast, 500.0))
    assert _rate(speed, 1, 1, bandwidth * factor) >= _rate(speed, 1, 1, bandwidth) * (1 - 1e-12)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "points must have one of > 0 samples a second, got 0 points of 0"),
        ([(1, 1, 0.0), (2, 1, 0.0)], "points must have one of > 0 samples a second, got 2 points of 0"),
        ([(0, 1, 1.0)], "points[0].workers must be a whole number in 1 ... 10000, got 0"),
        ([(1.5, 1, 1.0)], "points[0].workers must be a whole number in 1 ... 10000, got 1.5"),
        ([(1, 1, 1.0), (1, -1, 1.0)], "points[1].servers must be a whole number in 0 ... 10000, got -1"),
        (
            [(1, 1, math.nan)],
            "points[0].samples_per_second must be 0 (a failed run) or in 1e-15 ... 1e+15, got nan",
        ),
        (
            [(1, 1, -2.0)],
            "points[0].samples_per_second must be 0 (a failed run) or in 1e-15 ... 1e+15, got -2.0",
        ),
        ([(1, 1, 1.0, 0.0)], "points[0].bandwidth must be in 1e-15 ... 1e+15, got 0.0"),
        (
            [(1, 1, 1.0, 5.0), (2, 1, 1.0)],
            "bandwidth must be given for all points or for none, got points[1] unlike points[0]",
        ),
        ([(1, 1, 1.0), (2, 0, 1.0)], "points[1].servers must be > 0, as in points[0], got 0"),
        ([(1, 0, 1.0), (2, 3, 1.0)], "points[1].servers must be 0, as in points[0], got 3"),
        ([(w, 1, 1.0) for w in range(1, 514)], "points must have at most 512 worker counts, got 513"),
    ],
)
def test_refuses_with_value_and_bound(points: list[tuple[float, ...]], message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        TableSpeed(tuple(SpeedPoint(*point) for point in points))  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_measured_resnet_is_fastest_with_many_servers_and_few_workers() -> None:
    path = TRACES / "dl2" / "config_speed.txt"
    if not path.is_file():
        pytest.skip(f"no measurements at {path}; set SLOTWISE_TRACES")
    points, batches = [], set()
    for line in path.read_text().splitlines():
        model, _, batch, servers, workers, speeds, *_ = ast.literal_eval(line)
        if model == "resnet-50":
            points.append(SpeedPoint(workers, servers, sum(speeds)))
            batches.add(batch)
    speed = TableSpeed(tuple(points))
    assert len(points) == 210
    pairs = speed.pairs(1, 32, 32)
    rates = speed.samples_per_second(*pairs, batches.pop(), 625.0)
    best = int(rates.argmax())
    assert (int(pairs[1][best]), int(pairs[0][best])) == (20, 2)
    assert rates[best] == max(point.samples_per_second for point in speed.points)
