"""Training: what a run writes, and that it can be killed, resumed and spread."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from torch import Tensor

from gsdm_pyg import GSDM, Problem
from gsdm_pyg.config import (
    DataConfig,
    OptimizerConfig,
    TrainerConfig,
    load_config,
)
from gsdm_pyg.evaluation import evaluate, label
from gsdm_pyg.training import AtomicCheckpointIO, Training, train
from problems import BCMF
from tests.runs import (
    ROOT,
    assert_identical,
    exported_weights,
    files_of,
    finish,
    logged,
    start,
    tiny_model,
    train_here,
    write_config,
)

FAMILY = BCMF.family(m=(1, 3), n=(1, 3), k=(1, 2))


def checkpoint_of(run_dir: Path) -> dict:
    return torch.load(run_dir / "checkpoints" / "last.ckpt", weights_only=True)


def model_part(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's weights in the state of the module that trains it."""
    return {name.removeprefix("model."): value for name, value in state.items()}


class WatchedTraining(Training):
    """Notes the batches, and the weights after each step."""

    def __init__(self, *arguments, **named) -> None:
        super().__init__(*arguments, **named)
        self.seen: list[Tensor] = []
        self.weights: list[dict[str, Tensor]] = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch.x.clone())
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, *arguments) -> None:
        state = self.model.state_dict()
        self.weights.append({name: value.clone() for name, value in state.items()})


def watched(
    max_steps: int = 6, source=FAMILY, trainer=None, optimizer=None, **data
) -> WatchedTraining:
    """A short run in this process that writes nothing."""
    training = WatchedTraining(
        tiny_model(source),
        source,
        DataConfig(**{"batch_size": 2, **data}),
        OptimizerConfig(**{"lr": 1e-2, "warmup_steps": 2, **(optimizer or {})}),
    )
    limit = {"max_steps": max_steps} if trainer is None else trainer
    train(training, TrainerConfig(accelerator="cpu", devices=1, **limit))
    return training


# One run, looked at from many sides.


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    config = write_config(folder / "tiny.yaml", trainer={"max_steps": 12})
    train_here(config, "optimizer.ema=0.9", "--run-dir", folder / "run")
    return folder / "run"


@pytest.mark.slow
def test_run_folder_holds_config_logs_checkpoint_pictures_metrics_and_model(run_dir):
    assert {path.name for path in run_dir.iterdir()} == {
        "config.yaml",
        "csv",
        "tensorboard",
        "checkpoints",
        "pictures",
        "metrics.json",
        "model",
    }
    assert {path.name for path in (run_dir / "checkpoints").iterdir()} == {"last.ckpt"}
    assert len(list(run_dir.glob("csv/*/metrics.csv"))) == 1
    assert len(list(run_dir.glob("tensorboard/*/events.*"))) == 1
    pictures = list((run_dir / "pictures").iterdir())
    assert len(pictures) == 5  # at steps 4, 8 and 12, at the end, and the mask
    assert all(p.read_bytes().startswith(b"\x89PNG") for p in pictures)


@pytest.mark.slow
def test_run_folder_holds_the_resolved_config(run_dir):
    original = run_dir.parent / "tiny.yaml"
    resolved = load_config(original, ["optimizer.ema=0.9"])
    assert load_config(run_dir / "config.yaml") == resolved


@pytest.mark.slow
def test_every_step_is_logged_once(run_dir):
    for name in ("loss", "lr"):
        assert list(logged(run_dir, name)) == list(range(12))
    assert all(math.isfinite(loss) for loss in logged(run_dir, "loss").values())
    assert all(rate > 0 for rate in logged(run_dir, "nodes/s").values())


@pytest.mark.slow
def test_learning_rate_warms_up_and_decays(run_dir):
    rates = logged(run_dir, "lr")
    for step, rate in rates.items():
        decay = 0.5 * (1 + math.cos(math.pi * step / 12))
        expected = 1e-2 * min(1, (step + 1) / 4) * decay
        assert rate == pytest.approx(expected, rel=1e-5)
    assert max(rates, key=rates.__getitem__) == 3
    assert rates[11] < 0.1 * rates[3]


@pytest.mark.slow
def test_exported_weights_are_the_averaged_ones(run_dir):
    checkpoint = checkpoint_of(run_dir)
    assert checkpoint["global_step"] == 12
    exported = exported_weights(run_dir)
    assert_identical(exported, model_part(checkpoint["state_dict"]))
    raw = model_part(checkpoint["current_model_state"])
    assert not torch.equal(
        exported["denoiser.output.weight"], raw["denoiser.output.weight"]
    )


@pytest.mark.slow
def test_evaluation_during_training_uses_the_averaged_weights(run_dir):
    problem = BCMF(m=4, n=2, k=1)
    found = logged(run_dir, f"{label(problem)}/rmse")
    assert list(found) == [3, 7, 11]
    model = GSDM.from_pretrained(run_dir / "model")  # the averaged ones of step 12
    expected = evaluate(model, problem, 2, steps=3, restarts=1, seed=10_000)
    assert found[11] == pytest.approx(expected.metrics["rmse"], rel=1e-4)


@pytest.mark.slow
def test_metrics_file_holds_the_metrics_of_the_exported_model(run_dir):
    model, problem = GSDM.from_pretrained(run_dir / "model"), BCMF(m=4, n=2, k=1)
    result = evaluate(model, problem, 3, steps=3, restarts=1, seed=0)
    metrics = json.loads((run_dir / "metrics.json").read_text())
    assert list(metrics) == ["BCMF(m=4,n=2,k=1)"]
    found = metrics["BCMF(m=4,n=2,k=1)"]["rmse"]
    assert found == pytest.approx(result.metrics["rmse"], rel=1e-4)
    card = (run_dir / "model" / "README.md").read_text()
    assert str(found) in card and "3 steps of ddpm with restarts=1" in card


@pytest.mark.slow
def test_finished_run_refuses_to_be_overwritten(run_dir):
    before = files_of(run_dir)
    with pytest.raises(SystemExit, match="run folder is not empty"):
        train_here(run_dir.parent / "tiny.yaml", "--run-dir", run_dir)
    assert files_of(run_dir) == before


@pytest.mark.slow
def test_runs_of_one_config_get_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    limits = {"max_steps": 1}
    config = write_config(tmp_path / "tiny.yaml", trainer=limits, evaluation={})
    short = ["evaluation.problems=[]", "evaluation.every=null"]
    train_here(config, *short)
    train_here(config, *short)
    for name in ("tiny", "tiny-2"):
        assert (tmp_path / "runs" / name / "model" / "config.json").is_file()


# The weights.


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
    found = training.model.state_dict()
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    difference = found["denoiser.output.weight"] - raw[5]["denoiser.output.weight"]
    assert difference.abs().max() > 1e-4


@pytest.mark.slow
def test_steps_are_a_function_of_the_seed():
    first, again = watched(4), watched(4)
    assert_identical(first.model.state_dict(), again.model.state_dict())
    assert not torch.equal(first.seen[0], first.seen[1])


@pytest.mark.slow
def test_worker_process_gives_the_same_weights():
    here, there = watched(5), watched(5, num_workers=1)
    assert_identical(here.model.state_dict(), there.model.state_dict())


@pytest.mark.slow
def test_finite_data_set_shows_only_its_examples():
    problem = BCMF(m=2, n=2, k=1)
    training = watched(8, source=problem, num_examples=3, batch_size=4)
    size = training.seen[0].size(0) // 4
    seen = torch.cat([x.view(4, size, -1) for x in training.seen])
    assert seen.unique(dim=0).size(0) == 3
    first, last = training.weights[0], training.weights[-1]
    assert not torch.equal(
        first["denoiser.output.weight"], last["denoiser.output.weight"]
    )


@pytest.mark.slow
def test_node_budget_bounds_every_batch():
    training = watched(5, batch_size=50, max_nodes=100)
    sizes = [x.size(0) for x in training.seen]
    assert max(sizes) <= 100
    assert min(sizes) > 100 - 2 * 33  # the largest problem has 33 nodes


@pytest.mark.slow
def test_max_time_alone_ends_training():
    training = watched(trainer={"max_time": "00:00:00:02"})
    assert len(training.seen) > 2
    assert training.trainer.global_step == len(training.seen)


@pytest.mark.slow
def test_whichever_limit_comes_first_ends_training():
    limits = {"max_time": "00:01:00:00", "max_steps": 3}
    assert len(watched(trainer=limits).seen) == 3


class ClippedTraining(Training):
    """Notes the norm of the gradient that each step uses."""

    def optimizer_step(self, *arguments, **named) -> None:
        super().optimizer_step(*arguments, **named)
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        self.norms.append(torch.nn.utils.get_total_norm(grads).item())


@pytest.mark.slow
def test_gradient_is_clipped_to_the_norm_of_the_config():
    optimizer = OptimizerConfig(clip=1e-3)
    training = ClippedTraining(
        tiny_model(FAMILY), FAMILY, DataConfig(batch_size=2), optimizer
    )
    training.norms = []
    train(training, TrainerConfig(accelerator="cpu", devices=1, max_steps=3))
    assert training.norms == pytest.approx([1e-3] * 3, rel=1e-3)


# What goes wrong.

FAILING = """
import torch
from problems import BCMF


class Failing(BCMF):
    draws = 0

    def sample(self, generator=None):
        type(self).draws += 1
        values = super().sample(generator)
        if type(self).draws > 256 + 2 * 6:  # moments, then six steps of two graphs
            values["A"][0, 0] = 1e30  # its square is infinite
        return values
"""


@pytest.mark.slow
def test_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    file = tmp_path / "failing.py"
    file.write_text(FAILING)
    config = write_config(
        tmp_path / "failing.yaml",
        problem={"name": f"{file}:Failing"},
        evaluation={"every": None, "problems": []},
    )
    with pytest.raises(SystemExit) as caught:
        train_here(config, "--run-dir", tmp_path / "run")
    message = str(caught.value.code)
    assert message.startswith("error: ")
    assert "step 6" in message
    assert "not finite" in message
    checkpoint = checkpoint_of(tmp_path / "run")
    assert checkpoint["global_step"] == 4
    for state in ("state_dict", "current_model_state"):
        assert all(weight.isfinite().all() for weight in checkpoint[state].values())
    assert not (tmp_path / "run" / "model").exists()


@pytest.mark.slow
def test_checkpoint_before_a_bad_loss_can_be_resumed(tmp_path):
    file = tmp_path / "recovering.py"
    file.write_text(FAILING)
    config = write_config(
        tmp_path / "failing.yaml",
        problem={"name": f"{file}:Failing"},
        evaluation={"every": None, "problems": []},
    )
    run = [config, "--run-dir", tmp_path / "run"]
    with pytest.raises(SystemExit, match="not finite"):
        train_here(*run)
    Problem.registry["Failing"].draws = -1000  # the cause is gone
    train_here(*run, "--resume")
    weights = exported_weights(tmp_path / "run")
    assert all(weight.isfinite().all() for weight in weights.values())


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
    process.join(timeout=60)
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


# Several processes.

STALLING = """
import os
import time
from pathlib import Path
from problems import BCMF


class Stalling(BCMF):
    draws = 0

    def sample(self, generator=None):
        type(self).draws += 1
        if "STALL" in os.environ and type(self).draws > 256 + 2 * 4 + 2 + 2 * 3:
            Path(os.environ["STALL"]).touch()  # in the eighth step
            time.sleep(600)
        return super().sample(generator)
"""


@pytest.mark.slow
def test_killed_and_resumed_run_ends_with_the_weights_of_one_never_interrupted(
    tmp_path,
):
    (tmp_path / "stalling.py").write_text(STALLING)
    config = write_config(
        tmp_path / "tiny.yaml",
        problem={"name": f"{tmp_path / 'stalling.py'}:Stalling"},
        model={"dropout": 0.2},
        data={"observe": "mixed"},
        trainer={"max_steps": 14},
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [ROOT / "train.py", config, "--run-dir"]
    uninterrupted = start(*command, whole, cwd=tmp_path)

    stalled = tmp_path / "stalled"
    process = start(*command, killed, cwd=tmp_path, STALL=str(stalled))
    deadline = time.monotonic() + 240
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


STOPPING = """
from pathlib import Path
from problems import BCMF


class Stopping(BCMF):
    draws = 0

    def sample(self, generator=None):
        type(self).draws += 1
        if Path("stop").exists() and type(self).draws > 256 + 2 * 6:
            raise ValueError("stopped in the seventh step")
        return super().sample(generator)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "data",
    [{}, {"num_workers": 1}, {"num_examples": 3}, {"max_nodes": 70}],
    ids=["fresh", "worker", "finite", "budget"],
)
def test_run_that_failed_resumes_bit_for_bit(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stopping.py").write_text(STOPPING)
    config = write_config(
        tmp_path / "tiny.yaml",
        problem={"name": f"{tmp_path / 'stopping.py'}:Stopping"},
        data=data,
        evaluation={"every": None, "problems": []},
    )
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train_here(config, "--run-dir", whole)
    (tmp_path / "stop").touch()
    Problem.registry["Stopping"].draws = 0
    with pytest.raises(SystemExit, match="stopped in the seventh step"):
        train_here(config, "--run-dir", parts)
    (tmp_path / "stop").unlink()
    assert checkpoint_of(parts)["global_step"] == 4
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
def test_finished_run_can_be_trained_for_longer(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    run = ["--run-dir", tmp_path / "run"]
    train_here(config, *run)
    train_here(config, "trainer.max_steps=12", *run, "--resume")
    assert checkpoint_of(tmp_path / "run")["global_step"] == 12


@pytest.mark.slow
def test_run_that_ends_between_two_marks_writes_a_last_checkpoint(tmp_path):
    config = write_config(tmp_path / "tiny.yaml")
    short, long = tmp_path / "short", tmp_path / "long"
    train_here(config, "trainer.max_steps=7", "--run-dir", long)
    assert checkpoint_of(long)["global_step"] == 7
    train_here(config, "trainer.max_steps=3", "--run-dir", short)
    saved = checkpoint_of(short)
    assert saved["global_step"] == 3
    current, averaged = saved["current_model_state"], saved["state_dict"]
    assert any(not torch.equal(current[name], averaged[name]) for name in current)


RECORDING = """
import os
from problems import BCMF


class Recording(BCMF):
    def sample(self, generator=None):
        values = super().sample(generator)
        if self.m <= 3:  # an instance of training
            with open(f"rank{os.environ.get('LOCAL_RANK', 0)}.txt", "a") as file:
                print(values["A"].double().sum().item(), file=file)
        return values
"""


@pytest.mark.slow
def test_two_processes_train_on_different_data_and_log_once(tmp_path):
    (tmp_path / "recording.py").write_text(RECORDING)
    config = write_config(
        tmp_path / "tiny.yaml", problem={"name": "recording.py:Recording"}
    )
    overrides = ["trainer.devices=2", "trainer.strategy=ddp", "trainer.accelerator=cpu"]
    printed = finish(start(ROOT / "train.py", config, *overrides, cwd=tmp_path))
    assert printed.count("run folder: ") == 1
    assert printed.count("model folder: ") == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["tiny"]
    run_dir = tmp_path / "runs" / "tiny"

    assert [path.name for path in (run_dir / "csv").iterdir()] == ["version_0"]
    assert list(logged(run_dir, "loss")) == list(range(8))
    assert len(logged(run_dir, "Recording(m=4,n=2,k=1)/rmse")) == 2
    assert [path.name for path in (run_dir / "tensorboard").iterdir()] == ["version_0"]
    assert len(list(run_dir.glob("tensorboard/version_0/events.*"))) == 1
    weights = exported_weights(run_dir)
    assert all(weight.isfinite().all() for weight in weights.values())
    assert checkpoint_of(run_dir)["global_step"] == 8

    draws = [(tmp_path / f"rank{i}.txt").read_text().split() for i in (0, 1)]
    assert draws[0][:256] == draws[1][:256]  # the moments, the same everywhere
    trained = [set(rank[256:]) for rank in draws]
    assert min(map(len, trained)) >= 8 * 2
    assert trained[0].isdisjoint(trained[1])


RANKS = """
import sys
import torch
from gsdm_pyg import GSDM
from gsdm_pyg.config import DataConfig, OptimizerConfig, TrainerConfig
from gsdm_pyg.training import Training, train
from problems import BCMF

torch.manual_seed(0)
problem = BCMF(m=2, n=2, k=1)
model = GSDM.from_problem(problem, width=8, layers=1)
optimizer = OptimizerConfig(lr=1e-2, warmup_steps=1)
training = Training(model, problem, DataConfig(batch_size=2), optimizer)
limit = {sys.argv[1]: int(sys.argv[2]) if sys.argv[2].isdigit() else sys.argv[2]}
settings = TrainerConfig(accelerator="cpu", devices=2, strategy="ddp", **limit)
trainer = train(training, settings)
torch.save(model.state_dict(), f"rank{trainer.global_rank}.pt")
trainer.strategy.barrier()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "limit",
    [("max_steps", "8"), ("max_time", "00:00:00:02")],
    ids=lambda limit: limit[0],
)
def test_two_processes_end_with_the_same_weights(tmp_path, limit):
    (tmp_path / "ranks.py").write_text(RANKS)
    finish(start("ranks.py", *limit, cwd=tmp_path))
    first, second = (torch.load(tmp_path / f"rank{i}.pt") for i in (0, 1))
    assert_identical(first, second)
