"""Write ``docs/reference.md`` from the code: ``make docs``.

Options come from their declarations, fields and columns from ``slotwise.cli.fields``, the kinds of the event log from
the dataclasses of ``slotwise.events``. Nothing in the page is written by hand.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import get_args, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from slotwise import events
from slotwise.cli import app, fields
from slotwise.model.job import Job
from slotwise.model.schedule import Placement

__all__ = ["PAGE", "commands", "keys", "reference"]

PAGE = Path(__file__).with_name("reference.md")
"""What is written."""
PROSE = Path(__file__).with_name("commands.md")
"""What the commands do, in words: each section of it is linked to."""

_INTRO = """\
# Reference

Every command with its options, the fields of its `--json`, and its exit codes; then the columns of the tables and the
event log. What the commands do is told in [commands](commands.md). This page is made from the code by `make docs`.

An environment variable sets a default; an option on the command line wins. A field is named by its path: `a.b` is in an
object, `a[].b` in each object of a list, and a name in braces stands for any."""

_PARTS: Mapping[type, tuple[str, ...]] = {Job: ("job_id",), Placement: ("machines[]", "workers[]", "servers[]")}
"""What ``slotwise.events.record`` writes for values that are no plain data."""


def commands() -> dict[str, TyperCommand]:
    """Return the commands by name, in the order of ``slotwise --help``."""
    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return {name: command for name, command in root.commands.items() if isinstance(command, TyperCommand)}


def keys(kind: type) -> list[str]:
    """Return the fields with which an event or a command is logged."""
    hints = get_type_hints(kind)
    parts = (_PARTS.get(hints[field.name], (field.name,)) for field in dataclasses.fields(kind))
    return ["kind", *(name for part in parts for name in part)]


def reference() -> str:
    """Return the page."""
    sections = [_INTRO, "## Exit codes", _table(("code", "meaning"), _codes(fields.EXIT_CODES))]
    for name, command in commands().items():
        sections += _command(name, command)
    sections += ["## Columns", f"Of the tables in the folder of `slotwise compare --out`.{_more('compare')}"]
    for name, columns in fields.TABLES.items():
        sections += [f"### `{name}`", _table(("column", "meaning"), _rows(columns))]
    return "\n\n".join([*sections, *_event_log()]) + "\n"


def _command(name: str, command: TyperCommand) -> list[str]:
    context = typer.Context(command, info_name=f"slotwise {name}")
    parameters = [parameter for parameter in command.params if isinstance(parameter, (TyperArgument, TyperOption))]
    needed = [_named(parameter, context) for parameter in parameters if parameter.required]
    optional = [f"[{_named(p, context)}]" for p in parameters if isinstance(p, TyperArgument) and not p.required]
    options = [_option(parameter, context) for parameter in parameters]
    # Most commands read no variable: they have no column for them.
    columns = 4 if any(variable for *_, variable in options) else 3
    own = fields.OWN_EXIT_CODES.get(name, {})
    told = "".join(f"\n- {code}: {text}" for code, text in own.items())
    return [
        f"## `slotwise {name}`",
        f"{command.help}{_more(name)}",
        f"    {' '.join(['slotwise', name, *needed, *optional, '[OPTIONS]'])}",
        _table(("option", "meaning", "default", "environment")[:columns], [row[:columns] for row in options]),
        f"### Fields of `slotwise {name} --json`",
        _table(("field", "meaning"), _rows(fields.COMMANDS[name])),
        *(
            ["Fields of the file of `--out`:", _table(("field", "meaning"), _rows(fields.CERTIFICATE))]
            * (name == "bound")
        ),
        "Exit codes: those [of all commands](#exit-codes)" + (f", and\n{told}" if told else "."),
    ]


def _named(parameter: TyperArgument | TyperOption, context: typer.Context) -> str:
    """Return how ``--help`` names a parameter, with its type."""
    found = parameter.get_help_record(context)
    assert found is not None
    return found[0]


def _option(parameter: TyperArgument | TyperOption, context: typer.Context) -> tuple[str, str, str, str]:
    if parameter.required:
        default = "required"
    elif isinstance(parameter.show_default, str):
        default = _text(parameter.show_default)
    elif parameter.default is None:
        default = "none"
    elif isinstance(parameter.default, bool):
        default = "on" if parameter.default else "off"
    else:
        default = f"`{parameter.default}`"
    variable = f"`{parameter.envvar}`" if parameter.envvar else ""
    return f"`{_named(parameter, context)}`", _text(parameter.help or ""), default, variable


def _text(help: str) -> str:
    """Return a help text with options as code and pages as links."""
    linked = re.sub(r"docs/(\w+)\.md", r"[\1](\1.md)", help)
    return re.sub(r"(?<![\w`-])(--?[a-z][a-z-]*)", r"`\1`", linked)


def _more(name: str) -> str:
    """Return a link to the prose on a command, if there is some."""
    return f" [More](commands.md#slotwise-{name})." if f"\n## `slotwise {name}`\n" in PROSE.read_text() else ""


def _rows(named: Mapping[str, fields.Field]) -> list[tuple[str, str]]:
    """Return a row for each run of fields that share an entry."""
    rows = []
    for field, group in groupby(named, key=lambda name: named[name]):
        first, *others = group
        parent = first.rpartition(".")[0]
        short = [name[len(parent) :] if parent and name.startswith(parent + ".") else name for name in others]
        if not parent and all(name.startswith(first + ".") for name in others):
            short = [name[len(first) :] for name in others]
        meaning = [field.meaning]
        meaning += [f"null {field.null}"] * bool(field.null) + [f"absent {field.absent}"] * bool(field.absent)
        rows.append((", ".join(f"`{name}`" for name in (first, *short)), "; ".join(meaning)))
    return rows


def _codes(codes: Mapping[int, str]) -> list[tuple[str, str]]:
    return [(str(code), text) for code, text in codes.items()]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _event_log() -> list[str]:
    kinds = [kind for union in (events.Event, events.Command) for kind in get_args(union)]
    shared = set.intersection(*(set(keys(kind)) for kind in kinds))
    told = []
    for kind in kinds:
        names = ", ".join(f"`{name}`" for name in keys(kind) if name not in shared)
        what = "event" if kind in get_args(events.Event) else "command"
        told.append((f"`{kind.__name__}`", what, names, _code(kind.__doc__ or "")))
    return [
        "## Event log",
        "Each line of `slotwise simulate --events`, and of a file in `events/` of `slotwise compare --out`, is one "
        f"JSON object.{_more('simulate')}",
        _table(("kind", "is", "its fields", "meaning"), told),
        _table(("field", "meaning"), _rows(fields.EVENTS)),
    ]


def _code(doc: str) -> str:
    """Return a docstring as Markdown."""
    return " ".join(doc.split()).replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
