"""One training run: a Lightning trainer with our callbacks, loggers and limits."""

from __future__ import annotations

import logging
import pickle
import shutil
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lightning as L
import torch
from lightning.pytorch.loggers import CSVLogger, Logger, TensorBoardLogger
from lightning.pytorch.utilities import rank_zero_only

from gsdm_pyg.files import check_new_folder
from gsdm_pyg.training.callbacks import (
    EMA,
    AtomicCheckpointIO,
    LastCheckpoint,
    ProgressBar,
)
from gsdm_pyg.training.module import Training

CHECKPOINT = Path("checkpoints") / "last.ckpt"  # below the run folder

logger = logging.getLogger("gsdm_pyg")


def train(
    training: Training, run_dir: Path | None = None, resume: bool = False
) -> L.Trainer:
    """Fit; on return the model holds the averaged weights.

    SIGTERM and Ctrl-C end training early, with a checkpoint if there is a `run_dir`:
    `training.interruption.signal` tells which one came, or None.

    Args:
        training: Model, data and settings.
        run_dir: Folder for logs, checkpoints and pictures; without one nothing is
            written.
        resume: Whether to go on from the last checkpoint in `run_dir`.
    """
    settings = training.settings.trainer
    settings.check_end()
    path = run_dir / CHECKPOINT if run_dir is not None and resume else None
    if path is not None:
        _check_checkpoint(path, training)
    if settings.backend is not None:
        training.diffusion.set_backend(settings.backend)
    ema = EMA(training.settings.optimizer.ema)
    every = training.settings.evaluation.every if training.problems else None
    callbacks: list[L.Callback] = [
        ema,
        training.timer,
        training.interruption,
        ProgressBar(training.timer, settings.log_every),
    ]
    loggers: list[Logger] = []
    if run_dir is not None:
        training.picture_dir = run_dir / "pictures"
        loggers = [
            TensorBoardLogger(run_dir, name="tensorboard"),
            CSVLogger(run_dir, name="csv", flush_logs_every_n_steps=settings.log_every),
        ]
        callbacks.append(
            LastCheckpoint(run_dir / CHECKPOINT, settings.checkpoint_every, every)
        )
    with warnings.catch_warnings(), training.interruption.restored_handlers():
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
            precision=settings.precision,
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
        try:
            trainer.fit(training, ckpt_path=path, weights_only=True)
        except SystemExit as error:  # Lightning's answer to a KeyboardInterrupt
            if isinstance(error.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
    ema.on_train_end(trainer, training)  # Lightning skips it if no step was left
    return trainer


def fit(training: Training, run_dir: Path | None = None) -> None:
    """Train in the process of a caller who goes on with the model.

    Ctrl-C returns to the caller with the averaged weights so far. SIGTERM has its usual
    effect, after the last checkpoint is written.
    """
    if run_dir is not None:
        check_new_folder(run_dir, "The run folder", "choose another")
    existed = run_dir is not None and run_dir.exists()
    with removed_if_never_started(run_dir, training, keep=existed):
        trainer = train(training, run_dir)
    stopped = training.interruption.signal
    if stopped is not None:
        logger.warning(
            "%s stopped training at step %d: the model has the averaged weights so "
            "far.",
            stopped.name,
            trainer.global_step,
        )
    if stopped is signal.SIGTERM:
        signal.raise_signal(stopped)


@contextmanager
def removed_if_never_started(
    run_dir: Path | None, training: Training, keep: bool = False
) -> Iterator[None]:
    """Remove a new run folder again if the block fails before the first step.

    Args:
        run_dir: The folder, which held nothing before the run, if there is one.
        training: What the block trains.
        keep: Whether to leave the folder itself, empty.
    """
    try:
        yield
    except BaseException:
        first = rank_zero_only.rank == 0  # type: ignore[attr-defined]
        if run_dir is not None and first and not training.started:
            _remove(run_dir, keep)
        raise


def _remove(folder: Path, keep: bool) -> None:
    """Remove what is in a folder, and the folder itself unless it is to be kept."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    if not keep and folder.is_dir():
        folder.rmdir()


def _check_checkpoint(path: Path, training: Training) -> None:
    """Refuse a file that training cannot go on from, before it is begun."""
    own = {name: value.shape for name, value in training.state_dict().items()}
    try:
        # Nothing of a mapped file is read except what is looked at.
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        for key in ("callbacks", "global_step", "loops", "optimizer_states"):
            saved[key]
        for key in ("state_dict", "current_model_state"):
            found = {name: value.shape for name, value in saved[key].items()}
            if found != own:
                raise ValueError("weights of another model")
    except (
        pickle.UnpicklingError,
        RuntimeError,
        ValueError,
        EOFError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        reason = " ".join(str(error).split())[:100] or type(error).__name__
        raise ValueError(
            "The checkpoint is damaged or of another run: restore it from a copy, or "
            f"start a new run (got {str(path)!r}: {reason})."
        ) from error
