"""Samples by name: encoded instances -> the diffusion -> decoded arrays."""

from __future__ import annotations

import torch
from torch import Tensor

from gsdm_pyg.data import Instances, to_batch
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.settings import SamplerSettings

MAX_NODES = 200_000  # of one batch, to bound memory


def sample_posterior(
    diffusion: GraphDiffusion,
    instances: Instances,
    sampler: SamplerSettings,
    generator: torch.Generator | None = None,
    max_nodes: int = MAX_NODES,
) -> dict[str, Tensor]:
    """Draw a sample for each instance: an array [B, *shape] per variable, on the CPU.

    Unsupervised intermediates have no values and are left out.

    Args:
        diffusion: A trained diffusion model.
        instances: What is observed, and of which problem.
        sampler: How to draw.
        generator: Source of randomness.
        max_nodes: Draw in batches of at most this many nodes, and at least one graph.
    """
    options, device = diffusion.settings.graph, diffusion.alpha_bar.device
    graph = diffusion.spec.graph(instances.problem, options)
    size = max(1, max_nodes // graph.num_nodes)  # graphs of a batch
    drawn = []
    for first in range(0, len(instances), size):
        batch = to_batch([instances[first : first + size]], options).to(device)
        drawn.append(diffusion.sample(batch, sampler, generator).cpu())
    x = torch.cat(drawn).view(len(instances), graph.num_nodes, -1)
    return {
        name: value
        for name, value in graph.decode(x).items()
        if options.has_values(graph.variables[name].role)
    }
