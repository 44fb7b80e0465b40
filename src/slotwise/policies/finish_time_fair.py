"""Finish-time fairness (Themis; Mahajan et al., NSDI 2020) as Gavel solves it (Narayanan et al., OSDI 2020).

===========================  =========================================================
the papers                   here
===========================  =========================================================
ρ = T_shared / T_ideal       ``finish_time_shares``
t_m                          slots since the job arrived
num_steps_m                  ``state.remaining``
throughput(m, X)             T_j x_j, T_j the samples of a slot at its fixed size
throughput(m, X_isolated)    T_j min(1, 1 / (n σ_j)) with n active jobs
t_m_isolated                 what it has trained, at the isolated speed of then
===========================  =========================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.policies._base import State
from slotwise.policies._rounds import TimeShares
from slotwise.policies._shares import Gangs, finish_time_shares

__all__ = ["FinishTimeFair"]


class FinishTimeFair(TimeShares):
    """Gangs take turns so that the worst finish time, as a multiple of that on an equal part, is least (Themis).

    The program, quasi-linear and solved as a few linear ones, is

        min max_j ρ_j,    ρ_j = (t_j + N_j / (T_j x_j)) / D_j,    0 <= x_j <= 1,    the shares x fit the cluster

    with t_j the slots since arrival, N_j the samples left, T_j those of a slot in which the gang runs (on an empty
    cluster) and D_j the slots that the whole job takes on one n-th of the cluster. There a gang of dominant share σ_j
    runs min(1, 1 / (n σ_j)) of the time. n changes: D_j is the sum of what was trained between two programs, at the
    isolated speed of the time, and of what is left at today's.

    Gangs, capacities and turns are those of ``max-min``.
    """

    name: ClassVar[str] = "finish-time-fair"
    source: ClassVar[str] = (
        "Mahajan et al., Themis: Fair and Efficient GPU Cluster Scheduling, NSDI 2020; solved as in Narayanan et al., "
        "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI 2020"
    )

    def __init__(self) -> None:
        super().__init__()
        # At the last program: samples left, isolated samples a slot, slots that what was trained takes isolated.
        self._before: dict[str, tuple[float, float, float]] = {}

    def shares(self, jobs: Sequence[Job], gangs: Gangs, state: State) -> npt.NDArray[np.float64]:
        """Solve the program."""
        left = np.array([state.remaining[job.id] for job in jobs])
        speeds = np.array([self._speed(job.id, state) for job in jobs])
        isolated = speeds * np.minimum(1.0, 1.0 / (len(jobs) * gangs.dominant))
        passed = np.zeros(len(jobs))
        for j, job in enumerate(jobs):
            if job.id in self._before:
                left_before, speed, slots = self._before[job.id]
                passed[j] = slots + max(0.0, left_before - left[j]) / speed
        now = zip(left.tolist(), isolated.tolist(), passed.tolist(), strict=True)
        self._before = {job.id: known for job, known in zip(jobs, now, strict=True)}
        elapsed = np.array([state.slot - job.arrival for job in jobs], dtype=np.float64)
        return finish_time_shares(gangs, left / speeds, elapsed, passed + left / isolated)

    def _speed(self, job_id: str, state: State) -> float:
        """Return the samples of a slot at the job's fixed size, where it runs fastest on an empty cluster."""
        request, choice = state.requests[job_id], self._choices[job_id]
        return float(request.ask.samples[request.held[:, choice], choice].max())
