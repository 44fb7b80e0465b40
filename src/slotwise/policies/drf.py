"""Dominant resource fairness (Ghodsi et al., NSDI 2011) by progressive filling, anew in every slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numba
import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Placement, Reason
from slotwise.policies._base import Policy, State

__all__ = ["Drf"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Drf(Policy):
    """Each slot, one more worker, and the servers that go with it, to the job with the least dominant share.

    A dominant share is the largest, over resources, of a job's part of the whole cluster. Ties go to the job that
    arrived first. A job starts with its fewest workers at once (a gang with all of them) and takes no more than train
    what it has left in this slot. It grows on the machine that it grew on last, else on the machine with the most
    room for it. One that must stay within a rack (or another domain) starts in the one with the most room, and stays.
    """

    name: ClassVar[str] = "drf"
    source: ClassVar[str] = "Ghodsi et al., Dominant Resource Fairness, NSDI 2011"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Fill the empty cluster from the least dominant share up."""
        jobs = state.active
        if not jobs:
            return {}
        requests = [state.requests[job.id] for job in jobs]
        asks = [request.ask for request in requests]
        speeds = [request.ask.samples[request.widest, request.steps] for request in requests]
        caps = [_enough(speed, state.remaining[job.id]) for speed, job in zip(speeds, jobs, strict=True)]
        steps_of = [request.steps[:cap] for request, cap in zip(requests, caps, strict=True)]
        offsets = np.concatenate([[0], np.cumsum(caps)]).astype(np.int64)
        capacity = state.ledger.view.capacity
        workers, servers = _fill(
            capacity.copy(),
            capacity.sum(axis=0),
            np.array([ask.worker for ask in asks]),
            np.array([ask.server for ask in asks]),
            offsets,
            np.concatenate([ask.workers[steps] for ask, steps in zip(asks, steps_of, strict=True)]),
            np.concatenate([ask.servers[steps] for ask, steps in zip(asks, steps_of, strict=True)]),
            state.cluster.domains,
            np.array([request.widest for request in requests]),
        )
        placed = {}
        for job, w, s in zip(jobs, workers, servers, strict=True):
            used = np.flatnonzero(w + s)
            if len(used):
                placed[job.id] = Placement.on(used, w[used], s[used])
        return placed

    def waiting(self, job: Job, state: State, placed: Mapping[str, Placement]) -> tuple[Reason, str]:
        """Say that its fewest workers found no room when its turn came."""
        ask = state.requests[job.id].ask
        first = state.requests[job.id].steps[0]
        needs = f"its fewest workers ({ask.workers[first]}, with {ask.servers[first]} servers) found no room"
        return Reason.LOST_SHARE, f"{needs} beside the shares of {len(placed)} jobs"


def _enough(samples: Floats, remaining: float) -> int:
    """Return how many configurations are of use, spread over machines.

    Up to the first that trains what is left, or to the fastest: all-reduce may slow down as workers are added.
    """
    enough = np.flatnonzero(samples >= remaining)
    return int(enough[0] if len(enough) else np.argmax(samples)) + 1


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _room(free: Floats, demand: Floats, most: int) -> int:
    room = most
    for r in range(len(demand)):
        if demand[r] > 0.0:
            room = min(room, int(np.floor(free[r] / demand[r])))
    return max(room, 0)


@_compiled
def _grow(free: Floats, demand: Floats, units: int, start: int, counts: Ints, domain: Ints, within: int) -> int:
    """Put units on ``start``, then on the machines with the most room; return the last machine, -1 if they do not fit.

    Only machines of the domain ``within`` are looked at. On failure the caller restores ``free`` and ``counts``.
    """
    machine = start
    while units > 0:
        here = _room(free[machine], demand, units) if machine >= 0 else 0
        if here == 0:
            most = 0
            for m in range(len(free)):
                if domain[m] != within:
                    continue
                room = _room(free[m], demand, 1 << 40)
                if room > most:
                    most = room
                    machine = m
            if most == 0:
                return -1
            here = min(most, units)
        counts[machine] += here
        for r in range(len(demand)):
            free[machine, r] -= here * demand[r]
        units -= here
    return machine


@_compiled
def _add(
    free: Floats,
    worker: Floats,
    server: Floats,
    more: tuple[int, int],
    start: int,
    worker_at: Ints,
    server_at: Ints,
    domain: Ints,
    within: int,
) -> int:
    """Put workers and servers into a domain; return the last machine, or -1 and leave everything as it was."""
    workers, servers = more
    old_free, old_workers, old_servers = free.copy(), worker_at.copy(), server_at.copy()
    machine = start
    if workers > 0:
        machine = _grow(free, worker, workers, machine, worker_at, domain, within)
    if machine >= 0 and servers > 0 and _grow(free, server, servers, machine, server_at, domain, within) < 0:
        machine = -1
    if machine < 0 and servers > 0:
        # The worker may have taken the only machine that holds the server: the server goes first then.
        free[:] = old_free
        worker_at[:] = old_workers
        server_at[:] = old_servers
        machine = _grow(free, server, servers, start, server_at, domain, within)
        if machine >= 0 and workers > 0:
            machine = _grow(free, worker, workers, machine, worker_at, domain, within)
    if machine < 0:
        free[:] = old_free
        worker_at[:] = old_workers
        server_at[:] = old_servers
    return machine


@_compiled
def _roomiest_first(free: Floats, worker: Floats, domain: Ints) -> Ints:
    """Return the domains, those with the most room for workers first."""
    room = np.zeros(domain[-1] + 1, dtype=np.int64)
    if len(room) == 1:
        return room
    for m in range(len(free)):
        room[domain[m]] += _room(free[m], worker, 1 << 40)
    return np.argsort(-room, kind="mergesort")


@_compiled
def _fill(
    free: Floats,
    total: Floats,
    worker: Floats,
    server: Floats,
    offsets: Ints,
    workers: Ints,
    servers: Ints,
    domains: Ints,
    widest: Ints,
) -> tuple[Ints, Ints]:
    """Progressive filling: (jobs, M) workers and servers. ``offsets`` cuts ``workers`` and ``servers`` into jobs.

    No job leaves the domain, at its ``widest`` level, in which it starts.
    """
    jobs, machines = len(offsets) - 1, len(free)
    worker_at = np.zeros((jobs, machines), dtype=np.int64)
    server_at = np.zeros((jobs, machines), dtype=np.int64)
    step = offsets[:-1].copy()
    share = np.zeros(jobs)
    last = np.full(jobs, -1, dtype=np.int64)
    while True:
        job = -1
        for j in range(jobs):
            if step[j] < offsets[j + 1] and (job < 0 or share[j] < share[job]):
                job = j
        if job < 0:
            return worker_at, server_at
        at = step[job]
        fresh = at == offsets[job]
        more = workers[at], servers[at]
        domain = domains[widest[job]]
        if fresh:
            tried = _roomiest_first(free, worker[job], domain)
        else:
            more = workers[at] - workers[at - 1], servers[at] - servers[at - 1]
            tried = domain[last[job] : last[job] + 1]
        machine = -1
        for within in tried:
            machine = _add(
                free, worker[job], server[job], more, last[job], worker_at[job], server_at[job], domain, within
            )
            if machine >= 0:
                break
        if machine < 0:
            step[job] = offsets[job + 1]
            continue
        last[job] = machine
        step[job] += 1
        for r in range(len(total)):
            if total[r] > 0.0:
                used = (workers[at] * worker[job, r] + servers[at] * server[job, r]) / total[r]
                share[job] = max(share[job], used)
