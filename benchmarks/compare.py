"""Two commits beside each other: the same decisions, timed in turns, and whether they are the same.

    python benchmarks/compare.py main~10 main --size 1000x672

Each commit is unpacked into a folder of its own and runs in processes of its own, in turns, so that a busy machine
slows both. Both decide on what the benchmark of this checkout draws.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]

MEASURE = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import bench_decision
from slotwise.optim.planner import Planner
ledger, requests, prices = bench_decision.loaded(int(sys.argv[2]), int(sys.argv[3]))
planner = Planner()
for request in requests:
    planner.plan(request, ledger, prices)
found = []
for request in requests:
    begin = time.perf_counter()
    plan = planner.plan(request, ledger, prices)
    seconds = time.perf_counter() - begin
    pays = plan is not None and plan.payoff > 0
    found.append((seconds, plan.payoff if pays else 0.0))
json.dump(found, sys.stdout)
"""


def measure(tree: Path, machines: int, slots: int) -> np.ndarray:
    """Return (seconds, payoff or 0) of each job, (jobs, 2)."""
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(ROOT / "benchmarks"), str(machines), str(slots)],
        env=os.environ | {"PYTHONPATH": str(tree / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    return np.array(json.loads(run.stdout))


def main() -> None:
    """Compare two commits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--size", default="1000x672", help="machines x slots")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    machines, slots = (int(part) for part in given.size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        trees = {}
        for name in ("before", "after"):
            trees[name] = Path(folder) / name
            archive = subprocess.run(
                ["git", "-C", str(ROOT), "archive", getattr(given, name)], capture_output=True, check=True
            )
            trees[name].mkdir()
            subprocess.run(["tar", "-x", "-C", str(trees[name])], input=archive.stdout, check=True)
        rounds = [{name: measure(tree, machines, slots) for name, tree in trees.items()} for _ in range(given.rounds)]
    seconds = {name: np.min([one[name][:, 0] for one in rounds], axis=0) for name in trees}
    payoffs = {name: rounds[0][name][:, 1] for name in trees}
    for name in trees:
        times = 1e3 * seconds[name]
        print(
            f"{name:7} {getattr(given, name)}: {np.median(times):.2f} ms in the median, "
            f"{np.quantile(times, 0.99):.2f} ms at p99, {times.sum():.1f} ms for all {len(times)} jobs"
        )
    print(
        f"after over before: {np.median(seconds['after']) / np.median(seconds['before']):.3f} of the median, "
        f"{seconds['after'].sum() / seconds['before'].sum():.3f} of all"
    )
    differ = np.flatnonzero(~np.isclose(payoffs["before"], payoffs["after"], rtol=1e-9, atol=0.0))
    print("payoffs are equal" if len(differ) == 0 else f"payoffs differ for jobs {differ.tolist()}")


if __name__ == "__main__":
    main()
