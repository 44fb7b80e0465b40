"""What the README and the examples show really runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import slotwise

ROOT = Path(__file__).parents[1]


def test_demo_prints_a_table_and_writes_its_summary(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples/demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(policy in run.stdout for policy in ("pdors", "fifo", "drf"))
    summary = json.loads((tmp_path / "demo/summary.json").read_text())
    assert len(summary["runs"]) == 15
    assert summary["means"]["pdors"]["total_utility"] > 2 * summary["means"]["fifo"]["total_utility"]
    assert summary["means"]["pdors"]["unfinished"] == 0
    assert all(0 < run["fraction_of_bound"] <= 1 for run in summary["runs"])


def test_python_of_the_readme_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr


def test_every_public_name_can_be_imported() -> None:
    for name in slotwise.__all__:
        assert getattr(slotwise, name) is not None
