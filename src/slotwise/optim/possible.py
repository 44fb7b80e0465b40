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
    inside: npt.NDArray[np.bool_]
    """(K,) which ones some machine holds."""
    across: npt.NDArray[np.bool_]
    """(K,) which ones the totals of all machines do not rule out."""
    worker: Floats
    """(R,) grains of one worker."""
    server: Floats
    """(R,) grains of one server."""


def possible(job: Job, cluster: Cluster, slot_seconds: float) -> Possible | None:
    """Return what a job might run with on a cluster; None if it needs a resource that there is none of.

    A configuration is ruled out by what must hold of any placement, never because a search found no room for it.
    """
    full = replace(job, restart_seconds=0.0).configurations(cluster.bandwidth, slot_seconds)
    roles = [job.worker_demand, job.server_demand if full.servers.any() else {}]
    if any(amount > 0 and resource not in cluster.resources for role in roles for resource, amount in role.items()):
        return None
    worker, server = (grains(cluster.vector(role), cluster.grain) for role in roles)
    used = np.outer(full.workers, worker) + np.outer(full.servers, server)
    inside = np.zeros(len(full), dtype=np.bool_)
    for kind in np.unique(cluster.grains, axis=0):
        inside |= (used <= kind).all(axis=1)
    across = (used <= cluster.grains.sum(axis=0)).all(axis=1)
    across &= (full.workers <= _room(cluster.grains, worker)) & (full.servers <= _room(cluster.grains, server))
    return Possible(full, inside, across, worker, server)


def _room(capacity: Floats, demand: Floats) -> float:
    """Return how many of one role fit on all machines when nothing else is there."""
    needs = demand > 0
    if not needs.any():
        return math.inf
    return float(np.floor(capacity[:, needs] / demand[needs]).min(axis=1).sum())
