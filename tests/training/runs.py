"""What the tests of training share: short runs, watched or written to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.settings import TrainingSettings
from gsdm_pyg.training import Training, train
from problems import BCMF
from tests.helpers import tiny_model

FAMILY = BCMF.family(m=(1, 3), n=(1, 3), k=(1, 2))
NO_EVALUATION = {"every": None, "problems": []}


class WatchedTraining(Training):
    """Notes the batches, and the weights, rates and gradients of each step."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[Tensor] = []
        self.weights: list[dict[str, Tensor]] = []
        self.rates: list[list[float]] = []
        self.seconds: list[float] = []
        self.norms: list[float] = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch.x.clone())
        self.seconds.append(self.timer.time_elapsed())
        return super().training_step(batch, batch_idx)

    def optimizer_step(self, *arguments, **named) -> None:
        groups = self.optimizers().param_groups
        self.rates.append([group["lr"] for group in groups])
        super().optimizer_step(*arguments, **named)
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        self.norms.append(torch.nn.utils.get_total_norm(grads).item())

    def on_train_batch_end(self, *arguments) -> None:
        state = self.diffusion.state_dict()
        self.weights.append({name: value.clone() for name, value in state.items()})


def watched(
    max_steps: int = 6, source=FAMILY, trainer=None, optimizer=None, **data: Any
) -> WatchedTraining:
    """A short run in this process that writes nothing."""
    limit = {"max_steps": max_steps} if trainer is None else trainer
    settings = TrainingSettings.parse(
        {
            "data": {"batch_size": 2, **data},
            "optimizer": {"lr": 1e-2, "warmup_steps": 2, **(optimizer or {})},
            "trainer": {"accelerator": "cpu", **limit},
        }
    )
    training = WatchedTraining(tiny_model(source).diffusion, source, settings)
    train(training)
    return training


def checkpoint_of(run_dir: Path) -> dict:
    return torch.load(run_dir / "checkpoints" / "last.ckpt", weights_only=True)


def diffusion_part(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The model's weights in the state of the module that trains it."""
    return {name.removeprefix("diffusion."): value for name, value in state.items()}
