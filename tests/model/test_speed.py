import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidJob
from slotwise.model.speed import AllReduceSpeed, Configurations, PaperSpeed, SpeedModel

_WORKERS = np.arange(1, 13, dtype=np.int64)


def test_paper_speed_by_hand() -> None:
    # tau 0.1 s, g 100 MB, gamma 4, F 50: rate = 1 / (0.1 + 4/50 * 200/b)
    speed = PaperSpeed(seconds_per_sample=0.1, gradient_mb=100.0, workers_per_server=4.0)
    assert speed.samples_per_second(np.array([1, 3]), 50, 100.0) == pytest.approx([1 / 0.26, 3 / 0.26])
    assert speed.samples_per_second(np.array([1]), 50, 1000.0) == pytest.approx([1 / 0.116])


@given(st.integers(1, 200), st.floats(1.0, 1e4))
def test_paper_rate_of_a_worker_does_not_depend_on_how_many_there_are(batch: int, bandwidth: float) -> None:
    rates = PaperSpeed(0.01, 57.0, 3.0).samples_per_second(_WORKERS, batch, bandwidth) / _WORKERS
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
    rates = AllReduceSpeed(0.1, 50.0).samples_per_second(np.array([1, 2, 3]), 60, 100.0)
    assert rates == pytest.approx([60 / 6, 60 / 3.5, 60 / (2 + 2 / 3)])


def test_all_reduce_may_fall_as_workers_are_added() -> None:
    rates = AllReduceSpeed(0.001, 500.0).samples_per_second(np.array([1, 2, 8]), 64, 100.0)
    assert rates[0] > rates[1] > rates[2]


def test_all_reduce_has_no_servers() -> None:
    assert AllReduceSpeed(0.1, 1.0).servers(_WORKERS).tolist() == [0] * 12


@given(st.sampled_from([PaperSpeed(0.02, 80.0, 3.0), AllReduceSpeed(0.02, 80.0)]), st.floats(1.0, 1e4))
def test_faster_links_never_slow_a_job(speed: SpeedModel, bandwidth: float) -> None:
    slow = speed.samples_per_second(_WORKERS, 128, bandwidth)
    fast = speed.samples_per_second(_WORKERS, 128, bandwidth * 2)
    assert (fast >= slow).all()
    assert (slow > 0).all()


@pytest.mark.parametrize("speed", [PaperSpeed(0.1, 1.0, 1.0), AllReduceSpeed(0.1, 1.0)])
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
    ],
)
def test_refuses_with_value_and_bound(build: object, message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        build()  # type: ignore[operator]
    assert str(caught.value) == message


def test_index_finds_the_first_configuration_with_enough_workers() -> None:
    workers = np.array([2, 4, 4, 8])
    configurations = Configurations(workers, np.array([1, 1, 2, 2]), np.ones((2, 4)))
    assert len(configurations) == 4
    assert [configurations.index(w) for w in (1, 2, 3, 4, 5, 8, 9)] == [0, 0, 1, 1, 3, 3, 3]
