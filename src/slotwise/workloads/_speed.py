"""How fast a job of our own job list trains: its field ``speed``, and the older fields beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slotwise.errors import InvalidJob
from slotwise.model.speed import AllReduceSpeed, FittedAllReduce, FittedSpeed, PaperSpeed, SpeedModel
from slotwise.model.table import SpeedPoint, TableSpeed
from slotwise.workloads._fields import Field

__all__ = ["FIELDS", "read_speed"]

_COEFFICIENTS = ("overhead", "compute", "transfer", "perServer", "perWorker")
_ALL_REDUCE_COEFFICIENTS = ("overhead", "compute", "sync", "transfer", "perWorker")
_KINDS = {
    "paper": ("kind", "secondsPerSample", "gradientMB", "workersPerServer"),
    "all-reduce": ("kind", "secondsPerSample", "gradientMB"),
    "fitted": ("kind", *_COEFFICIENTS, "bandwidth", "workersPerServer"),
    "fitted-all-reduce": ("kind", *_ALL_REDUCE_COEFFICIENTS, "bandwidth"),
    "table": ("kind", "points"),
}
_BESIDE = ("secondsPerSample", "gradientMB", "workersPerServer")
"""Fields that may stand in ``speed`` or, as they always could, beside it."""

_POINT = ("workers", "servers", "samplesPerSecond", "bandwidth")
_MOST_POINTS = 100_000

FIELDS = tuple(dict.fromkeys(name for names in _KINDS.values() for name in names))
"""Fields of ``speed``, of whatever kind."""


def read_speed(spec: Field) -> tuple[SpeedModel, dict[str, float]]:
    """Read how fast a job trains, and what one of its servers takes (nothing where it has none).

    Raises
    ------
    InvalidJob
        With the line of the field that is wrong, or of the mapping that lacks one.
    """
    speed, server = spec.get("speed"), spec.get("server")
    demand = {} if server is None else server.need("resources").resources()
    if speed is None:
        return _without_kind(spec, server), demand
    speed.entries(FIELDS)
    kind = speed.need("kind").text(one_of=tuple(_KINDS))
    for name, given in speed.entries().items():
        if given.value is not None and name not in _KINDS[kind]:
            given.refuse(f"absent with kind {kind} (which has {', '.join(_KINDS[kind][1:])})")
    for name in _BESIDE:
        beside = spec.get(name)
        if beside is not None and name not in _KINDS[kind]:
            beside.refuse(f"absent with a speed of kind {kind}")
        if beside is not None and speed.get(name) is not None:
            beside.refuse(f"absent where speed.{name} is given")
    if kind == "table":
        return _table(spec, speed, server), demand
    if kind in ("all-reduce", "fitted-all-reduce"):
        if server is not None:
            _refuse_server(server, f"a speed of kind {kind}")
        return (_all_reduce(spec, speed) if kind == "all-reduce" else _fitted_all_reduce(speed)), demand
    if server is None:
        spec.missing("server", because=_WITHOUT_SERVER[kind])
    if kind == "fitted":
        return _fitted(spec, speed), demand
    return _paper(spec, speed), demand


_WITHOUT_SERVER = {
    "paper": " with a speed of kind paper (without servers it is of kind all-reduce)",
    "fitted": " with a speed of kind fitted, whose equation has servers (without servers it is of kind "
    "fitted-all-reduce)",
    "table": " with a table of pairs with servers",
}


def _refuse_server(server: Field, what: str) -> None:
    # ``server`` itself would be shown as "a mapping"
    server.refuse(f"absent with {what}, which has no servers", "one")


def _without_kind(spec: Field, server: Field | None) -> SpeedModel:
    _need(spec, None, "secondsPerSample")
    _need(spec, None, "gradientMB")
    per_server = spec.get("workersPerServer")
    if per_server is None and server is None:
        return _all_reduce(spec, None)
    if per_server is None:
        spec.missing(
            "workersPerServer",
            because=" with a server (or a speed of kind fitted or table, which leave the number of servers open)",
        )
    if server is None:
        spec.missing("server", because=" with workersPerServer")
    return _paper(spec, None)


def _need(spec: Field, speed: Field | None, name: str) -> Field:
    """Return a field that stands in ``speed`` or beside it."""
    inside = None if speed is None else speed.get(name)
    return spec.need(name) if inside is None else inside


def _work(spec: Field, speed: Field | None) -> tuple[float, float]:
    seconds = _need(spec, speed, "secondsPerSample").number(1e-12, 1e9)
    return seconds, _need(spec, speed, "gradientMB").number(high=1e9)


def _ratio(field: Field) -> float:
    return field.number(0.001, 1e6)


def _all_reduce(spec: Field, speed: Field | None) -> AllReduceSpeed:
    return AllReduceSpeed(*_work(spec, speed))


def _paper(spec: Field, speed: Field | None) -> PaperSpeed:
    return PaperSpeed(*_work(spec, speed), _ratio(_need(spec, speed, "workersPerServer")))


def _fitted(spec: Field, speed: Field) -> FittedSpeed:
    given = _seconds(speed, _COEFFICIENTS)
    if not any(given):
        speed.refuse(f"> 0 seconds in one of {', '.join(_COEFFICIENTS)}", "0 for all of them")
    ratio = speed.get("workersPerServer") or spec.get("workersPerServer")
    workers_per_server = None if ratio is None else _ratio(ratio)
    at = _measured_at(speed)
    with _bounds_of_the_model(speed, speed.line):
        return FittedSpeed(*given, at, workers_per_server)


def _fitted_all_reduce(speed: Field) -> FittedAllReduce:
    given, at = _seconds(speed, _ALL_REDUCE_COEFFICIENTS), _measured_at(speed)
    with _bounds_of_the_model(speed, speed.line):
        return FittedAllReduce(*given, at)


def _seconds(speed: Field, names: tuple[str, str, str, str, str]) -> tuple[float, float, float, float, float]:
    """Return five coefficients, 0 for those that are not given."""
    first, second, third, fourth, fifth = (speed.get(name) for name in names)
    return _or_zero(first), _or_zero(second), _or_zero(third), _or_zero(fourth), _or_zero(fifth)


def _or_zero(field: Field | None) -> float:
    return 0.0 if field is None else field.number(high=1e9)


def _measured_at(speed: Field) -> float | None:
    bandwidth = speed.get("bandwidth")
    return None if bandwidth is None else bandwidth.rate()


@contextmanager
def _bounds_of_the_model(speed: Field, line: int) -> Iterator[None]:
    """Name the place of what only the model refuses."""
    try:
        yield
    except InvalidJob as error:
        raise InvalidJob(f"{speed.path}:{line}: {speed.label}.{error}") from None


def _table(spec: Field, speed: Field, server: Field | None) -> TableSpeed:
    listed = speed.need("points")
    entries = listed.items()
    if not 1 <= len(entries) <= _MOST_POINTS:
        listed.refuse(f"a list of 1 ... {_MOST_POINTS} points")
    points: list[SpeedPoint] = []
    for entry in entries:
        entry.entries(_POINT)
        servers, bandwidth = entry.get("servers"), entry.get("bandwidth")
        point = SpeedPoint(
            entry.need("workers").whole(1),
            0 if servers is None else servers.whole(),
            entry.need("samplesPerSecond").number(),
            None if bandwidth is None else bandwidth.rate(),
        )
        if points and (point.servers > 0) != (points[0].servers > 0):
            bound = "> 0" if points[0].servers > 0 else "0"
            (servers or entry).refuse(f"{bound} servers as in line {entries[0].line}", f"{point.servers}")
        if points and (point.bandwidth is None) != (points[0].bandwidth is None):
            bound = "without a bandwidth" if bandwidth is not None else "with a bandwidth"
            entry.refuse(f"{bound} as in line {entries[0].line}", "one" if bandwidth is not None else "none")
        points.append(point)
    if server is None and points[0].servers > 0:
        spec.missing("server", because=_WITHOUT_SERVER["table"])
    if server is not None and points[0].servers == 0:
        _refuse_server(server, "a table of pairs without servers")
    with _bounds_of_the_model(speed, listed.line):
        return TableSpeed(tuple(points))
