"""Files of one row a line, with line numbers: what is wrong in a row, and in which one."""

from __future__ import annotations

import gzip
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from slotwise.errors import InvalidTrace
from slotwise.words import counted
from slotwise.workloads._fields import shown

__all__ = [
    "LARGEST_SECONDS",
    "MALFORMED",
    "Check",
    "Layout",
    "Progress",
    "Table",
    "bad_name",
    "bad_number",
    "bad_width",
    "blocks",
    "nothing_usable",
    "number",
    "read_text",
    "refusal",
    "sift",
]

Progress = Callable[[int], None]
"""Takes how many bytes of a file have been read."""

MALFORMED = "rows: malformed"
"""Reason of a row that does not follow its format."""

LARGEST_SECONDS = 1e10
"""Largest time stamp or duration, three hundred years; beyond it a column holds something else."""

_BLOCK = 1 << 23
_COMMENTS = 1000
_BLANK = ' \t"'
"""Taken off both ends of a field."""


def refusal(path: Path, line: int, field: str, bound: str, value: object) -> InvalidTrace:
    """Return the error for one field of one line."""
    return InvalidTrace(f"{path}:{line}: {field} must be {bound}, got {shown(value)}")


def blocks(path: Path, progress: Progress | None = None) -> Iterator[tuple[int, str]]:
    """Read a UTF-8 file, plain or gzip, some megabytes of whole lines at a time.

    Parameters
    ----------
    path : Path
        The file.
    progress : callable, optional
        Told how many bytes of the file have been read.

    Yields
    ------
    line : int
        Number of the first line, from 1.
    text : str
        The lines, with newlines as their ends and no byte order mark.

    Raises
    ------
    InvalidTrace
        If it is missing, a directory, unreadable, empty, not UTF-8 or has a NUL.
    """
    line, found, blank = 1, False, True
    for data in _whole_lines(path, progress):
        found = found or bool(data.strip())
        text = _decoded(path, line, data)
        blank = blank and not text.strip()
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        yield line, text
        line += text.count("\n")
    if blank:
        raise InvalidTrace(f"{path}: must have at least 1 row, the file is {'blank' if found else 'empty'}")


def _whole_lines(path: Path, progress: Progress | None) -> Iterator[bytes]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            parts: list[bytes] = []
            while data := stream.read(_BLOCK):
                end = data.rfind(b"\n") + 1 if len(data) == _BLOCK else len(data)
                if end:
                    yield b"".join((*parts, data[:end]))
                    parts = []
                parts.append(data[end:])
                if progress is not None:
                    progress(raw.tell())
            yield b"".join(parts)
    except FileNotFoundError:
        raise InvalidTrace(f"{path}: file must exist, there is none") from None
    except IsADirectoryError:
        raise InvalidTrace(f"{path}: must be a file, it is a directory") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidTrace(f"{path}: must be a whole gzip file, got: {error}") from None
    except (OSError, ValueError) as error:
        raise InvalidTrace(f"{str(path)!r}: file must be readable, got: {error}") from None


def _decoded(path: Path, line: int, data: bytes) -> str:
    wrong = data.find(b"\0")
    text = ""
    try:
        text = data.decode("utf-8-sig" if line == 1 else "utf-8")
    except UnicodeDecodeError as error:
        # With a byte order mark the error counts from behind it.
        wrong = error.start + (len(data) - len(error.object))
    if wrong >= 0:
        line += data.count(b"\n", 0, wrong)
        raise InvalidTrace(f"{path}:{line}: must be UTF-8 text, got byte 0x{data[wrong]:02x}; is it a binary file?")
    return text


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, plain or gzip, with line ends as newlines and no byte order mark.

    Raises
    ------
    InvalidTrace
        If it is missing, a directory, unreadable, empty, not UTF-8 or has a NUL.
    """
    return "".join(text for _, text in blocks(path))


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of a file as text, blank lines and the header left out.

    Attributes
    ----------
    path : Path
        Where they are from.
    width : int
        Fields that each row must have.
    rows : DataFrame
        ``line`` (from 1), ``row`` (from 0), ``width`` (fields it has) and the wanted columns as text, empty where
        missing; or what ``each`` made of them.
    count : int
        How many rows the file has.
    comments : tuple of str
        The first thousand lines that are comments.
    """

    path: Path
    width: int
    rows: pl.DataFrame
    count: int
    comments: tuple[str, ...] = ()

    @classmethod
    def read(
        cls,
        path: Path,
        columns: Sequence[str],
        wanted: Sequence[str],
        *,
        header: bool,
        separator: str = ",",
        comment: str = "",
        progress: Progress | None = None,
        each: Callable[[pl.DataFrame, int], pl.DataFrame] | None = None,
    ) -> Table:
        """Read a file of rows, block by block.

        Parameters
        ----------
        path : Path
            The file.
        columns : sequence of str
            All columns of the format, in the order of a file without header.
        wanted : sequence of str
            Those that are needed; a header must have them, in any order and beside any others.
        header : bool
            Whether the first row must be a header; where not, it is one if two of its fields are names of
            columns.
        separator : str
            Between fields; a space stands for any white space.
        comment : str
            What a line begins with that is no row; empty: nothing does.
        progress : callable, optional
            Told how many bytes have been read.
        each : callable, optional
            Takes the rows of a block and the width; what it returns is kept of them.

        Raises
        ------
        InvalidTrace
            If the file cannot be read, or its header lacks a column.
        """
        order: list[str] | None = None
        found: list[pl.DataFrame] = []
        comments: list[str] = []
        count = 0
        for start, text in blocks(path, progress):
            if separator == " ":
                text = "\n".join(" ".join(line.split()) for line in text.split("\n"))
            lines = pl.Series("text", [text]).str.split("\n").explode().to_frame().with_row_index("line", start)
            lines = lines.filter(pl.col("text").str.strip_chars() != "")
            if comment:
                is_comment = pl.col("text").str.strip_chars_start().str.starts_with(comment)
                comments += lines.filter(is_comment)["text"].head(_COMMENTS - len(comments)).to_list()
                lines = lines.filter(~is_comment)
            if lines.is_empty():
                continue
            if order is None:
                first = [field.strip().strip(_BLANK) for field in lines["text"][0].split(separator)]
                order = list(columns)
                if header or len(set(first) & set(columns)) >= 2:
                    _check_header(path, int(lines["line"][0]), first, wanted)
                    order, lines = first, lines[1:]
            fields = pl.col("text").str.split_exact(separator, len(order) - 1)
            rows = lines.select(
                "line",
                (pl.int_range(pl.len(), dtype=pl.Int64) + count).alias("row"),
                (pl.col("text").str.count_matches(separator, literal=True) + 1).alias("width"),
                *(
                    fields.struct.field(f"field_{order.index(name)}").fill_null("").str.strip_chars(_BLANK).alias(name)
                    for name in wanted
                ),
            )
            count += len(rows)
            found.append(rows if each is None else each(rows, len(order)))
        if order is None:
            raise InvalidTrace(f"{path}: must have at least 1 row, the file is empty")
        return cls(path, len(order), pl.concat(found), count, tuple(comments))


def _check_header(path: Path, line: int, first: list[str], wanted: Sequence[str]) -> None:
    missing = next((name for name in wanted if name not in first), None)
    if missing is not None:
        raise refusal(path, line, "header", f"a row with the columns {', '.join(wanted)}", ",".join(first))
    twice = next((name for name in wanted if first.count(name) > 1), None)
    if twice is not None:
        raise refusal(path, line, "header", f"a row with one column {twice}", ",".join(first))


@dataclass(frozen=True, slots=True)
class Check:
    """Something that a row must satisfy.

    Attributes
    ----------
    field : str
        What is checked, for the error.
    bound : str
        What it must be; ``{name}`` stands for the row's own text in that column.
    fails : Expr
        True (not False, not null) for rows that break it.
    reason : str
        Under which name such rows are counted.
    source : str
        Column with the offending value, ``field`` if empty.
    """

    field: str
    bound: str
    fails: pl.Expr
    reason: str = MALFORMED
    source: str = ""


def bad_name(column: str) -> Check:
    """Return the check that a column has a name: not empty, and nothing that would break a line."""
    text = pl.col(column)
    return Check(column, "a name without control characters", (text == "") | text.str.contains(r"\p{Cc}"))


def number(column: str) -> pl.Expr:
    """Return a column of text as numbers, null where it is none, or not finite."""
    value = pl.col(column).cast(pl.Float64, strict=False)
    return pl.when(value.is_finite()).then(value)


def bad_number(column: str, low: float, high: float, *, whole: bool = False, optional: bool = False) -> Check:
    """Return the check that a column has a number in low ... high; ``optional``: or nothing."""
    value = number(column)
    fails = value.is_null() | (value < low) | (value > high)
    if whole:
        fails = fails | (value != value.floor())
    if optional:
        fails = (pl.col(column) != "") & fails
    kind = "a whole number" if whole else "a number"
    ends = f"{low:g} ... {high:g}" if math.isfinite(high) else f"{low:g} or more"
    return Check(column, f"{kind} in {ends}{' or empty' if optional else ''}", fails)


def sift(path: Path, rows: pl.DataFrame, checks: Sequence[Check], *, strict: bool) -> tuple[pl.DataFrame, Counter[str]]:
    """Take out the rows that break a check, and count them by the reason of the first check that they break.

    Raises
    ------
    InvalidTrace
        With ``strict``, for the first such row.
    """
    broken = pl.lit(None, dtype=pl.Int32)
    for i in reversed(range(len(checks))):
        broken = pl.when(checks[i].fails.fill_null(False)).then(pl.lit(i, dtype=pl.Int32)).otherwise(broken)
    marked = rows.with_columns(broken.alias("broken"))
    bad = marked.filter(pl.col("broken").is_not_null())
    if strict and not bad.is_empty():
        row = bad.sort("line").row(0, named=True)
        check = checks[row["broken"]]
        raise refusal(path, row["line"], check.field, check.bound.format(**row), row[check.source or check.field])
    counts: Counter[str] = Counter()
    for i, count in bad.group_by("broken").len().iter_rows():
        counts[checks[i].reason] += count
    return marked.filter(pl.col("broken").is_null()).drop("broken"), counts


@dataclass(frozen=True, slots=True)
class Layout:
    """A format of one row a job, or a machine.

    Attributes
    ----------
    columns : sequence of str
        All of its columns, in the order of a file without header.
    wanted : sequence of str
        Those that are needed.
    key : str
        Column that names what a row is of; a second row of a name is left out.
    what : str
        What a row is of, for errors.
    checks : sequence of Check
        Of rows that follow the format.
    values : mapping of str to Expr
        What is kept of a row, from its text.
    unusable : sequence of Check
        Of rows that follow the format and are of no use; they never stop a strict reader.
    header, separator, comment
        As ``Table.read`` has them.
    widths : sequence of int
        How many fields a row may have, if not as many as there are columns.
    derived : mapping of str to Expr
        Columns of text that checks and values see beside those of the file.
    """

    columns: Sequence[str]
    wanted: Sequence[str]
    key: str
    what: str
    checks: Sequence[Check]
    values: Mapping[str, pl.Expr]
    unusable: Sequence[Check] = ()
    header: bool = True
    separator: str = ","
    comment: str = ""
    widths: Sequence[int] = ()
    derived: Mapping[str, pl.Expr] = field(default_factory=dict)

    def read(self, path: Path, *, strict: bool, progress: Progress | None = None) -> tuple[Table, Counter[str]]:
        """Return the values of the rows that can be used, and count the others by reason.

        Only values stay in memory: the text of a block goes when the next one is read.

        Raises
        ------
        InvalidTrace
            If the file cannot be read, its header lacks a column, no row is left, or ``strict`` and a row fails.
        """
        skipped: Counter[str] = Counter()

        def each(rows: pl.DataFrame, width: int) -> pl.DataFrame:
            rows = rows.with_columns(of.alias(name) for name, of in self.derived.items())
            rows, bad = sift(path, rows, [bad_width(self.widths or (width,)), *self.checks], strict=strict)
            rows, useless = sift(path, rows, self.unusable, strict=False)
            skipped.update(bad)
            skipped.update(useless)
            key = pl.col(self.key).alias("key")
            return rows.select("line", key, *(value.alias(name) for name, value in self.values.items()))

        table = Table.read(
            path,
            self.columns,
            self.wanted,
            header=self.header,
            separator=self.separator,
            comment=self.comment,
            progress=progress,
            each=each,
        )
        twice = Check(self.key, "distinct", ~pl.col("key").is_first_distinct(), f"rows: duplicate {self.key}", "key")
        rows, repeated = sift(path, table.rows, [twice], strict=strict)
        skipped.update(repeated)
        if rows.is_empty():
            raise nothing_usable(table, self.what, skipped)
        return replace(table, rows=rows), skipped


def bad_width(widths: Sequence[int]) -> Check:
    """Return the check that a row has as many fields as it must."""
    fails = ~pl.col("width").is_in(list(widths))
    return Check("row", f"{' or '.join(map(str, widths))} fields", fails, source="width")


def nothing_usable(table: Table, what: str, skipped: Mapping[str, int]) -> InvalidTrace:
    """Return the error for a file in which every row was skipped, with the reasons."""
    reasons = ", ".join(
        f"{count} {reason[6:]}" for reason, count in sorted(skipped.items()) if count and reason[:5] == "rows:"
    )
    return InvalidTrace(
        f"{table.path}: must have at least 1 {what}, got 0 in {counted(table.count, 'row')} ({reasons or 'no row'})"
    )
