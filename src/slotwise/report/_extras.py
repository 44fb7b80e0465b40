"""Libraries that come with an extra."""

from __future__ import annotations

import importlib

from slotwise.errors import InvalidInput

__all__ = ["require"]


def require(module: str, what: str) -> None:
    """Check that a library of the extra ``plot`` is there; ``what`` needs it.

    Raises
    ------
    InvalidInput
        If not: it names the extra to install.
    """
    try:
        importlib.import_module(module)
    except ImportError:
        library = module.partition(".")[0]
        raise InvalidInput(f"{what} {library}, which is not there: pip install 'slotwise[plot]'") from None
