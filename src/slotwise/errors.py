"""Exceptions raised by slotwise; every message says what, where, which value and which bound."""

from __future__ import annotations

__all__ = [
    "InvalidCluster",
    "InvalidInput",
    "InvalidJob",
    "InvalidTrace",
    "Overcommitted",
    "SlotwiseError",
    "SolverFailed",
]


class SlotwiseError(Exception):
    """Base of every error that slotwise raises on purpose."""


class InvalidInput(SlotwiseError):
    """Something the user gave cannot be used; the command line answers with exit code 2."""


class InvalidJob(InvalidInput):
    """A job description breaks a rule of the model."""


class InvalidCluster(InvalidInput):
    """A cluster description breaks a rule of the model."""


class InvalidTrace(InvalidInput):
    """A trace file cannot be read."""


class Overcommitted(SlotwiseError):
    """A commitment asks a machine for more than it has left; nothing was changed."""


class SolverFailed(SlotwiseError):
    """The LP or MILP solver ended in a way that says nothing of the program it was given."""
