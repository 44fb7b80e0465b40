"""Workers and servers on two disjoint sets of machines, for planners that know one set only.

Each resource stands twice in the split cluster, once for workers and once for servers. A machine has those of its own
side and none of the other's; a worker demands those of the workers' side, a server those of the servers'. So neither
fits on a machine of the other side, each side has prices of its own, which its own use moves, and everything that plans
at such prices (solvers, floors, calibrations) works as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidInput
from slotwise.model.cluster import Cluster
from slotwise.model.job import LARGEST_WORKERS, Job
from slotwise.model.ledger import Ledger
from slotwise.optim.pricing import Bid, Prices
from slotwise.optim.request import Request, Surveyor
from slotwise.units import GRAIN, grains

__all__ = ["Split", "server_machines"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_NOTHING = -700.0
"""Logarithm of a price that changes no sum."""


class Split:
    """A cluster of which some machines hold only servers and the others only workers.

    Locality is not considered: a job is planned at the speed of the widest domain in which it may run, wherever it
    lands. It is no slower there.

    Parameters
    ----------
    cluster : Cluster
        All machines.
    slot_seconds : float
        Length of a slot.
    servers : (n,) int64
        Machines for servers.

    Attributes
    ----------
    cluster : Cluster
        The same machines with 2 R resources, those for workers first. Amounts are in millions of grains of the
        resource, so that what fits here fits there.
    """

    def __init__(self, cluster: Cluster, slot_seconds: float, servers: Ints) -> None:
        self._whole = cluster
        self._is_server = np.zeros(len(cluster), dtype=np.bool_)
        self._is_server[servers] = True
        self._slot_seconds = slot_seconds
        sides = (("worker", ~self._is_server), ("server", self._is_server))
        names = tuple(f"{side} {resource}" for side, _ in sides for resource in cluster.resources)
        amounts = np.hstack([cluster.grains * GRAIN * own[:, None] for _, own in sides])
        self.cluster = Cluster(cluster.names, names, amounts, cluster.bandwidth, cluster.levels, cluster.domains)
        # Servers that demand nothing have their side, too: of this each takes one, and it is never used up.
        marked = np.column_stack([amounts, self._is_server * float(LARGEST_WORKERS)])
        self._marked = Cluster(
            cluster.names, (*names, "server"), marked, cluster.bandwidth, cluster.levels, cluster.domains
        )
        self._surveyors: dict[int, Surveyor] = {}
        self._ledger: Ledger | None = None

    @property
    def servers(self) -> int:
        """How many machines are for servers."""
        return int(self._is_server.sum())

    @property
    def workers(self) -> int:
        """How many machines are for workers."""
        return len(self._whole) - self.servers

    def survey(self, job: Job, end: int) -> Request:
        """Return the request of a job that must finish before slot ``end``, as ``Surveyor.survey`` does."""
        levels = self._whole.levels
        widest = len(levels) - 1 if job.domain is None else levels.index(job.domain)
        if widest not in self._surveyors:
            alike = dataclasses.replace(self._marked, bandwidth=(self._whole.bandwidth[widest],) * len(levels))
            self._surveyors[widest] = Surveyor(alike, self._slot_seconds)
        demands = [
            dict(zip(self.cluster.resources[at : at + len(amounts)], (amounts * GRAIN).tolist(), strict=True))
            for at, amounts in (
                (0, self._grains(job.worker_demand)),
                (len(self._whole.resources), self._grains(job.server_demand)),
            )
        ]
        renamed = dataclasses.replace(job, worker_demand=demands[0], server_demand={**demands[1], "server": 1.0})
        return self._surveyors[widest].survey(renamed, end)

    def _grains(self, demand: Mapping[str, float]) -> Floats:
        return grains(self._whole.vector(demand), self._whole.grain)

    def bid(self, request: Request) -> Bid:
        """Return what a calibration over ``cluster`` needs to know of a surveyed job."""
        bid, resources = request.bid, len(self.cluster.resources)
        return bid._replace(share_time=bid.share_time[:resources], least=bid.least[:resources])

    def prices(self, prices: Prices) -> Prices:
        """Return prices found by a calibration over ``cluster`` as requests and ledgers of the split need them."""
        return dataclasses.replace(
            prices, log_low=np.append(prices.log_low, _NOTHING), log_ratio=np.append(prices.log_ratio, 0.0)
        )

    def without_mark(self, prices: Prices) -> Prices:
        """Return what ``prices`` made back as prices over ``cluster``."""
        return dataclasses.replace(prices, log_low=prices.log_low[:-1], log_ratio=prices.log_ratio[:-1])

    def apart(self, grains: Floats) -> Floats:
        """Return grains of each machine and resource, (M, R), as those of its workers' and its servers', (M, 2 R)."""
        return np.hstack([grains * ~self._is_server[:, None], grains * self._is_server[:, None]])

    def ledger(self, ledger: Ledger) -> Ledger:
        """Return what is committed on the cluster as a ledger of the split, to plan on; it is only lent."""
        own = self._ledger
        if own is None:
            own = self._ledger = Ledger(self._marked, ledger.window, rolling=ledger.rolling)
        own.origin = ledger.origin
        lost, known = (~view.capacity.any(axis=1) for view in (ledger.view, own.view))
        for machine in np.flatnonzero(lost & ~known).tolist():
            own.lose(machine)
        for machine in np.flatnonzero(~lost & known).tolist():
            own.join(machine)
        used, resources = ledger.view.used, len(self._whole.resources)
        np.multiply(used, ~self._is_server[:, None], out=own.view.used[:, :, :resources])
        np.multiply(used, self._is_server[:, None], out=own.view.used[:, :, resources : 2 * resources])
        for name in ("touched", "counts", "flags"):
            getattr(own.view, name)[:] = getattr(ledger.view, name)
        own.recount()
        return own


def server_machines(cluster: Cluster, share: float = 0.2) -> Ints:
    """Return which machines are for servers, rising.

    Those without GPUs are, where there are such and others. Otherwise a share of all that have anything, at least one
    where there are two and never all; spread evenly over kinds and racks, so that each has some. The default of a fifth
    is near what jobs with as many servers as the paper's take of both, and the best of 0.1 ... 0.5 there.

    Parameters
    ----------
    cluster : Cluster
        All machines.
    share : float
        In (0, 1).
    """
    if not 0 < share < 1:
        raise InvalidInput(f"server share must be > 0 and < 1, got {share!r}")
    able: npt.NDArray[np.bool_] = np.asarray(cluster.capacity.any(axis=1))
    if "gpu" in cluster.resources:
        gpus = cluster.capacity[:, cluster.resources.index("gpu")]
        without = able & (gpus == 0)
        if gpus.any() and without.any():
            return np.flatnonzero(without)
    # Machines of one class side by side.
    order = np.argsort(cluster.classes, kind="stable")
    order = order[able[order]]
    count = max(0, min(len(order) - 1, max(1, round(len(order) * share))))
    # The last one of each of so many stretches.
    ends = np.arange(1, count + 1) * len(order) // max(1, count) - 1
    return np.sort(order[ends])
