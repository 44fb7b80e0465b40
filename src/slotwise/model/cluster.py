"""The machines, and how fast they talk."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from slotwise.errors import InvalidCluster
from slotwise.units import LARGEST_AMOUNT, grain_of, grains, quantity

__all__ = ["DEFAULT_BANDWIDTH", "MOST_LEVELS", "TWO_LEVELS", "Cluster", "Machine"]

Ints = npt.NDArray[np.int64]

DEFAULT_BANDWIDTH = (6250.0, 625.0)
"""MB/s inside a machine and between machines, the paper's (50 and 5 Gbit/s)."""

TWO_LEVELS = ("machine", "cluster")
"""The paper's locality levels."""

MOST_LEVELS = 6
"""Locality levels of a cluster at most, those of the machine and of the whole cluster included."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: its name, what it has of each resource (>= 0), and where it stands.

    Attributes
    ----------
    name : str
        Unique in its cluster.
    resources : mapping of str to float
        Amounts in the resource's unit.
    domains : mapping of str to str
        Name of the rack (or whatever else lies between a machine and the cluster) that holds it, by level:
        ``{"rack": "r1"}``. A machine without one stands alone.
    """

    name: str
    resources: Mapping[str, float]
    domains: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Machines with capacities, in a tree of locality domains: machine, perhaps racks, cluster.

    Attributes
    ----------
    names : tuple of str
        Machine names, distinct, in index order.
    resources : tuple of str
        Resource names, in index order.
    capacity : (M, R) float64
        What each machine has, >= 0, in the resource's unit (GiB for memory and storage).
    bandwidth : tuple of float
        MB/s of a pair at each locality level, from inside a machine to between any two; never rising.
    levels : tuple of str
        Names of the locality levels, as many: the first is ``"machine"``, the last ``"cluster"``.
    domains : (L, M) int64
        At each level the domain that each machine belongs to, counted from 0: its own index in row 0, 0 in the last
        row. Machines of one domain are neighbours, and domains of one level never share one of a lower level.
    grains : (M, R) float64
        ``capacity`` in whole grains (see ``slotwise.units.grain_of``): what can be committed.
    kinds : (M,) int64
        Machines of one kind have equal capacities.
    classes : (M,) int64
        Machines of one class have equal capacities and are in the same domain at every level but the lowest: untouched
        ones are interchangeable.
    """

    names: tuple[str, ...]
    resources: tuple[str, ...]
    capacity: npt.NDArray[np.float64]
    bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH
    levels: tuple[str, ...] = TWO_LEVELS
    domains: Ints = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    grains: npt.NDArray[np.float64] = None  # type: ignore[assignment]  # derived below
    kinds: Ints = None  # type: ignore[assignment]  # derived below
    classes: Ints = None  # type: ignore[assignment]  # derived below

    def __post_init__(self) -> None:
        capacity = np.array(self.capacity, dtype=np.float64, order="C")
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
        _check_levels(self.levels, self.bandwidth)
        domains = self._laid_out()
        counted = grains(capacity, self.grain)
        kinds = np.unique(counted, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
        # What lies within one domain of the second level lies within one at all levels above.
        together = np.stack([kinds, domains[1]])
        classes = np.unique(together, axis=1, return_inverse=True)[1].reshape(-1).astype(np.int64)
        for array in (capacity, domains, counted, kinds, classes):
            array.setflags(write=False)
        object.__setattr__(self, "capacity", capacity)
        object.__setattr__(self, "domains", domains)
        object.__setattr__(self, "grains", counted)
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "classes", classes)

    def _laid_out(self) -> Ints:
        """Return the domains; those of two levels need not be given."""
        shape = (len(self.levels), len(self.names))
        if self.domains.shape == (0, 0) and len(self.levels) == 2:
            return np.stack([np.arange(len(self.names)), np.zeros(len(self.names), dtype=np.int64)])
        if self.domains.shape != shape:
            raise InvalidCluster(f"domains must have shape (levels, machines) = {shape}, got {self.domains.shape}")
        # In C order whatever is given: kernels are compiled for one layout.
        domains = np.array(self.domains, dtype=np.int64, order="C")
        step = np.diff(domains, axis=1)
        neighbours = (domains[:, 0] == 0).all() and ((step == 0) | (step == 1)).all()
        if not neighbours or not (step[0] == 1).all() or step[-1].any() or (np.diff(step, axis=0) > 0).any():
            raise InvalidCluster(
                "domains must be counted from 0 in the order of machines, those of one domain side by side and within "
                "one domain of each level above; Cluster.of sorts machines so"
            )
        return domains

    def __len__(self) -> int:
        """Return M, how many machines there are."""
        return len(self.names)

    @classmethod
    def of(
        cls,
        machines: Iterable[Machine],
        bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH,
        levels: tuple[str, ...] = TWO_LEVELS,
    ) -> Cluster:
        """Build a cluster from machines; a resource that a machine does not name is 0 there.

        Machines of one domain are put side by side, domains in order of their first machine: without racks and the
        like the order stays as given. A machine that names no rack stands alone in one of its own, and so does a rack
        of which no machine names a row.

        Parameters
        ----------
        machines : iterable of Machine
            At least one.
        bandwidth : tuple of float
            MB/s at each level.
        levels : tuple of str
            ``("machine", "rack", "cluster")``: names as they stand in ``Machine.domains``.

        Raises
        ------
        InvalidCluster
            If a domain lies in two of a level above, or a machine names a level that there is not.

        Examples
        --------
        >>> racks = [Machine(f"m{i}", {"gpu": 8}, {"rack": f"r{i % 2}"}) for i in range(4)]
        >>> Cluster.of(racks, (6250.0, 3125.0, 625.0), ("machine", "rack", "cluster")).names
        ('m0', 'm2', 'm1', 'm3')
        """
        _check_levels(levels, bandwidth)
        given = list(machines)
        between = levels[1:-1]
        for machine in given:
            for level in machine.domains:
                if level not in between:
                    known = ", ".join(between) or "none"
                    raise InvalidCluster(
                        f"machine {machine.name!r}: {level} must be a level between machine and cluster ({known}), "
                        f"got {machine.domains[level]!r}"
                    )
        # What holds each machine, from the machine out. What names no domain of a level is one by itself.
        held: list[list[Hashable]] = [list(range(len(given)))]
        for level in between:
            below = held[-1]
            held.append([(level, m.domains[level]) if level in m.domains else below[i] for i, m in enumerate(given)])
        for inner, outer in pairwise(held):
            first: dict[Hashable, int] = {}
            for i, domain in enumerate(inner):
                before = first.setdefault(domain, i)
                if outer[i] != outer[before]:
                    assert isinstance(domain, tuple)  # a machine by itself is in one domain only
                    raise InvalidCluster(
                        f"machine {given[i].name!r}: {domain[0]} {domain[1]!r} must lie within one domain of each "
                        f"level above, as machine {given[before].name!r} does; it lies within two"
                    )
        # The first machine of each domain, from the outermost in: sorting by it keeps domains whole.
        places = []
        for domains_of_level in reversed(held):
            first = {}
            places.append([first.setdefault(domain, i) for i, domain in enumerate(domains_of_level)])
        order = sorted(range(len(given)), key=lambda i: tuple(place[i] for place in places))
        listed = [given[i] for i in order]
        domains = np.zeros((len(levels), len(listed)), dtype=np.int64)
        for depth, place in enumerate(reversed(places)):
            domains[depth] = np.cumsum([k > 0 and place[i] != place[order[k - 1]] for k, i in enumerate(order)])
        resources = tuple(dict.fromkeys(name for machine in given for name in machine.resources))
        amounts = [[m.resources.get(r, 0.0) for r in resources] for m in listed]
        capacity = np.array(amounts, dtype=np.float64).reshape(len(listed), len(resources))
        return cls(tuple(m.name for m in listed), resources, capacity, bandwidth, levels, domains)

    @classmethod
    def uniform(
        cls, machines: int, *, bandwidth: tuple[float, ...] = DEFAULT_BANDWIDTH, **resources: float | str
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
    def locality(self) -> dict[str, float]:
        """MB/s by the name of each level, from the machine to the cluster."""
        return dict(zip(self.levels, self.bandwidth, strict=True))

    def level(self, machines: Sequence[int]) -> int:
        """Return the lowest level of which one domain holds all of these machines (rising indices, at least one)."""
        if len(machines) == 1:
            return 0
        # Domains are neighbours: what holds the ends holds all.
        return int(np.argmax(self.domains[:, machines[0]] == self.domains[:, machines[-1]]))

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
        """Return a part of the machines, evenly over the kinds.

        Parameters
        ----------
        fraction : float
            In (0, 1]; of each kind the largest-remainder share is kept, at least 1 machine in all. The first ones of a
            kind are, so that racks stay whole.
        """
        if not 0 < fraction <= 1:
            raise InvalidCluster(f"cluster share must be > 0 and <= 1, got {fraction!r}")
        counts = np.bincount(self.kinds)
        total = max(1, round(len(self) * fraction))
        exact = counts * (total / len(self))
        kept = np.minimum(np.floor(exact + 1e-9).astype(np.int64), counts)
        by_remainder = np.lexsort((np.arange(len(counts)), -(exact - kept)))
        kept[by_remainder[: max(0, total - int(kept.sum()))]] += 1
        chosen = np.sort(np.concatenate([np.flatnonzero(self.kinds == c)[:k] for c, k in enumerate(kept)]))
        domains = self.domains[:, chosen]
        domains = np.cumsum(np.diff(domains, axis=1, prepend=domains[:, :1]) > 0, axis=1)
        names = tuple(self.names[i] for i in chosen)
        return Cluster(names, self.resources, self.capacity[chosen], self.bandwidth, self.levels, domains)

    def vector(self, demand: Mapping[str, float]) -> npt.NDArray[np.float64]:
        """Return a demand in this cluster's resource order; resources that the cluster lacks are left out."""
        return np.array([demand.get(resource, 0.0) for resource in self.resources], dtype=np.float64)


def _check_levels(levels: tuple[str, ...], bandwidth: tuple[float, ...]) -> None:
    if not 2 <= len(levels) <= MOST_LEVELS:
        raise InvalidCluster(f"a cluster must have 2 ... {MOST_LEVELS} locality levels, got {len(levels)}")
    if (levels[0], levels[-1]) != TWO_LEVELS or len(set(levels)) != len(levels):
        raise InvalidCluster(f"levels must be distinct, from machine to cluster, got {', '.join(levels)}")
    if len(bandwidth) != len(levels):
        raise InvalidCluster(f"bandwidth must have one number for each level ({', '.join(levels)}), got {bandwidth}")
    if not all(math.isfinite(b) and b > 0 for b in bandwidth):
        raise InvalidCluster(f"bandwidth must be > 0 MB/s, got {bandwidth}")
    for (inner, faster), (outer, slower) in pairwise(zip(levels, bandwidth, strict=True)):
        if slower > faster:
            raise InvalidCluster(
                f"bandwidth inside a {inner} must be >= that inside a {outer} ({slower:g} MB/s), got {faster:g}"
            )
