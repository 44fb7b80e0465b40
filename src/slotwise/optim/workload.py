"""The program over slots: the cheapest way to train a workload by each completion slot.

    Theta(t, v) = min over v' of  theta(t, v') + Theta(t - 1, v - v')          (the paper's algorithm 3)

States lie on a grid of workload, but each state carries the samples really delivered, and it is their running sum
that is floored to the grid: nothing is lost slot by slot to rounding. The last state needs all of the workload.

Before the program comes a relaxation of it. The lower convex hulls of the slots' curves, merged by price per sample,
say what a completion costs at least. Taking the last segment whole makes a plan of it, the *rounded* one, which costs
little more where there are many slots. With lambda the price per sample of that segment, no plan is worth more than

    u(t') - lambda N + sum over t <= t' of max over choices of (lambda samples - cost),

and the same sum over the slots to come bounds what any state can still become. So states that cannot beat the rounded
plan are left out, and choices that stray too far from lambda are not looked at. What is left is what might win.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from slotwise.optim.slot import ALL, Ceiling, Curves, Hints

__all__ = ["Picks", "Program", "guess"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDING = 1e-13
"""Share by which sums of samples may differ that are added up in another order."""


_SURE = 1e-5
"""Share of a ceiling's slack that rounding errors may take."""

_HIGHER, _DOUBLINGS = 2.0, 3
"""A ceiling is for so many times the rate that is expected, and for as small a part of it; so often again for higher
ones, if what ends soon might win."""

_PART, _WIDER = 1.25, 2.0
"""Part of the last segment that a plan is expected to have over; and how many times the slack that it turned out to
need it is given."""

_LOOSE, _NEARBY, _TRIES = 2.0, 0.1, 8
"""Where a bound leaves so many times as much open as it might, so many other rates are tried, up to so much away."""


class Program:
    """Takes the curves of a job's slots a few at a time, from its first slot on; then finds its best plan.

    Parameters
    ----------
    needed : float
        Samples to deliver, > 0; to 2e-13 of them, since sums differ by the order in which they are added up.
    grid : int
        Grid steps, >= 1.
    utility : (D,) float64
        Utility of a completion in the first, second, ... slot; never rising.
    reach : (D,) float64
        No schedule that ends in each slot or after it has a larger payoff, never rising. It only ever skips what cannot
        win.
    at_least : float
        Payoff that a plan must beat to be of interest.
    ceiling : Ceiling
        Of the curves that are given to it.

    Attributes
    ----------
    lacking : Ceiling or None
        After ``plan``: None if whole curves would have made the same plan, else a ceiling with which to try again.
    slots : int
        Slots seen so far.
    done : bool
        Whether a completion in later slots can no longer win.
    reach : (D,) float64
        As given; tighter bounds may take their place. They hold for what this program has found, so the given stay.
    """

    def __init__(
        self, needed: float, grid: int, utility: Floats, reach: Floats, at_least: float, ceiling: Ceiling = ALL
    ) -> None:
        self.reach = reach.copy()
        self.lacking: Ceiling | None = None
        self.slots = 0
        self.done = len(utility) == 0 or bool(reach[0] <= at_least)
        self._needed = needed
        self._grid = grid
        self._utility = utility
        self._at_least = at_least
        self._ceiling = ceiling
        self._looked_at = 0
        """Slots that were merged."""
        self._curves: list[Curves] = []
        self._bounds: list[Floats] = []
        """Of each slot seen: no plan that ends in it has a larger payoff."""
        self._taken = _Taken(np.empty(0), np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        self._merged: _Merged = _nothing(float(at_least))

    def advance(self, curves: Curves) -> None:
        """Take in the curves of the next slots."""
        room = self._merged.size + len(curves.samples)
        if room > len(self._taken.rates):
            self._taken = _more(self._taken, 2 * room)
        count = len(curves.offsets) - 1
        utility, reach = (part[self.slots : self.slots + count] for part in (self._utility, self.reach))
        bounds = np.full(count, -np.inf)
        self._merged = _merge(*curves[:3], utility, reach, self.slots, self._needed, self._taken, bounds, self._merged)
        self._curves.append(curves)
        self._bounds.append(bounds)
        self._looked_at += self._merged.seen
        self.slots += count
        self.done = (
            self._merged.seen < count
            or self.slots >= len(self._utility)
            or bool(self.reach[self.slots] <= self._merged.payoff)
        )

    def outlook(self) -> tuple[float, float] | None:
        """Return what a sample is worth now, and what all slots so far gain at that beyond the samples needed.

        The utility of a later completion, this, and what the slots up to it gain are more than any plan's payoff that
        ends there: whatever costs less than it is worth is taken by now. None where it is of no use to know, later
        completions still being better than earlier ones, or a ceiling leaves out what such samples might be of.
        """
        merged = self._merged
        if merged.size == 0 or merged.total < self._needed or not self._bounds[-1][-1] < merged.bound:
            return None
        rate = float(self._taken.rates[0])
        if not self._ceiling.low <= rate <= self._ceiling.high:
            return None
        return rate, (merged.total - self._needed) * rate - merged.paid

    def tighten(self, reach: Floats) -> None:
        """Take in that what ends in one of the next slots, or after it, has no larger payoff than this, (n,)."""
        part = slice(self.slots, self.slots + len(reach))
        self.reach[part] = np.minimum(self.reach[part], reach)
        self.done = self.done or bool(self.reach[self.slots] <= self._merged.payoff)

    def plan(self) -> Picks | None:
        """Return the best plan, without what it does not need; None where none is of interest."""
        merged = self._merged
        if not self._curves:
            return None
        curves = _joined(self._curves)
        offsets, samples, costs = curves[:3]
        utility = self._utility
        if self._ceiling.high < np.inf and not self._covers(curves):
            self.lacking = ALL
            return None
        if merged.bound <= self._at_least:
            return None
        picks = np.full(self.slots, -1, dtype=np.int64)
        payoff = self._at_least
        if merged.completion >= 0:
            over = _round(offsets, samples, costs, utility, self._needed, self._at_least, merged.completion, picks)
            # Trimming steps down to what costs less than the pick: it is above the hull by no more than this.
            if self._lacks(over):
                return None
            payoff = max(payoff, _trim(offsets, samples, costs, utility, self._needed, picks))
        better = np.full(self.slots, -1, dtype=np.int64)
        bounds = np.concatenate(self._bounds)
        prospects, rate = _best_prospects(offsets, samples, costs, utility, bounds, payoff, self._needed, merged.rate)
        # No better plan, and no state on the way to one, has choices dearer than the best at this rate by more than
        # what is open yet; nor has what it is trimmed to.
        if self._lacks(float(prospects[0] - rate * self._needed - payoff)):
            return None
        if _search(offsets, samples, costs, utility, bounds, self._needed, self._grid, prospects, rate, payoff, better):
            _trim(offsets, samples, costs, utility, self._needed, better)
            picks = better
        elif payoff == self._at_least:
            return None
        slots = np.flatnonzero(picks >= 0)
        at = offsets[slots] + picks[slots]
        return Picks(slots, samples[at], costs[at], curves.choices[at], curves.hints(slots, at))

    def _covers(self, curves: Curves) -> bool:
        """Whether the hulls below the ceiling make the same of each completion that may win as whole ones.

        Where hulls rise by the ceiling's low to its high rate nothing is missing. So where the slots up to a completion
        train enough at the high one, no steeper segment is in its relaxation; where they do not at the low one, all of
        those that are less steep are, and one straight line does for them. Other completions must not be able to win:
        that is what the Lagrangian bound at either rate says, for which nothing is missing either. Rates nearby are to
        be within the two. And no choice below the ceiling may alone cost too much for a plan that wins: hulls are made
        without those.
        """
        merged, (low, high, _), last = self._merged, self._ceiling, self._looked_at - 1
        if not low <= (1.0 - 2.0 * _NEARBY) * merged.rate <= (1.0 + 2.0 * _NEARBY) * merged.rate <= high or last < 0:
            return False
        if curves.costs.max(initial=0.0) >= self._utility[last] - merged.payoff:
            return False
        utility = self._utility[: last + 1]
        return bool(_none_wins_apart(*curves[:3], utility, self._needed, low, high, merged.payoff))

    def _lacks(self, slack: float) -> bool:
        """Whether the ceiling leaves out what may be of use, if a choice may stray so far from the best of its slot."""
        if self._ceiling.high == np.inf or slack <= self._ceiling.slack * (1.0 - _SURE):
            return False
        self.lacking = self._ceiling._replace(slack=_WIDER * slack) if slack < np.inf else ALL
        return True


class Picks(NamedTuple):
    """A plan: the active slots, counted from the first one of the program, and the point of each one's curve."""

    slots: Ints
    samples: Floats
    costs: Floats
    choices: Ints
    hints: Hints


class _Taken(NamedTuple):
    """The segments of hulls that are taken so far: a heap, the dearest first, at equal rates the last of a slot."""

    rates: Floats
    """Cost of a sample."""
    samples: Floats
    slots: Ints
    indices: Ints
    """Of the point of the slot's curve where the segment ends."""


def _more(taken: _Taken, room: int) -> _Taken:
    """Return the same with more room."""
    return _Taken(
        np.resize(taken.rates, room),
        np.resize(taken.samples, room),
        np.resize(taken.slots, room),
        np.resize(taken.indices, room),
    )


class _Merged(NamedTuple):
    """What came of merging hulls, slot by slot."""

    size: int
    """Segments that are taken."""
    total: float
    """Samples of those."""
    paid: float
    """Cost of those."""
    payoff: float
    """Of the best rounded plan."""
    completion: int
    """Its last slot, -1 if there is none."""
    bound: float
    """No plan that ends in one of these slots has a larger payoff; -inf if there is none."""
    rate: float
    """Cost of the last sample where that is."""
    seen: int
    """Slots that were looked at before the end was in sight."""


def _joined(parts: list[Curves]) -> Curves:
    """Return the curves of all slots as one run."""
    if len(parts) == 1:
        return parts[0]
    return Curves(
        _run([part.offsets for part in parts]),
        np.concatenate([part.samples for part in parts]),
        np.concatenate([part.costs for part in parts]),
        np.concatenate([part.choices for part in parts]),
        np.concatenate([part.ways for part in parts]),
        _run([part.starts for part in parts]),
        np.concatenate([part.near for part in parts]),
    )


def _run(parts: list[Ints]) -> Ints:
    """Return the offsets of what is cut by these, put side by side."""
    lengths = np.concatenate([np.diff(part) for part in parts])
    return np.concatenate([[0], np.cumsum(lengths)])


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _hull(samples: Floats, costs: Floats, kept: Ints) -> int:
    """Write the corners of the lower convex hull with (0, 0) of points that rise strictly; return how many."""
    count = 0
    for j in range(len(samples)):
        while count > 0:
            i = kept[count - 1]
            before, paid = (samples[kept[count - 2]], costs[kept[count - 2]]) if count > 1 else (0.0, 0.0)
            if (costs[i] - paid) * (samples[j] - before) < (costs[j] - paid) * (samples[i] - before):
                break
            count -= 1
        kept[count] = j
        count += 1
    return count


@_compiled
def _above(taken: _Taken, i: int, j: int) -> bool:
    """Whether the segment at ``i`` goes before the one at ``j``: it is dearer, or as dear and further on."""
    if taken.rates[i] != taken.rates[j]:
        return bool(taken.rates[i] > taken.rates[j])
    if taken.slots[i] != taken.slots[j]:
        return bool(taken.slots[i] > taken.slots[j])
    return bool(taken.indices[i] > taken.indices[j])


@_compiled
def _swap(taken: _Taken, i: int, j: int) -> None:
    taken.rates[i], taken.rates[j] = taken.rates[j], taken.rates[i]
    taken.samples[i], taken.samples[j] = taken.samples[j], taken.samples[i]
    taken.slots[i], taken.slots[j] = taken.slots[j], taken.slots[i]
    taken.indices[i], taken.indices[j] = taken.indices[j], taken.indices[i]


@_compiled
def _push(taken: _Taken, size: int, rate: float, samples: float, slot: int, index: int) -> None:
    """Add a segment to a heap of ``size``."""
    at = size
    taken.rates[at], taken.samples[at], taken.slots[at], taken.indices[at] = rate, samples, slot, index
    while at > 0 and _above(taken, at, (at - 1) // 2):
        _swap(taken, at, (at - 1) // 2)
        at = (at - 1) // 2


@_compiled
def _drop(taken: _Taken, size: int) -> None:
    """Take the first segment off a heap of ``size``."""
    size -= 1
    at = np.int64(0)
    _swap(taken, at, size)
    while True:
        child = 2 * at + 1
        if child >= size:
            return
        if child + 1 < size and _above(taken, child + 1, child):
            child += 1
        if not _above(taken, child, at):
            return
        _swap(taken, child, at)
        at = child


@_compiled
def _merge(
    offsets: Ints,
    samples: Floats,
    costs: Floats,
    utility: Floats,
    reach: Floats,
    start: int,
    needed: float,
    taken: _Taken,
    bounds: Floats,
    merged: _Merged,
) -> _Merged:
    """Take the cheapest segments of some more slots, look at each completion, and write what bounds it."""
    size, total, paid, payoff, completion, bound, rate, _ = merged
    kept = np.empty(len(samples), dtype=np.int64)
    for i in range(len(offsets) - 1):
        if reach[i] <= payoff:
            return _Merged(size, total, paid, payoff, completion, bound, rate, i)
        begin = offsets[i]
        # What alone costs too much is in no plan that wins, and would drown the sums.
        end = begin + np.searchsorted(costs[begin : offsets[i + 1]], utility[i] - payoff)
        trained = 0.0
        spent = 0.0
        last = 0.0
        for at in range(_hull(samples[begin:end], costs[begin:end], kept)):
            j = kept[at]
            more = samples[begin + j] - trained
            # Rounding must not make them fall.
            last = max(last, (costs[begin + j] - spent) / more)
            if total >= needed and last >= taken.rates[0]:
                break
            _push(taken, size, last, more, start + i, j)
            size += 1
            total += more
            paid += more * last
            while total - taken.samples[0] >= needed:
                total -= taken.samples[0]
                paid -= taken.samples[0] * taken.rates[0]
                _drop(taken, size)
                size -= 1
            trained, spent = samples[begin + j], costs[begin + j]
        if total >= needed * (1.0 - _ROUNDING) and size > 0:
            if utility[i] - paid > payoff:
                payoff = utility[i] - paid
                completion = start + i
            bounds[i] = utility[i] - (paid - (total - needed) * taken.rates[0])
            if bounds[i] > bound:
                bound = bounds[i]
                rate = taken.rates[0]
    return _Merged(size, total, paid, payoff, completion, bound, rate, len(offsets) - 1)


@_compiled
def _nothing(at_least: float) -> _Merged:
    """Return what has come of no slots."""
    return _Merged(0, 0.0, 0.0, at_least, -1, -np.inf, 0.0, 0)


@_compiled
def _round(
    offsets: Ints,
    samples: Floats,
    costs: Floats,
    utility: Floats,
    needed: float,
    at_least: float,
    completion: int,
    picks: Ints,
) -> float:
    """Write the rounded plan of a completion: for each slot the index of its point, -1 for none.

    Returned is what the samples are worth that it has over, at its last price.
    """
    most = offsets[completion + 1]
    taken = _Taken(np.empty(most), np.empty(most), np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64))
    slots = completion + 1
    reach, bounds = np.full(slots, np.inf), np.empty(slots)
    start = _nothing(at_least)
    merged = _merge(offsets[: slots + 1], samples, costs, utility, reach, np.int64(0), needed, taken, bounds, start)
    picks[:] = -1
    for i in range(merged.size):
        picks[taken.slots[i]] = max(picks[taken.slots[i]], taken.indices[i])
    return float(taken.rates[0] * (merged.total - needed)) if merged.size > 0 else 0.0


@_compiled
def _trim(offsets: Ints, samples: Floats, costs: Floats, utility: Floats, needed: float, picks: Ints) -> float:
    """Take back what the workload does not need, and return the payoff of what is left, -inf if it is not enough.

    From the dearest slot on, step to the cheapest choice that still suffices, or to none.
    """
    slots = np.flatnonzero(picks >= 0)
    trained = samples[offsets[slots] + picks[slots]]
    # Equal costs in order of slots.
    for i in np.argsort(-costs[offsets[slots] + picks[slots]], kind="mergesort"):
        begin = offsets[slots[i]]
        index = picks[slots[i]]
        step = trained[i] - (samples[begin + index - 1] if index > 0 else 0.0)
        if trained.sum() - needed < step * (1.0 - 1e-6) and needed > 1e-6 * step:
            continue
        # Not the sum less this: that would lose a workload that is next to nothing beside a slot's samples.
        trained[i] = 0.0
        least = needed - trained.sum()
        picks[slots[i]] = -1
        if least > 0.0:
            # The cheapest choice with enough samples is the first one: both rise along the curve.
            found = np.searchsorted(samples[begin : begin + index], least)
            picks[slots[i]] = found
            trained[i] = samples[begin + found]
    if trained.sum() < needed * (1.0 - 2.0 * _ROUNDING):
        return -np.inf
    left = slots[picks[slots] >= 0]
    paid = 0.0
    for slot in left:
        paid += costs[offsets[slot] + picks[slot]]
    return float(utility[left[-1]] - paid)


@_compiled
def _none_wins_apart(
    offsets: Ints,
    samples: Floats,
    costs: Floats,
    utility: Floats,
    needed: float,
    low: float,
    high: float,
    payoff: float,
) -> bool:
    """Whether all completions that may beat a payoff, of so many as have a utility, have their rate between two."""
    high_trained, high_gained, low_trained, low_gained = 0.0, 0.0, 0.0, 0.0
    for i in range(len(utility)):
        high_gain, high_most, low_gain, low_most = 0.0, 0.0, 0.0, 0.0
        for j in range(offsets[i], offsets[i + 1]):
            if high * samples[j] - costs[j] > high_gain:
                high_gain, high_most = high * samples[j] - costs[j], samples[j]
            if low * samples[j] - costs[j] > low_gain:
                low_gain, low_most = low * samples[j] - costs[j], samples[j]
        high_trained, high_gained = high_trained + high_most, high_gained + high_gain
        low_trained, low_gained = low_trained + low_most, low_gained + low_gain
        if high_trained < needed * (1.0 + _SURE):
            worth, gained = utility[i] - high * needed, high_gained
        elif low_trained > needed * (1.0 - _SURE):
            worth, gained = utility[i] - low * needed, low_gained
        else:
            continue
        if worth + gained >= payoff - _SURE * (abs(worth) + gained):
            return False
    return True


@_compiled
def _most_before(offsets: Ints, samples: Floats, costs: Floats, utility: Floats, needed: float, rate: float) -> float:
    """Return the largest payoff, by the Lagrangian bound at a rate, of what ends before enough is trained at it.

    Curves are those of whole stretches of slots, utility that of a stretch's first slot.
    """
    trained, gained, most = 0.0, 0.0, -np.inf
    for i in range(len(utility)):
        gain, here = 0.0, 0.0
        for j in range(offsets[i], offsets[i + 1]):
            if rate * samples[j] - costs[j] > gain:
                gain, here = rate * samples[j] - costs[j], samples[j]
        part = min(1.0, (needed - trained) / here) if here > 0.0 else 1.0
        most = max(most, utility[i] - rate * needed + gained + part * gain)
        trained += here
        gained += gain
        if trained >= needed:
            break
    return most


@_compiled
def _last_segments(offsets: Ints, samples: Floats, costs: Floats, rate: float) -> float:
    """Return the most samples of the last segment of a slot's hull that is no dearer than a rate."""
    longest = 0.0
    kept = np.empty(len(samples), dtype=np.int64)
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        trained, spent, last = 0.0, 0.0, 0.0
        for at in range(_hull(samples[begin:end], costs[begin:end], kept)):
            j = begin + kept[at]
            if costs[j] - spent > rate * (samples[j] - trained):
                break
            last = samples[j] - trained
            trained, spent = samples[j], costs[j]
        longest = max(longest, last)
    return longest


def guess(parts: list[Curves], each: int, utility: Floats, needed: float, at_least: float) -> Ceiling:
    """Return a ceiling that is likely to leave out nothing of use, from the whole curves of a few slots.

    Parameters
    ----------
    parts : list of Curves
        Of single slots, in order.
    each : int
        How many slots each of them stands for.
    utility : (n,) float64
        Of a completion in the first of those.
    needed : float
        Samples to deliver.
    at_least : float
        Payoff that a plan must beat to be of interest.
    """
    offsets, samples, costs = _joined(parts)[:3]
    room = len(samples)
    taken = _Taken(np.empty(room), np.empty(room), np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64))
    count = len(parts)
    start = _nothing(float(at_least))
    reach, bounds = np.full(count, np.inf), np.empty(count)
    merged = _merge(offsets, each * samples, each * costs, utility, reach, 0, needed, taken, bounds, start)
    if merged.bound == -np.inf:
        return ALL
    # A plan is open by a part of the last segment that it takes.
    slack = _PART * merged.rate * _last_segments(offsets, samples, costs, merged.rate)
    high = merged.rate
    for _ in range(_DOUBLINGS):
        high *= _HIGHER
        # What has to end sooner at a higher rate must be far from winning.
        if _most_before(offsets, each * samples, each * costs, utility, needed, high) < merged.bound - slack:
            return Ceiling(merged.rate / _HIGHER, high, slack)
    return ALL


@_compiled
def _prospects(
    offsets: Ints, samples: Floats, costs: Floats, utility: Floats, bounds: Floats, payoff: float, rate: float
) -> Floats:
    """Return the best payoff of a state before each slot that has paid nothing and needs nothing, (slots + 1,).

    It is the utility of a completion and the most that each slot up to it gains where a sample is worth ``rate``. What
    a state has paid, and what it needs at that price, is to be taken off. Completions that cannot win do not count.
    """
    count = len(offsets) - 1
    found = np.empty(count + 1)
    found[count] = -np.inf
    for t in range(count - 1, -1, -1):
        gain = 0.0
        for j in range(offsets[t], offsets[t + 1]):
            gain = max(gain, rate * samples[j] - costs[j])
        found[t] = gain + max(utility[t] if bounds[t] > payoff else -np.inf, found[t + 1])
    return found


@_compiled
def _best_prospects(
    offsets: Ints,
    samples: Floats,
    costs: Floats,
    utility: Floats,
    bounds: Floats,
    payoff: float,
    needed: float,
    rate: float,
) -> tuple[Floats, float]:
    """Return prospects and the rate for which they are: the given one or, where that promises much, one near it.

    Any rate gives bounds. The one of the best completion can be loose for others, if several may win.
    """
    found = _prospects(offsets, samples, costs, utility, bounds, payoff, rate)
    if found[0] - rate * needed - payoff <= _LOOSE * (bounds.max() - payoff):
        return found, rate
    # The bound is convex in the rate.
    low, high = (1.0 - _NEARBY) * rate, (1.0 + _NEARBY) * rate
    best = rate
    for _ in range(_TRIES):
        left, right = low + (high - low) / 3.0, high - (high - low) / 3.0
        one = _prospects(offsets, samples, costs, utility, bounds, payoff, left)
        other = _prospects(offsets, samples, costs, utility, bounds, payoff, right)
        if one[0] - left * needed < found[0] - best * needed:
            found, best = one, left
        if other[0] - right * needed < found[0] - best * needed:
            found, best = other, right
        if one[0] - left * needed < other[0] - right * needed:
            high = right
        else:
            low = left
    return found, best


@_compiled
def _again(offsets: Ints, samples: Floats, costs: Floats) -> npt.NDArray[np.bool_]:
    """Return of each slot whether its curve is that of the slot before, (slots,)."""
    count = len(offsets) - 1
    found = np.zeros(count, dtype=np.bool_)
    for t in range(1, count):
        before, begin, end = offsets[t - 1], offsets[t], offsets[t + 1]
        if end - begin == begin - before:
            found[t] = True
            for j in range(end - begin):
                if samples[before + j] != samples[begin + j] or costs[before + j] != costs[begin + j]:
                    found[t] = False
                    break
    return found


@_compiled
def _search(
    offsets: Ints,
    samples: Floats,
    costs: Floats,
    utility: Floats,
    bounds: Floats,
    needed: float,
    grid: int,
    prospects: Floats,
    rate: float,
    payoff: float,
    picks: Ints,
) -> bool:
    """Run the program over all slots, and write the best plan that beats ``payoff``, if there is one.

    ``prospects`` are those at ``rate``.

    Where a slot is like the one before, a state that was offered the same a slot ago, and passed it by, gains nothing
    from taking it now. So along a run of such slots only new states go on.
    """
    size = needed / grid
    paid = np.full(grid, np.inf)
    delivered = np.zeros(grid)
    entry = np.full(grid, -1)
    paid[0] = 0.0
    # States may be anywhere up to this one.
    top = 0
    # How states came about: for each entry the one before, its slot, and the point of its curve.
    before, slots, indices = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    count = 0
    final = -1
    # The states before the slot.
    budgets = np.empty(grid)
    old_paid = np.empty(grid)
    old_delivered = np.empty(grid)
    old_entry = np.empty(grid, dtype=np.int64)
    most_points = (offsets[1:] - offsets[:-1]).max()
    useful, useful_strays = np.empty(most_points, dtype=np.int64), np.empty(most_points)
    useful_samples, useful_costs = np.empty(most_points), np.empty(most_points)
    again = _again(offsets, samples, costs)
    written = np.full(grid, -1)
    last_written = -1
    for t in range(len(offsets) - 1):
        if again[t] and last_written < t - 1:
            continue
        beyond = prospects[t + 1]
        ahead = max(utility[t] if bounds[t] > payoff else -np.inf, beyond)
        if ahead == -np.inf:
            break
        begin, end = offsets[t], offsets[t + 1]
        cheapest = 0.0
        for j in range(begin, end):
            cheapest = min(cheapest, costs[j] - rate * samples[j])
        states = 0
        most = -np.inf
        for g in range(top + 1):
            if paid[g] == np.inf:
                continue
            owed = paid[g] + rate * (needed - delivered[g]) + payoff
            if ahead - owed > cheapest and (written[g] == t - 1 or not again[t]):
                budgets[states] = ahead - owed
                old_paid[states], old_delivered[states], old_entry[states] = paid[g], delivered[g], entry[g]
                most = max(most, ahead - owed)
                states += 1
            # To pass the slot by.
            if beyond <= owed:
                paid[g] = np.inf
        choices = 0
        for j in range(begin, end):
            stray = costs[j] - rate * samples[j]
            if stray < most:
                useful[choices], useful_strays[choices] = j - begin, stray
                useful_samples[choices], useful_costs[choices] = samples[j], costs[j]
                choices += 1
        # One for each step of the grid, and one whenever the workload is done for less.
        room = min(states * choices, grid + states)
        if count + room > len(before):
            more = np.empty(len(before) + room, dtype=np.int64)
            before, slots = np.concatenate((before, more)), np.concatenate((slots, more))
            indices = np.concatenate((indices, more))
        start = count
        for i in range(states):
            for c in range(choices):
                cost = old_paid[i] + useful_costs[c]
                if utility[t] - cost <= payoff:
                    # Utility never rises. Not against utility - payoff: that may be a little more than what was paid.
                    break
                if useful_strays[c] >= budgets[i]:
                    continue
                total = old_delivered[i] + useful_samples[c]
                if total >= needed:
                    # Later choices cost more.
                    payoff = utility[t] - cost
                    final = count
                    before[count], slots[count], indices[count] = old_entry[i], t, useful[c]
                    count += 1
                    break
                target = min(int(total / size), grid - 1)
                if cost < paid[target] or (cost == paid[target] and total > delivered[target]):
                    paid[target] = cost
                    delivered[target] = total
                    written[target] = last_written = t
                    if entry[target] < start:
                        entry[target] = count
                        count += 1
                    at = entry[target]
                    before[at], slots[at], indices[at] = old_entry[i], t, useful[c]
                    top = max(top, target)
    at = final
    while at >= 0:
        picks[slots[at]] = indices[at]
        at = before[at]
    return final >= 0
