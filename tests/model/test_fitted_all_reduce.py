from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidJob
from slotwise.model.speed import FittedAllReduce, SpeedModel

_WORKERS = np.arange(1, 9, dtype=np.int64)
_NONE = np.zeros_like(_WORKERS)
_COEFFICIENT = st.floats(1e-6, 1e3)


def test_seconds_by_hand() -> None:
    speed = FittedAllReduce(0.1, 0.01, 0.04, 0.2, 0.005, bandwidth=500.0)
    rates = speed.samples_per_second(np.array([1, 4]), np.array([0, 0]), 80, 1000.0)
    # 1: 0.1 + 0.8; 4: 0.1 + 0.01 * 20 + (0.04 + 0.2 / 2) * 3/4 + 0.005 * 3
    assert rates == pytest.approx([80 / 0.9, 80 / 0.42])


def test_every_worker_count_is_a_choice_and_none_has_servers() -> None:
    speed = FittedAllReduce(0.1, 0.01, 0.0, 0.0, 0.0)
    assert isinstance(speed, SpeedModel)
    workers, servers = speed.pairs(2, 5, 3)
    assert workers.tolist() == [2, 3, 4, 5]
    assert servers.tolist() == [0, 0, 0, 0]


@given(_COEFFICIENT, _COEFFICIENT, _COEFFICIENT, _COEFFICIENT, _COEFFICIENT, st.floats(1.0, 1e5), st.floats(1.0, 100.0))
def test_faster_links_are_never_slower(
    overhead: float, compute: float, sync: float, transfer: float, each: float, bandwidth: float, faster: float
) -> None:
    speed = FittedAllReduce(overhead, compute, sync, transfer, each, bandwidth=625.0)
    slow = speed.samples_per_second(_WORKERS, _NONE, 64, bandwidth)
    fast = speed.samples_per_second(_WORKERS, _NONE, 64, bandwidth * faster)
    assert (fast >= slow * (1 - 1e-12)).all()
    assert fast[0] == slow[0]


def test_without_a_bandwidth_it_holds_at_any() -> None:
    speed = FittedAllReduce(0.1, 0.01, 0.04, 0.2, 0.005)
    slow, fast = (speed.samples_per_second(_WORKERS, _NONE, 64, bandwidth) for bandwidth in (1.0, 1e5))
    assert slow.tolist() == fast.tolist()


@pytest.mark.parametrize("field", ["overhead", "compute", "sync", "transfer", "per_worker"])
@pytest.mark.parametrize("value", [-1.0, 1e16, float("nan")])
def test_coefficients_out_of_bounds_are_refused(field: str, value: float) -> None:
    fields = {"overhead": 1.0, "compute": 1.0, "sync": 1.0, "transfer": 1.0, "per_worker": 1.0} | {field: value}
    with pytest.raises(InvalidJob, match=field):
        FittedAllReduce(**fields)


def test_one_worker_alone_must_take_time() -> None:
    with pytest.raises(InvalidJob, match="overhead or compute must be > 0"):
        FittedAllReduce(0.0, 0.0, 1.0, 1.0, 1.0)


def test_a_bandwidth_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidJob, match="bandwidth"):
        FittedAllReduce(1.0, 1.0, 1.0, 1.0, 1.0, bandwidth=0.0)
