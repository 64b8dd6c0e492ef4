"""Samples by name: encoded instances -> the diffusion -> decoded arrays."""

from __future__ import annotations

import torch
from torch import Tensor
from tqdm import tqdm

from gsdm_pyg.data import Instances, to_batch
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.settings import SamplerSettings

MAX_NODES = 200_000  # of one batch, to bound memory


class SamplingInterrupted(KeyboardInterrupt):
    """Ctrl-C between batches: `samples` has those of the batches that are finished."""

    def __init__(self, samples: dict[str, Tensor]) -> None:
        super().__init__()
        self.samples = samples


def sample_posterior(
    diffusion: GraphDiffusion,
    instances: Instances,
    sampler: SamplerSettings,
    generator: torch.Generator | None = None,
    max_nodes: int = MAX_NODES,
) -> dict[str, Tensor]:
    """Draw a sample for each instance: an array [B, *shape] per variable, on the CPU.

    Unsupervised intermediates have no values and are left out. In a terminal, a bar
    counts the evaluations of the network once they have taken three seconds. Ctrl-C
    raises `SamplingInterrupted` with the samples of the batches that are finished.

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
    starts = range(0, len(instances), size)
    drawn: list[Tensor] = []
    interrupted = False
    with _progress_bar(len(starts) * sampler.evaluations) as bar:
        try:
            for first in starts:
                batch = to_batch([instances[first : first + size]], options).to(device)
                x = diffusion.sample(batch, sampler, generator, bar.update)
                drawn.append(x.cpu())
        except KeyboardInterrupt:
            if not drawn:
                raise
            interrupted = True
    x = torch.cat(drawn).view(-1, graph.num_nodes, drawn[0].size(-1))
    if not x.isfinite().all():
        raise ValueError(
            "The model's samples are not finite: its weights are damaged, or what is "
            f"given is far outside of what training saw (got {x[~x.isfinite()][0]})."
        )
    samples = {
        name: value
        for name, value in graph.decode(x).items()
        if options.has_values(graph.variables[name].role)
    }
    if interrupted:
        raise SamplingInterrupted(samples)
    return samples


def _progress_bar(evaluations: int) -> tqdm:
    """A bar in the terminal of the first process; elsewhere nothing is drawn."""
    distributed = (
        torch.distributed.is_available() and torch.distributed.is_initialized()
    )
    hidden = distributed and torch.distributed.get_rank() > 0
    return tqdm(
        total=evaluations,
        desc="sampling",
        delay=3,
        leave=False,
        disable=True if hidden else None,  # None: unless stderr is a terminal
    )
