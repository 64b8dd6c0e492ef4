"""GSDM: a diffusion model of a problem, from training to samples by name."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import torch
from torch import Tensor, nn

from gsdm_pyg import model_folder
from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Backend
from gsdm_pyg.data import check_given, encode
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.evaluation import Evaluation, evaluate
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.posterior import MAX_NODES, sample_posterior
from gsdm_pyg.problem import Problem, ProblemFamily
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import (
    EvaluationSettings,
    ModelSettings,
    SamplerSettings,
    TrainingSettings,
)
from gsdm_pyg.variables import Role

logger = logging.getLogger("gsdm_pyg")


class GSDM(nn.Module):
    """Graphically structured diffusion model of the variables of a problem.

    Make one with `GSDM.from_problem` or `GSDM.from_pretrained`.

    Args:
        spec: The variables of the problem.
        settings: What the model is made of.
        sampler: How to draw by default.
        backend: How attention is computed, see `StructuredAttentionConv`.
    """

    def __init__(
        self,
        spec: ProblemSpec,
        settings: ModelSettings = ModelSettings(),
        sampler: SamplerSettings = SamplerSettings(),
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.diffusion = GraphDiffusion(spec, settings, backend)
        self.sampler = sampler.within(settings.num_timesteps)
        self.source: Problem | ProblemFamily | None = None  # what to train on
        self._warned = False

    @property
    def spec(self) -> ProblemSpec:
        return self.diffusion.spec

    @property
    def settings(self) -> ModelSettings:
        return self.diffusion.settings

    @classmethod
    def from_problem(
        cls,
        source: Problem | ProblemFamily,
        *,
        backend: Backend = "auto",
        **settings: Any,
    ) -> Self:
        """A model with fresh weights for a problem or a family of sizes.

        Args:
            source: The problem; means and standard deviations come from 256 draws.
            backend: How attention is computed, see `StructuredAttentionConv`.
            settings: Such as `width=64` or `layers=12`: see `ModelSettings`.
        """
        chosen = ModelSettings.parse(settings, also=("backend",))
        model = cls(ProblemSpec.of(source, chosen.graph), chosen, backend=backend)
        model.source = source
        return model

    def fit(
        self,
        source: Problem | ProblemFamily | None = None,
        *,
        run_dir: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Train with Lightning; afterwards the model has the averaged (EMA) weights.

        Args:
            source: The problem to train on; the one of `from_problem` by default.
            run_dir: Where to write logs, checkpoints and pictures; nowhere by default.
            settings: Any setting of a config's sections data, optimizer and trainer by
                name, such as `max_time="00:00:10:00"`, `batch_size=16` or `lr=1e-3`;
                a section as a dictionary, such as `evaluation={"steps": 100}` or
                `optimizer={"name": "adamw"}`; and `seed`.
        """
        # Lightning takes a second to import, which samplers need not wait for.
        from gsdm_pyg.training import Training, train

        source = source or self.source
        if source is None:
            raise ValueError("Pass fit() the problem to train on (got None).")
        self.check_problem(source.smallest())
        self.check_problem(source.largest())
        evaluation = settings.get("evaluation", {})
        if isinstance(evaluation, EvaluationSettings):
            evaluation = evaluation.model_dump(exclude_unset=True)
        if isinstance(evaluation, Mapping):
            settings["evaluation"] = {**self.sampler.model_dump(), **evaluation}
        chosen = TrainingSettings.from_keywords(settings, also=("source", "run_dir"))
        training = Training(self.diffusion, source, chosen)
        train(training, run_dir=Path(run_dir) if run_dir else None)
        self.sampler = training.sampler
        return self.eval()

    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        *,
        generator: torch.Generator | None = None,
        max_nodes: int = MAX_NODES,
        **sampler: Any,
    ) -> dict[str, Tensor]:
        """Draw all variables given some: an array [num_samples, *shape] per variable.

        Args:
            problem: The problem to solve, of any size.
            given: Arrays by name, whole or with NaN for missing entries; nothing given
                means an unconditional sample.
            num_samples: How many samples to draw.
            generator: Source of randomness.
            max_nodes: Draw in batches of at most this many nodes, to bound memory.
            sampler: Such as `steps=50`, `solver="dpm++"` or `restarts=8`: see
                `SamplerSettings`. Those left out are the model's own.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1 (got {num_samples}).")
        also = ("given", "num_samples", "generator", "max_nodes")
        chosen = self._sampler(sampler, also)
        graph, options = self.check_problem(problem), self.settings.graph
        values, known = check_given(graph, given or {}, options)
        self._warn_if_unseen(problem, known)
        instances = encode(
            problem,
            _repeat(values, num_samples),
            _repeat(known, num_samples),
            options,
        )
        return sample_posterior(self.diffusion, instances, chosen, generator, max_nodes)

    def evaluate(
        self,
        problem: Problem,
        num_instances: int = 64,
        *,
        seed: int = 0,
        max_nodes: int = MAX_NODES,
        **sampler: Any,
    ) -> Evaluation:
        """Sample one answer for each of `num_instances` fresh instances and score it.

        Args:
            problem: The problem, of any size.
            num_instances: Instances to average over.
            seed: Chooses instances and noise.
            max_nodes: Bound on the nodes of one batch.
            sampler: As for `sample`.
        """
        also = ("num_instances", "seed", "max_nodes")
        chosen = self._sampler(sampler, also)
        return evaluate(self.diffusion, problem, num_instances, chosen, seed, max_nodes)

    def check_problem(self, problem: Problem) -> GraphicalModel:
        """The graph that this model sees of a problem, if it is one that it knows."""
        return self.spec.graph(problem, self.settings.graph)

    def save_pretrained(self, folder: str | Path, details: str = "") -> None:
        """Write a model folder: config.json, model.safetensors and a card.

        Args:
            folder: The folder, created if needed; a failure leaves it as it was.
            details: Text for the card, in Markdown.
        """
        model_folder.save_model_folder(
            Path(folder),
            self.spec,
            self.settings,
            self.sampler,
            self.diffusion.state_dict(),
            details,
        )

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        *,
        map_location: str = "cpu",
        backend: Backend = "auto",
        revision: str | None = None,
        token: str | None = None,
    ) -> Self:
        """Load a model folder, or a model of the Hugging Face Hub by its id.

        Args:
            folder: The folder, or `owner/name` on the Hub.
            map_location: The device to load to.
            backend: How attention is computed, see `StructuredAttentionConv`.
            revision: Which version on the Hub; the newest by default.
            token: For private models of the Hub.
        """
        check_choice("backend", backend, Backend)
        path = model_folder.find(folder, revision, token)
        spec, settings, sampler = model_folder.load_config(path)
        weights = model_folder.load_weights(path, map_location)
        try:
            model = cls(spec, settings, sampler, backend)
            model.diffusion.load_state_dict(weights)
        except (RuntimeError, ValueError) as error:
            raise model_folder.damaged(path, error) from error
        return model.to(map_location).eval()

    def push_to_hub(self, repo_id: str, private: bool | None = None) -> str:
        """Upload the model to the Hugging Face Hub as `owner/name`."""
        with TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return model_folder.push(Path(folder), repo_id, private)

    def _sampler(
        self, changes: Mapping[str, Any], also: tuple[str, ...]
    ) -> SamplerSettings:
        """The model's own sampler with some settings changed."""
        sampler = self.sampler.updated(changes, also)
        return sampler.within(self.settings.num_timesteps)

    def _warn_if_unseen(self, problem: Problem, known: dict[str, Tensor]) -> None:
        """Warn once where `given` follows a pattern that training never showed."""
        own_pattern = type(problem).observe is not Problem.observe
        if self.settings.observe != "roles" or own_pattern or self._warned:
            return
        trained = {v.name for v in self.spec.variables if v.role is Role.OBSERVED}
        as_trained = all(
            bool(mask.all()) if name in trained else not mask.any()
            for name, mask in known.items()
        )
        if not as_trained:
            self._warned = True
            logger.warning(
                "Training conditioned on %s whole and on nothing else: samples given "
                'another pattern may be poor. Train with observe="mixed" for those '
                "(model.observe=mixed in a config).",
                " and ".join(sorted(trained)) or "no variable",
            )


def _repeat(arrays: Mapping[str, Tensor], num: int) -> dict[str, Tensor]:
    return {name: array.expand(num, *array.shape) for name, array in arrays.items()}
