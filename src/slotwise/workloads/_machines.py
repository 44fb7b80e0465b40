"""Tables of machines, one a row, as two traces have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from slotwise.model.cluster import Cluster, Machine
from slotwise.units import LARGEST_AMOUNT
from slotwise.workloads._rows import Layout, bad_name, bad_number, number

__all__ = ["machines"]


def machines(
    path: Path,
    columns: Sequence[str],
    name: str,
    amounts: Mapping[str, tuple[str, float]],
    *,
    header: bool,
    strict: bool,
) -> tuple[Cluster, dict[str, int]]:
    """Read a table of machines.

    Parameters
    ----------
    path : Path
        The table, plain or gzip.
    columns : sequence of str
        All of its columns.
    name : str
        Column with the names.
    amounts : mapping of str to (str, float)
        For each resource its column, and what one unit of it is in ours.
    header : bool
        Whether the first row must be a header.
    strict : bool
        Whether to stop at the first malformed row instead of counting it.

    Returns
    -------
    cluster : Cluster
        The machines in the order of the file.
    skipped : dict of str to int
        Rows left out, by reason.

    Raises
    ------
    InvalidTrace
        If the file cannot be read, its header lacks a column, no row is usable, or ``strict`` and a row is malformed.
    """
    sources = [column for column, _ in amounts.values()]
    layout = Layout(
        columns=columns,
        wanted=(name, *sources),
        key=name,
        what="machine",
        checks=[bad_name(name), *(bad_number(column, 0.0, LARGEST_AMOUNT) for column in sources)],
        values={resource: number(column) * unit for resource, (column, unit) in amounts.items()},
        header=header,
    )
    table, skipped = layout.read(path, strict=strict)
    rows = table.rows.select("key", *amounts).iter_rows()
    cluster = Cluster.of(Machine(row[0], dict(zip(amounts, row[1:], strict=True))) for row in rows)
    return cluster, dict(sorted(skipped.items()))
