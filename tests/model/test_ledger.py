"""What is committed: exact sums, all or nothing, a window that rolls, machines that come and go."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.instances import cluster_of, clusters

from slotwise.errors import Overcommitted
from slotwise.model.cluster import Cluster
from slotwise.model.ledger import RANGES, Ledger
from slotwise.model.schedule import Placement
from slotwise.units import grains

Floats = npt.NDArray[np.float64]

NONE = np.zeros(1)
UNIT = np.array([1e6])


def at(machine: int, workers: int = 1, servers: int = 0) -> Placement:
    return Placement((machine,), (workers,), (servers,))


def frozen(ledger: Ledger) -> list[bytes]:
    """All that the ledger says; what lies in ``touched`` beyond the count means nothing."""
    view = ledger.view
    lists = [view.touched[row, : view.counts[row]].tobytes() for row in range(ledger.window)]
    arrays = view.used, view.counts, view.flags, view.changed, view.capacity, view.spread + 0.0
    return [*(array.tobytes() for array in arrays), *lists]


def check_lists(ledger: Ledger) -> None:
    """Touched machines are exactly those that hold something, rising; changed are those that hold other than before."""
    for row in range(ledger.window):
        held = np.flatnonzero(ledger.view.used[row].any(axis=1)).tolist()
        assert ledger.view.touched[row, : ledger.view.counts[row]].tolist() == held
        assert np.flatnonzero(ledger.view.flags[row]).tolist() == held
    used = ledger.view.used
    assert np.array_equal(ledger.view.changed, (used != np.roll(used, 1, axis=0)).any(axis=2))
    assert np.array_equal(ledger.view.spread, spread_of(ledger))


def spread_of(ledger: Ledger) -> Floats:
    """Free grains by the share that is used, summed up anew."""
    view = ledger.view
    found = np.zeros_like(view.spread)
    for row, machine, r in np.ndindex(view.used.shape):
        capacity, used = float(view.capacity[machine, r]), float(view.used[row, machine, r])
        at = next((b for b in reversed(range(RANGES)) if used / capacity >= b / RANGES), 0) if capacity else 0
        found[row, r, at] += capacity - used
    return found


def test_ten_times_a_tenth_fits_into_one() -> None:
    ledger = Ledger(cluster_of((1.0,)), 1)
    tenth = grains([0.1])
    for _ in range(10):
        ledger.commit([0], [at(0)], tenth, NONE)
    assert ledger.free(0).tolist() == [[0.0]]
    with pytest.raises(Overcommitted):
        ledger.commit([0], [at(0)], grains([1e-6]), NONE)
    for _ in range(10):
        ledger.release([0], [at(0)], tenth, NONE)
    assert frozen(ledger) == frozen(Ledger(ledger.cluster, 1))


def test_workers_and_servers_are_counted_together() -> None:
    ledger = Ledger(cluster_of((4.0, 4.0), (4.0, 4.0)), 2)
    ledger.commit([1], [Placement((0, 1), (2, 0), (1, 3))], np.array([1e6, 0.0]), np.array([0.5e6, 1e6]))
    assert ledger.used(1).tolist() == [[2.5e6, 1e6], [1.5e6, 3e6]]
    assert not ledger.used(0).any()
    check_lists(ledger)


def test_overcommit_is_refused_with_nothing_changed() -> None:
    ledger = Ledger(cluster_of((2.0,), (2.0,), (1.0,)), 3)
    ledger.commit([0, 1], [at(0), Placement((0, 1), (1, 1), (0, 0))], UNIT, NONE)
    before = frozen(ledger)
    with pytest.raises(Overcommitted, match=r"machine 'm2' would hold more \w+ than it has"):
        ledger.commit([0, 1, 2], [at(0), at(1), at(2, 2)], UNIT, NONE)
    with pytest.raises(Overcommitted):
        ledger.commit([0, 1], [at(0), at(0, 2)], UNIT, NONE)
    assert frozen(ledger) == before


def test_same_machine_and_slot_twice_in_one_commit_is_added_up() -> None:
    ledger = Ledger(cluster_of((2.0,)), 1)
    before = frozen(ledger)
    with pytest.raises(Overcommitted):
        ledger.commit([0, 0], [at(0), at(0, 2)], UNIT, NONE)
    assert frozen(ledger) == before
    ledger.commit([0, 0], [at(0), at(0)], UNIT, NONE)
    assert ledger.free(0).tolist() == [[0.0]]


def test_amounts_beyond_exact_integers_are_refused_with_nothing_changed() -> None:
    ledger = Ledger(cluster_of((1.0,)), 1)
    ledger.commit([0], [at(0)], np.array([3.0]), NONE)
    before = frozen(ledger)
    with pytest.raises(Overcommitted):
        ledger.commit([0], [at(0, 10_000)], np.array([1e15]), NONE)
    assert frozen(ledger) == before


def test_release_of_what_was_never_committed_is_refused() -> None:
    ledger = Ledger(cluster_of((2.0,)), 2)
    ledger.commit([0], [at(0)], UNIT, NONE)
    before = frozen(ledger)
    with pytest.raises(Overcommitted, match="less than nothing"):
        ledger.release([0, 1], [at(0), at(0)], UNIT, NONE)
    assert frozen(ledger) == before


@pytest.mark.parametrize("slot", [-1, 4])
def test_slots_outside_of_the_window_are_refused(slot: int) -> None:
    ledger = Ledger(cluster_of((2.0,)), 4)
    with pytest.raises(Overcommitted, match=f"slot must be in 0 ... 3, got {slot}"):
        ledger.commit([slot], [at(0)], UNIT, NONE)


def test_fixed_window_only_shrinks() -> None:
    ledger = Ledger(cluster_of((2.0,)), 4)
    ledger.commit([0, 3], [at(0), at(0)], UNIT, NONE)
    ledger.advance(2)
    assert (ledger.origin, ledger.end) == (2, 4)
    with pytest.raises(Overcommitted):
        ledger.commit([1], [at(0)], UNIT, NONE)
    with pytest.raises(Overcommitted):
        ledger.commit([4], [at(0)], UNIT, NONE)
    assert ledger.used(3).tolist() == [[1e6]]
    ledger.advance(100)
    assert not ledger.view.used.any()


def test_rolling_window_opens_rows_that_passed() -> None:
    ledger = Ledger(cluster_of((2.0,), (2.0,)), 3, rolling=True)
    assert ledger.end == 3
    for slot in range(3):
        ledger.commit([slot], [at(slot % 2, 2)], UNIT, NONE)
    ledger.advance(1)
    assert ledger.end == 4
    assert not ledger.used(3).any()
    ledger.commit([3], [at(1)], UNIT, NONE)  # takes the row of slot 0
    assert ledger.used(3).tolist() == [[0.0], [1e6]]
    assert ledger.used(1).tolist() == [[0.0], [2e6]]
    check_lists(ledger)
    ledger.advance(0)  # never back
    assert ledger.origin == 1
    ledger.advance(50)  # far beyond the window
    assert (ledger.origin, ledger.end) == (50, 53)
    assert not ledger.view.used.any()
    check_lists(ledger)
    ledger.commit([50, 52], [at(0), at(1)], UNIT, NONE)
    check_lists(ledger)


def test_lost_machine_takes_nothing_until_it_joins() -> None:
    cluster = cluster_of((2.0,), (2.0,), (1.0,))
    ledger = Ledger(cluster, 2)
    ledger.lose(1)
    assert sorted(ledger.view.members.tolist()) == [0, 2]
    assert int(ledger.view.starts[-1]) == 2
    assert ledger.free(0).tolist() == [[2e6], [0.0], [1e6]]
    with pytest.raises(Overcommitted):
        ledger.commit([0], [at(1)], UNIT, NONE)
    ledger.join(1)
    assert frozen(ledger) == frozen(Ledger(cluster, 2))
    assert ledger.view.members.tolist() == Ledger(cluster, 2).view.members.tolist()
    assert ledger.view.starts.tolist() == Ledger(cluster, 2).view.starts.tolist()
    ledger.commit([0], [at(1)], UNIT, NONE)


def test_losing_a_machine_leaves_the_cluster_as_it_was() -> None:
    cluster = cluster_of((2.0,), (1.0,))
    ledger = Ledger(cluster, 1)
    ledger.lose(0)
    assert cluster.grains.tolist() == [[2e6], [1e6]]
    assert Ledger(cluster, 1).free(0).tolist() == [[2e6], [1e6]]


def test_machine_without_any_capacity_is_no_lost_machine() -> None:
    ledger = Ledger(cluster_of((0.0,), (1.0,)), 1)
    ledger.lose(1)
    assert ledger.view.members.tolist() == [0]
    ledger.join(1)
    assert sorted(ledger.view.members.tolist()) == [0, 1]


def test_what_takes_nothing_touches_nothing() -> None:
    ledger = Ledger(cluster_of((1.0,)), 1)
    ledger.commit([0], [at(0, 0, 3)], UNIT, NONE)
    ledger.commit([], [], UNIT, NONE)
    check_lists(ledger)
    assert ledger.view.counts.tolist() == [0]


@given(st.data())
def test_any_history_equals_a_plain_ledger(data: st.DataObject) -> None:
    """Commits, releases and passing slots, against a dictionary of what is held."""
    cluster: Cluster = data.draw(clusters(most_machines=5))
    window = data.draw(st.integers(1, 4))
    rolling = data.draw(st.booleans())
    ledger = Ledger(cluster, window, rolling=rolling)
    grain = st.sampled_from([0.0, 1.0, 1e5, 5e5, 1e6, 333_333.0])
    resources = len(cluster.resources)
    held: list[tuple[int, Placement, Floats, Floats]] = []
    for _ in range(data.draw(st.integers(0, 12))):
        step = data.draw(st.sampled_from(["commit", "commit", "commit", "release", "advance"]))
        before = frozen(ledger)
        if step == "advance":
            ledger.advance(ledger.origin + data.draw(st.integers(0, 2)))
            held = [entry for entry in held if entry[0] >= ledger.origin]
        elif step == "release" and held:
            slot, placement, worker, server = held.pop(data.draw(st.integers(0, len(held) - 1)))
            ledger.release([slot], [placement], worker, server)
        elif step == "commit" and ledger.origin < ledger.end:
            slot = data.draw(st.integers(ledger.origin, ledger.end - 1))
            chosen = data.draw(st.sets(st.integers(0, len(cluster) - 1), min_size=1))
            counts = {m: (data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))) for m in chosen}
            placement = Placement.of(counts)
            worker, server = (np.array(data.draw(st.tuples(*[grain] * resources))) for _ in range(2))
            try:
                ledger.commit([slot], [placement], worker, server)
                held.append((slot, placement, worker, server))
            except Overcommitted:
                assert frozen(ledger) == before
        used = np.zeros((window, *cluster.grains.shape))
        for slot, placement, worker, server in held:
            for m, w, s in zip(placement.machines, placement.workers, placement.servers, strict=True):
                used[slot % window, m] += w * worker + s * server
        assert np.array_equal(ledger.view.used, used)
        assert (used <= cluster.grains).all()
        check_lists(ledger)
