"""Two processes that train together."""

from __future__ import annotations

import pytest
import torch

from tests.helpers import (
    ROOT,
    assert_identical,
    exported_weights,
    finish,
    logged,
    start,
    write_config,
)
from tests.training.runs import checkpoint_of

RECORDING = """
import os
from problems import BCMF


class Recording(BCMF):
    def sample_batch(self, num, generator=None):
        values = super().sample_batch(num, generator)
        if self.m <= 3:  # an instance of training
            with open(f"rank{os.environ.get('LOCAL_RANK', 0)}.txt", "a") as file:
                for A in values["A"]:
                    print(A.double().sum().item(), file=file)
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
from gsdm_pyg.settings import TrainingSettings
from gsdm_pyg.training import Training, train
from problems import BCMF

problem = BCMF(m=2, n=2, k=1)
for limit, value in (("max_steps", 8), ("max_time", "00:00:00:02")):
    torch.manual_seed(0)
    model = GSDM.from_problem(problem, width=8, layers=1)
    settings = TrainingSettings.from_keywords(
        dict(lr=1e-2, warmup_steps=1, batch_size=2, accelerator="cpu", devices=2,
             strategy="ddp", **{limit: value})
    )
    trainer = train(Training(model.diffusion, problem, settings))
    torch.save(model.state_dict(), f"{limit}{trainer.global_rank}.pt")
    trainer.strategy.barrier()
"""


@pytest.mark.slow
def test_two_processes_end_with_the_same_weights(tmp_path):
    (tmp_path / "ranks.py").write_text(RANKS)
    finish(start("ranks.py", cwd=tmp_path))
    for limit in ("max_steps", "max_time"):
        first, second = (torch.load(tmp_path / f"{limit}{i}.pt") for i in (0, 1))
        assert_identical(first, second)
