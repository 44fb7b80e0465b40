"""A day of many arrivals: how long a whole simulation takes, and how much memory.

    python benchmarks/day.py pdors --jobs 50000 --machines 2000

Arrivals over 96 slots of 15 minutes, a horizon that ends a week after the last of them. Jobs are the paper's, made so
short that together they ask for ``--load`` times what the machines have in the day.
"""

from __future__ import annotations

import argparse
import resource
import time
from dataclasses import replace

import numpy as np
from bench_decision import stretched

from slotwise.optim.request import Surveyor
from slotwise.sim.simulator import simulate, warm_up
from slotwise.workloads import synthetic

DAY = 96
SLOT_SECONDS = 900.0


def main() -> None:
    """Play one day."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", choices=["pdors", "fifo", "drf"])
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--machines", type=int, default=2_000)
    parser.add_argument("--load", type=float, default=1.0)
    parser.add_argument("--horizon", type=int, default=8 * DAY)
    given = parser.parse_args()
    workload = synthetic.paper(given.jobs, given.machines, DAY, seed=0)
    cluster = workload.cluster
    assert cluster is not None
    surveyor = Surveyor(cluster, SLOT_SECONDS)
    some = [surveyor.survey(job, 10**4) for job in workload.jobs[:: max(1, given.jobs // 1_000)]]
    asked = np.mean([request.bid.share_time for request in some if request.reason is None], axis=0).max() * given.jobs
    factor = given.load * given.machines * DAY / asked
    arrivals = {job.id: job.arrival for job in workload.jobs}
    jobs = [replace(stretched(job, factor), arrival=arrivals[job.id], utility=job.utility) for job in workload.jobs]
    warm_up(given.policy)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.perf_counter()
    run = simulate(given.policy, cluster, jobs, horizon=given.horizon, slot_seconds=SLOT_SECONDS)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    summary = run.summary()
    print(
        f"{given.policy}, {given.jobs} jobs on {given.machines} machines in {given.horizon} slots, "
        f"load {given.load:g}: {seconds:.1f} s, {after:.0f} MiB at most, {before:.0f} MiB before it began\n"
        f"  {summary['admitted']} admitted, {summary['completed']} completed, utility {summary['total_utility']:.0f}"
    )
    times = 1e3 * run.decision_times
    for part, name in zip(np.array_split(times, 5), ("first", "second", "third", "fourth", "last"), strict=True):
        median, tail = np.quantile(part, [0.5, 0.99])
        print(f"  the {name} fifth of its decisions: {median:.2f} ms in the median, {tail:.2f} ms at p99")


if __name__ == "__main__":
    main()
