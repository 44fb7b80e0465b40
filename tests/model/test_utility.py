import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidJob
from slotwise.model.utility import Deadline, Linear, Sigmoid, Utility

_VALUE = st.floats(1e-3, 1e6)
_UTILITIES: st.SearchStrategy[Utility] = st.one_of(
    st.builds(Sigmoid, _VALUE, st.floats(0, 100), st.floats(0, 1e4)),
    st.builds(Linear, _VALUE, st.floats(1e-3, 1e4)),
    st.builds(Deadline, _VALUE, st.floats(0, 1e4)),
)


@given(_UTILITIES, st.integers(0, 300))
def test_values_never_rise_and_are_never_negative_or_nan(utility: Utility, slots: int) -> None:
    values = utility.values(slots)
    assert values.shape == (slots,)
    assert np.isfinite(values).all()
    assert (values >= 0).all()
    assert (np.diff(values) <= 0).all()


@given(_UTILITIES, st.integers(0, 100_000))
def test_log_value_is_never_nan_nor_positive_infinity(utility: Utility, delay: int) -> None:
    log_value = utility.log_value(delay)
    assert not math.isnan(log_value)
    assert log_value < math.inf
    if isinstance(utility, Sigmoid):
        assert math.isfinite(log_value)


@given(_UTILITIES, st.integers(0, 200))
def test_log_value_agrees_with_values(utility: Utility, delay: int) -> None:
    value = float(utility.values(delay + 1)[delay])
    if value > 0:
        assert utility.log_value(delay) == pytest.approx(math.log(value), rel=1e-9, abs=1e-9)


@given(_UTILITIES, st.integers(1, 50), st.integers(1, 50))
def test_a_longer_table_begins_with_the_shorter_one(utility: Utility, slots: int, more: int) -> None:
    assert utility.values(slots + more)[:slots] == pytest.approx(utility.values(slots), rel=1e-12, abs=0)


def test_sigmoid_by_hand() -> None:
    values = Sigmoid(value=80.0, urgency=2.0, target=3.0).values(5)
    assert values[3] == 40.0
    assert values[0] == pytest.approx(80 / (1 + math.exp(-6)))
    assert values[4] == pytest.approx(80 / (1 + math.exp(2)))


def test_a_time_insensitive_job_is_worth_half_at_every_delay() -> None:
    assert Sigmoid(value=80.0, urgency=0.0, target=3.0).values(500).tolist() == [40.0] * 500


def test_sigmoid_does_not_overflow_far_past_its_target() -> None:
    utility = Sigmoid(value=100.0, urgency=6.0, target=1.0)
    values = utility.values(200)
    assert values[121] == 0.0
    assert values[1] == 50.0
    assert utility.log_value(121) == pytest.approx(math.log(100) - 720)
    assert utility.log_value(10**7) == pytest.approx(-6e7, rel=1e-6)


def test_linear_by_hand() -> None:
    utility = Linear(value=10.0, end=4.0)
    assert utility.values(6).tolist() == [10.0, 7.5, 5.0, 2.5, 0.0, 0.0]
    assert utility.target == 2.0
    assert utility.log_value(4) == -math.inf


def test_deadline_counts_its_last_slot() -> None:
    utility = Deadline(value=7.0, target=2.0)
    assert utility.values(5).tolist() == [7.0, 7.0, 7.0, 0.0, 0.0]
    assert utility.log_value(2) == math.log(7)
    assert utility.log_value(3) == -math.inf


@pytest.mark.parametrize("utility", [Sigmoid(1, 1, 1), Linear(1, 1), Deadline(1, 1)])
def test_all_are_utilities(utility: object) -> None:
    assert isinstance(utility, Utility)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Sigmoid(0.0, 1.0, 1.0), "utility value must be > 0 and finite, got 0.0"),
        (lambda: Sigmoid(1.0, -0.5, 1.0), "utility urgency must be >= 0 and finite, got -0.5"),
        (lambda: Sigmoid(1.0, 1.0, math.nan), "utility target must be finite, got nan"),
        (lambda: Linear(math.inf, 1.0), "utility value must be > 0 and finite, got inf"),
        (lambda: Linear(1.0, 0.0), "utility end must be > 0 and finite, got 0.0"),
        (lambda: Deadline(-1.0, 1.0), "utility value must be > 0 and finite, got -1.0"),
        (lambda: Deadline(1.0, -math.inf), "utility target must be finite, got -inf"),
        (lambda: Linear(1.0, 1.0, -1.0), "utility lag must be >= 0 and finite, got -1.0"),
    ],
)
def test_refuses_with_value_and_bound(build: object, message: str) -> None:
    with pytest.raises(InvalidJob) as caught:
        build()  # type: ignore[operator]
    assert str(caught.value) == message


def test_time_may_have_gone_by_before_the_slot_of_arrival_ends() -> None:
    assert Linear(10.0, 5.0, 1.5).values(5) == pytest.approx([7.0, 5.0, 3.0, 1.0, 0.0])
    assert Linear(10.0, 5.0, 1.5).log_value(1) == pytest.approx(math.log(5.0))
    assert Linear(10.0, 5.0, 1.5).target == 1.0
    assert Deadline(7.0, -0.5).values(2).tolist() == [0.0, 0.0]
    assert Sigmoid(8.0, 1.0, -1.0).values(1) == pytest.approx(8.0 / (1.0 + math.e))
