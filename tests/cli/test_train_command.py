"""`train`: wrong configs end in one line, and a dry run writes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gsdm_pyg.cli import train as train_command
from tests.cli.commands import refusal, run
from tests.helpers import USER_PROBLEM, files_of, train_here, write_config


def test_train_refuses_a_bad_config_in_one_line(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    assert "did you mean 'layers'?" in refusal("train", config, "model.layrs=2")
    assert "does not exist" in refusal("train", tmp_path / "nowhere.yaml")
    assert "width must be even" in refusal("train", config, "model.width=7")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize("override", ["trainer.max_steps=null", "data.max_nodes=2"])
def test_settings_that_cannot_be_trained_leave_no_run_folder(tmp_path, override):
    config = write_config(tmp_path / "tiny.yaml")
    refusal("train", config, override, "--run-dir", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_run_that_cannot_start_or_resume_is_refused_in_one_line(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    before = files_of(tmp_path)
    assert "no checkpoint to resume from" in refusal("train", config, "--resume")
    taken = ["--run-dir", tmp_path]
    assert "run folder is not empty" in refusal("train", config, *taken)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "last.ckpt").touch()
    config.rename("config.yaml")
    message = refusal("train", "config.yaml", "seed=1", *taken, "--resume")
    assert "has other settings in 'seed'" in message
    assert len(files_of(tmp_path)) == len(before) + 1


def test_dry_run_prints_the_experiment_and_writes_nothing(tmp_path, capsys):
    config = write_config(tmp_path / "tiny.yaml")
    train_here(config, "model.layers=2", "--dry-run")
    printed = capsys.readouterr().out
    assert "layers: 2" in printed
    assert "largest problem: BCMF(m=3,n=3,k=2)" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_dry_run_may_name_a_run_folder_that_is_not_empty(tmp_path, capsys):
    config = write_config(tmp_path / "tiny.yaml")
    before = files_of(tmp_path)
    train_here(config, "--dry-run", "--run-dir", tmp_path)
    assert files_of(tmp_path) == before


@pytest.mark.slow
def test_only_training_keeps_the_memory_that_it_freed(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(train_command, "keep_freed_memory", lambda: calls.append(1))
    config = write_config(tmp_path / "tiny.yaml", evaluation={"problems": []})
    train_here(config, "--dry-run")
    assert calls == []
    train_here(config, "trainer.max_steps=1")
    assert calls == [1]


@pytest.mark.slow
def test_problem_in_a_file_of_the_users_own_works_end_to_end(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(USER_PROBLEM)
    config = tmp_path / "mine.yaml"
    config.write_text(
        """
        problem: {name: "mine.py:UserSum", n: [1, 3]}
        model: {width: 8, layers: 1}
        data: {batch_size: 2}
        trainer: {max_steps: 3, accelerator: cpu, devices: 1}
        evaluation: {problems: [{n: 4}], final_instances: 2, steps: 3, pictures: 1}
        """
    )
    train_here(config)
    folder = Path("runs/mine/model")
    assert len(list(Path("runs/mine/pictures").glob("usersum-n4-*.png"))) == 1

    run("evaluate", folder, "--instances", 2, sizes=["n=5"])
    assert "UserSum(n=5), 2 instances" in capsys.readouterr().out

    Path("given.json").write_text('{"s": 1.5}')
    run("sample", folder, "--given", "given.json", "--out", "out.json", sizes=["n=5"])
    samples = json.loads(Path("out.json").read_text())
    assert samples["s"] == [1.5]
    assert len(samples["x"][0]) == 5
