"""The diffusion (sections 2.1, 2.2 and 3.5): noise, denoising, loss and sampling.

    xt = sqrt(alpha_bar) x0 + sqrt(1 - alpha_bar) eps

Values diffuse on a standardized scale, discrete ones as one-hot codes. Observed nodes
keep their values throughout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from gsdm_pyg.choices import Backend, ContinuousLoss, DiscreteLoss
from gsdm_pyg.diffusion.graph_model import GraphModel, Nodes, node_noise, randn_like
from gsdm_pyg.diffusion.schedule import alpha_bars, betas
from gsdm_pyg.diffusion.solvers import ReverseSteps, default_sampler, step_times
from gsdm_pyg.nn.denoiser import Denoiser
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings, SamplerSettings


class GraphDiffusion(GraphModel):
    """Schedule, scaling and denoiser: a diffusion model of the nodes of graphs.

    Args:
        spec: The variables that the nodes belong to.
        settings: What the model is made of.
        backend: How attention is computed, see `StructuredAttentionConv`.
    """

    alpha_bar: Tensor  # [T]

    def __init__(
        self,
        spec: ProblemSpec,
        settings: ModelSettings = ModelSettings(),
        backend: Backend = "auto",
    ) -> None:
        super().__init__(spec, settings)
        self.beta = betas(settings.schedule, settings.num_timesteps)  # float64, [T]
        alpha_bar = alpha_bars(self.beta).float()
        self.register_buffer("alpha_bar", alpha_bar, persistent=False)
        shapes = None if spec.shapes is None else spec.shapes.values()
        self.denoiser = Denoiser(
            num_columns=self.scaling.columns.size(1),
            num_variables=len(spec.variables),
            width=settings.width,
            layers=settings.layers,
            heads=settings.heads,
            dropout=settings.dropout,
            self_conditioning=settings.self_conditioning,
            edge_kinds=settings.edge_kinds == "learned",
            num_nodes=None if shapes is None else sum(map(math.prod, shapes)),
            backend=backend,
        )

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Mean loss of the latent nodes, each graph at its own noise level."""
        nodes = self.nodes(batch)
        x0, fixed, scaling = nodes
        t = stratified_steps(batch.num_graphs, len(self.alpha_bar), generator)
        t = t.to(x0.device)
        eps = randn_like(x0, generator) * scaling.columns
        alpha_bar = self._alpha_bar(t, batch)
        xt = x0.where(fixed, add_noise(x0, eps, alpha_bar))
        x0_hat = None
        if self.settings.self_conditioning and _coin(generator):
            with torch.no_grad():
                x0_hat = self.denoise(xt, t, batch, nodes)
        return self.prediction_loss(xt, t, alpha_bar, batch, nodes, x0_hat)

    def prediction_loss(
        self,
        xt: Tensor,
        t: Tensor,
        alpha_bar: Tensor,
        batch: Batch,
        nodes: Nodes,
        x0_hat: Tensor | None = None,
    ) -> Tensor:
        """Mean loss of the latent nodes for given noisy values.

        Args:
            xt: Noisy values, [N, W].
            t: Diffusion step of each graph, [B].
            alpha_bar: Noise level of each node, [N, 1].
            batch: The graphs.
            nodes: What `nodes` returns for the batch.
            x0_hat: The last estimate, for self-conditioning.
        """
        x0, fixed, scaling = nodes
        x0_hat, log_prob = self._predict(xt, t, alpha_bar, batch, nodes, x0_hat)
        target, kinds = batch.x.where(scaling.discrete, x0), self.settings
        losses = node_loss(
            x0_hat,
            log_prob,
            target,
            alpha_bar,
            scaling.discrete,
            kinds.discrete_loss,
            kinds.continuous_loss,
        )
        latent = ~fixed.squeeze(1)
        return (losses * latent).sum() / latent.sum().clamp(min=1)

    def denoise(
        self,
        xt: Tensor,
        t: Tensor,
        batch: Batch,
        nodes: Nodes,
        x0_hat: Tensor | None = None,
    ) -> Tensor:
        """The estimate of x0 [N, W], standardized; zero at fixed nodes.

        Args:
            xt: Noisy values, [N, W].
            t: Diffusion step of each graph [B], or one step of all [].
            batch: The graphs.
            nodes: What `nodes` returns for the batch.
            x0_hat: The last estimate, for self-conditioning.
        """
        alpha_bar = self._alpha_bar(t, batch)
        x0_hat, _ = self._predict(xt, t, alpha_bar, batch, nodes, x0_hat)
        probability = nodes.scaling.standardize_codes(x0_hat)
        x0_hat = probability.where(nodes.scaling.discrete, x0_hat)
        return x0_hat.masked_fill(nodes.fixed, 0)

    @torch.no_grad()
    def sample(
        self,
        batch: Batch,
        sampler: SamplerSettings,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        after_evaluation: Callable[[Tensor], object] | None = None,
    ) -> Tensor:
        nodes = self.nodes(batch)
        x0_hat: Tensor | None = None

        def denoise(xt: Tensor, t: Tensor) -> Tensor:
            nonlocal x0_hat
            xt = xt * nodes.scaling.columns
            x0_hat = self.denoise(xt, t, batch, nodes, x0_hat)
            if after_evaluation is not None:
                estimate = nodes.scaling.restore(x0_hat)
                after_evaluation(batch.x.where(nodes.fixed, estimate))
            return x0_hat

        training = self.training
        self.eval()
        try:
            noise = partial(node_noise, nodes.x0, batch.ptr, generator)
            x0 = reverse(denoise, nodes.x0, nodes.fixed, self.beta, sampler, noise)
        finally:
            self.train(training)
        return batch.x.where(nodes.fixed, nodes.scaling.restore(x0))

    @torch.no_grad()
    def marginals(
        self,
        batch: Batch,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
    ) -> Tensor:
        """What one evaluation says of each node given the observed ones, [N, W].

        The estimate from pure noise: means of continuous nodes, class probabilities of
        discrete ones.
        """
        nodes = self.nodes(batch)
        noise = node_noise(nodes.x0, batch.ptr, generator) * nodes.scaling.columns
        xt = nodes.x0.where(nodes.fixed, noise)
        last = torch.tensor(len(self.alpha_bar) - 1, device=xt.device)
        training = self.training
        self.eval()
        try:
            x0_hat = self.denoise(xt, last, batch, nodes)
        finally:
            self.train(training)
        return batch.x.where(nodes.fixed, nodes.scaling.restore(x0_hat))

    def default_sampler(self) -> SamplerSettings:
        return default_sampler(self.spec.variables, self.settings.num_timesteps)

    def hidden_matrices(self) -> list[nn.Parameter]:
        return self.denoiser.hidden_matrices()

    def set_backend(self, backend: Backend) -> None:
        self.denoiser.set_backend(backend)

    def _alpha_bar(self, t: Tensor, batch: Batch) -> Tensor:
        """The noise level of each node [N, 1], or of all [] where t is one step."""
        alpha_bar = self.alpha_bar[t]
        return alpha_bar[batch.batch][:, None] if t.dim() else alpha_bar

    def _predict(
        self,
        xt: Tensor,
        t: Tensor,
        alpha_bar: Tensor,
        batch: Batch,
        nodes: Nodes,
        x0_hat: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """The network's prediction, see `predict_x0`."""
        t = t.expand(batch.num_graphs)
        graph = (batch.observed, batch.edge_index, batch.embedding)
        output = self.denoiser(xt, t, *graph, x0_hat, edge_kind=batch.edge_kind)
        scaling = nodes.scaling
        return predict_x0(output, xt, alpha_bar, scaling.columns, scaling.discrete)


def stratified_steps(
    num_graphs: int, num_steps: int, generator: torch.Generator | None = None
) -> Tensor:
    """Diffusion steps [B], each uniform on 0..T-1 and together spread evenly."""
    device = generator.device if generator is not None else None
    offset = torch.rand((), generator=generator, device=device)
    order = torch.randperm(num_graphs, generator=generator, device=device)
    return ((order + offset) * (num_steps / num_graphs)).long().clamp(max=num_steps - 1)


def add_noise(x0: Tensor, eps: Tensor, alpha_bar: Tensor) -> Tensor:
    """xt = sqrt(alpha_bar) x0 + sqrt(1 - alpha_bar) eps, all [N, W] or [N, 1]."""
    return alpha_bar.sqrt() * x0 + (1 - alpha_bar).sqrt() * eps


def predict_x0(
    output: Tensor, xt: Tensor, alpha_bar: Tensor, columns: Tensor, discrete: Tensor
) -> tuple[Tensor, Tensor]:
    """The network's outputs as x0_hat and as log-probabilities, both [N, W].

    Continuous nodes: x0_hat = sqrt(alpha_bar) xt + sqrt(1 - alpha_bar) output, so that
    for data of unit variance the output has unit variance at every noise level.
    Discrete nodes: the softmax of the outputs over the node's own columns.

    Args:
        output: Raw outputs of the denoiser, [N, W].
        xt: Noisy values, [N, W].
        alpha_bar: Noise level of each node, [N, 1].
        columns: Which columns belong to a node's domain, [N, W].
        discrete: Which nodes are categorical, [N, 1].
    """
    log_prob = output.masked_fill(~columns, -torch.inf).log_softmax(-1)
    x0_hat = alpha_bar.sqrt() * xt + (1 - alpha_bar).sqrt() * output
    return torch.where(discrete, log_prob.exp(), x0_hat * columns), log_prob


def node_loss(
    x0_hat: Tensor,
    log_prob: Tensor,
    x0: Tensor,
    alpha_bar: Tensor,
    discrete: Tensor,
    discrete_loss: DiscreteLoss = "cross_entropy",
    continuous_loss: ContinuousLoss = "x0",
) -> Tensor:
    """The loss of each node [N]; see `ModelSettings` for the two losses.

    Args:
        x0_hat: Predictions, probabilities where discrete, [N, W].
        log_prob: Log-probabilities of discrete nodes, [N, W].
        x0: Targets, one-hot where discrete, [N, W].
        alpha_bar: Noise level of each node, [N, 1].
        discrete: Which nodes are categorical, [N, 1].
        discrete_loss: The loss of discrete nodes.
        continuous_loss: The loss of continuous nodes.
    """
    squared = (x0_hat - x0).square().sum(-1)
    continuous = squared
    if continuous_loss == "v":
        continuous = squared / (1 - alpha_bar).squeeze(-1)
    categorical = squared
    if discrete_loss == "cross_entropy":
        categorical = -torch.where(x0 > 0, log_prob, 0).sum(-1)
    return torch.where(discrete.squeeze(-1), categorical, continuous)


@torch.no_grad()
def reverse(
    denoise: Callable[[Tensor, Tensor], Tensor],
    x: Tensor,
    fixed: Tensor,
    beta: Tensor,
    sampler: SamplerSettings,
    noise: Callable[[], Tensor],
) -> Tensor:
    """Draw x0 given its fixed rows: denoise pure noise, then once per restart again.

    Args:
        denoise: Maps (xt [N, W], t []) to x0_hat [N, W]; t counts from 0.
        x: Values [N, W]; rows that are not fixed are overwritten.
        fixed: Which rows keep their values, [N, 1].
        beta: beta_1..beta_T of the schedule, [T].
        sampler: Solver, steps and restarts.
        noise: Draws standard normal values, [N, W].
    """
    if sampler.steps > len(beta):
        raise ValueError(
            f"steps must be between 1 and the T = {len(beta)} of the schedule "
            f"(got {sampler.steps})."
        )
    alpha_bar = alpha_bars(beta).to(x)
    times = step_times(beta, sampler.steps, sampler.spacing)
    xt, restart = x, sampler.steps - sampler.restart_steps
    for first in [0, *[restart] * sampler.restarts]:
        solver = ReverseSteps(sampler.solver, beta, times[first:], x.device)
        xt = add_noise(xt, noise(), alpha_bar[times[first]]) if first else noise()
        xt = x.where(fixed, xt)
        for t in solver.times:
            x0_hat = denoise(xt, t)
            fresh = noise() if solver.stochastic else None
            xt = x.where(fixed, solver.step(x0_hat, t, xt, fresh))
    return xt


def _coin(generator: torch.Generator | None) -> bool:
    device = generator.device if generator is not None else None
    return bool(torch.rand((), generator=generator, device=device) < 0.5)
