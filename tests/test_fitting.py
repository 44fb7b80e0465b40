"""Fits: known coefficients come back, errors are those of a plain twin, what is not determined is said."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from slotwise.errors import InvalidInput
from slotwise.fitting import _Deviations, _left_out, fit
from slotwise.model.speed import FittedAllReduce, FittedSpeed
from slotwise.workloads import speeds
from slotwise.workloads.speeds import Measured

Floats = npt.NDArray[np.float64]
Row = tuple[int, int, float, float]
"""Workers, servers, batch, bandwidth (nan: not said)."""

NAN = float("nan")
SERVERS = FittedSpeed(0.2, 0.004, 0.3, 0.01, 0.02)
ALL_REDUCE = FittedAllReduce(0.1, 0.002, 0.05, 0.4, 0.003, bandwidth=625.0)
GRID: list[Row] = [(w, s, 64.0, NAN) for w in (1, 2, 3, 5, 8) for s in (1, 2, 4)]
PLACES: list[Row] = [
    (w, 0, b * w, link)
    for w, b, link in itertools.product((1, 2, 4, 8), (4.0, 16.0), (6250.0, 625.0))
    if w > 1 or link > 1000
]


def seconds_of(speed: FittedSpeed | FittedAllReduce, rows: list[Row]) -> Floats:
    """Seconds of an iteration of each row, from its definition."""
    found = []
    for w, s, f, link in rows:
        k = 1.0 if speed.bandwidth is None else speed.bandwidth / link
        seconds = speed.overhead + speed.compute * f / w
        if isinstance(speed, FittedSpeed):
            seconds += k * speed.transfer * w / s + k * speed.per_server * s + speed.per_worker * w
        else:
            seconds += (speed.sync + k * speed.transfer) * (w - 1) / w + speed.per_worker * (w - 1)
        found.append(seconds)
    return np.array(found)


def measured(rows: list[Row], seconds: Floats, skipped: int = 0) -> Measured:
    workers, servers, batch, bandwidth = zip(*rows, strict=True)
    return Measured(
        "net", "", np.array(workers), np.array(servers), np.array(batch), seconds, np.array(bandwidth), skipped
    )


def noisy(seconds: Floats, seed: int, share: float = 0.1) -> Floats:
    return seconds * np.exp(np.random.default_rng(seed).normal(0.0, share, len(seconds)))


@pytest.mark.parametrize(("speed", "rows"), [(SERVERS, GRID), (ALL_REDUCE, PLACES)])
def test_known_coefficients_come_back(speed: FittedSpeed | FittedAllReduce, rows: list[Row]) -> None:
    seconds = seconds_of(speed, rows)
    found = fit(measured(rows, seconds))
    assert type(found.speed) is type(speed)
    assert found.speed.bandwidth == speed.bandwidth
    for name in {*speed.__slots__} - {"bandwidth", "workers_per_server"}:
        assert getattr(found.speed, name) == pytest.approx(getattr(speed, name), rel=1e-6)
    assert found.seconds == pytest.approx(seconds)
    assert found.leave_one_out_error == pytest.approx(0.0, abs=1e-6)
    assert found.folds == len(rows)
    assert found.warnings == ()


@pytest.mark.parametrize(("speed", "rows"), [(SERVERS, GRID), (ALL_REDUCE, PLACES)])
def test_fitted_seconds_are_those_of_the_model_in_a_job(speed: FittedSpeed | FittedAllReduce, rows: list[Row]) -> None:
    found = fit(measured(rows, noisy(seconds_of(speed, rows), 1)))
    for (w, s, f, link), seconds in zip(rows, found.seconds, strict=True):
        at = 1.0 if np.isnan(link) else link
        rate = found.speed.samples_per_second(np.array([w]), np.array([s]), int(f), at)
        assert f / rate[0] == pytest.approx(seconds)


def test_servers_with_bandwidths_scale_what_goes_over_the_network() -> None:
    speed = FittedSpeed(0.2, 0.004, 0.3, 0.01, 0.02, bandwidth=100.0)
    rows = [(w, s, 64.0, link) for w, s, _, _ in GRID for link in (100.0, 400.0)]
    found = fit(measured(rows, seconds_of(speed, rows))).speed
    assert isinstance(found, FittedSpeed)
    assert found.bandwidth == 100.0
    assert [found.transfer, found.per_server, found.per_worker] == pytest.approx([0.3, 0.01, 0.02], rel=1e-6)


def test_one_bad_row_of_many_moves_nothing() -> None:
    seconds = seconds_of(SERVERS, GRID)
    seconds[4] *= 5.0
    found = fit(measured(GRID, seconds))
    assert found.speed.compute == pytest.approx(SERVERS.compute, rel=1e-6)
    assert found.in_sample_error == pytest.approx((1 - 1 / 5) / len(GRID))


def vertices(scaled: Floats) -> Floats:
    """Coefficients >= 0 of least mean deviation from 1: the best of all vertices, each tried."""
    rows, count = scaled.shape
    planes = np.vstack([scaled, np.eye(count)])
    sides = np.concatenate([np.ones(rows), np.zeros(count)])
    chosen = np.array(list(itertools.combinations(range(rows + count), count)))
    square = planes[chosen]
    square, chosen = square[np.abs(np.linalg.det(square)) > 1e-12], chosen[np.abs(np.linalg.det(square)) > 1e-12]
    points = np.linalg.solve(square, sides[chosen][:, :, None])[:, :, 0]
    points = points[(points >= -1e-9).all(axis=1)]
    best: Floats = points[np.abs(points @ scaled.T - 1.0).sum(axis=1).argmin()]
    return best


@pytest.mark.parametrize("seed", range(3))
def test_errors_are_those_of_a_plain_twin(seed: int) -> None:
    rows: list[Row] = [*itertools.islice(GRID, 0, None, 2), GRID[0], GRID[4]]
    seconds = noisy(seconds_of(SERVERS, rows), seed, 0.3)
    columns = np.array([[1.0, f / w, w / s, s, w] for w, s, f, _ in rows]) / seconds[:, None]
    columns /= columns.max(axis=0)
    errors = np.zeros(len(rows))
    for row in set(rows):
        out = np.array([other == row for other in rows])
        errors[out] = np.abs(columns[out] @ vertices(columns[~out]) - 1.0)
    found = fit(measured(rows, seconds))
    assert found.leave_one_out_error == pytest.approx(errors.mean(), rel=1e-5)
    assert found.in_sample_error == pytest.approx(np.abs(columns @ vertices(columns) - 1.0).mean(), rel=1e-6)
    assert found.folds == len(set(rows)) == len(rows) - 2


def test_repeats_of_a_configuration_are_left_out_together() -> None:
    seconds = noisy(seconds_of(SERVERS, GRID), 5, 0.3)
    once = fit(measured(GRID, seconds))
    thrice = fit(measured(GRID * 3, np.tile(seconds, 3)))
    assert thrice.folds == once.folds == len(GRID)
    assert thrice.leave_one_out_error == pytest.approx(once.leave_one_out_error, rel=1e-6)


def test_a_row_is_predicted_from_the_others_alone() -> None:
    """Few rows leave several best fits; which one is taken must not depend on the row that is left out."""
    rng = np.random.default_rng(1)
    for _ in range(20):
        rows = [
            (int(w), 0, float(b), NAN) for w, b in zip(rng.integers(1, 4, 6), rng.choice([8, 16, 32], 6), strict=True)
        ]
        if len(set(rows)) < 5:
            continue
        seconds = rng.uniform(0.1, 1.0, len(rows))
        scaled = np.array([[1.0, f / w, (w - 1) / w, w - 1.0] for w, _, f, _ in rows]) / seconds[:, None]
        groups = np.unique(np.array([row[:3] for row in rows]), axis=0, return_inverse=True)[1].ravel()
        found = _left_out(scaled, groups)
        twin = [abs(scaled[i] @ _Deviations(scaled).solve(groups == groups[i]) - 1.0) for i in range(len(rows))]
        assert found == pytest.approx(float(np.mean(twin)), rel=1e-9)


def test_large_and_small_times_count_alike() -> None:
    seconds = noisy(seconds_of(SERVERS, GRID), 7)
    scaled = fit(measured(GRID, seconds * 1e4))
    assert scaled.leave_one_out_error == pytest.approx(fit(measured(GRID, seconds)).leave_one_out_error, rel=1e-6)


def test_too_few_configurations_are_an_error_that_says_how_many() -> None:
    rows = GRID[:4]
    with pytest.raises(InvalidInput, match=r"net: distinct configurations measured must be >= 5.*got 4 in 12 rows"):
        fit(measured(rows * 3, np.tile(seconds_of(SERVERS, rows), 3)))
    empty = Measured("net", "", *(np.empty(0, np.int64),) * 2, *(np.empty(0),) * 3, 9)
    with pytest.raises(InvalidInput, match="net: must have a row with a speed > 0, got 9 failed runs and no other"):
        fit(empty)


def test_rows_that_leave_nothing_to_one_worker_have_a_fit_that_does() -> None:
    rows: list[Row] = [(w, 0, 8.0, NAN) for w in range(2, 8)]
    found = fit(measured(rows, np.array([w - 1.0 for w in range(2, 8)])))
    assert found.speed.overhead > 0 or found.speed.compute > 0
    assert any("perWorker is 0" in warning for warning in found.warnings)


def test_bandwidth_in_some_rows_only_is_an_error() -> None:
    rows = [(w, s, f, 100.0 if s == 1 else NAN) for w, s, f, _ in GRID]
    with pytest.raises(InvalidInput, match="in all rows or in none, got it in 5 of 15 rows"):
        fit(measured(rows, seconds_of(SERVERS, GRID)))


def warned(speed: FittedSpeed | FittedAllReduce, rows: list[Row]) -> str:
    return "\n".join(fit(measured(rows, noisy(seconds_of(speed, rows), 2, 0.02))).warnings)


def test_one_server_count_is_said_to_leave_two_coefficients_open() -> None:
    text = warned(SERVERS, [(w, 2, 64.0, NAN) for w in range(1, 13)])
    assert "net: perServer cannot be told from overhead" in text
    assert "measure other server counts at the same worker count" in text
    assert "perWorker cannot be told from transfer" in text
    assert "compute" not in text


def test_one_ratio_of_workers_to_servers_is_said_to_leave_two_coefficients_open() -> None:
    text = warned(SERVERS, [(2 * s, s, 64.0, NAN) for s in range(1, 13)])
    assert "transfer cannot be told from overhead" in text
    assert "perWorker cannot be told from perServer" in text


def test_a_batch_that_grows_with_the_workers_hides_compute() -> None:
    text = warned(SERVERS, [(w, s, 16.0 * w, NAN) for w, s, _, _ in GRID])
    assert "compute cannot be told from overhead" in text
    assert "measure other worker counts or batch sizes" in text


def test_one_bandwidth_leaves_sync_and_transfer_together() -> None:
    rows = [(w, 0, 8.0 * w * b, 625.0) for w in (1, 2, 4, 8) for b in (1, 4)]
    found = fit(measured(rows, seconds_of(ALL_REDUCE, rows)))
    assert isinstance(found.speed, FittedAllReduce)
    assert found.speed.sync == 0.0
    assert found.speed.transfer == pytest.approx(ALL_REDUCE.sync + ALL_REDUCE.transfer, rel=1e-6)
    assert "sync cannot be told from transfer, which holds both" in found.warnings[0]


def test_nearly_alike_columns_are_said_to_be_loose() -> None:
    # Two worker counts that hardly differ tell overhead from compute by their last digits only.
    text = warned(SERVERS, [(w, s, 64.0, NAN) for w in (100, 101) for s in (1, 2, 3, 5, 8, 13)])
    assert "can hardly be told apart" in text
    assert "overhead" in text
    assert "compute" in text


def test_without_bandwidths_all_reduce_has_four_coefficients_and_no_warning() -> None:
    rows = [(w, 0, 8.0 * w * b, NAN) for w in (1, 2, 4, 8) for b in (1, 4)]
    found = fit(measured(rows, seconds_of(FittedAllReduce(0.1, 0.002, 0.45, 0.0, 0.003), rows)))
    assert isinstance(found.speed, FittedAllReduce)
    assert (found.speed.bandwidth, found.speed.transfer, found.warnings) == (None, 0.0, ())
    assert found.speed.sync == pytest.approx(0.45, rel=1e-6)


def test_a_single_worker_only_says_nothing_of_the_network() -> None:
    text = warned(FittedAllReduce(0.1, 0.002, 0.0, 0.0, 0.0), [(1, 0, float(b), NAN) for b in range(2, 12)])
    assert "sync is 0: no row says anything of it" in text
    assert "perWorker is 0" in text


def test_no_row_of_one_worker_is_said_and_one_worker_still_takes_time() -> None:
    rows = [(w, 0, 8.0 * w * b, 625.0) for w in (2, 3, 4, 8) for b in (1, 2)]
    seconds = np.array([0.4 * (w - 1) / w + 0.01 * (w - 1) for w, *_ in rows])
    found = fit(measured(rows, seconds))
    assert found.speed.overhead + found.speed.compute > 0
    text = "\n".join(found.warnings)
    assert "transfer and sync are 0" in text
    assert "no row has one worker: its speed is extrapolated from 2" in text


def test_few_configurations_are_said_to_make_a_rough_error() -> None:
    rows = [GRID[i] for i in (0, 1, 4, 8, 9, 14)]
    assert "only 6 configurations for 5 coefficients" in warned(SERVERS, rows)


# Published measurements.


def test_error_on_each_model_of_the_dl2_table(traces: Path) -> None:
    found = [fit(rows) for rows in speeds.read(traces / "dl2/config_speed.txt").measured]
    assert len(found) == 8
    for each in found:
        assert each.leave_one_out_error <= 0.10, each.measured.name
        assert each.in_sample_error <= each.leave_one_out_error
        assert each.warnings == ()


def test_median_error_over_the_sia_profiles(traces: Path) -> None:
    found = [fit(rows) for rows in speeds.read(traces / "sia/profiles").measured]
    errors = np.array([each.leave_one_out_error for each in found])
    assert len(errors) == 76
    assert np.median(errors) <= 0.075
    # docs/fitting.md explains each of them.
    assert (errors > 0.10).sum() == 19
