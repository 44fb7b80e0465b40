from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotwise import words


def test_the_examples_hold() -> None:
    assert doctest.testmod(words).failed == 0


@given(st.floats(1e-6, 1e14), st.integers(2, 6))
def test_an_amount_has_no_exponent_and_so_many_digits(value: float, digits: int) -> None:
    text = words.amount(value, digits)
    assert "e" not in text
    assert float(text) == pytest.approx(value, rel=0.6 * 10 ** (1 - digits))
    assert words.amount(-value, digits) == f"-{text}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.99996, "10"), (0.99996, "1"), (1e-6, "0.000001"), (99999.6, "100000"), (1e300, "1e+300"), (-0.0, "0")],
)
def test_amounts_at_the_edges(value: float, text: str) -> None:
    assert words.amount(value) == text


def test_what_is_no_text_has_no_hint() -> None:
    assert words.hint(None, ["pdors"]) == words.hint(7, ["pdors"]) == words.hint("", ["pdors"]) == ""


def test_texts_that_differ_in_words_or_names_are_told_apart() -> None:
    texts = ["needs 2 a100 on one machine", "needs 3 a100 on one machine", "needs 3 h100 on one machine"]
    assert words.merged([*texts, "a # of its own", "a 3 of its own"]) == {
        "needs 2 to 3 a100 on one machine": 2,
        "needs 3 h100 on one machine": 1,
        "a # of its own": 1,
        "a 3 of its own": 1,
    }


def test_amounts_are_compared_as_numbers() -> None:
    found = words.merged(
        f"needs {amount} storage on one machine, the cluster has none" for amount in ("10", "5", "7.5")
    )
    assert found == {"needs 5 to 10 storage on one machine, the cluster has none": 3}
