import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise.errors import InvalidInput
from slotwise.units import GRAIN, LARGEST_AMOUNT, duration, grain_of, grains, quantity, rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10min", 600.0),
        ("1.5h", 5400.0),
        ("2 d", 172800.0),
        ("250ms", 0.25),
        ("90", 90.0),
        (90, 90.0),
        ("3m", 180.0),
        ("-5s", -5.0),
        (" 1e2 s ", 100.0),
    ],
)
def test_duration_is_in_seconds(text: object, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "resource", "amount"),
    [
        ("500m", "cpu", 0.5),
        (4, "cpu", 4.0),
        ("16Gi", "memory", 16.0),
        ("512Mi", "memory", 0.5),
        ("1Ti", "storage", 1024.0),
        ("2G", "memory", 2e9 / 2**30),
        (2, "memory", 2.0),
        ("2k", "gpu", 2000.0),
        ("0", "gpu", 0.0),
    ],
)
def test_quantity_follows_kubernetes(value: object, resource: str, amount: float) -> None:
    assert quantity(value, resource) == pytest.approx(amount)


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("5Gbps", 625.0), ("50Gbps", 6250.0), ("100", 100.0), ("2GB/s", 2000.0), ("8Mbps", 1.0), (7.5, 7.5)],
)
def test_rate_is_in_megabytes_a_second(text: object, megabytes: float) -> None:
    assert rate(text) == pytest.approx(megabytes)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: duration("10 parsecs", "arrival"), "arrival must be in ms, s, min, h or d, got '10 parsecs'"),
        (lambda: duration("soon", "arrival"), "arrival must be a number with an optional unit, got 'soon'"),
        (lambda: duration(True, "arrival"), "arrival must be a number or a text such as '10', got True"),
        (lambda: duration([1], "arrival"), "arrival must be a number or a text such as '10', got [1]"),
        (lambda: duration(math.nan, "arrival"), "arrival must be finite, got nan"),
        (lambda: duration("1e308d", "arrival"), "arrival must be finite, got '1e308d'"),
        (lambda: duration(10**400), "duration must be finite, got a number of more than 308 digits"),
        (lambda: quantity("-1", "gpu"), "gpu must be >= 0, got '-1'"),
        (lambda: quantity("2e9", "gpu"), "gpu must be <= 1e+08, got '2e9'"),
        (lambda: quantity("16Gi", "cpu"), "cpu must be a number with one of the units m, k, M, G, got '16Gi'"),
        (
            lambda: quantity("500m", "memory"),
            "memory must be a number with one of the units Ki, Mi, Gi, Ti, k, M, G, T, got '500m'",
        ),
        (lambda: rate("0"), "bandwidth must be > 0, got '0'"),
        (lambda: rate("5 Gi"), "bandwidth must be in MB/s, GB/s, Mbps, Gbps or Tbps, got '5 Gi'"),
        (lambda: rate("1e308Tbps"), "bandwidth must be finite, got '1e308Tbps'"),
    ],
)
def test_refuses_with_value_and_bound(call: object, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value) == message


@given(st.text() | st.integers() | st.floats() | st.booleans() | st.none())
def test_any_value_is_a_finite_number_or_bad_input(value: object) -> None:
    for read in (duration, rate, lambda v: quantity(v, "memory"), lambda v: quantity(v, "cpu")):
        try:
            number = read(value)
        except InvalidInput:
            continue
        assert math.isfinite(number)


def test_ten_tenths_fill_one() -> None:
    assert grains(0.1) * 10 == grains(1.0)
    assert grains(0.1 + 0.2) == grains(0.3) == 300_000


def test_three_thirds_fit_one() -> None:
    assert grains(1 / 3) == 333_333
    assert grains(1 / 3) * 3 <= grains(1.0)


@pytest.mark.parametrize(
    ("count", "part", "whole"), [(1, "16G", "16G"), (2, "8G", "16G"), (8, "64G", "512G"), (4, "512Mi", "2Gi")]
)
def test_memory_fills_up_in_decimal_and_in_binary_units(count: int, part: str, whole: str) -> None:
    grain = grain_of("memory")
    assert count * grains(quantity(part, "memory"), grain) == grains(quantity(whole, "memory"), grain)


def test_what_is_not_zero_counts_as_a_grain_at_least() -> None:
    assert grains([0.0, 1e-12, GRAIN]).tolist() == [0.0, 1.0, 1.0]


@given(st.floats(0, LARGEST_AMOUNT), st.sampled_from(["gpu", "memory"]))
def test_grains_are_whole_exact_and_within_one_of_the_amount(amount: float, resource: str) -> None:
    grain = grain_of(resource)
    counted = float(grains(amount, grain))
    assert counted == np.floor(counted) < 2**53
    assert abs(counted * grain - amount) <= grain + 1e-15 * amount


@given(st.integers(0, 10**8))
def test_whole_amounts_are_exact(amount: int) -> None:
    assert grains(amount) == amount * 1_000_000
