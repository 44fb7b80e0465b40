"""Files that are whole or not there, and what a terminal shows while a command works."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import IO, TYPE_CHECKING

from slotwise.errors import InvalidInput

if TYPE_CHECKING:
    from slotwise.events import Command, Event

__all__ = ["event_log", "progress", "whole_file", "working"]

PATIENCE = 5.0
"""Seconds after which something is said that takes longer than it mostly does."""


@contextmanager
def whole_file(path: Path, option: str, reads: Sequence[str | None] = ()) -> Iterator[IO[str]]:
    """Write to a file of its own beside the wanted one, and move it there only when all is written.

    What exists and is no regular file (a pipe, a device) is written to directly: a move would replace it. A link stays
    one, and what it points to is replaced.

    Parameters
    ----------
    path : Path
        Where to.
    option : str
        That named it, for errors.
    reads : sequence of str
        Files that the command reads, which it must not overwrite.
    """
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # links that go round in a circle
        raise InvalidInput(f"{option} must be a file that can be written, got {str(path)!r}") from None
    if any(given is not None and Path(given).exists() and target == Path(given).resolve() for given in reads):
        raise InvalidInput(f"{option} must not be a file that is read, got {str(path)!r}")
    direct = target.exists() and not target.is_file()
    part = target
    try:
        if direct:
            stream: IO[str] = target.open("w", encoding="utf-8")
        else:
            handle, name = tempfile.mkstemp(prefix=target.name + ".", suffix=".part", dir=target.parent)
            part, stream = Path(name), os.fdopen(handle, "w", encoding="utf-8")
            part.chmod(target.stat().st_mode if target.exists() else 0o666 & ~_mask())
    except OSError as error:
        reason = f"{option} must be a file that can be written, got {str(path)!r}: {error.strerror}"
        raise InvalidInput(reason) from None
    try:
        with stream:
            yield stream
        if not direct:
            os.replace(part, target)
    finally:
        if not direct:
            part.unlink(missing_ok=True)


def _mask() -> int:
    """Return the mask of the process, which a file made by ``mkstemp`` does not follow."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def event_log(path: Path, reads: Sequence[str | None]) -> Iterator[Callable[[Event | Command], None]]:
    """Write events and commands to a file, one JSON object a line."""
    from slotwise.events import record

    with whole_file(path, "--events", reads) as stream:
        yield lambda item: print(json.dumps(record(item), separators=(",", ":")), file=stream)


@contextmanager
def working(label: str, compiled_for: str = "") -> Iterator[None]:
    """Say what is being done: in a terminal while it is, elsewhere once if it takes long.

    Parameters
    ----------
    label : str
        What that is.
    compiled_for : str
        Whom kernels are compiled for, which is said instead as soon as one is.
    """
    whom = f" for {compiled_for}" if compiled_for else ""
    news = f"compiling kernels{whom}, a minute or two (they are kept; other commands and policies may need more)"
    said = [label]
    if not sys.stderr.isatty():
        patience = Timer(PATIENCE, lambda: print(f"slotwise: {said[-1]} ...", file=sys.stderr, flush=True))
        patience.daemon = True
        patience.start()
        try:
            with _when_compiling(lambda: said.append(news)):
                yield
        finally:
            patience.cancel()
        return
    from rich.console import Console

    with Console(stderr=True).status(label) as status, _when_compiling(lambda: status.update(news)):
        yield


@contextmanager
def _when_compiling(then: Callable[[], None]) -> Iterator[None]:
    """Do something whenever a kernel is compiled that was not found on disk."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: object) -> None:
            then()

        def on_end(self, event: object) -> None:
            pass

    with event.install_listener("numba:compile", Listener()):
        yield


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None] | None]:
    """Show a bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)
