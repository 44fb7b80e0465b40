"""``slotwise explain``."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from slotwise.cli import options
from slotwise.cli.output import working
from slotwise.cli.source import load
from slotwise.errors import InvalidInput
from slotwise.words import hint

__all__ = ["explain"]


_NEEDED = (
    "workload", "cluster", "cluster_share", "machines", "jobs", "horizon", "slot", "value", "elastic", "format",
    "strict", "prices", "solver", "grid", "server_share",
)  # fmt: skip
"""Settings without which a run cannot be played again."""


def explain(
    job: Annotated[str, typer.Argument(help="Its name.")],
    run: Annotated[Path, typer.Option(help="A folder that slotwise compare wrote (--out).")],
    policy: Annotated[
        str | None, typer.Option(help="Of the runs in the folder.", show_default="pdors, or the only one")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the runs in the folder.", show_default="the lowest")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Say why a job of a finished run was let in or turned away, or waited: its decision is made again, and asked."""
    from slotwise import __version__
    from slotwise.explanation import explain as ask
    from slotwise.policies import catalogue
    from slotwise.report.explanations import as_data, as_text
    from slotwise.report.folder import read_runs, read_settings

    given = read_settings(run)
    if given.get("slotwise") != __version__ or not set(_NEEDED) <= set(given):
        raise InvalidInput(
            f"--run {str(run)!r} was written by slotwise {given.get('slotwise', 'unknown')}, this is {__version__} and "
            "may decide differently; run slotwise compare again"
        )
    runs = read_runs(run)
    made = {(row["policy"], row["seed"]): row for row in runs}
    if not made:
        raise InvalidInput(f"--run {str(run)!r} holds no finished run")
    names = list(dict.fromkeys(name for name, _ in made))
    if policy is None:
        policy = names[0] if len(names) == 1 or "pdors" not in names else "pdors"
    if policy not in names:
        raise InvalidInput(
            f"--policy must be one of those in {str(run)!r} ({', '.join(names)}), got {policy!r}{hint(policy, names)}"
        )
    seeds = sorted(number for name, number in made if name == policy)
    if seed is None:
        seed = seeds[0]
    if seed not in seeds:
        raise InvalidInput(f"--seed must be one of those of {policy} in {str(run)!r} ({_few(seeds)}), got {seed}")
    row = made[policy, seed]
    for option in ("workload", "cluster", "throughputs"):
        _same(option, given)
    source, where = load(
        given["workload"],
        given["cluster"],
        given["cluster_share"],
        given["machines"],
        given["jobs"],
        given["horizon"],
        given["slot"],
        seed,
        given["value"],
        given["elastic"],
        given["format"],
        given["strict"],
        given.get("throughputs"),
    )
    if source.digest != row["workload_digest"]:
        raise InvalidInput(
            f"--run {str(run)!r}: the jobs of seed {seed} are not those of the run any more (digest {source.digest}, "
            f"it was {row['workload_digest']}); run slotwise compare again"
        )
    if policy not in catalogue.NAMES and catalogue.source_of(policy) != row["policy_source"]:
        raise InvalidInput(f"--policy {policy}: its file has changed since the run; run slotwise compare again")
    with working("playing the run again", "that run"):
        found = ask(
            policy,
            where,
            source.jobs,
            job,
            horizon=source.horizon,
            slot_seconds=source.slot_seconds,
            seed=seed,
            prices=given["prices"],
            slot_solver=given["solver"],
            grid=given["grid"],
            server_share=given["server_share"],
        )
    if as_json:
        report = as_data(found) | {"seed": seed, "workload_digest": source.digest}
        typer.echo(json.dumps(report, indent=2, allow_nan=False))
    else:
        typer.echo(as_text(found, source.slot_seconds))


def _same(option: str, given: dict[str, Any]) -> None:
    """See that a file is still the one that the run read."""
    digest = given.get(f"{option}_sha256")
    if digest is None:
        return
    path = Path(given[option])
    if not path.is_file():
        raise InvalidInput(f"--{option} of the run was {path}, which is not there any more")
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise InvalidInput(f"--{option} of the run was {path}, which has changed since; run slotwise compare again")


def _few(seeds: list[int]) -> str:
    return f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} ... {seeds[-1]}"
