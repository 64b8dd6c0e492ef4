"""The command line as a whole: options, usage, and errors in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gsdm_pyg.cli import main
from gsdm_pyg.registry import resolve_problem
from tests.cli.commands import SIZES, refusal
from tests.helpers import (
    ROOT,
    STUCK,
    USER_PROBLEM,
    finish,
    start,
    tiny_model,
    train_here,
    write_config,
)


def test_options_may_come_before_sizes_and_overrides(model_folder, tmp_path, capsys):
    main(["sample", str(model_folder), "--steps", "2", "m=2", "n=3", "k=2"])
    assert Path("samples.npz").exists()
    config = write_config(tmp_path / "tiny.yaml")
    train_here(config, "--dry-run", "model.layers=2", "seed=3")
    assert "seed: 3" in capsys.readouterr().out


def test_option_that_does_not_exist_is_refused(model_folder, capsys):
    with pytest.raises(SystemExit):
        main(["sample", str(model_folder), *SIZES, "--stepps", "2"])
    assert "--stepps" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["fly"], ["sample"]])
def test_wrong_command_shows_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: gsdm" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "evaluate", "sample"])
def test_every_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([command, "--help"])
    assert caught.value.code == 0
    assert f"usage: gsdm {command}" in capsys.readouterr().out


@pytest.mark.slow
def test_model_finds_the_users_problem_from_another_folder(tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine.py").write_text(USER_PROBLEM)
    model = tmp_path / "model"
    monkeypatch.chdir(home)
    family = resolve_problem("mine.py:UserSum").family(n=(1, 3))
    tiny_model(family).save_pretrained(model)
    command = ["-m", "gsdm_pyg", "sample", model, "n=2", "--steps", "2"]
    elsewhere = start(*command, "--problem", home / "mine.py:UserSum", cwd=tmp_path)
    assert "x [1, 2], s [1]" in finish(elsewhere)
    with np.load(tmp_path / "samples.npz") as samples:
        assert samples["x"].shape == (1, 2)


@pytest.mark.slow
def test_module_and_script_end_in_one_line_without_a_traceback(tmp_path):
    script = start(ROOT / "train.py", "nowhere.yaml", cwd=tmp_path)
    printed, _ = script.communicate(timeout=STUCK)
    assert script.returncode == 1
    assert printed.splitlines()[-1].startswith("error: The config file does not exist")
    assert "Traceback" not in printed


@pytest.mark.slow
def test_the_console_command_finds_the_problems_of_the_current_folder(tmp_path):
    (tmp_path / "problems.py").write_text(USER_PROBLEM)
    script = "from gsdm_pyg.cli import main; main(['train', 'x.yaml', '--dry-run'])"
    (tmp_path / "x.yaml").write_text("problem: {name: UserSum, n: 2}")
    environment = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    printed = finish(start("-c", script, cwd=tmp_path, **environment))
    assert "largest problem: UserSum(n=2)" in printed


def test_a_size_beyond_the_memory_ends_in_one_line(model_folder):
    message = refusal("sample", model_folder, "m=1000000000000", "n=3", "k=2")
    assert message.startswith("error: There is not enough memory for this size")
