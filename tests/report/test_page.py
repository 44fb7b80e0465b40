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
from slotwise.report.views import PLAN_COLUMNS, view
from slotwise.sim.tables import JOB_COLUMNS, PRICE_COLUMNS

Row = dict[str, Any]

HOPELESS = ("horizon ends", "never fits")
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
        # Who could not finish by the horizon, even alone, tells nothing of a policy.
        own = [job for job in jobs if job["policy"] == line["name"] and job["reason"] not in HOPELESS]
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
    marked = {
        decision(told, jobs): (round(x), d["name"])
        for d in arrivals
        for x, told in zip(d["x"], d["customdata"], strict=True)
    }
    kinds = {None: "let in", "horizon ends": "cannot finish"}
    assert marked == {
        job_id: (row["arrival"], f"arrives, {kinds.get(row['reason'], 'turned away')}") for job_id, row in jobs.items()
    }
    assert_apart(figure)
    # Of a machine with both, each takes its part.
    heights: dict[tuple[int, int, str], dict[str, float]] = defaultdict(dict)
    for kind in ("workers", "servers"):
        bars = next(d for d in figure["data"] if d.get("name") == kind and d.get("customdata"))
        for base, middle, height, told in zip(bars["base"], bars["y"], bars["width"], bars["customdata"], strict=True):
            heights[round(middle), int(base + 0.5), decision(told, jobs)][kind] = height
    both = [row for row in plan if row["workers"] and row["servers"]]
    assert both
    for row in both:
        found = heights[row["machine"], row["first"], row["job_id"]]
        assert found["workers"] / found["servers"] == pytest.approx(row["workers"] / row["servers"], rel=0.02)


def decision(told: str, jobs: dict[str, Row]) -> str:
    """Check all that is told of a job; return its id."""
    match = re.search(r"job ([^,<]+), arrived in slot (\d+)", told)
    assert match is not None
    job = jobs[match[1]]
    assert int(match[2]) == job["arrival"]
    if job["promised"] is not None:
        payoff = job["promised_utility"] - job["cost"]
        said = f"utility {job['promised_utility']:.4g} - cost {job['cost']:.4g} = payoff {payoff:.4g}"
        assert f"promised slot {job['promised']}<br>{said}" in told
    if job["reason"] not in (None, "horizon ends"):
        assert f"turned away: {job['reason']}" in told
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
        (row["resource"], row["first_machine"], row["first_slot"]): row["price"]
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
    seen = view(compared, ("pdors", 0), [f"m{at}" for at in range(8)])
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
    seen = view(compared, ("pdors", 0), ["<b>&\"'$</script>"] * 8)
    text = page(seen, "</title><script>alert(1)</script>", {"Assumed": {"<i>": "</ul><script>alert(2)</script>"}})

    assert "<script>alert" not in text
    assert "<i>" not in text
    assert "<b>" not in text
    # Between dollar signs plotly would read a formula.
    assert "$" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL).replace("&#36;", "")
    assert set(charts(text)) == {"utility", "completion", "use", "queue", "plan-0", "prices"}


def written(folder: Path, **tables: list[Row]) -> Path:
    """Write the tables of a folder, filled up with what does not matter."""
    of_run = {"policy": "p", "seed": 0}
    run = {
        **of_run, "machines": 1, "horizon": 4, "slot_seconds": 3600.0, "jobs": 1, "total_utility": 1.0,
        "upper_bound": None, "rejected": 0, "infeasible": 0, "unfinished": 0, "colocated_fraction": None,
    }  # fmt: skip
    job = {
        **of_run, "job_id": "j", "arrival": 0, "admitted": False, "reason": None, "promised": None, "completed": None,
        "promised_utility": None, "cost": None, "started": None, "utility": 0.0, "detail": "",
    }  # fmt: skip
    slot = {**of_run, "slot": 0, "running": 0, "waiting": 0, "use_gpu": 0.0}
    where = {"machine": 0, "machine_name": "m", "first": 0, "last": 0, "workers": 1, "servers": 0}
    stay = {**of_run, "job_id": "j", **where}
    whole: dict[str, tuple[Row, Any]] = {
        "runs": (run, {"upper_bound": polars.Float64}),
        "jobs": (job, JOB_COLUMNS),
        "slots": (slot, None),
        "plan": (stay, PLAN_COLUMNS),
        "prices": ({}, PRICE_COLUMNS),
    }
    runs = [{"policy": "p", "seed": 0, **line} for line in tables.get("runs", [{}])]
    tables.setdefault("slots", [{"policy": line["policy"], "seed": line["seed"]} for line in runs])
    for name, (row, schema) in whole.items():
        given = tables.get(name, [{}] if name in ("runs", "jobs", "slots") else [])
        frame = polars.DataFrame([row | line for line in given], schema_overrides=schema) if given else None
        (frame if frame is not None else polars.DataFrame(schema=schema)).write_parquet(folder / f"{name}.parquet")
    return folder


def shown(folder: Path, machines: int = 1, chosen: tuple[str, int] = ("p", 0)) -> tuple[str, dict[str, Row]]:
    text = page(view(folder, chosen, [f"m{at}" for at in range(machines)]), "written", {})
    return text, charts(text)


@pytest.mark.parametrize(
    "bounds",
    [
        {("p", 0): 2.0, ("p", 1): None, ("q", 0): 2.0, ("q", 1): None},
        {("p", 0): 2.0, ("p", 1): 9.0, ("q", 0): 2.0},
        {("p", 0): None, ("q", 0): None},
    ],
)
def test_no_bound_is_drawn_that_is_not_of_the_same_seeds(
    tmp_path: Path, bounds: dict[tuple[str, int], float | None]
) -> None:
    runs = [{"policy": policy, "seed": seed, "upper_bound": bound} for (policy, seed), bound in bounds.items()]
    text, figures = shown(written(tmp_path, runs=runs))
    assert "shapes" not in figures["utility"]["layout"]
    assert "No bound is drawn" in text


def test_the_axis_of_utilities_has_room_for_whiskers(tmp_path: Path) -> None:
    runs = [{"seed": seed, "total_utility": earned, "upper_bound": 70.0} for seed, earned in ((0, 0.0), (1, 100.0))]
    _, figures = shown(written(tmp_path, runs=runs))
    low, high = figures["utility"]["layout"]["yaxis"]["range"]
    assert (low, high > 50.0 + statistics.stdev([0.0, 100.0])) == (0, True)
    # One run has no whisker, and nothing earned has an axis all the same.
    (tmp_path / "one").mkdir()
    _, figures = shown(written(tmp_path / "one", runs=[{"total_utility": 0.0}]))
    assert figures["utility"]["data"][0].get("error_y") is None
    assert figures["utility"]["data"][0]["text"] == ["p: 0"]
    assert figures["utility"]["layout"]["yaxis"]["range"] == [0, 1.0]


def test_what_is_shown_ends_when_nothing_is_left_to_do(tmp_path: Path) -> None:
    slots = [{"slot": slot, "running": int(slot == 1), "waiting": int(slot == 2)} for slot in range(9)]
    stays = [{"first": 1, "last": 1}]
    _, figures = shown(written(tmp_path, slots=slots, plan=stays, runs=[{"horizon": 9}]))
    assert figures["queue"]["data"][0]["x"] == [0, 1, 2, 3]
    assert figures["plan-0"]["layout"]["xaxis"]["range"] == pytest.approx([-0.6, 2.6])


def test_the_answer_to_each_job_is_in_a_table(compared: Path, text: str) -> None:
    match = re.search(r'<table id="jobs">(.*?)</table>', text, re.DOTALL)
    assert match is not None
    lines = [re.findall(r"<td>(.*?)</td>", line) for line in re.findall(r"<tr>(.*?)</tr>", match[1])[1:]]
    jobs = [row for row in rows(compared, "jobs") if (row["policy"], row["seed"]) == ("pdors", 0)]
    assert len(lines) == len(jobs)
    for line, job in zip(lines, jobs, strict=True):
        answer = {None: "admitted", "horizon ends": "infeasible"}.get(job["reason"], "rejected")
        assert line[:3] == [job["job_id"], f"slot {job['arrival']}", answer]
        for cell, slot in ((line[3], job["promised"]), (line[4], job["completed"])):
            if slot is None:
                assert cell == "-"
            else:
                # Slots are hours.
                assert cell.startswith(f"slot {slot} (")
                assert number(cell.partition("(")[2].rstrip(")")) == pytest.approx((slot + 1) * 3600, rel=6e-3)
        assert float(line[5]) == pytest.approx(job["utility"], rel=1e-3)
        assert html.unescape(line[6]) == (f"{job['reason']}: {job['detail']}" if job["reason"] else "")


def test_who_waits_is_not_turned_away(tmp_path: Path) -> None:
    jobs = [
        {"job_id": "waits"},
        {"job_id": "late", "reason": "horizon ends"},
        {"job_id": "dear", "reason": "priced out"},
    ]
    _, figures = shown(written(tmp_path, jobs=jobs))
    told = {d["name"]: d["customdata"][0] for d in figures["plan-0"]["data"] if d["type"] == "scatter"}
    assert told == {
        "arrives, let in": "job waits, arrived in slot 0<br>not finished by the horizon, never started",
        "arrives, cannot finish": (
            "job late, arrived in slot 0<br>cannot finish by the horizon, even alone on the cluster"
        ),
        "arrives, turned away": "job dear, arrived in slot 0<br>turned away: priced out",
    }


def test_prices_are_shown_though_nothing_ran(tmp_path: Path) -> None:
    price = {
        "policy": "p", "seed": 0, "first_slot": 0, "last_slot": 1, "first_machine": 0, "last_machine": 0,
        "resource": "whole machine", "price": 5.0,
    }  # fmt: skip
    _, figures = shown(written(tmp_path, prices=[price]))
    assert figures["prices"]["data"][0]["customdata"] == [[5.0]]
    assert figures["prices"]["text"] == [["m0, slots 0 to 1"]]
    assert "plan-0" in figures


def test_long_runs_are_shown_as_means_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MOST_POINTS", 3)
    slots = [{"slot": slot, "waiting": slot * slot, "use_gpu": slot / 10} for slot in range(7)]
    _, figures = shown(written(tmp_path, slots=slots))
    (line,) = figures["queue"]["data"]
    assert line["x"] == [0, 3, 6, 7]
    assert line["y"] == pytest.approx([5 / 3, 50 / 3, 36, 36])
    assert figures["queue"]["layout"]["yaxis"]["title"]["text"] == "jobs, mean over seeds and 3 slots"
    assert figures["use"]["data"][0]["y"] == pytest.approx([0.1, 0.4, 0.6, 0.6])


def test_a_part_of_a_plan_is_where_most_runs(tmp_path: Path) -> None:
    stays = [{"machine": machine, "first": 900, "last": 909} for machine in range(50, 70)]
    stays += [{"machine": 3, "first": 0, "last": 2}, {"machine": 99, "first": 905, "last": 905}]
    run = {"horizon": 1000, "machines": 100}
    slots = [{"slot": slot, "running": 1} for slot in range(1000)]
    text, figures = shown(written(tmp_path, plan=stays, runs=[run], slots=slots), 100)

    part = figures["plan-1"]
    left, right = part["layout"]["xaxis"]["range"]
    assert left < 900
    assert right > 909
    bars = next(d for d in part["data"] if d.get("name") == "workers" and d.get("customdata"))
    drawn = sorted(label.partition(",")[0] for label in bars["customdata"])
    assert drawn == sorted([f"m{machine}" for machine in range(50, 70)] + ["m99"])
    assert len(part["layout"]["yaxis"]["ticktext"]) == 24
    assert "the 24 busiest of 100 machines" in text


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


def test_a_page_of_a_file_fits_a_telephone(browser: Any, compared: Path, tmp_path: Path) -> None:
    told = {"How it was made": {"SHA-256 of --workload": "0123456789abcdef" * 4, "--workload": "/a/" + "long" * 40}}
    names = [f"machine-with-a-{'very-' * 8}long-name-{at}" for at in range(8)]
    (tmp_path / "page.html").write_text(page(view(compared, ("drf", 1), names), "file", told), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 400, "height": 900})
    opened.goto((tmp_path / "page.html").as_uri())
    opened.wait_for_function("[...document.querySelectorAll('.chart')].every(chart => chart.dataset.drawn)")
    assert opened.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.locator("#plan-0 .nsewdrag").first.bounding_box()["width"] > 150
    opened.close()


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
