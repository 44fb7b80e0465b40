"""The main job in one go: the paper's workload under contention, decided by five policies side by side, and held
against a certified bound on what any scheduler could earn.

Prints a table and writes ``demo/summary.json``. Run it with ``make demo``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import slotwise
from slotwise.cli.output import working
from slotwise.sim.simulator import warm_up

POLICIES = ("pdors", "oasis", "srtf", "fifo", "drf")
SEEDS = range(5)
JOBS, MACHINES, HORIZON = 100, 30, 20


def main() -> None:
    out = Path("demo")
    out.mkdir(exist_ok=True)
    runs: list[dict[str, Any]] = []
    with working("loading kernels (compiled once, which takes some minutes, then cached)"):
        for policy in POLICIES:
            warm_up(policy)
    with Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=len(POLICIES) * len(SEEDS))
        for seed in SEEDS:
            workload = slotwise.paper(JOBS, MACHINES, HORIZON, seed)
            cluster, jobs, slot_seconds = workload.cluster, workload.jobs, workload.slot_seconds
            assert cluster is not None
            bound = slotwise.upper_bound(jobs, cluster, horizon=HORIZON, slot_seconds=slot_seconds).value
            same = {"workload": "paper", "workload_digest": workload.digest, "upper_bound": bound}
            for policy in POLICIES:
                bar.update(task, description=f"seed {seed}, {policy}")
                run = slotwise.simulate(policy, cluster, jobs, horizon=HORIZON, slot_seconds=slot_seconds, seed=seed)
                runs.append(run.summary() | same | {"fraction_of_bound": run.total_utility / bound})
                bar.advance(task)

    means = {policy: summarise([run for run in runs if run["policy"] == policy]) for policy in POLICIES}
    best = max(mean["total_utility"] for mean in means.values())
    table = Table(
        title=f"The paper's workload: {JOBS} jobs, {MACHINES} machines, {HORIZON} slots; means of {len(SEEDS)} seeds"
    )
    table.add_column("policy")
    table.add_column("utility earned", justify="right")
    table.add_column("")
    for title in ("of the bound", "let in", "finished", "turned away", "unfinished", "in one machine", "a decision"):
        table.add_column(title, justify="right")
    for policy, mean in means.items():
        table.add_row(
            policy,
            f"{mean['total_utility']:.0f}",
            "█" * round(10 * mean["total_utility"] / best),
            f"{100 * mean['fraction_of_bound']:.0f} %",
            f"{mean['admitted']:.1f}",
            f"{mean['completed']:.1f}",
            f"{mean['rejected']:.1f}",
            f"{mean['unfinished']:.1f}",
            f"{100 * mean['colocated_fraction']:.0f} %",
            f"{1000 * mean['decision_p50']:.1f} ms",
        )
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table)
    infeasible = means["pdors"]["infeasible"]
    console.print(
        "'Of the bound': share of what any scheduler could earn at most, one that knows the future included.\n"
        f"Of {JOBS} jobs, {infeasible:.1f} could not finish by the horizon even alone on the cluster; the other\n"
        "columns leave them out. 'Let in' counts jobs that ever started; 'in one machine' is the share of the slots\n"
        "in which a job ran with all its workers and servers on one machine."
    )
    (out / "summary.json").write_text(json.dumps({"means": means, "runs": runs}, indent=2) + "\n")
    console.print("Every figure of every run: demo/summary.json")


def summarise(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Average over seeds what the table shows."""
    names = (
        "total_utility",
        "admitted",
        "completed",
        "unfinished",
        "infeasible",
        "colocated_fraction",
        "upper_bound",
    )
    means = {name: fmean(run[name] for run in runs) for name in names}
    return means | {
        "fraction_of_bound": means["total_utility"] / means["upper_bound"],
        "rejected": fmean(sum(run["rejected"].values()) for run in runs),
        "decision_p50": fmean(run["decision_seconds"]["p50"] for run in runs),
    }


if __name__ == "__main__":
    main()
