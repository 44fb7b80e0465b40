"""Finding machines for policies that place slot by slot."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numba
import numpy as np
import numpy.typing as npt

from slotwise.errors import Overcommitted
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.model.ledger import Ledger, LedgerView
from slotwise.model.schedule import Placement
from slotwise.optim.pricing import Prices
from slotwise.optim.request import Request
from slotwise.optim.slot import Ask, one, sweep_costs, sweep_fit
from slotwise.words import counted

__all__ = ["Free", "fixed_choice", "fixed_choices", "named", "pack"]


_MOST_NAMED = 3


class Free:
    """What is left of the cluster in one slot.

    Jobs go where they share one machine if any machine holds all of them, the fullest such; otherwise to as full
    machines as possible (prices that fall with use, and the same sweep as the planner's), in one domain of the lowest
    level that makes them faster.

    Parameters
    ----------
    ledger : Ledger
        Of one slot; it changes with what is placed.
    requests : mapping of str to Request
        The jobs that may be placed.
    """

    def __init__(self, ledger: Ledger, requests: Mapping[str, Request]) -> None:
        self._requests = requests
        self._ledger = ledger
        self._prices = _packing_prices(ledger.cluster)

    @classmethod
    def empty(cls, cluster: Cluster, capacity: npt.NDArray[np.float64], requests: Mapping[str, Request]) -> Free:
        """Return machines on which nothing is; those are lost whose ``capacity``, (M, R) grains, is not their own."""
        ledger = Ledger(cluster, 1)
        for machine in np.flatnonzero((capacity != cluster.grains).any(axis=1)):
            ledger.lose(int(machine))
        return cls(ledger, requests)

    def fixed_choice(self, job: Job) -> int:
        """Return the configuration that a job of fixed size runs with (see the function of that name)."""
        return fixed_choice(job, self._requests[job.id])

    def hold(self, job_id: str, placement: Placement) -> bool:
        """Take what a placement needs; false, and nothing taken, if it is not there."""
        request = self._requests[job_id]
        try:
            self._ledger.commit([0], [placement], request.ask.worker, request.ask.server)
        except Overcommitted:
            return False
        return True

    def release(self, job_id: str, placement: Placement) -> None:
        """Give back what a placement has taken."""
        ask = self._requests[job_id].ask
        self._ledger.release([0], [placement], ask.worker, ask.server)

    def find(self, job_id: str, choice: int) -> Placement | None:
        """Return where a job's configuration (index into its ``ask``) fits, taking nothing; None if nowhere."""
        ask = self._requests[job_id].ask
        if not _may_fit(self._ledger.view, ask, choice):
            return None
        placement = Placement.on(*sweep_fit(self._ledger.view, 0, one(ask, choice), self._prices))
        return placement if placement.machines else None

    def fit(self, job_id: str, choice: int) -> Placement | None:
        """Place a job's configuration (index into its ``ask``) and take what it needs; None if it does not fit."""
        placement = self.find(job_id, choice)
        return placement if placement is not None and self.hold(job_id, placement) else None

    def fit_in_order(self, choices: Iterable[tuple[str, int]]) -> dict[str, Placement]:
        """Place configurations of jobs, (job id, choice), one after another; what does not fit is left out."""
        fits = ((job_id, self.fit(job_id, choice)) for job_id, choice in choices)
        return {job_id: placement for job_id, placement in fits if placement is not None}

    def fit_largest(self, job_id: str, choices: npt.NDArray[np.int64]) -> Placement | None:
        """Place the last of a job's configurations, of ``choices`` in order, that fits; None if none does."""
        costs = sweep_costs(self._ledger.view, 0, self._requests[job_id].ask, self._prices).min(axis=0)
        for choice in choices[np.isfinite(costs[choices])][::-1].tolist():
            placement = self.fit(job_id, choice)
            if placement is not None:
                return placement
        return None


@numba.njit(cache=True, error_model="numpy")
def _may_fit(view: LedgerView, ask: Ask, choice: int) -> bool:
    """Whether there is room for the workers of a configuration without its servers, and the other way round.

    Where there is not, no look at costs is needed to see that it does not fit: most jobs that wait are of this kind.
    """
    for demand, units in ((ask.worker, ask.workers[choice]), (ask.server, ask.servers[choice])):
        left = units
        for machine in range(len(view.capacity)):
            if left <= 0:
                break
            here = left
            for r in range(len(demand)):
                if demand[r] > 0.0:
                    free = view.capacity[machine, r] - view.used[0, machine, r]
                    here = min(here, int(np.floor(free / demand[r])))
            left -= max(here, 0)
        if left > 0:
            return False
    return True


def _packing_prices(cluster: Cluster) -> Prices:
    """Return prices that fall with use, so that the fullest machine is the cheapest."""
    resources = len(cluster.resources)
    return Prices(-np.log(cluster.mean_capacity * resources), np.full(resources, -1.0))


def fixed_choice(job: Job, request: Request) -> int:
    """Return the configuration (index) of a job whose size does not change while it runs.

    It is the worker count that its owner asked for, or else the fewest workers that would meet its target alone on the
    cluster. A count that could not finish by the horizon would prove nothing: then it is the fewest that can. Speeds
    are those of the widest level at which it may run, since where it will land is not known, unless only a narrower one
    is fast enough.
    """
    sizes = request.sizes
    workers = request.ask.workers[sizes]
    samples = np.where(request.held, request.ask.samples, 0.0)[:, sizes]
    with np.errstate(divide="ignore"):
        slots = np.ceil(request.needed / samples[: request.widest + 1])
    last = float(len(request.utility))
    if job.requested_workers is not None:
        asked = min(int(np.searchsorted(workers, job.requested_workers)), len(sizes) - 1)
        if slots[:, asked].min() <= last:
            return int(sizes[asked])
    else:
        in_time = np.flatnonzero(slots[-1] <= min(job.utility.target + 1.0, last))
        if len(in_time):
            return int(sizes[in_time[0]])
    for at_level in slots[::-1]:
        enough = np.flatnonzero(at_level <= last)
        if len(enough):
            return int(sizes[enough[0]])
    return int(sizes[np.argmin(slots.min(axis=0))])


def fixed_choices(jobs: Iterable[Job], requests: Mapping[str, Request], known: Mapping[str, int]) -> dict[str, int]:
    """Return the fixed configuration of each job; of those that are ``known`` it is not looked for again."""
    return {job.id: known[job.id] if job.id in known else fixed_choice(job, requests[job.id]) for job in jobs}


def named(placed: Mapping[str, Placement]) -> str:
    """Return who runs as text, the first few by name."""
    if not placed:
        return "what is lost; nobody runs"
    some = ", ".join(repr(name) for name in itertools.islice(placed, _MOST_NAMED))
    more = f" and {counted(len(placed) - _MOST_NAMED, 'other')}" if len(placed) > _MOST_NAMED else ""
    return f"the {'job that runs' if len(placed) == 1 else f'{len(placed)} jobs that run'}: {some}{more}"


def pack(queue: Iterable[Job], free: Free) -> dict[str, Placement]:
    """Place jobs in the order given, each with its fixed worker count; who does not fit is left out.

    Parameters
    ----------
    queue : iterable of Job
        Most important first.
    free : Free
        ``state.free``, or ``state.rest``; what is placed is taken from it.

    Returns
    -------
    dict of str to Placement
        By job id.
    """
    return free.fit_in_order((job.id, free.fixed_choice(job)) for job in queue)
