"""VAEAC, a variational autoencoder with arbitrary conditioning (Ivanov et al., 2019).

With b the latent nodes, it maximizes

    E_{q(z | x, b)} log p(x_b | z, x_{1-b}, b) - KL(q(z | x, b) | p(z | x_{1-b}, b))

and draws z from p(z | x_{1-b}, b), then x_b. The networks are those of the authors'
code for mixed tables: leaky ReLUs with skip connections, from the prior network to the
decoder too. Classes are categorical. Real numbers are Gaussian with standard deviations
of their own, so that samples have the spread of the posterior; the authors' code for
tables fixes them at 1 and returns means, as it fills in missing values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional as F
from torch_geometric.data import Batch

from gsdm_pyg.choices import Backend
from gsdm_pyg.diffusion.graph_model import GraphModel, Nodes, node_noise, randn_like
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings, SamplerSettings

_SIGMA_MU, _SIGMA_SIGMA = 1e4, 1e-4  # of the prior's weak regularization
_MIN_STD_Z = 1e-3
_MIN_STD_X = 0.1  # smaller ones let exact numbers drown the gradient of classes


class GraphVAEAC(GraphModel):
    """A VAEAC of all nodes of graphs of one size.

    Args:
        spec: The variables that the nodes belong to, with their shapes.
        settings: Of which `width` is that of the hidden layers, `layers` their number
            in each network, and a fourth of `width` the number of latents z.
        backend: Of no effect, as there is no attention.
    """

    owned: Tensor  # [N * W], bool, the columns of each node

    def __init__(
        self,
        spec: ProblemSpec,
        settings: ModelSettings = ModelSettings(),
        backend: Backend = "auto",
    ) -> None:
        super().__init__(spec, settings)
        assert spec.shapes is not None  # of independent embeddings, see `method`
        num_nodes = torch.tensor([math.prod(shape) for shape in spec.shapes.values()])
        owned = self.scaling.columns.repeat_interleave(num_nodes, 0).flatten()
        self.register_buffer("owned", owned, persistent=False)
        values, mask = int(owned.sum()), int(num_nodes.sum())  # F, N
        width, layers = settings.width, settings.layers
        latents = max(1, width // 4)  # L
        self.proposal = nn.ModuleList(_hidden(values + mask, width, width, layers))
        self.proposal_output = nn.Linear(width, 2 * latents)
        self.prior = nn.ModuleList(_hidden(values + mask, width, width, layers))
        self.prior_output = nn.Linear(width, 2 * latents)
        self.decoder = nn.ModuleList(_hidden(latents, 2 * width, width, layers + 1))
        self.decoder_output = nn.Linear(width + values + mask, 2 * values)

    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """The negative bound, per latent node."""
        nodes = self.nodes(batch)
        target = batch.x.where(nodes.scaling.discrete, nodes.x0)
        given = self._features(target, nodes)
        prior, memory = self._prior(given)
        full = self._features(target, nodes, everything=True)
        proposal = _gaussian(self.proposal_output(_run(self.proposal, full)[-1]))
        eps = randn_like(proposal.mean, generator)
        z = proposal.mean + proposal.stddev * eps
        location, log_prob, std = self._decode(z, memory, given, nodes)
        real = Normal(location, std).log_prob(target) * nodes.scaling.columns
        classes = log_prob.where(target > 0, 0)
        fit = real.where(~nodes.scaling.discrete, classes).sum(1)  # [N]
        latent = ~nodes.fixed.squeeze(1)
        mean, std = prior.mean, prior.stddev
        weak = -mean.square() / (2 * _SIGMA_MU**2) + _SIGMA_SIGMA * (std.log() - std)
        bound = (fit * latent).sum() - kl_divergence(proposal, prior).sum() + weak.sum()
        return -bound / latent.sum().clamp(min=1)

    @torch.no_grad()
    def sample(
        self,
        batch: Batch,
        sampler: SamplerSettings,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        after_evaluation: Callable[[Tensor], object] | None = None,
    ) -> Tensor:
        nodes = self.nodes(batch)
        given = self._features(batch.x.where(nodes.scaling.discrete, nodes.x0), nodes)
        prior, memory = self._prior(given)
        each = torch.arange(len(given) + 1)  # one row of z per graph
        z = prior.mean + prior.stddev * node_noise(prior.mean, each, generator)
        location, log_prob, std = self._decode(z, memory, given, nodes)
        eps = node_noise(batch.x, batch.ptr, generator)
        real = nodes.scaling.restore(location + std * eps)
        uniform = torch.special.ndtr(eps).clamp(1e-7, 1 - 1e-7)
        gumbel = -(-uniform.log()).log()
        drawn = (log_prob + gumbel).argmax(1)
        classes = F.one_hot(drawn, batch.x.size(1)).to(batch.x)
        x = batch.x.where(nodes.fixed, classes.where(nodes.scaling.discrete, real))
        if after_evaluation is not None:
            after_evaluation(x)
        return x

    def default_sampler(self) -> SamplerSettings:
        return SamplerSettings(steps=1)

    def hidden_matrices(self) -> list[nn.Parameter]:
        layers = [*self.proposal.parameters(), *self.prior.parameters()]
        return [p for p in layers if p.shape == (self.settings.width,) * 2]

    def set_backend(self, backend: Backend) -> None:
        pass

    def _features(
        self, target: Tensor, nodes: Nodes, everything: bool = False
    ) -> Tensor:
        """Values of the fixed nodes, or of all, and which are fixed: [B, F + N]."""
        x = target if everything else target * nodes.fixed
        num_columns = x.size(1)
        rows = x.reshape(-1, len(self.owned))[:, self.owned]  # [B, F]
        mask = nodes.fixed.reshape(-1, len(self.owned) // num_columns).to(x)  # [B, N]
        return torch.cat([rows, mask], 1)

    def _prior(self, given: Tensor) -> tuple[Normal, list[Tensor]]:
        """p(z | x_{1-b}, b), and the hidden states that the decoder sees, too."""
        memory = _run(self.prior, given)
        return _gaussian(self.prior_output(memory[-1])), memory

    def _decode(
        self, z: Tensor, memory: list[Tensor], given: Tensor, nodes: Nodes
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Means, log-probabilities and standard deviations of all nodes, [B * N, W]."""
        first, *others = self.decoder
        h = F.leaky_relu(first(z))
        for layer, seen in zip(others, reversed(memory), strict=True):
            h = h + F.leaky_relu(layer(torch.cat([h, seen], 1)))
        output = self.decoder_output(torch.cat([h, given], 1)).unflatten(1, (2, -1))
        location, raw = output.unbind(1)  # [B, F]
        columns = nodes.scaling.columns

        def by_node(values: Tensor, filler: float) -> Tensor:
            rows = values.new_full((len(values), len(self.owned)), filler)
            rows[:, self.owned] = values
            return rows.view_as(columns)

        log_prob = by_node(location, -torch.inf).log_softmax(1)
        std = F.softplus(by_node(raw, 0.0)).clamp(min=_MIN_STD_X)
        return by_node(location, 0.0), log_prob, std


def _hidden(first: int, inner: int, width: int, layers: int) -> list[nn.Linear]:
    """An input layer, and `layers` hidden ones."""
    return [nn.Linear(first, width), *(nn.Linear(inner, width) for _ in range(layers))]


def _run(network: nn.ModuleList, x: Tensor) -> list[Tensor]:
    """The hidden states of all layers, each of which adds to the one before."""
    first, *others = network
    states = [F.leaky_relu(first(x))]
    for layer in others:
        states.append(states[-1] + F.leaky_relu(layer(states[-1])))
    return states


def _gaussian(parameters: Tensor) -> Normal:
    """A Gaussian of z by its mean and what softplus makes its standard deviation."""
    mean, raw = parameters.chunk(2, 1)
    return Normal(mean, F.softplus(raw).clamp(min=_MIN_STD_Z), validate_args=False)
