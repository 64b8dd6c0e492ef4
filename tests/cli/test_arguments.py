"""What several commands take: a model folder, sizes, flags of the sampler."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gsdm_pyg import GSDM, SamplerSettings
from gsdm_pyg.cli import main
from gsdm_pyg.registry import resolve_problem
from tests.cli.commands import SIZES, refusal, run
from tests.helpers import USER_PROBLEM, files_of, tiny_model

each_command = pytest.mark.parametrize("command", ["sample", "evaluate"])


@each_command
@pytest.mark.parametrize(
    ("sizes", "complaint"),
    [
        (["m=2", "n=3", "k=[1, 2]"], "Here a size is one number (got 'k=[1, 2]')"),
        (["m=2", "n=3", "k"], "A size reads name=value (got 'k')"),
        (["m=2", "n=3", "k=0"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=-1"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=two"], "BCMF.k is a size"),
        (["m=2", "n=3", "k=[1"], "k=[1"),
        (["m=2", "n=3", "k=2", "q=1"], "BCMF takes m, n, k, given (got 'q')"),
    ],
)
def test_impossible_sizes_are_refused(model_folder, command, sizes, complaint):
    assert complaint in refusal(command, model_folder, *sizes)


def test_sizes_left_out_are_the_largest_of_training(model_folder, tmp_path):
    out = tmp_path / "samples.json"
    main(["sample", str(model_folder), "m=2", "--steps=2", f"--out={out}"])
    sizes = GSDM.from_pretrained(model_folder).spec.sizes
    largest = {n: s[-1] if isinstance(s, list) else s for n, s in sizes.items()}
    R = np.array(json.loads(out.read_text())["R"])
    assert R.shape == (1, largest["k"], largest["n"])


@each_command
@pytest.mark.parametrize("steps", ["0", "-1", "2.5", "many"])
def test_impossible_steps_are_refused(model_folder, command, steps):
    message = refusal(command, model_folder, *SIZES, "--steps", steps)
    assert message.startswith("error: steps: Input should be ")
    assert message.endswith(f"(got {steps!r}).")


@each_command
def test_more_steps_than_the_model_has_are_refused(model_folder, command):
    message = refusal(command, model_folder, *SIZES, "--steps", 1001)
    assert "between 1 and num_timesteps, 1000 (got 1001)" in message


def test_impossible_restarts_are_refused(model_folder):
    message = refusal("sample", model_folder, *SIZES, "--restarts", -1)
    assert message.endswith("(got '-1').")
    message = refusal("sample", model_folder, *SIZES, "--steps=1", "--restarts=1")
    assert message.endswith("at least 2 steps (got 1 with steps=1).")


@each_command
def test_flags_are_the_settings_of_the_sampler_with_their_help(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    printed = "".join(capsys.readouterr().out.split())  # without line breaks
    for name, field in SamplerSettings.model_fields.items():
        assert f"--{name}" in printed
        assert "".join(field.description.split()) in printed


def test_sampler_of_the_model_is_used_unless_flags_are_given(tmp_path):
    model = tiny_model()
    model.sampler = SamplerSettings(steps=3, solver="ddim", restarts=1)
    model.save_pretrained("model")
    stored = ["--steps=3", "--solver=ddim", "--restarts=1"]
    samples = []
    for flags in ([], stored, ["--steps=4"], ["--solver=ddpm"], ["--restarts=0"]):
        main(["sample", "model", *SIZES, *flags, "--out=out.json", "--overwrite"])
        samples.append(Path("out.json").read_text())
    assert samples[0] == samples[1]
    assert len(set(samples)) == 4


@each_command
def test_unknown_model_folder_is_refused(command, tmp_path):
    nowhere = tmp_path / "nowhere"
    message = refusal(command, nowhere, *SIZES)
    assert "There is no model folder" in message
    assert str(nowhere) in message


@each_command
def test_damaged_model_folder_is_refused(command, model_folder, tmp_path):
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name, content in files_of(model_folder).items():
        (damaged / name).write_bytes(content[:50])
    assert str(damaged) in refusal(command, damaged, *SIZES)


@each_command
def test_problem_of_another_model_is_refused(command, model_folder):
    Path("mine.py").write_text(USER_PROBLEM)
    problem = ["--problem", "mine.py:UserSum"]
    message = refusal(command, model_folder, "n=2", *problem)
    assert "trained on BCMF" in message
    assert "UserSum does not fit" in message


@pytest.mark.parametrize(
    ("problem", "complaint"),
    [
        ("Sudokku", "No problem is called 'Sudokku'"),
        ("nowhere.py:Problem", "problem file does not exist (got 'nowhere.py')"),
        ("mine.py:Nothing", "mine.py defines no Problem of that name (got 'Nothing')"),
        ("mine.py:torch", "mine.py defines no Problem of that name (got 'torch')"),
    ],
)
def test_unknown_problem_is_refused(model_folder, problem, complaint):
    Path("mine.py").write_text(USER_PROBLEM)
    message = refusal("sample", model_folder, *SIZES, "--problem", problem)
    assert complaint in message


def test_model_that_names_no_problem_asks_for_one(tmp_path):
    model = tiny_model()
    spec = model.spec.model_copy(update={"name": None})
    nameless = GSDM(spec, model.settings)
    nameless.save_pretrained(tmp_path / "nameless")
    message = refusal("sample", tmp_path / "nameless", *SIZES)
    assert message == "error: This model does not name its problem: pass --problem."
    run("sample", tmp_path / "nameless", "--problem", "BCMF")
    assert Path("samples.npz").exists()


SPYING = (
    USER_PROBLEM
    + """
from pathlib import Path
Path("ran").touch()
"""
)


@each_command
def test_file_that_a_model_folder_names_is_executed_only_if_the_user_names_it_too(
    command,
):
    Path("mine.py").write_text(USER_PROBLEM)
    family = resolve_problem("mine.py:UserSum").family(n=(1, 3))
    tiny_model(family).save_pretrained("model")
    config = Path("model/config.json")
    config.write_text(config.read_text().replace("mine.py:", "theirs.py:"))
    Path("theirs.py").write_text(SPYING)
    message = refusal(command, "model", "n=2")
    assert "pass --problem theirs.py:UserSum if you trust that file" in message
    assert not Path("ran").exists()
    main([command, "model", "--steps=2", "--problem=theirs.py:UserSum"])
    assert Path("ran").exists()


def test_program_that_a_model_folder_names_is_opened_only_if_the_user_names_it_too(
    model_folder,
):
    shutil.copytree(model_folder, "model")
    config = Path("model/config.json")
    text = config.read_text()
    assert text.count('"BCMF"') == 1
    config.write_text(text.replace('"BCMF"', '"nowhere.foppl"'))
    message = refusal("sample", "model")
    assert "pass --problem nowhere.foppl if you trust that file" in message
    message = refusal("sample", "model", "--problem", "nowhere.foppl")
    assert "trust" not in message and "nowhere.foppl" in message  # it is opened


@each_command
@pytest.mark.parametrize(
    ("size", "complaint"),
    [
        ("abc", "BCMF.m is a size"),
        (-1, "BCMF.m is a size"),
        (2.5, "BCMF.m is a size"),
        (None, "BCMF.m is a size"),
        ([], "The range of m is [low, high]"),
        ([1, 2, 3], "The range of m is [low, high]"),
        ([3, 1], "The range of m is [low, high]"),
        (["a", "b"], "The range of m is [low, high]"),
    ],
)
def test_odd_sizes_of_a_model_folder_are_refused(
    model_folder, command, size, complaint
):
    shutil.copytree(model_folder, "odd")
    config = json.loads(Path("odd/config.json").read_text())
    config["problem"]["sizes"]["m"] = size
    Path("odd/config.json").write_text(json.dumps(config))
    assert complaint in refusal(command, "odd")


@each_command
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--device", "gpu0"], "--device names no device of this machine (got 'gpu0')"),
        (["--device", "cpu:x"], "--device names no device of this machine"),
        (["--device", "hpu"], "--device names no device of this machine (got 'hpu')"),
        (["--device", "meta"], "--device names no device of this machine"),
        (["--seed", "-1"], "--seed is a number of at least 0 (got -1)"),
        (["--problem", "notes.txt:A"], "is no Python file (got 'notes.txt')"),
    ],
)
def test_impossible_arguments_are_refused(model_folder, command, arguments, complaint):
    Path("notes.txt").touch()
    assert complaint in refusal(command, model_folder, *SIZES, *arguments)
