"""Every number of the page, computed again from the tables on disk in plain Python; and the page in a browser."""

from __future__ import annotations

import html
import json
import math
import re
import shutil
import statistics
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

from slotwise.report import views
from slotwise.report.page import page
from slotwise.report.views import view
from slotwise.sim import pricemap

Row = dict[str, Any]

SIZES = {"days": 86_400.0, "hours": 3_600.0, "minutes": 60.0, "seconds": 1.0}


def rows(folder: Path, name: str) -> list[Row]:
    return polars.read_parquet(folder / f"{name}.parquet").to_dicts()


def charts(text: str) -> dict[str, Row]:
    found = re.findall(r'<script type="application/json" data-chart="([^"]+)">(.*?)</script>', text, re.DOTALL)
    return {name: json.loads(content) for name, content in found}


def cells(text: str) -> tuple[list[str], dict[str, dict[str, str]]]:
    """Return the columns of the table of policies, and its rows by policy."""
    match = re.search(r'<table id="policies">(.*?)</table>', text, re.DOTALL)
    assert match is not None
    titles = [html.unescape(title) for title in re.findall(r"<th>(.*?)</th>", match[1])]
    lines = [re.findall(r"<td>(.*?)</td>", line) for line in re.findall(r"<tr>(.*?)</tr>", match[1])[1:]]
    return titles, {line[0]: dict(zip(titles, map(html.unescape, line), strict=True)) for line in lines}


def number(text: str) -> float:
    """Return what a cell says: 1,234.5 or 12.3 % or 3.2 h, in seconds where it is a time."""
    units = {"d": 86_400.0, "h": 3_600.0, "min": 60.0, "s": 1.0, "ms": 1e-3}
    if text.endswith("%"):
        return float(text[:-1]) / 100
    value, _, unit = text.replace(",", "").partition(" ")
    return float(value) * (units[unit] if unit else 1.0)


@pytest.fixture(scope="module")
def text(compared: Path) -> str:
    return (compared / "report.html").read_text(encoding="utf-8")


def means(runs: list[Row], policy: str, name: str) -> float | None:
    values = [row[name] for row in runs if row["policy"] == policy and row[name] is not None]
    return statistics.fmean(values) if values else None


def test_the_table_of_policies(compared: Path, text: str) -> None:
    runs, jobs = rows(compared, "runs"), rows(compared, "jobs")
    titles, table = cells(text)

    assert list(table) == ["pdors", "drf", "fifo"]
    for policy, line in table.items():
        own = [row for row in runs if row["policy"] == policy]
        of_jobs = [row for row in jobs if row["policy"] == policy]
        seconds = own[0]["slot_seconds"]
        by_seed = defaultdict(list)
        for job in of_jobs:
            if job["completed"] is not None:
                by_seed[job["seed"]].append((job["completed"] - job["arrival"] + 1) * seconds)
        earned = [sum(job["utility"] for job in of_jobs if job["seed"] == row["seed"]) for row in own]
        expected: dict[str, float | None] = {
            "runs": len(own),
            "utility": statistics.fmean(earned),
            "± (std)": statistics.stdev(earned),
            "of bound": sum(earned) / sum(row["upper_bound"] for row in own),
            "admitted": sum(job["admitted"] for job in of_jobs) / len(own),
            "no time left": sum(job["reason"] == "no time left" for job in of_jobs) / len(own),
            "priced out": sum(job["reason"] == "priced out" for job in of_jobs) / len(own),
            "cannot finish": sum(job["reason"] == "horizon ends" for job in of_jobs) / len(own),
            "finished": sum(job["completed"] is not None for job in of_jobs) / len(own),
            "unfinished": sum(job["reason"] is None and job["completed"] is None for job in of_jobs) / len(own),
            "completion mean": statistics.fmean(statistics.fmean(times) for times in by_seed.values()),
            "completion p50": statistics.fmean(statistics.median(times) for times in by_seed.values()),
            "completion p99": means(runs, policy, "jct_seconds_p99"),
            "training slots": means(runs, policy, "training_slots_median"),
            "co-located": statistics.fmean(
                sum(job["colocated_slots"] for job in of_jobs if job["seed"] == row["seed"])
                / sum(job["active_slots"] for job in of_jobs if job["seed"] == row["seed"])
                for row in own
            ),
            "decision p50": means(runs, policy, "decision_seconds_p50"),
            "decision p99": means(runs, policy, "decision_seconds_p99"),
            **{
                f"use {name}": means(runs, policy, f"utilization_{name}")
                for name in ("gpu", "cpu", "memory", "storage")
            },
        }
        for title in titles[1:]:
            wanted = expected[title]
            assert wanted is not None
            assert number(line[title]) == pytest.approx(wanted, rel=6e-3, abs=6e-4), (policy, title, line[title])
    # Columns that are zero everywhere are left out, and only those.
    reasons = {job["reason"] for job in jobs}
    assert ("never fits" in titles, "priced out" in titles) == ("never fits" in reasons, "priced out" in reasons)


def test_utility_and_the_bound(compared: Path, text: str) -> None:
    runs, figure = rows(compared, "runs"), charts(text)["utility"]
    (bars,) = figure["data"]

    for name, height, spread in zip(bars["x"], bars["y"], bars["error_y"]["array"], strict=True):
        earned = [row["total_utility"] for row in runs if row["policy"] == name]
        assert height == pytest.approx(statistics.fmean(earned), rel=1e-12)
        assert spread == pytest.approx(statistics.stdev(earned), rel=1e-9)
    bound = statistics.fmean({row["seed"]: row["upper_bound"] for row in runs}.values())
    assert figure["layout"]["shapes"][0]["y0"] == figure["layout"]["shapes"][0]["y1"] == pytest.approx(bound)
    assert figure["layout"]["annotations"][0]["text"] == f"bound {bound:.5g}"


def test_completion_times(compared: Path, text: str) -> None:
    jobs, figure = rows(compared, "jobs"), charts(text)["completion"]
    seconds = rows(compared, "runs")[0]["slot_seconds"]
    size = SIZES[figure["layout"]["xaxis"]["title"]["text"].rpartition(" ")[2]]

    for line in figure["data"]:
        own = [job for job in jobs if job["policy"] == line["name"]]
        took = [(job["completed"] - job["arrival"] + 1) * seconds for job in own if job["completed"] is not None]
        for x, y in list(zip(line["x"], line["y"], strict=True))[1:-1]:
            # Between equal times the curve climbs.
            below = sum(time < x * size - 1e-6 for time in took), sum(time <= x * size + 1e-6 for time in took)
            assert below[0] / len(own) < y <= below[1] / len(own) + 1e-12
        assert (line["x"][0], line["y"][0]) == (0, 0)
        assert line["y"][-1] == pytest.approx(len(took) / len(own))


def test_use_and_queue_over_time(compared: Path, text: str) -> None:
    slots, figures = rows(compared, "slots"), charts(text)
    buttons = figures["use"]["layout"]["updatemenus"][0]["buttons"]
    columns = [f"use_{button['label'].removeprefix('Use of ')}" for button in buttons]
    assert columns == [name for name in slots[0] if name.startswith("use_")]

    shown = [
        (column, line)
        for column, line in zip([c for c in columns for _ in range(3)], figures["use"]["data"], strict=True)
    ]
    for at, button in enumerate(buttons):
        assert button["args"][0]["visible"] == [column == columns[at] for column, _ in shown]
    for column, line in [*shown, *(("waiting", line) for line in figures["queue"]["data"])]:
        for x, y in list(zip(line["x"], line["y"], strict=True))[:-1]:
            values = [row[column] for row in slots if row["policy"] == line["name"] and row["slot"] == x]
            assert len(values) == 2
            assert y == pytest.approx(statistics.fmean(values), rel=1e-12, abs=1e-15)
        assert (line["x"][-1], line["y"][-1]) == (20, line["y"][-2])


def test_the_plan_and_the_decisions(compared: Path, text: str) -> None:
    plan, figure = rows(compared, "plan"), charts(text)["plan-0"]
    jobs = {row["job_id"]: row for row in rows(compared, "jobs") if (row["policy"], row["seed"]) == ("pdors", 0)}
    assert {(row["policy"], row["seed"]) for row in plan} == {("pdors", 0)}

    drawn = []
    for kind in ("workers", "servers"):
        bars = next(d for d in figure["data"] if d.get("name") == kind and d.get("customdata"))
        for base, length, middle, told in zip(bars["base"], bars["x"], bars["y"], bars["customdata"], strict=True):
            drawn.append((kind, round(middle), int(base + 0.5), int(base + length - 0.5), decision(told, jobs)))
    expected = [
        (kind, row["machine"], row["first"], row["last"], row["job_id"])
        for row in plan
        for kind in ("workers", "servers")
        if row[kind]
    ]
    assert sorted(drawn) == sorted(expected)
    arrivals = [d for d in figure["data"] if d["type"] == "scatter"]
    marked = {decision(told, jobs): round(x) for d in arrivals for x, told in zip(d["x"], d["customdata"], strict=True)}
    assert marked == {job_id: row["arrival"] for job_id, row in jobs.items()}
    let_in = next(d for d in arrivals if d["name"] == "let in")
    assert len(let_in["x"]) == sum(row["admitted"] for row in jobs.values())
    # No two boxes cover each other.
    assert_apart(figure)


def decision(told: str, jobs: dict[str, Row]) -> str:
    """Check all that is told of a job; return its id."""
    match = re.search(r"job (\S+), arrived in slot (\d+)", told)
    assert match is not None
    job = jobs[match[1]]
    assert int(match[2]) == job["arrival"]
    if job["promised"] is not None:
        payoff = job["promised_utility"] - job["cost"]
        said = f"utility {job['promised_utility']:.4g} - cost {job['cost']:.4g} = payoff {payoff:.4g}"
        assert f"promised slot {job['promised']}: {said}" in told
    if job["reason"] is not None:
        assert f"not let in: {job['reason']}" in told
    if job["completed"] is not None:
        assert f"finished in slot {job['completed']}, earned {job['utility']:.4g}" in told
    return str(match[1])


def assert_apart(figure: Row) -> None:
    boxes = [
        (base, base + length, middle - width / 2, middle + width / 2)
        for d in figure["data"]
        if d.get("customdata") and d["type"] == "bar"
        for base, length, middle, width in zip(d["base"], d["x"], d["y"], d["width"], strict=True)
    ]
    for at, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[at + 1 :]:
            beside = right <= other_left or other_right <= left
            assert beside or bottom <= other_top + 1e-3 or other_bottom <= top + 1e-3


def test_prices(compared: Path, text: str) -> None:
    figure = charts(text)["prices"]
    prices = {
        (row["resource"], row["first_machine"], row["slot"]): row["price"]
        for row in rows(compared, "prices")
        if (row["policy"], row["seed"]) == ("pdors", 0)
    }

    seen = {}
    for layer in figure["data"]:
        for y, (line, logs) in enumerate(zip(layer["customdata"], layer["z"], strict=True)):
            for x, value, log in zip(layer["x"], line, logs, strict=True):
                if value is not None:
                    seen[layer["name"], y, x] = value
                    assert log == pytest.approx(math.log10(value), abs=1e-4)
    assert set(seen) == {key for key, price in prices.items() if price > 0}
    for key, value in seen.items():
        assert value == pytest.approx(prices[key], rel=1e-5)


def test_a_large_run_is_shown_as_numbers_and_a_part_of_it(compared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_BOXES", 20)
    monkeypatch.setattr(views, "MOST_ROWS", 3)
    monkeypatch.setattr(views, "_MOST_COLUMNS", 7)
    seen = view(compared, [f"m{at}" for at in range(8)])
    figures = charts(page(seen, "large", {}))
    plan = rows(compared, "plan")

    numbers, part = figures["plan-0"], figures["plan-1"]
    of_layers = {"workers on a machine": "workers", "servers on a machine": "servers", "jobs on a machine": None}
    for layer in numbers["data"]:
        column = of_layers[layer["name"]]
        for g, line in enumerate(layer["customdata"]):
            machines = [m for m in range(8) if m // 3 == g]
            for c, value in enumerate(line):
                slots = [slot for slot in range(20) if slot // 3 == c]
                total = sum(
                    (row[column] if column else 1)
                    * len([slot for slot in slots if row["first"] <= slot <= row["last"]])
                    for row in plan
                    if row["machine"] in machines
                )
                assert value == pytest.approx(total / len(machines) / len(slots), rel=1e-5)
    boxes = sum(len(d["base"]) for d in part["data"] if d.get("customdata"))
    assert 0 < boxes <= 2 * 20
    left, right = part["layout"]["xaxis"]["range"]
    first, last = round(left + 0.6), round(right - 0.6)
    inside = [row for row in plan if row["first"] <= last and row["last"] >= first]
    assert boxes == sum((row["workers"] > 0) + (row["servers"] > 0) for row in inside)
    assert_apart(part)


def test_names_and_notes_cannot_break_the_page(compared: Path) -> None:
    seen = view(compared, ["<b>&\"'</script>"] * 8)
    text = page(seen, "</title><script>alert(1)</script>", {"Assumed": {"<i>": "</ul><script>alert(2)</script>"}})

    assert "<script>alert" not in text
    assert "<i>" not in text
    assert "<b>" not in text
    assert set(charts(text)) == {"utility", "completion", "use", "queue", "plan-0", "prices"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ("no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking")
    arguments = [f"--{name}" for name in (*quiet, "disable-component-update", "disable-sync")]
    with sync_api.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=program, args=arguments)
        yield chromium
        chromium.close()


@pytest.mark.parametrize("width", [400, 1600])
def test_the_page_draws_in_a_browser(browser: Any, compared: Path, text: str, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto((compared / "report.html").as_uri())
    opened.wait_for_function("[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)")

    marks = {
        "utility": ".bars .point path",
        "completion": ".scatterlayer .lines path",
        "use": ".scatterlayer .lines path",
        "queue": ".scatterlayer .lines path",
        "plan-0": ".bars .point path",
        "prices": ".heatmaplayer image",
    }
    assert set(marks) == set(charts(text))
    for name, mark in marks.items():
        assert opened.locator(f"#{name} {mark}").count() > 0, f"{name} has not drawn"
        box = opened.locator(f"#{name} .nsewdrag").first.bounding_box()
        assert box["width"] > 0.5 * min(width, 560), f"{name} is too narrow to read"
    assert said == []
    assert [url for url in asked if not url.startswith("data:")] == [(compared / "report.html").as_uri()]
    # The page itself never scrolls sideways; a wide table does.
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    # Hovering over a box tells its job's decision.
    bar = opened.locator("#plan-0 .bars .point path").nth(3)
    bar.scroll_into_view_if_needed()
    bar.hover(force=True)
    opened.wait_for_selector("#plan-0 .hoverlayer .hovertext")
    assert "payoff" in opened.locator("#plan-0 .hoverlayer .hovertext").first.text_content()
    opened.close()


def test_figures_are_written_as_both_formats(compared: Path) -> None:
    written = {path.name for path in (compared / "figures").iterdir()}
    names = ("utility", "completion", "use", "queue", "plan", "prices")
    assert written == {f"{name}.{format}" for name in names for format in ("svg", "png")}
    for path in (compared / "figures").iterdir():
        begin = path.read_bytes()[:8]
        assert begin == b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else begin.startswith(b"<?xml")


def test_whole_is_no_name_of_a_resource() -> None:
    # Resources of a cluster are words of a file; the row of all of them must not be taken for one.
    assert " " in pricemap.WHOLE
