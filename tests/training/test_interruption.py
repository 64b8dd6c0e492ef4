"""Signals to real processes: SIGTERM and Ctrl-C lose nothing."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from gsdm_pyg import GSDM
from tests.helpers import (
    ROOT,
    STUCK,
    assert_identical,
    exported_weights,
    finish,
    start,
    write_config,
)
from tests.training.runs import checkpoint_of

# Tells when the seventh batch or a long evaluation begins, and stays there for a while.
PAUSING = """
import os
import time
from pathlib import Path
from problems import BCMF


def pause(place):
    if os.environ.get("PAUSE") == place and not Path("reached").exists():
        Path("reached").touch()
        deadline = time.monotonic() + 60
        while not Path("go").exists() and time.monotonic() < deadline:
            time.sleep(0.02)


class Pausing(BCMF):
    draws = 0

    def sample_batch(self, num, generator=None):
        type(self).draws += num
        if type(self).draws > 256 + 2 * 6:
            pause("step")
        return super().sample_batch(num, generator)

    def metrics(self, sample, truth):
        if self.n == 2:
            pause("evaluation")
        return super().metrics(sample, truth)
"""


def wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + STUCK
    while not path.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.02)


def pausing_config(folder: Path, **sections) -> Path:
    (folder / "pausing.py").write_text(PAUSING)
    sections = {
        "problem": {"name": "pausing.py:Pausing"},
        "evaluation": {"every": None, "problems": [{"m": 4, "n": 2, "k": 1}]},
        **sections,
    }
    return write_config(folder / "tiny.yaml", **sections)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_in_training_leaves_a_checkpoint_and_says_how_to_go_on(tmp_path, number):
    config = pausing_config(tmp_path)
    command = [ROOT / "train.py", config.name, "optimizer.ema=0.9"]
    process = start(*command, cwd=tmp_path, PAUSE="step")
    wait_for(tmp_path / "reached", process)
    process.send_signal(number)
    time.sleep(0.1)
    (tmp_path / "go").touch()
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 128 + number, printed
    assert "Traceback" not in printed
    run_dir = tmp_path / "runs" / "tiny"
    assert checkpoint_of(run_dir)["global_step"] == 6  # a batch is drawn ahead
    assert not (run_dir / "model").exists()
    *_, message, resume = printed.splitlines()
    assert message.startswith(f"{number.name} stopped the run")
    assert shlex.split(resume)[-3:] == ["--run-dir", "runs/tiny", "--resume"]

    environment = {"cwd": tmp_path, "PAUSE": ""}
    python, *rest = shlex.split(resume)
    assert Path(python).name.startswith("python")
    finish(start(*rest, **environment))
    finish(start(*command, "--run-dir", "whole", **environment))
    assert_identical(exported_weights(run_dir), exported_weights(tmp_path / "whole"))


@pytest.mark.slow
def test_interrupted_final_evaluation_leaves_the_model_and_what_is_done(tmp_path):
    sizes = [{"m": 2, "n": 3, "k": 1}, {"m": 4, "n": 2, "k": 1}]
    config = pausing_config(tmp_path, evaluation={"every": None, "problems": sizes})
    command = ["-m", "gsdm_pyg", "train", config]
    process = start(*command, cwd=tmp_path, PAUSE="evaluation")
    wait_for(tmp_path / "reached", process)  # in the second of the two problems
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert printed.splitlines()[-1] == "interrupted"
    run_dir = tmp_path / "runs" / "tiny"
    GSDM.from_pretrained(run_dir / "model")
    for file in (run_dir / "metrics.json", run_dir / "model" / "README.md"):
        assert "Pausing(m=2,n=3,k=1)" in file.read_text()
        assert "Pausing(m=4,n=2,k=1)" not in file.read_text()


@pytest.mark.slow
def test_kill_during_an_evaluation_of_training_loses_no_step(tmp_path):
    config = pausing_config(
        tmp_path,
        trainer={"checkpoint_every": 1000},
        evaluation={"every": 3},
    )
    process = start(ROOT / "train.py", config, cwd=tmp_path, PAUSE="evaluation")
    wait_for(tmp_path / "reached", process)
    process.kill()
    process.communicate()
    assert checkpoint_of(tmp_path / "runs" / "tiny")["global_step"] == 3


@pytest.mark.slow
def test_signal_during_an_evaluation_of_training_ends_it_without_another_step(tmp_path):
    sizes = [{"m": 4, "n": 2, "k": 1}, {"m": 2, "n": 3, "k": 1}]
    config = pausing_config(tmp_path, evaluation={"every": 3, "problems": sizes})
    process = start(ROOT / "train.py", config, cwd=tmp_path, PAUSE="evaluation")
    wait_for(tmp_path / "reached", process)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    (tmp_path / "go").touch()
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 143, printed
    run_dir = tmp_path / "runs" / "tiny"
    assert checkpoint_of(run_dir)["global_step"] == 3
    names = [path.name for path in (run_dir / "pictures").iterdir()]
    assert names == ["pausing-m4-n2-k1-step3-0.png"]  # the second was not begun


@pytest.mark.slow
def test_second_ctrl_c_stops_at_once(tmp_path):
    config = pausing_config(tmp_path)
    process = start(ROOT / "train.py", config, cwd=tmp_path, PAUSE="step")
    wait_for(tmp_path / "reached", process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 130, printed
    assert "Traceback" not in printed
    assert checkpoint_of(tmp_path / "runs" / "tiny")["global_step"] == 4


@pytest.mark.slow
def test_signal_to_one_of_two_processes_stops_both_at_one_step(tmp_path):
    config = pausing_config(tmp_path)
    overrides = ["trainer.devices=2", "trainer.strategy=ddp", "trainer.max_steps=2000"]
    process = start(ROOT / "train.py", config, *overrides, cwd=tmp_path)
    wait_for(tmp_path / "runs" / "tiny" / "checkpoints" / "last.ckpt", process)
    process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 143, printed
    assert printed.count("SIGTERM stopped the run") == 1
    assert 4 < checkpoint_of(tmp_path / "runs" / "tiny")["global_step"] < 2000


IN_A_GROUP = """
import os, runpy, sys
os.setsid()
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.slow
def test_ctrl_c_that_also_reaches_the_loading_process_leaves_a_checkpoint(tmp_path):
    config = pausing_config(tmp_path)
    command = [IN_A_GROUP, ROOT / "train.py", config, "data.num_workers=1"]
    process = start("-c", *command, cwd=tmp_path, PAUSE="step")
    wait_for(tmp_path / "reached", process)
    time.sleep(1)  # training waits for the batch
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.1)
    (tmp_path / "go").touch()
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == 130, printed
    assert "SIGINT stopped the run" in printed
    assert checkpoint_of(tmp_path / "runs" / "tiny")["global_step"] == 6


FIT = """
import logging, os, signal, sys
import torch
from gsdm_pyg import GSDM
from problems import BCMF

class Sending(BCMF):
    draws = 0

    def sample_batch(self, num, generator=None):
        type(self).draws += num
        if type(self).draws == 256 + 2 * 3:
            os.kill(os.getpid(), int(sys.argv[1]))
        return super().sample_batch(num, generator)

model = GSDM.from_problem(Sending(m=2, n=2, k=1), width=8, layers=1)
before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
model.fit(max_steps=100, batch_size=2, accelerator="cpu", run_dir="run")
assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))
state = torch.load("run/checkpoints/last.ckpt", weights_only=True)["state_dict"]
for name, value in model.diffusion.state_dict().items():
    assert torch.equal(value, state["diffusion." + name])
assert not model.training
print("the caller goes on")
"""


@pytest.mark.slow
def test_ctrl_c_in_fit_returns_to_the_caller_with_the_averaged_weights(tmp_path):
    (tmp_path / "fit.py").write_text(FIT)
    printed = finish(start("fit.py", int(signal.SIGINT), cwd=tmp_path))
    assert "SIGINT stopped training at step 2" in printed
    assert printed.splitlines()[-1] == "the caller goes on"


@pytest.mark.slow
def test_sigterm_in_fit_ends_the_process_after_a_checkpoint(tmp_path):
    (tmp_path / "fit.py").write_text(FIT)
    process = start("fit.py", int(signal.SIGTERM), cwd=tmp_path)
    printed, _ = process.communicate(timeout=STUCK)
    assert process.returncode == -signal.SIGTERM, printed
    assert "the caller goes on" not in printed
    assert checkpoint_of(tmp_path / "run")["global_step"] == 2
