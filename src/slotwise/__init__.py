"""Online scheduling of distributed machine-learning training: who gets in, how large, where and until when."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slotwise.errors import InvalidCluster, InvalidInput, InvalidJob, InvalidTrace, SlotwiseError
    from slotwise.explanation import Explanation, explain
    from slotwise.model.cluster import Cluster, Machine
    from slotwise.model.job import Job
    from slotwise.model.schedule import Decision, Placement, Reason, Schedule
    from slotwise.model.speed import AllReduceSpeed, FittedAllReduce, FittedSpeed, PaperSpeed
    from slotwise.model.table import SpeedPoint, TableSpeed
    from slotwise.model.utility import Deadline, Linear, Sigmoid
    from slotwise.optim.bound import Bound, Relaxed, upper_bound
    from slotwise.optim.offline import Optimum, offline_optimum
    from slotwise.policies._base import CommitAtArrival, Policy, State
    from slotwise.policies._placing import pack
    from slotwise.quotation import Quote, Size, quote
    from slotwise.scheduler import Scheduler
    from slotwise.sim.compare import Comparison, compare
    from slotwise.sim.metrics import Run
    from slotwise.sim.simulator import simulate
    from slotwise.workloads._base import Workload
    from slotwise.workloads.synthetic import google, paper
    from slotwise.workloads.traces import read_cluster, read_trace

__all__ = [
    "AllReduceSpeed",
    "Bound",
    "Cluster",
    "CommitAtArrival",
    "Comparison",
    "Deadline",
    "Decision",
    "Explanation",
    "FittedAllReduce",
    "FittedSpeed",
    "InvalidCluster",
    "InvalidInput",
    "InvalidJob",
    "InvalidTrace",
    "Job",
    "Linear",
    "Machine",
    "Optimum",
    "PaperSpeed",
    "Placement",
    "Policy",
    "Quote",
    "Reason",
    "Relaxed",
    "Run",
    "Schedule",
    "Scheduler",
    "Sigmoid",
    "Size",
    "SlotwiseError",
    "SpeedPoint",
    "State",
    "TableSpeed",
    "Workload",
    "compare",
    "explain",
    "google",
    "offline_optimum",
    "pack",
    "paper",
    "quote",
    "read_cluster",
    "read_trace",
    "simulate",
    "upper_bound",
]

__version__ = "0.1.0"

_HOMES = {
    "errors": ("InvalidCluster", "InvalidInput", "InvalidJob", "InvalidTrace", "SlotwiseError"),
    "explanation": ("Explanation", "explain"),
    "model.cluster": ("Cluster", "Machine"),
    "model.job": ("Job",),
    "model.schedule": ("Decision", "Placement", "Reason", "Schedule"),
    "model.speed": ("AllReduceSpeed", "FittedAllReduce", "FittedSpeed", "PaperSpeed"),
    "model.table": ("SpeedPoint", "TableSpeed"),
    "model.utility": ("Deadline", "Linear", "Sigmoid"),
    "optim.bound": ("Bound", "Relaxed", "upper_bound"),
    "optim.offline": ("Optimum", "offline_optimum"),
    "policies._base": ("CommitAtArrival", "Policy", "State"),
    "policies._placing": ("pack",),
    "quotation": ("Quote", "Size", "quote"),
    "scheduler": ("Scheduler",),
    "sim.compare": ("Comparison", "compare"),
    "sim.metrics": ("Run",),
    "sim.simulator": ("simulate",),
    "workloads._base": ("Workload",),
    "workloads.synthetic": ("google", "paper"),
    "workloads.traces": ("read_cluster", "read_trace"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import slotwise`` itself costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module 'slotwise' has no attribute {name!r}")
    return getattr(importlib.import_module(f"slotwise.{_HOME[name]}"), name)
