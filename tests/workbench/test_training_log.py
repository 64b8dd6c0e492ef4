"""A run folder while it grows: half a line, several starts, long logs, pictures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsdm_pyg.workbench import training_log
from gsdm_pyg.workbench.subject import Subject
from gsdm_pyg.workbench.training_log import find_picture, read_training
from problems import BCMF
from tests.helpers import tiny_model
from tests.workbench.asking import client_of, refusal

HEAD = "BCMF(m=2)/rmse,epoch,loss,lr,nodes/s,step\n"


@pytest.fixture
def run(tmp_path) -> Path:
    (tmp_path / "csv" / "version_0").mkdir(parents=True)
    (tmp_path / "pictures").mkdir()
    return tmp_path


def write_log(run: Path, text: str, version: int = 0) -> Path:
    path = run / "csv" / f"version_{version}" / "metrics.csv"
    path.parent.mkdir(exist_ok=True)
    path.write_text(HEAD + text)
    return path


def test_nothing_to_read_yet_is_no_error(run):
    assert read_training(None) == {"run": None, "step": 0, "curves": {}}
    assert read_training(run)["curves"] == {}
    write_log(run, "")
    assert read_training(run)["step"] == 0


def test_curves_have_the_loss_and_each_metric_and_leave_out_half_a_line(run):
    write_log(run, ",0,0.5,0.1,9,49\n,0,0.25,0.1,9,99\n0.7,0,,,,99\n,0,0.125,0.1,9,1")
    found = read_training(run)
    assert found["curves"] == {
        "loss": [[49, 0.5], [99, 0.25]],
        "BCMF(m=2)/rmse": [[99, 0.7]],
    }
    assert found["step"] == 100
    assert not found["finished"]


def test_what_is_no_number_leaves_a_gap(run):
    write_log(run, ",0,nan,0.1,9,49\n,0,x,0.1,9,99\n,0,0.5,0.1,9,149\n,,,,,\nx,x\n")
    assert read_training(run)["curves"] == {"loss": [[149, 0.5]]}


def test_the_newest_start_of_a_resumed_run_is_shown(run):
    old = write_log(run, ",0,0.5,0.1,9,49\n")
    write_log(run, ",0,0.25,0.1,9,99\n", version=1)
    os.utime(old, (1, 1))
    assert read_training(run)["curves"]["loss"] == [[99, 0.25]]


def test_long_curves_are_thinned_to_means(run):
    write_log(run, "".join(f",0,{i % 2},0.1,9,{i}\n" for i in range(6000)))
    loss = read_training(run)["curves"]["loss"]
    assert len(loss) == training_log.MOST_POINTS
    assert {value for _, value in loss} == {0.5}
    assert loss[-1][0] == 5999


def test_only_the_end_of_a_huge_log_is_read(run, monkeypatch):
    monkeypatch.setattr(training_log, "MOST_BYTES", 200)
    write_log(run, "".join(f",0,1.0,0.1,9,{i}\n" for i in range(1000)))
    steps = [step for step, _ in read_training(run)["curves"]["loss"]]
    assert steps == list(range(steps[0], 1000)) and len(steps) < 20


def test_pictures_are_the_newest_and_nothing_else_of_the_folder(run):
    for i in range(training_log.MOST_PICTURES + 2):
        path = run / "pictures" / f"{i}.png"
        path.write_bytes(b"picture")
        os.utime(path, (i, i))
    (run / "config.yaml").write_text("seed: 0")
    write_log(run, "")
    names = read_training(run)["pictures"]
    assert names[0] == f"{training_log.MOST_PICTURES + 1}.png"
    assert len(names) == training_log.MOST_PICTURES
    assert find_picture(run, names[0]) == run / "pictures" / names[0]
    for name in ("0.png", "../config.yaml", "config.yaml", "/etc/passwd", ""):
        assert find_picture(run, name) is None


def test_the_page_follows_a_run_from_before_it_begins_until_it_has_a_model(tmp_path):
    problem, folder = BCMF(m=2, n=3, k=2), tmp_path / "run"
    subject = Subject(
        "config", problem, find_run=lambda: folder if folder.is_dir() else None
    )
    with client_of(subject) as client:
        assert client.get("/api/training").json()["run"] is None
        (folder / "csv").mkdir(parents=True)
        write_log(folder, ",0,0.5,0.1,9,49\n")
        assert client.get("/api/training").json()["step"] == 50
        refusal(client.get("/api/training/pictures/a.png"), 404)
        (folder / "pictures").mkdir()
        (folder / "pictures" / "a.png").write_bytes(b"picture")
        assert client.get("/api/training/pictures/a.png").content == b"picture"
        (folder / "model").mkdir()
        (folder / "model" / "config.json").write_text("{")
        assert client.get("/api/problem").json()["model"] is None  # and no error
        tiny_model(problem).save_pretrained(folder / "model")
        os.utime(folder / "model" / "config.json", (1, 1))
        assert client.get("/api/problem").json()["model"] is not None
        response = client.post("/api/sample", json={"steps": 2})
        assert '"done"' in response.text
