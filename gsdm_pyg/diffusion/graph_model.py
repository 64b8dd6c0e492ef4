"""What training and sampling need of any model of the nodes of graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch

from gsdm_pyg.choices import Backend
from gsdm_pyg.diffusion.scaling import NodeScaling, Scaling
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings, SamplerSettings


class Nodes(NamedTuple):
    """What is constant per node of a batch; gathered once per batch."""

    x0: Tensor  # [N, W], standardized values; zero where a node has none
    fixed: Tensor  # [N, 1], nodes without noise and loss: observed, or without a value
    scaling: NodeScaling


class GraphModel(nn.Module, ABC):
    """A loss to train by, and samples of the latent nodes given the observed ones.

    Args:
        spec: The variables that the nodes belong to.
        settings: What the model is made of.
    """

    has_values: Tensor  # [V], bool, the variables whose nodes have values

    def __init__(self, spec: ProblemSpec, settings: ModelSettings) -> None:
        super().__init__()
        self.spec = spec
        self.settings = settings
        if (spec.shapes is None) == (settings.embedding == "independent"):
            raise ValueError(
                "Independent embeddings, and no others, need the shapes of the "
                "variables: use GSDM.from_problem "
                f"(got {settings.embedding} and {spec.shapes})."
            )
        has_values = [settings.has_values(v.role) for v in spec.variables]
        self.register_buffer("has_values", torch.tensor(has_values), persistent=False)
        self.scaling = Scaling(spec.variables, settings.discrete_scale)

    def nodes(self, batch: Batch) -> Nodes:
        """What is constant per node of a batch."""
        scaling = self.scaling(batch.variable_id)
        valued = self.has_values[batch.variable_id][:, None]  # [N, 1]
        x0 = scaling.standardize(batch.x).masked_fill(~valued, 0)
        return Nodes(x0, batch.observed[:, None] | ~valued, scaling)

    @abstractmethod
    def loss(self, batch: Batch, generator: torch.Generator | None = None) -> Tensor:
        """Mean loss of the latent nodes."""

    @abstractmethod
    def sample(
        self,
        batch: Batch,
        sampler: SamplerSettings,
        generator: torch.Generator | Sequence[torch.Generator] | None = None,
        after_evaluation: Callable[[Tensor], object] | None = None,
    ) -> Tensor:
        """Values [N, W]: observed nodes as given, the others sampled.

        Nodes of unsupervised intermediates stay as they are in the batch.

        Args:
            batch: The graphs.
            sampler: How to draw, where the model has a choice.
            generator: Source of randomness, or one per graph: then the sample of a
                graph does not depend on which others are in the batch.
            after_evaluation: Called after each evaluation of the network with its
                estimate of the values [N, W], probabilities where discrete.
        """

    @abstractmethod
    def default_sampler(self) -> SamplerSettings:
        """What suits the problem until `gsdm report` has measured something better."""

    @abstractmethod
    def hidden_matrices(self) -> list[nn.Parameter]:
        """The weights that map hidden states to hidden states."""

    @abstractmethod
    def set_backend(self, backend: Backend) -> None:
        """Change how attention is computed, if there is any."""


def node_noise(
    x: Tensor,
    ptr: Tensor,
    generator: torch.Generator | Sequence[torch.Generator] | None,
) -> Tensor:
    """Standard normal values like x [N, W], each graph from its own generator if any.

    Args:
        x: Values of the nodes.
        ptr: Where the nodes of each graph begin, and the end, [B + 1].
        generator: One for all nodes, or one per graph.
    """
    if generator is None or isinstance(generator, torch.Generator):
        return randn_like(x, generator)
    sizes = ptr.diff().tolist()
    rows = [
        torch.randn(size, x.size(1), generator=own)
        for size, own in zip(sizes, generator, strict=True)
    ]
    return torch.cat(rows).to(x)


def randn_like(x: Tensor, generator: torch.Generator | None) -> Tensor:
    """Standard normal values like x."""
    device = generator.device if generator is not None else x.device
    return torch.randn(x.shape, generator=generator, device=device).to(x)
