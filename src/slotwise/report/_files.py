"""Files that are whole or as they were before."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from polars.exceptions import PolarsError

__all__ = ["fill_whole", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file."""
    fill_whole(path, lambda part: part.write_bytes(content))


def fill_whole(path: Path, fill: Callable[[Path], object]) -> None:
    """Let ``fill`` write another file beside it, which then takes its place."""
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    os.close(handle)
    part = Path(name)
    try:
        try:
            fill(part)
        except PolarsError as error:
            # A full disk, mostly.
            raise OSError(errno.EIO, f"{path} cannot be written: {error}") from None
        mask = os.umask(0)
        os.umask(mask)
        part.chmod(0o666 & ~mask)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
