"""Where a job runs: in one slot, in all slots, and what was decided on it."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Decision", "Placement", "Reason", "Schedule"]


@dataclass(frozen=True, slots=True)
class Placement:
    """Workers and servers of one job on machines in one slot.

    Attributes
    ----------
    machines : tuple of int
        Machine indices, rising, each with at least one worker or server.
    workers, servers : tuple of int
        Counts on each of those machines, >= 0.
    """

    machines: tuple[int, ...]
    workers: tuple[int, ...]
    servers: tuple[int, ...]

    @classmethod
    def of(cls, counts: Mapping[int, tuple[int, int]]) -> Placement:
        """Build from {machine: (workers, servers)}; machines with neither are left out."""
        used = sorted(machine for machine, (w, s) in counts.items() if w or s)
        return cls(tuple(used), tuple(counts[m][0] for m in used), tuple(counts[m][1] for m in used))

    @classmethod
    def on(
        cls, machines: npt.NDArray[np.int64], workers: npt.NDArray[np.int64], servers: npt.NDArray[np.int64]
    ) -> Placement:
        """Build from arrays of equal length, machines rising."""
        return cls(tuple(machines.tolist()), tuple(workers.tolist()), tuple(servers.tolist()))

    @property
    def total_workers(self) -> int:
        """All workers (the paper's W)."""
        return sum(self.workers)

    @property
    def total_servers(self) -> int:
        """All servers (the paper's S)."""
        return sum(self.servers)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job's whole plan.

    Attributes
    ----------
    slots : tuple of int
        Active slots, rising.
    placements : tuple of Placement
        One for each active slot.
    samples : tuple of float
        Samples trained in each active slot, > 0.
    """

    slots: tuple[int, ...]
    placements: tuple[Placement, ...]
    samples: tuple[float, ...]

    @property
    def completion(self) -> int:
        """Last active slot: the promise."""
        return self.slots[-1]

    def at(self, slot: int) -> Placement | None:
        """Return the placement of a slot, or None where the job pauses."""
        for active, placement in zip(self.slots, self.placements, strict=True):
            if active == slot:
                return placement
        return None


class Reason(enum.StrEnum):
    """Why a job was turned away, or why one that is in does not run."""

    NEVER_FITS = "never fits"
    """No machine, or not the whole cluster, holds its smallest configuration."""
    HORIZON_ENDS = "horizon ends"
    """Alone on the cluster it could not train its workload by the horizon."""
    NO_TIME_LEFT = "no time left"
    """Its utility is zero at the earliest slot in which it could finish."""
    PRICED_OUT = "priced out"
    """At every completion slot the cheapest plan costs at least what the job is worth."""
    MACHINE_LOST = "machine lost"
    """It was admitted, a machine of its plan went away, and no other plan is left."""
    WAITING = "waiting behind a job"
    """It is in, and pauses because jobs come before it that leave no room for it."""
    LOST_SHARE = "lost fairness share"
    """It is in, and pauses because its share is given to others for fairness."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer to one arrival.

    Attributes
    ----------
    admitted : bool
        Whether the job is in.
    schedule : Schedule, optional
        The committed plan; None for policies that place slot by slot, and for rejected jobs.
    utility, cost : float
        Of the plan; both 0 where there is none.
    reason : Reason, optional
        Why it was turned away.
    detail : str
        The same for a person, with numbers.
    """

    admitted: bool
    schedule: Schedule | None = None
    utility: float = 0.0
    cost: float = 0.0
    reason: Reason | None = None
    detail: str = ""

    @property
    def payoff(self) -> float:
        """Utility minus cost."""
        return self.utility - self.cost
