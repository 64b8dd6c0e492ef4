"""`report`: a table, JSON, a picture, and the default of a model folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from gsdm_pyg import GSDM, report
from gsdm_pyg.cli import main
from gsdm_pyg.evaluation import evaluate_answers
from gsdm_pyg.seeding import keyed_generator
from tests.cli.commands import SIZES, refusal
from tests.diagnostics.samplers import GaussianSampler, Regression
from tests.helpers import files_of, tiny_model


@pytest.fixture
def folder(model_folder, tmp_path) -> Path:
    """A model folder of one's own."""
    return Path(shutil.copytree(model_folder, tmp_path / "model"))


def run(folder: Path, *arguments: object) -> None:
    few = ["--instances", "3", "--evaluations", "1", "2"]
    main(["report", str(folder), *SIZES, *few, *map(str, arguments)])


def test_report_stores_the_chosen_setting_and_nothing_else(folder, capsys):
    before = files_of(folder)
    run(folder, "--out", "out")
    printed = capsys.readouterr().out
    found = json.loads(Path("out/report.json").read_text())
    model = GSDM.from_pretrained(folder)
    assert model.sampler.model_dump() == found["chosen"]
    assert str(model.sampler) in printed.splitlines()[-1]
    after = files_of(folder)
    changed = [name for name in before if before[name] != after[name]]
    assert changed == ["config.json"]
    old, new = (json.loads(files["config.json"]) for files in (before, after))
    assert {**old, "sampler": None} == {**new, "sampler": None}
    assert printed.count("| chosen |") == 1
    assert Path("out/report.png").read_bytes().startswith(b"\x89PNG")
    assert len(found["settings"]) == 4 * 2 * 2 + 1


def test_the_exact_sampler_is_stored_where_errors_prefer_another(
    tmp_path, monkeypatch, capsys
):
    """Answers are exact with one solver, too narrow or too wide with the others."""
    spreads = {"dpm++": 1.0, "ddpm": 0.5, "dpm++_sde": 0.7, "ddim": 1.6}
    folder = tmp_path / "model"
    tiny_model(Regression(n=2)).save_pretrained(folder)

    def answers(diffusion, problem, num_instances, sampler, seed, draw=0):
        def answer(problem, values, known):
            given = {n: v.where(known[n], torch.nan) for n, v in values.items()}
            generator = keyed_generator("answer", seed, draw)
            exact = GaussianSampler(spreads[sampler.solver])
            drawn = exact.sample(problem, given, 1, generator=generator)
            return {name: value[:, 0] for name, value in drawn.items()}

        return evaluate_answers(answer, problem, num_instances, seed)

    monkeypatch.setattr(report, "evaluate", answers)
    few = ["--instances", "600", "--evaluations", "1", "2", "--out", "out"]
    main(["report", str(folder), "n=2", *few])
    assert GSDM.from_pretrained(folder).sampler.solver == "dpm++"
    printed = capsys.readouterr().out
    assert "| evaluations | energy score |" in printed
    assert "lowest for the exact posterior" in printed
    found = json.loads(Path("out/report.json").read_text())
    assert found["metric"] == "energy score"
    assert found["chosen"]["solver"] == "dpm++"
    assert found["described"]["answers"] == 2
    main(["report", str(folder), "n=2", *few, "--metric", "rmse_x"])  # same answers
    assert GSDM.from_pretrained(folder).sampler.solver == "ddpm"


def test_no_store_leaves_the_folder_as_it_is(folder):
    before = files_of(folder)
    run(folder, "--no-store")
    assert files_of(folder) == before


def test_interrupted_report_goes_on(folder, monkeypatch):
    run(folder, "--no-store", "--out", "whole")
    evaluate, calls = report.evaluate, []

    def counted(*arguments):
        calls.append(arguments)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return evaluate(*arguments)

    monkeypatch.setattr(report, "evaluate", counted)
    with pytest.raises(SystemExit):
        run(folder, "--no-store", "--out", "out")
    run(folder, "--no-store", "--out", "out")
    assert len(calls) == 17 + 1  # the interrupted one is repeated
    assert Path("out/report.json").read_text() == Path("whole/report.json").read_text()


def test_another_report_is_replaced_only_if_asked(folder):
    run(folder, "--no-store", "--out", "out")
    command = ["report", folder, *SIZES, "--instances", 2, "--out", "out"]
    assert "the report of another model" in refusal(*command)
    run(folder, "--no-store", "--out", "out", "--seed", 1, "--overwrite")
    found = json.loads(Path("out/report.json").read_text())
    assert found["described"]["seed"] == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--instances", 1], "--instances must be at least 2"),
        (["--metric", "fun"], "The metrics of BCMF are rmse (got 'fun')"),
        (["--evaluations", 0], "Evaluations must be between 1 and num_timesteps"),
    ],
)
def test_impossible_report_is_refused(folder, arguments, complaint):
    assert complaint in refusal("report", folder, *SIZES, *arguments)
