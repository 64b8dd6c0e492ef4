"""Lightning callbacks: averaged weights, the progress bar, checkpoints."""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import Any

import lightning as L
import torch
from lightning.pytorch.callbacks import (
    Checkpoint,
    Timer,
    TQDMProgressBar,
    WeightAveraging,
)
from lightning.pytorch.plugins.io import TorchCheckpointIO
from torch.optim.swa_utils import get_ema_multi_avg_fn

from gsdm_pyg.clock import clock_of
from gsdm_pyg.files import atomic_writer
from gsdm_pyg.settings import TrainerSettings

logger = logging.getLogger("gsdm_pyg")


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


class ProcessorTimer(Timer):
    """A `Timer` of training that goes only while this process is computing.

    Where the model is not on a CPU, it is the wall's clock.

    Args:
        duration: When to stop, "DD:HH:MM:SS" over all threads; None does not stop.
    """

    def __init__(self, duration: str | None) -> None:
        super().__init__(duration, verbose=False)
        self._before = 0.0  # seconds before this process
        self._begin: float | None = None
        self._end: float | None = None
        self._now = clock_of(torch.device("cpu"))

    def time_elapsed(self, stage: str = "train") -> float:
        if self._begin is None or stage != "train":
            return self._before
        end = self._now() if self._end is None else self._end
        return self._before + end - self._begin

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._now = clock_of(module.device)
        self._begin = self._now()

    def on_train_end(self, *details: Any) -> None:
        self._end = self._now()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._before = state_dict["time_elapsed"]["train"]


def build_timer(settings: TrainerSettings) -> Timer:
    """The timer that ends training after `max_time`."""
    if settings.clock == "processor":
        return ProcessorTimer(settings.max_time)
    return Timer(settings.max_time, verbose=False)


class ProgressBar(TQDMProgressBar):
    """Lightning's bar over an endless epoch, with the time that is left on the wall.

    In a file or a notebook it moves with the logs, and not at every step.
    """

    def __init__(self, timer: Timer, log_every: int) -> None:
        super().__init__(refresh_rate=1 if sys.stdout.isatty() else log_every)
        self._timer = timer

    def get_metrics(
        self, trainer: L.Trainer, module: L.LightningModule
    ) -> dict[str, Any]:
        metrics = super().get_metrics(trainer, module)
        metrics.pop("v_num", None)
        rate = metrics.get("nodes/s")
        if isinstance(rate, float):
            metrics["nodes/s"] = f"{rate:,.0f}"
        done = trainer.global_step - self._first_step
        elapsed = time.monotonic() - self._start
        left = self._timer.time_remaining()
        if left is not None:  # of the timer's clock, which may be the processor's
            spent = self._timer.time_elapsed() - self._spent
            left *= elapsed / spent if spent > 0 else 1.0
        if trainer.max_steps > 0 and done:
            by_steps = elapsed / done * (trainer.max_steps - trainer.global_step)
            left = by_steps if left is None else min(left, by_steps)
        if left is not None:
            minutes, seconds = divmod(max(0, int(left)), 60)
            metrics["left"] = f"{minutes}:{seconds:02d}"
        return metrics

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        super().on_train_start(trainer, module)
        self._start, self._first_step = time.monotonic(), trainer.global_step
        self._spent = self._timer.time_elapsed()  # by a run that goes on

    @property
    def total_train_batches(self) -> int | float:
        limit = self.trainer.max_steps
        return limit if limit > 0 else super().total_train_batches


class LastCheckpoint(Checkpoint):
    """Saves the run every few steps, and at its last step before weights are averaged.

    Lightning runs it after all other callbacks, as it is a `Checkpoint`.

    Args:
        path: The file to write.
        every: Steps between two checkpoints.
        validate_every: Steps between two validations, before each of which it saves
            too: a kill during a long one loses nothing.
    """

    def __init__(
        self, path: Path, every: int, validate_every: int | None = None
    ) -> None:
        super().__init__()
        self._path = path
        self._intervals = [every, validate_every or every]
        self._saved = 0  # the step of the last checkpoint

    def on_train_batch_end(self, trainer: L.Trainer, *details: Any) -> None:
        step = trainer.global_step
        ended = trainer.should_stop or step == trainer.max_steps
        if ended or any(step % interval == 0 for interval in self._intervals):
            self._save(trainer)

    def on_exception(
        self, trainer: L.Trainer, module: L.LightningModule, exception: BaseException
    ) -> None:
        """Keep the steps since the last checkpoint where, say, a sampler fails.

        Not where training itself has diverged, nor among several processes, of which
        the others wait for each other elsewhere.
        """
        own = isinstance(exception, ValueError | TypeError | LookupError)
        alone = trainer.world_size == 1 and trainer.training  # not in a validation
        if own and alone and trainer.global_step > self._saved:
            self._save(trainer)

    def _save(self, trainer: L.Trainer) -> None:
        """Write the checkpoint; a full disk does not end training.

        Several processes wait for each other here, so there it does.
        """
        try:
            trainer.save_checkpoint(self._path)
        except OSError as error:
            if trainer.world_size > 1:
                raise
            logger.warning(
                "The checkpoint of step %d was not written: %s (got %r). Training goes "
                "on; a kill would lose the steps since the last one.",
                trainer.global_step,
                error.strerror or error,
                str(self._path),
            )
            return
        self._saved = trainer.global_step


class AtomicCheckpointIO(TorchCheckpointIO):
    """Writes checkpoints whole or not at all: a kill leaves the old one."""

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | Path,
        storage_options: Any | None = None,
    ) -> None:
        with atomic_writer(Path(path)) as file:
            try:
                torch.save(checkpoint, file)
            except RuntimeError as error:  # of torch, after one such as a full disk
                if isinstance(error.__context__, OSError):
                    raise error.__context__ from None
                raise
