"""What a job might run with on an empty cluster, for bounds: nothing is ruled out that might be placed after all."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.speed import Configurations
from slotwise.units import grains

__all__ = ["Possible", "possible"]

Floats = npt.NDArray[np.float64]


class Possible(NamedTuple):
    """What a job might run with, wherever an empty cluster might hold it."""

    configurations: Configurations
    """Without restarts: planning charges them in every slot, but they are lost only where a placement changes."""
    allowed: npt.NDArray[np.bool_]
    """(L, K) which ones may run at a level: some machine holds them, or the totals of some domain do not rule them
    out."""
    worker: Floats
    """(R,) grains of one worker."""
    server: Floats
    """(R,) grains of one server."""


def possible(job: Job, cluster: Cluster, slot_seconds: float) -> Possible | None:
    """Return what a job might run with on a cluster; None if it needs a resource that there is none of.

    A configuration is ruled out by what must hold of any placement, never because a search found no room for it.
    """
    full = replace(job, restart_seconds=0.0).configurations(cluster.locality, slot_seconds)
    roles = [job.worker_demand, job.server_demand if full.servers.any() else {}]
    if any(amount > 0 and resource not in cluster.resources for role in roles for resource, amount in role.items()):
        return None
    worker, server = (grains(cluster.vector(role), cluster.grain) for role in roles)
    used = np.outer(full.workers, worker) + np.outer(full.servers, server)
    allowed = np.zeros(full.samples.shape, dtype=np.bool_)
    rooms = [_room(cluster.grains, role) for role in (worker, server)]
    for level, domain in enumerate(cluster.domains):
        begins = np.flatnonzero(np.diff(domain, prepend=-1))
        # What one domain has: of each resource, and of places for one role when nothing else is there.
        has = [np.add.reduceat(array, begins, axis=0) for array in (cluster.grains, *rooms)]
        for row in np.unique(np.column_stack(has), axis=0):
            held = (used <= row[:-2]).all(axis=1) & (full.workers <= row[-2]) & (full.servers <= row[-1])
            allowed[level] |= held & (full.samples[level] > 0)
    return Possible(full, allowed, worker, server)


def _room(capacity: Floats, demand: Floats) -> Floats:
    """Return how many of one role fit on each machine when nothing else is there."""
    needs = demand > 0
    if not needs.any():
        return np.full(len(capacity), math.inf)
    return np.asarray(np.floor(capacity[:, needs] / demand[needs]).min(axis=1))
