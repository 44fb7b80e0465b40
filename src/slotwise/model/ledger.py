"""What is committed on every machine in every coming slot."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from slotwise.errors import Overcommitted
from slotwise.model.cluster import Cluster
from slotwise.model.schedule import Placement

__all__ = ["MOST_CELLS", "RANGES", "Ledger", "LedgerView"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_CELLS = 500_000_000
"""Slots x machines x resources of a ledger that anybody may ask for: it takes 8 bytes for each."""

RANGES = 64
"""Ranges of used shares in which a slot's free amounts are summed up."""


class LedgerView(NamedTuple):
    """The ledger's arrays, as kernels read them (never write to them).

    Rows are ``slot % window``. A machine is *touched* in a slot if anything is committed on it there; untouched
    machines of one class are interchangeable, so kernels look at the touched ones and at a few of each class.
    """

    used: Floats
    """(window, M, R) committed grains: whole numbers, so that sums are exact and a release restores what was."""
    capacity: Floats
    """(M, R) grains; zero on a lost machine."""
    touched: npt.NDArray[np.int32]
    """(window, M) touched machines of each row, rising, in the first ``counts[row]`` places."""
    counts: Ints
    """(window,) touched machines of each row."""
    flags: npt.NDArray[np.bool_]
    """(window, M) whether a machine is touched."""
    changed: npt.NDArray[np.bool_]
    """(window, M) whether a machine holds other grains than in the row before, which for the first is the last."""
    classes: Ints
    """(M,) class of each machine."""
    members: Ints
    """Machines that are not lost, ordered by class, rising within each class."""
    starts: Ints
    """(classes + 1,) where each class begins in ``members``."""
    spread: Floats
    """(window, R, RANGES) free grains of machines by the share of the resource that is used on them: the b-th range is
    from b / RANGES up to (b + 1) / RANGES, a full machine has nothing free."""
    domains: Ints
    """(L, M) domain of each machine at each level of locality, see ``Cluster.domains``."""


class Ledger:
    """Committed amounts, (slot, machine, resource), over a window of slots that can roll.

    Parameters
    ----------
    cluster : Cluster
        The machines.
    window : int
        Slots held at once, >= 1: the horizon of a simulation, or how far ahead a live scheduler promises.
    rolling : bool
        If true, a slot that passes makes room for a new one at the far end; if false the last slot stays
        ``window - 1``.

    Attributes
    ----------
    origin : int
        First slot that can still be committed. Invariant: rows of earlier slots are empty.
    """

    def __init__(self, cluster: Cluster, window: int, *, rolling: bool = False) -> None:
        machines, resources = cluster.grains.shape
        self.cluster = cluster
        self.window = window
        self.rolling = rolling
        self.origin = 0
        members, starts = _by_class(cluster.classes, np.ones(machines, dtype=np.bool_))
        self.view = LedgerView(
            used=np.zeros((window, machines, resources)),
            capacity=cluster.grains.copy(),
            touched=np.zeros((window, machines), dtype=np.int32),
            counts=np.zeros(window, dtype=np.int64),
            flags=np.zeros((window, machines), dtype=np.bool_),
            changed=np.zeros((window, machines), dtype=np.bool_),
            classes=cluster.classes,
            members=members,
            starts=starts,
            spread=np.zeros((window, resources, RANGES)),
            domains=cluster.domains,
        )
        # Nothing is used: no need to count machine by machine.
        self.view.spread[:, :, 0] = cluster.grains.sum(axis=0)

    @property
    def end(self) -> int:
        """First slot that cannot be committed any more (or yet)."""
        return self.origin + self.window if self.rolling else self.window

    def idle(self, slot: int) -> bool:
        """Whether nothing is committed from a slot on."""
        rows = np.arange(max(slot, self.origin), self.end) % self.window
        return not self.view.counts[rows].any()

    def used(self, slot: int) -> Floats:
        """Return committed grains in a slot, (M, R)."""
        used: Floats = self.view.used[slot % self.window]
        return used

    def free(self, slot: int) -> Floats:
        """Return grains left in a slot, (M, R), >= 0."""
        return self.view.capacity - self.used(slot)

    def commit(self, slots: Iterable[int], placements: Iterable[Placement], worker: Floats, server: Floats) -> None:
        """Add placements, all or none.

        Parameters
        ----------
        slots, placements : iterables of equal length
            Where and when; slots are distinct.
        worker, server : (R,) float64
            Grains of one worker and of one server.

        Raises
        ------
        Overcommitted
            If any machine would hold more than its capacity in any resource, or a slot lies outside of the window.
        """
        self._apply(slots, placements, worker, server, 1.0)

    def release(self, slots: Iterable[int], placements: Iterable[Placement], worker: Floats, server: Floats) -> None:
        """Take placements back, as they were committed; the ledger is then exactly what it was without them."""
        self._apply(slots, placements, worker, server, -1.0)

    def _apply(
        self, slots: Iterable[int], placements: Iterable[Placement], worker: Floats, server: Floats, sign: float
    ) -> None:
        rows: list[int] = []
        machines: list[int] = []
        workers: list[int] = []
        servers: list[int] = []
        for slot, placement in zip(slots, placements, strict=True):
            if not self.origin <= slot < self.end:
                raise Overcommitted(f"slot must be in {self.origin} ... {self.end - 1}, got {slot}")
            rows += [slot % self.window] * len(placement.machines)
            machines += placement.machines
            workers += placement.workers
            servers += placement.servers
        if not rows:
            return
        amounts = np.outer(np.array(workers), worker) + np.outer(np.array(servers), server)
        bad = _apply_entries(self.view, np.array(rows), np.array(machines), amounts, sign)
        if bad >= 0:
            machine = machines[bad]
            # What comes before it in the list would be there already.
            sums = np.zeros(len(worker))
            for row, other, amount in zip(rows[: bad + 1], machines[: bad + 1], amounts[: bad + 1], strict=True):
                if (row, other) == (rows[bad], machine):
                    sums += sign * amount
            after = self.view.used[rows[bad], machine] + sums
            worst = int(np.argmax(np.where(after < 0, np.inf, after - self.view.capacity[machine])))
            resource = self.cluster.resources[worst]
            what = f"less than nothing ({resource})" if after[worst] < 0 else f"more {resource} than it has"
            raise Overcommitted(f"machine {self.cluster.names[machine]!r} would hold {what}")

    def advance(self, slot: int) -> None:
        """Drop what lies before ``slot``; if rolling, as many slots open at the far end."""
        for passed in range(self.origin, min(slot, self.origin + self.window)):
            row = passed % self.window
            if self.view.counts[row]:
                self.view.used[row] = 0.0
                self.view.spread[row] = 0.0
                self.view.spread[row, :, 0] = self.view.capacity.sum(axis=0)
                self.view.flags[row] = False
                self.view.counts[row] = 0
                self.view.changed[row] = self.view.flags[row - 1]
                self.view.changed[(row + 1) % self.window] = self.view.flags[(row + 1) % self.window]
        self.origin = max(self.origin, slot)

    def lose(self, machine: int) -> None:
        """Take a machine away; what is committed on it must have been released."""
        self._set_capacity(machine, np.zeros_like(self.view.capacity[machine]))

    def join(self, machine: int) -> None:
        """Give a lost machine back."""
        self._set_capacity(machine, self.cluster.grains[machine])

    def copy(self) -> Ledger:
        """Return one with the same content that changes by itself."""
        other = copy.copy(self)
        changing = ("used", "capacity", "touched", "counts", "flags", "changed", "spread")
        other.view = self.view._replace(**{name: getattr(self.view, name).copy() for name in changing})
        return other

    def recount(self) -> None:
        """Derive ``view.spread`` and ``view.changed`` anew from what is used."""
        _recount(self.view)

    def _set_capacity(self, machine: int, grains: Floats) -> None:
        self.view.capacity[machine] = grains
        alive: npt.NDArray[np.bool_] = np.asarray(self.view.capacity.any(axis=1) | ~self.cluster.grains.any(axis=1))
        members, starts = _by_class(self.cluster.classes, alive)
        self.view = self.view._replace(members=members, starts=starts)
        self.recount()


def _by_class(classes: Ints, alive: npt.NDArray[np.bool_]) -> tuple[Ints, Ints]:
    members = np.argsort(classes, kind="stable")
    sizes = np.bincount(classes[alive], minlength=int(classes.max()) + 1)
    return members[alive[members]].astype(np.int64), np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@numba.njit(cache=True)
def _range(used: float, capacity: float) -> int:
    """Return which range of ``LedgerView.spread`` a machine's free amount counts in."""
    return min(int(used / capacity * RANGES), RANGES - 1) if capacity > 0.0 else 0


@numba.njit(cache=True)
def _add(view: LedgerView, row: int, machine: int, amounts: Floats, sign: float) -> None:
    """Change what is used of a machine."""
    for r in range(len(amounts)):
        if amounts[r] == 0.0:
            continue
        capacity, before = view.capacity[machine, r], view.used[row, machine, r]
        after = before + sign * amounts[r]
        view.spread[row, r, _range(before, capacity)] -= capacity - before
        view.spread[row, r, _range(after, capacity)] += capacity - after
        view.used[row, machine, r] = after


@numba.njit(cache=True)
def _recount(view: LedgerView) -> None:
    window, machines, resources = view.used.shape
    view.spread[:] = 0.0
    for row in range(window):
        for machine in range(machines):
            for r in range(resources):
                capacity, used = view.capacity[machine, r], view.used[row, machine, r]
                view.spread[row, r, _range(used, capacity)] += capacity - used
            _compare(view, row, machine)


@numba.njit(cache=True)
def _compare(view: LedgerView, row: int, machine: int) -> None:
    """Write whether a machine is used otherwise than in the row before."""
    used = view.used
    before = row - 1 if row > 0 else len(used) - 1
    other = False
    for r in range(used.shape[2]):
        other |= used[row, machine, r] != used[before, machine, r]
    view.changed[row, machine] = other


@numba.njit(cache=True)
def _apply_entries(view: LedgerView, rows: Ints, machines: Ints, amounts: Floats, sign: float) -> int:
    """Check every entry, then write them all; return the first bad entry or -1."""
    entries, resources = amounts.shape
    done = 0
    bad = -1
    for i in range(entries):
        row, machine = rows[i], machines[i]
        for r in range(resources):
            value = view.used[row, machine, r] + sign * amounts[i, r]
            if value < 0.0 or (sign > 0.0 and amounts[i, r] > 0.0 and value > view.capacity[machine, r]):
                bad = i
        if bad >= 0:
            # Not written: an amount beyond 2**53 grains could not be taken back exactly.
            break
        _add(view, row, machine, amounts[i], sign)
        done = i + 1
    if bad >= 0:
        for i in range(done):
            _add(view, rows[i], machines[i], amounts[i], -sign)
        return bad
    for i in range(entries):
        row, machine = rows[i], machines[i]
        _compare(view, row, machine)
        _compare(view, row + 1 if row + 1 < len(view.used) else 0, machine)
        holds = False
        for r in range(resources):
            holds = holds or view.used[row, machine, r] > 0.0
        if holds == view.flags[row, machine]:
            continue
        count = view.counts[row]
        listed = view.touched[row]
        at = np.searchsorted(listed[:count], machine)
        if holds:
            for j in range(count, at, -1):
                listed[j] = listed[j - 1]
            listed[at] = machine
            view.counts[row] = count + 1
        else:
            for j in range(at, count - 1):
                listed[j] = listed[j + 1]
            view.counts[row] = count - 1
        view.flags[row, machine] = holds
    return -1
