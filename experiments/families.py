"""What locality is worth: utility earned as links inside a machine, and inside a rack, get faster than those between.

The paper's workload, with three kinds of speed on the same arrivals, demands and utilities: as drawn, all-reduce, and
fitted to measurements. Each is planned by `pdors`

- within one machine only: every job has ``domain="machine"``;
- spread only: the cluster has b_int = b_ext, so that being together gains nothing; planned and carried out so;
- with both, the default; and, from the last two, the plans that know nothing of locality at the speeds they really get.

Then the same machines in racks, with and without racks known to the planner.

    python experiments/families.py --out docs/results

writes locality-families.csv, .svg, .png and the tables of locality-families.md, whose text from "## What it says" on
stays. Some minutes on two cores. Needs matplotlib (the extra ``plot``).
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import slotwise
from slotwise.model.job import Job
from slotwise.model.schedule import Reason, Schedule
from slotwise.optim.request import TOLERANCE, Surveyor

JOBS, MACHINES, HORIZON, RACK = 60, 20, 20, 5
BETWEEN = 625.0
"""MB/s between machines, the paper's."""
RATIOS = (1, 2, 5, 10, 20, 50, 100)
LARGE = 4
"""Times the drawn demands that a worker or a server of the family `fitted, large` takes."""
FAMILIES = {
    "paper": "the paper's speeds, as drawn",
    "all-reduce": "all-reduce, with the drawn τ and g",
    "fitted": "fitted to DL2's measurements",
    "fitted, large": f"fitted, workers and servers {LARGE} times as large",
}
TEXT = "## What it says"

Row = dict[str, float | str]


class Measured(NamedTuple):
    """What `slotwise fit` made of one model of the DL2 table, and how far that table goes."""

    batch: int
    workers: int
    servers: int
    overhead: float
    compute: float
    transfer: float
    per_server: float
    per_worker: float


# `slotwise fit` of config_speed.txt of pengyanghua/DL2, see docs/fitting.md: batch, most workers, most servers, and the
# coefficients c0 ... c4 in seconds.
MEASURED = {
    "resnet-50": Measured(32, 12, 23, 0.3873, 0.004518, 0.4326, 0.0, 0.009747),
    "vgg-16": Measured(32, 12, 23, 0.5337, 0.0175, 0.7857, 0.0, 0.1438),
    "resnext-110": Measured(128, 11, 23, 0.1863, 0.0004348, 0.1076, 0.0, 0.01842),
    "inception-bn": Measured(128, 11, 23, 0.1564, 0.003039, 0.167, 0.003333, 0.01832),
    "seq2seq": Measured(64, 11, 23, 0.0474, 0.001069, 0.02227, 0.0, 0.01501),
    "cnn-text-classification": Measured(50, 23, 23, 0.3569, 0.007058, 0.0237, 0.0, 0.0156),
    "dssm": Measured(256, 23, 23, 0.1272, 0.001488, 0.0, 0.0004318, 0.00679),
    "wlm": Measured(160, 11, 23, 0.2247, 0.0006039, 0.144, 0.0007915, 0.0318),
}


def cluster(ratio: float, *, racks: bool = False) -> slotwise.Cluster:
    """Return the paper's machines; in racks, theirs is the geometric mean of the other two bandwidths."""
    workload = slotwise.paper(1, MACHINES, HORIZON, 0)
    assert workload.cluster is not None
    flat = replace(workload.cluster, bandwidth=(ratio * BETWEEN, BETWEEN))
    if not racks:
        return flat
    machines = [
        slotwise.Machine(name, dict(zip(flat.resources, row.tolist(), strict=True)), {"rack": f"r{m // RACK}"})
        for m, (name, row) in enumerate(zip(flat.names, flat.capacity, strict=True))
    ]
    bandwidth = (ratio * BETWEEN, math.sqrt(ratio) * BETWEEN, BETWEEN)
    return slotwise.Cluster.of(machines, bandwidth, ("machine", "rack", "cluster"))


def jobs_of(family: str, seed: int, links: float = BETWEEN) -> tuple[slotwise.Workload, list[Job]]:
    """Return the drawn workload and its jobs with the speeds of a family.

    The workload of a job is restated so that alone on the empty cluster of b_int = b_ext it takes as many slots as the
    drawn one: the same jobs can finish in all families, and none sooner. ``links`` is the bandwidth at which the
    measured transfer holds, MB/s.
    """
    drawn = slotwise.paper(JOBS, MACHINES, HORIZON, seed)
    if family == "paper":
        return drawn, list(drawn.jobs)
    surveyor = Surveyor(cluster(1.0), drawn.slot_seconds)
    jobs = []
    for job in drawn.jobs:
        assert isinstance(job.speed, slotwise.PaperSpeed)
        if family == "all-reduce":
            other = replace(job, speed=slotwise.AllReduceSpeed(job.speed.seconds_per_sample, job.speed.gradient_mb))
        else:
            # Models in turn, by the index in the id.
            model = list(MEASURED.values())[int(job.id[-4:]) % len(MEASURED)]
            times = LARGE if family == "fitted, large" else 1
            other = replace(
                job,
                speed=slotwise.FittedSpeed(
                    model.overhead,
                    model.compute,
                    model.transfer,
                    model.per_server,
                    model.per_worker,
                    bandwidth=links,
                ),
                batch_size=model.batch,
                max_workers=model.workers,
                max_servers=model.servers,
                worker_demand={resource: times * amount for resource, amount in job.worker_demand.items()},
                server_demand={resource: times * amount for resource, amount in job.server_demand.items()},
            )
        before, after = (surveyor.survey(j, HORIZON).most_samples for j in (job, other))
        jobs.append(replace(other, workload=job.workload * after / before))
    return drawn, jobs


def played(cluster: slotwise.Cluster, jobs: Sequence[Job], slot_seconds: float) -> slotwise.Run:
    return slotwise.simulate("pdors", cluster, jobs, horizon=HORIZON, slot_seconds=slot_seconds)


def schedules(run: slotwise.Run, jobs: Sequence[Job]) -> Iterator[tuple[Job, Schedule]]:
    for job in jobs:
        schedule = run.schedule(job.id)
        if schedule is not None:
            yield job, schedule


def speed(job: Job, placement: slotwise.Placement, bandwidth: float) -> float:
    workers, servers = (np.array([n]) for n in (placement.total_workers, placement.total_servers))
    return float(job.speed.samples_per_second(workers, servers, job.batch_size, bandwidth)[0])


def carried_out(run: slotwise.Run, jobs: Sequence[Job], cluster: slotwise.Cluster, slot_seconds: float) -> float:
    """Return what plans earn at the bandwidths of another cluster of the same machines, none of them slower.

    A job may be done before its plan ends; nobody else gets what it then leaves.
    """
    total = 0.0
    for job, schedule in schedules(run, jobs):
        trained = [
            speed(job, placement, cluster.bandwidth[cluster.level(placement.machines)]) * slot_seconds
            for placement in schedule.placements
        ]
        enough = np.cumsum(trained) >= job.workload * (1.0 - TOLERANCE)
        if enough.any():
            total += job.utility.values(HORIZON)[schedule.slots[int(np.argmax(enough))] - job.arrival]
    return float(total)


def levels(run: slotwise.Run, jobs: Sequence[Job], cluster: slotwise.Cluster) -> npt.NDArray[np.float64]:
    """Return the shares of job-slots within one domain of each level but the last; NaN where none ran."""
    count = Counter(cluster.level(p.machines) for _, schedule in schedules(run, jobs) for p in schedule.placements)
    total = sum(count.values())
    return np.cumsum([count[level] / total if total else math.nan for level in range(len(cluster.levels) - 1)])


def communication(run: slotwise.Run, jobs: Sequence[Job]) -> float:
    """Return what share of an iteration goes over the network at b_ext, mean over job-slots; NaN where none ran."""
    shares = [
        1.0 - speed(job, p, BETWEEN) / speed(job, p, math.inf)
        for job, schedule in schedules(run, jobs)
        for p in schedule.placements
    ]
    return float(np.mean(shares)) if shares else math.nan


def case(family: str, seed: int, links: float) -> list[Row]:
    """Return a row for each ratio."""
    drawn, jobs = jobs_of(family, seed, links)
    seconds = drawn.slot_seconds
    apart = cluster(1.0)
    spread = played(apart, jobs, seconds)
    rows: list[Row] = []
    for ratio in RATIOS:
        flat, racked = cluster(ratio), cluster(ratio, racks=True)
        alone = played(flat, [replace(job, domain="machine") for job in jobs], seconds)
        both, known = played(flat, jobs, seconds), played(racked, jobs, seconds)
        rows.append(
            {
                "family": family,
                "ratio": ratio,
                "seed": seed,
                "digest": drawn.digest,
                "machine": alone.total_utility,
                "spread": spread.total_utility,
                "unaware": carried_out(spread, jobs, flat, seconds),
                "both": both.total_utility,
                "bound": bound(jobs, flat, seconds),
                "racks unknown": carried_out(both, jobs, racked, seconds),
                "racks known": known.total_utility,
                "racks bound": bound(jobs, racked, seconds),
                "machine able": able(alone),
                "able": able(both),
                "completed": both.summary()["completed"],
                "used": max(spread.utilization.values()),
                "spread in one machine": levels(spread, jobs, flat)[0],
                "in one machine": levels(both, jobs, flat)[0],
                "racks unknown in one rack": levels(both, jobs, racked)[1],
                "racks known in one machine": levels(known, jobs, racked)[0],
                "racks known in one rack": levels(known, jobs, racked)[1],
                "communication": communication(spread, jobs),
                "reach": reach(flat, jobs, seconds),
            }
        )
    return rows


def bound(jobs: Sequence[Job], cluster: slotwise.Cluster, slot_seconds: float) -> float:
    return slotwise.upper_bound(jobs, cluster, horizon=HORIZON, slot_seconds=slot_seconds).value


def able(run: slotwise.Run) -> int:
    """Return how many jobs can finish at all."""
    never = (Reason.NEVER_FITS, Reason.HORIZON_ENDS)
    return sum(record.reason not in never for record in run.records.values())


def reach(cluster: slotwise.Cluster, jobs: Sequence[Job], slot_seconds: float) -> float:
    """Return what share of the most samples of a slot one machine reaches, median over the jobs that can finish."""
    surveyor = Surveyor(cluster, slot_seconds)
    shares = []
    for job in jobs:
        whole = surveyor.survey(job, HORIZON)
        if whole.reason is None:
            one = surveyor.survey(replace(job, domain="machine"), HORIZON)
            shares.append(one.most_samples / whole.most_samples)
    return float(np.median(shares)) if shares else math.nan


def column(rows: Iterable[Row], family: str, ratio: int, name: str) -> npt.NDArray[np.float64]:
    return np.array([row[name] for row in rows if row["family"] == family and row["ratio"] == ratio], dtype=np.float64)


def error(values: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def shown(values: npt.NDArray[np.float64]) -> str:
    return f"{values.mean():.1f} ± {error(values):.1f}"


def tables(rows: list[Row], seeds: int, command: str) -> str:
    lines = [
        "# What locality is worth",
        "",
        f"Utility earned by `pdors` (learnt prices) on the paper's workload, {JOBS} jobs, {MACHINES} machines, "
        f"{HORIZON} slots, seeds 0 to {seeds - 1} (digest of the drawn jobs of seed 0: `{rows[0]['digest']}`), mean ± "
        f"standard error, as b_int / b_ext goes from {RATIOS[0]} to {RATIOS[-1]} with b_ext = {BETWEEN:g} MB/s. The "
        "paper's own ratio is 10.",
        "",
        "![Utility over the ratio of bandwidths](locality-families.svg)",
        "",
        '- *one machine only*: every job has `domain="machine"`.',
        "- *spread only*: planned and carried out on a cluster of b_int = b_ext: no job gains by being together.",
        "- *spread, lucky*: the same plans at the true bandwidths. A job that happens to lie in one machine may finish "
        "before its plan ends; what it then leaves nobody gets.",
        "- *both*: the default. *gain*: over *spread only*, of the same seeds. *bound*: certified, of *both*.",
        "- *in one machine*: share of job-slots of *both* (*spread only* is the ratio 1). *can finish*: jobs that the "
        "empty cluster (one machine of it) would finish in time.",
        "",
    ]
    for family, label in FAMILIES.items():
        get = partial(column, rows, family)
        lines += [
            f"## {label[0].upper()}{label[1:]}",
            "",
            f"Communication is {np.nanmean(get(1, 'communication')):.0%} of an iteration in the mean job-slot at "
            f"b_ext. {get(1, 'used').mean():.0%} of the resource most in demand is in use with *spread only*. At ratio "
            f"10 one machine trains {np.nanmean(get(10, 'reach')):.0%} of what the empty cluster trains in a slot "
            "(mean over the seeds of the median job that can finish).",
            "",
            "| b_int / b_ext | one machine only | spread only | spread, lucky | both | gain | bound | in one machine | "
            "can finish (in one machine) |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for ratio in RATIOS:
            earned = " | ".join(shown(get(ratio, name)) for name in ("machine", "spread", "unaware", "both"))
            gain = get(ratio, "both") - get(ratio, "spread")
            lines.append(
                f"| {ratio} | {earned} | {gain.mean():+.1f} ± {error(gain):.1f} | {get(ratio, 'bound').mean():.1f} | "
                f"{np.nanmean(get(ratio, 'in one machine')):.0%} | {get(ratio, 'able').mean():.1f} "
                f"({get(ratio, 'machine able').mean():.1f}) |"
            )
        lines.append("")
    lines += [
        "## Racks",
        "",
        f"The same machines in racks of {RACK}, in a rack b_rack = √(b_int b_ext). *Unknown*: planned on two levels "
        "(*both* above), carried out at the racks' true bandwidths; what a job that is done early leaves nobody gets. "
        "*Known*: planned and carried out on three levels. *bound*: certified, with racks.",
        "",
    ]
    for family, label in FAMILIES.items():
        get = partial(column, rows, family)
        lines += [
            f"{label[0].upper()}{label[1:]}:",
            "",
            "| b_int / b_ext | racks unknown | racks known | gain | bound | unknown: in one rack | "
            "known: in one rack | known: in one machine |",
            "|---|---|---|---|---|---|---|---|",
        ]
        for ratio in RATIOS:
            gain = get(ratio, "racks known") - get(ratio, "racks unknown")
            shares = ("racks unknown in one rack", "racks known in one rack", "racks known in one machine")
            lines.append(
                f"| {ratio} | {shown(get(ratio, 'racks unknown'))} | {shown(get(ratio, 'racks known'))} | "
                f"{gain.mean():+.1f} ± {error(gain):.1f} | {get(ratio, 'racks bound').mean():.1f} | "
                + " | ".join(f"{np.nanmean(get(ratio, name)):.0%}" for name in shares)
                + " |"
            )
        lines.append("")
    return "\n".join([*lines, f"    {command}", ""])


def draw(rows: list[Row], out: Path) -> None:
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

    curves = (
        {
            "bound": ("bound", "0.55", ":"),
            "both": ("both", "#1f5a94", "-"),
            "unaware": ("spread, lucky", "#d98c1f", "--"),
            "spread": ("spread only", "#d98c1f", "-"),
            "machine": ("one machine only", "#3c8c40", "-"),
        },
        {
            "racks bound": ("bound", "0.55", ":"),
            "racks known": ("racks known", "#1f5a94", "-"),
            "racks unknown": ("racks unknown", "#a03050", "-"),
        },
    )
    figure = Figure(figsize=(13, 6), layout="constrained")
    panels = figure.subplots(len(curves), len(FAMILIES), sharex=True)
    for column_index, (family, label) in enumerate(FAMILIES.items()):
        for line, row in zip(curves, panels, strict=True):
            panel = row[column_index]
            for name, (text, color, style) in line.items():
                values = [column(rows, family, ratio, name) for ratio in RATIOS]
                means = np.array([v.mean() for v in values])
                panel.plot(RATIOS, means, style, color=color, label=text, marker="o", markersize=3, linewidth=1.2)
                spread = np.nan_to_num([error(v) for v in values])
                if "bound" not in name:
                    panel.fill_between(RATIOS, means - spread, means + spread, color=color, alpha=0.12, linewidth=0)
            panel.set(xscale="log", ylim=(0, None))
            panel.xaxis.set_major_locator(FixedLocator(RATIOS))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            panel.tick_params(labelsize=8)
            panel.grid(color="0.92", linewidth=0.6)
        panels[0][column_index].set_title(
            label.replace(", workers", ",\nworkers").replace(", with", ",\nwith"), fontsize=9
        )
    for row, title in zip(panels, ("two levels", f"racks of {RACK}"), strict=True):
        row[0].set_ylabel(f"utility, {title}", fontsize=9)
        row[-1].legend(fontsize=8, frameon=False, loc="lower right")
    figure.supxlabel("bandwidth inside a machine over that between machines", fontsize=9)
    with matplotlib.rc_context({"svg.hashsalt": "slotwise", "svg.fonttype": "none"}):
        figure.savefig(out / "locality-families.svg", metadata={"Date": None})
    figure.savefig(out / "locality-families.png", dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--links", type=float, default=BETWEEN, help="MB/s at which the measured transfer holds")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    cases = [(family, seed) for family in FAMILIES for seed in range(given.seeds)]
    rows: list[Row] = []
    with ProcessPoolExecutor(given.processes) as pool:
        for (family, seed), found in zip(
            cases, pool.map(partial(case, links=given.links), *zip(*cases, strict=True)), strict=True
        ):
            rows += found
            print(f"{family}, seed {seed}", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    with (given.out / "locality-families.csv").open("w", newline="") as stream:
        table = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows([{k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows])
    page = given.out / "locality-families.md"
    before = page.read_text() if page.exists() else ""
    text = before[before.index(TEXT) :] if TEXT in before else ""
    command = f"python experiments/families.py --seeds {given.seeds} --links {given.links:g} --out {given.out}"
    page.write_text(tables(rows, given.seeds, command) + ("\n" + text if text else ""))
    draw(rows, given.out)


if __name__ == "__main__":
    main()
