"""Cost curves of one slot: what each configuration of a job costs at most cheaply, at each level of locality.

Within a slot prices are constant, so a worker on machine h costs A_h and a server B_h, whatever else the job does.
The least cost of W workers and S servers in one machine has a closed form; across the machines of a larger domain it is
an integer program, for which there are two kernels here: a *sweep* over machines in order of cost (the default, near
exact, a few microseconds) and an *exact* dynamic program over machines (the test oracle). The cost at a level is the
least over its domains, each of which is looked at by itself.

The sweep is near exact in cost, and exact in what is feasible: whether W workers and S servers fit does not depend on
costs, and how many workers fit beside S servers has a closed form (``_Trades``).

Kernels take arrays only. Amounts are compared in whole grains (exact) and paid for in the resource's own unit.

All of them are in this one file on purpose: the compiled code on disk is renewed when the file of a kernel changes, not
when a kernel that it calls does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

from slotwise.model.ledger import LedgerView
from slotwise.model.schedule import Placement
from slotwise.model.speed import Configurations
from slotwise.optim.pricing import Prices

__all__ = [
    "ALL",
    "Ask",
    "Ceiling",
    "Curves",
    "Hints",
    "Places",
    "curve",
    "exact_costs",
    "exact_curves",
    "exact_place",
    "exact_places",
    "one",
    "steady",
    "sweep_costs",
    "sweep_curves",
    "sweep_fit",
    "sweep_place",
    "sweep_places",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_EQUAL = 1e-12
"""Costs this close are equal."""

_PACKED = -2.0
"""Mark of a configuration that no sweep found and a packing did."""

_LONGEST_HINT = 256
"""Machines of a slot that are noted for placing, at most."""

_NEVER = 1e300
"""Cost of what does not fit: a number, so that none of it costs nothing."""

_LEAST_POWER, _LARGEST_POWER = -746.0, 710.0
"""e to less is 0 as a floating-point number, and e to more is +inf."""

_LOG2_E, _LN_2_HIGH, _LN_2_LOW, _TO_WHOLE = 1.4426950408889634, 0.693145751953125, 1.4286068203094172e-06, 1.5 * 2.0**52
"""ln 2 in two parts, the first of which is exact times any whole number of so few digits."""

_FEW = 32
"""Machines of which none is left out, and that are sorted by insertion: more would not be worth it."""

_LARGEST_BUCKET = 32
"""Costs that may fall into one bucket of a sort, before another way of sorting is taken."""

_LOOSELY = 4
"""What is more than needed by so many times its root, and so many, is as good."""

_STEPS, _STEP = 12, 1.25
"""Guesses of a cost up to which there are enough, and how many times the first one the second is."""

_LEVELS_AT_ONCE = 2
"""Levels of domains up to which the order of ties is that of domains by their room."""


class Ask(NamedTuple):
    """What a job may run with in a slot, as kernels read it.

    Configurations are distinct, in order of servers, those with equal servers (a *group*) in order of workers.
    """

    workers: Ints
    """(K,) workers, >= 1."""
    servers: Ints
    """(K,) servers, >= 0."""
    samples: Floats
    """(L, K) samples in a slot at each level of locality; 0 where it may not run."""
    order: Ints
    """(L K,) level * K + k, by rising samples; at equal samples later configurations come first, then higher levels."""
    most_workers: int
    """Of any configuration."""
    most_servers: int
    """Of any configuration."""
    useful: npt.NDArray[np.bool_]
    """(L,) whether the job may run at a level, and runs faster there than at the next one."""
    worker: Floats
    """(R,) grains of one worker."""
    server: Floats
    """(R,) grains of one server."""
    worker_amount: Floats
    """(R,) the same in the resource's unit."""
    server_amount: Floats
    """(R,) the same in the resource's unit."""

    @classmethod
    def of(cls, configurations: Configurations, worker: Floats, server: Floats, grain: Floats) -> Ask:
        """Build from configurations, the grains of one worker and one server, and how large a grain is."""
        samples = np.ascontiguousarray(configurations.samples)
        level, k = np.divmod(np.arange(samples.size), max(1, len(configurations)))
        order = np.lexsort((-level, -k, samples.reshape(-1))).astype(np.int64)
        return cls(
            configurations.workers,
            configurations.servers,
            samples,
            order,
            int(configurations.workers.max(initial=0)),
            int(configurations.servers.max(initial=0)),
            np.asarray((samples > np.append(samples[1:], np.zeros((1, samples.shape[1])), axis=0)).any(axis=1)),
            worker,
            server,
            worker * grain,
            server * grain,
        )


class Ceiling(NamedTuple):
    """How dear a choice of a slot may be to be of any use.

    What a slot has, the machine and the cluster are enough of it, makes a lower convex hull of costs over samples, from
    (0, 0) on, the part of which is kept where it rises by ``low`` to ``high``; it goes on straight at both ends.
    Choices above it by ``slack`` or more are left out: at no price per sample from ``low`` to ``high`` are they within
    ``slack`` of the best choice of the slot.
    """

    low: float
    """What a sample is worth at least, >= 0."""
    high: float
    """What a sample is worth at most; +inf to leave nothing out."""
    slack: float
    """Cost, > 0."""


ALL = Ceiling(0.0, np.inf, np.inf)
"""Nothing is left out."""


class Curves(NamedTuple):
    """Useful choices of a run of slots: in each slot samples rise strictly and so do costs.

    Attributes
    ----------
    offsets : (n + 1,) int64
        The choices of the i-th slot are ``offsets[i] ... offsets[i + 1] - 1``.
    samples, costs : (total,) float64
        What a choice trains and costs.
    choices : (total,) int64
        level * K + k, as in ``Ask.order``.
    ways : (total,) float64
        How each was found, so that it need not be looked for again to be placed: the domain that is the cheapest, or
        which sweep won across the whole cluster; nan where that is not known.
    starts : (n + 1,) int64
        The i-th slot's part of ``near`` is ``starts[i] ... starts[i + 1] - 1``.
    near : (total,) int32
        Machines that sweeps across the whole cluster get to, rising; none where that is not known.
    """

    offsets: Ints
    samples: Floats
    costs: Floats
    choices: Ints
    ways: Floats
    starts: Ints
    near: npt.NDArray[np.int32]

    def hints(self, slots: Ints, at: Ints) -> Hints:
        """Return what is known of one choice, the ``at``-th of all, in each of some slots."""
        parts = [self.near[self.starts[i] : self.starts[i + 1]] for i in slots.tolist()]
        starts = np.cumsum([0, *(len(part) for part in parts)], dtype=np.int64)
        return Hints(self.ways[at], starts, np.concatenate([self.near[:0], *parts]))


class Hints(NamedTuple):
    """What curves know of where some choices are, one for each of some slots; see there."""

    ways: Floats
    starts: Ints
    near: npt.NDArray[np.int32]

    @classmethod
    def none(cls, count: int) -> Hints:
        """Know nothing of ``count`` choices."""
        return cls(np.full(count, np.nan), np.zeros(count + 1, dtype=np.int64), np.empty(0, dtype=np.int32))


class Places(NamedTuple):
    """Where the workers and servers of a run of choices are.

    Attributes
    ----------
    offsets : (n + 1,) int64
        The machines of the i-th choice are ``offsets[i] ... offsets[i + 1] - 1``.
    machines, workers, servers : (total,) int64
        Machines, rising within each choice, and how many are on each.
    """

    offsets: Ints
    machines: Ints
    workers: Ints
    servers: Ints

    @classmethod
    def of(cls, each: Sequence[Placement]) -> Places:
        """Put placements side by side."""
        offsets = np.cumsum([0, *(len(placement.machines) for placement in each)], dtype=np.int64)
        columns = [p.machines for p in each], [p.workers for p in each], [p.servers for p in each]
        return cls(offsets, *(np.fromiter(itertools.chain(*column), np.int64, offsets[-1]) for column in columns))

    def at(self, i: int) -> Placement:
        """Return the placement of the i-th choice."""
        part = slice(self.offsets[i], self.offsets[i + 1])
        return Placement.on(self.machines[part], self.workers[part], self.servers[part])


def _compiled(function: Any) -> Any:
    """Compile a kernel.

    Kernels give each other numbers and truths that are no constants, hence ``np.int64(0)`` and ``np.bool_(True)``: for
    each constant numba would compile the one that is called again. ``exact`` is None, and not False, for sweeps: what
    is for the exact program alone is not compiled then. What is a row of another array is copied in a loop, since numba
    compiles half a library of text for the message that shapes differ.
    """
    return numba.njit(cache=True, error_model="numpy")(function)


def _inlined(function: Any) -> Any:
    """Compile a kernel as a part of those that call it.

    On its own it would be compiled twice. And a kernel that calls no other, makes no array and has one end only counts
    no references to what it was given, which takes longer than many of them do.
    """
    return numba.njit(inline="always", error_model="numpy")(function)


def _same_bits(before: Any, after: Any) -> Any:
    """Return what takes a number of one type for one of another with the same bits."""

    def as_other(_: Any, number: Any) -> Any:
        return after(before), lambda context, builder, __, given: builder.bitcast(
            given[0], context.get_value_type(after)
        )

    return intrinsic(as_other)


_bits = _same_bits(types.float64, types.int64)
"""Bits of a number as a whole one: they rise as numbers >= 0 do, about like the logarithm."""

_number = _same_bits(types.int64, types.float64)
"""The number of some bits."""


class _Listed(NamedTuple):
    """Machines of one slot, or of one domain of it, that can hold anything of a job, in the order of ties."""

    machines: Ints
    worker_cost: Floats
    """A."""
    server_cost: Floats
    """B."""
    free: Floats
    """(n, R) grains."""
    fits: Ints
    """Workers that fit when nothing else of the job is there."""
    alone: Ints
    """Servers that fit when nothing else of the job is there."""
    beside: Ints
    """Servers that fit beside the most workers."""
    losses: Ints
    """Worker slots that the first server takes; -1 where none fits."""
    by_a: Ints
    """Entries by rising A, equal ones in their order here."""
    by_b: Ints
    """Entries by rising B, likewise."""


class _Useful(NamedTuple):
    """Machines of one slot, or of one domain of it, in the order of ties: all that can hold anything of a job."""

    machines: Ints
    weights: Ints
    """How many machines an entry stands for: more than 1 for the first untouched one of a class whose others are
    left out."""
    worker_cost: Floats
    server_cost: Floats
    fits: Ints
    alone: Ints
    losses: Ints
    """As in ``_Listed``."""


class _Room(NamedTuple):
    """What sweeps note of machines, (n,) each: made once for many of them.

    A kernel that makes arrays counts references to all that it was given, one by one, which takes longer than a short
    sweep. One that makes none counts none.
    """

    keys: Floats
    """Of the next server."""
    after: Ints
    """Workers that fit beside the next server."""
    fits: Ints
    """Workers that fit beside the servers so far."""
    servers_at: Ints
    heap: Ints
    known: npt.NDArray[np.bool_]
    """Whether an entry is in the heap."""
    places: Ints
    """Of each entry in the order of A or B."""
    left: Ints
    """Servers that there is room for, in order of B."""


@_compiled
def _room(n: int) -> _Room:
    """Return some for up to ``n`` machines."""
    counts = np.empty((6, n), dtype=np.int64)
    return _Room(
        np.empty(n), counts[0], counts[1], counts[2], counts[3], np.empty(n, dtype=np.bool_), counts[4], counts[5]
    )


@_compiled
def _list(machines: int, resources: int) -> _Listed:
    """Return an empty list with room for so many machines."""
    costs, counts = np.empty((2, machines)), np.empty((7, machines), dtype=np.int64)
    return _Listed(
        counts[0],
        costs[0],
        costs[1],
        np.empty((machines, resources)),
        counts[1],
        counts[2],
        counts[3],
        counts[4],
        counts[5],
        counts[6],
    )


@_inlined
def _first(listed: _Listed, count: int) -> _Listed:
    """Return the first machines of a list."""
    return _Listed(
        listed.machines[:count],
        listed.worker_cost[:count],
        listed.server_cost[:count],
        listed.free[:count],
        listed.fits[:count],
        listed.alone[:count],
        listed.beside[:count],
        listed.losses[:count],
        listed.by_a[:count],
        listed.by_b[:count],
    )


class _Scratch(NamedTuple):
    """Room for numbers of machines, made once for many slots: see ``_Room``."""

    worker_cost: Floats
    server_cost: Floats
    fits: Floats
    alone: Floats
    beside_one: Floats
    price: Floats
    """(M,) each."""
    left: Floats
    share: Floats
    """(R, M) grains that are left, and what share is used."""
    some: Ints
    entries: Ints
    buckets: Ints
    ends: Ints
    holds: Ints
    """(M + 1,) each."""
    marks: npt.NDArray[np.bool_]
    """(M,)."""
    worths: Floats
    """(5,) worths of a worker slot."""
    wanted: Ints
    """(2,) how much was to be held, or by how many machines."""
    listed: _Listed
    room: _Room
    """For all machines."""


@_compiled
def _scratch(machines: int, resources: int) -> _Scratch:
    """Return some."""
    numbers, amounts = np.empty((6, machines)), np.empty((2, resources, machines))
    counts = np.empty((5, machines + 1), dtype=np.int64)
    return _Scratch(
        numbers[0],
        numbers[1],
        numbers[2],
        numbers[3],
        numbers[4],
        numbers[5],
        amounts[0],
        amounts[1],
        counts[0],
        counts[1],
        counts[2],
        counts[3],
        counts[4],
        np.empty(machines, dtype=np.bool_),
        np.empty(5),
        np.empty(2, dtype=np.int64),
        _list(machines, resources),
        _room(machines),
    )


class _Memo(NamedTuple):
    """What is known of each machine from the slots before, at the same prices.

    Most machines are used alike in one slot and the next: only those that changed are priced anew.
    """

    used: Floats
    """(M, R) grains that it was found with; nan at first."""
    worker_cost: Floats
    server_cost: Floats
    fits: Ints
    alone: Ints
    losses: Ints
    """As in ``_Listed``, (M,) each."""
    likely: Floats
    """(3,) costs up to which machines were worth a look a slot ago: A for workers, B for servers, and the key of a
    first server where a place is worth more than any; +inf where that is not known."""
    all_machines: Ints
    each_once: Ints
    """(M,) all machines, and 1 for each."""
    complete: Ints
    """(1,) the slot that was looked at last, if all machines were; else -1."""
    scratch: _Scratch


@_compiled
def _memo(view: LedgerView) -> _Memo:
    """Return one that knows nothing."""
    machines, resources = view.capacity.shape
    return _Memo(
        np.full((machines, resources), np.nan),
        np.empty(machines),
        np.empty(machines),
        np.empty(machines, dtype=np.int64),
        np.empty(machines, dtype=np.int64),
        np.empty(machines, dtype=np.int64),
        np.full(3, np.inf),
        np.arange(machines),
        np.ones(machines, dtype=np.int64),
        np.full(1, -1),
        _scratch(machines, resources),
    )


@_compiled
def _forget(memo: _Memo) -> None:
    """Let nothing be known any more: prices have changed."""
    memo.used[:] = np.nan
    memo.likely[:] = np.inf
    memo.complete[0] = -1


@_compiled
def _fit(free: Floats, demand: Floats, most: int) -> int:
    """Units of ``demand`` that fit into ``free``, at most ``most``."""
    count = most
    for r in range(len(demand)):
        if demand[r] > 0.0:
            here = int(np.floor(free[r] / demand[r]))
            if here < count:
                count = here
    return max(count, 0)


@_compiled
def _fit_beside(free: Floats, taken: Floats, units: int, demand: Floats, most: int) -> int:
    """Units of ``demand`` that fit beside ``units`` of ``taken``."""
    count = most
    for r in range(len(demand)):
        if demand[r] > 0.0:
            here = int(np.floor((free[r] - units * taken[r]) / demand[r]))
            if here < count:
                count = here
    return max(count, 0)


@_compiled
def _candidates(view: LedgerView, row: int, ask: Ask) -> tuple[Ints, Ints]:
    """Return touched machines and as many untouched ones of each class as the job could use; and their weights."""
    most_workers, most_servers = ask.most_workers, ask.most_servers
    classes = len(view.starts) - 1
    touched = view.counts[row]
    chosen = np.empty(view.capacity.shape[0], dtype=np.int64)
    weights = np.ones(view.capacity.shape[0], dtype=np.int64)
    count = touched
    touched_of = np.zeros(classes, dtype=np.int64)
    for i in range(touched):
        chosen[i] = view.touched[row, i]
        touched_of[view.classes[chosen[i]]] += 1
    for c in range(classes):
        begin, end = view.starts[c], view.starts[c + 1]
        untouched = end - begin - touched_of[c]
        if untouched == 0:
            continue
        some = view.members[begin]
        fits = _fit(view.capacity[some], ask.worker, most_workers)
        holds = _fit(view.capacity[some], ask.server, most_servers) if most_servers > 0 else 0
        if fits == 0 and holds == 0:
            continue
        limit = most_servers
        if fits > 0:
            limit += (most_workers + fits - 1) // fits
        limit = min(limit, untouched)
        found = 0
        i = begin
        while found < limit:
            machine = view.members[i]
            if not view.flags[row, machine]:
                chosen[count] = machine
                # The first one stands for those that are left out.
                weights[count] = untouched - limit + 1 if found == 0 else 1
                count += 1
                found += 1
            i += 1
    if count > touched and (touched > 0 or classes > 1):
        weight_of = np.zeros(len(weights), dtype=np.int64)
        for i in range(count):
            weight_of[chosen[i]] = weights[i]
        count = 0
        for machine in range(len(weight_of)):
            if weight_of[machine] > 0:
                chosen[count], weights[count] = machine, weight_of[machine]
                count += 1
    return chosen[:count], weights[:count]


@_inlined
def _exponentials(powers: Floats, row: int, count: int, found: Floats) -> None:
    """Write e to the first powers of a row, to 3e-16 of it: the same as ``exp``, several at a time.

    With k whole, e^x = 2^k e^(x - k ln 2), of which the second factor is the sum of its series.
    """
    for i in range(count):
        power = powers[row, i]
        power = _LEAST_POWER if power < _LEAST_POWER else _LARGEST_POWER if power > _LARGEST_POWER else power
        # Adding it leaves the nearest whole number in the last bits.
        shifted = power * _LOG2_E + _TO_WHOLE
        k = shifted - _TO_WHOLE
        x = power - k * _LN_2_HIGH - k * _LN_2_LOW
        p = x * (1.0 / 479001600.0) + 1.0 / 39916800.0
        p = p * x + 1.0 / 3628800.0
        p = p * x + 1.0 / 362880.0
        p = p * x + 1.0 / 40320.0
        p = p * x + 1.0 / 5040.0
        p = p * x + 1.0 / 720.0
        p = p * x + 1.0 / 120.0
        p = p * x + 1.0 / 24.0
        p = p * x + 1.0 / 6.0
        p = p * x + 0.5
        p = p * x + 1.0
        # In two steps: 2^k alone may be too large or too small for a number.
        whole = _bits(shifted) - _bits(_TO_WHOLE)
        half = whole >> 1
        found[i] = (p * x + 1.0) * _number((half + 1023) << 52) * _number((whole - half + 1023) << 52)


@_compiled
def _look(
    view: LedgerView,
    row: int,
    machines: Ints,
    count: int,
    ask: Ask,
    log_low: Floats,
    log_ratio: Floats,
    memo: _Memo,
) -> None:
    """Find out what the first of some machines hold of a job and what that costs."""
    most_workers, most_servers, resources = ask.most_workers, ask.most_servers, len(ask.worker)
    worker, server, worker_amount, server_amount = ask.worker, ask.server, ask.worker_amount, ask.server_amount
    used, capacity, known, scratch = view.used, view.capacity, memo.used, memo.scratch
    # Whole numbers, as ``_fit`` and ``_fit_beside`` say, not cut off at zero yet.
    fits, alone, beside_one, left, share = (
        scratch.fits,
        scratch.alone,
        scratch.beside_one,
        scratch.left,
        scratch.share,
    )
    a, b, price = scratch.worker_cost, scratch.server_cost, scratch.price
    for i in range(count):
        machine = np.uint64(machines[i])
        for r in range(resources):
            here = used[row, machine, r]
            known[machine, r] = here
            left[r, i] = capacity[machine, r] - here
            share[r, i] = here
    for i in range(count):
        a[i], b[i] = 0.0, 0.0
        fits[i], alone[i], beside_one[i] = float(most_workers), float(most_servers), float(most_workers)
    # One simple loop after another, each over all machines: several machines at a time are faster.
    for r in range(resources):
        w, s, worker_pays, server_pays = worker[r], server[r], worker_amount[r], server_amount[r]
        if worker_pays > 0.0 or server_pays > 0.0:
            low, ratio = log_low[r], log_ratio[r]
            for i in range(count):
                whole = left[r, i] + share[r, i]
                share[r, i] = low + ratio * (share[r, i] / whole if whole > 0.0 else 1.0)
            _exponentials(share, r, count, price)
            for i in range(count):
                a[i] += price[i] * worker_pays
                b[i] += price[i] * server_pays
        if w > 0.0:
            for i in range(count):
                whole = np.floor(left[r, i] / w)
                fits[i] = whole if whole < fits[i] else fits[i]
            if most_servers > 0:
                for i in range(count):
                    whole = np.floor((left[r, i] - s) / w)
                    beside_one[i] = whole if whole < beside_one[i] else beside_one[i]
        if most_servers > 0 and s > 0.0:
            for i in range(count):
                whole = np.floor(left[r, i] / s)
                alone[i] = whole if whole < alone[i] else alone[i]
    for i in range(count):
        machine = np.uint64(machines[i])
        memo.worker_cost[machine], memo.server_cost[machine] = a[i], b[i]
        most = max(int(fits[i]), 0)
        memo.fits[machine] = most
        memo.alone[machine] = max(int(alone[i]), 0)
        memo.losses[machine] = most - max(min(int(beside_one[i]), most), 0) if alone[i] > 0.0 else -1


@_compiled
def _useful(view: LedgerView, slot: int, ask: Ask, log_low: Floats, log_ratio: Floats, memo: _Memo) -> _Useful:
    """Return what a slot has for a job, machines rising by index."""
    row = slot % view.used.shape[0]
    if view.counts[row] == len(memo.all_machines):
        # Nothing has to be chosen, nor to be copied.
        if memo.complete[0] == slot - 1 >= 0:
            count = _those(view.changed, row, memo.scratch.some)
            _look(view, row, memo.scratch.some, count, ask, log_low, log_ratio, memo)
        else:
            _look_again(view, row, ask, log_low, log_ratio, memo, memo.all_machines)
        memo.complete[0] = slot
        return _Useful(
            memo.all_machines,
            memo.each_once,
            memo.worker_cost,
            memo.server_cost,
            memo.fits,
            memo.alone,
            memo.losses,
        )
    candidates, weights = _candidates(view, row, ask)
    found: _Useful = _useful_of(view, row, ask, log_low, log_ratio, memo, candidates, weights)
    return found


@_compiled
def _those(marks: npt.NDArray[np.bool_], row: int, found: Ints) -> int:
    """Write where there is a mark in a row; return how many there are."""
    # Written before it is known whether they count, hence room for one more: this way nothing has to be foretold.
    count = 0
    for i in range(marks.shape[1]):
        found[count] = i
        count += marks[row, i]
    return count


@_compiled
def _useful_in(
    view: LedgerView, slot: int, ask: Ask, log_low: Floats, log_ratio: Floats, memo: _Memo, level: int, domain: int
) -> _Useful:
    """Return the part of what a slot has for a job that is in one domain of a level."""
    row = slot % view.used.shape[0]
    if view.counts[row] == len(memo.all_machines):
        there = np.searchsorted(view.domains[level], np.array([domain, domain + 1]))
        found: _Useful = _useful_of(
            view,
            row,
            ask,
            log_low,
            log_ratio,
            memo,
            memo.all_machines[there[0] : there[1]],
            memo.each_once[there[0] : there[1]],
        )
        return found
    candidates, weights = _candidates(view, row, ask)
    some = np.flatnonzero(view.domains[level][candidates] == domain)
    found = _useful_of(view, row, ask, log_low, log_ratio, memo, candidates[some], weights[some])
    return found


@_compiled
def _look_again(
    view: LedgerView, row: int, ask: Ask, log_low: Floats, log_ratio: Floats, memo: _Memo, candidates: Ints
) -> None:
    """Look at those of some machines that have changed."""
    memo.complete[0] = -1
    count = _otherwise(view.used, row, memo.used, candidates, memo.scratch.some)
    _look(view, row, memo.scratch.some, count, ask, log_low, log_ratio, memo)


@_compiled
def _otherwise(used: Floats, row: int, known: Floats, machines: Ints, found: Ints) -> int:
    """Write which machines are used otherwise than is known; return how many there are."""
    count = 0
    for i in range(len(machines)):
        machine, other = np.uint64(machines[i]), False
        for r in range(used.shape[2]):
            other |= used[row, machine, r] != known[machine, r]
        found[count] = machines[i]
        count += other
    return count


@_compiled
def _useful_of(
    view: LedgerView,
    row: int,
    ask: Ask,
    log_low: Floats,
    log_ratio: Floats,
    memo: _Memo,
    candidates: Ints,
    weights: Ints,
) -> _Useful:
    """Return what a slot has for a job among some machines."""
    _look_again(view, row, ask, log_low, log_ratio, memo, candidates)
    room = len(candidates) + 1
    counts, costs = np.empty((5, room), dtype=np.int64), np.empty((2, room))
    machines, weights_of, fits, alone, losses = counts[0], counts[1], counts[2], counts[3], counts[4]
    a, b = costs[0], costs[1]
    count = 0
    for i in range(len(candidates)):
        machine = candidates[i]
        machines[count], weights_of[count] = machine, weights[i]
        a[count], b[count] = memo.worker_cost[machine], memo.server_cost[machine]
        fits[count], alone[count], losses[count] = memo.fits[machine], memo.alone[machine], memo.losses[machine]
        count += (fits[count] > 0) | (losses[count] >= 0)
    return _Useful(
        machines[:count], weights_of[:count], a[:count], b[:count], fits[:count], alone[:count], losses[:count]
    )


@_compiled
def _listed(view: LedgerView, slot: int, ask: Ask, memo: _Memo, machines: Ints) -> _Listed:
    """List machines, in the order given."""
    count = len(machines)
    listed: _Listed = _list(count, len(ask.worker))
    places = np.empty((2, count + 1), dtype=np.int64)
    _write_list(view, slot, ask, memo, machines, count, listed, places[0], places[1])
    return listed


@_compiled
def _write_list(
    view: LedgerView,
    slot: int,
    ask: Ask,
    memo: _Memo,
    machines: Ints,
    count: int,
    listed: _Listed,
    buckets: Ints,
    ends: Ints,
) -> None:
    """List the first of some machines, in the order given; ``buckets`` and ``ends`` are room to sort them."""
    resources, row = len(ask.worker), slot % view.used.shape[0]
    a, b, free, fits, losses = listed.worker_cost, listed.server_cost, listed.free, listed.fits, listed.losses
    used, capacity, worker, server = view.used, view.capacity, ask.worker, ask.server
    # One loop: indexing with arrays takes several times as long.
    for i in range(count):
        machine = np.uint64(machines[i])
        listed.machines[i] = machines[i]
        a[i], b[i] = memo.worker_cost[machine], memo.server_cost[machine]
        fits[i], losses[i] = memo.fits[machine], memo.losses[machine]
        room = memo.alone[machine]
        listed.alone[i] = room
        for r in range(resources):
            left = capacity[machine, r] - used[row, machine, r]
            free[i, r] = left
            if server[r] > 0.0:
                # As ``_fit_beside`` says.
                room = min(room, int(np.floor((left - fits[i] * worker[r]) / server[r])))
        listed.beside[i] = max(room, 0) if losses[i] >= 0 else 0
    _sort(a, count, listed.by_a, buckets, ends)
    _sort(b, count, listed.by_b, buckets, ends)


@_compiled
def _buckets(costs: Floats) -> Ints:
    """Return a bucket, of as many as there are costs >= 0, for each: one of a higher cost is no lower."""
    # The bits of numbers that are not negative rise as they do, about like the logarithm.
    bits = costs.view(np.int64)
    low, span = bits.min(), bits.max() - bits.min()
    shift = 0
    while span >> shift >= len(costs):
        shift += 1
    buckets: Ints = (bits - low) >> shift
    return buckets


@_compiled
def _order(costs: Floats) -> Ints:
    """Return the stable order of costs >= 0."""
    count = len(costs)
    order = np.empty(count, dtype=np.int64)
    places = np.empty((2, count + 1), dtype=np.int64)
    _sort(costs, count, order, places[0], places[1])
    return order


@_inlined
def _sort(costs: Floats, count: int, order: Ints, buckets: Ints, ends: Ints) -> None:
    """Write the stable order of the first costs >= 0: by buckets of their logarithm, several times as fast as others.

    There are as many buckets as costs. No arrays are made and no other kernel is called, see ``_Room``.
    """
    most = 0
    if count > _FEW:
        low, high = _bits(np.inf), np.int64(0)
        for i in range(count):
            low, high = min(low, _bits(costs[i])), max(high, _bits(costs[i]))
        shift = 0
        while (high - low) >> shift >= count:
            shift += 1
        for i in range(count + 1):
            ends[i] = 0
        for i in range(count):
            buckets[i] = (_bits(costs[i]) - low) >> shift
            ends[buckets[i] + 1] += 1
        for i in range(1, count + 1):
            most = max(most, ends[i])
    if count <= _FEW or most > _LARGEST_BUCKET:
        _write_order(costs, count, order)
    else:
        for bucket in range(count):
            ends[bucket + 1] += ends[bucket]
        for i in range(count):
            order[ends[buckets[i]]] = i
            ends[buckets[i]] += 1
        for i in range(1, count):
            at, j = order[i], i - 1
            while j >= 0 and costs[order[j]] > costs[at]:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = at


@_inlined
def _write_order(costs: Floats, count: int, order: Ints) -> None:
    """Write the stable order of the first ``count`` costs, as ``_sort``: by insertion, at ever shorter steps."""
    if count <= _FEW:
        for i in range(count):
            j = i - 1
            while j >= 0 and costs[order[j]] > costs[i]:
                order[j + 1] = order[j]
                j -= 1
            order[j + 1] = i
    else:
        for i in range(count):
            order[i] = i
        step = count // 2
        while step > 0:
            for i in range(step, count):
                at, j = order[i], i - step
                while j >= 0 and (costs[order[j]] > costs[at] or (costs[order[j]] == costs[at] and order[j] > at)):
                    order[j + step] = order[j]
                    j -= step
                order[j + step] = at
            step = step // 2


@_compiled
def _cheapest(costs: Floats, fits: Ints, workers: int, machines: int) -> Ints:
    """Return entries by rising cost, until they hold so many workers or so many of them hold any; else all."""
    count = len(costs)
    buckets = _buckets(costs)
    held = np.zeros(count, dtype=np.int64)
    holding = np.zeros(count, dtype=np.int64)
    for i in range(count):
        held[buckets[i]] += fits[i]
        holding[buckets[i]] += min(fits[i], 1)
    last = 0
    while last + 1 < count and held[last] < workers and holding[last] < machines:
        held[last + 1] += held[last]
        holding[last + 1] += holding[last]
        last += 1
    some: Ints = np.flatnonzero(buckets <= last)
    some = some[_order(costs[some])]
    found = 0
    while found < len(some) and workers > 0 and machines > 0:
        workers -= fits[some[found]]
        machines -= min(fits[some[found]], 1)
        found += 1
    return some[:found]


@_inlined
def _worths(costs: Floats, fits: Ints, some: Ints, count: int, ask: Ask, worths: Floats) -> int:
    """Write the distinct worths x of a worker slot to try on many machines: of the first of some by rising A.

    They are the A at which half of the most workers are placed, all of them, and ten times that at which servers have
    taken what they can: about what a place is worth, and more than any. Returned is how many there are, up to 3.
    """
    half, most_machines, needed = (ask.most_workers + 1) // 2, ask.most_workers + ask.most_servers, _needed(ask)
    for i in range(3):
        worths[i] = 0.0
    held, holding, last = 0, 0, 0.0
    for j in range(count):
        i = some[j]
        if held >= needed or holding >= most_machines:
            break
        if fits[i] == 0:
            continue
        last = costs[i]
        if held < half:
            worths[0] = last
        if held < ask.most_workers:
            worths[1] = last
        held += fits[i]
        holding += 1
    worths[2] = 10.0 * last
    found = 1
    for i in range(1, 3):
        if worths[i] > worths[found - 1]:
            worths[found] = worths[i]
            found += 1
    return found


@_compiled
def _worths_of_few(costs: Floats, fits: Ints, weights: Ints, order: Ints, levels: Floats) -> int:
    """Write the distinct worths x of a worker slot to try on few machines: 0, the quartiles of A, ten times the last.

    They are those of the machines that hold workers, each as often as its entry says; ``order`` is that of costs.
    Returned is how many there are, up to 5.
    """
    levels[0] = 0.0
    total = 0
    for i in range(len(costs)):
        if fits[i] > 0:
            total += weights[i]
    found, quarter, seen = 1, 1, 0
    high = 0.0
    for at in range(len(costs)):
        i = order[at]
        if fits[i] == 0:
            continue
        seen += weights[i]
        high = costs[i]
        while quarter < 4 and 4 * seen >= quarter * total:
            quarter += 1
            if high > levels[found - 1]:
                levels[found] = high
                found += 1
    if 10.0 * high > levels[found - 1]:
        levels[found] = 10.0 * high
        found += 1
    return found


class _Short(NamedTuple):
    """The machines that sweeps for any configuration of a job get to; the others change nothing."""

    machines: Ints
    cutoff: float
    """No machine that is left out has a lower A; +inf if none is."""


@_compiled
def _short(useful: _Useful, ask: Ask, worths: Floats, workers_first: bool) -> _Short:
    """Leave out what is too dear for any of some sweeps to get to.

    A sweep fills workers by A, so that the cheapest machines suffice which hold all workers, those that servers might
    take the place of included. Of servers it gets to no more machines than there are servers: those with the least
    keys, besides those that are full of workers. Machines that are left out would come after these in every order.
    """
    machines, a, b, fits, losses = useful.machines, useful.worker_cost, useful.server_cost, useful.fits, useful.losses
    most_workers, most_servers = ask.most_workers, ask.most_servers
    needed = _needed(ask)
    if len(machines) <= _FEW or fits.sum() <= needed:
        return _Short(machines, np.inf)
    first = _cheapest(a, fits, needed, most_workers + most_servers)
    marks = np.zeros(len(machines), dtype=np.bool_)
    marks[first] = True
    if most_servers > 0:
        room = _room(len(machines))
        count = np.int64(0)
        if workers_first:
            full = 0
            left = most_workers
            while full < len(first) and left > 0:
                left -= fits[first[full]]
                full += 1
            count = _first_servers(a, b, losses, 0.0, most_servers + full, count, room)
            marks[room.heap[:count]] = True
        for x in worths:
            if x == 0.0 and workers_first:
                # They are among those.
                continue
            count = _first_servers(a, b, losses, x, most_servers, count, room)
            marks[room.heap[:count]] = True
            if not (losses[room.heap[:count]] > 0).any():
                # For a larger x the same ones come first.
                break
    return _Short(machines[marks], a[first[-1]])


@_inlined
def _needed(ask: Ask) -> int:
    """Return how many places of workers are enough for all workers and for what servers take."""
    taken = 0.0
    for r in range(len(ask.worker)):
        if ask.worker[r] > 0.0 and ask.most_servers > 0:
            taken = max(taken, np.ceil(ask.server[r] / ask.worker[r]))
    return ask.most_workers + int(min(taken, ask.most_workers)) * ask.most_servers


@_compiled
def _are_few(useful: _Useful) -> bool:
    """Whether there are few machines that can hold anything."""
    count = 0
    for i in range(len(useful.machines)):
        count += useful.weights[i] if (useful.fits[i] > 0) | (useful.losses[i] >= 0) else 0
    return count <= _FEW


@_compiled
def _short_for_all(
    view: LedgerView, level: int, useful: _Useful, ask: Ask, likely: Floats, scratch: _Scratch
) -> tuple[_Short, Floats]:
    """Return the machines of a domain of a level that all sweeps get to, and the worths of the server-first ones.

    ``useful`` has them by their index, what is returned is in the order of ties. ``likely`` is as in ``_Memo``. Both
    may be in ``scratch``.
    """
    a, fits = useful.worker_cost, useful.fits
    most = ask.most_workers + ask.most_servers
    total = 0
    for i in range(len(a)):
        total += fits[i]
    levels = np.empty(5)
    worths = levels[:0]
    if _are_few(useful):
        if ask.most_servers > 0:
            worths = levels[: _worths_of_few(a, fits, useful.weights, _order(a), levels)]
    else:
        if level <= _LEVELS_AT_ONCE and total > _needed(ask):
            known, count, found = np.int64(0), np.int64(-1), np.int64(0)
            while count < 0:
                count, found = _short_at_once(useful, ask, likely, known, scratch)
                if count < 0:
                    known = _settled(useful, likely, -count, scratch)
            if count > 0:
                machines = scratch.entries[:count]
                if level == 2:
                    machines = _in_turn(view.domains[1], machines, _turns(view, useful, most))
                return _Short(machines, likely[0]), scratch.worths[:found]
            worths = scratch.worths[:found]
        elif ask.most_servers > 0:
            first = _cheapest(a, fits, _needed(ask), most)
            worths = levels[: _worths(a, fits, first, len(first), ask, levels)]
    found_few = _short(_part(view, level, useful, most), ask, worths, np.bool_(True))
    return found_few, worths


@_compiled
def _settled(useful: _Useful, likely: Floats, turn: int, scratch: _Scratch) -> int:
    """Find a cost that ``_short_at_once`` lacks, the first, second or third; return ``turn``."""
    costs, amounts = useful.worker_cost, useful.fits
    if turn > 1:
        amounts = scratch.holds[: len(costs)]
        costs = useful.server_cost if turn == 2 else scratch.price[: len(costs)]
    likely[turn - 1] = _up_to(costs, amounts, scratch.wanted[0], scratch.wanted[1])
    return turn


@_compiled
def _short_at_once(useful: _Useful, ask: Ask, likely: Floats, known: int, scratch: _Scratch) -> tuple[int, int]:
    """Do as ``_short`` does for all sweeps, whatever the order of ties, and leave in a few more; and find the worths.

    All that is needed are costs up to which there are enough machines; those of the slot before nearly always do, and
    are written over. The first ``known`` of them were found for this slot. Where the next one does not do, returned is
    -1, -2 or -3 for which it is, and ``scratch`` says what for. Else ``scratch.entries`` are the machines, and
    ``scratch.worths`` the worths, and returned is how many there are: no machines where ties make it more than is worth
    it.
    """
    machines, a, b, fits, losses = useful.machines, useful.worker_cost, useful.server_cost, useful.fits, useful.losses
    most_workers, most_servers = ask.most_workers, ask.most_servers
    marks, some, entries, holds, keys = scratch.marks, scratch.some, scratch.entries, scratch.holds, scratch.price
    n = len(machines)
    lacking = 0
    held, found, count = np.int64(0), 0, 0
    wanted = most_workers + most_servers
    if known < 1 and not _does(a, fits, n, _needed(ask), wanted, likely, np.int64(0), scratch.wanted):
        lacking = -1
    if lacking == 0:
        cutoff = likely[0]
        for i in range(n):
            marks[i] = (a[i] <= cutoff) & (fits[i] > 0)
            some[held] = i
            held += marks[i]
        full = 0
        if most_servers > 0:
            for j in range(held):
                keys[j] = a[some[j]]
            _sort(keys, held, entries, scratch.buckets, scratch.ends)
            for j in range(held):
                entries[j] = some[entries[j]]
            found = _worths(a, fits, entries, held, ask, scratch.worths)
            # Machines that workers fill, whichever of equal ones come first: all others cost more.
            last = scratch.worths[min(1, found - 1)]
            for j in range(held):
                full += a[some[j]] <= last
            for i in range(n):
                holds[i] = losses[i] >= 0
            # Where places are worth no more than the dearest of those machines, only these can be passed over.
            most = most_servers + full
            if known < 2 and not _does(b, holds, n, most, most, likely, np.int64(1), scratch.wanted):
                lacking = -2
    if lacking == 0 and most_servers > 0:
        up_to, x = likely[1], scratch.worths[found - 1]
        for i in range(n):
            marks[i] |= (b[i] <= up_to) & (holds[i] > 0)
        for i in range(n):
            worth = x - a[i]
            keys[i] = b[i] + (worth if worth > 0.0 else 0.0) * losses[i]
        if known < 3 and not _does(keys, holds, n, most_servers, most_servers, likely, np.int64(2), scratch.wanted):
            lacking = -3
        up_to = likely[2]
        for i in range(n):
            marks[i] |= (keys[i] <= up_to) & (holds[i] > 0)
        wanted += full + most_servers
    if lacking == 0:
        for i in range(n):
            entries[count] = machines[i]
            count += marks[i]
        count = 0 if count > 2 * wanted + _FEW else count
    return lacking if lacking < 0 else count, found


@_inlined
def _does(
    costs: Floats, amounts: Ints, n: int, wanted: int, machines: int, likely: Floats, turn: int, asked: Ints
) -> bool:
    """Look for a cost near ``likely`` up to which entries hold so much, or so many of them any, and not much more.

    It is written over ``likely``. Returned is whether there is one; what for is written to ``asked``.
    """
    most, most_machines = _loosely(wanted), _loosely(machines)
    asked[0], asked[1] = wanted, machines
    low, high, at, found = 0.0, np.inf, likely[turn], False
    tries = _STEPS if at < np.inf else 0
    while tries > 0 and not found:
        tries -= 1
        held, holding = 0, 0
        for i in range(n):
            here = amounts[i] if costs[i] <= at else 0
            held += here
            holding += here > 0
        if held < wanted and holding < machines:
            low = at
        elif held > most and holding > most_machines:
            high = at
        else:
            found = True
        if not found:
            if high == np.inf:
                at *= _STEP
            elif low == 0.0:
                at /= _STEP
            else:
                at = np.sqrt(low) * np.sqrt(high)
    likely[turn] = at
    return found


@_compiled
def _up_to(costs: Floats, amounts: Ints, wanted: int, machines: int) -> float:
    """Return a cost up to which entries hold so much, or so many of them hold any, and not much more.

    It is +inf if all are not enough.
    """
    some = np.empty(len(costs))
    some_amounts = np.empty(len(costs), dtype=np.int64)
    count, total = 0, 0
    for i in range(len(costs)):
        if amounts[i] > 0:
            some[count], some_amounts[count] = costs[i], amounts[i]
            total += amounts[i]
            count += 1
    if total < wanted and count < machines:
        return np.inf
    most, most_machines = _loosely(wanted), _loosely(machines)
    first = _cheapest(some[:count], some_amounts[:count], (wanted + most) // 2, (machines + most_machines) // 2)
    return float(some[first[-1]])


@_inlined
def _loosely(count: int) -> int:
    """Return a number that is not much more: so many are no reason to look for fewer."""
    return count + int(_LOOSELY * np.sqrt(count)) + _LOOSELY


@_compiled
def _inside(
    view: LedgerView,
    slot: int,
    ask: Ask,
    useful: _Useful,
    listed: _Listed,
    cutoff: float,
    memo: _Memo,
    costs: Floats,
    where: Ints,
) -> None:
    """Write the cost of the cheapest single machine of each configuration, closed form, and which one it is, (., K).

    Machines that are not ``listed`` have an A of at least ``cutoff``.
    """
    used, capacity, row = view.used, view.capacity, slot % view.used.shape[0]
    machines, worker_cost, server_cost = useful.machines, useful.worker_cost, useful.server_cost
    fits, alone, losses, worker, server = useful.fits, useful.alone, useful.losses, ask.worker, ask.server
    by_a, listed_a, listed_b = listed.by_a, listed.worker_cost, listed.server_cost
    some = memo.scratch.some
    no_servers = np.int64(len(ask.servers) == 0 or ask.servers[0] == 0)
    # B of the cheapest machine, and of the cheapest that may not be listed: the least of whole numbers is found several
    # at a time.
    never = _bits(np.inf)
    most, least, least_beyond = 0, never, never
    for i in range(len(machines)):
        able = (fits[i] > 0) & ((no_servers > 0) | (losses[i] >= 0))
        most = max(most, fits[i] if able else 0)
        here = _bits(server_cost[i]) if able else never
        least = min(least, here)
        least_beyond = min(least_beyond, here if worker_cost[i] >= cutoff else never)
    cheapest, cheapest_beyond = _number(least), _number(least_beyond)
    # So many, or more, of both fit on no machine.
    too_many, beside_these = most + 1, 0
    for k in range(len(ask.workers)):
        workers, servers = ask.workers[k], ask.servers[k]
        costs[0, k], where[0, k] = np.inf, -1
        if workers > most or (workers >= too_many and servers >= beside_these):
            continue
        best, best_at = np.inf, -1
        for i in by_a:
            if listed_a[i] * workers + cheapest * servers > best:
                break
            cost = listed_a[i] * workers + listed_b[i] * servers
            # Of equal ones the first.
            if cost < best or (cost == best and listed.machines[i] < best_at):
                able = (listed.fits[i] >= workers) & (listed.alone[i] >= servers)
                if able and listed.beside[i] < servers:
                    for r in range(len(worker)):
                        able &= listed.free[i, r] - workers * worker[r] >= servers * server[r]
                if able:
                    best, best_at = cost, listed.machines[i]
        count = 0
        beyond = cutoff < np.inf and cutoff * workers + cheapest_beyond * servers <= best
        for i in range(len(machines) if beyond else 0):
            # Written before it is known whether it counts: this way nothing has to be foretold.
            some[count] = i
            cost = worker_cost[i] * workers + server_cost[i] * servers
            count += (cost <= best) & (fits[i] >= workers) & (alone[i] >= servers)
        for j in range(count):
            i = some[j]
            machine, cost = machines[i], worker_cost[i] * workers + server_cost[i] * servers
            if cost < best or (cost == best and machine < best_at):
                able = servers == 0 or workers <= fits[i] - losses[i]
                for r in range(len(worker) if able and servers > 0 else 0):
                    able &= capacity[machine, r] - used[row, machine, r] - workers * worker[r] >= servers * server[r]
                if able:
                    best, best_at = cost, machine
        costs[0, k], where[0, k] = best, best_at
        if best_at < 0:
            too_many, beside_these = workers, servers


@_compiled
def _workers_first(listed: _Listed, ask: Ask, costs: Floats, beyond: int, room: _Room) -> None:
    """Fill workers by A, then servers by B in what is left, for the configurations before ``beyond``."""
    n = len(listed.machines)
    by_a, by_b, fits, alone, worker_cost = listed.by_a, listed.by_b, listed.fits, listed.alone, listed.worker_cost
    server_cost, free, worker, server = listed.server_cost, listed.free, ask.worker, ask.server
    free_for, places = room.left, room.places
    for j in range(n):
        free_for[j], places[by_b[j]] = alone[by_b[j]], j
    placed = 0
    paid = 0.0
    at = 0
    for k in range(beyond):
        workers, servers = ask.workers[k], ask.servers[k]
        if k > 0 and workers < ask.workers[k - 1]:
            placed, paid, at = 0, 0.0, 0
            for j in range(n):
                free_for[j] = alone[by_b[j]]
        while at < n and placed + fits[by_a[at]] <= workers:
            i = by_a[at]
            placed += fits[i]
            paid += fits[i] * worker_cost[i]
            free_for[places[i]] = listed.beside[i]
            at += 1
        rest = workers - placed
        cost = paid
        if rest > 0:
            if at >= n:
                continue
            i = by_a[at]
            cost += rest * worker_cost[i]
            free_for[places[i]] = _fit_beside(free[i], worker, rest, server, min(alone[i], servers))
        left = servers
        for j in range(n):
            if left == 0:
                break
            here = min(free_for[j], left)
            cost += here * server_cost[by_b[j]]
            left -= here
        if left == 0 and cost < costs[k]:
            costs[k] = cost


@_compiled
def _sift(keys: Floats, heap: Ints, n: int, root: int, sign: float) -> None:
    """Restore the order of a heap of ``n`` below ``root``: by (key, index) rising, or falling if ``sign`` is -1."""
    while True:
        child = 2 * root + 1
        if child >= n:
            return
        if child + 1 < n:
            x, y = heap[child], heap[child + 1]
            if sign * keys[y] < sign * keys[x] or (keys[y] == keys[x] and sign * y < sign * x):
                child += 1
        x, y = heap[root], heap[child]
        if sign * keys[x] < sign * keys[y] or (keys[x] == keys[y] and sign * x < sign * y):
            return
        heap[root], heap[child] = y, x
        root = child


@_inlined
def _first_servers(a: Floats, b: Floats, losses: Ints, x: float, most: int, guessed: int, room: _Room) -> int:
    """Make a heap of the entries with the least keys of a first server, ``most`` of them, and write all keys.

    More are not needed to place as many servers: whatever machines hold some already, one of the first ones does not.
    Where the heap begins with good guesses of them, distinct entries that hold a server, little has to be exchanged.
    Returned is how many there are.
    """
    n = len(a)
    keys, heap, known = room.keys, room.heap, room.known
    for i in range(n):
        worth = x - a[i]
        keys[i] = b[i] + (worth if worth > 0.0 else 0.0) * losses[i]
        known[i] = False
    most = min(n, most)
    count = min(guessed, most)
    for i in range(count):
        known[heap[i]] = True
    if count == most:
        for root in range(count // 2 - 1, -1, -1):
            _sift(keys, heap, count, root, -1.0)
    begin = 0
    while begin < n and count < most:
        if losses[begin] >= 0 and not known[begin]:
            heap[count] = begin
            count += 1
            if count == most:
                for root in range(count // 2 - 1, -1, -1):
                    _sift(keys, heap, count, root, -1.0)
        begin += 1
    # Where there are fewer than wanted, all have been looked at.
    dearest = keys[heap[0]] if 0 < most == count else -np.inf
    for i in range(begin, n):
        # Nearly all are dearer: what else there is to ask comes after.
        if keys[i] > dearest or losses[i] < 0 or known[i] or (keys[i] == dearest and i > heap[0]):
            continue
        heap[0] = i
        _sift(keys, heap, count, np.int64(0), -1.0)
        dearest = keys[heap[0]]
    for root in range(count // 2 - 1, -1, -1):
        _sift(keys, heap, count, root, 1.0)
    return count


@_compiled
def _servers_first(
    listed: _Listed, ask: Ask, x: float, costs: Floats, better: Floats, beyond: int, room: _Room
) -> bool:
    """Place servers one by one where they hurt least, then fill workers by A.

    ``costs`` is lowered where this sweep is cheaper, and ``better`` marks where. The sweep ends before configuration
    ``beyond``, and ``servers_at`` tells where the servers of the last one are, if it is one that the sweep finds.
    Returned is whether any server took worker slots: where none did, a larger worth of those changes nothing.
    ``places`` are those in ``by_a``.
    """
    n = len(listed.machines)
    by_a, by_b, worker_cost, server_cost = listed.by_a, listed.by_b, listed.worker_cost, listed.server_cost
    free, alone, losses, worker, server = listed.free, listed.alone, listed.losses, ask.worker, ask.server
    keys, after, fits, servers_at, heap = room.keys, room.after, room.fits, room.servers_at, room.heap
    places = room.places
    # Those with the least B are good guesses.
    count, most = np.int64(0), min(n, ask.most_servers)
    for j in range(n):
        if count < most:
            heap[count] = by_b[j]
            count += losses[by_b[j]] >= 0
    count = _first_servers(worker_cost, server_cost, losses, x, ask.most_servers, count, room)
    for i in range(n):
        fits[i], servers_at[i] = listed.fits[i], 0
        after[i] = fits[i] - losses[i]
    lossy = False
    placed_servers = 0
    paid_servers = 0.0
    # Of the machines before ``at``, full of workers.
    placed = 0
    paid = 0.0
    at = 0
    too_many = ask.most_workers + 1
    for k in range(beyond):
        workers, servers = ask.workers[k], ask.servers[k]
        if workers >= too_many:
            continue
        while placed_servers < servers and count > 0 and keys[heap[0]] < np.inf:
            i = heap[0]
            paid_servers += server_cost[i]
            servers_at[i] += 1
            lost = fits[i] - after[i]
            if lost > 0:
                lossy = True
                if places[i] < at:
                    placed -= lost
                    paid -= lost * worker_cost[i]
            fits[i] = after[i]
            keys[i] = np.inf
            if servers_at[i] < alone[i]:
                after[i] = _fit_beside(free[i], server, servers_at[i] + 1, worker, fits[i]) if fits[i] > 0 else 0
                worth = x - worker_cost[i]
                keys[i] = server_cost[i] + (worth * (fits[i] - after[i]) if worth > 0.0 else 0.0)
            _sift(keys, heap, count, np.int64(0), 1.0)
            placed_servers += 1
        if placed_servers < servers:
            # Nor are there any for the configurations to come.
            too_many = 0
            continue
        while placed > workers:
            at -= 1
            placed -= fits[by_a[at]]
            paid -= fits[by_a[at]] * worker_cost[by_a[at]]
        while at < n and placed + fits[by_a[at]] <= workers:
            placed += fits[by_a[at]]
            paid += fits[by_a[at]] * worker_cost[by_a[at]]
            at += 1
        rest = workers - placed
        if rest > 0 and at >= n:
            # More servers leave no more room for workers.
            too_many = workers
            continue
        cost = paid_servers + paid
        if rest > 0:
            cost += rest * worker_cost[by_a[at]]
        # What is equal stays with the sweep before.
        if cost < costs[k] * (1.0 - _EQUAL):
            costs[k] = cost
            better[k] = x
    return lossy


class _Trades(NamedTuple):
    """What machines give up for servers: the concave envelopes of workers over servers, cut into their edges.

    Edges come by rising workers lost per server, at equal loss those of cheaper servers first. Taken in this order, the
    first S servers lose as few workers as the sum of envelopes allows, an upper bound. And rounded
    down it is reached: all machines but one are at a corner of their envelope, which they hold; and the one within an
    edge holds its envelope rounded down, for what it holds is a concave function (least over resources of what is left
    / demand) rounded down, and that function is nowhere below the envelope.
    """

    spare: Ints
    """(n,) servers beside the most workers."""
    machines: Ints
    """Of each edge."""
    servers: Ints
    """Gained along each edge, >= 1."""
    workers: Ints
    """Lost along each edge, >= 1."""


@_compiled
def _trades(listed: _Listed, ask: Ask, by_b: Ints) -> _Trades:
    """Find the envelope of each machine from the corners of what it holds, by workers or by servers, the fewer."""
    n = len(listed.machines)
    most_servers = ask.most_servers
    spare = np.empty(n, dtype=np.int64)
    edges = np.empty((4 * n + 4, 3), dtype=np.int64)
    count = 0
    for i in by_b:
        free, fits = listed.free[i], listed.fits[i]
        room = _fit(free, ask.server, most_servers)
        spare[i] = _fit_beside(free, ask.worker, fits, ask.server, room)
        if spare[i] == room:
            continue
        least = _fit_beside(free, ask.server, room, ask.worker, fits)
        by_workers = fits - least < room - spare[i]
        begin = count
        last_servers, last_workers = spare[i], fits
        for step in range(1, min(fits - least, room - spare[i]) + 1):
            if by_workers:
                workers = fits - step
                servers = _fit_beside(free, ask.worker, workers, ask.server, room)
            else:
                servers = spare[i] + step
                workers = _fit_beside(free, ask.server, servers, ask.worker, fits)
            gained, lost = servers - last_servers, last_workers - workers
            if gained == 0:
                continue
            # Where an edge loses no less per server than the next one, the corner between them is none.
            while count > begin and edges[count - 1, 2] * gained >= lost * edges[count - 1, 1]:
                count -= 1
                gained += edges[count, 1]
                lost += edges[count, 2]
            if count == len(edges):
                edges = np.concatenate((edges, np.empty_like(edges)))
            edges[count, 0], edges[count, 1], edges[count, 2] = i, gained, lost
            count += 1
            last_servers, last_workers = servers, workers
    order = np.argsort(edges[:count, 2] / edges[:count, 1], kind="mergesort")
    return _Trades(spare, edges[:count, 0][order], edges[:count, 1][order], edges[:count, 2][order])


@_compiled
def _holds(listed: _Listed, ask: Ask, trades: _Trades, k: int, servers_at: Ints) -> bool:
    """Whether configuration ``k`` fits anywhere (exact). If so ``servers_at`` leaves room for its workers."""
    missing = ask.servers[k]
    for i in range(len(servers_at)):
        servers_at[i] = trades.spare[i]
        missing -= trades.spare[i]
    over = listed.fits.sum() - ask.workers[k]
    for at in range(len(trades.machines)):
        if missing <= 0 or over < 0:
            break
        taken = min(missing, trades.servers[at])
        servers_at[trades.machines[at]] += taken
        missing -= taken
        # Within an edge the machine holds what the envelope says, rounded down.
        over -= (taken * trades.workers[at] + trades.servers[at] - 1) // trades.servers[at]
    return bool(missing <= 0 and over >= 0)


@_compiled
def _too_much(listed: _Listed, ask: Ask, k: int) -> bool:
    """Whether configuration ``k`` is more than all machines together have: of workers, of servers or of a resource."""
    workers, servers = ask.workers[k], ask.servers[k]
    if listed.fits.sum() < workers:
        return True
    room = 0
    for i in range(len(listed.machines)):
        if room < servers:
            room += _fit(listed.free[i], ask.server, servers)
    if room < servers:
        return True
    for r in range(len(ask.worker)):
        if listed.free[:, r].sum() < workers * ask.worker[r] + servers * ask.server[r]:
            return True
    return False


@_compiled
def _last_packed(listed: _Listed, ask: Ask, trades: _Trades, first: int, beyond: int, servers_at: Ints) -> int:
    """Return the last configuration of ``first`` ... ``beyond`` - 1 that fits, ``first`` - 1 if none does.

    They are of one group, so what fits is a run from the start, and where the servers of the last one are there is room
    for all before it: ``servers_at`` says where.
    """
    last, step = first - 1, 1
    tried = np.empty_like(servers_at)
    # Nearly always the first one fails, or the one after it: steps from there, halves when one has failed.
    while last + 1 < beyond:
        k = min(last + step, (last + beyond) // 2)
        if _holds(listed, ask, trades, k, tried):
            last, step = k, 2 * step
            for i in range(len(tried)):
                servers_at[i] = tried[i]
        else:
            beyond = k
    return last


@_compiled
def _pack(listed: _Listed, ask: Ask, costs: Floats, better: Floats, wanted: npt.NDArray[np.bool_], target: int) -> Ints:
    """Give a cost to every configuration that fits and that no sweep found, in groups that hold such a ``wanted`` one.

    Returned are the most workers on each machine that leave room for the servers of the packing of ``target``'s group.
    """
    n, count = len(listed.machines), len(ask.workers)
    by_a, by_b = listed.by_a, listed.by_b
    answer = listed.fits.copy()
    servers_at = np.empty(n, dtype=np.int64)
    workers_at = np.empty(n, dtype=np.int64)
    # Found when first needed.
    known = False
    trades = _Trades(answer, answer[:0], answer[:0], answer[:0])
    # What does not fit does not fit beside more servers either; and what a sweep finds is a run from the start of each
    # group: fewer workers go where more have gone.
    too_many = ask.most_workers + 1
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and ask.servers[end] == ask.servers[begin]:
            end += 1
        first = begin
        while first < end and costs[first] < np.inf:
            first += 1
        beyond = first
        asked = False
        while beyond < end and ask.workers[beyond] < too_many:
            asked = asked or wanted[beyond]
            beyond += 1
        if asked:
            last = first - 1
            if not _too_much(listed, ask, first):
                if not known:
                    trades = _trades(listed, ask, by_b)
                    known = True
                last = _last_packed(listed, ask, trades, first, beyond, servers_at)
            if last >= first:
                fits = listed.fits.copy()
                for i in range(n):
                    fits[i] = _fit_beside(listed.free[i], ask.server, servers_at[i], ask.worker, fits[i])
                for k in range(first, last + 1):
                    costs[k] = _fill(listed, ask, k, by_a, by_b, fits, workers_at, servers_at)
                    better[k] = _PACKED
                if begin <= target < end:
                    answer = fits
            if last + 1 < beyond:
                too_many = ask.workers[last + 1]
        begin = end
    return answer


@_compiled
def _fill(
    listed: _Listed, ask: Ask, k: int, by_a: Ints, by_b: Ints, fits: Ints, workers_at: Ints, servers_at: Ints
) -> float:
    """Put the workers of configuration ``k`` by A, at most ``fits`` on each, then its servers by B; return the cost."""
    cost = 0.0
    left = ask.workers[k]
    workers_at[:] = 0
    for i in by_a:
        workers_at[i] = min(left, fits[i])
        left -= workers_at[i]
        cost += workers_at[i] * listed.worker_cost[i]
    left = ask.servers[k]
    servers_at[:] = 0
    for i in by_b:
        if left > 0:
            servers_at[i] = _fit_beside(listed.free[i], ask.worker, workers_at[i], ask.server, left)
            left -= servers_at[i]
            cost += servers_at[i] * listed.server_cost[i]
    return cost


@_compiled
def _beyond(ask: Ask, costs: Floats, floor: Floats, limits: Floats) -> int:
    """Return the end of the last group that may still get cheaper where that is of use.

    These are configurations whose floor is below their limit, and below the cost that was found by more than what is
    equal.
    """
    k = len(costs) - 1
    while k >= 0 and not (floor[k] < limits[k] and floor[k] < costs[k] * (1.0 - 1.5 * _EQUAL)):
        k -= 1
    if k < 0:
        return 0
    while k + 1 < len(costs) and ask.servers[k + 1] == ask.servers[k]:
        k += 1
    return k + 1


@_compiled
def _swept(
    listed: _Listed,
    ask: Ask,
    worths: Floats,
    floor: Floats,
    limits: Floats,
    costs: Floats,
    better: Floats,
    room: _Room,
) -> bool:
    """Find the least of all sweeps for each configuration; return whether a packing of any may be of use.

    Only where ``floor``, which no placement costs less than, is below ``limits``: sweeps end after the last of those,
    and are left out where none can get any cheaper. ``worths`` are those of the server-first ones. ``better`` is -1
    where worker-first won, else the x of the server-first sweep that won.
    """
    for k in range(len(costs)):
        costs[k], better[k] = np.inf, -1.0
    beyond = _beyond(ask, costs, floor, limits)
    _workers_first(listed, ask, costs, beyond, room)
    for at in range(len(listed.by_a)):
        room.places[listed.by_a[at]] = at
    turn, lossy = 0, ask.most_servers > 0
    while lossy and turn < len(worths):
        beyond = _beyond(ask, costs, floor, limits)
        lossy = beyond > 0 and _servers_first(listed, ask, worths[turn], costs, better, beyond, room)
        turn += 1
    wanted = False
    for k in range(len(costs)):
        wanted |= (costs[k] == np.inf) & (floor[k] < limits[k])
    return wanted and ask.most_servers > 0


@_compiled
def _across(
    view: LedgerView,
    slot: int,
    level: int,
    ask: Ask,
    memo: _Memo,
    useful: _Useful,
    listed: _Listed,
    worths: Floats,
    floor: Floats,
    limits: Floats,
    costs: Floats,
    better: Floats,
    room: _Room,
) -> None:
    """Do as ``_swept``, and find a packing of those that fit and no sweep finds: ``better`` is ``_PACKED`` there.

    ``useful`` has all machines of the domain, ``listed`` those that sweeps get to.
    """
    if _swept(listed, ask, worths, floor, limits, costs, better, room):
        _packed(view, slot, level, ask, memo, useful, listed, floor, limits, costs, better)


@_compiled
def _packed(
    view: LedgerView,
    slot: int,
    level: int,
    ask: Ask,
    memo: _Memo,
    useful: _Useful,
    listed: _Listed,
    floor: Floats,
    limits: Floats,
    costs: Floats,
    better: Floats,
) -> None:
    """Find a packing of what is of use and no sweep found."""
    whole = listed
    if len(listed.machines) < len(useful.machines):
        # Some of them may hold nothing.
        part = _part(view, level, useful, ask.most_workers + ask.most_servers)
        whole = _listed(view, slot, ask, memo, part.machines)
    _pack(whole, ask, costs, better, (costs == np.inf) & (floor < limits), np.int64(-1))


@_compiled
def _exact_table(listed: _Listed, ask: Ask, keep: bool) -> Floats:
    """Least cost of exactly s servers and w workers on the machines so far, by a program over machines.

    f_i(s, w) = min over u servers and v workers on machine i of f_{i-1}(s - u, w - v) + B u + A v, where the workers
    beside u servers form a range 0 ... fits(u): a sliding-window minimum of f_{i-1} - A w over that range. Shape (n +
    1 or 1, S + 1, W + 1).
    """
    n = len(listed.machines)
    most_workers, most_servers = ask.most_workers, ask.most_servers
    table = np.full((n + 1 if keep else 1, most_servers + 1, most_workers + 1), np.inf)
    current = np.full((most_servers + 1, most_workers + 1), np.inf)
    current[0, 0] = 0.0
    if keep:
        table[0] = current
    window = np.empty(most_workers + 1, dtype=np.int64)
    shifted = np.empty(most_workers + 1)
    for i in range(n):
        a, b = listed.worker_cost[i], listed.server_cost[i]
        following = np.full((most_servers + 1, most_workers + 1), np.inf)
        room = _fit(listed.free[i], ask.server, most_servers)
        for u in range(room + 1):
            fits = _fit_beside(listed.free[i], ask.server, u, ask.worker, most_workers)
            for s in range(u, most_servers + 1):
                head, tail = 0, 0
                for w in range(most_workers + 1):
                    shifted[w] = current[s - u, w] - a * w
                    while tail > head and shifted[window[tail - 1]] >= shifted[w]:
                        tail -= 1
                    window[tail] = w
                    tail += 1
                    if window[head] < w - fits:
                        head += 1
                    # Not shifted[...] + a * w: that would lose small costs beside a dear machine.
                    cost = current[s - u, window[head]] + a * (w - window[head]) + b * u
                    if cost < following[s, w]:
                        following[s, w] = cost
        current = following
        if keep:
            table[i + 1] = current
    if not keep:
        table[0] = current
    return table


@_compiled
def _across_exactly(listed: _Listed, ask: Ask, costs: Floats) -> None:
    costs[:] = np.inf
    if len(listed.machines) == 0:
        return
    table = _exact_table(listed, ask, np.bool_(False))
    for k in range(len(ask.workers)):
        costs[k] = table[0, ask.servers[k], ask.workers[k]]


@_compiled
def _turns(view: LedgerView, useful: _Useful, most: int) -> Ints:
    """Return the lowest domains in which there are machines, which come by rising domain, those with most room first.

    Room counts in workers up to ``most``: more than the job can use is no better.
    """
    machines, fits, domain = useful.machines, useful.fits, view.domains[1]
    found, room = np.empty(len(machines), dtype=np.int64), np.empty(len(machines))
    count, begin = 0, np.int64(0)
    while begin < len(machines):
        end = _end(view, np.int64(1), machines, begin)
        missing = most
        for i in range(begin, end):
            # Not to overflow.
            missing -= min(fits[i], missing)
        found[count], room[count] = domain[machines[begin]], missing
        count += 1
        begin = end
    turns: Ints = found[:count][_order(room[:count])]
    return turns


@_compiled
def _in_turn(domain: Ints, machines: Ints, turns: Ints) -> Ints:
    """Return machines, which come by rising domain, in the order of their domains in ``turns``."""
    begins = np.zeros(turns.max() + 2, dtype=np.int64)
    for machine in machines:
        begins[domain[machine] + 1] += 1
    for i in range(1, len(begins)):
        begins[i] += begins[i - 1]
    in_turn = np.empty_like(machines)
    at = 0
    for turn in turns:
        for i in range(begins[turn], begins[turn + 1]):
            in_turn[at] = machines[i]
            at += 1
    return in_turn


@_compiled
def _entries(useful: _Useful, order: Ints) -> _Useful:
    """Return entries in some order."""
    return _Useful(
        useful.machines[order],
        useful.weights[order],
        useful.worker_cost[order],
        useful.server_cost[order],
        useful.fits[order],
        useful.alone[order],
        useful.losses[order],
    )


@_compiled
def _holding(useful: _Useful, begin: int, end: int) -> tuple[Ints, Ints]:
    """Return the machines of some entries that can hold anything of a job, and their weights."""
    found = np.empty((2, end - begin + 1), dtype=np.int64)
    machines, weights = found[0], found[1]
    count = 0
    for i in range(begin, end):
        machines[count], weights[count] = useful.machines[i], useful.weights[i]
        count += (useful.fits[i] > 0) | (useful.losses[i] >= 0)
    return machines[:count], weights[:count]


@_compiled
def _slice(useful: _Useful, begin: int, end: int) -> _Useful:
    """Return some entries in a row."""
    return _Useful(
        useful.machines[begin:end],
        useful.weights[begin:end],
        useful.worker_cost[begin:end],
        useful.server_cost[begin:end],
        useful.fits[begin:end],
        useful.alone[begin:end],
        useful.losses[begin:end],
    )


@_compiled
def _part(view: LedgerView, level: int, useful: _Useful, most: int) -> _Useful:
    """Return the machines of one domain in the order in which equals are taken; given are they as they come.

    Domains within it come one after another, those with the most room first, in workers, of which no more than ``most``
    count: what costs the same everywhere is then put into as few of them as can be.
    """
    machines = useful.machines
    if len(machines) == 0 or level == 1:
        return useful
    order = np.arange(len(machines))
    for inner in range(1, level):
        domain = view.domains[inner][machines]
        start = domain[0]
        room = np.zeros(domain[-1] - start + 1, dtype=np.int64)
        for i in range(len(machines)):
            # More room than the job can use is no better.
            room[domain[i] - start] = min(room[domain[i] - start] + useful.fits[i], most)
        # By room, then by domain; within each as they are.
        sizes = np.bincount(domain - start, minlength=len(room))
        at = np.empty(len(room), dtype=np.int64)
        taken = 0
        for turn in _order((most - room).astype(np.float64)):
            at[turn] = taken
            taken += sizes[turn]
        placed = np.empty_like(order)
        for entry in order:
            placed[at[domain[entry] - start]] = entry
            at[domain[entry] - start] += 1
        order = placed
    part: _Useful = _entries(useful, order)
    return part


@_compiled
def _end(view: LedgerView, level: int, machines: Ints, begin: int) -> int:
    """Return where the domain that begins at ``begin`` of a list of machines ends."""
    domain = view.domains[level]
    end = begin + 1
    while end < len(machines) and domain[machines[end]] == domain[machines[begin]]:
        end += 1
    return end


class _Domains(NamedTuple):
    """The domains of a level that have anything for a job; what a single machine holds is known from its own level."""

    begins: Ints
    """First of each one's machines, in the list of all useful ones."""
    ends: Ints
    room: Ints
    """Workers that fit."""
    least_a: Floats
    """A of the cheapest machine that holds a worker; a number beyond all others if none does."""
    least_b: Floats
    """B of the cheapest machine that holds a server, likewise."""


@_compiled
def _domains(view: LedgerView, level: int, useful: _Useful) -> _Domains:
    """Find the domains of a level."""
    machines, domain_of = useful.machines, view.domains[level]
    fits, losses, worker_cost, server_cost = useful.fits, useful.losses, useful.worker_cost, useful.server_cost
    most = domain_of[machines[-1]] - domain_of[machines[0]] + 1 if len(machines) > 0 else 0
    counts, costs = np.empty((3, most), dtype=np.int64), np.empty((2, most))
    begins, ends, room, least_a, least_b = counts[0], counts[1], counts[2], costs[0], costs[1]
    count = 0
    begin = np.int64(0)
    while begin < len(machines):
        end = _end(view, level, machines, begin)
        least, least_server, held = _NEVER, _NEVER, 0
        for i in range(begin, end):
            # All is read, whether it counts or not: this way nothing has to be foretold.
            a, b, fit, loss = worker_cost[i], server_cost[i], fits[i], losses[i]
            held += fit
            least = min(least, a if fit > 0 else _NEVER)
            least_server = min(least_server, b if loss >= 0 else _NEVER)
        if end > begin + 1 or useful.weights[begin] > 1:
            begins[count], ends[count], room[count] = begin, end, held
            least_a[count], least_b[count] = least, least_server
            count += 1
        begin = end
    return _Domains(begins[:count], ends[:count], room[:count], least_a[:count], least_b[:count])


@_compiled
def _may_pay(domains: _Domains, i: int, workers: Floats, servers: Floats, limits: Floats, floor: Floats) -> bool:
    """Write what each configuration costs at least in a domain; return whether any costs less than its limit.

    Workers cost no less than on the cheapest machine, and likewise servers.
    """
    a, b, room = domains.least_a[i], domains.least_b[i], domains.room[i]
    found = 0
    # Without a way out: several at a time are faster.
    for k in range(len(limits)):
        cost = a * workers[k] + b * servers[k]
        found += (cost < limits[k]) & (workers[k] <= room)
        floor[k] = cost * (1.0 - _EQUAL) if workers[k] <= room else np.inf
    return found > 0


@_compiled
def _has_enough(listed: _Listed, ask: Ask, limits: Floats, floor: Floats) -> bool:
    """Whether any configuration may cost less than its limit; those that need more than is free in all cost +inf."""
    for r in range(len(ask.worker)):
        total = 0.0
        for i in range(len(listed.machines)):
            total += listed.free[i, r]
        for k in range(len(limits)):
            if floor[k] < limits[k] and ask.workers[k] * ask.worker[r] + ask.servers[k] * ask.server[r] > total:
                floor[k] = np.inf
    found = False
    for k in range(len(limits)):
        found |= floor[k] < limits[k]
    return found


@_compiled
def _domain_floor(listed: _Listed, ask: Ask, limits: Floats, floor: Floats) -> bool:
    """Raise what each configuration costs at least on some machines; return whether any may cost less than its limit.

    Workers go by A and servers by B, as if neither was in the way of the other.
    """
    n = len(listed.machines)
    a, b, fits, alone = listed.worker_cost, listed.server_cost, listed.fits, listed.alone
    by_a, by_b = listed.by_a, listed.by_b
    # Servers come in rising numbers, workers nearly so.
    placed, paid, at = 0, 0.0, 0
    servers_placed, servers_paid, servers_at = 0, 0.0, 0
    found = False
    for k in range(len(floor)):
        if floor[k] >= limits[k]:
            continue
        workers, servers = ask.workers[k], ask.servers[k]
        if workers < placed:
            placed, paid, at = 0, 0.0, 0
        while at < n and placed + fits[by_a[at]] <= workers:
            placed += fits[by_a[at]]
            paid += fits[by_a[at]] * a[by_a[at]]
            at += 1
        while servers_at < n and servers_placed + alone[by_b[servers_at]] <= servers:
            servers_placed += alone[by_b[servers_at]]
            servers_paid += alone[by_b[servers_at]] * b[by_b[servers_at]]
            servers_at += 1
        cost = paid + servers_paid
        if placed < workers:
            cost += (workers - placed) * a[by_a[at]] if at < n else np.inf
        if servers_placed < servers:
            cost += (servers - servers_placed) * b[by_b[servers_at]] if servers_at < n else np.inf
        floor[k] = max(floor[k], cost * (1.0 - _EQUAL))
        found = found or floor[k] < limits[k]
    return found


class _Shares(NamedTuple):
    """Resources that both workers and servers take of, and how many of each alone a grain is enough for."""

    resources: Ints
    workers: Floats
    servers: Floats


@_compiled
def _shares(ask: Ask) -> _Shares:
    shared = np.flatnonzero((ask.worker > 0.0) & (ask.server > 0.0))
    return _Shares(shared, 1.0 / ask.worker[shared], 1.0 / ask.server[shared])


@_inlined
def _saved_at_most(
    used: Floats, capacity: Floats, shares: _Shares, memo: _Memo, machines: Ints, at_a: float, at_b: float
) -> float:
    """Return no less than what machines save if workers are worth ``at_a`` and servers ``at_b``, less what they cost.

    A machine saves no more than with all workers and all servers that it holds of either alone, and no more than its
    free amount of any resource does where it saves most.
    """
    worker_cost, server_cost, fits, alone = memo.worker_cost, memo.server_cost, memo.fits, memo.alone
    resources, by_worker, by_server = shares.resources, shares.workers, shares.servers
    total = 0.0
    for machine in machines:
        a, b = at_a - worker_cost[machine], at_b - server_cost[machine]
        if a > 0.0:
            saved = a * fits[machine]
            if b > 0.0:
                saved += b * alone[machine]
                for i in range(len(resources)):
                    free = capacity[machine, resources[i]] - used[machine, resources[i]]
                    saved = min(saved, free * max(a * by_worker[i], b * by_server[i]))
            total += saved
        elif b > 0.0:
            total += b * alone[machine]
    return total * (1.0 + _EQUAL)


@_inlined
def _raised(
    at_a: float, at_b: float, saved: float, workers: Floats, servers: Floats, limits: Floats, floor: Floats
) -> tuple[int, int]:
    """Raise floors to what workers and servers are paid less what is saved.

    Return how many floors were raised that had been below their limits, and how many are now.
    """
    at_a, at_b = at_a * (1.0 - _EQUAL), at_b * (1.0 - _EQUAL)
    raised, left = 0, 0
    # Without a way out: several at a time are faster.
    for k in range(len(floor)):
        cost, before, limit = at_a * workers[k] + at_b * servers[k] - saved, floor[k], limits[k]
        raised += (cost > before) & (before < limit)
        cost = cost if cost > before else before
        floor[k] = cost
        left += cost < limit
    return raised, left


@_compiled
def _shares_floor(
    used: Floats,
    capacity: Floats,
    shares: _Shares,
    memo: _Memo,
    machines: Ints,
    least_b: float,
    room: _Room,
    pairs: Floats,
    workers: Floats,
    servers: Floats,
    limits: Floats,
    floor: Floats,
) -> bool:
    """Raise what each configuration costs at least on some machines; return whether any may cost less than its limit.

    Were each worker paid with ``at_a`` and each server with ``at_b``, no placement would save more than all machines
    do that each hold what saves most: so it costs no less than it is paid less that. Tried are first ``pairs`` of both,
    (2, 2), that did well elsewhere, and are written over by those that do well here; then the A of each machine, with
    the B of the same machine, and with what servers are worth that take the places of workers. ``least_b`` is the least
    B.
    """
    left = len(floor)
    for at in range(len(pairs)):
        if pairs[at, 0] > 0.0 and left > 0:
            saved = _saved_at_most(used, capacity, shares, memo, machines, pairs[at, 0], pairs[at, 1])
            _, left = _raised(pairs[at, 0], pairs[at, 1], saved, workers, servers, limits, floor)
    costs, order = room.keys, room.heap
    held, held_servers, count = 0, 0, len(machines) if left > 0 else 0
    for i in range(count):
        costs[i] = memo.worker_cost[machines[i]]
        held += memo.fits[machines[i]]
        held_servers += memo.alone[machines[i]]
    _write_order(costs, count, order)
    # Places of workers that a server takes, about.
    places = held / held_servers if held_servers > 0 else 0.0
    placed, least = 0, 0.0
    # Bounds rise up to where the last worker goes, and fall beyond.
    at, rising, risen = 0, True, False
    while at < count and left > 0 and (rising or not risen):
        machine = machines[order[at]]
        at += 1
        if memo.fits[machine] == 0:
            continue
        placed += memo.fits[machine]
        if rising:
            least = np.inf
            for k in range(len(floor)):
                least = min(least, workers[k] if floor[k] < limits[k] else np.inf)
        if placed < least:
            continue
        at_a = memo.worker_cost[machine]
        rising = False
        for turn in range(2):
            if left == 0 or (turn == 1 and held_servers == 0):
                continue
            at_b = memo.server_cost[machine] if turn == 0 else max(least_b, places * at_a)
            saved = _saved_at_most(used, capacity, shares, memo, machines, at_a, at_b)
            raised, still = _raised(at_a, at_b, saved, workers, servers, limits, floor)
            rising = rising or raised > 0
            if still < left:
                pairs[1, 0], pairs[1, 1] = pairs[0, 0], pairs[0, 1]
                pairs[0, 0], pairs[0, 1] = at_a, at_b
                left = still
        risen = risen or rising
    return left > 0


@_compiled
def _costs_at(
    view: LedgerView,
    slot: int,
    level: int,
    ask: Ask,
    memo: _Memo,
    useful: _Useful,
    exact: Literal[True] | None,
    lower: Floats,
    costs: Floats,
    where: Ints,
) -> None:
    """Write the least cost of each configuration at a level between machine and cluster, and which domain has it.

    Only what costs less than ``lower`` is of use. Domains that cannot be cheaper for any configuration are not looked
    at.
    """
    costs[:] = np.inf
    where[:] = -1
    machines = useful.machines
    if not ask.useful[level] or len(machines) == 0:
        return
    domains = _domains(view, level, useful)
    here, floor, better = np.empty(len(costs)), np.empty(len(costs)), np.empty(len(costs))
    limits = lower.copy()
    workers, servers = ask.workers.astype(np.float64), ask.servers.astype(np.float64)
    pairs, shares, levels = np.zeros((2, 2)), _shares(ask), np.empty(5)
    largest = (domains.ends - domains.begins).max() if len(domains.begins) > 0 else 0
    room, inner = _room(largest), _list(largest, len(ask.worker))
    used = view.used[slot % view.used.shape[0]]
    found = False
    # Those first that are likely to be the cheapest.
    for i in _order(domains.least_a):
        begin, end = domains.begins[i], domains.ends[i]
        domain = view.domains[level][machines[begin]]
        if found:
            # As cheap as what was found is of use in a domain that comes before it.
            for k in range(len(costs)):
                limits[k] = min(lower[k], costs[k] if domain > where[k] else costs[k] * (1.0 + _EQUAL))
        if not _may_pay(domains, i, workers, servers, limits, floor):
            continue
        part_of, least_b = machines[begin:end], domains.least_b[i]
        if not _shares_floor(
            used, view.capacity, shares, memo, part_of, least_b, room, pairs, workers, servers, limits, floor
        ):
            continue
        holding, weights = _holding(useful, begin, end)
        _write_list(view, slot, ask, memo, holding, len(holding), inner, memo.scratch.buckets, memo.scratch.ends)
        listed = _first(inner, len(holding))
        if not _domain_floor(listed, ask, limits, floor) or not _has_enough(listed, ask, limits, floor):
            continue
        if exact is not None:
            part = _part(view, level, _slice(useful, begin, end), ask.most_workers + ask.most_servers)
            _across_exactly(_listed(view, slot, ask, memo, part.machines), ask, here)
        elif level == 1 and weights.sum() <= _FEW:
            # None is left out, and none comes before another.
            count = _worths_of_few(listed.worker_cost, listed.fits, weights, listed.by_a, levels)
            if _swept(listed, ask, levels[:count], floor, limits, here, better, room):
                _pack(listed, ask, here, better, (here == np.inf) & (floor < limits), np.int64(-1))
        else:
            part = _slice(useful, begin, end)
            short, worths = _short_for_all(view, level, part, ask, np.full(3, np.inf), memo.scratch)
            listed = _listed(view, slot, ask, memo, short.machines)
            _across(view, slot, level, ask, memo, part, listed, worths, floor, limits, here, better, room)
        found = True
        for k in range(len(costs)):
            # Of equal domains the first.
            if floor[k] < limits[k] and (here[k] < costs[k] or (here[k] == costs[k] and domain < where[k])):
                costs[k] = here[k]
                where[k] = domain


@_compiled
def _ceilings(ask: Ask, costs: Floats, ceiling: Ceiling, ceilings: Floats) -> None:
    """Write what each choice has to be cheaper than, (L, K): see ``Ceiling``; never less for more samples.

    ``costs`` are of real placements, +inf where none is known yet: fewer of them only leave more room.
    """
    low, high, slack = ceiling
    if high == np.inf:
        ceilings[:] = np.inf
        return
    flat_costs, flat_samples, flat = costs.reshape(-1), ask.samples.reshape(-1), ceilings.reshape(-1)
    corners, paid = np.empty(len(ask.order) + 1), np.empty(len(ask.order) + 1)
    corners[0], paid[0] = 0.0, 0.0
    count = 1
    for choice in ask.order:
        trained, cost = flat_samples[choice], flat_costs[choice]
        if trained <= 0.0 or cost > paid[count - 1] + high * (trained - corners[count - 1]):
            # Beyond the last corner the line is lower; where it is no corner, this one is none either.
            continue
        while count > 1 and (
            corners[count - 1] == trained
            or (paid[count - 1] - paid[count - 2]) * (trained - corners[count - 2])
            >= (cost - paid[count - 2]) * (corners[count - 1] - corners[count - 2])
        ):
            count -= 1
        corners[count], paid[count] = trained, cost
        count += 1
    at = 0
    while at + 1 < count and paid[at + 1] - paid[at] < low * (corners[at + 1] - corners[at]):
        at += 1
    first = corners[at]
    for choice in ask.order:
        trained = flat_samples[choice]
        while at + 1 < count and corners[at + 1] <= trained:
            at += 1
        rise = high
        if trained < first:
            rise = low
        elif at + 1 < count:
            rise = (paid[at + 1] - paid[at]) / (corners[at + 1] - corners[at])
        flat[choice] = paid[at] + rise * (trained - corners[at]) + slack


@_compiled
def _curve(
    ask: Ask,
    trained_by: Floats,
    costs: Floats,
    ceilings: Floats,
    where: Ints,
    better: Floats,
    begin: int,
    samples: Floats,
    least_costs: Floats,
    choices: Ints,
    ways: Floats,
) -> int:
    """Keep what no other configuration beats and is below its ceiling: write rising samples and costs, return the end.

    What would be beaten by a choice that is left out is above its own ceiling too, being no cheaper for less. Given are
    samples, costs, ceilings and domains of each choice, (L K,); written is from ``begin`` on.
    """
    kept = begin
    least = np.inf
    for at in range(len(ask.order) - 1, -1, -1):
        choice = ask.order[at]
        trained, cost = trained_by[choice], costs[choice]
        if cost < least and trained > 0.0 and cost < ceilings[choice]:
            least = cost
            if kept > begin and samples[kept - 1] == trained:
                kept -= 1
            samples[kept], least_costs[kept], choices[kept] = trained, least, choice
            kept += 1
    for i in range((kept - begin) // 2):
        here, there = begin + i, kept - 1 - i
        samples[here], samples[there] = samples[there], samples[here]
        least_costs[here], least_costs[there] = least_costs[there], least_costs[here]
        choices[here], choices[there] = choices[there], choices[here]
    top = len(costs) - len(better)
    for i in range(begin, kept):
        ways[i] = better[choices[i] - top] if choices[i] >= top else where[choices[i]]
    return kept


@_inlined
def _costs(
    view: LedgerView,
    slot: int,
    ask: Ask,
    log_low: Floats,
    log_ratio: Floats,
    exact: Literal[True] | None,
    memo: _Memo,
    all_of_them: bool,
    ceiling: Ceiling,
    ceilings: Floats,
    floor: Floats,
    costs: Floats,
    where: Ints,
    better: Floats,
) -> Ints:
    """Write the least cost of each configuration at each level, (L, K); unless ``all_of_them``, of what may be useful.

    What costs no less than its ceiling, see ``Ceiling``, may get any cost that is not below it either. Also written are
    the ceilings, (L, K), which domain has the least cost at each level, and what won at the highest one, (K,). Returned
    are the machines that sweeps across the whole cluster get to; none where that is not known.
    """
    useful = _useful(view, slot, ask, log_low, log_ratio, memo)
    top, scratch = len(ask.samples) - 1, memo.scratch
    short, worths = _short_for_all(view, top, useful, ask, memo.likely, scratch)
    count = len(short.machines)
    _write_list(view, slot, ask, memo, short.machines, count, scratch.listed, scratch.buckets, scratch.ends)
    listed = _first(scratch.listed, count)
    _inside(view, slot, ask, useful, listed, short.cutoff, memo, costs, where)
    near: Ints = listed.machines
    for level in range(1, top + 1):
        for k in range(len(ask.workers)):
            costs[level, k] = np.inf
    where[top] = 0
    if ask.useful[top]:
        if exact is not None:
            near = near[:0]
            part = _part(view, top, useful, ask.most_workers + ask.most_servers)
            _across_exactly(_listed(view, slot, ask, memo, part.machines), ask, costs[top])
        else:
            floor[:] = 0.0
            if ceiling.high < np.inf:
                _ceilings(ask, costs, ceiling, ceilings)
            # Of the machines with the least A and B, as many as any configuration needs are listed.
            if (ceiling.high == np.inf or _domain_floor(listed, ask, ceilings[top], floor)) and _swept(
                listed, ask, worths, floor, ceilings[top], costs[top], better, scratch.room
            ):
                _packed(view, slot, top, ask, memo, useful, listed, floor, ceilings[top], costs[top], better)
    if ceiling.high < np.inf:
        _ceilings(ask, costs, ceiling, ceilings)
    if top > 1:
        limits = np.full(ask.samples.shape, np.inf)
        if not all_of_them:
            # What trains as much across the whole cluster for less keeps a configuration off the curve.
            least = np.inf
            for choice in ask.order[::-1]:
                level, k = choice // len(ask.workers), choice % len(ask.workers)
                limits[level, k] = least
                if level == top:
                    least = min(least, costs[top, k])
        lower = np.empty(len(ask.workers))
        for level in range(1, top):
            for k in range(len(lower)):
                limits[level, k] = min(limits[level, k], costs[level - 1, k])
                limits[level + 1, k] = min(limits[level + 1, k], limits[level, k])
                lower[k] = min(limits[level, k], ceilings[level, k])
            _costs_at(view, slot, level, ask, memo, useful, exact, lower, costs[level], where[level])
    return near


@_compiled
def _differ(log_low: Floats, log_ratio: Floats, i: int) -> bool:
    """Whether prices of row ``i`` are others than those of the row before."""
    for r in range(log_low.shape[1]):
        if log_low[i, r] != log_low[i - 1, r] or log_ratio[i, r] != log_ratio[i - 1, r]:
            return True
    return False


@_compiled
def _curves(
    view: LedgerView,
    first: int,
    count: int,
    ask: Ask,
    log_low: Floats,
    log_ratio: Floats,
    exact: Literal[True] | None,
    all_of_them: bool,
    ceiling: Ceiling,
    costs: Floats,
    where: Ints,
    better: Floats,
) -> tuple[Ints, Floats, Floats, Ints, Floats, Ints, npt.NDArray[np.int32]]:
    """Return curves; ``costs``, ``where`` and ``better`` are left as ``_costs`` leaves them for the last slot."""
    most = ask.samples.size
    offsets = np.zeros(count + 1, dtype=np.int64)
    samples = np.empty(count * most)
    least_costs = np.empty(count * most)
    choices = np.empty(count * most, dtype=np.int64)
    ways = np.empty(count * most)
    ceilings, floor = np.full(ask.samples.shape, np.inf), np.empty(len(ask.workers))
    flat_samples, flat_costs = ask.samples.reshape(-1), costs.reshape(-1)
    flat_where, flat_ceilings = where.reshape(-1), ceilings.reshape(-1)
    better[:] = np.nan
    starts = np.zeros(count + 1, dtype=np.int64)
    near = np.empty(count * _LONGEST_HINT, dtype=np.int32)
    memo = _memo(view)
    for i in range(count):
        if i > 0 and _differ(log_low, log_ratio, i):
            _forget(memo)
        listed = _costs(
            view,
            first + i,
            ask,
            log_low[i],
            log_ratio[i],
            exact,
            memo,
            all_of_them,
            ceiling,
            ceilings,
            floor,
            costs,
            where,
            better,
        )
        offsets[i + 1] = offsets[i]
        if not all_of_them:
            offsets[i + 1] = _curve(
                ask,
                flat_samples,
                flat_costs,
                flat_ceilings,
                flat_where,
                better,
                offsets[i],
                samples,
                least_costs,
                choices,
                ways,
            )
        starts[i + 1] = starts[i]
        if len(listed) <= _LONGEST_HINT:
            starts[i + 1] += len(listed)
            for j in range(len(listed)):
                near[starts[i] + j] = listed[j]
    total = offsets[count]
    noted = near[: starts[count]].copy()
    return offsets, samples[:total], least_costs[:total], choices[:total], ways[:total], starts, noted


def one(ask: Ask, k: int) -> Ask:
    """Return the same job with one configuration only, to be costed and placed (it has no order for curves)."""
    return Ask(
        ask.workers[k : k + 1],
        ask.servers[k : k + 1],
        ask.samples[:, k : k + 1].copy(),
        ask.order[:0],
        ask.workers[k],
        ask.servers[k],
        ask.useful,
        ask.worker,
        ask.server,
        ask.worker_amount,
        ask.server_amount,
    )


_one = _compiled(one)


@_compiled
def _group(ask: Ask, k: int) -> tuple[Ask, int]:
    """Return the same job with the configurations of ``k``'s group only, and where ``k`` is among them.

    A sweep and a packing treat them as they do among all: what they look at does not depend on other groups.
    """
    begin, end = k, k + 1
    while begin > 0 and ask.servers[begin - 1] == ask.servers[k]:
        begin -= 1
    while end < len(ask.servers) and ask.servers[end] == ask.servers[k]:
        end += 1
    group = Ask(
        ask.workers[begin:end],
        ask.servers[begin:end],
        ask.samples[:, begin:end].copy(),
        ask.order[:0],
        ask.most_workers,
        ask.most_servers,
        ask.useful,
        ask.worker,
        ask.server,
        ask.worker_amount,
        ask.server_amount,
    )
    return group, k - begin


@_compiled
def _place_exactly(listed: _Listed, one: Ask) -> tuple[Ints, Ints]:
    """Walk back through the exact program of a single configuration; return its workers and servers."""
    n = len(listed.machines)
    workers_at, servers_at = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    table = _exact_table(listed, one, np.bool_(True))
    s, w = one.servers[0], one.workers[0]
    for i in range(n - 1, -1, -1):
        least = np.inf
        for u in range(_fit(listed.free[i], one.server, s) + 1):
            fits = _fit_beside(listed.free[i], one.server, u, one.worker, w)
            for v in range(fits + 1):
                cost = table[i, s - u, w - v] + listed.server_cost[i] * u + listed.worker_cost[i] * v
                if cost < least:
                    least = cost
                    servers_at[i], workers_at[i] = u, v
        s -= servers_at[i]
        w -= workers_at[i]
    return workers_at, servers_at


@_compiled
def _place_swept(listed: _Listed, ask: Ask, k: int, x: float) -> tuple[Ints, Ints]:
    """Run again what won for configuration ``k``: servers first with ``x`` >= 0, else workers first, or the packing.

    Returned are its workers and servers on each of the machines listed, which for a packing must be all.
    """
    n = len(listed.machines)
    workers_at, servers_at = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    unknown = np.full(len(ask.workers), np.inf)
    if x < 0.0:
        fits = listed.fits
        if x == _PACKED:
            # What the sweeps find comes before it in the group, and changes nothing for it.
            unknown[:k] = 0.0
            fits = _pack(listed, ask, unknown, np.empty(len(unknown)), unknown > 0.0, k)
        _fill(listed, ask, k, listed.by_a, listed.by_b, fits, workers_at, servers_at)
        return workers_at, servers_at
    room = _room(n)
    for at in range(n):
        room.places[listed.by_a[at]] = at
    _servers_first(listed, ask, x, unknown, np.empty(len(unknown)), k + 1, room)
    servers_at[:] = room.servers_at
    left = ask.workers[k]
    for i in listed.by_a:
        if left == 0:
            break
        fits_here = listed.fits[i]
        if servers_at[i] > 0:
            fits_here = _fit_beside(listed.free[i], ask.server, servers_at[i], ask.worker, fits_here)
        workers_at[i] = min(left, fits_here)
        left -= workers_at[i]
    return workers_at, servers_at


@_inlined
def _place(
    view: LedgerView,
    slot: int,
    ask: Ask,
    choice: int,
    log_low: Floats,
    log_ratio: Floats,
    exact: Literal[True] | None,
    way: float,
    near: npt.NDArray[np.int32],
    memo: _Memo,
) -> tuple[Ints, Ints, Ints]:
    """Rebuild where the workers and servers of a choice are: (machines, workers, servers), machines rising.

    ``way`` is how it was found, nan across the whole cluster by the program; ``near`` are machines to look at, none if
    all.
    """
    level, k = choice // len(ask.workers), choice % len(ask.workers)
    if level == 0:
        return np.array([int(way)]), ask.workers[k : k + 1], ask.servers[k : k + 1]
    top = len(ask.samples) - 1
    group, at = _group(ask, k)
    if level == top and len(near) > 0 and way >= -1.0:
        machines = near.astype(np.int64)
        _look(view, slot % view.used.shape[0], machines, len(machines), ask, log_low, log_ratio, memo)
        part = _listed(view, slot, group, memo, machines)
        workers_at, servers_at = _place_swept(part, group, at, way)
        at_once: tuple[Ints, Ints, Ints] = _in_use(part, workers_at, servers_at)
        return at_once
    if level < top:
        useful = _useful_in(view, slot, ask, log_low, log_ratio, memo, level, int(way))
        # Which sweep won there is to be found out.
        way = np.nan
    else:
        useful = _useful(view, slot, ask, log_low, log_ratio, memo)
    in_turn = _part(view, level, useful, ask.most_workers + ask.most_servers)
    if exact is not None:
        part = _listed(view, slot, ask, memo, in_turn.machines)
        workers_at, servers_at = _place_exactly(part, _one(ask, k))
    else:
        if np.isnan(way):
            costs, better = np.empty(len(group.workers)), np.empty(len(group.workers))
            short, worths = _short_for_all(view, level, useful, group, np.full(3, np.inf), memo.scratch)
            part = _listed(view, slot, group, memo, short.machines)
            anything, unlimited = np.zeros(len(costs)), np.full(len(costs), np.inf)
            room = _room(len(part.machines))
            _across(view, slot, level, group, memo, useful, part, worths, anything, unlimited, costs, better, room)
            way = better[at]
        elif way != _PACKED:
            worths = np.full(1 if way >= 0.0 else 0, way)
            short = _short(in_turn, group, worths, way < 0.0)
            part = _listed(view, slot, group, memo, short.machines)
        if way == _PACKED:
            part = _listed(view, slot, group, memo, in_turn.machines)
        workers_at, servers_at = _place_swept(part, group, at, way)
    placed: tuple[Ints, Ints, Ints] = _in_use(part, workers_at, servers_at)
    return placed


@_compiled
def _in_use(listed: _Listed, workers_at: Ints, servers_at: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the machines in use, rising, and their workers and servers."""
    used = np.flatnonzero(workers_at + servers_at)
    used = used[_order(listed.machines[used].astype(np.float64))]
    return listed.machines[used], workers_at[used], servers_at[used]


@_compiled
def _places(
    view: LedgerView,
    slots: Ints,
    ask: Ask,
    choices: Ints,
    log_low: Floats,
    log_ratio: Floats,
    exact: Literal[True] | None,
    hints: Hints,
) -> tuple[Ints, Ints, Ints, Ints]:
    count = len(slots)
    offsets = np.zeros(count + 1, dtype=np.int64)
    room = 16 * count
    machines, workers, servers = (
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int64),
    )
    memo = _memo(view)
    for i in range(count):
        if i > 0 and _differ(log_low, log_ratio, i):
            _forget(memo)
        way, near = hints.ways[i], hints.near[hints.starts[i] : hints.starts[i + 1]]
        at, w, s = _place(view, slots[i], ask, choices[i], log_low[i], log_ratio[i], exact, way, near, memo)
        begin = offsets[i]
        end = begin + len(at)
        if end > room:
            machines = np.concatenate((machines, np.empty(end, dtype=np.int64)))
            workers = np.concatenate((workers, np.empty(end, dtype=np.int64)))
            servers = np.concatenate((servers, np.empty(end, dtype=np.int64)))
            room += end
        for j in range(len(at)):
            machines[begin + j], workers[begin + j], servers[begin + j] = at[j], w[j], s[j]
        offsets[i + 1] = end
    return offsets, machines[: offsets[count]], workers[: offsets[count]], servers[: offsets[count]]


@_compiled
def _level(view: LedgerView, machines: Ints) -> int:
    """Return the lowest level of which one domain holds all of these machines."""
    level = 0
    while (view.domains[level][machines] != view.domains[level][machines[0]]).any():
        level += 1
    return level


@_compiled
def _steady(
    view: LedgerView, slots: Ints, ask: Ask, places: Places, costs: Floats, log_low: Floats, log_ratio: Floats
) -> tuple[Ints, Floats]:
    count = len(slots)
    kept = np.arange(count)
    paid = costs.copy()
    for i in range(1, count):
        before = slice(places.offsets[kept[i - 1]], places.offsets[kept[i - 1] + 1])
        now = slice(places.offsets[i], places.offsets[i + 1])
        machines, workers, servers = places.machines[before], places.workers[before], places.servers[before]
        if workers.sum() != places.workers[now].sum() or servers.sum() != places.servers[now].sum():
            continue
        if _level(view, machines) != _level(view, places.machines[now]):
            continue
        row = slots[i] % view.used.shape[0]
        cost = 0.0
        for at in range(len(machines)):
            for r in range(len(ask.worker)):
                free = view.capacity[machines[at], r] - view.used[row, machines[at], r]
                if workers[at] * ask.worker[r] + servers[at] * ask.server[r] > free:
                    cost = np.inf
                amount = workers[at] * ask.worker_amount[r] + servers[at] * ask.server_amount[r]
                if amount > 0.0 and cost < np.inf:
                    share = 1.0 - free / view.capacity[machines[at], r]
                    cost += np.exp(log_low[i, r] + log_ratio[i, r] * share) * amount
        if cost <= costs[i] * (1.0 + _EQUAL):
            kept[i], paid[i] = kept[i - 1], cost
    return kept, paid


def steady(
    view: LedgerView, slots: Ints, ask: Ask, places: Places, costs: Floats, prices: Prices
) -> tuple[Ints, Floats]:
    """Let a job stay where it is for as long as that costs no more: moving is never for nothing.

    Parameters
    ----------
    view : LedgerView
        What is committed.
    slots : (n,) int64
        Active slots, rising.
    ask : Ask
        Of the job.
    places : Places
        Where it is cheapest in each of them.
    costs : (n,) float64
        What that costs.
    prices : Prices
        At these.

    Returns
    -------
    kept : (n,) int64
        Which of ``places`` it has in each slot: that slot's own, or one from before with as many workers and servers
        and the same locality.
    costs : (n,) float64
        What that costs.
    """
    kept, paid = _steady(view, slots, ask, places, costs, *_price_rows(slots, prices))
    return kept, paid


def _price_rows(slots: Ints, prices: Prices) -> tuple[Floats, Floats]:
    """Return ln L and ln(U / L) of some slots, (n, R) each."""
    if len(slots) == 0:
        return prices.rows(0, 0)
    low, ratio = prices.rows(int(slots[0]), int(slots[-1] - slots[0]) + 1)
    return low[slots - slots[0]], ratio[slots - slots[0]]


def _curves_of(
    view: LedgerView,
    first: int,
    count: int,
    ask: Ask,
    prices: Prices,
    exact: Literal[True] | None,
    ceiling: Ceiling,
) -> Curves:
    shape = ask.samples.shape
    costs, where, better = np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape[1])
    rows = prices.rows(first, count)
    return Curves(*_curves(view, first, count, ask, *rows, exact, False, ceiling, costs, where, better))


def sweep_curves(view: LedgerView, first: int, count: int, ask: Ask, prices: Prices, ceiling: Ceiling = ALL) -> Curves:
    """Return the curves of slots ``first`` ... ``first + count - 1`` by sweeps, below a ceiling."""
    return _curves_of(view, first, count, ask, prices, None, ceiling)


def _all_there_is(
    view: LedgerView, slot: int, ask: Ask, rows: tuple[Floats, Floats], exact: Literal[True] | None
) -> tuple[Floats, Ints, Floats, npt.NDArray[np.int32]]:
    """Look at all configurations of a slot at prices of a row each; return costs, where, better and near of ``_costs``.

    Machines are not told where there are many of them.
    """
    shape = ask.samples.shape
    costs, where, better = np.empty(shape), np.empty(shape, dtype=np.int64), np.empty(shape[1])
    found = _curves(view, slot, 1, ask, *rows, exact, True, ALL, costs, where, better)
    return costs, where, better, found[-1]


def _known(
    view: LedgerView, slots: Ints, ask: Ask, choices: Ints, hints: Hints, prices: Prices, exact: Literal[True] | None
) -> Hints:
    """Find out how choices were found where that is not known and placing them needs it."""
    top = len(ask.samples) - 1
    levels, configurations = np.divmod(choices, len(ask.workers))
    unknown = np.isnan(hints.ways) & ((levels < top) | (exact is None))
    if not unknown.any():
        return hints
    ways = hints.ways.copy()
    for slot in np.unique(slots[unknown]).tolist():
        _, where, better, _ = _all_there_is(view, slot, ask, prices.rows(slot, 1), exact)
        for i in np.flatnonzero(unknown & (slots == slot)).tolist():
            level, k = levels[i], configurations[i]
            ways[i] = better[k] if level == top else where[level, k]
    return hints._replace(ways=ways)


def sweep_costs(view: LedgerView, slot: int, ask: Ask, prices: Prices) -> Floats:
    """Return the least cost of each configuration at each level, (L, K).

    It is +inf where none is found, and at levels above the machine at which the job runs no faster than at the next. At
    such a level domains are left out that cannot be cheaper than those within them: take the least over levels.
    """
    return _all_there_is(view, slot, ask, prices.rows(slot, 1), None)[0]


def sweep_place(view: LedgerView, slot: int, ask: Ask, choice: int, prices: Prices) -> tuple[Ints, Ints, Ints]:
    """Return machines, workers and servers of a choice that a sweep curve holds."""
    places = sweep_places(view, np.array([slot]), ask, np.array([choice]), Hints.none(1), prices)
    return places.machines, places.workers, places.servers


def sweep_places(view: LedgerView, slots: Ints, ask: Ask, choices: Ints, hints: Hints, prices: Prices) -> Places:
    """Return where the choices of some slots, rising, are; ``hints`` is what their curves say."""
    known = _known(view, slots, ask, choices, hints, prices, None)
    return Places(*_places(view, slots, ask, choices, *_price_rows(slots, prices), None, known))


def sweep_fit(view: LedgerView, slot: int, ask: Ask, prices: Prices) -> tuple[Ints, Ints, Ints]:
    """Return machines, workers and servers of a job of one configuration, see ``one``, in the lowest domain it fits.

    They are empty where it does not fit.
    """
    rows = prices.rows(slot, 1)
    costs, where, ways, near = _all_there_is(view, slot, ask, rows, None)
    levels = len(costs)
    level = next((level for level in range(levels) if costs[level, 0] < np.inf), levels)
    if level == levels:
        return where[0, :0], ask.workers[:0], ask.servers[:0]
    if level == 0:
        return where[0], ask.workers, ask.servers
    if level < levels - 1:
        ways, near = where[level].astype(np.float64), near[:0]
    hints = Hints(ways, np.array([0, len(near)]), near)
    _, machines, workers, servers = _places(view, np.array([slot]), ask, np.array([level]), *rows, None, hints)
    return machines, workers, servers


def exact_curves(view: LedgerView, first: int, count: int, ask: Ask, prices: Prices) -> Curves:
    """Return the curves of slots ``first`` ... ``first + count - 1`` by the program over machines."""
    return _curves_of(view, first, count, ask, prices, True, ALL)


def exact_costs(view: LedgerView, slot: int, ask: Ask, prices: Prices) -> Floats:
    """Return the true least cost of each configuration, as ``sweep_costs``; +inf where there is no placement."""
    return _all_there_is(view, slot, ask, prices.rows(slot, 1), True)[0]


def exact_place(view: LedgerView, slot: int, ask: Ask, choice: int, prices: Prices) -> tuple[Ints, Ints, Ints]:
    """Return machines, workers and servers of a choice that an exact curve holds."""
    places = exact_places(view, np.array([slot]), ask, np.array([choice]), Hints.none(1), prices)
    return places.machines, places.workers, places.servers


def exact_places(view: LedgerView, slots: Ints, ask: Ask, choices: Ints, hints: Hints, prices: Prices) -> Places:
    """Return where the choices of some slots, rising, are, from exact curves."""
    known = _known(view, slots, ask, choices, hints, prices, True)
    return Places(*_places(view, slots, ask, choices, *_price_rows(slots, prices), True, known))


def curve(ask: Ask, costs: Floats) -> tuple[Floats, Floats, Ints]:
    """Return samples, costs and choices of the useful configurations of a slot, given what each costs.

    Parameters
    ----------
    ask : Ask
        Of the job.
    costs : (L, K) float64
        Cost of each configuration at each level, +inf where it does not fit.
    """
    most = ask.samples.size
    samples, least_costs, choices = np.empty(most), np.empty(most), np.empty(most, dtype=np.int64)
    where, better, ways = np.empty(most, dtype=np.int64), np.empty(len(ask.workers)), np.empty(most)
    flat_samples, flat_costs, unlimited = ask.samples.reshape(-1), costs.reshape(-1), np.full(most, np.inf)
    kept = _curve(ask, flat_samples, flat_costs, unlimited, where, better, 0, samples, least_costs, choices, ways)
    return samples[:kept], least_costs[:kept], choices[:kept]
