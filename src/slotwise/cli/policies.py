"""``slotwise policies``."""

from __future__ import annotations

import inspect
import json

import typer

from slotwise.cli import options

__all__ = ["policies"]


def policies(as_json: options.AsJson = False) -> None:
    """List the policies, each with one line and where it was published."""
    from slotwise.policies import catalogue

    rows = []
    for name, policy in catalogue.POLICIES.items():
        summary = (inspect.getdoc(policy) or "").partition("\n")[0]
        rows.append({"name": name, "summary": summary, "source": policy.source})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        typer.echo(f"{row['name']:{width}}  {row['summary']}")
        typer.echo(f"{'':{width}}  {row['source']}")
    typer.echo("\nOne of your own: --policy package.module:Class (see the README).")
