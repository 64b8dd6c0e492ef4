"""The command: from the file of a figure to its runs, its figure and its page."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest
import yaml
from lightning.pytorch.utilities.seed import isolate_rng

from gsdm_pyg.cli import main
from gsdm_pyg.paper.making import save
from gsdm_pyg.paper.runs import load_runs
from tests.cli.commands import refusal
from tests.helpers import (
    STUCK,
    assert_identical,
    exported_weights,
    files_of,
    finish,
    logged,
    start,
    train_here,
)
from tests.paper.figures import TINY, data_of, write_figure
from tests.training.runs import checkpoint_of
from tests.training.test_resume import STALLING


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def reproduce(*arguments: object) -> None:
    with isolate_rng():
        main(["reproduce", *map(str, arguments)])


def folders(runs: Path) -> list[Path]:
    return sorted(path.parent for path in runs.glob("*/result.json"))


@pytest.mark.slow
def test_figure_is_trained_once_drawn_and_drawn_again_from_its_json(tmp_path, capsys):
    path, out = write_figure(tmp_path), tmp_path / "out"
    reproduce(path, "--out", out, "--row", "kept")
    kept = folders(out / "runs")
    assert len(kept) == 2
    assert "Not run yet** (2): dropped" in (out / "tiny-laptop.md").read_text()
    times = [(folder / "result.json").stat().st_mtime_ns for folder in kept]

    reproduce(path, "--out", out)
    assert [(folder / "result.json").stat().st_mtime_ns for folder in kept] == times
    assert len(folders(out / "runs")) == 4
    text = (out / "tiny-laptop.md").read_text()
    for part in ("# Figure 0: a tiny one", "![", "That a figure can be made", "rmse"):
        assert part in text
    for link in re.findall(r"\]\((runs/[^)]+)\)", text):
        assert (out / link / "model").is_dir()
    assert text.count("](runs/") == 4
    assert "Kept is best." in capsys.readouterr().out
    for record in json.loads((out / "tiny-laptop.json").read_text())["records"]:
        assert len(record["scores"]["rmse"]) == len(record["chance"]["rmse"]) == 3
        assert record["steps"] == 4 and record["curve"]["steps"] == [2, 4]

    alone = tmp_path / "alone"
    alone.mkdir()
    (out / "tiny-laptop.json").rename(alone / "tiny-laptop.json")
    reproduce(path, "--out", alone, "--redraw")
    drawn, again = files_of(out), files_of(alone)
    assert drawn["tiny-laptop.png"] == again["tiny-laptop.png"]
    assert b"](runs/" not in again["tiny-laptop.md"]  # no runs are there to link
    # What was made before stays when it is made elsewhere without the runs.
    reproduce(path, "--out", alone, "--row", "dropped")
    (alone / "runs").rename(tmp_path / "moved")
    reproduce(path, "--out", alone, "--row", "dropped")
    assert len(folders(alone / "runs")) == 2
    records = json.loads((alone / "tiny-laptop.json").read_text())["records"]
    assert [r["row"] for r in records].count("kept") == 2


@pytest.mark.slow
def test_killed_sweep_goes_on_from_the_last_checkpoint(tmp_path):
    (tmp_path / "stalling.py").write_text(STALLING)
    base = {
        **TINY["base"],
        "problem": {"name": f"{tmp_path / 'stalling.py'}:Stalling", "m": 2, "k": 1},
        "trainer": {"max_steps": 12, "accelerator": "cpu", "checkpoint_every": 4},
    }
    base["evaluation"] = {**base["evaluation"], "every": None}
    panel = {"metric": "rmse", "base": {"problem": {"n": 3}}}
    changes = {"base": base, "panels": {"P": panel}, "rows": {"kept": {}}, "claims": []}
    path = write_figure(tmp_path, **changes)
    command = ["-m", "gsdm_pyg", "reproduce", path, "--out"]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    uninterrupted = start(*command, whole, cwd=tmp_path)

    stalled = tmp_path / "stalled"
    process = start(*command, killed, cwd=tmp_path, STALL=str(stalled))
    deadline = time.monotonic() + STUCK
    while not stalled.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run never came to its eighth step"
        time.sleep(0.05)
    process.kill()
    process.communicate()
    _, (run,) = load_runs(path, "laptop")
    folder = killed / "runs" / run.key
    assert checkpoint_of(folder)["global_step"] == 4
    assert not (folder / "result.json").exists()
    assert not (killed / "tiny-laptop.md").exists()

    finish(start(*command, killed, cwd=tmp_path))
    finish(uninterrupted)
    assert_identical(
        exported_weights(folder), exported_weights(whole / "runs" / run.key)
    )
    results = [
        json.loads((out / "runs" / run.key / "result.json").read_text())
        for out in (killed, whole)
    ]
    assert results[0]["scores"] == results[1]["scores"]


@pytest.mark.slow
def test_run_killed_before_its_first_checkpoint_begins_anew(tmp_path):
    path, out = write_figure(tmp_path), tmp_path / "out"
    _, runs = load_runs(path, "laptop", ["kept; 2"])
    folder = out / "runs" / runs[0].key
    (folder / "csv").mkdir(parents=True)
    (folder / "config.yaml").write_text("problem: {}")
    reproduce(path, "--out", out, "--row", "kept; 2")
    assert (folder / "result.json").is_file()


@pytest.mark.slow
def test_sigterm_stops_a_lane_after_a_checkpoint_and_the_sweep_goes_on_later(tmp_path):
    trainer = {"max_steps": 100_000, "accelerator": "cpu", "checkpoint_every": 2}
    path = write_figure(tmp_path, base={**TINY["base"], "trainer": trainer})
    out = tmp_path / "out"
    command = ["-m", "gsdm_pyg", "reproduce", path, "--out", out, "--lanes", "2"]
    process = start(*command, cwd=tmp_path)
    deadline = time.monotonic() + STUCK
    while len(list(out.glob("runs/*/checkpoints/last.ckpt"))) < 2:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.terminate()
    process.communicate(timeout=STUCK)
    assert process.returncode == 128 + signal.SIGTERM
    checkpoints = list(out.glob("runs/*/checkpoints/last.ckpt"))
    saved = [checkpoint_of(path.parents[1])["global_step"] for path in checkpoints]
    for path, step in zip(checkpoints, saved, strict=True):
        assert step >= max(logged(path.parents[1], "loss"), default=0)


@pytest.mark.slow
def test_train_py_trains_one_run_of_a_figure(tmp_path):
    path = write_figure(tmp_path)
    train_here(path, "--row", "dropped; 3", "seed=5", "--run-dir", tmp_path / "run")
    config = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert config["model"]["intermediates"] == "drop"
    assert (config["problem"]["n"], config["seed"]) == (3, 5)
    train_here(path, "--row", "kept; 3", "--scale", "paper")
    config = yaml.safe_load(Path("runs/tiny-kept-3/config.yaml").read_text())
    assert config["model"]["width"] == 16


@pytest.mark.slow
def test_forecast_counts_what_is_left_and_shares_equal_runs(tmp_path, capsys):
    limit = {"max_time": "00:01:30:00", "accelerator": "cpu"}
    base = {**TINY["base"], "trainer": limit}
    panels = {"BCMF": TINY["panels"]["BCMF"], "again": TINY["panels"]["BCMF"]}
    path = write_figure(tmp_path, base=base, panels=panels)
    reproduce(path, path, "--out", tmp_path / "out", "--forecast", "--lanes", 2)
    printed = capsys.readouterr().out
    assert "4 to do, 0 done" in printed
    assert re.search(r"kept; BCMF; 2; seed 0: 90\.\d min, about [\d,]+ steps", printed)
    assert "in all: 3.0 hours in 2 lanes" in printed
    assert not (tmp_path / "out").exists()


def test_page_of_other_scale_or_without_json_cannot_be_redrawn(tmp_path):
    path, out = write_figure(tmp_path), tmp_path / "out"
    message = refusal("reproduce", path, "--out", out, "--redraw")
    assert "There is no" in message and "without --redraw first" in message
    (out).mkdir()
    (out / "tiny-laptop.json").write_text("{")
    assert "is damaged" in refusal("reproduce", path, "--out", out, "--redraw")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--row", "kep"], "did you mean 'kept'?"),
        (["--lanes", "0"], "--lanes must be at least 1 (got 0)."),
        (["--set", "model.widht=8"], "did you mean 'width'?"),
    ],
)
def test_wrong_arguments_end_in_one_line(tmp_path, arguments, message):
    assert message in refusal("reproduce", write_figure(tmp_path), *arguments)


def test_train_without_a_row_names_the_choice(tmp_path):
    path = write_figure(tmp_path)
    assert "name one with --row" in refusal("train", path)
    assert "did you mean 'dropped'" in refusal("train", path, "--row", "droped")


def test_data_that_is_saved_reads_back_equal(tmp_path):
    data = data_of({("3", "kept"): [[0.25, 0.5]], ("3", "dropped"): [[0.75, 1.0]]})
    save(data, tmp_path / "data.json")
    assert data.load(tmp_path / "data.json", data.figure) == data
