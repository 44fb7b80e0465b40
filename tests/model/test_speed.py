import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidJob
from slotwise.model.speed import AllReduceSpeed, Configurations, FittedSpeed, PaperSpeed, SpeedModel, counts

_WORKERS = np.arange(1, 13, dtype=np.int64)


def _rates(speed: SpeedModel, workers: list[int], servers: list[int], batch: int, bandwidth: float) -> list[float]:
    pairs = np.array(workers, dtype=np.int64), np.array(servers, dtype=np.int64)
    return [float(rate) for rate in speed.samples_per_second(*pairs, batch, bandwidth)]


def test_paper_speed_by_hand() -> None:
    # tau 0.1 s, g 100 MB, gamma 4, F 50: rate = 1 / (0.1 + 4/50 * 200/b)
    speed = PaperSpeed(seconds_per_sample=0.1, gradient_mb=100.0, workers_per_server=4.0)
    assert _rates(speed, [1, 3], [1, 1], 50, 100.0) == pytest.approx([1 / 0.26, 3 / 0.26])
    assert _rates(speed, [1], [1], 50, 1000.0) == pytest.approx([1 / 0.116])


@given(st.integers(1, 200), st.floats(1.0, 1e4))
def test_paper_rate_of_a_worker_does_not_depend_on_how_many_there_are(batch: int, bandwidth: float) -> None:
    speed = PaperSpeed(0.01, 57.0, 3.0)
    rates = speed.samples_per_second(_WORKERS, speed.servers(_WORKERS), batch, bandwidth) / _WORKERS
    assert rates == pytest.approx(rates[0])


@pytest.mark.parametrize(
    ("per_server", "servers"),
    [
        (1.0, list(range(1, 13))),
        (4.0, [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]),
        (2.5, [1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5]),
        (50.0, [1] * 12),
        (0.5, list(range(2, 25, 2))),
    ],
)
def test_servers_are_workers_over_gamma_rounded_up(per_server: float, servers: list[int]) -> None:
    assert PaperSpeed(0.1, 1.0, per_server).servers(_WORKERS).tolist() == servers


@given(st.integers(1, 1000), st.integers(1, 1000))
def test_a_recorded_ratio_gives_back_the_recorded_servers(workers: int, servers: int) -> None:
    speed = PaperSpeed(0.1, 1.0, workers / servers)
    assert speed.servers(np.array([workers])).tolist() == [servers]


def test_all_reduce_by_hand() -> None:
    # F 60, tau 0.1, g 50, b 100: seconds an iteration = 6/W + (W - 1)/W
    rates = _rates(AllReduceSpeed(0.1, 50.0), [1, 2, 3], [0, 0, 0], 60, 100.0)
    assert rates == pytest.approx([60 / 6, 60 / 3.5, 60 / (2 + 2 / 3)])


def test_all_reduce_may_fall_as_workers_are_added() -> None:
    rates = _rates(AllReduceSpeed(0.001, 500.0), [1, 2, 8], [0, 0, 0], 64, 100.0)
    assert rates[0] > rates[1] > rates[2]


def test_all_reduce_has_no_servers() -> None:
    workers, servers = AllReduceSpeed(0.1, 1.0).pairs(1, 12, 5)
    assert workers.tolist() == _WORKERS.tolist()
    assert servers.tolist() == [0] * 12


def test_fitted_speed_by_hand() -> None:
    # 0.1 + 0.2 F/W + 0.3 W/S + 0.4 S + 0.5 W with F 10, W 4, S 2: 0.1 + 0.5 + 0.6 + 0.8 + 2
    speed = FittedSpeed(0.1, 0.2, 0.3, 0.4, 0.5)
    assert _rates(speed, [4], [2], 10, 1.0) == pytest.approx([10 / 4.0])
    assert _rates(speed, [4], [2], 10, 1e6) == pytest.approx([10 / 4.0])


def test_fitted_transfer_takes_twice_as_long_at_half_the_bandwidth() -> None:
    speed = FittedSpeed(0.1, 0.2, 0.3, 0.4, 0.5, bandwidth=100.0)
    assert _rates(speed, [4], [2], 10, 100.0) == pytest.approx([10 / 4.0])
    assert _rates(speed, [4], [2], 10, 50.0) == pytest.approx([10 / 5.4])


def test_fitted_speed_leaves_the_servers_open() -> None:
    workers, servers = FittedSpeed(0.1, 1.0, 0.1, 0.1, 0.0).pairs(2, 4, 2)
    assert workers.tolist() == [2, 3, 4, 2, 3, 4]
    assert servers.tolist() == [1, 1, 1, 2, 2, 2]


def test_fitted_speed_with_a_ratio_has_the_servers_of_the_papers() -> None:
    workers, servers = FittedSpeed(0.1, 1.0, 0.1, 0.1, 0.0, workers_per_server=2.5).pairs(1, 12, 99)
    assert workers.tolist() == _WORKERS.tolist()
    assert servers.tolist() == PaperSpeed(0.1, 1.0, 2.5).servers(_WORKERS).tolist()


@given(st.integers(1, 10_000), st.integers(0, 10_000))
def test_counts_have_both_ends_and_steps_of_a_sixteenth(least: int, more: int) -> None:
    found = counts(least, least + more)
    assert (found[0], found[-1]) == (least, least + more)
    steps = np.diff(found)
    assert (steps >= 1).all()
    assert (steps <= np.maximum(found[:-1] // 16, 1)).all()
    assert len(found) <= 48 + 16 * math.log(10_000) + 48


_SPEEDS = [PaperSpeed(0.02, 80.0, 3.0), AllReduceSpeed(0.02, 80.0), FittedSpeed(0.1, 0.02, 0.3, 0.1, 0.0, 100.0)]


@given(st.sampled_from(_SPEEDS), st.floats(1.0, 1e4))
def test_faster_links_never_slow_a_job(speed: SpeedModel, bandwidth: float) -> None:
    pairs = speed.pairs(1, 12, 12)
    slow = speed.samples_per_second(*pairs, 128, bandwidth)
    fast = speed.samples_per_second(*pairs, 128, bandwidth * 2)
    assert (fast >= slow).all()
    assert (slow > 0).all()


@pytest.mark.parametrize("speed", _SPEEDS)
def test_all_are_speed_models(speed: object) -> None:
    assert isinstance(speed, SpeedModel)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: PaperSpeed(0.0, 1.0, 1.0), "seconds_per_sample must be in 1e-15 ... 1e+15, got 0.0"),
        (lambda: PaperSpeed(1.0, -1.0, 1.0), "gradient_mb must be in 0 ... 1e+15, got -1.0"),
        (lambda: PaperSpeed(1.0, 1.0, 0.0), "workers_per_server must be in 0.001 ... 1e+15, got 0.0"),
        (lambda: AllReduceSpeed(math.nan, 1.0), "seconds_per_sample must be in 1e-15 ... 1e+15, got nan"),
        (lambda: AllReduceSpeed(1.0, math.inf), "gradient_mb must be in 0 ... 1e+15, got inf"),
        (lambda: FittedSpeed(-1.0, 1.0, 1.0, 1.0, 1.0), "overhead must be in 0 ... 1e+15, got -1.0"),
        (lambda: FittedSpeed(1.0, 1.0, 1.0, 1.0, 1.0, 0.0), "bandwidth must be in 1e-15 ... 1e+15, got 0.0"),
        (
            lambda: FittedSpeed(0.0, 0.0, 0.0, 0.0, 0.0),
            "one of overhead, compute, transfer, per_server, per_worker must be > 0, got 0 for all of them",
        ),
        (
            lambda: FittedSpeed(1.0, 1.0, 1.0, 1.0, 1.0, workers_per_server=0.0),
            "workers_per_server must be in 0.001 ... 1e+15, got 0.0",
        ),
    ],
)
def test_refuses_with_value_and_bound(build: object, message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        build()  # type: ignore[operator]
    assert str(caught.value) == message


def test_only_keeps_some_configurations() -> None:
    workers = np.array([2, 4, 4, 8])
    some = Configurations(workers, np.array([1, 1, 2, 2]), np.arange(8.0).reshape(2, 4)).only(workers == 4)
    assert len(some) == 2
    assert some.servers.tolist() == [1, 2]
    assert some.samples.tolist() == [[1.0, 2.0], [5.0, 6.0]]
