"""Least attained service: Tiresias' discretised 2D-LAS (Gu et al., NSDI 2019)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from slotwise.errors import InvalidInput
from slotwise.model.job import Job
from slotwise.model.schedule import Placement
from slotwise.policies._base import State
from slotwise.policies._preempting import Preempting
from slotwise.words import amount

__all__ = ["Las"]

_THRESHOLD = 3250.0
"""GPU-seconds: the first limit of Tiresias' own simulator."""


class Las(Preempting):
    """Jobs that have had the fewest GPU-seconds run first, in two queues, and take the place of others.

    A job is in the first queue until what it has had (its attained service: GPUs of all its workers and servers x
    time; workers x time where it uses no GPU) reaches the threshold, then in the second. The first queue goes before
    the second; within each, jobs go in order of arrival. Nobody is ever moved up again: Tiresias' promotion of
    jobs that wait for long (its PROMOTEKNOB) is left out. A job has a fixed worker count, that of ``fifo``.

    Parameters
    ----------
    threshold : float, optional
        GPU-seconds, > 0. By default what all GPUs of the cluster come to in a slot (all machines, if it has none), and
        at least 3,250, the limit of Tiresias' own simulator: about a minute of its testbed's 60 GPUs.
    """

    name: ClassVar[str] = "las"
    source: ClassVar[str] = (
        "Gu et al., Tiresias: A GPU Cluster Manager for Distributed Deep Learning, NSDI 2019 (discretised 2D-LAS)"
    )

    def __init__(self, threshold: float | None = None) -> None:
        if threshold is not None and not threshold > 0:
            raise InvalidInput(f"threshold must be > 0 GPU-seconds, got {threshold!r}")
        super().__init__()
        self._given = threshold
        self._attained: dict[str, float] = {}
        self._slot = 0

    def place(self, state: State, rng: np.random.Generator) -> Mapping[str, Placement]:
        """Note what jobs have had since the last slot, then go through them by falling priority."""
        seconds = (state.slot - self._slot) * state.slot_seconds
        self._slot = state.slot
        self._attained = {
            job.id: self._attained.get(job.id, 0.0) + seconds * _gpus(job, state.running.get(job.id))
            for job in state.active
        }
        return super().place(state, rng)

    def ranked(self, state: State) -> Sequence[Job]:
        """Return the active jobs, the first queue before the second."""
        threshold = self._threshold(state)
        return sorted(state.active, key=lambda job: self._attained[job.id] >= threshold)

    def _threshold(self, state: State) -> float:
        if self._given is not None:
            return self._given
        cluster = state.cluster
        gpus = cluster.capacity[:, cluster.resources.index("gpu")].sum() if "gpu" in cluster.resources else 0.0
        return max(_THRESHOLD, (float(gpus) or len(cluster)) * state.slot_seconds)

    def standing(self, job: Job, state: State) -> str:
        """Say which queue it is in, and why."""
        attained, threshold = self._attained[job.id], self._threshold(state)
        queue = "second" if attained >= threshold else "first"
        return f"in the {queue} of two queues with {amount(attained, 6)} GPU-seconds (threshold {amount(threshold, 6)})"


def _gpus(job: Job, placement: Placement | None) -> float:
    """Return the GPUs that a job runs on; its workers if it uses none."""
    if placement is None:
        return 0.0
    workers, servers = placement.total_workers, placement.total_servers
    gpus = workers * job.worker_demand.get("gpu", 0.0) + servers * job.server_demand.get("gpu", 0.0)
    return gpus or float(workers)
