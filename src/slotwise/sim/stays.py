"""How long each job stays as it is on each machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Stay", "stays"]


@dataclass(frozen=True, slots=True)
class Stay:
    """A job on a machine, with the same workers and servers in every slot of a range.

    Attributes
    ----------
    job_id : str
        The job.
    machine : int
        Index of the machine.
    first, last : int
        The slots, both ends included.
    workers, servers : int
        What runs there, together >= 1.
    """

    job_id: str
    machine: int
    first: int
    last: int
    workers: int
    servers: int


def stays(rows: Iterable[Mapping[str, Any]], horizon: int) -> Iterator[Stay]:
    """Yield the stays of a run, each as soon as it ends.

    Parameters
    ----------
    rows : iterable of mapping
        Events and commands in order, as ``slotwise.events.record`` makes them.
    horizon : int
        Slots of the run: what still runs then ends there.
    """
    running: dict[str, dict[int, tuple[int, int, int]]] = {}
    for row in rows:
        kind, slot = row["kind"], row["slot"]
        if kind in ("Launch", "Resize"):
            job_id = row["job_id"]
            wanted = {
                machine: (workers, servers)
                for machine, workers, servers in zip(row["machines"], row["workers"], row["servers"], strict=True)
            }
            here = running.setdefault(job_id, {})
            for machine, (first, *held) in list(here.items()):
                if wanted.get(machine) == tuple(held):
                    del wanted[machine]
                else:
                    del here[machine]
                    yield Stay(job_id, machine, first, slot - 1, *held)
            here.update({machine: (slot, *held) for machine, held in wanted.items()})
        elif kind in ("Stop", "JobCompleted"):
            # A job that completes in a slot has run in it.
            last = slot if kind == "JobCompleted" else slot - 1
            for machine, (first, workers, servers) in running.pop(row["job_id"], {}).items():
                yield Stay(row["job_id"], machine, first, last, workers, servers)
    for job_id, here in running.items():
        for machine, (first, workers, servers) in here.items():
            yield Stay(job_id, machine, first, horizon - 1, workers, servers)
