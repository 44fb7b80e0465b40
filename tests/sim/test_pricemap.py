"""A price map holds the prices of the last decision, slot by slot, in few rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from slotwise.policies import catalogue
from slotwise.policies._base import CommitAtArrival, Policy, State
from slotwise.sim import pricemap
from slotwise.sim.binning import bins
from slotwise.sim.pricemap import WHOLE, PriceMap
from slotwise.sim.simulator import simulate
from slotwise.workloads.synthetic import paper


def watched(name: str, machines: int = 6, horizon: int = 20) -> tuple[PriceMap, dict[tuple[int, int, str], float]]:
    """Return a map, and the price of each (slot, machine, resource) by the formula, written out."""
    workload = paper(30, machines, horizon, 1)
    assert workload.cluster is not None
    found = PriceMap(horizon, machines)
    plain: dict[tuple[int, int, str], float] = {}

    def watch(slot: int, policy: Policy, state: State) -> None:
        found.see(slot, policy, state)
        if not isinstance(policy, CommitAtArrival) or (terms := policy.terms(state)) is None:
            return
        cluster, prices = terms.ledger.cluster, terms.prices
        # As the last decision saw this slot ahead of it.
        ahead = slot - prices.slot
        low = prices.log_low + (prices.relief[ahead] if ahead < len(prices.relief) else 0.0)
        for machine in range(machines):
            whole = 0.0
            for r, resource in enumerate(cluster.resources):
                # The mark of machines for servers is no resource.
                if prices.log_ratio[r] == 0 or resource == "server":
                    continue
                capacity = terms.ledger.view.capacity[machine, r]
                share = terms.ledger.used(slot)[machine, r] / capacity if capacity > 0 else 1.0
                high = prices.log_low[r] + prices.log_ratio[r]
                price = math.exp(low[r] + (high - low[r]) * share) * cluster.capacity[machine, r]
                plain[slot, machine, resource] = price
                whole += price
            plain[slot, machine, WHOLE] = whole

    sizes = {"horizon": horizon, "slot_seconds": workload.slot_seconds}
    policy = catalogue.make(name, workload.cluster, workload.jobs, horizon=horizon, slot_seconds=sizes["slot_seconds"])
    simulate(policy, workload.cluster, workload.jobs, horizon=horizon, slot_seconds=sizes["slot_seconds"], watch=watch)
    return found, plain


@pytest.mark.parametrize("name", ["pdors", "oasis"])
def test_prices_are_those_of_the_formula(name: str) -> None:
    found, plain = watched(name)

    rows = found.rows
    assert {(row["first_slot"], row["first_machine"], row["resource"]) for row in rows} == set(plain)
    for row in rows:
        assert (row["last_slot"], row["last_machine"]) == (row["first_slot"], row["first_machine"])
        wanted = plain[row["first_slot"], row["first_machine"], row["resource"]]
        assert row["price"] == pytest.approx(wanted, rel=1e-9, abs=1e-300)


def test_many_machines_and_slots_become_means_of_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pricemap, "MOST_MACHINES", 4)
    monkeypatch.setattr(pricemap, "MOST_SLOTS", 7)
    found, plain = watched("pdors", machines=5)

    rows = found.rows
    priced = {slot // 3 * 3 for slot, _, _ in plain}
    assert {(row["first_slot"], row["last_slot"]) for row in rows} == {(first, min(first + 2, 19)) for first in priced}
    assert {(row["first_machine"], row["last_machine"]) for row in rows} == {(0, 1), (2, 3), (4, 4)}
    for row in rows:
        group = [
            plain[slot, machine, row["resource"]]
            for slot in range(row["first_slot"], row["last_slot"] + 1)
            for machine in range(row["first_machine"], row["last_machine"] + 1)
            if (slot, machine, row["resource"]) in plain
        ]
        assert row["price"] == pytest.approx(np.mean(group), rel=1e-9)


def test_a_policy_without_prices_has_no_rows() -> None:
    found, plain = watched("drf")
    assert (found.rows, plain) == ([], {})


@pytest.mark.parametrize(("count", "most"), [(1, 1), (7, 3), (60, 60), (61, 60), (500, 60), (0, 5)])
def test_bins_cover_everything_once(count: int, most: int) -> None:
    found = bins(count, most)
    assert [i for first, end in found for i in range(first, end)] == list(range(count))
    assert len(found) <= most
    assert len({end - first for first, end in found[:-1]}) <= 1
