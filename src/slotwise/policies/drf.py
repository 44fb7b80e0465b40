"""Dominant resource fairness (Ghodsi et al., NSDI 2011) by progressive filling, anew in every slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numba
import numpy as np
import numpy.typing as npt

from slotwise.model.schedule import Placement
from slotwise.policies._base import Policy, State

__all__ = ["Drf"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Drf(Policy):
    """Each slot, one more worker, and the servers that go with it, to the job with the least dominant share.

    A dominant share is the largest, over resources, of a job's part of the whole cluster. Ties go to the job that
    arrived first. A job starts with its fewest workers at once (a gang with all of them) and takes no more than train
    what it has left in this slot. It grows on the machine that it grew on last, else on the machine with the most
    room for it.
    """

    name: ClassVar[str] = "drf"

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Fill the empty cluster from the least dominant share up."""
        jobs = state.active
        if not jobs:
            return {}
        asks = [state.requests[job.id].ask for job in jobs]
        caps = [_enough(ask.samples[1], state.remaining[job.id]) for ask, job in zip(asks, jobs, strict=True)]
        offsets = np.concatenate([[0], np.cumsum(caps)]).astype(np.int64)
        capacity = state.ledger.view.capacity
        workers, servers = _fill(
            capacity.copy(),
            capacity.sum(axis=0),
            np.array([ask.worker for ask in asks]),
            np.array([ask.server for ask in asks]),
            offsets,
            np.concatenate([ask.workers[:cap] for ask, cap in zip(asks, caps, strict=True)]),
            np.concatenate([ask.servers[:cap] for ask, cap in zip(asks, caps, strict=True)]),
        )
        placed = {}
        for job, w, s in zip(jobs, workers, servers, strict=True):
            used = np.flatnonzero(w + s)
            if len(used):
                placed[job.id] = Placement(tuple(used.tolist()), tuple(w[used].tolist()), tuple(s[used].tolist()))
        return placed


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
def _grow(free: Floats, demand: Floats, units: int, start: int, counts: Ints) -> int:
    """Put units on ``start``, then on the machines with the most room; return the last machine, -1 if they do not fit.

    On failure the caller restores ``free`` and ``counts``.
    """
    machine = start
    while units > 0:
        here = _room(free[machine], demand, units) if machine >= 0 else 0
        if here == 0:
            most = 0
            for m in range(len(free)):
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
def _fill(
    free: Floats,
    total: Floats,
    worker: Floats,
    server: Floats,
    offsets: Ints,
    workers: Ints,
    servers: Ints,
) -> tuple[Ints, Ints]:
    """Progressive filling: (jobs, M) workers and servers. ``offsets`` cuts ``workers`` and ``servers`` into jobs."""
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
        more_workers = workers[at] if fresh else workers[at] - workers[at - 1]
        more_servers = servers[at] if fresh else servers[at] - servers[at - 1]
        old_free = free.copy()
        old_workers, old_servers = worker_at[job].copy(), server_at[job].copy()
        machine = last[job]
        if more_workers > 0:
            machine = _grow(free, worker[job], more_workers, machine, worker_at[job])
        if machine >= 0 and more_servers > 0 and _grow(free, server[job], more_servers, machine, server_at[job]) < 0:
            machine = -1
        if machine < 0 and more_servers > 0:
            # The worker may have taken the only machine that holds the server: the server goes first then.
            free[:] = old_free
            worker_at[job] = old_workers
            server_at[job] = old_servers
            machine = _grow(free, server[job], more_servers, last[job], server_at[job])
            if machine >= 0 and more_workers > 0:
                machine = _grow(free, worker[job], more_workers, machine, worker_at[job])
        if machine < 0:
            free[:] = old_free
            worker_at[job] = old_workers
            server_at[job] = old_servers
            step[job] = offsets[job + 1]
            continue
        last[job] = machine
        step[job] += 1
        for r in range(len(total)):
            if total[r] > 0.0:
                used = (workers[at] * worker[job, r] + servers[at] * server[job, r]) / total[r]
                share[job] = max(share[job], used)
