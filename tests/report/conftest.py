from __future__ import annotations

from pathlib import Path

import pytest

from slotwise.cli import main

POLICIES = ("pdors", "drf", "fifo")


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small comparison: three policies, two seeds, page and figures."""
    out = tmp_path_factory.mktemp("compared") / "out"
    command = ["compare", "--workload", "paper", "--jobs", "50", "--machines", "8", "--seeds", "2", "--processes", "1"]
    assert main([*command, "--policies", ",".join(POLICIES), "--out", str(out), "--figures"]) == 0
    return out
