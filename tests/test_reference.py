"""``docs/reference.md`` is what the code says, and what the commands print is what it says."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import polars
import pytest
from docs import generate
from tests.builders import gang
from tests.test_cli import CLUSTER, JOBS

from slotwise import events
from slotwise.cli import fields, main
from slotwise.model.schedule import Placement, Reason
from slotwise.workloads import traces

ROOT = Path(__file__).parents[1]
PAPER = ["--workload", "paper", "--jobs", "12", "--machines", "3"]
NONE_FITS = ["--workload", "paper", "--jobs", "3", "--machines", "1", "--horizon", "1"]
PAI = [
    *(f"j{i},worker,w,x,x,Terminated,{100 * i}.0,{100 * i + 9000}.0,m" for i in range(3)),
    "j1,ps,p,x,x,Terminated,100.0,9100.0,m",
    "broken",
]
GAVEL = [f"A3C\tpython3 train.py\t-n\t0\t{2000 * (i + 1)}\t{300.5 * i}\t1" for i in range(2)]
SWF = [
    "; MaxProcs: 10",
    *(
        f"{i} {i} 10 {run} {size} -1 -1 {size} 1000 -1 1 1 1 1 1 1 -1 -1"
        for i, run, size in ((1, 1200, 8), (2, 60, 200))
    ),
]
RING = ["model,mode,workers,samples_per_second,batch,placement"] + [
    f"ring,sync,{w},{w * b / (0.1 + 2e-7 * b + 0.05 * (w - 1) / w + 0.003 * (w - 1))},{w * b},{place}"
    for w in (1, 2, 4, 8)
    for b in (4, 16)
    for place in ("machine", "cluster")
]
SIA = ["placement,local_bsz,step_time,sync_time", *(f"{w},{b},{0.2 + 0.01 * b},0.1" for w in (1, 2, 4) for b in (4, 8))]


# ------------------------------------------------------------------------------------------ the page


def test_the_page_is_what_the_generator_makes() -> None:
    made = generate.reference()
    assert made == generate.reference()
    assert generate.PAGE.read_text(encoding="utf-8") == made, "docs/reference.md is out of date: run `make docs`"


def section(command: str) -> str:
    """The part of the page on one command."""
    return generate.PAGE.read_text(encoding="utf-8").split(f"\n## `slotwise {command}`\n")[1].split("\n## ")[0]


def printed(*arguments: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(list(arguments)) == 0, arguments
    return out.getvalue()


@pytest.mark.parametrize("command", generate.commands())
def test_options_are_those_of_help(command: str) -> None:
    text = printed(command, "--help")
    offered = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", text, re.MULTILINE)) - {"--help"}
    told = set(re.findall(r"^\| `(?:-\w, )?(--[a-z-]+)", section(command), re.MULTILINE))
    assert "--json" in offered
    assert told == offered
    asked = set(re.findall(r"\[env var: ([A-Z_]+)", " ".join(text.split())))
    assert set(re.findall(r"`(SLOTWISE_[A-Z_]+)`", section(command))) == asked


def test_every_command_is_there_and_has_its_fields() -> None:
    offered = set(re.findall(r"^  ([a-z]+)  ", printed("--help").split("Commands:")[1], re.MULTILINE))
    assert offered == set(generate.commands()) == set(fields.COMMANDS)
    assert set(fields.OWN_EXIT_CODES) <= offered


def test_every_format_of_a_workload_is_named_by_its_option() -> None:
    named = re.search(r"`--format <str>` \| ([^|]*)", section("simulate"))
    assert named is not None
    assert set(re.findall(r"[a-z]+(?:-[a-z]+)?", named[1])) >= set(traces.WORKLOAD_FORMATS)


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "docs/reference.md", "docs/commands.md", "docs/fitting.md"]
)
def test_links_to_the_reference_and_from_it_lead_somewhere(page: str) -> None:
    path = ROOT / page
    for name, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        target = path.parent / name if name else path
        assert target.exists(), (page, name)
        if anchor:
            titles = re.findall(r"^#+ (.*)", target.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert anchor in anchors, (page, name, anchor)


# ------------------------------------------------------------------------------------------ fields


@dataclass(slots=True)
class Node:
    """A field, or an object or list around fields."""

    path: str = ""
    entry: fields.Field | None = None
    parts: dict[str, Node] = field(default_factory=dict)

    @classmethod
    def of(cls, documented: fields.Fields) -> Node:
        root = cls()
        for path, found in documented.items():
            node = root
            for step in re.findall(r"\[\]|[^.\[\]]+", path):
                node = node.parts.setdefault(step, cls(f"{node.path} {step}".strip()))
            node.entry = found
        return root

    def all(self) -> Iterator[Node]:
        yield self
        for part in self.parts.values():
            yield from part.all()


@dataclass(slots=True)
class Looked:
    """What some documents of a command have shown."""

    seen: set[str] = field(default_factory=set)
    null: set[fields.Field] = field(default_factory=set)
    absent: set[fields.Field] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)

    def at(self, value: Any, node: Node) -> None:
        """Compare a value with what is documented of it."""
        if value is None:
            if node.entry is None or not node.entry.null:
                self.wrong.append(f"{node.path} is null")
            else:
                self.null.add(node.entry)
            return
        self.seen.add(node.path)
        free = next((part for name, part in node.parts.items() if name.startswith("{")), None)
        match value:
            case dict() if free is not None:
                for each in value.values():
                    self.at(each, free)
            case dict() if node.parts:
                self.wrong += [f"{node.path} {n} is not documented".lstrip() for n in value if n not in node.parts]
                for name, part in node.parts.items():
                    if name in value:
                        self.at(value[name], part)
                    elif part.entry is None or not part.entry.absent:
                        self.wrong.append(f"{part.path} is documented and not there")
                    else:
                        self.absent.add(part.entry)
            case list() if "[]" in node.parts:
                for each in value:
                    self.at(each, node.parts["[]"])
            case dict() | list():
                self.wrong.append(f"{node.path} has parts that are not documented")
            case _ if node.entry is None or node.parts:
                self.wrong.append(f"{node.path} has no parts, or is not documented")


def differences(documented: fields.Fields, documents: list[Any]) -> list[str]:
    """What is documented of some documents and not so, or so and not documented."""
    root, looked = Node.of(documented), Looked()
    for document in documents:
        looked.at(document, root)
    wrong = looked.wrong
    for node in root.all():
        if node.entry is None:
            continue
        if node.path not in looked.seen:
            wrong.append(f"{node.path} never came out")
        if node.entry.null and node.entry not in looked.null:
            wrong.append(f"{node.path} was never null")
        if node.entry.absent and node.entry not in looked.absent:
            wrong.append(f"{node.path} was never absent")
    return wrong


def document(*arguments: str) -> Any:
    return json.loads(printed(*arguments, "--json"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Small inputs of several formats, by name."""
    folder = tmp_path_factory.mktemp("inputs")
    found = {}
    for name, lines in {"pai": PAI, "one": PAI[:1], "gavel": GAVEL, "swf": SWF, "ring.csv": RING}.items():
        (folder / name).write_text("\n".join(lines) + "\n")
        found[name] = str(folder / name)
    (folder / "servers.csv").write_text(
        "workers,servers,samples/s,batch\n" + "".join(f"{w},1,{9 + w % 3},64\n" for w in range(1, 12))
    )
    (folder / "nodes").write_text("sn,cpu_milli,memory_mib,gpu,model\nn,64000,524288,8,V100\nbroken\n")
    (folder / "sia").mkdir()
    for name in ("placements.csv", "placements-aws.csv"):
        (folder / "sia" / name).write_text("\n".join(SIA) + "\n")
    return found | {name: str(folder / name) for name in ("servers.csv", "nodes", "sia")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of ``slotwise compare``; the answer of the command is beside it."""
    out = tmp_path_factory.mktemp("compared") / "out"
    arguments = ["--policies", "pdors,fifo", "--seeds", "2", "--processes", "1", "--out", str(out)]
    answer = printed("compare", *PAPER, "--jobs", "30", *arguments, "--json")
    out.with_name("answer.json").write_text(answer)
    return out


def of_simulate(files: dict[str, str]) -> Iterator[Any]:
    yield document("simulate", *PAPER)
    yield document("simulate", *PAPER, "--policy", "oasis", "--no-bound", "--cluster-share", "0.9")
    yield document("simulate", *NONE_FITS, "--policy", "fifo")
    yield document("simulate", *NONE_FITS)
    reference = ["--solver", "reference", "--delta", "0.2", "--gain", "1", "--attempts", "20", "--no-bound"]
    yield document("simulate", *PAPER, *reference)
    yield document("simulate", *NONE_FITS, *reference)
    trace = ["--workload", files["pai"], "--cluster", "2x4", "--value", "work", "--elastic", "3"]
    yield document("simulate", *trace)
    yield document("simulate", "--workload", JOBS, "--cluster", CLUSTER)


def of_compare(files: dict[str, str], folder: Path) -> Iterator[Any]:
    yield json.loads(folder.with_name("answer.json").read_text())
    once = ["--policies", "pdors,fifo", "--processes", "1"]
    yield document("compare", "--workload", files["pai"], "--cluster", "2x4", "--no-bound", *once)


def of_explain(folder: Path) -> Iterator[Any]:
    jobs = polars.read_parquet(folder / "jobs.parquet").filter(polars.col("seed") == 0)
    for row in jobs.unique(["policy", "reason", "admitted"], keep="first", maintain_order=True).to_dicts():
        yield document("explain", row["job_id"], "--run", str(folder), "--policy", row["policy"])
    for row in jobs.filter(polars.col("policy") == "fifo", polars.col("reason").is_null()).to_dicts()[-2:]:
        yield document("explain", row["job_id"], "--run", str(folder), "--policy", "fifo")


def of_bound(files: dict[str, str]) -> Iterator[Any]:
    yield document("bound", *PAPER, "--jobs", "4", "--horizon", "5", "--exact")
    yield document("bound", "--workload", files["pai"], "--cluster", "1x4", "--rounds", "2")


def of_quote(files: dict[str, str]) -> Iterator[Any]:
    yield document("quote", JOBS, "--cluster", "4x8", "--job", "resnet50-a")
    yield document("quote", JOBS, "--cluster", files["nodes"], "--job", "too-large-a-worker")


def of_fit(files: dict[str, str]) -> Iterator[Any]:
    for name in ("ring.csv", "servers.csv", "sia"):
        yield document("fit", files[name])


def of_inspect(files: dict[str, str]) -> Iterator[Any]:
    yield document("inspect", files["pai"])
    yield document("inspect", files["one"])
    yield document("inspect", files["gavel"], "--cluster", "1x1")
    yield document("inspect", files["swf"], "--cluster", "1x1")


def of_convert(files: dict[str, str], out: Path) -> Iterator[Any]:
    yield document("convert", files["pai"], "--out", str(out / "jobs.csv"))


def of_reproduce(out: Path) -> Iterator[Any]:
    pytest.importorskip("matplotlib")
    few = ["--quick", "--seeds", "1", "--policies", "fifo", "--processes", "1", "--out", str(out)]
    yield document("reproduce", "calibration", *few)


@pytest.mark.parametrize("command", fields.COMMANDS)
def test_fields_are_those_that_come_out(command: str, files: dict[str, str], folder: Path, tmp_path: Path) -> None:
    made = {
        "simulate": lambda: of_simulate(files),
        "compare": lambda: of_compare(files, folder),
        "policies": lambda: iter([document("policies")]),
        "explain": lambda: of_explain(folder),
        "reproduce": lambda: of_reproduce(tmp_path),
        "bound": lambda: of_bound(files),
        "quote": lambda: of_quote(files),
        "fit": lambda: of_fit(files),
        "inspect": lambda: of_inspect(files),
        "convert": lambda: of_convert(files, tmp_path),
    }
    assert differences(fields.COMMANDS[command], list(made[command]())) == []


def test_fields_of_a_certificate_are_those_that_are_written(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    document("bound", *PAPER, "--jobs", "4", "--horizon", "5", "--out", str(path))
    assert differences(fields.CERTIFICATE, [json.loads(path.read_text())]) == []


@pytest.mark.parametrize(
    ("documented", "found", "says"),
    [
        ({"a": "m"}, {"a": 1, "b": 2}, ["b is not documented"]),
        ({"a": "m", "b": "m"}, {"a": 1}, ["b is documented and not there", "b never came out"]),
        ({"a": "m"}, {"a": {"x": 1}}, ["a has parts that are not documented"]),
        ({"a": "m"}, {"a": {}}, ["a has parts that are not documented"]),
        ({"a": "m"}, {"a": [1]}, ["a has parts that are not documented"]),
        ({"a.x": "m"}, {"a": 1}, ["a has no parts, or is not documented", "a x never came out"]),
        ({"a": "m"}, {"a": None}, ["a is null", "a never came out"]),
        ({"a.{any}": "m"}, {"a": {}}, ["a {any} never came out"]),
        ({"a[].x": "m"}, {"a": [{"x": 1}, {"x": 1, "y": 2}]}, ["a [] y is not documented"]),
    ],
)
def test_a_difference_is_found(documented: dict[str, str], found: Any, says: list[str]) -> None:
    assert differences({path: fields.Field(meaning) for path, meaning in documented.items()}, [found]) == says


def test_what_is_said_of_nulls_must_be_seen() -> None:
    documented = {"a": fields.Field("m", null="never"), "b": fields.Field("m", absent="never")}
    assert differences(documented, [{"a": 1, "b": 2}]) == ["a was never null", "b was never absent"]
    assert differences(documented, [{"a": 1, "b": 2}, {"a": None}]) == []


# ------------------------------------------------------------------------------------------ columns and events


def documented_name(column: str, documented: fields.Fields) -> str:
    """The entry that stands for a column, or the column itself."""
    for name in documented:
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[a-z]+", re.escape(name)), column):
            return name
    return column


def test_columns_of_the_folder_are_documented_in_their_order(folder: Path) -> None:
    written = {path.name: path for path in folder.iterdir() if path.suffix in (".parquet", ".csv")}
    assert set(written) == set(fields.TABLES)
    for name in ("runs.parquet", "jobs.parquet", "slots.parquet", "prices.parquet", "plan.parquet"):
        table, documented = polars.read_parquet(written[name]), fields.TABLES[name]
        found = {column: documented_name(column, documented) for column in table.columns}
        assert list(dict.fromkeys(found.values())) == list(documented), name
        for column, entry in found.items():
            assert documented[entry].null or not table[column].null_count(), (name, column)


def test_columns_of_the_summary_are_documented(folder: Path) -> None:
    runs = polars.read_parquet(folder / "runs.parquet").columns
    with (folder / "summary.csv").open(newline="") as stream:
        columns = next(csv.reader(stream))
    own = [name for name in fields.TABLES["summary.csv"] if name != "{other}"]
    others = [name for name in runs if name not in (*own, "seed", "workload_digest")]
    assert columns == own + others
    for row in json.loads(folder.with_name("answer.json").read_text())["policies"]:
        assert list(row) == columns


PLACED = Placement((0, 1), (1, 2), (0, 1))
LOGGED: list[events.Event | events.Command] = [
    events.JobArrived(0, gang("a", 1)),
    events.SlotOpened(0),
    events.Progressed(0, "a", 1.0),
    events.JobCompleted(0, "a"),
    events.JobCancelled(0, "a"),
    events.MachineLost(0, "m"),
    events.MachineJoined(0, "m"),
    events.Admit(0, "a", None, 0.0, 0.0),
    events.Reject(0, "a", Reason.PRICED_OUT, "because"),
    events.Launch(0, "a", PLACED),
    events.Resize(0, "a", PLACED),
    events.Stop(0, "a"),
]


def test_every_kind_of_the_event_log_has_its_documented_fields() -> None:
    kinds = [kind for union in (events.Event, events.Command) for kind in get_args(union)]
    assert [type(item) for item in LOGGED] == kinds
    table = generate.PAGE.read_text(encoding="utf-8").split("\n## Event log\n")[1]
    for item in LOGGED:
        logged = json.loads(json.dumps(events.record(item)))
        names = [f"{name}[]" if isinstance(value, list) else name for name, value in logged.items()]
        assert generate.keys(type(item)) == names
        row = re.search(rf"^\| `{type(item).__name__}` \| \w+ \| ([^|]*)\|", table, re.MULTILINE)
        assert row is not None
        assert re.findall(r"`([^`]+)`", row[1]) == [name for name in names if name not in ("kind", "slot")]
    assert set().union(*(generate.keys(kind) for kind in kinds)) == set(fields.EVENTS)


def test_an_event_log_has_no_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    document("simulate", *PAPER, "--policy", "fifo", "--no-bound", "--events", str(path))
    known = {kind.__name__: generate.keys(kind) for kind in map(type, LOGGED)}
    for line in path.read_text().splitlines():
        logged = json.loads(line)
        assert [name.removesuffix("[]") for name in known[logged["kind"]]] == list(logged)
        for name, value in logged.items():
            assert value is not None or fields.EVENTS[name].null
