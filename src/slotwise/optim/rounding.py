"""Randomized rounding of a relaxation: what it is scaled by first, one draw, and what the draws of a run came to."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Rounding", "covering_gain", "draw", "packing_gain", "textbook_gain"]

Floats = npt.NDArray[np.float64]


def packing_gain(rows: int, ratio: float, delta: float) -> float:
    """Return the gain at which all packing rows hold with probability >= 1 - delta / 3.

    The root in (0, 1] of G - 1 - ln G = ln(3 m_b / delta) / W_b, from the Chernoff bound of the upper tail.

    Parameters
    ----------
    rows : int
        m_b, >= 1.
    ratio : float
        W_b, least ratio of a right side to a coefficient of its row, > 0.
    delta : float
        In (0, 1].
    """
    wanted = math.log(3.0 * rows / delta) / ratio
    # Left of the root the function falls and is convex: Newton's steps from there never pass it.
    gain = math.exp(-1.0 - wanted)
    for _ in range(100):
        step = (gain - 1.0 - math.log(gain) - wanted) / (1.0 - 1.0 / gain)
        gain -= step
        if abs(step) <= 1e-15 * gain:
            break
    return min(gain, 1.0)


def covering_gain(rows: int, ratio: float, delta: float) -> float:
    """Return the gain at which all covering rows hold with probability >= 1 - delta / 3.

    G = 1 + k / 2 + sqrt(k + k^2 / 4) with k = 2 ln(3 m_a / delta) / W_a, from the Chernoff bound of the lower tail.

    Parameters
    ----------
    rows : int
        m_a, >= 1.
    ratio : float
        W_a, least ratio of a right side to a coefficient of its row, > 0.
    delta : float
        In (0, 1].
    """
    k = 2.0 * math.log(3.0 * rows / delta) / ratio
    return 1.0 + k / 2.0 + math.sqrt(k + k * k / 4.0)


def textbook_gain(rows: int, ratio: float, delta: float) -> float:
    """Return the packing gain of textbooks, which holds only for G >= 1/2, that is for W_b >= 6 ln(m_b / delta).

    G = 1 + k / 2 - sqrt(k + k^2 / 4) with k = 3 ln(m_b / delta) / W_b. With the few workers that a machine holds,
    it promises more than it keeps.

    Parameters
    ----------
    rows, ratio, delta
        As for ``packing_gain``.
    """
    k = 3.0 * math.log(rows / delta) / ratio
    return 1.0 + k / 2.0 - math.sqrt(k + k * k / 4.0)


def draw(values: Floats, attempts: int, rng: np.random.Generator) -> Floats:
    """Round each value up with probability equal to its fraction, down otherwise.

    Parameters
    ----------
    values : (n,) float64
        Scaled solution of a relaxation, >= 0.
    attempts : int
        Draws, >= 1.
    rng : numpy.random.Generator
        Source of chance.

    Returns
    -------
    (attempts, n) float64
        Whole numbers.
    """
    # What the solver left a little below a whole number is that number.
    whole = np.floor(values + 1e-9)
    return whole + (rng.random((attempts, len(values))) < values - whole)


@dataclass(slots=True)
class Rounding:
    """What the roundings of a run came to.

    Attributes
    ----------
    relaxations : int
        Relaxations solved that have a solution.
    attempts : int
        Draws looked at.
    packing, covering : int
        Those of them that held all packing rows, and all covering rows.
    feasible : int
        Relaxations for which some draw held both sides.
    fallbacks : int
        Relaxations for which none did and the sweep found a placement.
    excess : float
        Sum over the feasible of (cost of the draw, cut back) / (cost of the relaxation) - 1.
    """

    relaxations: int = 0
    attempts: int = 0
    packing: int = 0
    covering: int = 0
    feasible: int = 0
    fallbacks: int = 0
    excess: float = 0.0

    def figures(self) -> dict[str, float | None]:
        """Return the counts, and the mean cost over the relaxation; None where nothing was feasible."""
        return {
            "relaxations": self.relaxations,
            "attempts": self.attempts,
            "packing": self.packing,
            "covering": self.covering,
            "feasible": self.feasible,
            "fallbacks": self.fallbacks,
            "cost_over_relaxation": self.excess / self.feasible if self.feasible else None,
        }
