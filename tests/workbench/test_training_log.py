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
        "loss": [(49, 0.5), (99, 0.25)],
        "BCMF(m=2)/rmse": [(99, 0.7)],
    }
    assert found["step"] == 100
    assert not found["finished"]


def test_what_is_no_number_leaves_a_gap(run):
    write_log(run, ",0,nan,0.1,9,49\n,0,x,0.1,9,99\n,0,0.5,0.1,9,149\n,,,,,\nx,x\n")
    assert read_training(run)["curves"] == {"loss": [(149, 0.5)]}
    write_log(run, ",0,0.5,0.1,9,49\n,0,nan,0.1,9,99\n")
    assert read_training(run)["step"] == 100


DAMAGED = {
    "superscript": ",0,0.5,0.1,9,\u00b2\n",
    "other digits": ",0,0.5,0.1,9,\u0663\n",
    "many digits": f",0,0.5,0.1,9,{'9' * 5000}\n",
    "negative": ",0,0.5,0.1,9,-1\n",
    "long field": f",0,{'1' * 200_000},0.1,9,99\n",
    "open quote": ',0,"0.5,0.1,9,99\n',
    "zeros": "\0" * 1000 + "\n",
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_damaged_line_is_left_out(run, case):
    write_log(run, ",0,0.5,0.1,9,49\n" + DAMAGED[case] + ",0,0.25,0.1,9,149\n")
    found = read_training(run)
    assert found["curves"] == {"loss": [(49, 0.5), (149, 0.25)]}
    assert found["step"] == 150


def test_a_damaged_header_is_no_error(run):
    write_log(run, "").write_text("1" * 200_000 + "\n,0,0.5,0.1,9,49\n")
    assert read_training(run)["curves"] == {}


def test_files_that_vanish_while_they_are_read_are_left_out(run, monkeypatch):
    kept = write_log(run, ",0,0.5,0.1,9,49\n")
    unreadable = write_log(run, ",0,0.5,0.1,9,99\n", version=1)
    gone = [run / "csv" / "version_2" / "metrics.csv", run / "pictures" / "b.png"]
    (run / "pictures" / "a.png").write_bytes(b"picture")
    glob = Path.glob

    def glob_too_early(folder, pattern):
        return [*glob(folder, pattern), *(p for p in gone if p.is_relative_to(folder))]

    def open_too_late(path, mode):
        if path == unreadable:
            raise FileNotFoundError(path)
        return Path(path).open(mode)

    monkeypatch.setattr(Path, "glob", glob_too_early)
    monkeypatch.setattr(training_log, "open", open_too_late, raising=False)
    found = read_training(run)
    assert found["curves"] == {"loss": [(49, 0.5)]} and kept.is_file()
    assert list(found["pictures"]) == ["a.png"]

    def fail(folder, pattern):
        raise FileNotFoundError(folder)

    monkeypatch.setattr(Path, "glob", fail)
    assert read_training(run)["curves"] == {}


def test_the_logs_of_all_starts_are_joined_where_the_later_one_begins(run):
    write_log(run, "0.9,0,,0.1,9,49\n,0,0.5,0.1,9,49\n,0,9.0,0.1,9,99\n")
    write_log(run, ",0,0.25,0.1,9,99\n", version=2)
    write_log(run, ",0,0.125,0.1,9,149\n", version=10)
    assert read_training(run)["curves"] == {
        "loss": [(49, 0.5), (99, 0.25), (149, 0.125)],
        "BCMF(m=2)/rmse": [(49, 0.9)],
    }


def test_a_run_is_finished_until_it_is_resumed(run):
    log = write_log(run, ",0,0.5,0.1,9,49\n")
    (run / "metrics.json").write_text("{}")
    os.utime(log, (1, 1))
    assert read_training(run)["finished"]
    write_log(run, ",0,0.5,0.1,9,99\n", version=1)
    os.utime(run / "metrics.json", (2, 2))
    assert not read_training(run)["finished"]


def test_times_are_no_curve(run):
    log = write_log(run, "")
    log.write_text("loss,minutes,step\n0.5,1.0,49\n")
    assert list(read_training(run)["curves"]) == ["loss"]


def test_a_log_is_parsed_again_only_when_it_has_changed(run, monkeypatch):
    log = write_log(run, ",0,0.5,0.1,9,49\n")
    first = read_training(run)["curves"]
    monkeypatch.setattr(training_log.csv, "reader", None)
    assert read_training(run)["curves"] == first
    monkeypatch.undo()
    with open(log, "a") as file:
        file.write(",0,0.25,0.1,9,99\n")
    assert read_training(run)["curves"]["loss"] == [(49, 0.5), (99, 0.25)]


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
    write_log(run, ",0,1.0,0.1,9,1000\n", version=1)
    joined = [step for step, _ in read_training(run)["curves"]["loss"]]
    assert joined[-1] == 1000 and len(joined) <= len(steps)


def test_pictures_are_the_newest_and_nothing_else_of_the_folder(run):
    for i in range(training_log.MOST_PICTURES + 2):
        path = run / "pictures" / f"{i}.png"
        path.write_bytes(b"picture")
        os.utime(path, (i, i))
    (run / "config.yaml").write_text("seed: 0")
    write_log(run, "")
    pictures = read_training(run)["pictures"]
    names = list(pictures)
    assert names[0] == f"{training_log.MOST_PICTURES + 1}.png"
    assert len(names) == training_log.MOST_PICTURES
    assert pictures[names[0]] == 1000 * (training_log.MOST_PICTURES + 1)
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
        assert client.get("/api/problem").json()["model"] is not None
        response = client.post("/api/sample", json={"steps": 2})
        assert '"done"' in response.text


@pytest.fixture
def followed(tmp_path) -> tuple[Subject, list[Path]]:
    """A subject that follows the last of some runs, which are to be added."""
    runs: list[Path] = []

    def find_run() -> Path | None:
        return runs[-1] if runs else None

    return Subject("config", BCMF(m=2, n=3, k=2), find_run=find_run), runs


def export(run: Path, value: float) -> None:
    """Write a model whose weights are all the same."""
    model = tiny_model(BCMF(m=2, n=3, k=2))
    for weight in model.parameters():
        weight.data.fill_(value)
    model.save_pretrained(run / "model")


def weight_of(subject: Subject) -> float:
    assert subject.model is not None
    return next(subject.model.parameters()).flatten()[0].item()


def test_the_model_is_that_of_the_newest_run_and_of_its_newest_weights(
    followed, tmp_path
):
    subject, runs = followed
    runs.append(tmp_path / "run")
    export(runs[0], 1.0)
    assert weight_of(subject) == 1.0
    assert subject.model is subject.model  # not loaded again
    export(runs[0], 2.0)  # by a run that was resumed
    assert weight_of(subject) == 2.0
    runs.append(tmp_path / "run-2")
    assert subject.model is None  # until that run has exported one
    export(runs[1], 3.0)
    assert weight_of(subject) == 3.0


def test_the_stamp_changes_with_the_run_and_with_its_model(followed, tmp_path):
    subject, runs = followed
    with client_of(subject) as client:

        def stamp() -> str | None:
            (found,) = {
                client.get(f"/api/{path}").json()["stamp"]
                for path in ("training", "problem")
            }
            return found

        stamps = [stamp()]
        runs.append(tmp_path / "run")
        stamps.append(stamp())
        for value in (1.0, 2.0):
            export(runs[0], value)
            stamps.append(stamp())
        assert stamp() == stamps[-1]  # nothing has changed
        runs.append(tmp_path / "run-2")
        stamps.append(stamp())
        export(runs[1], 3.0)
        stamps.append(stamp())
    assert stamps[0] is None
    assert len(set(stamps)) == 6


def test_a_model_that_is_half_written_is_loaded_when_it_is_whole(followed, tmp_path):
    subject, runs = followed
    runs.append(tmp_path / "run")
    export(runs[0], 1.0)
    weights = runs[0] / "model" / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    assert subject.model is None
    weights.write_bytes(content[:100])
    assert subject.model is None
    weights.write_bytes(content)
    assert weight_of(subject) == 1.0


def test_a_model_that_does_not_fit_into_memory_is_no_error_of_the_page(
    followed, tmp_path, monkeypatch
):
    def fail(*arguments, **named):
        raise RuntimeError("CUDA out of memory")

    subject, runs = followed
    runs.append(tmp_path / "run")
    export(runs[0], 1.0)
    monkeypatch.setattr("gsdm_pyg.workbench.subject.GSDM.from_pretrained", fail)
    with client_of(subject) as client:
        assert client.get("/api/problem").json()["model"] is None
