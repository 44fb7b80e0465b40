"""Quantities as people write them ('16Gi', '500m', '10min', '5Gbps') to plain floats.

Inside slotwise time is a whole number of slots, a duration outside is in seconds, a bandwidth in MB/s
(10^6 bytes), memory and storage in GiB, and every other resource in its own unit.
"""

from __future__ import annotations

import math
import re

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput

__all__ = [
    "BYTE_GRAIN",
    "GRAIN",
    "LARGEST_AMOUNT",
    "duration",
    "grain_of",
    "grains",
    "quantity",
    "rate",
    "significant",
]

GRAIN = 1e-6
"""Smallest amount of a resource that is told apart. Ledgers count whole grains, so sums are exact."""

BYTE_GRAIN = 2.0**-24
"""The same for memory and storage, in GiB: 64 bytes."""

LARGEST_AMOUNT = 1e8
"""Largest amount of a resource on one machine or in one demand: below 2**53 grains."""

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([A-Za-z/]*)\s*")

_SECONDS = {
    "": 1.0,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
    "hours": 3600.0,
    "d": 86400.0,
    "day": 86400.0,
    "days": 86400.0,
}
_DECIMAL = {"m": 1e-3, "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_BYTES_PER_SECOND = {
    "": 1e6,
    "MB/s": 1e6,
    "MBps": 1e6,
    "GB/s": 1e9,
    "GBps": 1e9,
    "Mbps": 1e6 / 8,
    "Gbps": 1e9 / 8,
    "Tbps": 1e12 / 8,
}
_IN_BYTES = frozenset({"memory", "storage"})


def _split(value: object, what: str) -> tuple[float, str]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise InvalidInput(f"{what} must be a number or a text such as '10', got {value!r}")
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value)
        if match is None:
            raise InvalidInput(f"{what} must be a number with an optional unit, got {value!r}")
        number, suffix = float(match[1]), match[2]
    else:
        try:
            number, suffix = float(value), ""
        except OverflowError:
            raise InvalidInput(f"{what} must be finite, got a number of more than 308 digits") from None
    if not math.isfinite(number):
        raise InvalidInput(f"{what} must be finite, got {value!r}")
    return number, suffix


def duration(value: object, what: str = "duration") -> float:
    """Read a duration.

    Parameters
    ----------
    value : str, int or float
        Seconds, or a number with ms, s, m, min, h or d: ``'10min'``, ``'1.5h'``, ``90``.
    what : str
        Name of the field, for the error.

    Returns
    -------
    float
        Seconds, any sign.

    Raises
    ------
    InvalidInput
        If it is not a number or its unit is unknown.

    Examples
    --------
    >>> duration("10min")
    600.0
    """
    number, suffix = _split(value, what)
    if suffix not in _SECONDS:
        raise InvalidInput(f"{what} must be in ms, s, min, h or d, got {value!r}")
    seconds = number * _SECONDS[suffix]
    if not math.isfinite(seconds):
        raise InvalidInput(f"{what} must be finite, got {value!r}")
    return seconds


def quantity(value: object, resource: str, what: str | None = None) -> float:
    """Read an amount of a resource in the notation of Kubernetes.

    Parameters
    ----------
    value : str, int or float
        ``'500m'`` is 0.5; for memory and storage ``'16Gi'``, ``'512Mi'`` or ``'2G'`` are bytes and come
        out in GiB, while a bare number already is GiB.
    resource : str
        Name of the resource; memory and storage are measured in GiB.
    what : str, optional
        Name of the field, for the error.

    Returns
    -------
    float
        The amount, >= 0.

    Raises
    ------
    InvalidInput
        If it is not a number, is negative, above 1e8 or its unit is unknown.

    Examples
    --------
    >>> quantity("16Gi", "memory"), quantity("500m", "cpu")
    (16.0, 0.5)
    """
    what = resource if what is None else what
    number, suffix = _split(value, what)
    if resource in _IN_BYTES and suffix:
        factor = (_BINARY | _DECIMAL).get(suffix)
        amount = number * factor / 2.0**30 if factor is not None and suffix != "m" else None
    else:
        factor = _DECIMAL.get(suffix)
        amount = number * factor if factor is not None else None
    if amount is None:
        units = "Ki, Mi, Gi, Ti, k, M, G, T" if resource in _IN_BYTES else "m, k, M, G"
        raise InvalidInput(f"{what} must be a number with one of the units {units}, got {value!r}")
    if amount < 0:
        raise InvalidInput(f"{what} must be >= 0, got {value!r}")
    if amount > LARGEST_AMOUNT:
        raise InvalidInput(f"{what} must be <= {LARGEST_AMOUNT:g}, got {value!r}")
    return amount


def rate(value: object, what: str = "bandwidth") -> float:
    """Read a bandwidth.

    Parameters
    ----------
    value : str, int or float
        MB/s, or a number with MB/s, GB/s, Mbps, Gbps or Tbps.
    what : str
        Name of the field, for the error.

    Returns
    -------
    float
        MB/s (10^6 bytes a second), > 0.

    Raises
    ------
    InvalidInput
        If it is not a number, not positive or its unit is unknown.

    Examples
    --------
    >>> rate("5Gbps")
    625.0
    """
    number, suffix = _split(value, what)
    if suffix not in _BYTES_PER_SECOND:
        raise InvalidInput(f"{what} must be in MB/s, GB/s, Mbps, Gbps or Tbps, got {value!r}")
    if number <= 0:
        raise InvalidInput(f"{what} must be > 0, got {value!r}")
    amount = number * (_BYTES_PER_SECOND[suffix] / 1e6)
    if not math.isfinite(amount):
        raise InvalidInput(f"{what} must be finite, got {value!r}")
    return amount


def grain_of(resource: str) -> float:
    """Return the grain of a resource in its own unit: 64 bytes of memory and storage, else a millionth.

    Ki, Mi and Gi as well as whole M and G are whole numbers of 64 bytes, so that two workers of 8G fill 16G.
    """
    return BYTE_GRAIN if resource in _IN_BYTES else GRAIN


def grains(amounts: npt.ArrayLike, grain: float | npt.NDArray[np.float64] = GRAIN) -> npt.NDArray[np.float64]:
    """Return amounts in whole grains, to the nearest; what is not zero counts as one grain at least.

    Parameters
    ----------
    amounts : array_like
        In the resource's unit, in 0 ... ``LARGEST_AMOUNT``.
    grain : float or (R,) float64
        Of the resource, or of each resource along the last axis.

    Returns
    -------
    ndarray of float64
        Whole numbers below 2**53, so that sums and differences of them are exact.
    """
    exact = np.asarray(amounts, dtype=np.float64)
    return np.asarray(np.maximum(np.round(exact / grain), exact > 0))


def significant(value: float) -> float:
    """Return a number rounded to 12 significant digits, so that a change of units and back gives the same number."""
    return float(f"{value:.12g}")
