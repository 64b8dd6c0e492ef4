"""`evaluate`: metrics beside those of the prior."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsdm_pyg import GSDM
from gsdm_pyg.evaluation import prior_metrics
from tests.cli.commands import PROBLEM, SIZES, refusal, run


def test_evaluate_prints_metrics_beside_those_of_the_prior(model_folder, capsys):
    run("evaluate", model_folder, "--instances", 3, "--seed", 5, "--restarts", 1)
    model = GSDM.from_pretrained(model_folder)
    rmse = model.evaluate(PROBLEM, 3, steps=3, restarts=1, seed=5).metrics["rmse"]
    prior = prior_metrics(PROBLEM, 3, seed=5)["rmse"]
    assert capsys.readouterr().out.splitlines() == [
        "BCMF(m=2,n=3,k=2), 3 instances, "
        "3 steps of dpm++_sde (logsnr) with restarts=1, seed 5",
        f"rmse: {rmse:.4f} (answers from the prior: {prior:.4f})",
    ]
    assert list(Path().iterdir()) == []


def test_evaluate_writes_metrics_and_pictures(model_folder):
    run(
        "evaluate",
        model_folder,
        *["--instances", 2, "--out", "metrics.json", "--pictures", "pictures"],
    )
    result = GSDM.from_pretrained(model_folder).evaluate(PROBLEM, 2, steps=3)
    assert json.loads(Path("metrics.json").read_text()) == result.metrics
    pictures = list(Path("pictures").iterdir())
    assert len(pictures) == 2
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


def test_fewer_than_one_instance_is_refused(model_folder):
    message = refusal("evaluate", model_folder, *SIZES, "--instances", 0)
    assert "num_instances must be an integer of at least 1 (got 0)" in message


# Where results go is checked before the work.


@pytest.mark.parametrize(
    ("option", "place", "complaint"),
    [
        ("--out", "metrics.csv", "--out ends in .json (got 'metrics.csv')"),
        ("--out", "old.json", "--out exists already"),
        ("--pictures", "old.json", "--pictures is a file: name a folder"),
        ("--pictures", "old.json/below", "--pictures is below a file"),
        ("--pictures", "full", "--pictures is not empty"),
    ],
)
def test_impossible_place_is_refused_before_the_work(
    monkeypatch, option, place, complaint
):
    Path("old.json").write_text("mine")
    Path("full").mkdir()
    Path("full/mine.txt").touch()
    monkeypatch.setattr(GSDM, "from_pretrained", None)  # it is not loaded
    assert complaint in refusal("evaluate", "model", *SIZES, option, place)
    assert Path("old.json").read_text() == "mine"


def test_results_replace_others_if_asked(model_folder):
    Path("old.json").write_text("mine")
    Path("full").mkdir()
    Path("full/mine.txt").touch()
    places = ["--out", "old.json", "--pictures", "full", "--overwrite"]
    run("evaluate", model_folder, "--instances", 1, *places)
    assert "rmse" in json.loads(Path("old.json").read_text())
    assert len(list(Path("full").iterdir())) == 2


def test_ctrl_c_in_an_evaluation_ends_in_one_line(model_folder, monkeypatch, capsys):
    def interrupted(*arguments, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(GSDM, "evaluate", interrupted)
    with pytest.raises(SystemExit) as caught:
        run("evaluate", model_folder)
    assert caught.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"
