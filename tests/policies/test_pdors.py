from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import HOUR, completions, decisions, drawn, elastic, gang, machines, orders, play, policy

from slotwise.events import Admit, JobArrived, Launch, MachineLost, Progressed, Reject, SlotOpened, Stop
from slotwise.model.cluster import Cluster, Machine
from slotwise.model.schedule import Reason
from slotwise.model.utility import Deadline, Linear, Sigmoid
from slotwise.optim.bound import upper_bound
from slotwise.scheduler import Scheduler
from slotwise.sim.simulator import simulate
from slotwise.workloads.traces import read_trace

TWO_RESNETS = """
apiVersion: slotwise/v1
kind: TrainingJob
metadata: {name: soon}
spec:
  epochs: 10
  samples: 1281167
  batchSize: 1024
  gradientMB: 98
  secondsPerSample: 0.003
  maxWorkers: 16
  worker: {resources: {cpu: 4, memory: 32Gi, gpu: 1}}
  utility: {kind: sigmoid, value: 80, urgencyPerHour: 1, target: 3h}
---
apiVersion: slotwise/v1
kind: TrainingJob
metadata: {name: some-time}
spec:
  epochs: 10
  samples: 1281167
  batchSize: 1024
  gradientMB: 98
  secondsPerSample: 0.003
  maxWorkers: 8
  worker: {resources: {cpu: 4, memory: 32Gi, gpu: 1}}
"""


def admitted(cluster: Cluster, prices: str, *jobs: tuple[float, float]) -> list[bool]:
    """Whether jobs of one-worker gangs, (slots, value) each, got in; their value does not fall."""
    listed = [gang(f"j{i}", 1, slots, utility=Sigmoid(2.0 * value, 0.0, 0.0)) for i, (slots, value) in enumerate(jobs)]
    _, log = play("pdors", cluster, listed, 10, prices=prices)
    return [isinstance(item, Admit) for item in decisions(log)]


def test_a_job_is_in_exactly_if_it_is_worth_more_than_an_empty_machine_costs() -> None:
    """An empty one-GPU machine costs 3 a slot, so two slots cost 6."""
    assert admitted(machines({"gpu": 1.0}), "scale=3", (2, 6.001)) == [True]
    assert admitted(machines({"gpu": 1.0}), "scale=3", (2, 5.999)) == [False]


def test_an_equal_worth_and_cost_is_no_payoff() -> None:
    assert admitted(machines({"gpu": 1.0}), "scale=3", (2, 6.0)) == [False]


def test_the_cost_is_that_of_the_use_before_the_job() -> None:
    """Price of a GPU: 1 (U / 1)^(used / 2) on a machine of two, with U = 16: 1, then 4, then full."""
    cluster = machines({"gpu": 2.0})
    jobs = [gang(f"j{i}", 1, utility=Deadline(16.0, 0.0)) for i in range(3)]

    _, log = play("pdors", cluster, jobs, 1, prices="scale=2")

    first, second, third = decisions(log)
    assert isinstance(first, Admit)
    assert isinstance(second, Admit)
    assert [first.cost, second.cost] == pytest.approx([1.0, 4.0])
    assert isinstance(third, Reject)
    assert third.reason is Reason.PRICED_OUT


def test_a_worthier_job_pushes_a_lesser_one_to_a_later_slot_but_not_out() -> None:
    cluster = machines({"gpu": 1.0})
    jobs = [gang("a", 1, 2, utility=Linear(10.0, 100.0)), gang("b", 1, 1, utility=Linear(90.0, 100.0))]

    _, log = play("pdors", cluster, jobs, 6)

    assert completions(log) == {"a": 1, "b": 2}


def test_a_job_stays_on_its_machine_when_an_equal_one_becomes_free() -> None:
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0})

    _, log = play("pdors", cluster, [gang("a", 1, 1), gang("b", 1, 3)], 4)

    assert completions(log) == {"a": 0, "b": 2}
    assert [type(order) for order in orders(log)] == [Launch, Launch]


@pytest.mark.parametrize(("value", "answer"), [(2.0, Reject), (3.0, Admit)])
def test_with_learnt_prices_a_job_below_the_base_stays_out(value: float, answer: type) -> None:
    """Three machines, X = 0.5: one and a half machine-slots are offered at slot 0; the second job exceeds them.

    Its density is 5, of which half counts in the first slot.
    """
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0}, {"gpu": 1.0})
    jobs = [gang(f"j{i}", 1, utility=Deadline(v, 0.0)) for i, v in enumerate((5.0, 50.0, value))]

    _, log = play("pdors", cluster, jobs, 2, prices="learnt=0.5")

    assert [type(item) for item in decisions(log)] == [Admit, Admit, answer]


def test_with_learnt_prices_an_idle_cluster_takes_a_job_worth_less_than_all_before() -> None:
    """One machine: 0.6 slots are offered by slot 3, at a density of 100; the third job comes while the second runs."""
    cluster = machines({"gpu": 1.0})
    jobs = [
        gang("dense", 1, 1, utility=Deadline(100.0, 0.0)),
        gang("poor", 1, 2, arrival=3, utility=Deadline(1.0, 1.0)),
        gang("late", 1, 2, arrival=3, utility=Deadline(2.0, 3.0)),
    ]

    _, log = play("pdors", cluster, jobs, 9, prices="learnt")

    assert [type(item) for item in decisions(log)] == [Admit, Admit, Reject]


def test_with_learnt_prices_long_jobs_in_the_first_slot_are_not_priced_out_of_idle_machines(tmp_path: Path) -> None:
    """Two trainings of hours at the start on 32 GPUs: the second was turned away, however much it was worth."""
    path = tmp_path / "jobs.yaml"
    path.write_text(TWO_RESNETS)
    work = read_trace(path, "10min")
    cluster = Cluster.of(
        [Machine(f"a100-{i}", {"gpu": 8.0, "cpu": 96.0, "memory": 1024.0}) for i in range(2)]
        + [Machine(f"v100-{i}", {"gpu": 4.0, "cpu": 32.0, "memory": 256.0}) for i in range(4)]
    )
    run = simulate("pdors", cluster, work.jobs, horizon=work.horizon, slot_seconds=work.slot_seconds)
    assert [record.admitted for record in run.records.values()] == [True, True]
    bound = upper_bound(work.jobs, cluster, horizon=work.horizon, slot_seconds=work.slot_seconds)
    assert run.total_utility >= 0.95 * bound.value


def test_with_learnt_prices_a_cluster_is_idle_as_soon_as_its_last_job_has_ended() -> None:
    cluster = machines({"gpu": 1.0})

    _, log = play("pdors", cluster, [gang("a", 1, 1), gang("b", 1, 3, arrival=1)], 6, prices="learnt")

    assert completions(log) == {"a": 0, "b": 3}


@pytest.mark.parametrize("spread", [0.0, 1e-9, 0.01])
def test_with_learnt_prices_jobs_all_alike_do_not_price_each_other_out(spread: float) -> None:
    """Each is the threshold job; a base price of their own density would turn all of them away from idle machines."""
    cluster = Cluster.uniform(4, gpu=1)
    jobs = [gang(f"j{i}", 1, 1, utility=Linear(10.0 + spread * i, 1000.0)) for i in range(12)]

    run, _ = play("pdors", cluster, jobs, 3, prices="learnt")

    assert run.summary()["completed"] == 12


@pytest.mark.parametrize("prices", ["learnt", "scale=1"])
def test_a_payoff_is_positive_for_every_job_that_is_in(prices: str) -> None:
    cluster, jobs = drawn(80, 10, 16, 4)

    _, log = play("pdors", cluster, jobs, 16, prices=prices, slot_seconds=HOUR)

    inside = [item for item in decisions(log) if isinstance(item, Admit)]
    assert inside
    assert all(item.utility - item.cost > 1e-9 * item.utility for item in inside)


def test_a_reason_says_what_the_best_schedule_is_worth_and_costs() -> None:
    _, log = play("pdors", machines({"gpu": 1.0}), [gang("a", 1, 2, utility=Deadline(5.9, 3.0))], 6, prices="scale=3")

    (refused,) = decisions(log)
    assert isinstance(refused, Reject)
    assert refused.reason is Reason.PRICED_OUT
    assert refused.detail == "its best schedule ends in slot 1, is worth 5.9 and costs 6"


def test_after_a_lost_machine_a_promise_is_kept_even_where_it_no_longer_pays() -> None:
    """A GPU costs 70 a slot; finishing in slot 2, the first that is left, is worth 50."""
    cluster = machines({"gpu": 1.0}, {"gpu": 1.0})
    scheduler = Scheduler(cluster, policy("pdors", cluster, "scale=70"), slot_seconds=1.0, horizon=8)
    (first,) = scheduler.handle(JobArrived(0, gang("b", 1, 2, utility=Deadline(200.0, 1.0))))
    (second,) = scheduler.handle(JobArrived(0, gang("a", 1, 1, utility=Linear(100.0, 4.0))))
    assert isinstance(first, Admit)
    assert isinstance(second, Admit)
    assert scheduler.schedules["b"].placements[0].machines == scheduler.schedules["b"].placements[1].machines == (0,)
    assert scheduler.schedules["a"].placements[0].machines == (1,)

    (command,) = scheduler.handle(MachineLost(0, "m1"))

    assert isinstance(command, Admit)
    assert (command.job_id, command.completion, command.utility) == ("a", 2, 50.0)
    assert command.cost == pytest.approx(70.0)


def test_after_the_last_machine_is_lost_every_promise_is_taken_back() -> None:
    cluster = machines({"gpu": 1.0})
    scheduler = Scheduler(cluster, policy("pdors", cluster), slot_seconds=1.0, horizon=8)
    scheduler.handle(JobArrived(0, gang("a", 1, 2)))
    scheduler.handle(SlotOpened(0))

    stop, reject = scheduler.handle(MachineLost(0, "m0"))

    assert stop == Stop(0, "a")
    assert reject == Reject(0, "a", Reason.MACHINE_LOST, "what is left of the cluster cannot train the rest in time")


def test_a_new_plan_trains_only_what_is_left() -> None:
    cluster = machines({"gpu": 2.0}, {"gpu": 2.0})
    scheduler = Scheduler(cluster, policy("pdors", cluster), slot_seconds=1.0, horizon=20)
    scheduler.handle(JobArrived(0, elastic("a", 8.0, 2)))
    scheduler.handle(SlotOpened(0))
    scheduler.handle(Progressed(0, "a", 2.0))

    (command,) = scheduler.handle(MachineLost(0, "m0"))

    # Six samples are left at two a slot: slots 1, 2 and 3.
    assert isinstance(command, Admit)
    assert command.completion == 3
    assert sum(scheduler.schedules["a"].samples) == pytest.approx(6.0)
