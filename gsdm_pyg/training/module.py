"""The LightningModule: one optimizer step per batch, validation by sampling."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader
from torch_geometric.data import Batch

from gsdm_pyg.data import ProblemBatches
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.evaluation import evaluate, label
from gsdm_pyg.problem import Problem, ProblemFamily
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import SamplerSettings, TrainingSettings
from gsdm_pyg.training.callbacks import build_timer
from gsdm_pyg.training.interruption import StopOnSignal, ignore_interrupts
from gsdm_pyg.training.optimizer import build_optimizer

_VALIDATION = 10_000  # validation uses other instances than the final evaluation


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is no longer finite."""


class Training(L.LightningModule):
    """Train a diffusion model on instances of a problem.

    Args:
        diffusion: The model to train.
        source: Where instances come from.
        settings: Batching, optimizer, hardware and evaluation.
        sampler: How to draw where the settings do not say; by default what suits the
            problem.
    """

    def __init__(
        self,
        diffusion: GraphModel,
        source: Problem | ProblemFamily,
        settings: TrainingSettings = TrainingSettings(),
        sampler: SamplerSettings | None = None,
    ) -> None:
        super().__init__()
        self.diffusion = diffusion
        self.settings = settings
        num_timesteps = diffusion.settings.num_timesteps
        chosen = settings.evaluation.sampler.model_dump(exclude_unset=True)
        if sampler is None:
            sampler = diffusion.default_sampler()
        self.sampler = sampler.updated(chosen).within(num_timesteps)
        self.problems = [source.at(s) for s in settings.evaluation.problems]
        for problem in self.problems:
            diffusion.spec.graph(problem, diffusion.settings.graph)  # raises if unfit
        self.batches = ProblemBatches(
            source,
            observe=diffusion.settings.observe,
            options=diffusion.settings.graph,
            seed=settings.seed,
            **settings.data.model_dump(),
        )
        self.picture_dir: Path | None = None
        self.timer = build_timer(settings.trainer)
        self.interruption = StopOnSignal()
        self.started = False  # whether a step was made
        self._last_time: float | None = None
        self._lr_factor: tuple[int, float] | None = None  # of a step

    def train_dataloader(self) -> DataLoader[Batch]:
        self.batches.rank = self.global_rank
        self.batches.first_step = self.trainer.global_step
        workers = self.settings.data.num_workers
        return DataLoader(
            self.batches,
            batch_size=None,
            num_workers=workers,
            worker_init_fn=ignore_interrupts,
        )

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        step = self.trainer.global_step
        generator = keyed_generator("noise", self.settings.seed, self.global_rank, step)
        if self.diffusion.training and self.diffusion.settings.dropout:
            torch.manual_seed(generator.initial_seed())  # dropout takes no generator
        loss = self.diffusion.loss(batch, generator)
        now = time.perf_counter()
        if self._last_time is not None:
            rate = batch.num_nodes / (now - self._last_time)
            self.log("nodes/s", rate, prog_bar=True, batch_size=1)
        self._last_time = now
        self.log("loss", loss, prog_bar=True, batch_size=1)
        optimizer: Any = self.optimizers()
        self.log("lr", optimizer.param_groups[-1]["lr"], batch_size=1)
        return loss

    def configure_optimizers(self) -> Any:
        optimizer = build_optimizer(self.diffusion, self.settings.optimizer)
        scheduler = LambdaLR(optimizer, self.lr_factor)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "interval": "step"},
        }

    def on_train_start(self) -> None:
        """Set the learning rate: a resumed run may be longer than when it was saved."""
        scheduler: Any = self.lr_schedulers()
        self._lr_factor = None
        factor = self.lr_factor(self.trainer.global_step)
        groups = scheduler.optimizer.param_groups
        for group, peak in zip(groups, scheduler.base_lrs, strict=True):
            group["lr"] = peak * factor

    def optimizer_step(self, *details: Any, **named: Any) -> None:
        super().optimizer_step(*details, **named)
        self.started = True

    def lr_factor(self, step: int) -> float:
        """Linear warm-up, then half a cosine over the run's steps or its time.

        One value per step: all parameter groups, and all processes, share it.
        """
        if self._lr_factor is None or self._lr_factor[0] != step:
            self._lr_factor = step, self._compute_lr_factor(step)
        return self._lr_factor[1]

    def _compute_lr_factor(self, step: int) -> float:
        trainer = self.trainer
        progress = step / trainer.max_steps if trainer.max_steps > 0 else 0.0
        left = self.timer.time_remaining()
        if left is not None:
            elapsed = self.timer.time_elapsed()
            progress = max(progress, elapsed / (elapsed + left))
            progress = trainer.strategy.broadcast(progress)  # clocks differ
        warmup = min(1.0, (step + 1) / max(self.settings.optimizer.warmup_steps, 1))
        return warmup * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        settings = self.settings.optimizer
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), settings.clip)
        if not norm.isfinite():
            raise TrainingDiverged(
                f"The gradient at step {self.trainer.global_step} is not finite: lower "
                f"optimizer.lr (got {settings.lr}), or go on with --resume from the "
                "last checkpoint, which was written before."
            )

    def val_dataloader(self) -> DataLoader[int]:
        return DataLoader(range(len(self.problems)), batch_size=None)  # type: ignore[arg-type]

    def validation_step(self, number: int) -> None:
        """Evaluate on one of the problems; each process draws its own instances."""
        if self.interruption.requested(self.trainer):
            return
        problem, settings = self.problems[number], self.settings.evaluation
        minutes = self.timer.time_elapsed() / 60
        result = evaluate(
            self.diffusion,
            problem,
            num_instances=max(1, settings.num_instances // self.trainer.world_size),
            sampler=self.sampler,
            seed=_VALIDATION + self.settings.seed + self.global_rank,
        )
        for name, value in result.metrics.items():
            key = f"{label(problem)}/{name}"
            self.log(key, value, sync_dist=True, batch_size=1, prog_bar=number == 0)
        self.log("minutes", minutes, batch_size=1)
        if self.picture_dir is not None and self.trainer.is_global_zero:
            tag = f"step{self.trainer.global_step}"
            result.save_pictures(settings.pictures, self.picture_dir, tag)
        self._last_time = None
