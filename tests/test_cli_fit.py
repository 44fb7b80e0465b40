"""``slotwise fit``: YAML for job files, one document of JSON, pictures, one line for bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from slotwise.cli import main
from slotwise.workloads import jobs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Two models, one with servers and one failed run, one without servers."""
    lines = ["model,workers,servers,samples_per_second,batch,placement"]
    for w in (1, 2, 4):
        for s in (1, 2, 3):
            lines.append(f"ps,{w},{s},{64 / (0.2 + 0.004 * 64 / w + 0.3 * w / s + 0.01 * s + 0.02 * w)},64,")
    lines.append("ps,8,1,0,64,")
    for w in (1, 2, 4, 8):
        for b in (4, 16):
            for place, k in (("machine", 0.1), ("cluster", 1.0)):
                seconds = 0.1 + 2e-7 * b + (0.05 + 0.4 * k) * (w - 1) / w + 0.003 * (w - 1)
                lines.append(f"ring,{w},0,{w * b / seconds},{w * b},{place}")
    path = tmp_path / "speeds.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["fit", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["fit", *arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_yaml_is_a_document_for_each_model(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    assert main(["fit", str(rows)]) == 0
    out = capsys.readouterr().out
    first, second = yaml.safe_load_all(out)
    assert first["speed"].pop("kind") == "fitted"
    assert first["speed"] == pytest.approx(
        {"overhead": 0.2, "compute": 0.004, "transfer": 0.3, "perServer": 0.01, "perWorker": 0.02}, rel=1e-5
    )
    assert second["speed"].pop("kind") == "fitted-all-reduce"
    expected = {"overhead": 0.1, "sync": 0.05, "transfer": 0.4, "perWorker": 0.003, "bandwidth": 625.0}
    assert second["speed"] == pytest.approx(expected | {"compute": 2e-7}, rel=1e-4)
    assert "# ps: 9 rows in 9 configurations, 1 failed run skipped" in out
    assert "# leave-one-out error 0.0%" in out
    assert "# measured: workers 1 ... 4, servers 1 ... 3, batch 64" in out


def test_json_has_what_was_measured_and_fitted(capsys: pytest.CaptureFixture[str], rows: Path) -> None:
    found = printed(capsys, str(rows))
    first, second = found["models"]
    assert (first["name"], first["mode"], first["batch"], first["rows"], first["skipped"]) == ("ps", None, 64.0, 9, 1)
    assert first["leave_one_out_error"] == pytest.approx(0.0, abs=1e-6)
    assert first["bandwidth"] is None
    assert second["batch"] is None
    assert second["measured"] == {"workers": [1, 8], "servers": [0, 0], "batch": [4.0, 128.0]}


def test_bandwidths_of_the_cluster_that_was_measured_are_an_option(
    capsys: pytest.CaptureFixture[str], rows: Path
) -> None:
    speed = printed(capsys, str(rows), "--bandwidth", "8Gbps,0.8Gbps")["models"][1]
    assert speed["bandwidth"] == 100.0
    assert speed["coefficients"]["transfer"] == pytest.approx(0.4, rel=1e-4)


@pytest.mark.parametrize("value", ["5Gbps", "1,2,3", "x,1", "1Gbps,2Gbps", "0,0"])
def test_bandwidths_that_make_no_sense_are_refused(capsys: pytest.CaptureFixture[str], rows: Path, value: str) -> None:
    assert "--bandwidth" in refused(capsys, str(rows), "--bandwidth", value)


def test_warnings_go_to_standard_error_and_into_the_comments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "one.csv"
    path.write_text("workers,servers,samples/s,batch\n" + "".join(f"{w},1,{9 + w % 3},64\n" for w in range(1, 12)))
    assert main(["fit", str(path)]) == 0
    captured = capsys.readouterr()
    assert "slotwise: one: perServer cannot be told from overhead" in captured.err
    assert "# warning: perServer cannot be told from overhead" in captured.out


def test_out_is_written_whole(capsys: pytest.CaptureFixture[str], rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "models.yaml"
    assert main(["fit", str(rows), "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert len(list(yaml.safe_load_all(out.read_text()))) == 2
    assert {path.name for path in tmp_path.iterdir()} == {"speeds.csv", "models.yaml"}
    assert "must not be a file that is read" in refused(capsys, str(rows), "--out", str(rows))


@pytest.mark.parametrize(("name", "begins"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("A.PNG", b"\x89PNG")])
def test_plots_are_pictures_and_alike_in_two_runs(rows: Path, tmp_path: Path, name: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    first, second = tmp_path / name, tmp_path / f"again{Path(name).suffix}"
    for path in (first, second):
        assert main(["fit", str(rows), "--plot", str(path)]) == 0
    assert first.read_bytes().startswith(begins)
    assert first.read_bytes() == second.read_bytes()


def test_plots_of_another_format_or_over_another_file_are_refused(
    capsys: pytest.CaptureFixture[str], rows: Path, tmp_path: Path
) -> None:
    assert "--plot must be a .png or .svg file" in refused(capsys, str(rows), "--plot", "a.pdf")
    same = str(tmp_path / "a.svg")
    assert "must be two files" in refused(capsys, str(rows), "--plot", same, "--out", same)


def test_without_matplotlib_the_error_names_the_extra(
    capsys: pytest.CaptureFixture[str], rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "slotwise[plot]" in refused(capsys, str(rows), "--plot", "a.svg")


def test_bad_rows_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "speeds.csv"
    path.write_text("workers,servers,samples_per_second,batch\n1,1,-1,64\n")
    assert f"{path}:2: samples_per_second must be a number >= 0, got -1" in refused(capsys, str(path))
    assert "there is none" in refused(capsys, str(tmp_path / "none.csv"))


def test_out_is_no_file_of_the_folder_that_is_read(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "net"
    folder.mkdir()
    profile = folder / "placements-a.csv"
    rows = [
        f"{place},{b},{0.1 + 0.01 * b + 0.02 * len(place)},0.01" for place in ("1", "2", "11", "111") for b in (1, 2)
    ]
    profile.write_text("placement,local_bsz,step_time,sync_time\n" + "\n".join(rows) + "\n")
    before = profile.read_text()
    assert "must not be a file that is read" in refused(capsys, str(folder), "--out", str(profile))
    assert profile.read_text() == before


def test_links_that_go_round_in_a_circle_are_one_line(
    capsys: pytest.CaptureFixture[str], rows: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    for name in ("loop.yaml", "loop.svg"):
        (tmp_path / name).symlink_to(tmp_path / name)
    refused(capsys, str(rows), "--out", str(tmp_path / "loop.yaml"), "--plot", str(tmp_path / "loop.svg"))


def test_a_file_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "must be in a file or a folder that is named" in refused(capsys, "")


def test_what_is_printed_goes_into_a_job_file(capsys: pytest.CaptureFixture[str], rows: Path, tmp_path: Path) -> None:
    assert main(["fit", str(rows)]) == 0
    first, second = capsys.readouterr().out.split("---\n")
    head = "apiVersion: slotwise/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec:\n  epochs: 1\n  samples: 9\n"
    rest = "  batchSize: 64\n  worker: {resources: {gpu: 1}}\n"
    for text, servers in ((first, "  server: {resources: {cpu: 1}}\n"), (second, "")):
        path = tmp_path / "job.yaml"
        path.write_text(head + text + rest + servers)
        (job,) = jobs.read(path, slot_seconds=60.0).jobs
        assert job.most_workers == (4 if servers else 8)
        assert job.max_servers == (3 if servers else None)
