"""Training with Lightning: steps, averaged weights, evaluation, checkpoints, logs."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    ModelCheckpoint,
    Timer,
    TQDMProgressBar,
    WeightAveraging,
)
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch import Tensor
from torch.optim.swa_utils import get_ema_multi_avg_fn
from torch.utils.data import DataLoader
from torch_geometric.data import Batch

from gsdm_pyg.config import (
    DataConfig,
    EvaluationConfig,
    OptimizerConfig,
    TrainerConfig,
)
from gsdm_pyg.data import ProblemBatches, keyed_generator
from gsdm_pyg.evaluation import Evaluation, evaluate, label
from gsdm_pyg.memory import keep_freed_memory
from gsdm_pyg.model import GSDM
from gsdm_pyg.optim import Muon
from gsdm_pyg.problem import Problem, ProblemFamily

_VALIDATION = 10_000  # validation judges other instances than the final evaluation


class TrainingDiverged(RuntimeError):
    """The loss or its gradient is no longer finite."""


class Training(L.LightningModule):
    """One optimiser step per batch; validation samples and judges fixed problems.

    Args:
        model: The model to train.
        source: Where instances come from.
        data: Batching.
        optimizer: Learning rate, clipping, averaging.
        evaluation: How validation samples.
        problems: The problems that validation solves.
        seed: Root of all randomness: step i draws from (seed, rank, i).
    """

    def __init__(
        self,
        model: GSDM,
        source: Problem | ProblemFamily,
        data: DataConfig,
        optimizer: OptimizerConfig,
        evaluation: EvaluationConfig = EvaluationConfig(),
        problems: Sequence[Problem] = (),
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.model = model
        self.num_workers = data.num_workers
        self.batches = ProblemBatches(
            source,
            batch_size=data.batch_size,
            max_nodes=data.max_nodes,
            num_examples=data.num_examples,
            observe=data.observe,
            view=model.view,
            seed=seed,
        )
        self.optimizer = optimizer
        self.evaluation = evaluation
        self.problems = problems
        self.seed = seed
        self.picture_dir: Path | None = None
        self.timer = Timer(verbose=False)
        self._last_time: float | None = None

    def train_dataloader(self) -> DataLoader:
        self.batches.rank = self.global_rank
        self.batches.first_step = self.trainer.global_step
        return DataLoader(self.batches, batch_size=None, num_workers=self.num_workers)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        step = self.trainer.global_step
        generator = keyed_generator("noise", self.seed, self.global_rank, step)
        if self.model.training and self.model.dropout:
            torch.manual_seed(generator.initial_seed())  # dropout has no generator
        loss = self.model.loss(batch, generator)
        now = time.perf_counter()
        if self._last_time is not None:
            rate = batch.num_nodes / (now - self._last_time)
            self.log("nodes/s", rate, prog_bar=True, batch_size=1)
        self._last_time = now
        self.log("loss", loss, prog_bar=True, batch_size=1)
        return loss

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        factor = self._lr_factor()
        for group in self.trainer.optimizers[0].param_groups:
            group["lr"] = factor * group["peak_lr"]
        self.log("lr", factor * self.optimizer.lr, batch_size=1)

    def _lr_factor(self) -> float:
        """Linear warm-up, then half a cosine over the run's steps or its time."""
        step, trainer = self.trainer.global_step, self.trainer
        progress = step / trainer.max_steps if trainer.max_steps > 0 else 0.0
        left = self.timer.time_remaining()
        if left is not None:
            elapsed = self.timer.time_elapsed()
            progress = max(progress, elapsed / (elapsed + left))
            progress = trainer.strategy.broadcast(progress)  # clocks differ
        warmup = min(1.0, (step + 1) / max(self.optimizer.warmup_steps, 1))
        return warmup * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return build_optimizer(self.model, self.optimizer)

    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        norm = torch.nn.utils.clip_grad_norm_(self.parameters(), self.optimizer.clip)
        if not norm.isfinite():
            raise TrainingDiverged(
                f"The gradient at step {self.trainer.global_step} is not finite: lower "
                f"optimizer.lr (got {self.optimizer.lr}), or go on with --resume from "
                "the last checkpoint, which was written before."
            )

    def val_dataloader(self) -> DataLoader:
        return DataLoader(range(len(self.problems)), batch_size=None)  # type: ignore[arg-type]

    def validation_step(self, number: int) -> None:
        """Solve one of the problems; each process judges its own instances."""
        problem, settings = self.problems[number], self.evaluation
        result = evaluate(
            self.model,
            problem,
            num_instances=max(1, settings.num_instances // self.trainer.world_size),
            steps=settings.steps,
            solver=settings.solver,
            restarts=settings.restarts,
            seed=_VALIDATION + self.seed + self.global_rank,
        )
        for name, value in result.metrics.items():
            key = f"{label(problem)}/{name}"
            self.log(key, value, sync_dist=True, batch_size=1, prog_bar=number == 0)
        if self.picture_dir is not None and self.trainer.is_global_zero:
            tag = f"step{self.trainer.global_step}"
            save_pictures(problem, result, settings.pictures, self.picture_dir, tag)
        self._last_time = None


def build_optimizer(model: GSDM, settings: OptimizerConfig) -> Muon:
    """The optimiser of a config: Muon for the blocks' matrices, or AdamW for all."""
    matrices = model.denoiser.hidden_matrices() if settings.name == "muon" else []
    chosen = {id(p) for p in matrices}
    return Muon(
        matrices,
        [p for p in model.parameters() if id(p) not in chosen],
        lr=settings.lr,
        matrix_lr=settings.matrix_lr,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
    )


def save_pictures(
    problem: Problem, result: Evaluation, count: int, folder: Path, tag: str
) -> None:
    """Draw the first `count` answers as `folder`/bcmf-m8-n8-k4-<tag>-<i>.png."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [f"{name}{size}" for name, size in problem.sizes().items()]
    stem = "-".join([type(problem).__name__.lower(), *sizes, tag])
    for i, figure in enumerate(result.figures(problem, count)):
        figure.savefig(folder / f"{stem}-{i}.png", dpi=120)


class EMA(WeightAveraging):
    """Exponential moving average of the weights, used for every evaluation.

    The decay rises to its final value as (1 + n) / (10 + n), so that short runs do
    not average over their first, random weights.
    """

    def __init__(self, decay: float) -> None:
        def average(averages: Any, currents: Any, num_averaged: Any) -> None:
            n = int(num_averaged)
            get_ema_multi_avg_fn(min(decay, (1 + n) / (10 + n)))(
                averages, currents, num_averaged
            )

        super().__init__(use_buffers=False, multi_avg_fn=average)


class ProgressBar(TQDMProgressBar):
    """Lightning's bar over an endless epoch, with the time that is left."""

    def __init__(self, timer: Timer) -> None:
        super().__init__()
        self._timer = timer

    def get_metrics(self, trainer: L.Trainer, module: L.LightningModule) -> dict:
        metrics = super().get_metrics(trainer, module)
        metrics.pop("v_num", None)
        rate = metrics.get("nodes/s")
        if isinstance(rate, float):
            metrics["nodes/s"] = f"{rate:,.0f}"
        done = trainer.global_step - self._first_step
        left = self._timer.time_remaining()
        if trainer.max_steps > 0 and done:
            elapsed = time.monotonic() - self._start
            by_steps = elapsed / done * (trainer.max_steps - trainer.global_step)
            left = by_steps if left is None else min(left, by_steps)
        if left is not None:
            metrics["left"] = f"{int(left) // 60}:{int(left) % 60:02d}"
        return metrics

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        super().on_train_start(trainer, module)
        self._start, self._first_step = time.monotonic(), trainer.global_step

    @property
    def total_train_batches(self) -> int | float:
        limit = self.trainer.max_steps
        return limit if limit > 0 else super().total_train_batches


class Checkpoints(ModelCheckpoint):
    """Also saves at the last step, before the averaged weights replace the current."""

    def on_train_batch_end(self, trainer: L.Trainer, *details: Any) -> None:
        super().on_train_batch_end(trainer, *details)
        ended = trainer.should_stop or trainer.global_step == trainer.max_steps
        if ended and self._last_global_step_saved != trainer.global_step:
            self._save_topk_checkpoint(trainer, self._monitor_candidates(trainer))


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes beside the target and renames: a kill leaves the old checkpoint whole."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | Path,
        storage_options: Any | None = None,
    ) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            with open(partial, "wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)


def train(
    training: Training,
    settings: TrainerConfig,
    run_dir: Path | None = None,
    resume: Path | None = None,
) -> L.Trainer:
    """Fit; on return the model holds the averaged weights.

    Args:
        training: Model, data and optimiser.
        settings: Length and hardware.
        run_dir: Folder for logs, checkpoints and pictures; without one nothing is
            written.
        resume: A checkpoint to go on from.
    """
    settings.check_end()
    keep_freed_memory()
    ema = EMA(training.optimizer.ema)
    training.timer = Timer(settings.max_time, verbose=False)
    loggers: list[Logger] = []
    callbacks: list[L.Callback] = [
        ema,
        training.timer,
        ProgressBar(training.timer),
    ]
    if run_dir is not None:
        training.picture_dir = run_dir / "pictures"
        loggers = [
            TensorBoardLogger(run_dir, name="tensorboard"),
            CSVLogger(run_dir, name="csv", flush_logs_every_n_steps=settings.log_every),
        ]
        callbacks.append(
            Checkpoints(
                dirpath=run_dir / "checkpoints",
                filename="last",
                every_n_train_steps=settings.checkpoint_every,
                enable_version_counter=False,
            )
        )
    every = training.evaluation.every if training.problems else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*does not have many workers.*")
        warnings.filterwarnings("ignore", message=".*is not empty.*")
        warnings.filterwarnings("ignore", message=".*srun.*")
        trainer = L.Trainer(
            max_steps=settings.max_steps or -1,
            max_epochs=-1,
            accelerator=settings.accelerator,
            devices=settings.devices,
            num_nodes=settings.num_nodes,
            strategy=settings.strategy,
            precision=settings.precision,  # type: ignore[arg-type]
            logger=loggers,
            callbacks=callbacks,
            plugins=[AtomicCheckpointIO()],
            enable_checkpointing=run_dir is not None,
            enable_model_summary=False,
            log_every_n_steps=settings.log_every,
            val_check_interval=every,
            check_val_every_n_epoch=None,
            limit_val_batches=1.0 if every else 0,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )
        training.train()
        trainer.fit(training, ckpt_path=resume, weights_only=True)
    ema.on_train_end(trainer, training)  # Lightning skips it if no step was left
    return trainer
