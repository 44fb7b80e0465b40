"""Uniform numbers of many generators at once.

Each job of a trace draws from its own ``numpy.random.default_rng([seed, key])``. Making a million of them takes a
minute; here the same numbers come from arrays. Both algorithms are fixed: NumPy promises that the streams of
``SeedSequence`` and ``PCG64`` do not change.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["uniforms"]

_Word = npt.NDArray[np.uint32]
_Long = npt.NDArray[np.uint64]

_POOL = 4
_SHIFT = np.uint32(16)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_ONE = np.uint64(1)
# 47026247687942121848144207491837523525 in two words
_MULTIPLIER = (np.uint64(2549297995355413924), np.uint64(4865540595714422341))


def uniforms(seed: int, keys: npt.NDArray[np.uint32], count: int) -> npt.NDArray[np.float64]:
    """Return the first uniform numbers of ``default_rng([seed, key])`` for each key.

    Parameters
    ----------
    seed : int
        >= 0, the same for all.
    keys : (K,) uint32
        One for each generator.
    count : int
        How many of each.

    Returns
    -------
    (K, count) float64
        In [0, 1).
    """
    with np.errstate(over="ignore"):  # all of it is arithmetic modulo 2**32, 2**64
        pool = _pool(seed, keys.astype(np.uint32))
        words = _words(pool, 8)
        longs = [words[2 * i].astype(np.uint64) | (words[2 * i + 1].astype(np.uint64) << _HALF) for i in range(4)]
        high, low = longs[2], longs[3]
        increment = (high << _ONE) | (low >> np.uint64(63)), (low << _ONE) | _ONE
        state = _step(_sum(increment, (longs[0], longs[1])), increment)
        drawn = np.empty((len(keys), count))
        for i in range(count):
            state = _step(state, increment)
            mixed, turn = state[0] ^ state[1], state[0] >> np.uint64(58)
            back = np.remainder(np.uint64(64) - turn, np.uint64(64))
            turned = np.bitwise_or(mixed >> turn, mixed << back)
            drawn[:, i] = (turned >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


class _Hash:
    """The running hash of ``SeedSequence``."""

    def __init__(self, start: int, factor: int) -> None:
        self.constant, self.factor = start, factor

    def __call__(self, value: _Word) -> _Word:
        value = value ^ np.uint32(self.constant)
        self.constant = self.constant * self.factor & 0xFFFFFFFF
        value = value * np.uint32(self.constant)
        return value ^ (value >> _SHIFT)


def _pool(seed: int, keys: _Word) -> list[_Word]:
    words = [np.full_like(keys, seed >> shift & 0xFFFFFFFF) for shift in range(0, max(seed.bit_length(), 1), 32)]
    words.append(keys)
    hashed = _Hash(0x43B0D7E5, 0x931E8875)
    pool = [hashed(words[i] if i < len(words) else np.zeros_like(keys)) for i in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mixed(pool[target], hashed(pool[source]))
    for word in words[_POOL:]:
        pool = [_mixed(target, hashed(word)) for target in pool]
    return pool


def _mixed(one: _Word, other: _Word) -> _Word:
    value: _Word = np.uint32(0xCA01F9DD) * one - np.uint32(0x4973F715) * other
    return value ^ (value >> _SHIFT)


def _words(pool: list[_Word], count: int) -> list[_Word]:
    hashed = _Hash(0x8B51F9DD, 0x58F38DED)
    return [hashed(pool[i % _POOL]) for i in range(count)]


def _sum(one: tuple[_Long, _Long], other: tuple[_Long, _Long]) -> tuple[_Long, _Long]:
    low = one[1] + other[1]
    return one[0] + other[0] + (low < one[1]).astype(np.uint64), low


def _step(state: tuple[_Long, _Long], increment: tuple[_Long, _Long]) -> tuple[_Long, _Long]:
    """Return state * multiplier + increment, of 128 bits in two words."""
    high, low = state
    factor_high, factor_low = _MULTIPLIER
    a, b = low >> _HALF, low & _LOW
    c, d = factor_low >> _HALF, factor_low & _LOW
    middle = a * d + (b * d >> _HALF)
    other = b * c + (middle & _LOW)
    carried = a * c + (middle >> _HALF) + (other >> _HALF)
    product = carried + high * factor_low + low * factor_high, low * factor_low
    return _sum(product, increment)
