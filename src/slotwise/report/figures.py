"""What is to be drawn, whoever draws it: on paper (``plots``) or on a page (``page``)."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = [
    "ARRIVALS",
    "BOUND",
    "FILLED",
    "Arrival",
    "Box",
    "Gantt",
    "Heat",
    "Line",
    "Panel",
    "colour",
    "job_colour",
    "short",
]

BOUND = "bound"
"""The name of a curve that is drawn as a limit."""

ARRIVALS = ("let in", "turned away", "cannot finish")
"""What becomes of a job on arrival. A job that waits is in; one that cannot finish by the horizon never could."""
FILLED = 0.92
"""Share of a machine's row that its jobs fill."""

_DEEPEST = 1e-6
"""Share of the largest number below which colours end, where they go by the logarithm."""
_COLOURS = (
    "#1f5a94", "#d1495b", "#2e8b57", "#e08e0b", "#7b4fa3", "#8c6d46", "#d66bb2", "#5f6b73", "#a3a12f", "#2aa7b8",
    "#f0704a",
)  # fmt: skip
_GOLDEN = 0.618034
"""Steps of this size around a circle never come close to one before."""


def colour(at: int) -> str:
    """Return the colour of a curve, by its place in the legend."""
    return _COLOURS[at] if at < len(_COLOURS) else job_colour(at)


def job_colour(at: int) -> str:
    """Return the colour of a job, by its place in the order of arrival."""
    lightness, saturation = (0.62, 0.55), (0.75, 0.5)
    red, green, blue = colorsys.hls_to_rgb(at * _GOLDEN % 1.0, lightness[at % 2], saturation[at // 2 % 2])
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def short(name: str, most: int = 28) -> str:
    """Return a name that fits beside an axis; of a longer one its two ends."""
    return name if len(name) <= most else f"{name[: most - most // 2 - 1]}…{name[-(most // 2) :]}"


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, or one set of bars.

    Attributes
    ----------
    name : str
        In the legend.
    xs : sequence of float or str
        Where its points are; names for bars.
    ys : sequence of float or None
        As many heights, None where there is none.
    errors : sequence of float
        Half widths of the bars that show how sure a height is, None where that is not known; none if empty.
    """

    name: str
    xs: Sequence[float] | Sequence[str]
    ys: Sequence[float | None]
    errors: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Panel:
    """One part of a figure.

    Attributes
    ----------
    title, x_label, y_label : str
        What it shows.
    lines : sequence of Line
        Its curves. One that is called ``BOUND`` is drawn as a limit.
    bars : bool
        Whether heights over names are drawn as bars.
    logarithmic : bool
        Whether the x axis is.
    steps : bool
        Whether a height holds until the next point.
    limit : float, optional
        A height that no bar can exceed.
    shares : bool
        Whether heights are shares of 1.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    bars: bool = False
    logarithmic: bool = False
    steps: bool = False
    limit: float | None = None
    shares: bool = False


@dataclass(frozen=True, slots=True)
class Box:
    """A job on a machine for some slots.

    Attributes
    ----------
    row : int
        The machine's row in the chart.
    lane, lanes : int
        Its place among the jobs that are there at once, and how many places the row has.
    first, last : int
        The slots, both ends included.
    job : int
        In the order of arrival.
    workers, servers : int
        What runs there.
    note : sequence of str
        The rest that there is to say, line by line.
    """

    row: int
    lane: int
    lanes: int
    first: int
    last: int
    job: int
    workers: int
    servers: int
    note: Sequence[str]

    def parts(self) -> Iterator[tuple[str, float, float]]:
        """Yield what is drawn of it: ``workers`` or ``servers``, its upper edge, and its height in rows."""
        height = FILLED / self.lanes
        top = self.row - FILLED / 2 + self.lane * height
        for name, count in (("workers", self.workers), ("servers", self.servers)):
            if count:
                share = height * count / (self.workers + self.servers)
                yield name, top, share
                top += share


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job's arrival: when, one of ``ARRIVALS``, its place in the order of arrival, and what there is to say."""

    slot: int
    kind: str
    job: int
    note: Sequence[str]


@dataclass(frozen=True, slots=True)
class Gantt:
    """A plan: machines × slots, coloured by job.

    Attributes
    ----------
    title, x_label : str
        What it shows.
    rows : sequence of str
        Machines, from above.
    first, last : int
        Slots that it shows, both ends included.
    boxes : sequence of Box
        What runs.
    arrivals : sequence of Arrival
        In order; drawn above all machines.
    """

    title: str
    x_label: str
    rows: Sequence[str]
    first: int
    last: int
    boxes: Sequence[Box]
    arrivals: Sequence[Arrival] = ()


@dataclass(frozen=True, slots=True)
class Heat:
    """Numbers over slots and machines, as colours.

    Attributes
    ----------
    title, x_label, unit : str
        What it shows, and the unit of the numbers.
    slots : sequence of int
        First slot of each column.
    width : int
        Slots of a column.
    rows : sequence of str
        Machines or groups of them, from above.
    layers : mapping of str to sequence of sequence of (float or None)
        Numbers by row and column; None where there is none. One layer is shown at a time, the first one first.
    logarithmic : bool
        Whether colours go by the logarithm.
    """

    title: str
    x_label: str
    unit: str
    slots: Sequence[int]
    width: int
    rows: Sequence[str]
    layers: Mapping[str, Sequence[Sequence[float | None]]]
    logarithmic: bool = False

    def ends(self, layer: str) -> tuple[float, float]:
        """Return the numbers of a layer at which colours begin and end; those that are logarithmic are all > 0."""
        some = [number for row in self.layers[layer] for number in row if number is not None]
        return (max(min(some), max(some) * _DEEPEST) if self.logarithmic else min(some)), max(some)
