"""``slotwise fit``."""

from __future__ import annotations

import json
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from slotwise.cli import options
from slotwise.cli.output import progress, whole_file
from slotwise.errors import InvalidInput
from slotwise.words import counted

if TYPE_CHECKING:
    from slotwise.fitting import Fit

__all__ = ["fit"]


def fit(
    speeds: Annotated[
        Path,
        typer.Argument(
            help="Measured rows: a CSV, the DL2 table, one of Sia's profiles or a folder of them.", show_default=False
        ),
    ],
    bandwidth: Annotated[
        str | None,
        typer.Option(
            help="Bandwidths inside a machine and between machines where the rows were measured, for rows that name "
            "the place only.",
            show_default="50Gbps,5Gbps",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the YAML (with --json, the JSON) to this file.")] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="Draw measured against fitted seconds of an iteration to this file, .png or .svg, one panel a model; "
            "needs the extra plot."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Fit speed models to measured speeds, as YAML for job files."""
    if plot is not None:
        from slotwise.report.plots import FORMATS, require

        if plot.suffix.lower().lstrip(".") not in FORMATS:
            raise InvalidInput(f"--plot must be a .{' or .'.join(FORMATS)} file, got {str(plot)!r}")
        if out is not None and _same(out, plot):
            raise InvalidInput(f"--out and --plot must be two files, got {str(out)!r} for both")
        require()
    if not str(speeds).strip() or speeds == Path():
        raise InvalidInput("the measured rows must be in a file or a folder that is named, got ''")
    fits, notes = _fits(speeds, bandwidth)
    if as_json:
        found = {"models": [_entry(each) for each in fits], "notes": list(notes)}
        text = json.dumps(found, indent=2, allow_nan=False) + "\n"
    else:
        text = "---\n".join(_document(each) for each in fits)
    reads = [str(speeds)] if speeds.is_file() else [str(file) for file in speeds.rglob("*") if file.is_file()]
    if plot is not None:
        from slotwise.report.plots import measured_against_fitted

        with whole_file(plot, "--plot", reads) as stream:
            image = measured_against_fitted(fits, plot.suffix.lower().lstrip("."))
            cast("TextIOWrapper", stream).buffer.write(image)
    if out is not None:
        with whole_file(out, "--out", reads) as stream:
            stream.write(text)
    for line in (*notes, *(warning for each in fits for warning in each.warnings)):
        typer.echo(f"slotwise: {line}", err=True)
    if out is None:
        typer.echo(text, nl=False)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file; not where a path leads nowhere, which is said when it is written."""
    try:
        return one.resolve() == other.resolve()
    except (OSError, RuntimeError):
        return False


def _fits(speeds: Path, bandwidth: str | None) -> tuple[list[Fit], tuple[str, ...]]:
    from slotwise.fitting import fit as fit_model
    from slotwise.model.cluster import DEFAULT_BANDWIDTH
    from slotwise.workloads.speeds import read

    rows = read(speeds, bandwidth=DEFAULT_BANDWIDTH if bandwidth is None else _levels(bandwidth))
    fits: list[Fit] = []
    with progress("fitting", len(rows.measured)) as shown:
        for measured in rows.measured:
            fits.append(fit_model(measured))
            if shown is not None:
                shown(len(fits))
    return fits, rows.notes


def _levels(text: str) -> tuple[float, float]:
    """Read ``50Gbps,5Gbps``."""
    from slotwise.units import rate

    parts = [part.strip() for part in text.split(",")]
    if len(parts) != len(("machine", "cluster")):
        raise InvalidInput(
            f"--bandwidth must be two, inside a machine and between machines (50Gbps,5Gbps), got {text!r}"
        )
    inside, between = (rate(part, "--bandwidth") for part in parts)
    if inside < between:
        raise InvalidInput(f"--bandwidth must be inside a machine >= between machines, got {text!r}")
    return inside, between


def _ranges(fit: Fit) -> dict[str, list[float]]:
    """Return the least and the most of what was measured."""
    measured = fit.measured
    columns = {"workers": measured.workers, "servers": measured.servers, "batch": measured.batch}
    return {name: [column.min().item(), column.max().item()] for name, column in columns.items()}


def _entry(fit: Fit) -> dict[str, Any]:
    ranges = _ranges(fit)
    least, most = ranges["batch"]
    return {
        "name": fit.measured.name,
        "mode": fit.measured.mode or None,
        "batch": least if least == most else None,
        "rows": len(fit.measured),
        "skipped": fit.measured.skipped,
        "kind": fit.kind,
        "coefficients": fit.coefficients,
        "bandwidth": fit.speed.bandwidth,
        "leave_one_out_error": fit.leave_one_out_error,
        "in_sample_error": fit.in_sample_error,
        "folds": fit.folds,
        "measured": ranges,
        "warnings": list(fit.warnings),
    }


def _document(fit: Fit) -> str:
    """Return the model as one YAML document, indented as the lines of ``spec`` in a job file are."""
    ranges, nowhere = _ranges(fit), fit.speed.bandwidth is None
    told = ", ".join(
        f"{name} {least:g}" if least == most else f"{name} {least:g} ... {most:g}"
        for name, (least, most) in ranges.items()
        if most > 0
    )
    lines = [
        f"# {fit.measured.label}: {counted(len(fit.measured), 'row')} in {counted(fit.folds, 'configuration')}, "
        f"{counted(fit.measured.skipped, 'failed run')} skipped",
        f"# leave-one-out error {fit.leave_one_out_error:.1%} of the seconds of an iteration, in sample "
        f"{fit.in_sample_error:.1%}",
        f"# measured: {told}",
        *(["# no row has a bandwidth or a placement: taken to be as fast across machines as inside one"] * nowhere),
        *(f"# warning: {warning.removeprefix(fit.measured.label + ': ')}" for warning in fit.warnings),
        "  speed:",
        f"    kind: {fit.kind}",
        *(f"    {field}: {_number(value)}" for field, value in fit.coefficients.items()),
    ]
    if fit.speed.bandwidth is not None:
        lines.append(f"    bandwidth: {_number(fit.speed.bandwidth)}  # MB/s")
    lines.append(f"  maxWorkers: {ranges['workers'][1]}  # the most measured; beyond, it is extrapolated")
    if ranges["servers"][1] > 0:
        lines.append(f"  maxServers: {ranges['servers'][1]}  # likewise")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """Return a number that YAML 1.1 reads as one: with a point where there is an exponent."""
    text = f"{value:.6g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if exponent and "." not in mantissa else text
