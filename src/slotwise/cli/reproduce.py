"""``slotwise reproduce``."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import typer

from slotwise.cli import options
from slotwise.cli.output import progress, working
from slotwise.errors import InvalidInput
from slotwise.words import hint, one_of

__all__ = ["reproduce"]


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment; --list shows them.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Every experiment, and a README.md of verdicts.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few points and seeds: rough; all in minutes.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Runs of each point, seeds from 0 on.",
            show_default="10 (ratio: 100, gain-factor: 5); with --quick 2 (ratio: 12)",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(help="Names between commas, for experiments that compare policies.", show_default="all"),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure, the table and the page of each.")] = Path("figures"),
    processes: Annotated[
        int | None, typer.Option(help="Runs at once.", show_default="as many as there are processors")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the experiments, and make none.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Make an experiment of the paper: a figure, the table behind it, and whether the paper's claim holds here."""
    from slotwise.policies import catalogue
    from slotwise.report import plots, results
    from slotwise.report.experiments._base import Scale
    from slotwise.report.experiments.catalogue import EXPERIMENTS
    from slotwise.sim.compare import check_policies
    from slotwise.sim.simulator import warm_up

    if listed:
        for known in EXPERIMENTS.values():
            typer.echo(f"{known.name}\n    {known.title}. {known.claim}")
        return
    if all == (name is not None):
        raise InvalidInput(f"name an experiment ({', '.join(EXPERIMENTS)}) or give --all, one of the two")
    if name is not None and name not in EXPERIMENTS:
        raise InvalidInput(one_of("experiment", EXPERIMENTS, name))
    for option, value in {"--seeds": seeds, "--processes": processes}.items():
        if value is not None and value < 1:
            raise InvalidInput(f"{option} must be >= 1, got {value}")
    chosen = catalogue.NAMES if policies is None else tuple(part.strip() for part in policies.split(","))
    check_policies(chosen)
    for policy in chosen:
        if policy not in catalogue.NAMES:
            raise InvalidInput(
                f"--policies must be of {', '.join(catalogue.NAMES)}, got {policy!r}{hint(policy, catalogue.NAMES)}"
            )
    plots.require()
    for policy in chosen:
        with working("loading kernels", policy):
            warm_up(policy)
    command = "slotwise reproduce"
    given = {"--quick": quick, "--seeds": seeds}
    wishes = "".join(f" {o}" if value is True else f" {o} {value}" for o, value in given.items() if value)
    others = "" if policies is None else f" --policies {policies}"
    results.try_out(out)
    made = []
    for experiment in EXPERIMENTS.values() if name is None else (EXPERIMENTS[name],):
        plain = Scale(quick, seeds, chosen, processes)
        with progress(f"{experiment.name}: runs", experiment.runs(plain)) as shown:
            count = 0

            def step() -> None:
                nonlocal count
                count += 1
                if shown is not None:
                    shown(count)

            found = experiment.make(Scale(quick, seeds, chosen, processes, step))
            found = dataclasses.replace(found, rough=bool(wishes or (others and experiment.compares)))
        files = results.write(
            out, experiment, found, f"{command} {experiment.name}{wishes}{others if experiment.compares else ''}"
        )
        made.append((experiment, found))
        if not as_json:
            rough = " (rough: less than the experiment's own points, seeds or policies)" if found.rough else ""
            typer.echo(f"{experiment.name}: {found.agrees}{rough}\n    {found.measured}\n    {files[-1]}")
    if name is None:
        results.write_index(out, made, f"{command} --all{wishes}{others}")
    if as_json:
        report = [
            {
                "name": experiment.name,
                "claim": experiment.claim,
                "measured": found.measured,
                "verdict": found.agrees,
                "workload_digest": found.digest,
                "rows": found.rows,
            }
            for experiment, found in made
        ]
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
