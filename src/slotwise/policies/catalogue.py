"""The policies by name."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slotwise.errors import InvalidInput, SlotwiseError
from slotwise.model.cluster import Cluster
from slotwise.model.job import Job
from slotwise.optim.planner import Planner
from slotwise.optim.pricing import calibration
from slotwise.optim.request import Request, Surveyor
from slotwise.optim.solver import solver
from slotwise.optim.split import Split, server_machines
from slotwise.policies._base import Policy
from slotwise.policies.dorm import Dorm
from slotwise.policies.drf import Drf
from slotwise.policies.fifo import Fifo
from slotwise.policies.fifo_backfill import FifoBackfill
from slotwise.policies.finish_time_fair import FinishTimeFair
from slotwise.policies.las import Las
from slotwise.policies.max_min import MaxMin
from slotwise.policies.oasis import Oasis
from slotwise.policies.optimus import Optimus
from slotwise.policies.pdors import PdOrs
from slotwise.policies.srtf import Srtf
from slotwise.words import hint

__all__ = ["COMMITTING", "NAMES", "POLICIES", "blaming", "make", "source_of"]

_ALL: tuple[type[Policy], ...] = (
    PdOrs, Oasis, Fifo, FifoBackfill, Drf, Dorm, Srtf, Las, Optimus, MaxMin, FinishTimeFair,
)  # fmt: skip

POLICIES: Mapping[str, type[Policy]] = {policy.name: policy for policy in _ALL}
"""Every policy that is known by its name."""

NAMES = tuple(POLICIES)
"""Their names."""

COMMITTING = frozenset({"pdors", "oasis"})
"""Those that take prices and a solver."""


def make(
    name: str,
    cluster: Cluster,
    jobs: Sequence[Job],
    *,
    slot_seconds: float,
    horizon: int,
    prices: str = "learnt",
    slot_solver: str = "sweep",
    rounding: Mapping[str, Any] | None = None,
    grid: int = 500,
    server_share: float = 0.2,
    seed: int = 0,
) -> Policy:
    """Return a new policy.

    Parameters
    ----------
    name : str
        One of ``NAMES``, or ``package.module:Class`` for one of your own, which is made without arguments.
    cluster : Cluster
        The machines.
    jobs : sequence of Job
        Looked at with ``prices="literal"`` only, which is the one that needs to know them beforehand.
    slot_seconds : float
        Length of a slot.
    horizon : int
        Slots of the run.
    prices : str
        ``learnt``, ``learnt=X``, ``literal`` or ``scale=X``.
    slot_solver : str
        ``sweep``, ``exact`` or ``reference``.
    rounding : mapping, optional
        ``delta``, ``gain``, ``attempts`` and ``fallback`` of the reference solver, see
        ``slotwise.optim.relaxation.Reference``.
    grid : int
        Least number of workload steps of the program over slots, >= 1.
    server_share : float
        Of ``oasis``: share of the machines that hold servers, in (0, 1), where the cluster has none without GPUs.
    seed : int
        Of the reference solver's draws, >= 0.

    Raises
    ------
    InvalidInput
        If a name is unknown or a number out of its bounds.
    """
    # Looked at even where a policy uses neither, so that a mistake never passes unnoticed.
    calibration(prices, cluster, [], horizon)
    machines = server_machines(cluster, server_share)
    planner = Planner(solver(slot_solver, seed=seed, **(rounding or {})), grid)
    if name in COMMITTING:
        surveyor = Surveyor(cluster, slot_seconds)
        able = _able(surveyor, jobs, horizon) if prices == "literal" else {}
        if name == "pdors":
            bids = [request.bid for request in able.values()]
            return PdOrs(planner, calibration(prices, cluster, bids, horizon))
        split = Split(cluster, slot_seconds, machines)
        able = _able(split, [job for job in jobs if job.id in able], horizon)
        bids = [split.bid(request) for request in able.values()]
        return Oasis(split, planner, calibration(prices, split.cluster, bids, horizon))
    if name in POLICIES:
        return POLICIES[name]()
    if ":" in name:
        return _own(name)
    raise _unknown(name)


def _unknown(name: str) -> InvalidInput:
    return InvalidInput(
        f"policy must be one of {', '.join(NAMES)} or package.module:Class, got {name!r}{hint(name, NAMES)}"
    )


def source_of(name: str) -> str:
    """Return a digest of the file that a policy of one's own is in, '' for one of ours: other source, other runs."""
    if name in POLICIES:
        return ""
    if ":" not in name:
        raise _unknown(name)
    module = sys.modules[type(_own(name)).__module__]
    where = getattr(module, "__file__", None)
    return hashlib.sha256(Path(where).read_bytes()).hexdigest()[:16] if where is not None else ""


def _able(surveyor: Surveyor | Split, jobs: Sequence[Job], horizon: int) -> dict[str, Request]:
    """Return the requests of the jobs that can finish."""
    surveyed = (surveyor.survey(job, horizon) for job in jobs)
    return {request.id: request for request in surveyed if request.reason is None}


@contextmanager
def blaming(name: str) -> Iterator[None]:
    """Turn what a policy of one's own raises into one line that says where; our own policies' faults are ours."""
    try:
        yield
    except SlotwiseError:
        raise
    except Exception as error:
        if name in POLICIES:
            raise
        module = sys.modules.get(name.partition(":")[0])
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == getattr(module, "__file__", "")]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        what = f"{type(error).__name__}: {error}{where}"
        raise SlotwiseError(f"policy {name!r} fails: {what}; slotwise.testing.check_policy tells more") from error


def _own(name: str) -> Policy:
    """Import and make a policy that is not ours; modules are also looked for in the working directory."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a module does when it is imported
        hint = "modules are looked for in the working directory too"
        raise InvalidInput(f"policy {name!r} must name a class that can be imported: {error} ({hint})") from None
    finally:
        if here in sys.path:
            sys.path.remove(here)
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise InvalidInput(f"policy {name!r} must be a subclass of slotwise.Policy, got {found!r}")
    try:
        return found()
    except Exception as error:  # whatever its constructor does
        what = f"{type(error).__name__}: {error}"
        raise InvalidInput(f"policy {name!r} must be made without arguments and errors: {what}") from None
