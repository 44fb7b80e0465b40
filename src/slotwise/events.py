"""What happens (events) and what is to be done about it (commands). Both carry their slot."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason

__all__ = [
    "Admit",
    "Command",
    "Event",
    "JobArrived",
    "JobCancelled",
    "JobCompleted",
    "Launch",
    "MachineJoined",
    "MachineLost",
    "Progressed",
    "Reject",
    "Resize",
    "SlotOpened",
    "Stop",
    "record",
]


@dataclass(frozen=True, slots=True)
class JobArrived:
    """A job was submitted; it can run from ``slot`` on unless that slot was opened already."""

    slot: int
    job: Job


@dataclass(frozen=True, slots=True)
class SlotOpened:
    """A slot begins: placements are wanted for it. Slots open in order, each once."""

    slot: int


@dataclass(frozen=True, slots=True)
class Progressed:
    """A job trained ``samples`` samples in a slot."""

    slot: int
    job_id: str
    samples: float


@dataclass(frozen=True, slots=True)
class JobCompleted:
    """A job trained all of its workload; what it held is free in the next slot."""

    slot: int
    job_id: str


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Its owner takes a job back."""

    slot: int
    job_id: str


@dataclass(frozen=True, slots=True)
class MachineLost:
    """A machine is gone from the next slot to open on."""

    slot: int
    machine: str


@dataclass(frozen=True, slots=True)
class MachineJoined:
    """A lost machine is back from the next slot to open on."""

    slot: int
    machine: str


@dataclass(frozen=True, slots=True)
class Admit:
    """A job is in. ``completion`` is the promised last slot, None with policies that promise nothing."""

    slot: int
    job_id: str
    completion: int | None
    utility: float
    cost: float


@dataclass(frozen=True, slots=True)
class Reject:
    """A job is not in, or not any more."""

    slot: int
    job_id: str
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Start a job that does not run, with this placement."""

    slot: int
    job_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Resize:
    """Move a running job to this placement."""

    slot: int
    job_id: str
    placement: Placement


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a running job that has not finished; its progress is kept."""

    slot: int
    job_id: str


Event = JobArrived | SlotOpened | Progressed | JobCompleted | JobCancelled | MachineLost | MachineJoined
Command = Admit | Reject | Launch | Resize | Stop


def record(item: Event | Command) -> dict[str, Any]:
    """Return an event or a command as plain data for a log: its kind first, a job by its id."""
    out: dict[str, Any] = {"kind": type(item).__name__}
    for field in fields(item):
        value = getattr(item, field.name)
        if isinstance(value, Job):
            out["job_id"] = value.id
        elif isinstance(value, Placement):
            out["machines"], out["workers"], out["servers"] = value.machines, value.workers, value.servers
        else:
            out[field.name] = value
    return out
