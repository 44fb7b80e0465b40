from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines (or bytes as they are) to a file whose name says nothing."""

    def write(*lines: str | bytes, end: str = "\n", name: str = "input") -> Path:
        path = tmp_path / name
        data = b"".join(line if isinstance(line, bytes) else (line + end).encode() for line in lines)
        path.write_bytes(data)
        return path

    return write


@pytest.fixture
def traces() -> Path:
    """The folder with the public traces."""
    root = Path(__file__).parents[1]
    folder = Path(os.environ.get("SLOTWISE_TRACES", root / ".." / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip(f"the public traces are not at {folder}; SLOTWISE_TRACES names their folder")
    return folder
