"""A run that was killed, failed or finished goes on as if nothing had happened."""

from __future__ import annotations

import math
import signal
import time

import pytest
import torch

from gsdm_pyg import ProblemBatches
from tests.helpers import (
    ROOT,
    STUCK,
    assert_identical,
    exported_weights,
    finish,
    logged,
    start,
    train_here,
    write_config,
)
from tests.training.runs import NO_EVALUATION, checkpoint_of

STALLING = """
import os
import time
from pathlib import Path
from problems import BCMF


class Stalling(BCMF):
    draws = 0

    def sample_batch(self, num, generator=None):
        type(self).draws += num
        if "STALL" in os.environ and type(self).draws > 256 + 2 * 4 + 2 + 2 * 3:
            Path(os.environ["STALL"]).touch()  # in the eighth step
            time.sleep(600)
        return super().sample_batch(num, generator)
"""


@pytest.mark.slow
def test_killed_and_resumed_run_ends_with_the_weights_of_one_never_interrupted(
    tmp_path,
):
    (tmp_path / "stalling.py").write_text(STALLING)
    config = write_config(
        tmp_path / "tiny.yaml",
        problem={"name": f"{tmp_path / 'stalling.py'}:Stalling"},
        model={"dropout": 0.2, "observe": "mixed"},
        trainer={"max_steps": 14},
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [ROOT / "train.py", config, "--run-dir"]
    uninterrupted = start(*command, whole, cwd=tmp_path)

    stalled = tmp_path / "stalled"
    process = start(*command, killed, cwd=tmp_path, STALL=str(stalled))
    deadline = time.monotonic() + STUCK
    while not stalled.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "the run never came to its eighth step"
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert checkpoint_of(killed)["global_step"] == 4
    assert max(logged(killed, "loss")) >= 4  # steps were lost
    assert not (killed / "model").exists()

    finish(start(*command, killed, "--resume", cwd=tmp_path))
    finish(uninterrupted)
    assert_identical(exported_weights(whole), exported_weights(killed))
    assert (whole / "metrics.json").read_text() == (killed / "metrics.json").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"data": {"num_workers": 1}},
        {"data": {"num_examples": 3}},
        {"data": {"max_nodes": 70}},
        {"optimizer": {"name": "adamw"}},
    ],
    ids=["fresh", "worker", "finite", "budget", "adamw"],
)
def test_run_that_failed_resumes_bit_for_bit(tmp_path, monkeypatch, sections):
    config = write_config(tmp_path / "tiny.yaml", evaluation=NO_EVALUATION, **sections)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_here(config, "--run-dir", whole)
    batch = ProblemBatches.batch

    def fail(batches, step):
        if step == 6:
            raise ValueError("stopped in the seventh step")
        return batch(batches, step)

    with monkeypatch.context() as patch:
        patch.setattr(ProblemBatches, "batch", fail)
        with pytest.raises(SystemExit, match="stopped in the seventh step"):
            train_here(config, "--run-dir", parts)
    assert checkpoint_of(parts)["global_step"] == 5  # batches are drawn ahead
    train_here(config, "--run-dir", parts, "--resume")
    assert_identical(exported_weights(whole), exported_weights(parts))


@pytest.mark.slow
def test_resuming_a_finished_run_exports_the_same_model(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    run = [config, "--run-dir", tmp_path / "run"]
    train_here(*run)
    weights = exported_weights(tmp_path / "run")
    metrics = (tmp_path / "run" / "metrics.json").read_text()
    train_here(*run, "--resume")
    assert_identical(exported_weights(tmp_path / "run"), weights)
    assert (tmp_path / "run" / "metrics.json").read_text() == metrics


@pytest.mark.slow
@pytest.mark.parametrize("name", ["muon", "adamw"])
def test_finished_run_can_be_trained_for_longer(tmp_path, name):
    config = write_config(
        tmp_path / "tiny.yaml", optimizer={"name": name}, evaluation=NO_EVALUATION
    )
    run = ["--run-dir", tmp_path / "run"]
    train_here(config, *run)
    before = exported_weights(tmp_path / "run")
    train_here(config, "trainer.max_steps=12", *run, "--resume")
    assert checkpoint_of(tmp_path / "run")["global_step"] == 12
    after = exported_weights(tmp_path / "run")
    assert any(not torch.equal(after[key], before[key]) for key in after)

    (resumed,) = (tmp_path / "run" / "csv").glob("version_1")
    rates = logged_rates(resumed)
    assert list(rates) == [8, 9, 10, 11]
    for step, rate in rates.items():
        expected = 1e-2 * 0.5 * (1 + math.cos(math.pi * step / 12))
        assert rate == pytest.approx(expected, rel=1e-5)


def logged_rates(folder) -> dict[int, float]:
    lines = (folder / "metrics.csv").read_text().splitlines()
    names = lines[0].split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines[1:]]
    return {int(row["step"]): float(row["lr"]) for row in rows if row["lr"]}
