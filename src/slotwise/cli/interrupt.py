"""Ctrl-C, and being asked to end."""

from __future__ import annotations

import signal
import sys
from types import FrameType

__all__ = ["done", "listen"]

_AGAIN = 0.02
"""Seconds until a signal that came at a bad time is looked at again."""


def listen() -> None:
    """Raise KeyboardInterrupt on Ctrl-C, and when whoever runs us asks us to end, so that we tidy up."""
    sys.unraisablehook = _unraisable
    for number in (signal.SIGINT, signal.SIGTERM, *([signal.SIGALRM] if hasattr(signal, "SIGALRM") else [])):
        signal.signal(number, _stop)


def done() -> None:
    """Ignore being asked from now on: nothing is left to stop."""
    _at_once()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _stop(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        # What calls the compiler, or is called by it, may crash of an exception.
        if "llvmlite" in frame.f_code.co_filename and _later():
            return
        frame = frame.f_back
    _at_once()
    raise KeyboardInterrupt


def _unraisable(told: sys.UnraisableHookArgs, /) -> None:
    """Try again if the interrupt came where no exception can leave, such as a finalizer."""
    if not (issubclass(told.exc_type, KeyboardInterrupt) and _later()):
        sys.__unraisablehook__(told)


def _at_once() -> None:
    """Forget that ``_stop`` was to be called again."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def _later() -> bool:
    """Have ``_stop`` called again soon; return whether this system can."""
    if not hasattr(signal, "setitimer"):
        return False
    signal.setitimer(signal.ITIMER_REAL, _AGAIN)
    return True
