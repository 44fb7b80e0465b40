"""Plain twins of the kernels: slow, obviously right, and without any of their shortcuts.

Every machine is listed (no grouping), amounts are Python integers, searches are enumerations.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.model.ledger import Ledger
from slotwise.optim.pricing import Prices
from slotwise.optim.slot import Ask

__all__ = [
    "Best",
    "Point",
    "Spot",
    "Swept",
    "across_brute_force",
    "across_convolved",
    "across_sweep",
    "best_over_schedules",
    "by_level",
    "curve",
    "domains",
    "inside",
    "least_costs",
    "level_of",
    "listing",
    "price",
    "program",
    "rounded",
    "rounded_picks",
    "sweeps",
    "trim",
]

Floats = npt.NDArray[np.float64]
INF = math.inf


def price(prices: Prices, slot: int, resource: int, used: int, capacity: int) -> float:
    """L (U / L)^(rho / C); U where there is no capacity. L is less in slots that are near, U is not."""
    ahead = slot - prices.slot
    relief = float(prices.relief[ahead]) if ahead < len(prices.relief) and prices.log_ratio[resource] > 0 else 0.0
    low = math.exp(float(prices.log_low[resource]) + relief)
    high = math.exp(float(prices.log_low[resource] + prices.log_ratio[resource]))
    return float(high if capacity == 0 else low * (high / low) ** (used / capacity))


@dataclass(frozen=True)
class Spot:
    """One machine of a slot: its index, the domains that it is in from its own up, A, B, and free grains."""

    machine: int
    domains: tuple[int, ...]
    worker_cost: float
    server_cost: float
    free: tuple[int, ...]
    worker: tuple[int, ...]
    server: tuple[int, ...]

    def holds(self, workers: int, servers: int) -> bool:
        """Whether so many fit together."""
        return all(
            a * workers + b * servers <= free for a, b, free in zip(self.worker, self.server, self.free, strict=True)
        )

    def most_workers(self, beside: int, cap: int) -> int:
        """Workers that fit beside so many servers, at most ``cap``; 0 where even the servers do not fit."""
        count = 0
        while count < cap and self.holds(count + 1, beside):
            count += 1
        return count

    def cost(self, workers: int, servers: int) -> float:
        """What they cost here."""
        return self.worker_cost * workers + self.server_cost * servers


def listing(ledger: Ledger, slot: int, ask: Ask, prices: Prices) -> list[Spot]:
    """All machines that are not lost."""
    worker, server = (tuple(int(x) for x in grains) for grains in (ask.worker, ask.server))
    spots = []
    for machine in sorted(int(m) for m in ledger.view.members):
        used = [int(x) for x in ledger.used(slot)[machine]]
        capacity = [int(x) for x in ledger.view.capacity[machine]]
        each = [price(prices, slot, r, used[r], capacity[r]) for r in range(len(used))]
        spots.append(
            Spot(
                machine,
                tuple(int(x) for x in ledger.cluster.domains[:, machine]),
                sum(p * float(a) for p, a in zip(each, ask.worker_amount, strict=True)),
                sum(p * float(b) for p, b in zip(each, ask.server_amount, strict=True)),
                tuple(c - u for c, u in zip(capacity, used, strict=True)),
                worker,
                server,
            )
        )
    return spots


def level_of(spots: list[Spot]) -> int:
    """Lowest level of which one domain holds all of these machines."""
    return next(level for level in range(len(spots[0].domains)) if len({spot.domains[level] for spot in spots}) == 1)


def domains(spots: list[Spot], level: int, ask: Ask) -> list[list[Spot]]:
    """Machines of each domain of a level that has any; those of inner domains one after another, the roomiest first."""

    def room(spot: Spot, inner: int) -> int:
        some = [s for s in spots if s.domains[inner] == spot.domains[inner]]
        return min(ask.most_workers + ask.most_servers, sum(s.most_workers(0, ask.most_workers) for s in some))

    def turn(spot: Spot) -> tuple[int, ...]:
        """Rows before racks."""
        key = [x for inner in reversed(range(1, level)) for x in (-room(spot, inner), spot.domains[inner])]
        return (*key, spot.machine)

    found = sorted({spot.domains[level] for spot in spots})
    return [sorted((s for s in spots if s.domains[level] == one), key=turn) for one in found]


def by_level(spots: list[Spot], ask: Ask, across: Callable[[list[Spot], Ask], list[float]]) -> list[list[float]]:
    """Least cost of each configuration in one domain of each level or of a lower one, given what finds it in one."""
    found = [inside(spots, ask)]
    top = len(ask.samples) - 1
    for level in range(1, top + 1):
        faster = ask.samples[level] > (ask.samples[level + 1] if level < top else 0.0)
        tried = [across(part, ask) for part in domains(spots, level, ask)] if faster.any() else []
        found.append([min(costs) for costs in zip(*tried, found[-1], strict=True)])
    return found


def inside(spots: list[Spot], ask: Ask) -> list[float]:
    """Least cost of each configuration on one machine."""
    return [
        min((spot.cost(w, s) for spot in spots if spot.holds(w, s)), default=INF)
        for w, s in zip(ask.workers.tolist(), ask.servers.tolist(), strict=True)
    ]


# ---------------------------------------------------------------------------------------------------------- sweeps


Layout = tuple[tuple[int, int, int], ...]
"""(machine, workers, servers) of each machine in use."""


@dataclass(frozen=True)
class Swept:
    """What one sweep came to: its cost, infinite where it failed, and its placement."""

    cost: float
    layout: Layout


def _swept(spots: list[Spot], workers: list[int], servers: list[int], *, failed: bool) -> Swept:
    if failed:
        return Swept(INF, ())
    chosen = list(zip(spots, workers, servers, strict=True))
    layout = tuple((spot.machine, w, s) for spot, w, s in chosen if w or s)
    return Swept(sum(spot.cost(w, s) for spot, w, s in chosen), layout)


def _workers_first(spots: list[Spot], workers: int, servers: int) -> Swept:
    w_at, s_at = [0] * len(spots), [0] * len(spots)
    for i in sorted(range(len(spots)), key=lambda i: (spots[i].worker_cost, i)):
        while sum(w_at) < workers and spots[i].holds(w_at[i] + 1, 0):
            w_at[i] += 1
    for i in sorted(range(len(spots)), key=lambda i: (spots[i].server_cost, i)):
        while sum(s_at) < servers and spots[i].holds(w_at[i], s_at[i] + 1):
            s_at[i] += 1
    return _swept(spots, w_at, s_at, failed=sum(w_at) < workers or sum(s_at) < servers)


def _servers_first(spots: list[Spot], workers: int, servers: int, x: float, cap: int) -> Swept:
    w_at, s_at = [0] * len(spots), [0] * len(spots)
    for _ in range(servers):
        best, where = INF, -1
        for i, spot in enumerate(spots):
            if not spot.holds(0, s_at[i] + 1):
                continue
            lost = spot.most_workers(s_at[i], cap) - spot.most_workers(s_at[i] + 1, cap)
            key = spot.server_cost + max(0.0, x - spot.worker_cost) * lost
            if key < best:
                best, where = key, i
        if where < 0:
            return Swept(INF, ())
        s_at[where] += 1
    for i in sorted(range(len(spots)), key=lambda i: (spots[i].worker_cost, i)):
        w_at[i] = min(workers - sum(w_at), spots[i].most_workers(s_at[i], cap))
    return _swept(spots, w_at, s_at, failed=sum(w_at) < workers)


FEW = 32
"""Machines of which none is left out."""


def _worths(spots: list[Spot], ask: Ask) -> list[float]:
    costs = [spot.worker_cost for spot in spots if spot.holds(1, 0)]
    if sum(spot.holds(1, 0) or (ask.most_servers > 0 and spot.holds(0, 1)) for spot in spots) > FEW:
        return _worths_of_many(spots, ask)
    if not costs:
        return [0.0]
    quartiles = np.quantile(np.array(costs), [0.25, 0.5, 0.75], method="inverted_cdf").tolist()
    return [0.0, *quartiles, 10.0 * max(costs)]


def _worths_of_many(spots: list[Spot], ask: Ask) -> list[float]:
    """The A at which half of the workers are placed, all, and ten times that at which servers had what they take."""
    taken = [math.ceil(s / w) for w, s in zip(ask.worker.tolist(), ask.server.tolist(), strict=True) if w > 0]
    needed = ask.most_workers + min(max(taken, default=0), ask.most_workers) * ask.most_servers
    cheapest = sorted((spot for spot in spots if spot.holds(1, 0)), key=lambda spot: spot.worker_cost)
    cheapest = cheapest[: ask.most_workers + ask.most_servers]
    most = [max(w for w in range(1, ask.most_workers + 1) if spot.holds(w, 0)) for spot in cheapest]
    held = np.cumsum([0, *most])[:-1]
    costs = np.array([spot.worker_cost for spot in cheapest])
    lasts = [
        costs[held < enough].max(initial=0.0) for enough in ((ask.most_workers + 1) // 2, ask.most_workers, needed)
    ]
    return sorted({lasts[0], lasts[1], 10.0 * lasts[2]})


def sweeps(spots: list[Spot], ask: Ask) -> list[list[Swept]]:
    """For each configuration: workers first, then servers first for each worth of a worker slot (section 6)."""
    cap = ask.most_workers
    found = []
    for w, s in zip(ask.workers.tolist(), ask.servers.tolist(), strict=True):
        tries = [_workers_first(spots, w, s)]
        if ask.most_servers > 0:
            tries += [_servers_first(spots, w, s, x, cap) for x in _worths(spots, ask)]
        found.append(tries)
    return found


def across_sweep(spots: list[Spot], ask: Ask) -> list[float]:
    """Pointwise minimum of the sweeps."""
    return [min(swept.cost for swept in tries) for tries in sweeps(spots, ask)]


# ----------------------------------------------------------------------------------------------------------- exact


def _pairs(spot: Spot, workers: int, servers: int) -> list[tuple[int, int]]:
    return [(w, s) for w in range(workers + 1) for s in range(servers + 1) if spot.holds(w, s)]


def across_brute_force(spots: list[Spot], ask: Ask) -> list[float]:
    """Least cost over every way to put workers and servers on machines."""
    least: dict[tuple[int, int], float] = {}
    for chosen in itertools.product(*(_pairs(spot, ask.most_workers, ask.most_servers) for spot in spots)):
        total = (sum(w for w, _ in chosen), sum(s for _, s in chosen))
        cost = sum(spot.cost(w, s) for spot, (w, s) in zip(spots, chosen, strict=True))
        least[total] = min(cost, least.get(total, INF))
    return [least.get(pair, INF) for pair in zip(ask.workers.tolist(), ask.servers.tolist(), strict=True)]


def across_convolved(spots: list[Spot], ask: Ask) -> list[float]:
    """Return the same machine by machine, for a few more machines than enumeration bears."""
    most = (ask.most_workers, ask.most_servers)
    least: dict[tuple[int, int], float] = {(0, 0): 0.0}
    for spot in spots:
        following: dict[tuple[int, int], float] = {}
        for (w, s), cost in least.items():
            for v, u in _pairs(spot, most[0] - w, most[1] - s):
                key = (w + v, s + u)
                following[key] = min(cost + spot.cost(v, u), following.get(key, INF))
        least = following
    return [least.get(pair, INF) for pair in zip(ask.workers.tolist(), ask.servers.tolist(), strict=True)]


# ----------------------------------------------------------------------------------------------------------- curve


@dataclass(frozen=True)
class Point:
    """A useful choice of a slot."""

    samples: float
    cost: float


def curve(ask: Ask, costs: Floats) -> list[Point]:
    """Choices that no other beats: none trains as much for less, or more for as much."""
    points = [Point(float(samples), float(cost)) for samples, cost in zip(ask.samples.flat, costs.flat, strict=True)]
    points = [p for p in points if p.cost < INF and p.samples > 0]
    useful = {
        p
        for p in points
        if not any(
            q.samples >= p.samples and q.cost <= p.cost and (q.samples > p.samples or q.cost < p.cost) for q in points
        )
    }
    return sorted(useful, key=lambda p: p.samples)


# --------------------------------------------------------------------------------------------------------- program


@dataclass(frozen=True)
class Best:
    """Best completion of the plain program; completion -1 where the workload is never reached."""

    payoff: float
    completion: int
    picks: tuple[tuple[int, int], ...]


def program(curves: list[list[Point]], needed: float, grid: int, utility: Floats) -> Best:
    """Theta over slots on a grid of carried sums: no pruning, no early stop, every completion looked at."""
    step = needed / grid
    # state -> (cost, samples really delivered, picks)
    states: dict[int, tuple[float, float, tuple[tuple[int, int], ...]]] = {0: (0.0, 0.0, ())}
    best = Best(-INF, -1, ())
    for slot, points in enumerate(curves):
        following = dict(states)
        for state in sorted(states):
            if state == grid:
                continue
            cost, delivered, picks = states[state]
            for index, point in enumerate(points):
                total = delivered + point.samples
                target = grid if total >= needed else min(int(total / step), grid - 1)
                found = (cost + point.cost, total, (*picks, (slot, index)))
                known = following.get(target)
                if known is None or found[0] < known[0] or (found[0] == known[0] and found[1] > known[1]):
                    following[target] = found
        states = following
        if grid in states and utility[slot] - states[grid][0] > best.payoff:
            best = Best(float(utility[slot]) - states[grid][0], slot, states[grid][2])
    return best


def _segments(curves: list[list[Point]]) -> list[tuple[float, int, int, float]]:
    """(rate, slot, index, samples) of the edges of each slot's lower convex hull with (0, 0), the cheapest first."""
    found = []
    for slot, points in enumerate(curves):
        corner, at = Point(0.0, 0.0), -1
        while at + 1 < len(points):
            ahead = range(at + 1, len(points))
            slopes = {j: (points[j].cost - corner.cost) / (points[j].samples - corner.samples) for j in ahead}
            # Of what is on one line the furthest.
            at = max(j for j in ahead if slopes[j] <= min(slopes.values()))
            found.append((slopes[at], slot, at, points[at].samples - corner.samples))
            corner = points[at]
    return sorted(found)


def rounded_picks(curves: list[list[Point]], needed: float) -> list[tuple[int, int]] | None:
    """The cheapest segments of all slots until they train the workload, the last one whole; None if all are not enough.

    These are (slot, index) of the furthest corner that is taken in each slot.
    """
    taken: dict[int, int] = {}
    total: list[float] = []
    for _, slot, index, samples in _segments(curves):
        if math.fsum(total) >= needed:
            break
        total.append(samples)
        taken[slot] = index
    return sorted(taken.items()) if math.fsum(total) >= needed * (1 - 1e-13) else None


def untrimmed(curves: list[list[Point]], needed: float, utility: Floats) -> tuple[float, list[tuple[int, int]] | None]:
    """The best completion of the rounded relaxation, by what it costs before it is trimmed."""
    best: float = -INF
    chosen = None
    for slot in range(len(curves)):
        picks = rounded_picks(curves[: slot + 1], needed)
        if picks is not None:
            payoff = float(utility[slot]) - math.fsum(curves[t][i].cost for t, i in picks)
            if payoff > best + 1e-12:
                best, chosen = payoff, picks
    return best, chosen


def rounded(curves: list[list[Point]], needed: float, utility: Floats) -> Best:
    """The same plan, trimmed."""
    _, chosen = untrimmed(curves, needed, utility)
    if chosen is None:
        return Best(-INF, -1, ())
    left = trim([(slot, curves[slot], index) for slot, index in chosen], needed)
    if sum(curves[slot][index].samples for slot, index in left) < needed:
        return Best(-INF, -1, ())
    payoff = float(utility[left[-1][0]]) - math.fsum(curves[slot][index].cost for slot, index in left)
    return Best(payoff, left[-1][0], tuple(left))


def trim(picks: list[tuple[int, list[Point], int]], needed: float) -> list[tuple[int, int]]:
    """Give back what is not needed, (slot, points, index) from the dearest slot on; return what is left."""
    taken = {slot: index for slot, _, index in picks}
    points_of = {slot: points for slot, points, _ in picks}

    def trained(skip: int) -> float:
        return sum(points_of[slot][index].samples for slot, index in taken.items() if slot != skip)

    for slot, points, index in sorted(picks, key=lambda pick: (-pick[1][pick[2]].cost, pick[0])):
        missing = needed - trained(slot)
        if missing <= 0:
            del taken[slot]
        else:
            enough = [i for i in range(index + 1) if points[i].samples >= missing]
            taken[slot] = min(enough, key=lambda i: points[i].cost, default=index)
    return sorted(taken.items())


# ----------------------------------------------------------------------------------------------- all the schedules


def _placements(spots: list[Spot], workers: int, servers: int) -> Iterator[tuple[tuple[int, int], ...]]:
    for chosen in itertools.product(*(_pairs(spot, workers, servers) for spot in spots)):
        if sum(w for w, _ in chosen) == workers and sum(s for _, s in chosen) == servers:
            yield chosen


def least_costs(spots: list[Spot], ask: Ask) -> dict[float, float]:
    """Samples of a slot -> least cost of a placement that trains exactly so many, over every placement."""
    least: dict[float, float] = {0.0: 0.0}
    for k, (workers, servers) in enumerate(zip(ask.workers.tolist(), ask.servers.tolist(), strict=True)):
        for chosen in _placements(spots, workers, servers):
            used = [spot for spot, (w, s) in zip(spots, chosen, strict=True) if w or s]
            samples = float(ask.samples[level_of(used), k])
            cost = sum(spot.cost(w, s) for spot, (w, s) in zip(spots, chosen, strict=True))
            least[samples] = min(cost, least.get(samples, INF))
    return least


def best_over_schedules(slots: list[dict[float, float]], needed: float, utility: Floats) -> float:
    """Largest utility minus cost over every schedule; -inf where none trains the workload."""
    best = -INF
    for chosen in itertools.product(*(slot.items() for slot in slots)):
        if math.fsum(samples for samples, _ in chosen) < needed:
            continue
        completion = max(t for t, (samples, _) in enumerate(chosen) if samples > 0)
        best = max(best, float(utility[completion]) - math.fsum(cost for _, cost in chosen))
    return best
