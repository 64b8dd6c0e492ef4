"""Callbacks: averaged weights, and checkpoints that survive a kill."""

from __future__ import annotations

import errno
import io
import multiprocessing
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.callbacks import TQDMProgressBar

from gsdm_pyg import clock
from gsdm_pyg.training import callbacks
from gsdm_pyg.training.callbacks import (
    AtomicCheckpointIO,
    ProcessorTimer,
    ProgressBar,
)
from tests.helpers import STUCK, files_of, train_here, write_config
from tests.training.runs import WatchedTraining, checkpoint_of, watched


@pytest.mark.slow
def test_averaged_weights_follow_the_formula():
    decay = 0.4
    training = watched(6, optimizer={"ema": decay})
    raw = training.weights
    expected = raw[0]
    for n in range(1, 6):
        d = min(decay, (1 + n) / (10 + n))
        expected = {
            name: d * average + (1 - d) * raw[n][name]
            for name, average in expected.items()
        }
    found = training.diffusion.state_dict()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    difference = found["denoiser.output.weight"] - raw[5]["denoiser.output.weight"]
    assert difference.abs().max() > 1e-4


def die_while_saving(path: Path) -> None:
    def write_half(checkpoint, file):
        file.write(b"half of a checkpoint")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    torch.save = write_half
    AtomicCheckpointIO().save_checkpoint({"step": 2}, path)


@pytest.mark.slow
def test_kill_while_checkpointing_leaves_the_previous_checkpoint(tmp_path):
    path, writer = tmp_path / "checkpoints" / "last.ckpt", AtomicCheckpointIO()
    writer.save_checkpoint({"step": 1}, path)
    context = multiprocessing.get_context("fork")
    process = context.Process(target=die_while_saving, args=(path,))
    process.start()
    process.join(timeout=STUCK)
    assert process.exitcode == -signal.SIGKILL
    assert torch.load(path, weights_only=True) == {"step": 1}
    writer.save_checkpoint({"step": 3}, path)
    assert torch.load(path, weights_only=True) == {"step": 3}


def test_failure_while_checkpointing_leaves_only_the_previous_one(
    tmp_path, monkeypatch
):
    path, writer = tmp_path / "checkpoints" / "last.ckpt", AtomicCheckpointIO()
    writer.save_checkpoint({"step": 1}, path)
    before = files_of(tmp_path)

    def write_half(checkpoint, file):
        file.write(b"half of a checkpoint")
        raise OSError("No space left on device")

    monkeypatch.setattr(torch, "save", write_half)
    with pytest.raises(OSError, match="No space left"):
        writer.save_checkpoint({"step": 2}, path)
    assert files_of(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit", ["max_steps=3", "max_steps=7", "max_time=00:00:00:01"]
)
def test_run_that_ends_between_two_marks_writes_a_last_checkpoint(tmp_path, limit):
    config = write_config(
        tmp_path / "tiny.yaml",
        trainer={"max_steps": None, "checkpoint_every": 1000},
        evaluation={"every": None, "problems": []},
    )
    train_here(config, f"trainer.{limit}", "--run-dir", tmp_path / "run")
    saved = checkpoint_of(tmp_path / "run")
    if limit.startswith("max_steps"):
        assert saved["global_step"] == int(limit[-1])
    current, averaged = saved["current_model_state"], saved["state_dict"]
    assert any(not torch.equal(current[name], averaged[name]) for name in current)


class FullDisk(io.BytesIO):
    def write(self, content) -> int:
        if self.tell() + len(content) > 1000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(content)


def test_full_disk_is_reported_as_such_with_the_name_of_the_checkpoint(
    tmp_path, monkeypatch
):
    save = torch.save
    monkeypatch.setattr(torch, "save", lambda saved, file: save(saved, FullDisk()))
    path = tmp_path / "last.ckpt"
    with pytest.raises(OSError, match="No space left") as caught:
        AtomicCheckpointIO().save_checkpoint({"x": torch.zeros(10_000)}, path)
    assert caught.value.filename == str(path)
    assert files_of(tmp_path) == {}


@pytest.mark.slow
def test_in_a_file_the_progress_bar_moves_with_the_logs(capfd):
    watched(trainer={"max_steps": 40, "log_every": 20})
    printed = capfd.readouterr()
    assert "40/40" in printed.out + printed.err
    assert (printed.out + printed.err).count("\r") < 20


class Clocks:
    """In place of `time`: clocks that are set by hand."""

    def __init__(self) -> None:
        self.processor, self.wall = 7.0, time.monotonic()

    def process_time(self) -> float:
        return self.processor

    def monotonic(self) -> float:
        return self.wall


@pytest.fixture
def clocks(monkeypatch) -> Clocks:
    set_by_hand = Clocks()
    monkeypatch.setattr(clock, "time", set_by_hand)
    monkeypatch.setattr(callbacks, "time", set_by_hand)
    return set_by_hand


def test_the_processor_clock_goes_on_where_the_last_process_stopped(clocks):
    first, second = ProcessorTimer("00:00:01:00"), ProcessorTimer("00:00:01:00")
    on_cpu = None, SimpleNamespace(device=torch.device("cpu"))
    assert first.time_elapsed() == 0
    first.on_train_start(*on_cpu)
    clocks.processor = 17.0
    assert (first.time_elapsed(), first.time_remaining()) == (10, 50)
    second.load_state_dict(first.state_dict())
    clocks.processor = 3.0  # of a new process
    second.on_train_start(*on_cpu)
    clocks.processor = 8.0
    assert (second.time_elapsed(), second.time_remaining()) == (15, 45)
    second.on_train_end(*on_cpu)
    clocks.processor = 100.0
    assert second.time_elapsed() == 15


def test_the_processor_clock_is_the_wall_s_where_the_model_is_on_a_gpu(clocks):
    timer = ProcessorTimer(None)
    timer.on_train_start(None, SimpleNamespace(device=torch.device("meta")))
    clocks.processor += 1e6
    clocks.wall += 3.0
    assert timer.time_elapsed() == 3


def left_on_the_bar(max_steps, timer, clocks, monkeypatch) -> str:
    """After two steps, in which the wall's clock went on by ten seconds."""
    monkeypatch.setattr(TQDMProgressBar, "on_train_start", lambda *details: None)
    monkeypatch.setattr(TQDMProgressBar, "get_metrics", lambda *details: {})
    trainer = SimpleNamespace(max_steps=max_steps, global_step=5)
    module = SimpleNamespace(device=torch.device("cpu"))
    bar = ProgressBar(timer, log_every=1)
    timer.on_train_start(trainer, module)
    bar.on_train_start(trainer, module)
    clocks.processor += 4.0
    clocks.wall += 10.0
    trainer.global_step += 2
    return bar.get_metrics(trainer, module)["left"]


@pytest.mark.parametrize(
    ("duration", "max_steps", "left"),
    [
        ("00:00:01:00", -1, "2:00"),  # 48 seconds of 52 left, ten for every four
        ("00:00:01:00", 9, "0:10"),  # two steps, five seconds each
        (None, 9, "0:10"),
        ("00:00:00:09", 100, "0:00"),  # over
    ],
)
def test_the_bar_shows_what_is_left_on_the_wall_s_clock(
    clocks, monkeypatch, duration, max_steps, left
):
    timer = ProcessorTimer(duration)
    timer.load_state_dict({"time_elapsed": {"train": 8.0}})  # a run that goes on
    assert left_on_the_bar(max_steps, timer, clocks, monkeypatch) == left


@pytest.mark.slow
def test_the_processor_clock_ends_training_and_lowers_the_rate(clocks, monkeypatch):
    make_step = WatchedTraining.training_step

    def step_of_a_second(*arguments):
        clocks.processor += 1.0
        return make_step(*arguments)

    monkeypatch.setattr(WatchedTraining, "training_step", step_of_a_second)
    training = watched(trainer={"max_time": "00:00:00:05", "clock": "processor"})
    assert len(training.seen) == 5
    assert training.rates[-1][-1] < 0.2 * training.rates[1][-1]
