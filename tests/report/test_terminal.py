"""A plan as text, against plans written by hand."""

from __future__ import annotations

import io

from rich.console import Console

from slotwise.report.terminal import print_plan
from slotwise.sim.stays import Stay


def printed(stays: list[Stay], jobs: list[str], machines: list[str], horizon: int, width: int = 60) -> list[str]:
    stream = io.StringIO()
    print_plan(
        stays, jobs, machines, horizon, Console(file=stream, width=width, force_terminal=True, color_system=None)
    )
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_letters_say_who_runs_where() -> None:
    stays = [
        Stay("late", 0, 0, 1, 2, 0),
        Stay("early", 0, 2, 3, 0, 1),  # servers only
        Stay("early", 1, 1, 1, 1, 1),
        Stay("late", 1, 1, 2, 3, 0),  # more than the other there
    ]

    lines = printed(stays, ["never", "early", "late"], ["m0", "big"], 5)

    assert lines[:3] == [
        "    slots 0 to 3; nothing runs later, up to slot 4",
        "m0  BBaa",
        "big ·BB·",
    ]
    # Jobs that never ran take no letter.
    assert lines[4] == "A early  B late"


def test_many_slots_and_machines_are_grouped() -> None:
    stays = [Stay("a", 0, 0, 99, 1, 0), Stay("b", 1, 0, 99, 2, 0), Stay("c", 99, 90, 99, 1, 0)]

    lines = printed(stays, ["a", "b", "c"], [f"m{at}" for at in range(100)], 100, width=30)

    assert lines[0].strip() == "slots 0 to 99 (3 machines a row, 5 slots a column)"
    assert lines[1].split() == ["m0", "...", "B" * 20]
    assert lines[34].split() == ["m99", "·" * 18 + "CC"]
    assert all(len(line) <= 30 for line in lines[1:35])


def test_equal_jobs_go_by_arrival_and_an_empty_plan_says_so() -> None:
    stays = [Stay("b", 0, 0, 0, 1, 0), Stay("a", 0, 0, 0, 1, 0)]
    assert printed(stays, ["a", "b"], ["m"], 1)[1] == "m A"
    assert "nothing runs" in printed([], ["a"], ["m"], 3)


def test_more_jobs_than_letters_are_told() -> None:
    jobs = [f"j{at}" for at in range(30)]
    lines = printed([Stay(job, 0, at, at, 1, 0) for at, job in enumerate(jobs)], jobs, ["m"], 30)
    assert lines[1] == "m ABCDEFGHIJKLMNOPQRSTUVWXYZABCD"
    assert any("more than one job" in line for line in lines)
