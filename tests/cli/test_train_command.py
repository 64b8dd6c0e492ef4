"""`train`: wrong configs end in one line, and a dry run writes nothing."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import pytest
import torch

from gsdm_pyg import GSDM
from gsdm_pyg.cli import train as train_command
from gsdm_pyg.config import load_config
from gsdm_pyg.run_folder import new_run
from tests.cli.commands import refusal, run
from tests.helpers import (
    ROOT,
    STUCK,
    USER_PROBLEM,
    files_of,
    start,
    train_here,
    write_config,
)


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

    trusted = ["--problem", "mine.py:UserSum"]
    run("evaluate", folder, "--instances", 2, *trusted, sizes=["n=5"])
    assert "UserSum(n=5), 2 instances" in capsys.readouterr().out

    Path("given.json").write_text('{"s": 1.5}')
    given = ["--given", "given.json", "--out", "out.json"]
    run("sample", folder, *given, *trusted, sizes=["n=5"])
    samples = json.loads(Path("out.json").read_text())
    assert samples["s"] == [1.5]
    assert len(samples["x"][0]) == 5


@pytest.mark.parametrize(
    ("override", "complaint"),
    [
        ("optimizer.betas=0.9", "optimizer.betas: Input should be a valid tuple"),
        ("optimizer.betas=[0.9]", "optimizer.betas.1: Field required (got [0.9])"),
        ("optimizer.betas=[0.9, 1.5]", "betas.1: Input should be less than 1"),
        ("optimizer.betas=[0.9, 0.9, 0.9]", "betas: Tuple should have at most 2"),
        ("model.width=63", "width must be even, at least 4 and a multiple of heads"),
        ("trainer.max_time=60", "the format is DD:HH:MM:SS, such as 00:00:10:00"),
        ("trainer.max_time=00:10:00", "format is DD:HH:MM:SS"),
        ("trainer.accelerator=abacus", "abacus"),
        ("trainer.devices=0", "devices=0"),
    ],
)
def test_impossible_setting_is_refused_and_leaves_no_run_folder(
    tmp_path, override, complaint
):
    config = write_config(tmp_path / "tiny.yaml")
    assert complaint in refusal("train", config, override)
    assert not list(Path("runs").glob("*"))


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_run_folder_that_is_a_file_is_refused(tmp_path, place):
    config = write_config(tmp_path / "tiny.yaml")
    Path("file").write_text("mine")
    message = refusal("train", config, "--run-dir", place)
    assert "The run folder is " in message
    assert Path("file").read_text() == "mine"


def test_run_folder_that_cannot_be_written_to_is_refused(tmp_path, monkeypatch):
    config = write_config(tmp_path / "tiny.yaml")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "cannot be written to" in refusal("train", config, "--run-dir", "run")


CUT = "cut"
FOREIGN = {
    "empty": b"",
    "text": b"not a checkpoint",
    "pickle": pickle.dumps({"state_dict": {}}),
}


@pytest.mark.parametrize("kind", [*FOREIGN, "keys", "weights", CUT])
def test_damaged_or_foreign_checkpoint_is_refused(tmp_path, kind):
    config = write_config(tmp_path / "tiny.yaml")
    run_dir = new_run(load_config(config), "tiny")
    checkpoint = run_dir / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir()
    state = {"denoiser.weight": torch.zeros(2)}
    whole = {
        **{"callbacks": {}, "global_step": 1, "loops": {}, "optimizer_states": []},
        **{"state_dict": state, "current_model_state": state},
    }
    if kind in FOREIGN:
        checkpoint.write_bytes(FOREIGN[kind])
    else:
        torch.save(state if kind == "keys" else whole, checkpoint)
    if kind == CUT:
        checkpoint.write_bytes(checkpoint.read_bytes()[:-100])
    before = files_of(run_dir)
    message = refusal("train", config, "--resume")
    assert "The checkpoint is damaged or of another run" in message
    assert str(checkpoint) in message
    assert files_of(run_dir) == before


FAILING = """
from problems import BCMF

class Failing(BCMF):
    draws = 0

    def sample_batch(self, num, generator=None):
        type(self).draws += num
        if type(self).draws > 256:
            raise ValueError("no data")
        return super().sample_batch(num, generator)
"""


@pytest.mark.slow
def test_start_that_failed_leaves_no_run_folder(tmp_path):
    (tmp_path / "failing.py").write_text(FAILING)
    name = {"name": "failing.py:Failing"}
    config = write_config(tmp_path / "tiny.yaml", problem=name)
    assert refusal("train", config) == "error: no data"
    assert list(Path("runs").iterdir()) == []


@pytest.mark.slow
def test_checkpoints_that_cannot_be_written_do_not_cost_the_model(
    tmp_path, monkeypatch, caplog
):
    def save(checkpoint, file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", save)
    train_here(write_config(tmp_path / "tiny.yaml"), "model.layers=4")  # deep enough
    warned = [r.getMessage() for r in caplog.records if r.name == "gsdm_pyg"]
    assert "step 4 was not written: No space left on device" in warned[0]
    assert "runs/tiny/checkpoints/last.ckpt" in warned[0]
    assert not Path("runs/tiny/checkpoints/last.ckpt").exists()
    GSDM.from_pretrained("runs/tiny/model")


@pytest.mark.slow
def test_full_disk_while_exporting_ends_in_one_line(tmp_path, monkeypatch):
    def write(folder, contents):
        raise OSError(28, "No space left on device", str(folder / "config.json"))

    monkeypatch.setattr("gsdm_pyg.model_folder.write_folder", write)
    message = refusal("train", write_config(tmp_path / "tiny.yaml"))
    path = "runs/tiny/model/config.json"
    assert message == f"error: No space left on device (got {path!r})."
    assert Path("runs/tiny/checkpoints/last.ckpt").is_file()  # to resume from


SPINCOUNT = """
import os, runpy, sys
for name in ("torch", "lightning"):
    assert name not in sys.modules
class Watch:
    def find_spec(self, name, *details):
        if name == "torch":
            print("GOMP_SPINCOUNT", os.environ.get("GOMP_SPINCOUNT"))
sys.meta_path.insert(0, Watch())
sys.argv = sys.argv[1:]
if sys.argv[0] == "gsdm":
    from gsdm_pyg.cli import main
    main()
elif sys.argv[0] == "gsdm_pyg":
    runpy.run_module("gsdm_pyg", run_name="__main__", alter_sys=True)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", ["gsdm", "gsdm_pyg", "train.py"])
def test_every_way_to_train_sets_the_threads_before_torch_is_imported(
    tmp_path, program
):
    way = [ROOT / program] if program == "train.py" else [program, "train"]
    process = start("-c", SPINCOUNT, *way, "nowhere.yaml", cwd=tmp_path)
    printed, _ = process.communicate(timeout=STUCK)
    assert "GOMP_SPINCOUNT 20000" in printed, printed
    assert printed.splitlines()[-1].startswith("error: The config file does not exist")
