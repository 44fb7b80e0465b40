from __future__ import annotations

import numpy as np
import pytest

from slotwise.workloads._draws import uniforms


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**70 + 5, 2**200])
def test_numbers_are_those_of_a_generator_for_each_key(seed: int) -> None:
    keys = np.random.default_rng(1).integers(0, 2**32, 200, dtype=np.uint32)
    keys[:3] = 0, 1, 2**32 - 1
    expected = [np.random.default_rng([seed, int(key)]).random(5) for key in keys]
    assert uniforms(seed, keys, 5).tolist() == np.array(expected).tolist()


def test_no_keys_are_no_numbers() -> None:
    assert uniforms(0, np.empty(0, dtype=np.uint32), 5).shape == (0, 5)
