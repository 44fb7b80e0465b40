"""The main job in one go: the paper's workload under contention, decided by five policies side by side, and held
against a certified bound on what any scheduler could earn.

Prints a table, and writes tables, events and a page to look at into ``demo/runs``. Run it with ``make demo``.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from pathlib import Path

import polars
from rich.console import Console
from rich.table import Table

from slotwise.cli import main as slotwise

POLICIES = ("pdors", "oasis", "srtf", "fifo", "drf")
SEEDS = 5
JOBS, MACHINES, HORIZON = 100, 30, 20


def main() -> int:
    out = Path("demo/runs")
    if (out / "comparison.json").exists():
        # Made by other code perhaps: from the beginning.
        shutil.rmtree(out)
    command = [
        *("compare", "--workload", "paper", "--jobs", str(JOBS), "--machines", str(MACHINES)),
        *("--horizon", str(HORIZON), "--policies", ",".join(POLICIES), "--seeds", str(SEEDS), "--out", str(out)),
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        code = slotwise(command)
    if code != 0:
        return code
    means = polars.read_csv(out / "summary.csv")
    best = float(means["total_utility"].to_numpy().max())
    table = Table(
        title=f"The paper's workload: {JOBS} jobs, {MACHINES} machines, {HORIZON} slots; means of {SEEDS} seeds"
    )
    table.add_column("policy")
    table.add_column("utility earned", justify="right")
    table.add_column("")
    for title in ("of the bound", "let in", "finished", "turned away", "unfinished", "in one machine", "a decision"):
        table.add_column(title, justify="right")
    for mean in means.to_dicts():
        table.add_row(
            mean["policy"],
            f"{mean['total_utility']:.0f}",
            "█" * round(10 * mean["total_utility"] / best),
            f"{100 * mean['fraction_of_bound']:.0f} %",
            f"{mean['admitted']:.1f}",
            f"{mean['completed']:.1f}",
            f"{mean['rejected']:.1f}",
            f"{mean['unfinished']:.1f}",
            f"{100 * mean['colocated_fraction']:.0f} %",
            f"{1000 * mean['decision_seconds_p50']:.1f} ms",
        )
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(table)
    console.print(
        "'Of the bound': share of what any scheduler could earn at most, one that knows the future included.\n"
        f"Of {JOBS} jobs, {means['infeasible'][0]:.1f} could not finish by the horizon even alone on the cluster; the\n"
        "other columns leave them out. 'Let in' counts jobs that ever started; 'in one machine' is the share of the\n"
        "slots in which a job ran with all its workers and servers on one machine."
    )
    console.print("Curves, the plan of pdors and its prices, in a browser: demo/runs/report.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
