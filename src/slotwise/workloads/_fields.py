"""Files that people type, as fields that know their file and line.

A file becomes a tree of `Field`; each leaf is text, whether it comes from YAML or from CSV, and is read as a
number, a duration, an amount ... by the method of that name. What cannot be used is one line:
``file:line: field must be ..., got ...``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from slotwise.errors import InvalidInput
from slotwise.units import duration, quantity, rate
from slotwise.words import hint

__all__ = ["LARGEST_NUMBER", "LARGEST_SECONDS", "Field", "documents", "read_text", "shown"]

LARGEST_NUMBER = 1e15
"""Largest number in a file, below 2**53: counts stay exact, products stay finite."""

LARGEST_SECONDS = 1e12
"""Longest duration in a file; in slots, and times an urgency, it stays finite."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEEPEST = 16
_LONGEST = 60
_NUMERIC = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,100}", re.ASCII)
_ALIASES = {"nvidia.com/gpu": "gpu"}
_NOTHING = frozenset({"", "~", "null", "Null", "NULL"})
_KINDS = ("str", "int", "float", "bool", "null", "map", "seq")
_TAGS = frozenset({None, "!", *(f"tag:yaml.org,2002:{kind}" for kind in _KINDS)})


def shown(value: object) -> str:
    """Return a value as error messages show it: on one line and short."""
    if value is None:
        return "nothing"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "a mapping"
    text = str(value)
    if _is_number(text):
        return text
    return ascii(text if len(text) <= _LONGEST else text[:_LONGEST] + "...")


def _bound(number: float) -> str:
    """Return a bound as error messages show it, without exponent where that is short."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e8 else f"{number:g}"


def _is_number(text: str) -> bool:
    return len(text) <= 40 and _NUMERIC.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a file.

    Attributes
    ----------
    path : str
        The file, as its user named it.
    line : int
        Line of the field, from 1.
    label : str
        Name of the field as written in the file: ``spec.worker.resources.cpu`` or ``worker.cpu``; empty for
        a document. value : str, None, list of Field or dict of str to Field A leaf is text; None is an
        absent or null one. error : type of InvalidInput What refusing it raises.
    """

    path: str
    line: int
    label: str
    value: str | list[Field] | dict[str, Field] | None
    error: type[InvalidInput]

    def refuse(self, bound: str, got: str | None = None) -> NoReturn:
        """Raise the one line that says what this field must be."""
        got = shown(self.value) if got is None else got
        raise self.error(f"{self.path}:{self.line}: {self.label or 'document'} must be {bound}, got {got}")

    def missing(self, name: str, *, because: str = "") -> NoReturn:
        """Raise the one line that says that this mapping lacks a field."""
        label = f"{self.label}.{name}" if self.label else name
        raise self.error(f"{self.path}:{self.line}: {label} must be given{because}, got nothing")

    def entries(self, known: Collection[str] | None = None) -> Mapping[str, Field]:
        """Return the fields of a mapping; with ``known``, refuse any other."""
        if not isinstance(self.value, dict):
            self.refuse("a mapping of fields")
        for name, field in self.value.items():
            if known is not None and name not in known:
                meant = hint(name, known) or f" (known: {', '.join(known)})"
                field.refuse(f"a known field{meant}", ascii(name[:_LONGEST]))
        return self.value

    def get(self, name: str) -> Field | None:
        """Return a field of a mapping, None where it is absent or null."""
        field = self.entries().get(name)
        return None if field is None or field.value is None else field

    def need(self, name: str) -> Field:
        """Return a field of a mapping that has to be there."""
        field = self.get(name)
        if field is None:
            self.missing(name)
        return field

    def items(self) -> list[Field]:
        """Return the entries of a list."""
        if not isinstance(self.value, list):
            self.refuse("a list")
        return self.value

    def _leaf(self, bound: str) -> str:
        if not isinstance(self.value, str):
            self.refuse(bound)
        return self.value

    def text(self, *, one_of: Collection[str] | None = None) -> str:
        """Read a text; with ``one_of``, one of those."""
        bound = f"one of {', '.join(one_of)}" if one_of else "a text of printable characters"
        if one_of is not None and len(one_of) == 1:
            bound = next(iter(one_of))
        text = self._leaf(bound)
        if not text.strip() or not text.isprintable():
            self.refuse(bound)
        if one_of is not None and text not in one_of:
            self.refuse(bound, shown(text) + (hint(text, one_of) if len(one_of) > 1 else ""))
        return text

    def number(
        self, low: float = 0.0, high: float = LARGEST_NUMBER, *, above: bool = False, noun: str = "a number"
    ) -> float:
        """Read a number in low ... high; with ``above``, more than low."""
        bound = f"{noun} {'>' if above else '>='} {_bound(low)}"
        text = self._leaf(bound)
        if not _is_number(text):
            self.refuse(bound)
        number = float(text)
        if number < low or (above and number == low):
            self.refuse(bound)
        if number > high:
            self.refuse(f"{noun} <= {_bound(high)}")
        return number

    def whole(self, low: int = 0, high: float = LARGEST_NUMBER) -> int:
        """Read a whole number in low ... high."""
        number = self.number(low, high, noun="a whole number")
        if not number.is_integer():
            self.refuse(f"a whole number >= {low}")
        return int(number)

    def _in_units(self) -> str | float:
        text = self._leaf("a number with an optional unit")
        if len(text) > _LONGEST:
            self.refuse("a number with an optional unit")
        if not _is_number(text):
            return text
        return int(text) if text.lstrip("+-").isdigit() else float(text)

    def _located(self, error: InvalidInput) -> InvalidInput:
        return self.error(f"{self.path}:{self.line}: {error}")

    def duration(self, *, above: bool = False) -> float:
        """Read a duration in seconds, >= 0; with ``above``, > 0."""
        value = self._in_units()
        try:
            seconds = duration(value, self.label)
        except InvalidInput as error:
            raise self._located(error) from None
        if seconds < 0 or (above and seconds == 0):
            self.refuse("> 0" if above else ">= 0")
        if seconds > LARGEST_SECONDS:
            self.refuse(f"<= {LARGEST_SECONDS:g} s")
        return seconds

    def rate(self) -> float:
        """Read a bandwidth in MB/s, > 0."""
        value = self._in_units()
        try:
            return rate(value, self.label)
        except InvalidInput as error:
            raise self._located(error) from None

    def resources(self) -> dict[str, float]:
        """Read a mapping of resource names to amounts, >= 0; ``nvidia.com/gpu`` is ``gpu``."""
        amounts: dict[str, float] = {}
        for name, field in self.entries().items():
            resource = _ALIASES.get(name, name)
            if _RESOURCE.fullmatch(name) is None:
                field.refuse("a resource name of letters, digits and ._/-", ascii(name[:_LONGEST]))
            if field.value is None:
                continue
            if resource in amounts:
                field.refuse(f"the only amount of {resource}", "a second one")
            value = field._in_units()
            try:
                amounts[resource] = quantity(value, resource, field.label)
            except InvalidInput as error:
                raise field._located(error) from None
        return amounts


def read_text(path: str | Path, error: type[InvalidInput]) -> str:
    """Return the text of a UTF-8 file, a byte order mark taken off.

    Raises
    ------
    InvalidInput
        ``error``, if it cannot be read, is not UTF-8 or holds nothing.
    """
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or type(problem).__name__
        raise error(f"{path}: file must be readable, got {reason}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise error(f"{path}:{line}: file must be UTF-8 text, got byte 0x{data[problem.start]:02x}") from None
    if not text.strip():
        raise error(f"{path}:1: file must hold something, got nothing")
    return text


def documents(path: str | Path, text: str, error: type[InvalidInput], syntax: type[InvalidInput]) -> Iterator[Field]:
    """Read the documents of a YAML file one by one; empty ones are left out.

    Parameters
    ----------
    path : str or Path
        The file, for messages.
    text : str
        What it holds.
    error : type of InvalidInput
        What refusing a field raises.
    syntax : type of InvalidInput
        What text that is not plain YAML raises: so do aliases, tags, keys given twice, and over 16 levels.
    """
    reader = _Reader(str(path), error, syntax, yaml.parse(text, Loader=_LOADER))
    try:
        yield from reader.documents()
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        got = " ".join(str(problem.problem or problem.context or "a syntax error").split())
        raise syntax(f"{path}:{line}: file must be YAML, got a syntax error: {got}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as problem:
        position = getattr(problem, "position", None)
        line = text[:position].count("\n") + 1 if isinstance(position, int) else 1
        got = str(getattr(problem, "reason", "")) or type(problem).__name__
        raise syntax(f"{path}:{line}: file must be YAML, got a syntax error: {got}") from None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Builds fields from the parser's events: no alias is ever followed, no value ever constructed."""

    path: str
    error: type[InvalidInput]
    syntax: type[InvalidInput]
    events: Iterator[Any]

    def documents(self) -> Iterator[Field]:
        for event in self.events:
            if not isinstance(event, yaml.DocumentStartEvent):
                continue
            first = next(self.events)
            document = self._field(first, "", first.start_mark.line + 1, 0)
            if document.value is not None:
                yield document

    def _refuse(self, line: int, label: str, bound: str, got: str) -> NoReturn:
        raise self.syntax(f"{self.path}:{line}: {label or 'document'} must be {bound}, got {got}")

    def _field(self, event: Any, label: str, line: int, depth: int) -> Field:
        at = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            self._refuse(at, label, "written out (aliases are not supported)", "an alias")
        if event.tag not in _TAGS:
            self._refuse(at, label, "without a tag", shown(event.tag))
        if depth > _DEEPEST:
            self._refuse(at, label[:_LONGEST], f"at most {_DEEPEST} levels deep", "more")
        if isinstance(event, yaml.MappingStartEvent):
            return Field(self.path, line, label, self._mapping(label, depth), self.error)
        if isinstance(event, yaml.SequenceStartEvent):
            return Field(self.path, line, label, self._list(label, depth), self.error)
        absent = not event.style and event.tag is None and event.value in _NOTHING
        value = None if absent else event.value
        return Field(self.path, line, label, value, self.error)

    def _mapping(self, label: str, depth: int) -> dict[str, Field]:
        entries: dict[str, Field] = {}
        for key in iter(lambda: next(self.events), None):
            if isinstance(key, yaml.MappingEndEvent):
                break
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarEvent) or key.tag not in _TAGS:
                self._refuse(line, label, "a mapping with texts as keys", "another key")
            name = str(key.value)
            written = name if name.isprintable() and len(name) <= _LONGEST else ascii(name[:_LONGEST])
            child = f"{label}.{written}" if label else written
            if name in entries:
                self._refuse(line, child, "given once", f"a second one (first at line {entries[name].line})")
            entries[name] = self._field(next(self.events), child, line, depth + 1)
        return entries

    def _list(self, label: str, depth: int) -> list[Field]:
        entries: list[Field] = []
        for event in iter(lambda: next(self.events), None):
            if isinstance(event, yaml.SequenceEndEvent):
                break
            child = f"{label}[{len(entries)}]"
            entries.append(self._field(event, child, event.start_mark.line + 1, depth + 1))
        return entries
