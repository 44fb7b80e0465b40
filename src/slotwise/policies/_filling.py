"""Filling the empty cluster step by step: which job grows next is the policy's, where it grows is the same for all."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.model.schedule import Placement
from slotwise.optim.request import Request
from slotwise.policies._base import State
from slotwise.words import counted

__all__ = ["Steps", "fill", "no_room"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What each of some jobs may grow to, from its fewest workers on, in arrays; the steps of one job after another.

    A job takes no more than train what it has left in this slot, spread over machines.

    Attributes
    ----------
    jobs : sequence of Job
        In order of arrival.
    widest : (J,) int64
        Highest level of locality at which each may run: no job leaves the domain of that level in which it starts.
    offsets : (J + 1,) int64
        The steps of the i-th job are ``offsets[i] ... offsets[i + 1] - 1``.
    workers, servers : (n,) int64
        What it has in all after each step.
    samples : (n,) float64
        What it then trains in a slot at its widest level of locality.
    shares : (n,) float64
        Its dominant share then: the largest, over resources, of its part of the whole cluster.
    more : (n,) float64
        Dominant share of what the step adds.
    """

    jobs: Sequence[Job]
    widest: Ints
    offsets: Ints
    workers: Ints
    servers: Ints
    samples: Floats
    shares: Floats
    more: Floats

    @classmethod
    def of(cls, state: State) -> Steps:
        """Return the steps of all active jobs, at least one."""
        jobs = state.active
        requests = [state.requests[job.id] for job in jobs]
        asks = [request.ask for request in requests]
        widest = [request.widest for request in requests]
        speeds = [request.ask.samples[level, request.steps] for request, level in zip(requests, widest, strict=True)]
        caps = [_enough(speed, state.remaining[job.id]) for speed, job in zip(speeds, jobs, strict=True)]
        steps = [request.steps[:cap] for request, cap in zip(requests, caps, strict=True)]
        offsets = np.concatenate([[0], np.cumsum(caps)]).astype(np.int64)
        workers = np.concatenate([ask.workers[chosen] for ask, chosen in zip(asks, steps, strict=True)])
        servers = np.concatenate([ask.servers[chosen] for ask, chosen in zip(asks, steps, strict=True)])
        worker, server = np.array([ask.worker for ask in asks]), np.array([ask.server for ask in asks])
        shares, more = _shares(offsets, workers, servers, worker, server, state.ledger.view.capacity.sum(axis=0))
        samples = np.concatenate([speed[:cap] for speed, cap in zip(speeds, caps, strict=True)])
        return cls(jobs, np.array(widest), offsets, workers, servers, samples, shares, more)


def _enough(samples: Floats, remaining: float) -> int:
    """Return how many configurations are of use, spread over machines.

    Up to the first that trains what is left, or to the fastest: all-reduce may slow down as workers are added.
    """
    enough = np.flatnonzero(samples >= remaining)
    return int(enough[0] if len(enough) else np.argmax(samples)) + 1


def no_room(request: Request) -> str:
    """Say that a job found no room for its first step."""
    ask, first = request.ask, request.steps[0]
    return f"its fewest workers ({ask.workers[first]}, with {counted(ask.servers[first], 'server')}) found no room"


def fill(state: State, steps: Steps, keys: Floats) -> dict[str, Placement]:
    """Take the step with the least key of all that come next, until none fits.

    A job that has no room for its next step takes no further ones. It grows on the machine that it grew on last, else
    on the machine with the most room for it. One that must stay within a rack (or another domain) starts in the one
    with the most room, and stays.

    Parameters
    ----------
    state : State
        The cluster, which is filled from empty.
    steps : Steps
        Of all active jobs.
    keys : (n,) float64
        Of the steps; of equal ones that of the first job is taken. Steps of +inf, and those behind them, are not.

    Returns
    -------
    dict of str to Placement
        By job id; jobs without room for their first step are left out.
    """
    requests = [state.requests[job.id] for job in steps.jobs]
    workers, servers = _fill(
        state.ledger.view.capacity.copy(),
        np.array([request.ask.worker for request in requests]),
        np.array([request.ask.server for request in requests]),
        steps.offsets,
        steps.workers,
        steps.servers,
        keys,
        state.cluster.domains,
        steps.widest,
    )
    placed = {}
    for job, w, s in zip(steps.jobs, workers, servers, strict=True):
        used = np.flatnonzero(w + s)
        if len(used):
            placed[job.id] = Placement.on(used, w[used], s[used])
    return placed


def _compiled(function: Any) -> Any:
    return numba.njit(cache=True, error_model="numpy")(function)


@_compiled
def _shares(
    offsets: Ints, workers: Ints, servers: Ints, worker: Floats, server: Floats, total: Floats
) -> tuple[Floats, Floats]:
    """Return the dominant share after each step, and that of what the step adds."""
    shares, more = np.zeros(len(workers)), np.zeros(len(workers))
    for job in range(len(offsets) - 1):
        w, s = 0, 0
        for at in range(offsets[job], offsets[job + 1]):
            for r in range(len(total)):
                if total[r] > 0.0:
                    used = workers[at] * worker[job, r] + servers[at] * server[job, r]
                    added = (workers[at] - w) * worker[job, r] + (servers[at] - s) * server[job, r]
                    shares[at] = max(shares[at], used / total[r])
                    more[at] = max(more[at], added / total[r])
            w, s = workers[at], servers[at]
    return shares, more


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
                room = _room(free[m], demand, np.int64(1 << 40))
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
def _restore(
    free: Floats, worker_at: Ints, server_at: Ints, old_free: Floats, old_workers: Ints, old_servers: Ints
) -> None:
    """Write back what was there before."""
    for machine in range(len(free)):
        worker_at[machine], server_at[machine] = old_workers[machine], old_servers[machine]
        for r in range(free.shape[1]):
            free[machine, r] = old_free[machine, r]


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
    if start >= 0 and _room(free[start], worker, workers) >= workers:
        left = free[start] - workers * worker
        if _room(left, server, servers) >= servers:
            # All of it where it grew last: the usual case.
            for r in range(len(server)):
                free[start, r] = left[r] - servers * server[r]
            worker_at[start] += workers
            server_at[start] += servers
            return start
    old_free, old_workers, old_servers = free.copy(), worker_at.copy(), server_at.copy()
    machine = start
    if workers > 0:
        machine = _grow(free, worker, workers, machine, worker_at, domain, within)
    if machine >= 0 and servers > 0 and _grow(free, server, servers, machine, server_at, domain, within) < 0:
        machine = -1
    if machine < 0 and servers > 0:
        # The worker may have taken the only machine that holds the server: the server goes first then.
        _restore(free, worker_at, server_at, old_free, old_workers, old_servers)
        machine = _grow(free, server, servers, start, server_at, domain, within)
        if machine >= 0 and workers > 0:
            machine = _grow(free, worker, workers, machine, worker_at, domain, within)
    if machine < 0:
        _restore(free, worker_at, server_at, old_free, old_workers, old_servers)
    return machine


@_compiled
def _roomiest_first(free: Floats, worker: Floats, domain: Ints) -> Ints:
    """Return the domains, those with the most room for workers first."""
    room = np.zeros(domain[-1] + 1, dtype=np.int64)
    if len(room) == 1:
        return room
    for m in range(len(free)):
        room[domain[m]] += _room(free[m], worker, np.int64(1 << 40))
    return np.argsort(-room, kind="mergesort")


@_compiled
def _fill(
    free: Floats,
    worker: Floats,
    server: Floats,
    offsets: Ints,
    workers: Ints,
    servers: Ints,
    keys: Floats,
    domains: Ints,
    widest: Ints,
) -> tuple[Ints, Ints]:
    """Return (jobs, M) workers and servers; see ``Steps``."""
    jobs, machines = len(offsets) - 1, len(free)
    worker_at = np.zeros((jobs, machines), dtype=np.int64)
    server_at = np.zeros((jobs, machines), dtype=np.int64)
    step = offsets[:-1].copy()
    last = np.full(jobs, -1, dtype=np.int64)
    # The next step of each job that may still grow.
    waiting = [(keys[offsets[job]], job) for job in range(jobs)]
    heapq.heapify(waiting)
    while len(waiting) > 0 and waiting[0][0] < np.inf:
        _, job = heapq.heappop(waiting)
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
            continue
        last[job] = machine
        step[job] += 1
        if step[job] < offsets[job + 1]:
            heapq.heappush(waiting, (keys[step[job]], job))
    return worker_at, server_at
