"""Experiments at the smallest scale: files, the same numbers again, and verdicts that can go both ways."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from slotwise.cli import main
from slotwise.report import results
from slotwise.report.experiments import grids, prices, small
from slotwise.report.experiments._base import Found, Scale
from slotwise.report.experiments.catalogue import EXPERIMENTS
from slotwise.report.figures import Line, Panel
from slotwise.report.plots import chart

NAMES = (
    "utility-vs-jobs", "utility-vs-machines", "utility-vs-horizon", "training-time", "google", "ratio", "gain-factor",
    "locality", "calibration",
)  # fmt: skip
POLICIES = ("pdors", "fifo", "drf")


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and small points; which they are does not matter here."""
    monkeypatch.setattr(prices, "JOBS", 15)
    monkeypatch.setattr(prices, "MACHINES", 5)
    monkeypatch.setattr(prices, "QUICK_GAINS", (0.8, 1.0))
    monkeypatch.setattr(prices, "QUICK_SCALES", (1e-2, 1e2))
    monkeypatch.setattr(small, "QUICK_SEEDS", 3)
    monkeypatch.setattr(small, "QUICK_SECONDS", 2.0)


def made(name: str, **given: Any) -> tuple[Found, int]:
    steps = 0

    def step() -> None:
        nonlocal steps
        steps += 1

    scale = Scale(quick=True, seeds=1 if name != "ratio" else 3, policies=POLICIES, processes=1, step=step, **given)
    return EXPERIMENTS[name].make(scale), steps


def test_all_of_the_paper_s_experiments_are_there() -> None:
    assert tuple(EXPERIMENTS) == NAMES


@pytest.mark.parametrize("name", ["utility-vs-machines", "training-time", "gain-factor", "locality", "calibration"])
def test_makes_as_many_runs_as_it_says_and_the_same_again(name: str) -> None:
    found, steps = made(name)
    again, _ = made(name)

    experiment = EXPERIMENTS[name]
    assert steps == experiment.runs(Scale(quick=True, seeds=1, policies=POLICIES))
    assert found.rows == again.rows
    assert found.digest == again.digest
    assert len(found.digest) == 16
    assert found.rows
    assert found.panels


def test_the_figure_shows_the_numbers_of_the_table() -> None:
    found, _ = made("utility-vs-machines")

    (panel,) = found.panels
    drawn = {(line.name, x): y for line in panel.lines for x, y in zip(line.xs, line.ys, strict=True)}
    for row in found.rows:
        assert drawn[row["policy"], row["x"]] == row["total_utility"]
        assert drawn["bound", row["x"]] == row["upper_bound"]
    assert len(drawn) == len(found.rows) + len({row["x"] for row in found.rows})


def test_a_ratio_is_against_the_optimum() -> None:
    found, steps = made("ratio")

    assert steps == 3
    for row in found.rows:
        assert row["best_found"] <= row["optimum"] * (1 + 1e-6)
        for way in small.WAYS:
            assert row[way.name] <= row["optimum"] * (1 + 1e-6) + 1e-9


def point(policy: str, utility: float, x: float = 1.0, std: float = 0.0, ahead: float | None = None) -> dict[str, Any]:
    """A mean of four runs; pdors is ``ahead`` of it by that, with a standard error of 1."""
    return {
        "panel": "p", "x": x, "policy": policy, "runs": 4, "total_utility": utility, "total_utility_std": std,
        "upper_bound": 12.0, "fraction_of_bound": utility / 12.0, "unfinished": 2.0 if policy == "fifo" else 0.0,
        "ahead": 10.0 - utility if ahead is None else ahead, "ahead_error": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "verdict", "says"),
    [
        ([point("pdors", 10.0), point("srtf", 5.0)], "agrees", "at 1 of 1 point pdors earns more than every other"),
        (
            [point("pdors", 10.0), point("srtf", 8.5)],
            "is undecided: ahead of all at 0 of 1 point, within the noise at 1",
            "Within the noise: p, 1 jobs (srtf 8.5, pdors",
        ),
        (
            [point("pdors", 10.0), point("srtf", 15.0)],
            "does not agree: behind at 1",
            "Behind: p, 1 jobs (srtf earns 15, pdors 10)",
        ),
        (
            [point("pdors", 10.0), point("fifo", 9.6)],
            "-",
            "since fifo earns 95 % of pdors or more: p, 1 jobs",
        ),
        (
            [point("pdors", 10.0), point("srtf", 5.0), point("pdors", 6.0, 2.0), point("srtf", 5.5, 2.0, ahead=0.5)],
            "agrees in part: ahead of all at 1 of 2 points, within the noise at 1, it does not always rise",
            "Falls from point to point: p, 2 jobs (6 after 10).",
        ),
        # A standard error of 4 / sqrt(4) is no fall.
        (
            [point("pdors", 10.0, std=4.0), point("srtf", 5.0), point("pdors", 8.5, 2.0), point("srtf", 5.0, 2.0)],
            "agrees",
            "at 2 of 2 points",
        ),
    ],
)
def test_the_verdict_follows_from_the_numbers(rows: list[dict[str, Any]], verdict: str, says: str) -> None:
    measured, agrees = grids.judge(rows, "jobs", rises=True)

    assert agrees == verdict
    assert says in measured


def test_who_does_not_finish_is_named() -> None:
    measured, _ = grids.judge([point("pdors", 10.0), point("fifo", 5.0)], "jobs", rises=False)

    assert "did not finish, at the worst point in the mean run: fifo 2" in measured


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        ((5.0, 5.0), "agrees"),
        ((5.0, 20.0), "agrees in part: of jobs that are let in"),
        ((11.0, 20.0), "does not agree"),
        ((None, 20.0), "-"),
    ],
)
def test_training_times_are_judged_with_and_without_those_turned_away(
    own: tuple[float | None, float], verdict: str
) -> None:
    rows: list[dict[str, Any]] = [
        {"policy": "pdors", "training_slots_median": own[0], "offered_slots_median": own[1]},
        {"policy": "drf", "training_slots_median": 10.0, "offered_slots_median": 10.0},
    ]
    assert grids.judge_training(rows).startswith(verdict)


@pytest.mark.parametrize(
    ("feasible", "packs", "covers", "verdict"),
    [
        ((0.1, 0.5, 0.2), (1.0, 0.5, 0.1), (0.1, 0.5, 1.0), "agrees"),
        ((0.6, 0.5, 0.2), (1.0, 0.5, 0.1), (0.1, 0.5, 1.0), "agrees in part: the best gain is 0.5"),
        ((0.1, 0.5, 0.2), (0.1, 0.5, 1.0), (0.1, 0.5, 1.0), "agrees in part: the best gain is 1, and no trade"),
        ((0.6, 0.5, 0.2), (0.1, 0.5, 1.0), (0.1, 0.5, 1.0), "does not agree"),
    ],
)
def test_gains_are_judged_by_both_halves_of_the_claim(
    feasible: tuple[float, ...], packs: tuple[float, ...], covers: tuple[float, ...], verdict: str
) -> None:
    rows = [
        {"gain": gain, "feasible": f, "packs": p, "covers": c}
        for gain, f, p, c in zip((0.5, 1.0, 1.5), feasible, packs, covers, strict=True)
    ]
    assert prices.judge_gains(rows).startswith(verdict)


def test_writes_figure_table_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["reproduce", "calibration", "--quick", "--seeds", "1", "--processes", "1", "--out", str(tmp_path)]) == 0
    )

    assert "calibration: " in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"calibration.{e}" for e in ("csv", "md", "png", "svg")]
    rows = list(csv.DictReader((tmp_path / "calibration.csv").read_text().splitlines()))
    assert [row["prices"] for row in rows] == ["scale=0.01", "scale=100", "literal", "learnt"]
    page = (tmp_path / "calibration.md").read_text()
    for part in ("**Claim.**", "**Measured.**", "**Verdict.**", "Digest of the workloads", "slotwise reproduce"):
        assert part in page
    assert ElementTree.parse(tmp_path / "calibration.svg").getroot().tag.endswith("svg")
    assert (tmp_path / "calibration.png").read_bytes().startswith(b"\x89PNG")


def test_json_has_claim_measurement_verdict_and_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["locality", "--quick", "--seeds", "1", "--processes", "1", "--out", str(tmp_path), "--json"]
    assert main(["reproduce", *arguments]) == 0

    (report,) = json.loads(capsys.readouterr().out)
    assert report["name"] == "locality"
    assert report["verdict"].startswith(("agrees", "does not agree", "is undecided"))
    assert {row["where"] for row in report["rows"]} == {"one machine only", "spread only", "both"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name an experiment"),
        (["ratio", "--all"], "one of the two"),
        (["figure-9"], "experiment must be one of"),
        (["ratio", "--seeds", "0"], "--seeds must be >= 1, got 0"),
        (["google", "--policies", "best"], "--policies must be of"),
        (["google", "--processes", "0"], "--processes must be >= 1, got 0"),
        (["google", "--out", __file__], "--out must be a folder that can be written"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["reproduce", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert says in captured.err


def test_lists_the_experiments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in NAMES)


def test_a_chart_is_the_same_file_for_the_same_numbers() -> None:
    curves = Panel("curves", "x", "y", [Line("a", [1.0, 2.0], [1.0, None], [0.1, 0.1]), Line("bound", [1, 2], [3, 3])])
    bars = Panel("bars", "", "y", [Line("a", ["fifo", "drf"], [2.0, None])], bars=True)

    assert chart("title", [curves, bars], "svg") == chart("title", [curves, bars], "svg")
    assert chart("title", [curves, bars], "svg") != chart("title", [bars, curves], "svg")


def test_an_index_lists_verdicts() -> None:
    found = Found([], [], "", "agrees in part: at 1 of 2 points", "0" * 16)

    text = results.index([(EXPERIMENTS["google"], found)], "slotwise reproduce --all")

    assert "[google](google.md)" in text
    assert "agrees in part: at 1 of 2 points." in text
