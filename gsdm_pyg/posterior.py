"""Samples by name: encoded instances -> the diffusion -> decoded arrays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from tqdm import tqdm

from gsdm_pyg.data import Instances, structure, to_batch
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.settings import SamplerSettings

MAX_NODES = 200_000  # of one batch, to bound memory
MAX_EDGES = 20_000_000  # likewise; dense graphs reach it first


class SamplingInterrupted(KeyboardInterrupt):
    """Ctrl-C between batches: `samples` has those of the batches that are finished."""

    def __init__(self, samples: dict[str, Tensor]) -> None:
        super().__init__()
        self.samples = samples


def sample_posterior(
    diffusion: GraphDiffusion,
    instances: Instances,
    sampler: SamplerSettings,
    generator: Callable[[int], torch.Generator],
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
        generator: The source of randomness of the i-th instance, so that its sample
            depends neither on the batches nor on how many others are drawn.
        max_nodes: Draw in batches of at most this many nodes, and at least one graph.
    """
    options, device = diffusion.settings.graph, diffusion.alpha_bar.device
    graph = diffusion.spec.graph(instances.problem, options)
    num_edges = structure(instances.problem, options).edge_index.size(1)
    size = max(1, min(max_nodes // graph.num_nodes, MAX_EDGES // num_edges))
    starts = range(0, len(instances), size)
    drawn: list[Tensor] = []
    interrupted = False
    with _progress_bar(len(starts) * sampler.evaluations) as bar:
        try:
            for first in starts:
                chunk = instances[first : first + size]
                batch = to_batch([chunk], options).to(device)
                own = [generator(first + i) for i in range(len(chunk))]
                x = diffusion.sample(batch, sampler, own, lambda _: bar.update())
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
