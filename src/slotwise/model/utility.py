"""What finishing a job is worth, as a function of the slots since it arrived."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidJob

__all__ = ["Deadline", "Linear", "Sigmoid", "Utility"]

_FLAT = 1e-300
"""Below this a utility is nothing: no payoff can be told from zero."""


_STEEPEST = 1e12
"""A steeper fall is none that can be told from a step."""


@runtime_checkable
class Utility(Protocol):
    """A non-increasing, non-negative value of finishing ``delay`` slots after arrival."""

    @property
    def target(self) -> float:
        """Delay in slots up to which finishing counts as in time (the baselines aim at it)."""
        ...

    def values(self, slots: int) -> npt.NDArray[np.float64]:
        """Return u(0) ... u(slots - 1): shape (slots,), >= 0, never rising, never NaN."""
        ...

    def log_value(self, delay: int) -> float:
        """Return ln u(delay), -inf where u is zero; finite even where u itself underflows."""
        ...


def _check(name: str, value: float, low: float, *, strict: bool) -> None:
    if not math.isfinite(value) or value < low or (strict and value == low):
        bound = f"{'>' if strict else '>='} {low:g} and finite" if math.isfinite(low) else "finite"
        raise InvalidJob(f"utility {name} must be {bound}, got {value!r}")


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """u(d) = value / (1 + exp(urgency (d - target))), the paper's utility (its theta 1, 2 and 3).

    Attributes
    ----------
    value : float
        What the job is worth well before its target, > 0.
    urgency : float
        Steepness per slot, 0 ... 1e12. With 0 the job is time-insensitive: u(d) = value / 2 at every d.
    target : float
        Delay in slots at which half of the value is left; negative if that is before the end of the slot of arrival.
    """

    value: float
    urgency: float
    target: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0.0, strict=True)
        _check("urgency", self.urgency, 0.0, strict=False)
        if self.urgency > _STEEPEST:
            raise InvalidJob(f"utility urgency must be <= {_STEEPEST:g}, got {self.urgency!r}")
        _check("target", self.target, -math.inf, strict=False)

    def values(self, slots: int) -> npt.NDArray[np.float64]:
        """Return u(0) ... u(slots - 1)."""
        exponent = np.minimum(self.urgency * (np.arange(slots, dtype=np.float64) - self.target), 709.0)
        values = self.value / (1.0 + np.exp(exponent))
        values[values < _FLAT] = 0.0
        values[exponent >= 700.0] = 0.0
        return values

    def log_value(self, delay: int) -> float:
        """Return ln u(delay)."""
        exponent = self.urgency * (delay - self.target)
        softplus = exponent + math.log1p(math.exp(-exponent)) if exponent > 0 else math.log1p(math.exp(exponent))
        return math.log(self.value) - softplus


@dataclass(frozen=True, slots=True)
class Linear:
    """u(d) falls in a straight line from ``value`` at once to nothing at ``end`` slots.

    Attributes
    ----------
    value : float
        What finishing at once would be worth, > 0.
    end : float
        Slots from arrival at which nothing is left, > 0.
    lag : float
        Slots that have gone by when the slot of arrival counts as delay 0, >= 0: 0 in the paper, 1 and more where time
        counts to the end of a slot.
    """

    value: float
    end: float
    lag: float = 0.0

    def __post_init__(self) -> None:
        _check("value", self.value, 0.0, strict=True)
        _check("end", self.end, 0.0, strict=True)
        _check("lag", self.lag, 0.0, strict=False)

    @property
    def target(self) -> float:
        """Half of the value is left here."""
        return self.end / 2.0 - self.lag

    def values(self, slots: int) -> npt.NDArray[np.float64]:
        """Return u(0) ... u(slots - 1)."""
        return self.value * np.maximum(0.0, 1.0 - (np.arange(slots, dtype=np.float64) + self.lag) / self.end)

    def log_value(self, delay: int) -> float:
        """Return ln u(delay)."""
        left = 1.0 - (delay + self.lag) / self.end
        return math.log(self.value) + math.log(left) if left > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class Deadline:
    """u(d) = value up to and including ``target`` slots, nothing later.

    Attributes
    ----------
    value : float
        What finishing in time is worth, > 0.
    target : float
        Last delay in slots that counts as in time; negative if even the end of the slot of arrival is too late.
    """

    value: float
    target: float

    def __post_init__(self) -> None:
        _check("value", self.value, 0.0, strict=True)
        _check("target", self.target, -math.inf, strict=False)

    def values(self, slots: int) -> npt.NDArray[np.float64]:
        """Return u(0) ... u(slots - 1)."""
        return np.where(np.arange(slots) <= self.target, self.value, 0.0)

    def log_value(self, delay: int) -> float:
        """Return ln u(delay)."""
        return math.log(self.value) if delay <= self.target else -math.inf
