"""The solvers of the inner problem, one job in one slot, behind one shape; the planner does not know which it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.ledger import Ledger
from slotwise.optim.pricing import Prices
from slotwise.optim.relaxation import Reference
from slotwise.optim.request import Request
from slotwise.optim.slot import (
    ALL,
    Ceiling,
    Curves,
    Hints,
    Places,
    exact_curves,
    exact_places,
    sweep_curves,
    sweep_places,
)
from slotwise.words import one_of

__all__ = ["SOLVERS", "Exact", "SlotSolver", "Sweep", "solver"]

Ints = npt.NDArray[np.int64]

SOLVERS = ("sweep", "exact", "reference")
"""Every solver that ``solver`` knows."""


class SlotSolver(Protocol):
    """Solves the inner problem: one job in one slot."""

    name: str

    def curves(self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices) -> Curves:
        """Return the useful choices of ``count`` slots from ``first`` on."""
        ...

    def places(
        self, ledger: Ledger, slots: Ints, request: Request, choices: Ints, hints: Hints, prices: Prices
    ) -> Places:
        """Return the placements behind one choice of the curve of each slot, rising; ``hints`` is what curves say."""
        ...

    def figures(self) -> Mapping[str, float | None]:
        """Return what it counted; nothing for most."""
        ...


class _Kernels:
    """A solver that is a pair of compiled kernels and keeps nothing."""

    name: str
    _curves: Callable[..., Curves]
    _places: Callable[..., Places]

    def curves(self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices) -> Curves:
        """Return the useful choices of ``count`` slots from ``first`` on."""
        return self._curves(ledger.view, first, count, request.ask, prices)

    def places(
        self, ledger: Ledger, slots: Ints, request: Request, choices: Ints, hints: Hints, prices: Prices
    ) -> Places:
        """Return the placements behind one choice of the curve of each slot, rising; ``hints`` is what curves say."""
        return self._places(ledger.view, slots, request.ask, choices, hints, prices)

    def figures(self) -> Mapping[str, float | None]:
        """Return nothing."""
        return {}


class Sweep(_Kernels):
    """Machines in order of cost, the default."""

    name = "sweep"
    _curves = staticmethod(sweep_curves)
    _places = staticmethod(sweep_places)

    def curves(
        self, ledger: Ledger, first: int, count: int, request: Request, prices: Prices, ceiling: Ceiling = ALL
    ) -> Curves:
        """Return the useful choices of ``count`` slots from ``first`` on, below a ceiling."""
        return self._curves(ledger.view, first, count, request.ask, prices, ceiling)


class Exact(_Kernels):
    """Dynamic program over machines; its time grows with machines x workers x servers squared."""

    name = "exact"
    _curves = staticmethod(exact_curves)
    _places = staticmethod(exact_places)


def solver(
    name: str,
    *,
    seed: int = 0,
    delta: float = 0.1,
    gain: str | float = 1.0,
    attempts: int = 100,
    fallback: bool = True,
) -> SlotSolver:
    """Return the solver that ``--solver`` names.

    Parameters
    ----------
    name : str
        One of ``SOLVERS``.
    seed, delta, gain, attempts, fallback
        Of the reference, see there.

    Raises
    ------
    InvalidInput
        If there is none of that name, or a number is out of its bounds.
    """
    # Looked at whichever solver it is, so that a mistake never passes unnoticed.
    reference = Reference(seed, delta, gain, attempts, fallback=fallback)
    solvers: dict[str, SlotSolver] = {"sweep": Sweep(), "exact": Exact(), "reference": reference}
    if name not in solvers:
        raise InvalidInput(one_of("solver", SOLVERS, name))
    return solvers[name]
