"""What `benchmarks.sbibm` compares: GSDM, and NPE of the package sbi.

Both train on the same simulations of a task and then sample given each observation.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import yaml
from torch import Tensor
from torch.distributions import Distribution, MultivariateNormal
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.sbibm_tasks import Task, import_or_explain
from gsdm_pyg import GSDM
from gsdm_pyg.files import write_file
from gsdm_pyg.settings import ModelSettings, TrainingSettings

Sample = Callable[[Tensor, int], Tensor]  # an observation, S -> theta [S, P]


@dataclass
class Training:
    """What training took, in minutes of one core and steps."""

    minutes: float = 0.0
    steps: int = 0

    def check_finished(self, minutes: float, steps: float) -> None:
        """Stop if `fit` returned before either limit, after Ctrl-C."""
        if self.minutes < 0.98 * minutes and self.steps < steps:
            raise KeyboardInterrupt


@contextmanager
def measured() -> Iterator[Training]:
    """The core-minutes and optimizer steps of the block, once it ends."""
    training, start = Training(), time.process_time()

    def count(*arguments: object) -> None:
        training.steps += 1

    hook = register_optimizer_step_post_hook(count)
    try:
        yield training
    finally:
        hook.remove()
        training.minutes = (time.process_time() - start) / 60


def train_gsdm(
    task: Task,
    simulations: dict[str, Tensor],
    minutes: float,
    settings: dict[str, Any],
    seed: int,
) -> tuple[GSDM, Training]:
    """Our model, with its defaults except for `settings`.

    Args:
        task: The task.
        simulations: Joint draws, by variable.
        minutes: The most core-minutes that training may take.
        settings: Of `GSDM.from_problem` and `GSDM.fit`.
        seed: Chooses the weights and all randomness of training.
    """
    of_model, of_fit = split(settings)
    max_steps = TrainingSettings.from_keywords(of_fit).trainer.max_steps or math.inf
    with measured() as training:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            model = GSDM.from_problem(task.problem, simulations=simulations, **of_model)
        limit = {"max_time": duration(minutes), "clock": "processor"}
        model.fit(**{**limit, "seed": seed, **of_fit})
    training.check_finished(minutes, max_steps)
    return model, training


def read_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Keywords from texts: width=64, or optimizer.name=adamw of a section."""
    settings: dict[str, Any] = {}
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"A setting reads name=value (got {text!r}).")
        section, dot, name = path.rpartition(".")
        place = settings.setdefault(section, {}) if dot else settings
        place[name] = yaml.safe_load(value)
    return settings


def split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of `GSDM.from_problem`, and the others, which are those of `fit`."""
    of_model = {n: v for n, v in settings.items() if n in ModelSettings.model_fields}
    ModelSettings.parse(of_model)  # raises if one is wrong
    return of_model, {n: v for n, v in settings.items() if n not in of_model}


def gsdm_sampler(model: GSDM, task: Task, sampler: dict[str, Any], seed: int) -> Sample:
    """Samples of our model; `sampler` changes its own settings."""
    generator = torch.Generator().manual_seed(seed)

    def sample(x: Tensor, num: int) -> Tensor:
        given = {"x": x}
        drawn = model.sample(task.problem, given, num, generator=generator, **sampler)
        return drawn["theta"]

    return sample


def save(model: GSDM, training: Training, folder: Path) -> None:
    """Write a model folder, and what training took."""
    model.save_pretrained(folder)
    write_file(folder / "training.json", json.dumps(asdict(training)).encode())


def load(folder: Path) -> tuple[GSDM, Training]:
    """What `save` wrote."""
    training = Training(**json.loads((folder / "training.json").read_bytes()))
    return GSDM.from_pretrained(folder), training


def train_npe(
    task: Task, simulations: dict[str, Tensor], seed: int
) -> tuple[Sample, Training]:
    """Neural posterior estimation with sbi's defaults, until it stops by itself."""
    inference = import_or_explain("sbi.inference")
    tracking = import_or_explain("sbi.utils.tracking")
    writer = import_or_explain("torch.utils.tensorboard").SummaryWriter
    x = simulations["x"].flatten(1)
    with (
        TemporaryDirectory() as logs,  # sbi writes to the current folder by default
        torch.random.fork_rng(),
        measured() as training,
    ):
        torch.manual_seed(seed)
        npe = inference.NPE(
            prior=npe_prior(task.prior),
            tracker=tracking.TensorBoardTracker(writer(logs)),
            show_progress_bars=False,
        )
        npe.append_simulations(simulations["theta"], x).train()
        posterior = npe.build_posterior()

    def sample(x: Tensor, num: int) -> Tensor:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return posterior.sample((num,), x=x.flatten(), show_progress_bars=False)

    return sample, training


def npe_prior(parameters: dict[str, Any]) -> Distribution:
    """The prior as sbi wants it, which rejects samples outside of its support."""
    if "low" in parameters:
        return import_or_explain("sbi.utils").BoxUniform(**parameters)
    return MultivariateNormal(**parameters)


def duration(minutes: float) -> str:
    """As the trainer takes it, DD:HH:MM:SS.

    >>> duration(90.5)
    '00:01:30:30'
    """
    whole, seconds = divmod(round(60 * minutes), 60)
    hours, minute = divmod(whole, 60)
    return f"{hours // 24:02d}:{hours % 24:02d}:{minute:02d}:{seconds:02d}"
