"""What a model, a sampler and a training run are made of.

Every setting is declared, documented and validated here and nowhere else: YAML
sections, keywords in Python, flags of the command line and config.json all read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from gsdm_pyg.choices import (
    Backend,
    ContinuousLoss,
    DiscreteLoss,
    EdgeKinds,
    Edges,
    Embedding,
    Intermediates,
    Method,
    Observe,
    Scales,
    Schedule,
    SolveMethod,
    Solver,
    Spacing,
)
from gsdm_pyg.settings_base import Settings, SettingsError
from gsdm_pyg.variables import Role

Share = Annotated[float, Field(ge=0, lt=1)]


class GraphOptions(Settings):
    """The graph that a model sees of a problem; all but the defaults are ablations."""

    embedding: Embedding = "exchangeable"
    """What distinguishes the nodes of one variable (section 3.2). "exchangeable": the
    positions that the problem declares, so that nodes which agree in all of them are
    exchangeable; programs find theirs. "auto": the indices that the graph does not
    allow to permute, whatever the problem declares. "array": the index in the array.
    "independent": each node has a vector of its own, at one size only. "shared":
    nothing except the edges."""
    edges: Edges = "structured"
    """Which nodes a node attends to, see `GraphicalModel.edge_index`."""
    intermediates: Intermediates = "keep"
    """"keep" trains intermediates like latent variables. "drop" removes their nodes,
    see `GraphicalModel.without_intermediates`. "unsupervised" keeps the nodes without
    values: their input is zero and they have no loss. With the last two, intermediates
    can neither be given nor sampled."""

    def has_values(self, role: Role) -> bool:
        """Whether the nodes of a variable of this role have values."""
        return role is not Role.INTERMEDIATE or self.intermediates != "unsupervised"


class ModelSettings(GraphOptions):
    """The `model` section of a config: keywords of `GSDM.from_problem`."""

    method: Method = "diffusion"
    """What is trained. "diffusion" is the paper's model. The others are what it is
    compared with, and draw by one evaluation of their network, whatever the sampler.
    "regression" is the same network with x_t and t zero: it predicts the latent values
    from the observed ones. "vaeac" is a variational autoencoder of all nodes of one
    size, which needs `embedding="independent"`: see `gsdm_pyg.baselines.vaeac`. Of the
    settings that follow it uses width, layers, observe and scales."""
    width: PositiveInt = 64
    """D, the size of a hidden state."""
    layers: PositiveInt = 12
    """L, the number of residual and attention blocks; information travels at most L
    edges."""
    heads: PositiveInt = 2
    """H, the number of attention heads."""
    edge_kinds: EdgeKinds = "auto"
    """Whether attention knows if an edge leads to a parent, a child, a node of the same
    factor or the node itself, by a learned bias per kind and head. Edges are
    symmetrized, so without it a node of a chain cannot tell its past from its future.
    "auto" is "learned" where the two ends of an edge do not tell its kind by their
    variables and positions, and "ignored" elsewhere."""
    dropout: Share = 0.0
    """Dropout inside the residual blocks."""
    self_conditioning: bool = False
    """Whether the denoiser also sees its last estimate of x0 (Chen et al., 2023), so
    that a sampler refines one answer from step to step. In half of its steps, training
    computes the estimate by a second forward pass."""
    observe: Observe = "roles"
    """What training conditions on, see `Problem.observe`. Train with "mixed" to sample
    given any subset of the variables."""
    schedule: Schedule = "shifted"
    """Noise schedule, see `gsdm_pyg.diffusion.schedule.betas`."""
    num_timesteps: PositiveInt = 1000
    """T, the steps of the diffusion."""
    discrete_loss: DiscreteLoss = "cross_entropy"
    """Loss of discrete nodes, cross-entropy or the squared error of probabilities."""
    continuous_loss: ContinuousLoss = "v"
    """Loss of continuous nodes. "x0" is the squared error of x0. "v" divides it by
    1 - alpha_bar, and so weights the error of the network's raw output (minus the
    velocity of Salimans and Ho, 2022) equally at every noise level: for answers that
    are determined and wanted exactly."""
    scales: Scales = "support"
    """On which scale continuous variables diffuse, see `gsdm_pyg.transforms`.
    "support": on that of a logarithm where their domain has one end, of a probit where
    it has two, of an asinh where draws have heavy tails, and on their own elsewhere.
    "linear": all on their own, as in the paper; samples outside of a domain are clamped
    to its bounds."""
    discrete_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 0.2
    """Standard deviation of one-hot codes as they diffuse, 1 for real numbers. The
    lower, the more of the noise levels leave a class uncertain. 0.2 suits the schedule
    "shifted", which has a fifth of the noise of "cosine"."""

    @model_validator(mode="after")
    def _check_method(self) -> Self:
        if self.method == "vaeac" and self.embedding != "independent":
            raise ValueError(
                "a VAEAC has weights of its own for every node: choose "
                f"embedding='independent' (got {self.embedding!r})"
            )
        return self

    @model_validator(mode="after")
    def _check_width(self) -> Self:
        if self.width % 2 or self.width < 4 or self.width % self.heads:
            raise ValueError(
                "width must be even, at least 4 and a multiple of heads "
                f"(got width={self.width}, heads={self.heads})"
            )
        return self

    @property
    def graph(self) -> GraphOptions:
        """The options that concern the graph alone."""
        return GraphOptions(**self.model_dump(include=set(GraphOptions.model_fields)))


class SamplerSettings(Settings):
    """How samples are drawn; a trained model stores the settings that suit it."""

    steps: PositiveInt = 20
    """Evaluations of the network on the way from noise to a sample."""
    solver: Solver = "dpm++_sde"
    """How to integrate. "ddpm" (ancestral sampling, also DDIM with eta = 1) and
    "dpm++_sde" follow the SDE: noise that is added on the way corrects mistakes of the
    network, and values that do not fit together. "ddim" and "dpm++" follow the ODE.
    "dpm++" and "dpm++_sde" are of second order; the others need more steps, and "ddpm"
    narrows a posterior in few."""
    spacing: Spacing = "logsnr"
    """Which noise levels to visit, see `gsdm_pyg.diffusion.solvers.step_times`. "time"
    spaces them evenly over the T steps of the diffusion, and "logsnr" evenly in the
    logarithm of the noise, down to the lowest."""
    restarts: NonNegativeInt = 0
    """How many times to go back by two fifths of the steps and denoise again (Xu et
    al., 2023), which corrects values that do not fit together; use spacing="time", as
    "logsnr" would go back to low noise only. An exact denoiser's distribution stays as
    it is."""

    @model_validator(mode="after")
    def _check_restarts(self) -> Self:
        if self.restarts and self.steps == 1:
            raise ValueError(
                f"restarts need at least 2 steps (got {self.restarts} with steps=1)"
            )
        return self

    def __str__(self) -> str:
        """In words, such as "50 steps of ddpm (time) with restarts=8"."""
        restarts = f" with restarts={self.restarts}" if self.restarts else ""
        return f"{self.steps} steps of {self.solver} ({self.spacing}){restarts}"

    @property
    def restart_steps(self) -> int:
        """The steps that one restart repeats."""
        return round(0.4 * self.steps)

    @property
    def evaluations(self) -> int:
        """Evaluations of the network for one batch, restarts included."""
        return self.steps + self.restarts * self.restart_steps

    def within(self, num_timesteps: int) -> SamplerSettings:
        """The same for a diffusion of T steps; only the default may be shortened."""
        if self.steps <= num_timesteps:
            return self
        if "steps" not in self.model_fields_set:
            return self.updated({"steps": num_timesteps})
        raise SettingsError(
            f"steps must be between 1 and num_timesteps, {num_timesteps} "
            f"(got {self.steps})."
        )


class SearchSettings(Settings):
    """How `GSDM.solve` looks for a solution, and what it may cost."""

    method: SolveMethod = "auto"
    """What a try is. "sample" draws a sample, of 10 steps at first and of more after
    some tries, up to the steps of the sampler. "commit" gives classes to one entry
    after the other, in random order, and takes over what the constraints imply; it
    needs `Problem.possible`. "auto" commits where it can."""
    tries: PositiveInt = 32
    """The most tries of each answer."""
    max_evaluations: PositiveInt | None = None
    """The most evaluations of the network for each answer."""


class DataSettings(Settings):
    """The `data` section of a config: how instances are batched."""

    batch_size: PositiveInt | None = None
    """The most graphs in a batch; by default as many as have up to 4,096 nodes at the
    largest size of the family, a power of two between 16 and 256."""
    max_nodes: PositiveInt | None = None
    """The most nodes in a batch. A batch is closed as soon as the largest problem of
    the family might not fit any more, so that the bound holds and sizes are drawn
    without bias."""
    num_examples: PositiveInt | None = None
    """Train on that many distinct instances instead of fresh ones."""
    num_workers: NonNegativeInt = 0
    """Processes that draw batches ahead; 0 draws them in the training process."""

    def num_graphs(self, largest: int) -> int:
        """The most graphs in a batch, if the largest graph has so many nodes."""
        if self.batch_size is not None:
            return self.batch_size
        fitting = max(1, 4096 // largest)
        return min(max(16, 2 ** (fitting.bit_length() - 1)), 256)


class OptimizerSettings(Settings):
    """The `optimizer` section: warm-up, cosine decay, clipping and averaged weights."""

    name: Literal["muon", "adamw"] = "muon"
    """"muon" gives the matrices inside the blocks to Muon at `matrix_lr` and the other
    parameters to AdamW at `lr`; "adamw" is torch's AdamW for all."""
    lr: PositiveFloat = 2e-3
    """Peak learning rate of AdamW."""
    matrix_lr: PositiveFloat = 0.02
    """Peak learning rate of Muon, the length of a step in spectral norm."""
    warmup_steps: NonNegativeInt = 200
    """Steps over which the learning rate rises linearly to its peak."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """Decay rates of AdamW's moments."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay."""
    clip: PositiveFloat = 1.0
    """The largest norm of the gradient; a longer one is scaled down to it."""
    ema: Share = 0.999
    """Decay of the averaged weights, which evaluation and the exported model use."""


def _check_duration(value: Any) -> Any:
    if not (isinstance(value, str) and re.fullmatch(r"\d\d(:\d\d){3}", value)):
        raise ValueError(
            "the format is DD:HH:MM:SS, such as 00:00:10:00 for ten minutes "
            f"(got {value!r})"
        )
    return value


class TrainerSettings(Settings):
    """The `trainer` section: how long, on which hardware, what to write how often."""

    max_steps: PositiveInt | None = None
    """Stop after this many steps."""
    max_time: Annotated[str, BeforeValidator(_check_duration)] | None = None
    """Stop after this long, "DD:HH:MM:SS"."""
    clock: Literal["wall", "processor"] = "wall"
    """What measures `max_time`, and the minutes that are reported. "processor" counts
    the seconds that this process is computing, over all of its threads, so that other
    work on the machine takes nothing from the run; on a GPU it is the wall's."""
    accelerator: str = "auto"
    """Lightning's accelerator, such as "cpu" or "gpu"."""
    devices: int | list[int] | Literal["auto"] = 1
    """How many devices to train on, or which; see Lightning."""
    num_nodes: PositiveInt = 1
    """Machines that train together."""
    strategy: str = "auto"
    """Lightning's strategy, such as "ddp"."""
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    """Lightning's precision."""
    backend: Backend | None = None
    """How attention is computed, see `StructuredAttentionConv`; by default as the model
    was made."""
    log_every: PositiveInt = 50
    """Steps between two entries of the logs."""
    checkpoint_every: PositiveInt = 500
    """Steps between two checkpoints."""

    def check_end(self) -> None:
        """Reject a run without an end."""
        if self.max_steps is None and self.max_time is None:
            raise SettingsError(
                "Set max_steps or max_time of the trainer: training needs an end "
                "(got neither)."
            )


class EvaluationSettings(SamplerSettings):
    """The `evaluation` section: sampling at fixed sizes during and after training.

    The settings of the sampler are stored with the trained model.
    """

    every: PositiveInt | None = None
    """Training steps between two evaluations; by default only the trained model is
    evaluated."""
    problems: list[dict[str, Any]] = Field(default_factory=list)
    """The sizes to evaluate at, each with a number per size; fields of the problem that
    are no sizes are those of training unless they are named."""
    num_instances: PositiveInt = 16
    """Instances of each problem during training."""
    final_instances: PositiveInt = 64
    """Instances of each problem after training."""
    pictures: NonNegativeInt = 2
    """How many answers of each problem to draw."""

    @property
    def sampler(self) -> SamplerSettings:
        """The settings that concern the sampler alone."""
        names = set(SamplerSettings.model_fields) & self.model_fields_set
        return SamplerSettings(**self.model_dump(include=names))


class TrainingSettings(Settings):
    """The sections of a config that describe a training run."""

    data: DataSettings = DataSettings()
    optimizer: OptimizerSettings = OptimizerSettings()
    trainer: TrainerSettings = TrainerSettings()
    evaluation: EvaluationSettings = EvaluationSettings()
    seed: NonNegativeInt = 0
    """Root of all randomness: step i draws from (seed, rank, i)."""

    @classmethod
    def from_keywords(
        cls, keywords: Mapping[str, Any], also: Iterable[str] = ()
    ) -> Self:
        """Settings by name, each in its section, or whole sections as dictionaries.

        Settings of the evaluation, and `name` of the optimizer, need their section:
        `evaluation={"steps": 100}`.
        """
        by_name = {
            name: section
            for section in ("data", "optimizer", "trainer")
            for name in cls.model_fields[section].annotation.model_fields  # type: ignore[union-attr]
            if name != "name"
        }
        values: dict[str, Any] = {}
        for name, value in keywords.items():
            if name not in by_name:
                if isinstance(value, Settings):
                    value = value.model_dump(exclude_unset=True)
                values[name] = dict(value) if isinstance(value, Mapping) else value
        for name, value in keywords.items():
            if name in by_name:
                section = values.setdefault(by_name[name], {})
                if isinstance(section, dict):  # `parse` rejects anything else
                    section[name] = value
        return cls.parse(values, [*by_name, *also])
