from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest
from tests.builders import gang

from slotwise import events
from slotwise.events import (
    Admit,
    Command,
    Event,
    JobArrived,
    JobCancelled,
    JobCompleted,
    Launch,
    MachineJoined,
    MachineLost,
    Progressed,
    Reject,
    Resize,
    SlotOpened,
    Stop,
    record,
)
from slotwise.model.schedule import Placement, Reason

PLACEMENT = Placement((0, 2), (3, 1), (0, 2))

ITEMS: list[tuple[Event | Command, dict[str, Any]]] = [
    (JobArrived(3, gang("a", 1)), {"kind": "JobArrived", "slot": 3, "job_id": "a"}),
    (SlotOpened(4), {"kind": "SlotOpened", "slot": 4}),
    (Progressed(4, "a", 2.5), {"kind": "Progressed", "slot": 4, "job_id": "a", "samples": 2.5}),
    (JobCompleted(4, "a"), {"kind": "JobCompleted", "slot": 4, "job_id": "a"}),
    (JobCancelled(5, "b"), {"kind": "JobCancelled", "slot": 5, "job_id": "b"}),
    (MachineLost(5, "m0"), {"kind": "MachineLost", "slot": 5, "machine": "m0"}),
    (MachineJoined(6, "m0"), {"kind": "MachineJoined", "slot": 6, "machine": "m0"}),
    (
        Admit(3, "a", None, 1.5, 0.25),
        {"kind": "Admit", "slot": 3, "job_id": "a", "completion": None, "utility": 1.5, "cost": 0.25},
    ),
    (
        Reject(3, "a", Reason.NEVER_FITS, "too large"),
        {"kind": "Reject", "slot": 3, "job_id": "a", "reason": "never fits", "detail": "too large"},
    ),
    (
        Launch(4, "a", PLACEMENT),
        {"kind": "Launch", "slot": 4, "job_id": "a", "machines": [0, 2], "workers": [3, 1], "servers": [0, 2]},
    ),
    (
        Resize(5, "a", PLACEMENT),
        {"kind": "Resize", "slot": 5, "job_id": "a", "machines": [0, 2], "workers": [3, 1], "servers": [0, 2]},
    ),
    (Stop(6, "a"), {"kind": "Stop", "slot": 6, "job_id": "a"}),
]


@pytest.mark.parametrize(("item", "plain"), ITEMS, ids=[type(item).__name__ for item, _ in ITEMS])
def test_a_record_is_plain_data_with_its_kind_first(item: Event | Command, plain: dict[str, Any]) -> None:
    out = record(item)

    assert json.loads(json.dumps(out)) == plain
    assert next(iter(out)) == "kind"


def test_every_event_and_command_has_its_record_tested() -> None:
    kinds = {*get_args(Event), *get_args(Command)}

    assert {type(item) for item, _ in ITEMS} == kinds
    assert {kind.__name__ for kind in kinds} <= set(events.__all__)


@pytest.mark.parametrize("item", [item for item, _ in ITEMS], ids=lambda item: type(item).__name__)
def test_events_and_commands_cannot_be_changed(item: Event | Command) -> None:
    with pytest.raises(FrozenInstanceError):
        item.slot = 9  # type: ignore[misc]
