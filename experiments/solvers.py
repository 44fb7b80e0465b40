"""The default solver beside the paper's reference, on the very same states of the paper's workload.

Walks the workload with the default solver. At each arrival of a job that can finish, every reference (gain, delta) is
asked for its best plan on the same ledger at the same prices, without the sweep as its fallback. Also draws from the
relaxations met on the way, to see how often one draw packs, covers, and does both, for each gain.

    python experiments/solvers.py --out docs/results

writes solvers.md and rounding.md. About fifteen minutes on one core.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

import slotwise
from slotwise.model.job import Job
from slotwise.model.schedule import Decision
from slotwise.optim.planner import Plan, Planner
from slotwise.optim.pricing import Learnt, Prices
from slotwise.optim.relaxation import Reference, SlotProgram
from slotwise.optim.request import Request
from slotwise.optim.rounding import draw
from slotwise.optim.solver import Exact
from slotwise.policies._base import State
from slotwise.policies.pdors import PdOrs

JOBS, MACHINES, HORIZON = 50, 30, 20
ATTEMPTS = 400
DELTA = 0.1
REFERENCES: Mapping[str, Mapping[str, str | float]] = {
    "G = 1": {"gain": 1.0},
    "G = 0.9": {"gain": 0.9},
    "G = 1.1": {"gain": 1.1},
    "packing, δ = 0.1": {"gain": "packing", "delta": 0.1},
    "packing, δ = 1": {"gain": "packing", "delta": 1.0},
    "covering, δ = 0.1": {"gain": "covering", "delta": 0.1},
    "covering, δ = 1": {"gain": "covering", "delta": 1.0},
    "textbook, δ = 0.1": {"gain": "textbook", "delta": 0.1},
}
GAINS = ("packing", "textbook", 0.5, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, "covering")


class Walk(PdOrs):
    """The default policy, which on the way asks others what they would have done."""

    def __init__(self, cluster: slotwise.Cluster, seed: int) -> None:
        super().__init__(Planner(), Learnt(cluster))
        self.seed = seed
        self.rows: list[dict[str, float]] = []
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.counts: dict[str, list[Reference]] = defaultdict(list)
        self.draws: dict[str | float, list[tuple[float, float, float, float, float]]] = defaultdict(list)
        self.exceptions: list[str] = []

    def admit(self, job: Job, state: State, rng: np.random.Generator) -> Decision:
        decision = super().admit(job, state, rng)
        request = state.requests[job.id]
        prices = self.prices
        assert prices is not None
        if request.bid.utility > 0:
            self.compare(request, state, prices)
            self.sample(request, state, prices)
        return decision

    def ask(self, name: str, planner: Planner, request: Request, state: State, prices: Prices) -> Plan | None:
        begin = time.perf_counter()
        plan = planner.plan(request, state.ledger, prices, first=state.slot, at_least=-math.inf)
        self.seconds[name].append(time.perf_counter() - begin)
        return plan

    def compare(self, request: Request, state: State, prices: Prices) -> None:
        own = self.ask("default", self.planner, request, state, prices)
        row = {"default": own.payoff if own else -math.inf}
        for name, options in REFERENCES.items():
            reference = Reference(self.seed, attempts=ATTEMPTS, fallback=False, **options)  # type: ignore[arg-type]
            plan = self.ask(name, Planner(reference), request, state, prices)
            row[name] = plan.payoff if plan else -math.inf
            self.counts[name].append(reference)
        self.rows.append(row)
        best = max(REFERENCES, key=lambda name: row[name])
        if row[best] > 0 and row["default"] < row[best] - 1e-3 * abs(row[best]):
            exact = self.ask("exact", Planner(Exact()), request, state, prices)
            found = exact.payoff if exact else -math.inf
            self.exceptions.append(
                f"seed {self.seed}, {request.id}: default {row['default']:.6g}, {best} {row[best]:.6g}, exact curve "
                f"{found:.6g}"
            )

    def sample(self, request: Request, state: State, prices: Prices) -> None:
        """Draw from the relaxations of three slots and up to six configurations each."""
        ledger, ask = state.ledger, request.ask
        rng = np.random.default_rng([self.seed, len(self.rows)])
        program = SlotProgram(request, len(ledger.cluster))
        slots = np.unique(np.linspace(state.slot, ledger.end - 1, 3).astype(int))
        for slot in slots.tolist():
            price = prices.at(ledger.used(slot), ledger.view.capacity, slot)
            program.open(ledger.free(slot), np.concatenate([price @ ask.worker_amount, price @ ask.server_amount]))
            for k in np.unique(np.linspace(0, len(ask.workers) - 1, 6).astype(int)).tolist():
                solved = program.solve(int(ask.workers[k]), int(ask.servers[k]))
                if solved is None:
                    break
                for gain in GAINS:
                    self.draws[gain].append(drawn(program, *solved, gain, rng))


def drawn(
    program: SlotProgram, cost: float, values: npt.NDArray[np.float64], gain: str | float, rng: np.random.Generator
) -> tuple[float, float, float, float, float]:
    """Return G, the shares of draws that pack, cover and do both, and the mean cost of the latter over the optimum."""
    scale = program.gain(gain, DELTA)
    draws = draw(values * scale, ATTEMPTS, rng)
    packs, covers = program.holds(draws)
    both = np.flatnonzero(packs & covers)
    over = float(program.cut(draws[both[0]]) @ program.costs / cost) if len(both) and cost > 0 else math.nan
    return scale, float(packs.mean()), float(covers.mean()), float((packs & covers).mean()), over


def walk(seed: int) -> Walk:
    workload = slotwise.paper(JOBS, MACHINES, HORIZON, seed)
    assert workload.cluster is not None
    policy = Walk(workload.cluster, seed)
    slotwise.simulate(
        policy, workload.cluster, workload.jobs, horizon=HORIZON, slot_seconds=workload.slot_seconds, seed=seed
    )
    return policy


def solvers_table(walks: list[Walk], command: str) -> str:
    rows = [row for w in walks for row in w.rows]
    default = np.array([row["default"] for row in rows])
    lines = [
        "# The default solver and the reference on the same states",
        "",
        f"Paper's workload, {JOBS} jobs, {MACHINES} machines, {HORIZON} slots, seeds {walks[0].seed} to "
        f"{walks[-1].seed}, learnt prices: {len(rows)} arrivals of jobs that can finish, each planned by all on the "
        f"same ledger at the same prices. References draw up to {ATTEMPTS} times for each relaxation and have no "
        "fallback.",
        "",
        "Payoffs are sums over the arrivals for which the default has a plan that pays; *below* counts arrivals in "
        "which the default is more than 0.1 % of payoff below this reference (where that pays).",
        "",
        "| solver | payoff | no plan at all | default below | relaxations with a feasible draw | cost over the "
        "relaxation | seconds a plan |",
        "|---|---|---|---|---|---|---|",
    ]
    pays = default > 0

    def total(name: str) -> float:
        values = np.array([row[name] for row in rows])
        return float(np.where(np.isfinite(values), np.maximum(values, 0.0), 0.0)[pays].sum())

    def seconds(name: str) -> str:
        return f"{1e3 * float(np.mean([s for w in walks for s in w.seconds[name]])):.1f} ms"

    none = int(np.isinf(default).sum())
    lines.append(f"| default (sweep) | {total('default'):.2f} | {none} | | | | {seconds('default')} |")
    for name in REFERENCES:
        values = np.array([row[name] for row in rows])
        below = int(((values > 0) & (default < values - 1e-3 * np.abs(values))).sum())
        counted = [r.rounding for w in walks for r in w.counts[name]]
        solved, feasible = sum(r.relaxations for r in counted), sum(r.feasible for r in counted)
        over = sum(r.excess for r in counted) / feasible if feasible else math.nan
        lines.append(
            f"| {name} | {total(name):.2f} | {int(np.isinf(values).sum())} | {below} | {feasible / solved:.1%} | "
            f"{over:+.2%} | {seconds(name)} |"
        )
    best = np.max([[row[name] for name in REFERENCES] for row in rows], axis=1)
    worse = (best > 0) & (default < best - 1e-3 * np.abs(best))
    lines += [
        "",
        f"Below the best reference by more than 0.1 % of payoff: {int(worse.sum())} of {len(rows)} arrivals "
        f"({1 - worse.mean():.1%} are not).",
        "",
        *[f"- {text}" for w in walks for text in w.exceptions],
        "",
        f"    {command}",
    ]
    return "\n".join(lines) + "\n"


def rounding_table(walks: list[Walk], command: str) -> str:
    count = sum(len(w.draws[1.0]) for w in walks)
    lines = [
        "# How often a rounding is feasible",
        "",
        f"{count} relaxations met on the paper's workload ({JOBS} jobs, {MACHINES} machines, {HORIZON} slots, seeds "
        f"{walks[0].seed} to {walks[-1].seed}), {ATTEMPTS} draws of each, δ = {DELTA}. *Some draw* is the share of "
        "relaxations with at least one draw that packs and covers; cost is that of the first such draw, cut back to "
        "what is needed, over the optimum of the relaxation.",
        "",
        "| gain | mean G | packs | covers | both | some draw | cost |",
        "|---|---|---|---|---|---|---|",
    ]
    for gain in GAINS:
        table = np.array([row for w in walks for row in w.draws[gain]])
        over = table[:, 4][np.isfinite(table[:, 4])]
        cost = f"{over.mean():.4f}" if len(over) else "-"
        lines.append(
            f"| {gain} | {table[:, 0].mean():.3g} | {table[:, 1].mean():.1%} | {table[:, 2].mean():.1%} | "
            f"{table[:, 3].mean():.1%} | {(table[:, 3] > 0).mean():.1%} | {cost} |"
        )
    return "\n".join([*lines, "", f"    {command}"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("docs/results"))
    given = parser.parse_args()
    walks = []
    for seed in range(given.seeds):
        begin = time.perf_counter()
        walks.append(walk(seed))
        print(f"seed {seed}: {len(walks[-1].rows)} arrivals, {time.perf_counter() - begin:.0f} s", flush=True)
    given.out.mkdir(parents=True, exist_ok=True)
    command = f"python experiments/solvers.py --seeds {given.seeds} --out {given.out}"
    (given.out / "solvers.md").write_text(solvers_table(walks, command))
    (given.out / "rounding.md").write_text(rounding_table(walks, command))


if __name__ == "__main__":
    main()
