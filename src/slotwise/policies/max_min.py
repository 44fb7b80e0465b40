"""Max-min fairness in time (Gavel; Narayanan et al., OSDI 2020).

======================  ==============================================================
the paper               here
======================  ==============================================================
X_m                     x_j, a gang's share of time, ``max_min_shares``
throughput(m, X)        T_j x_j: speeds do not depend on the type of a machine
throughput(m, X_equal)  T_j x_equal, the same x_equal for all: both T_j and it cancel
scale_factor_m          σ_j, the gang's dominant share of the cluster
w_m                     1
======================  ==============================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from slotwise.model.job import Job
from slotwise.policies._base import State
from slotwise.policies._rounds import TimeShares
from slotwise.policies._shares import Gangs, max_min_shares

__all__ = ["MaxMin"]


class MaxMin(TimeShares):
    """Gangs take turns so that the least normalised throughput of all jobs is as large as can be (Gavel).

    The linear program is

        max min_j σ_j x_j,    0 <= x_j <= 1,    the shares x fit the cluster

    Gavel's objective is throughput(m, X) / throughput(m, X_equal) times scale_factor_m / w_m. The quotient is the share
    of time, up to a factor that is the same for all jobs. Its scale factor counts GPUs, so that a gang of ten has a
    tenth of the time of a single worker; ours is the dominant share σ_j, which is the same in parts of the cluster
    where each worker has one unit of the scarcest resource, and is defined for workers without a GPU.

    Jobs are gangs of the size that ``fifo`` gives them, as Gavel's are: a program in which sizes vary would be another
    policy. Capacities are those of all machines that hold the same workers and servers (Gavel's types of machines),
    in each resource. That a job must stay within a rack is left to placement. What the program leaves over is used by
    the turns (see ``TimeShares``): whatever fits runs.
    """

    name: ClassVar[str] = "max-min"
    source: ClassVar[str] = (
        "Narayanan et al., Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads, OSDI 2020"
    )

    def shares(self, jobs: Sequence[Job], gangs: Gangs, state: State) -> npt.NDArray[np.float64]:
        """Solve the program."""
        return max_min_shares(gangs, np.ones(len(jobs)))
