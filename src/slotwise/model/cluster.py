"""The machines, and how fast they talk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidCluster
from slotwise.units import LARGEST_AMOUNT, grain_of, grains, quantity

__all__ = ["DEFAULT_BANDWIDTH", "Cluster", "Machine"]

DEFAULT_BANDWIDTH = (6250.0, 625.0)
"""MB/s inside a machine and between machines, the paper's (50 and 5 Gbit/s)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: its name and what it has of each resource (>= 0)."""

    name: str
    resources: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Machines with capacities, in two levels of locality: one machine, the whole cluster.

    Attributes
    ----------
    names : tuple of str
        Machine names, distinct, in index order.
    resources : tuple of str
        Resource names, in index order.
    capacity : (M, R) float64
        What each machine has, >= 0, in the resource's unit (GiB for memory and storage).
    bandwidth : tuple of float
        MB/s of a pair inside a machine, and between machines; never rising.
    grains : (M, R) float64
        ``capacity`` in whole grains (see ``slotwise.units.grain_of``): what can be committed.
    classes : (M,) int64
        Machines of one class have equal capacities; untouched ones are interchangeable.
    """

    names: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: npt.NDArray[np.float64]
    bandwidth: tuple[float, float] = DEFAULT_BANDWIDTH
    grains: npt.NDArray[np.float64] = None  # type: ignore[assignment]  # derived below
    classes: npt.NDArray[np.int64] = None  # type: ignore[assignment]  # derived below

    def __post_init__(self) -> None:
        capacity = np.array(self.capacity, dtype=np.float64)
        if not self.names:
            raise InvalidCluster("a cluster must have at least 1 machine, got 0")
        if not self.resources:
            raise InvalidCluster("a cluster must have at least 1 resource, got 0")
        if capacity.shape != (len(self.names), len(self.resources)):
            raise InvalidCluster(f"capacity must have shape (machines, resources), got {capacity.shape}")
        if len(set(self.names)) != len(self.names):
            twice = next(name for i, name in enumerate(self.names) if name in self.names[:i])
            raise InvalidCluster(f"machine names must be distinct, got {twice!r} twice")
        bad = ~((capacity >= 0) & (capacity <= LARGEST_AMOUNT))
        if bad.any():
            m, r = np.argwhere(bad)[0]
            raise InvalidCluster(
                f"machine {self.names[m]!r}: {self.resources[r]} must be in 0 ... {LARGEST_AMOUNT:g}, "
                f"got {capacity[m, r]:g}"
            )
        if not all(math.isfinite(b) and b > 0 for b in self.bandwidth):
            raise InvalidCluster(f"bandwidth must be > 0 MB/s, got {self.bandwidth}")
        if self.bandwidth[1] > self.bandwidth[0]:
            raise InvalidCluster(
                f"bandwidth inside a machine must be >= bandwidth between machines ({self.bandwidth[1]:g} MB/s), "
                f"got {self.bandwidth[0]:g}"
            )
        counted = grains(capacity, self.grain)
        classes = np.unique(counted, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        for array in (capacity, counted, classes):
            array.setflags(write=False)
        object.__setattr__(self, "capacity", capacity)
        object.__setattr__(self, "grains", counted)
        object.__setattr__(self, "classes", classes)

    def __len__(self) -> int:
        """Return M, how many machines there are."""
        return len(self.names)

    @classmethod
    def of(cls, machines: Iterable[Machine], bandwidth: tuple[float, float] = DEFAULT_BANDWIDTH) -> Cluster:
        """Build a cluster from machines; a resource that a machine does not name is 0 there."""
        listed = list(machines)
        resources = tuple(dict.fromkeys(name for machine in listed for name in machine.resources))
        amounts = [[m.resources.get(r, 0.0) for r in resources] for m in listed]
        capacity = np.array(amounts, dtype=np.float64).reshape(len(listed), len(resources))
        return cls(tuple(m.name for m in listed), resources, capacity, bandwidth)

    @classmethod
    def uniform(
        cls, machines: int, *, bandwidth: tuple[float, float] = DEFAULT_BANDWIDTH, **resources: float | str
    ) -> Cluster:
        """Build a cluster of equal machines.

        Parameters
        ----------
        machines : int
            How many, >= 1.
        bandwidth : tuple of float
            MB/s inside a machine and between machines.
        **resources : float or str
            What each has: ``gpu=8, cpu=64, memory="512Gi"``.

        Examples
        --------
        >>> len(Cluster.uniform(machines=50, gpu=8, cpu=64, memory="512Gi"))
        50
        """
        if machines < 1:
            raise InvalidCluster(f"machines must be >= 1, got {machines}")
        amounts = {name: quantity(value, name) for name, value in resources.items()}
        return cls.of((Machine(f"m{i:0{len(str(machines - 1))}d}", amounts) for i in range(machines)), bandwidth)

    @property
    def grain(self) -> npt.NDArray[np.float64]:
        """Grain of each resource, in its own unit: (R,)."""
        return np.array([grain_of(resource) for resource in self.resources])

    @property
    def mean_capacity(self) -> npt.NDArray[np.float64]:
        """What the mean machine has of each resource, (R,) > 0; 1 where no machine has any, so that it can divide."""
        mean = self.capacity.mean(axis=0)
        return np.where(mean > 0, mean, 1.0)

    def share(self, fraction: float) -> Cluster:
        """Return a part of the machines, evenly over the classes.

        Parameters
        ----------
        fraction : float
            In (0, 1]; of each class the largest-remainder share is kept, at least 1 machine in all.
        """
        if not 0 < fraction <= 1:
            raise InvalidCluster(f"cluster share must be > 0 and <= 1, got {fraction!r}")
        counts = np.bincount(self.classes)
        total = max(1, round(len(self) * fraction))
        exact = counts * (total / len(self))
        kept = np.minimum(np.floor(exact + 1e-9).astype(np.int64), counts)
        by_remainder = np.lexsort((np.arange(len(counts)), -(exact - kept)))
        kept[by_remainder[: max(0, total - int(kept.sum()))]] += 1
        chosen = np.sort(np.concatenate([np.flatnonzero(self.classes == c)[:k] for c, k in enumerate(kept)]))
        return Cluster(tuple(self.names[i] for i in chosen), self.resources, self.capacity[chosen], self.bandwidth)

    def vector(self, demand: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Return a demand in this cluster's resource order; resources that the cluster lacks are left out."""
        return np.array([demand.get(resource, 0.0) for resource in self.resources], dtype=np.float64)
