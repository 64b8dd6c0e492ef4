"""GSDM: a graphical model's variables, a denoiser and a diffusion, ready to sample."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from torch_geometric.data import Batch, Data

from gsdm_pyg.checks import check_choice
from gsdm_pyg.data import check_given, collate, to_data
from gsdm_pyg.diffusion.loss import (
    ContinuousLoss,
    DiscreteLoss,
    add_noise,
    node_loss,
    predict_x0,
    stratified_steps,
)
from gsdm_pyg.diffusion.sampling import Solver, sample
from gsdm_pyg.diffusion.schedule import Schedule, alpha_bars, betas
from gsdm_pyg.graphical_model import Edges, GraphicalModel, as_spec
from gsdm_pyg.model_folder import CARD, ModelFolder
from gsdm_pyg.nn.denoiser import Denoiser
from gsdm_pyg.nn.structured_attention import Backend
from gsdm_pyg.problem import Observe, Problem, ProblemFamily, graph_of
from gsdm_pyg.scaling import Scaling, moments
from gsdm_pyg.variables import Role
from gsdm_pyg.view import Embedding, GraphView, Intermediates

logger = logging.getLogger("gsdm_pyg")


class GSDM(ModelFolder, library_name="gsdm_pyg", model_card_template=CARD):
    """Graphically structured diffusion model of the variables of a problem.

    Make one with `GSDM.from_problem` or `GSDM.from_pretrained`.

    Args:
        variables: Name, num_classes and role of each variable, see `as_spec`.
        loc: Mean of each variable, subtracted before diffusion.
        scale: Standard deviation of each variable, divided out before diffusion.
        problem: Name of the problem class, for the command line.
        sizes: Sizes or ranges of sizes trained on.
        observe: What training conditions on, see `Problem.observe`.
        width: D, the size of a hidden state.
        layers: L, number of residual and attention blocks.
        heads: H, attention heads.
        dropout: Dropout inside the residual blocks.
        self_conditioning: Whether the denoiser also sees its last estimate of x0
            (Chen et al., 2023): a sampler then refines one answer from step to step.
            Training makes the estimate in half of its steps, by one more forward pass.
        embedding: What tells nodes of one variable apart, see `GraphView`.
        edges: Who attends to whom, likewise.
        intermediates: What becomes of intermediate variables, likewise.
        shapes: Shape of each variable, which independent embeddings are bound to.
        schedule: Noise schedule.
        num_timesteps: T, steps of the diffusion.
        discrete_loss: Loss of discrete nodes.
        continuous_loss: Loss of continuous nodes. "v" counts low noise as much as high,
            for answers that are determined and wanted exactly; see `node_loss`.
        discrete_scale: Standard deviation of one-hot codes as they diffuse. The lower,
            the more of the noise levels leave a class in doubt.
        backend: How attention is computed.
    """

    alpha_bar: Tensor
    silent: Tensor  # [V], bool, the variables whose nodes have no value

    def __init__(
        self,
        variables: list[dict[str, Any]],
        loc: list[float],
        scale: list[float],
        problem: str | None = None,
        sizes: dict[str, Any] | None = None,
        observe: Observe = "roles",
        width: int = 64,
        layers: int = 12,
        heads: int = 2,
        dropout: float = 0.0,
        self_conditioning: bool = False,
        embedding: Embedding = "exchangeable",
        edges: Edges = "structured",
        intermediates: Intermediates = "keep",
        shapes: dict[str, list[int]] | None = None,
        schedule: Schedule = "cosine",
        num_timesteps: int = 1000,
        discrete_loss: DiscreteLoss = "cross_entropy",
        continuous_loss: ContinuousLoss = "x0",
        discrete_scale: float = 1.0,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        self.variables = variables
        self.problem = problem
        self.sizes = sizes
        self.observe = observe
        self.dropout = dropout
        self.self_conditioning = self_conditioning
        self.view = GraphView(embedding, edges, intermediates)
        self.shapes = shapes
        self.discrete_loss = discrete_loss
        self.continuous_loss = continuous_loss
        self.source: Problem | ProblemFamily | None = None
        self._warned = False
        check_choice("observe", observe, Observe)
        check_choice("discrete_loss", discrete_loss, DiscreteLoss)
        check_choice("continuous_loss", continuous_loss, ContinuousLoss)
        if (shapes is None) == (embedding == "independent"):
            raise ValueError(
                "Independent embeddings, and no others, need the shapes of the "
                f"variables: use GSDM.from_problem (got {embedding} and {shapes})."
            )
        self.beta = betas(schedule, num_timesteps)  # float64, read by solvers only
        self.register_buffer(
            "alpha_bar", alpha_bars(self.beta).float(), persistent=False
        )
        classes = [variable["num_classes"] for variable in variables]
        self.scaling = Scaling(classes, loc, scale, discrete_scale)
        silent = [self.view.silences(Role(variable["role"])) for variable in variables]
        self.register_buffer("silent", torch.tensor(silent), persistent=False)
        nodes = None if shapes is None else sum(map(math.prod, shapes.values()))
        self.denoiser = Denoiser(
            num_columns=self.scaling.columns.size(1),
            num_variables=len(variables),
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
            self_conditioning=self_conditioning,
            num_nodes=nodes,
            backend=backend,
        )

    @classmethod
    def from_problem(
        cls,
        source: Problem | ProblemFamily,
        observe: Observe = "roles",
        width: int = 64,
        layers: int = 12,
        heads: int = 2,
        dropout: float = 0.0,
        self_conditioning: bool = False,
        embedding: Embedding = "exchangeable",
        edges: Edges = "structured",
        intermediates: Intermediates = "keep",
        schedule: Schedule = "cosine",
        num_timesteps: int = 1000,
        discrete_loss: DiscreteLoss = "cross_entropy",
        continuous_loss: ContinuousLoss = "x0",
        discrete_scale: float = 1.0,
        backend: Backend = "auto",
    ) -> Self:
        """A model with fresh weights for a problem or a family of sizes.

        Means and standard deviations come from 256 draws of the problem; the other
        arguments are those of the class.
        """
        view = GraphView(embedding, edges, intermediates)
        graph = graph_of(source.largest(), view)
        spec = as_spec(graph)
        loc, scale = moments(source, spec)
        problem = source.problem if isinstance(source, ProblemFamily) else type(source)
        sizes = source.ranges if isinstance(source, ProblemFamily) else source.sizes()
        model = cls(
            variables=spec,
            loc=loc,
            scale=scale,
            problem=problem.reference or problem.__name__,
            sizes={n: list(s) if isinstance(s, tuple) else s for n, s in sizes.items()},
            observe=observe,
            width=width,
            layers=layers,
            heads=heads,
            dropout=dropout,
            self_conditioning=self_conditioning,
            embedding=embedding,
            edges=edges,
            intermediates=intermediates,
            shapes=_shapes(graph) if embedding == "independent" else None,
            schedule=schedule,
            num_timesteps=num_timesteps,
            discrete_loss=discrete_loss,
            continuous_loss=continuous_loss,
            discrete_scale=discrete_scale,
            backend=backend,
        )
        model.check_problem(source.smallest())
        model.source = source
        return model

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Mean loss of the latent nodes, each graph at its own noise level."""
        columns = self.scaling.columns[batch.variable_id]  # [N, W]
        discrete = self.scaling.discrete[batch.variable_id]  # [N, 1]
        x0, kept = self._inputs(batch)
        t = stratified_steps(batch.num_graphs, len(self.alpha_bar), generator)
        t = t.to(x0.device)
        alpha_bar = self.alpha_bar[t][batch.batch][:, None]  # [N, 1]
        eps = _randn_like(x0, generator) * columns
        xt = torch.where(kept[:, None], x0, add_noise(x0, eps, alpha_bar))
        estimate = torch.zeros_like(xt)
        if self.self_conditioning and _coin(generator):
            with torch.no_grad():
                estimate = self._estimate(xt, t, batch, alpha_bar, estimate)
        output = self._output(xt, t, batch, estimate)
        x0_hat, log_prob = predict_x0(output, xt, alpha_bar, columns, discrete)
        target = torch.where(discrete, batch.x, x0)
        losses = node_loss(
            x0_hat,
            log_prob,
            target,
            alpha_bar,
            discrete,
            self.discrete_loss,
            self.continuous_loss,
        )
        latent = ~kept
        return (losses * latent).sum() / latent.sum().clamp(min=1)

    @torch.no_grad()
    def sample(
        self,
        problem: Problem,
        given: Mapping[str, Any] | None = None,
        num_samples: int = 1,
        steps: int = 50,
        solver: Solver = "ddpm",
        generator: torch.Generator | None = None,
        max_nodes: int = 200_000,
        restarts: int = 0,
    ) -> dict[str, Tensor]:
        """Draw all variables given some: an array [num_samples, *shape] per variable.

        Args:
            problem: The problem to solve, of any size.
            given: Arrays by name, whole or with NaN for missing entries; nothing given
                means an unconditional sample.
            num_samples: How many samples to draw.
            steps: Evaluations of the network on the way from noise to a sample.
            solver: How to integrate, see `gsdm_pyg.diffusion.sampling.sample`.
            generator: Source of randomness.
            max_nodes: Draw in batches of at most this many nodes, to bound memory.
            restarts: How many times to go back by two fifths of the steps and down
                again, which mends values that do not fit together.
        """
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1 (got {num_samples}).")
        graph = self.check_problem(problem)
        values, known = check_given(graph, given or {}, self.view)
        self._warn_if_unseen(problem, known)
        data = to_data(problem, values, known, self.view)
        graphs = [data] * num_samples
        x = self.sample_data(graphs, steps, solver, generator, max_nodes, restarts)
        return self.decode(graph, torch.stack(x).cpu())

    @torch.no_grad()
    def sample_data(
        self,
        graphs: list[Data],
        steps: int = 50,
        solver: Solver = "ddpm",
        generator: torch.Generator | None = None,
        max_nodes: int = 200_000,
        restarts: int = 0,
    ) -> list[Tensor]:
        """Values [N_i, W] per graph: observed nodes as given, the others sampled.

        Intermediates that are not supervised stay as they stand in the data.
        """
        results: list[Tensor] = []
        training = self.training
        self.eval()
        try:
            for chunk in _chunks(graphs, max_nodes):
                batch = collate(chunk).to(self.alpha_bar.device)
                x0 = self._sample_batch(batch, steps, solver, generator, restarts)
                results.extend(x0.split([graph.num_nodes for graph in chunk]))
        finally:
            self.train(training)
        return results

    def decode(self, graph: GraphicalModel, x: Tensor) -> dict[str, Tensor]:
        """Node values [..., N, W] -> arrays [..., *shape] of the sampled variables."""
        return {
            name: value
            for name, value in graph.decode(x).items()
            if not self.view.silences(graph.variables[name].role)
        }

    def check_problem(self, problem: Problem) -> GraphicalModel:
        """The graph that this model sees of a problem, if it is one that it knows."""
        graph = graph_of(problem, self.view)
        if as_spec(graph) != self.variables:
            raise ValueError(
                f"This model was trained on {self.problem or 'another problem'} with "
                f"the variables {_describe(self.variables)}; "
                f"{type(problem).__name__} does not fit "
                f"(got {_describe(as_spec(graph))})."
            )
        if self.shapes is not None and self.shapes != _shapes(graph):
            raise ValueError(
                f"Independent embeddings know one size, {_list(self.shapes)}: keep to "
                "it, or train a model with embedding='array' or 'exchangeable' "
                f"(got {_list(_shapes(graph))})."
            )
        return graph

    def fit(
        self,
        source: Problem | ProblemFamily | None = None,
        max_steps: int | None = None,
        max_time: str | None = None,
        batch_size: int = 16,
        lr: float = 2e-3,
        seed: int = 0,
        run_dir: str | Path | None = None,
    ) -> Self:
        """Train with Lightning; afterwards the model has the averaged (EMA) weights.

        The process keeps the memory it frees from then on, see `keep_freed_memory`.

        Args:
            source: Where instances come from; the one of `from_problem` by default.
            max_steps: Stop after this many steps.
            max_time: Stop after this long, "DD:HH:MM:SS".
            batch_size: Graphs per step.
            lr: Peak learning rate of what Muon does not train, see `OptimizerConfig`.
            seed: Root of all randomness.
            run_dir: Where to write logs, checkpoints and pictures; nowhere by default.
        """
        from gsdm_pyg.config import DataConfig, OptimizerConfig, TrainerConfig
        from gsdm_pyg.training import Training, train

        source = source or self.source
        if source is None:
            raise ValueError("Pass fit() the problem to train on (got None).")
        self.check_problem(source.smallest())
        self.check_problem(source.largest())
        training = Training(
            self,
            source,
            DataConfig(batch_size=batch_size, observe=self.observe),
            OptimizerConfig(lr=lr),
            seed=seed,
        )
        trainer = TrainerConfig(max_steps=max_steps, max_time=max_time)
        train(training, trainer, run_dir=Path(run_dir) if run_dir else None)
        return self.eval()

    def _inputs(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Standardised values [N, W], and which nodes [N] take neither noise nor loss.

        Those are the observed nodes and the ones without a value, which are zero.
        """
        silent = self.silent[batch.variable_id]
        x0 = self.scaling.standardise(batch.x, batch.variable_id)
        return x0.masked_fill(silent[:, None], 0), batch.observed | silent

    def _output(self, xt: Tensor, t: Tensor, batch: Batch, estimate: Tensor) -> Tensor:
        return self.denoiser(
            xt,
            t,
            batch.observed,
            batch.edge_index,
            batch.label_id,
            batch.label_variable,
            batch.label_position,
            batch.label_variable_batch,
            estimate,
        )

    def _estimate(
        self, xt: Tensor, t: Tensor, batch: Batch, alpha_bar: Tensor, estimate: Tensor
    ) -> Tensor:
        """x0_hat [N, W] as it diffuses, standardised; zero where nothing is asked."""
        columns = self.scaling.columns[batch.variable_id]
        discrete = self.scaling.discrete[batch.variable_id]
        output = self._output(xt, t, batch, estimate)
        x0_hat, _ = predict_x0(output, xt, alpha_bar, columns, discrete)
        probability = self.scaling.standardise(x0_hat, batch.variable_id)
        x0_hat = torch.where(discrete, probability, x0_hat)
        kept = batch.observed | self.silent[batch.variable_id]
        return x0_hat.masked_fill(kept[:, None], 0)

    def _sample_batch(
        self,
        batch: Batch,
        steps: int,
        solver: Solver,
        generator: torch.Generator | None,
        restarts: int,
    ) -> Tensor:
        columns = self.scaling.columns[batch.variable_id]
        estimate = torch.zeros_like(batch.x)

        def denoise(xt: Tensor, t: int) -> Tensor:
            nonlocal estimate
            step = torch.full((batch.num_graphs,), t, device=xt.device)
            estimate = self._estimate(
                xt * columns, step, batch, self.alpha_bar[t], estimate
            )
            return estimate

        x, kept = self._inputs(batch)
        x0 = sample(denoise, x, kept, self.beta, steps, solver, generator, restarts)
        x = self.scaling.restore(x0, batch.variable_id)
        return torch.where(kept[:, None], batch.x, x)

    def _warn_if_unseen(self, problem: Problem, known: dict[str, Tensor]) -> None:
        if self.observe != "roles" or type(problem).observe is not Problem.observe:
            return
        trained = {v["name"] for v in self.variables if v["role"] == "observed"}
        as_trained = all(
            bool(mask.all()) if name in trained else not mask.any()
            for name, mask in known.items()
        )
        if not as_trained and not self._warned:
            self._warned = True
            logger.warning(
                "Training conditioned on %s whole and on nothing else: samples given "
                "another pattern may be poor. Train with data.observe=mixed for those.",
                " and ".join(sorted(trained)) or "no variable",
            )


def _randn_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    device = generator.device if generator is not None else x.device
    return torch.randn(x.shape, generator=generator, device=device).to(x)


def _coin(generator: torch.Generator | None) -> bool:
    device = generator.device if generator is not None else None
    return bool(torch.rand((), generator=generator, device=device) < 0.5)


def _chunks(graphs: list[Data], max_nodes: int) -> list[list[Data]]:
    """Consecutive graphs of at most `max_nodes` nodes, unless one alone has more."""
    chunks: list[list[Data]] = [[]]
    room = max_nodes
    for graph in graphs:
        if chunks[-1] and graph.num_nodes > room:
            chunks.append([])
            room = max_nodes
        chunks[-1].append(graph)
        room -= graph.num_nodes
    return chunks


def _describe(spec: list[dict[str, Any]]) -> str:
    return ", ".join(
        f"{v['name']} ({v['num_classes']} classes)" if v["num_classes"] else v["name"]
        for v in spec
    )


def _shapes(graph: GraphicalModel) -> dict[str, list[int]]:
    return {name: list(variable.shape) for name, variable in graph.variables.items()}


def _list(shapes: dict[str, list[int]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())
