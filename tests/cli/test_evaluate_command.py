"""`evaluate`: metrics beside those of the prior."""

from __future__ import annotations

import json
from pathlib import Path

from gsdm_pyg import GSDM
from gsdm_pyg.evaluation import prior_metrics
from tests.cli.commands import PROBLEM, SIZES, refusal, run


def test_evaluate_prints_metrics_beside_those_of_the_prior(model_folder, capsys):
    run("evaluate", model_folder, "--instances", 3, "--seed", 5, "--restarts", 1)
    model = GSDM.from_pretrained(model_folder)
    rmse = model.evaluate(PROBLEM, 3, steps=3, restarts=1, seed=5).metrics["rmse"]
    prior = prior_metrics(PROBLEM, 3, seed=5)["rmse"]
    assert capsys.readouterr().out.splitlines() == [
        "BCMF(m=2,n=3,k=2), 3 instances, seed 5",
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
    assert "num_instances must be at least 1 (got 0)" in message
