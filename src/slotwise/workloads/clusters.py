"""The cluster file, and its shorthand ``32x8``.

::

    apiVersion: slotwise/v1
    kind: Cluster
    spec:
      bandwidth: {machine: 50Gbps, rack: 25Gbps, cluster: 5Gbps}      # optional; rack optional within it
      machines:
      - {name: a, count: 16, rack: r1, resources: {gpu: 8, cpu: 64, memory: 512Gi}}
      - {name: b, resources: {cpu: 96, memory: 768Gi}}

``count`` n > 1 makes machines a-0 ... a-(n-1), the numbers padded with zeros to equal length. Bandwidths
are those of one pair of a worker and a server, and never rise from machine to rack to cluster; the default
is 6,250 MB/s inside a machine and 625 MB/s between machines. Racks are checked, and ignored by the planner,
which has two levels of locality.
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

from slotwise.errors import InvalidCluster
from slotwise.model.cluster import DEFAULT_BANDWIDTH, Cluster, Machine
from slotwise.workloads._fields import Field, documents, read_text, shown

__all__ = ["MOST_MACHINES", "parse_shorthand", "read", "read_with_notes"]

MOST_MACHINES = 100_000
"""Most machines of a cluster file or a shorthand."""

_CPU_PER_GPU = 8.0
_MEMORY_PER_GPU = 64.0
_CPU_WITHOUT_GPU = 64.0
_MEMORY_WITHOUT_GPU = 512.0
_STORAGE = 1000.0
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
        Machines in the order of the file.

    Raises
    ------
    InvalidCluster
        If the file is bad; the message is one line, ``file:line: field must be ..., got ...``.
    """
    return read_with_notes(path)[0]


def read_with_notes(path: str | Path) -> tuple[Cluster, dict[str, str]]:
    """Read a cluster file, and say what of it the planner does not use.

    Returns
    -------
    Cluster
        As from ``read``.
    dict of str to str
        What was accepted and ignored, by subject: ``{"racks": "ignored, ..."}``; empty if nothing was.
    """
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
    machines, racks = _machines(spec.need("machines"))
    bandwidth, rack_rate = _bandwidth(spec.get("bandwidth"))
    notes = {}
    if racks or rack_rate is not None:
        notes["racks"] = f"ignored, {len(racks)} named: the planner has two levels, machine and cluster"
    return Cluster.of(machines, bandwidth), notes


def _bandwidth(field: Field | None) -> tuple[tuple[float, float], float | None]:
    if field is None:
        return DEFAULT_BANDWIDTH, None
    field.entries(("machine", "rack", "cluster"))
    levels = [field.need("machine"), field.get("rack"), field.need("cluster")]
    rates = [(level, level.rate()) for level in levels if level is not None]
    for (_, wider), (level, narrower) in pairwise(rates):
        if narrower > wider:
            level.refuse(f"<= the level inside it ({wider:g} MB/s)", f"{narrower:g} MB/s")
    return (rates[0][1], rates[-1][1]), rates[1][1] if len(rates) == 3 else None


def _machines(field: Field) -> tuple[list[Machine], set[str]]:
    if not field.items():
        field.refuse("a list of at least 1 machine")
    machines: list[Machine] = []
    racks: set[str] = set()
    lines: dict[str, int] = {}
    for entry in field.items():
        entry.entries(("name", "count", "rack", "resources"))
        named, counted, rack = entry.need("name"), entry.get("count"), entry.get("rack")
        name = named.text()
        count = 1 if counted is None else counted.whole(1, MOST_MACHINES)
        if len(machines) + count > MOST_MACHINES:
            entry.refuse(f"at most {MOST_MACHINES} machines with those before", f"{len(machines) + count}")
        if rack is not None:
            racks.add(rack.text())
        amounts = entry.need("resources").resources()
        if not amounts:
            entry.need("resources").refuse("amounts of at least 1 resource (0 is allowed)", "none")
        width = len(str(count - 1))
        for full in [name] if count == 1 else [f"{name}-{i:0{width}d}" for i in range(count)]:
            if full in lines:
                named.refuse(f"unique (machine {shown(full)} is at line {lines[full]})")
            lines[full] = named.line
            machines.append(Machine(full, amounts))
    return machines, racks


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
