import dataclasses

import pytest

from slotwise.model.schedule import Decision, Placement, Reason, Schedule


def test_placement_sorts_machines_and_leaves_empty_ones_out() -> None:
    placement = Placement.of({7: (2, 0), 3: (0, 1), 5: (0, 0)})
    assert placement == Placement(machines=(3, 7), workers=(0, 2), servers=(1, 0))
    assert (placement.total_workers, placement.total_servers) == (2, 1)


def test_schedule_knows_its_promise_and_its_pauses() -> None:
    first, second = Placement.of({0: (1, 1)}), Placement.of({1: (2, 1)})
    schedule = Schedule(slots=(4, 6), placements=(first, second), samples=(10.0, 20.0))
    assert schedule.completion == 6
    assert schedule.at(4) is first
    assert schedule.at(5) is None
    assert schedule.at(6) is second


def test_payoff_is_utility_minus_cost() -> None:
    assert Decision(admitted=True, utility=10.0, cost=4.0).payoff == 6.0


def test_a_rejection_says_why() -> None:
    decision = Decision(admitted=False, reason=Reason.NEVER_FITS, detail="needs 9 gpu on one machine")
    assert decision.payoff == 0.0
    assert f"{decision.reason}" == "never fits"


def test_decisions_cannot_be_changed() -> None:
    decision = Decision(admitted=False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.admitted = True  # type: ignore[misc]
