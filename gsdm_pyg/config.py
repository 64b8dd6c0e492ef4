"""Configs: YAML -> validated settings, with dotted overrides (`model.layers=6`)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
)

from gsdm_pyg.diffusion.loss import ContinuousLoss, DiscreteLoss
from gsdm_pyg.diffusion.sampling import Solver, check_steps
from gsdm_pyg.diffusion.schedule import Schedule
from gsdm_pyg.graphical_model import Edges
from gsdm_pyg.nn.structured_attention import Backend
from gsdm_pyg.problem import Observe, Problem, ProblemFamily, resolve_problem
from gsdm_pyg.view import Embedding, Intermediates


class ConfigError(ValueError):
    """A config that cannot be used; the message says which key and why."""


class _Loader(yaml.SafeLoader):
    """YAML without base 60, in which 10:00:00:00 would be a number."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile(r"[-+]?[0-9]+$") if tag.endswith(":int") else pattern)
        for tag, pattern in resolvers
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ProblemConfig(Section):
    """A problem and its sizes: a number, or [low, high] to draw one per instance."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    def source(self, sizes: dict[str, Any] | None = None) -> ProblemFamily:
        """The family that the config describes, or the same problem at other sizes."""
        problem: type[Problem] = resolve_problem(self.name)
        return problem.family(**(self.model_extra or {} if sizes is None else sizes))


class ModelConfig(Section):
    """Arguments of `GSDM.from_problem`."""

    width: PositiveInt = 64
    layers: PositiveInt = 12
    heads: PositiveInt = 2
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    self_conditioning: bool = False
    embedding: Embedding = "exchangeable"
    edges: Edges = "structured"
    intermediates: Intermediates = "keep"
    schedule: Schedule = "cosine"
    num_timesteps: PositiveInt = 1000
    discrete_loss: DiscreteLoss = "cross_entropy"
    continuous_loss: ContinuousLoss = "x0"
    discrete_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    backend: Backend = "auto"


class DataConfig(Section):
    """Arguments of `ProblemBatches`."""

    batch_size: PositiveInt = 16
    max_nodes: PositiveInt | None = None
    num_examples: PositiveInt | None = None
    observe: Observe = "roles"
    num_workers: NonNegativeInt = 0


class OptimizerConfig(Section):
    """Warm-up, cosine decay, clipping and averaged weights around an optimiser.

    "muon" gives the matrices inside the blocks to Muon at `matrix_lr` and the other
    parameters to AdamW at `lr`; "adamw" gives all to AdamW.
    """

    name: Literal["muon", "adamw"] = "muon"
    lr: PositiveFloat = 2e-3
    matrix_lr: PositiveFloat = 0.02
    warmup_steps: NonNegativeInt = 200
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: NonNegativeFloat = 0.0
    clip: PositiveFloat = 1.0
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.999


class TrainerConfig(Section):
    """How long to train, on what, and what to write how often (in steps)."""

    max_steps: PositiveInt | None = None
    max_time: Annotated[str, Field(pattern=r"^\d\d:\d\d:\d\d:\d\d$")] | None = None
    accelerator: str = "auto"
    devices: int | list[int] | Literal["auto"] = 1
    num_nodes: PositiveInt = 1
    strategy: str = "auto"
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    log_every: PositiveInt = 50
    checkpoint_every: PositiveInt = 500

    def check_end(self) -> None:
        if self.max_steps is None and self.max_time is None:
            raise ConfigError(
                "Set max_steps or max_time of the trainer: training needs an end "
                "(got neither)."
            )


class EvaluationConfig(Section):
    """Sampling at fixed sizes during training and at its end."""

    every: PositiveInt | None = None
    problems: list[dict[str, Any]] = []
    num_instances: PositiveInt = 16
    final_instances: PositiveInt = 64
    steps: PositiveInt = 50
    solver: Solver = "ddpm"
    restarts: NonNegativeInt = 0
    pictures: NonNegativeInt = 2


class Config(Section):
    """One experiment."""

    problem: ProblemConfig
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    trainer: TrainerConfig = TrainerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    seed: NonNegativeInt = 0


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Read a YAML file, apply overrides `a.b=value` and validate the result."""
    path = Path(path)
    if not path.is_file():
        near = sorted(str(p) for p in path.parent.glob("*.yaml"))
        hint = f" There: {', '.join(near)}." if near else ""
        raise ConfigError(f"The config file does not exist (got {str(path)!r}).{hint}")
    try:
        values = yaml.load(path.read_text(), _Loader) or {}
    except yaml.YAMLError as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must hold sections such as 'problem:' and 'model:'.")
    for override in overrides:
        _apply(values, override)
    return parse_config(values)


def parse_config(values: dict[str, Any]) -> Config:
    """Validate the sections of a config."""
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        raise ConfigError("\n".join(_explain(e) for e in error.errors())) from None
    try:
        config.problem.source()
        for sizes in config.evaluation.problems:
            config.problem.source(sizes)
    except (ValueError, TypeError, FileNotFoundError) as error:
        raise ConfigError(f"problem: {error}") from error
    evaluation = config.evaluation
    if evaluation.problems:
        try:
            check_steps(
                evaluation.steps, evaluation.restarts, config.model.num_timesteps
            )
        except ValueError as error:
            raise ConfigError(f"evaluation: {error}") from error
    return config


def dump_config(config: Config) -> str:
    """The resolved config as YAML that `load_config` reads back."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def _apply(values: dict[str, Any], override: str) -> None:
    dotted, equals, text = override.partition("=")
    keys = dotted.split(".")
    if not equals or not all(keys):
        raise ConfigError(f"An override reads section.key=value (got {override!r}).")
    section = values
    for key in keys[:-1]:
        section = section.setdefault(key, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{key!r} has no keys below it (got {override!r}).")
    try:
        section[keys[-1]] = yaml.load(text, _Loader)
    except yaml.YAMLError:
        raise ConfigError(f"The value is not valid YAML (got {override!r}).") from None


def _explain(error: Any) -> str:
    """One sentence per error: the key, what is wrong, what was given, and the fix."""
    location = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        section: Any = Config
        for part in error["loc"][:-1]:
            section = section.model_fields[part].annotation
        known = list(section.model_fields)
        near = difflib.get_close_matches(str(error["loc"][-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
        return f"Unknown config key {location!r}; {hint}"
    if error["type"] == "missing":
        return f"The config needs the key {location!r}."
    return f"{location}: {error['msg']} (got {error['input']!r})."
