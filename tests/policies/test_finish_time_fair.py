from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from tests.builders import completions, gang, machines, occupancy, play

from slotwise.model.job import Job
from slotwise.policies._base import State
from slotwise.policies._shares import Gangs
from slotwise.policies.finish_time_fair import FinishTimeFair


class Noted(FinishTimeFair):
    """Notes the shares that are found, by slot."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[int, list[float]] = {}

    def shares(self, jobs: Sequence[Job], gangs: Gangs, state: State) -> npt.NDArray[np.float64]:
        shares = super().shares(jobs, gangs, state)
        self.found[state.slot] = shares.tolist()
        return shares


def test_two_jobs_of_unequal_length_that_come_together_have_equal_shares() -> None:
    """Isolated, with half of the machine, each takes twice as long, and so it does with x = 1/2: ρ = 1 for both."""
    policy = Noted()

    _, log = play(policy, machines({"gpu": 1.0}), [gang("short", 1, 2), gang("long", 1, 6)], 9)

    assert policy.found[0] == pytest.approx([0.5, 0.5])
    assert [set(slot) for slot in occupancy(log, 4)] == [{"short"}, {"long"}, {"short"}, {"long"}]
    assert completions(log) == {"short": 2, "long": 7}


def test_a_gang_of_two_thirds_is_due_its_time_on_half_of_the_cluster() -> None:
    """Of 3 GPUs wide takes 2: alone with half of them it runs 3/4 of the time; narrow, 1/3, runs all the time.

    D = (4 / (3/4), 4) = (16/3, 4). x_wide = 4 / (16/3 ρ) = 3 / (4 ρ), x_narrow = 1 / ρ, and 2/3 x_wide + 1/3 x_narrow
    is 5 / (6 ρ): what limits ρ is that narrow cannot run more than all the time. So ρ = 1 for narrow, x = 1; wide goes
    on to the lower ρ = 3/4, at which it runs all the time too and 2/3 + 1/3 is all there is.
    """
    policy = Noted()

    play(policy, machines({"gpu": 3.0}), [gang("wide", 2, 4), gang("narrow", 1, 4)], 9)

    assert policy.found[0] == pytest.approx([1.0, 1.0])


def test_time_that_a_job_was_alone_counts_as_its_own() -> None:
    """Slot 4, one GPU: a came in slot 0 and has 4 slots left of 8, alone until now; b comes with 4.

    a: what it trained took 4 slots isolated too (n was 1), D = 4 + 4 / (1/2) = 12, t = 4; b: D = 8, t = 0.
    4 / (12 ρ - 4) + 4 / (8 ρ) = 1 at ρ = 1: x = (1/2, 1/2).

    Slot 6: c comes with 3. a has run in slot 4 and b in slot 5, both have 3 left. D_a = 4 + 1/(1/2) + 3/(1/3) = 15,
    t = 6; D_b = 2 + 9 = 11, t = 2; D_c = 9, t = 0. 3/(15ρ - 6) + 3/(11ρ - 2) + 3/(9ρ) = 1 at ρ = 1: thirds.
    """
    policy = Noted()

    play(policy, machines({"gpu": 1.0}), [gang("a", 1, 8), gang("b", 1, 4, arrival=4), gang("c", 1, 3, arrival=6)], 40)

    assert policy.found[4] == pytest.approx([0.5, 0.5])
    assert policy.found[6] == pytest.approx([1 / 3, 1 / 3, 1 / 3])


def test_shares_bring_all_to_one_ratio_whatever_they_have_had() -> None:
    """Of 4 GPUs a needs 3, b and c 2; c comes in slot 1.

    Slot 0: D_a = 4 / (1 / (2 3/4)) = 6, D_b = 4 / 1; 3/4 4/(6ρ) + 1/2 4/(4ρ) = 1 at ρ = 1, x = (2/3, 1): b runs.
    Slot 1, isolated now 4/9, 2/3 and 2/3: a waited, D_a = 4/(4/9) = 9, t = 1, n = 4; b trained one of its slots in one,
    D_b = 1 + 3/(2/3) = 5.5, t = 1, n = 3; D_c = 4/(2/3) = 6, t = 0, n = 4.
    """
    policy = Noted()

    play(policy, machines({"gpu": 4.0}), [gang("a", 3, 4), gang("b", 2, 4), gang("c", 2, 4, arrival=1)], 40)

    assert policy.found[0] == pytest.approx([2 / 3, 1.0])
    a, b, c = policy.found[1]
    ratios = [(1 + 4 / a) / 9, (1 + 3 / b) / 5.5, (4 / c) / 6]
    assert ratios == pytest.approx([ratios[0]] * 3)
    assert 0.75 * a + 0.5 * b + 0.5 * c == pytest.approx(1.0)


def test_only_the_last_job_is_remembered_when_all_have_ended() -> None:
    policy = FinishTimeFair()
    play(policy, machines({"gpu": 1.0}), [gang(f"j{i}", 1, 1, arrival=i) for i in range(20)], 25)

    assert set(policy._before) == {"j19"}
