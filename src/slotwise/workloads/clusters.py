"""The cluster file, and its shorthand ``32x8``.

::

    apiVersion: slotwise/v1
    kind: Cluster
    spec:
      bandwidth: {machine: 50Gbps, rack: 25Gbps, row: 10Gbps, cluster: 5Gbps}      # optional
      machines:
      - {name: a, count: 16, rack: r1, row: north, resources: {gpu: 8, cpu: 64, memory: 512Gi}}
      - {name: b, resources: {cpu: 96, memory: 768Gi}}

``count`` n > 1 makes machines a-0 ... a-(n-1), the numbers padded with zeros to equal length.

The names in ``bandwidth`` are the levels of locality, from inside a machine to anywhere in the cluster: ``machine``
first, ``cluster`` last, and between them any, at most 6 in all. Their numbers are those of one pair of a worker and a
server, and never rise from one to the next; the default is 6,250 MB/s inside a machine and 625 MB/s between machines.
A machine names its rack, its row and so on in fields of these names. One that names none stands alone; a rack lies in
one row. ``rack`` on machines needs no bandwidth where no other level is named: within a rack it is then the cluster's,
which the command line warns of.
"""

from __future__ import annotations

import difflib
import re
from itertools import pairwise
from pathlib import Path

from slotwise.errors import InvalidCluster
from slotwise.model.cluster import DEFAULT_BANDWIDTH, MOST_LEVELS, TWO_LEVELS, Cluster, Machine
from slotwise.workloads._fields import Field, documents, read_text, shown

__all__ = ["MOST_MACHINES", "parse_shorthand", "read", "read_noted"]

MOST_MACHINES = 100_000
"""Most machines of a cluster file or a shorthand."""

_CPU_PER_GPU = 8.0
_MEMORY_PER_GPU = 64.0
_CPU_WITHOUT_GPU = 64.0
_MEMORY_WITHOUT_GPU = 512.0
_STORAGE = 1000.0
_RACK = "rack"
_OF_MACHINE = ("name", "count", "resources")
_LEVEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,40}", re.ASCII)
_SHORTHAND = re.compile(r"([0-9]{1,9})x([0-9]{1,9})")


def read(path: str | Path) -> Cluster:
    """Read a cluster file.

    Parameters
    ----------
    path : str or Path
        A YAML file with one document of kind Cluster, see this module's docstring.

    Returns
    -------
    Cluster
        Machines in the order of the file, but those of one rack (row ...) side by side, see ``Cluster.of``.

    Raises
    ------
    InvalidCluster
        If the file is bad; the message is one line, ``file:line: field must be ..., got ...``.
    """
    return read_noted(path)[0]


def read_noted(path: str | Path) -> tuple[Cluster, dict[str, str]]:
    """Read a cluster file as ``read`` does, and say by which rule what it leaves open was filled in."""
    found = list(documents(path, read_text(path, InvalidCluster), InvalidCluster, InvalidCluster))
    if len(found) != 1:
        line = found[1].line if found else 1
        raise InvalidCluster(f"{path}:{line}: file must hold 1 document of kind Cluster, got {len(found)}")
    document = found[0]
    document.entries(("apiVersion", "kind", "metadata", "spec"))
    document.need("apiVersion").text(one_of=("slotwise/v1",))
    document.need("kind").text(one_of=("Cluster",))
    metadata = document.get("metadata")
    if metadata is not None:
        metadata.entries(("name",))
    spec = document.need("spec")
    spec.entries(("bandwidth", "machines"))
    rates = _bandwidth(spec.get("bandwidth"))
    between = tuple(rates)[1:-1]
    machines = _machines(spec.need("machines"), between or (_RACK,))
    notes = {}
    if not between and any(machine.domains for machine in machines):
        # Racks bound the jobs that ask for one even where nothing is faster within them.
        rates = {"machine": rates["machine"], _RACK: rates["cluster"], "cluster": rates["cluster"]}
        notes[_RACK] = (
            "machines name racks, and bandwidth has no rack: no job is faster within one, "
            f"{rates['cluster']:g} MB/s as anywhere in the cluster; give bandwidth: "
            "{machine: ..., rack: ..., cluster: ...}"
        )
    for level in between:
        if not any(level in machine.domains for machine in machines):
            notes[level] = (
                f"bandwidth has {level}, and no machine names one: each machine is a {level} of its own; give the "
                f"machines {level}: NAME"
            )
    return Cluster.of(machines, tuple(rates.values()), tuple(rates)), notes


def _bandwidth(field: Field | None) -> dict[str, float]:
    """Return MB/s by level, from the machine to the cluster."""
    if field is None:
        return dict(zip(TWO_LEVELS, DEFAULT_BANDWIDTH, strict=True))
    given = {name: level for name, level in field.entries().items() if level.value is not None}
    for end in TWO_LEVELS:
        near = difflib.get_close_matches(end, given, n=1, cutoff=0.6)
        if end not in given and near:
            given[near[0]].refuse(f"a known field (did you mean {end}?)", ascii(near[0]))
        field.need(end)
    for name, level in given.items():
        if name in _OF_MACHINE or _LEVEL.fullmatch(name) is None:
            bound = f"the name of a level: letters, digits, _ and -, none of {', '.join(_OF_MACHINE)}"
            level.refuse(bound, ascii(name[:60]))
    if len(given) > MOST_LEVELS:
        field.refuse(f"at most {MOST_LEVELS} levels", f"{len(given)}")
    names = tuple(given)
    if len(names) > 3 and (names[0], names[-1]) != TWO_LEVELS:
        # With one level between them there is only one order, whichever was written.
        field.refuse("in order from machine to cluster", ", ".join(names))
    order = ("machine", *(name for name in names if name not in TWO_LEVELS), "cluster")
    rates = {name: given[name].rate() for name in order}
    for (_, wider), (name, narrower) in pairwise(rates.items()):
        if narrower > wider:
            given[name].refuse(f"<= the level inside it ({wider:g} MB/s)", f"{narrower:g} MB/s")
    return rates


def _machines(field: Field, between: tuple[str, ...]) -> list[Machine]:
    if not field.items():
        field.refuse("a list of at least 1 machine")
    machines: list[Machine] = []
    lines: dict[str, int] = {}
    placed: dict[tuple[str, str], Machine] = {}
    for entry in field.items():
        entry.entries(("name", "count", *between, "resources"))
        named, counted = entry.need("name"), entry.get("count")
        name = named.text()
        count = 1 if counted is None else counted.whole(1, MOST_MACHINES)
        if len(machines) + count > MOST_MACHINES:
            entry.refuse(f"at most {MOST_MACHINES} machines with those before", f"{len(machines) + count}")
        domains = {level: entry.need(level).text() for level in between if entry.get(level) is not None}
        amounts = entry.need("resources").resources()
        if not amounts:
            entry.need("resources").refuse("amounts of at least 1 resource (0 is allowed)", "none")
        width = len(str(count - 1))
        for full in [name] if count == 1 else [f"{name}-{i:0{width}d}" for i in range(count)]:
            if full in lines:
                named.refuse(f"unique (machine {shown(full)} is at line {lines[full]})")
            lines[full] = named.line
            machines.append(Machine(full, amounts, domains))
        for i, inner in enumerate(between):
            if inner not in domains:
                continue
            first = placed.setdefault((inner, domains[inner]), machines[-1])
            for outer in between[i + 1 :]:
                here, there = domains.get(outer), first.domains.get(outer)
                if here != there:
                    bound = f"in the one {outer} of {inner} {shown(domains[inner])}"
                    where = f"{shown(there)} at line {lines[first.name]}"
                    entry.need(inner).refuse(f"{bound} ({where})", shown(here))
    return machines


def parse_shorthand(text: str) -> Cluster:
    """Build a cluster from ``machines x GPUs``.

    Parameters
    ----------
    text : str
        ``"32x8"``: 32 machines of 8 GPUs, each GPU with 8 cpu and 64 GiB of memory, and 1,000 GiB of
        storage a machine. ``"4x0"``: machines without a GPU have 64 cpu and 512 GiB. Bandwidth is the
        default of cluster files.

    Raises
    ------
    InvalidCluster
        If it is not two whole numbers around an x, or out of 1 ... 100,000 machines, 0 ... 1,000 GPUs.

    Examples
    --------
    >>> len(parse_shorthand("32x8"))
    32
    """
    match = _SHORTHAND.fullmatch(text)
    if match is None:
        raise InvalidCluster(f"cluster must be a file that exists, or machines x GPUs such as 32x8, got {shown(text)}")
    machines, gpu = int(match[1]), int(match[2])
    if not 1 <= machines <= MOST_MACHINES:
        raise InvalidCluster(f"cluster machines must be in 1 ... {MOST_MACHINES}, got {machines} in {text!r}")
    if gpu > 1000:
        raise InvalidCluster(f"cluster GPUs a machine must be in 0 ... 1000, got {gpu} in {text!r}")
    return Cluster.uniform(
        machines,
        gpu=gpu,
        cpu=_CPU_PER_GPU * gpu if gpu else _CPU_WITHOUT_GPU,
        memory=_MEMORY_PER_GPU * gpu if gpu else _MEMORY_WITHOUT_GPU,
        storage=_STORAGE,
    )
