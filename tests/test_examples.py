"""What the README and the examples show really runs."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars
import pytest
import yaml

import slotwise
from slotwise.cli import main

ROOT = Path(__file__).parents[1]


def test_demo_prints_a_table_and_writes_a_page(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples/demo.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert all(policy in run.stdout for policy in ("pdors", "oasis", "srtf", "fifo", "drf"))
    runs = polars.read_parquet(tmp_path / "demo/runs/runs.parquet")
    assert len(runs) == 25
    means = {row["policy"]: row for row in polars.read_csv(tmp_path / "demo/runs/summary.csv").to_dicts()}
    assert means["pdors"]["total_utility"] > 2 * means["fifo"]["total_utility"]
    assert means["pdors"]["unfinished"] == 0
    assert runs["fraction_of_bound"].is_between(0, 1).all()
    assert (tmp_path / "demo/runs/report.html").stat().st_size > 1_000_000


def test_python_of_the_readme_runs(tmp_path: Path) -> None:
    pages = (ROOT / "README.md").read_text() + (ROOT / "docs/library.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", pages, re.DOTALL)
    assert blocks
    for block in blocks:
        run = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr


def test_what_the_readme_shows_of_fit_and_quote_is_what_they_print(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (ROOT / "README.md").read_text()
    shown = readme[readme.index("slotwise fit examples/speeds.csv") : readme.index("Costs are in the unit of utility")]
    printed = ""
    for command in re.findall(r"slotwise ((?:fit|quote) .*)", shown):
        words = [str(ROOT / word) if word.startswith("examples/") else word for word in command.split()]
        assert main(words) == 0
        printed += capsys.readouterr().out
    lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith(("$", "```", "…"))]
    printed_lines = [line.rstrip() for line in printed.splitlines()]
    assert len(lines) > 10
    for line in lines[1:]:
        assert line in printed_lines


def test_the_commands_of_the_readme_run_the_policy_that_it_shows(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    found = re.search(r"^class ShortestFirst\(.*?\n\n\n", readme, re.DOTALL | re.MULTILINE)
    assert found is not None
    (tmp_path / "mine.py").write_text(f"import slotwise\n\n\n{found[0].rstrip()}\n")
    commands = [line.strip() for line in readme.splitlines() if line.startswith("    ") and "mine" in line]
    assert [command.split()[0] for command in commands] == ["slotwise", "slotwise", "python"]
    for command in commands:
        program, *words = shlex.split(command)
        called = [sys.executable, "-m", program] if program == "slotwise" else [sys.executable]
        run = subprocess.run([*called, *words], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert "mine:ShortestFirst" in run.stdout or program == "python"


def test_the_example_of_a_fitted_job_is_what_fit_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", str(ROOT / "examples/speeds.csv")]) == 0
    fitted = yaml.safe_load(capsys.readouterr().out)["speed"]
    assert yaml.safe_load((ROOT / "examples/fitted.yaml").read_text())["spec"]["speed"] == fitted


def test_every_public_name_can_be_imported() -> None:
    for name in slotwise.__all__:
        assert getattr(slotwise, name) is not None
