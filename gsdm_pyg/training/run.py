"""One training run: a Lightning trainer with our callbacks, loggers and limits."""

from __future__ import annotations

import warnings
from pathlib import Path

import lightning as L
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger

from gsdm_pyg.training.callbacks import (
    EMA,
    AtomicCheckpointIO,
    LastCheckpoint,
    ProgressBar,
)
from gsdm_pyg.training.module import Training

CHECKPOINT = Path("checkpoints") / "last.ckpt"  # below the run folder


def train(
    training: Training, run_dir: Path | None = None, resume: bool = False
) -> L.Trainer:
    """Fit; on return the model holds the averaged weights.

    Args:
        training: Model, data and settings.
        run_dir: Folder for logs, checkpoints and pictures; without one nothing is
            written.
        resume: Whether to go on from the last checkpoint in `run_dir`.
    """
    settings = training.settings.trainer
    settings.check_end()
    if settings.backend is not None:
        training.diffusion.denoiser.set_backend(settings.backend)
    ema = EMA(training.settings.optimizer.ema)
    callbacks: list[L.Callback] = [ema, training.timer, ProgressBar(training.timer)]
    loggers: list[Logger] = []
    if run_dir is not None:
        training.picture_dir = run_dir / "pictures"
        loggers = [
            TensorBoardLogger(run_dir, name="tensorboard"),
            CSVLogger(run_dir, name="csv", flush_logs_every_n_steps=settings.log_every),
        ]
        checkpoint = LastCheckpoint(run_dir / CHECKPOINT, settings.checkpoint_every)
        callbacks.append(checkpoint)
    every = training.settings.evaluation.every if training.problems else None
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
        path = run_dir / CHECKPOINT if run_dir is not None and resume else None
        trainer.fit(training, ckpt_path=path, weights_only=True)
    ema.on_train_end(trainer, training)  # Lightning skips it if no step was left
    return trainer
