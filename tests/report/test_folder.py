"""The folder of a comparison holds what is finished, and nothing else counts as finished."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars
import pytest

from slotwise.errors import InvalidInput
from slotwise.report.folder import Folder, read_events, read_settings
from slotwise.sim.compare import Conditions, play
from slotwise.sim.outcomes import Bounded, Outcome
from slotwise.workloads.synthetic import paper

SETTINGS = {"workload": "paper", "jobs": 20, "prices": "learnt"}


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, int], Outcome | Bounded]:
    wanted: list[tuple[str | None, int]] = [(name, seed) for name in ("fifo", "drf", None) for seed in (0, 1)]
    found = play(lambda seed: paper(20, 5, 20, seed), wanted, Conditions(), events=True, processes=1)
    return {
        (o.policy if isinstance(o, Outcome) else "bound", o.seed): o for o in found if isinstance(o, Outcome | Bounded)
    }


Made = dict[tuple[str, int], Outcome | Bounded]


def test_tables_hold_each_run_and_each_job(tmp_path: Path, made: Made) -> None:
    folder = Folder(tmp_path / "out", SETTINGS)
    for finished in made.values():
        folder.keep(finished)

    summary = folder.finish(["fifo", "drf"])

    runs = polars.read_parquet(folder.path / "runs.parquet")
    jobs = polars.read_parquet(folder.path / "jobs.parquet")
    assert runs.select("policy", "seed").rows() == [("fifo", 0), ("fifo", 1), ("drf", 0), ("drf", 1)]
    assert len(jobs) == 4 * 20
    for row in runs.to_dicts():
        outcome, bound = made[row["policy"], row["seed"]], made["bound", row["seed"]]
        assert isinstance(outcome, Outcome)
        assert isinstance(bound, Bounded)
        of_run = jobs.filter(polars.col("policy") == row["policy"], polars.col("seed") == row["seed"])
        assert of_run["job_id"].to_list() == list(outcome.run.records)
        # Sums from the jobs are those of the run.
        assert of_run["utility"].sum() == pytest.approx(row["total_utility"], rel=1e-12)
        assert of_run["completed"].count() == row["completed"]
        assert row["fraction_of_bound"] == pytest.approx(row["total_utility"] / bound.value)
        assert row["workload_digest"] == outcome.digest == bound.digest
    assert polars.read_csv(folder.path / "summary.csv")["policy"].to_list() == summary["policy"].to_list()
    assert any(event["kind"] == "JobArrived" for event in read_events(folder.path, "drf", 1))
    assert read_settings(folder.path) == SETTINGS


def test_goes_on_with_what_is_missing(tmp_path: Path, made: Made) -> None:
    Folder(tmp_path, SETTINGS).keep(made["fifo", 0])

    again = Folder(tmp_path, SETTINGS)

    assert again.has("fifo", 0)
    assert not again.has("fifo", 1)
    assert not again.has("drf", 0)
    assert not again.has(None, 0)


def test_a_run_whose_row_was_cut_off_is_made_again(tmp_path: Path, made: Made) -> None:
    folder = Folder(tmp_path, SETTINGS)
    folder.keep(made["fifo", 0])
    row = tmp_path / "parts/fifo-0.json"
    row.write_bytes(row.read_bytes()[:50])

    assert not folder.has("fifo", 0)
    with_it = Folder(tmp_path, SETTINGS)
    with_it.keep(made["drf", 0])
    assert with_it.finish(["fifo", "drf"])["policy"].to_list() == ["drf"]


def test_a_policy_of_ones_own_that_has_changed_runs_again(tmp_path: Path, made: Made) -> None:
    folder = Folder(tmp_path, SETTINGS)
    folder.keep(made["fifo", 0], "first text")

    assert folder.has("fifo", 0, "first text")
    assert not folder.has("fifo", 0, "second text")


def test_other_settings_are_refused_with_what_differs(tmp_path: Path) -> None:
    Folder(tmp_path, SETTINGS)

    with pytest.raises(InvalidInput, match="holds runs with jobs 20, now it is 30; name another folder"):
        Folder(tmp_path, SETTINGS | {"jobs": 30})
    with pytest.raises(InvalidInput, match='holds runs with slot not given, now it is "1h"'):
        Folder(tmp_path, SETTINGS | {"slot": "1h"})


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, write: Callable[..., Path]) -> None:
    write("precious", name="thesis.tex")

    with pytest.raises(InvalidInput, match="must be a new folder or one of slotwise compare"):
        Folder(tmp_path, SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_the_way_is_refused(tmp_path: Path, write: Callable[..., Path]) -> None:
    taken = write("text", name="out")

    with pytest.raises(InvalidInput, match="must be a folder that can be written"):
        Folder(taken, SETTINGS)


def test_names_that_no_file_may_have_stay_apart(tmp_path: Path, made: Made) -> None:
    outcome = made["fifo", 0]
    assert isinstance(outcome, Outcome)
    folder = Folder(tmp_path, SETTINGS)
    names = ["mine:Best", "mine_Best", "mine/Best", "bound"]
    for name in names:
        assert not folder.has(name, 0)
        folder.keep(Outcome(name, 0, outcome.digest, outcome.run, b"", [], 0.0))
    assert all(folder.has(name, 0) for name in names)
    assert not folder.has(None, 0), "a policy called bound is not the bound"
    assert folder.finish(names)["policy"].to_list() == names


@pytest.mark.parametrize("name", ["parts/fifo-0.jobs.parquet", "parts/fifo-0.slots.parquet", "events/fifo-0.jsonl.gz"])
def test_a_run_of_which_a_file_is_gone_is_made_again(tmp_path: Path, made: Made, name: str) -> None:
    folder = Folder(tmp_path, SETTINGS)
    folder.keep(made["fifo", 0])
    folder.keep(made["drf", 0])
    (tmp_path / name).unlink()

    assert not folder.has("fifo", 0)
    assert folder.finish(["fifo", "drf"])["policy"].to_list() == ["drf"]
