"""``check_policy`` finds what is wrong, names it, and has nothing to say of what is right."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies import catalogue
from slotwise.policies._base import Policy, State
from slotwise.policies._placing import pack
from slotwise.testing import PolicyFault, check_policy

PLACING = [name for name in catalogue.NAMES if name not in catalogue.COMMITTING]


class Good(Policy):
    """Run the job with the least workload left first."""

    name = "good"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return pack(sorted(state.active, key=lambda job: (state.remaining[job.id], job.id)), state.free)


class Nameless(Good):
    """It has a first line."""

    name = ""


class Silent(Good):
    __doc__ = None


class Overfull(Good):
    """It takes more than there is."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return {job.id: Placement((0,), (int(state.requests[job.id].ask.workers[0]),), (0,)) for job in state.active}


class Idle(Good):
    """It never runs anything."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return {}


class Meddling(Good):
    """It writes into what it may only read."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        for job in state.active:
            state.remaining[job.id] -= 1e-9  # type: ignore[index]  # it must not
        return super().place(state, rng)


class Drawing(Good):
    """It draws from a generator that is everybody's."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        random.random()
        return super().place(state, rng)


class Remembering(Good):
    """It learns from run to run."""

    seen: list[str] = []  # noqa: RUF012  # shared on purpose

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        self.seen.extend(job.id for job in state.active)
        return pack(state.active if len(self.seen) % 2 else state.active[::-1], state.free)


class Mute(Good):
    """It gives no reasons."""

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        return "because"  # type: ignore[return-value]  # wrong on purpose


class Ghostly(Good):
    """It runs jobs that are not there."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        return {**super().place(state, rng), "ghost": Placement((0,), (1,), (0,))}


class Failing(Good):
    """It stumbles over an empty queue."""

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        state.active[0]
        return super().place(state, rng)


class Nothing(Good):
    """It forgets to answer."""

    def place(self, state: State, rng: np.random.Generator) -> Any:
        return None


class Needy(Good):
    """It cannot be made like this."""

    def __init__(self, weight: float) -> None:
        self.weight = weight


@pytest.mark.parametrize(
    ("policy", "says"),
    [
        (Nameless, "has no name"),
        (Silent, "has no docstring"),
        (Overfull, "would hold more gpu than it has"),
        (Idle, "one job on an idle cluster: has not finished alone by slot 60"),
        (Meddling, "place changes state.remaining, which it may only read"),
        (Drawing, "draws from a global random generator"),
        (Remembering, "did something else the second time, under the same seed"),
        (Mute, r"waiting must return \(Reason, text\), got 'because'"),
        (Ghostly, "places 'ghost', which is not active"),
        (Failing, "no job at all: slot 0: IndexError"),
        (Nothing, "place must return a mapping of job ids to placements, got None"),
        (Needy, "cannot be made: TypeError"),
        (dict, "is no subclass of slotwise.Policy"),
    ],
)
def test_names_the_fault(policy: Any, says: str) -> None:
    with pytest.raises(PolicyFault, match=says) as caught:
        check_policy(policy)
    assert len(caught.value.faults) >= 1


def test_has_nothing_to_say_of_a_good_policy() -> None:
    check_policy(Good)


@pytest.mark.parametrize("name", PLACING)
def test_our_own_policies_pass(name: str) -> None:
    check_policy(catalogue.POLICIES[name])


@pytest.mark.parametrize("name", sorted(catalogue.COMMITTING))
def test_policies_that_commit_pass_on_cheap_machines(name: str) -> None:
    # At these prices whoever fits is let in.
    def make(cluster: Cluster) -> Policy:
        return catalogue.make(name, cluster, (), slot_seconds=1.0, horizon=60, prices="scale=1e-6")

    check_policy(make, takes_cluster=True)
