"""Samples by name: encoded instances -> the diffusion -> decoded arrays."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from tqdm import tqdm

from gsdm_pyg.data import Instances, structure, to_batch
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.settings import GraphOptions, SamplerSettings
from gsdm_pyg.variables import Simplex

MAX_NODES = 200_000  # of one batch, to bound memory
MAX_EDGES = 20_000_000  # likewise; dense graphs reach it first


class SamplingInterrupted(KeyboardInterrupt):
    """Ctrl-C between batches: `samples` has those of the batches that are finished."""

    def __init__(self, samples: dict[str, Tensor]) -> None:
        super().__init__()
        self.samples = samples


def sample_posterior(
    diffusion: GraphModel,
    instances: Instances,
    sampler: SamplerSettings,
    generator: Callable[[int], torch.Generator],
    max_nodes: int = MAX_NODES,
    after_evaluation: Callable[[slice, Tensor], object] | None = None,
) -> dict[str, Tensor]:
    """Draw a sample for each instance: an array [B, *shape] per variable, on the CPU.

    Unsupervised intermediates have no values and are left out. In a terminal, a bar
    counts the evaluations of the network once they have taken three seconds, unless the
    caller does. Ctrl-C raises `SamplingInterrupted` with the samples of the batches
    that are finished.

    Args:
        diffusion: A trained diffusion model.
        instances: What is observed, and of which problem.
        sampler: How to draw.
        generator: The source of randomness of the i-th instance, so that its sample
            depends neither on the batches nor on how many others are drawn.
        max_nodes: Draw in batches of at most this many nodes, and at least one graph.
        after_evaluation: Called after each evaluation of the network with the instances
            of the batch and their estimated values [b, N, W].
    """
    options, device = diffusion.settings.graph, diffusion.has_values.device
    graph = diffusion.spec.graph(instances.problem, options)
    chunks = batches_of(instances, options, max_nodes)
    drawn: list[Tensor] = []
    interrupted = False
    hidden = True if after_evaluation is not None else None
    with progress_bar(len(chunks) * sampler.evaluations, "sampling", hidden) as bar:
        try:
            for chunk in chunks:
                batch = to_batch([instances[chunk]], options).to(device)
                own = [generator(i) for i in range(chunk.start, chunk.stop)]

                def follow(x: Tensor, chunk: slice = chunk) -> None:
                    bar.update()
                    if after_evaluation is not None:
                        after_evaluation(chunk, x.view(-1, graph.num_nodes, x.size(-1)))

                x = diffusion.sample(batch, sampler, own, follow)
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
    known = graph.unpack(instances.observed[: len(x), :, None])  # [b, *shape, 1]
    samples = {}
    for name, value in graph.decode(x).items():
        variable = graph.variables[name]
        if isinstance(variable.domain, Simplex):
            value = variable.domain.close(value, known[name].squeeze(-1))
        if options.has_values(variable.role):
            samples[name] = value
    if interrupted:
        raise SamplingInterrupted(samples)
    return samples


def batches_of(
    instances: Instances, options: GraphOptions, max_nodes: int = MAX_NODES
) -> list[slice]:
    """Instances in groups that fit into memory, each of at least one.

    Args:
        instances: What to draw samples of.
        options: The graph that the model sees.
        max_nodes: The most nodes of a group.
    """
    num_nodes = instances.observed.size(1)
    num_edges = structure(instances.problem, options).edge_index.size(1)
    size = max(1, min(max_nodes // num_nodes, MAX_EDGES // num_edges))
    num = len(instances)
    return [slice(i, min(i + size, num)) for i in range(0, num, size)]


def progress_bar(total: int, name: str, hidden: bool | None = None) -> tqdm:
    """A bar in the terminal of the first process; elsewhere nothing is drawn."""
    distributed = (
        torch.distributed.is_available() and torch.distributed.is_initialized()
    )
    if distributed and torch.distributed.get_rank() > 0:
        hidden = True
    # None: unless stderr is a terminal
    return tqdm(total=total, desc=name, delay=3, leave=False, disable=hidden)
