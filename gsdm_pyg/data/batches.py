"""Batches of graphs of many sizes; instances of one size are batched together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import IterableDataset
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch

from gsdm_pyg.choices import Observe
from gsdm_pyg.data.instances import Instances, encode, structure
from gsdm_pyg.embedding_rows import EmbeddingRows
from gsdm_pyg.problem import Problem, ProblemFamily, graph_of
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import DataSettings, GraphOptions


def to_batch(
    groups: Sequence[Instances], options: GraphOptions = GraphOptions()
) -> Batch:
    """One disconnected graph out of many, grouped by size and sorted by destination.

    Holds what PyG's `Batch.from_data_list` makes of the same graphs, without Python per
    graph. Only that function's own bookkeeping is missing: `to_data_list` needs it.
    """
    shared = [structure(group.problem, options) for group in groups]
    counts = [len(group) for group in groups]

    def repeat(tensors: list[Tensor], dim: int = 0) -> Tensor:
        """A tensor per group -> one per graph, concatenated."""
        each = zip(tensors, counts, strict=True)
        return torch.cat([t for t, count in each for _ in range(count)], dim)

    def sizes(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The length of each graph's tensor [B], and where it begins [B + 1]."""
        length = repeat([torch.tensor([t.size(-1)]) for t in tensors])
        return length, torch.cat([length.new_zeros(1), length.cumsum(0)])

    edges = [s.edge_index.as_tensor() for s in shared]
    variable_id = [s.variable_id for s in shared]
    row_variable = [s.embedding["row_variable"] for s in shared]
    (num_nodes, node_ptr), (num_edges, _) = sizes(variable_id), sizes(edges)
    num_rows, row_ptr = sizes(row_variable)
    graph, total = torch.arange(len(num_nodes)), int(node_ptr[-1])
    return Batch(
        x=torch.cat([group.x.flatten(0, 1) for group in groups]),
        observed=torch.cat([group.observed.flatten() for group in groups]),
        edge_index=EdgeIndex(
            repeat(edges, dim=1) + node_ptr[:-1].repeat_interleave(num_edges),
            sparse_size=(total, total),
            sort_order="col",
            is_undirected=all(s.edge_index.is_undirected for s in shared),
        ).fill_cache_(no_transpose=True),
        variable_id=repeat(variable_id),
        embedding=EmbeddingRows(
            row_id=repeat([s.embedding["row_id"] for s in shared])
            + row_ptr[:-1].repeat_interleave(num_nodes),
            row_variable=repeat(row_variable),
            row_position=repeat([s.embedding["row_position"] for s in shared]),
            row_graph=graph.repeat_interleave(num_rows),
        ),
        batch=graph.repeat_interleave(num_nodes),
        ptr=node_ptr,
    )


class ProblemBatches(IterableDataset):
    """Training batches, the one for step i a function of (seed, rank, i) alone.

    Args:
        source: A problem or a family that draws sizes per instance.
        observe: What to condition on, see `Problem.observe`.
        options: The graph that a model sees.
        seed: Root of all randomness.
        rank: Index of this process among those training together.
        first_step: Where iteration starts, for runs that are resumed.
        data: How instances are batched, such as `batch_size=16`: see `DataSettings`.
    """

    def __init__(
        self,
        source: Problem | ProblemFamily,
        *,
        observe: Observe = "roles",
        options: GraphOptions = GraphOptions(),
        seed: int = 0,
        rank: int = 0,
        first_step: int = 0,
        **data: Any,
    ) -> None:
        super().__init__()
        self.source = source
        self.data = DataSettings.parse(data, also=("observe", "options", "seed"))
        self.observe = observe
        self.options = options
        self.seed = seed
        self.rank = rank
        self.first_step = first_step
        self.largest = graph_of(source.largest(), options).num_nodes
        max_nodes = self.data.max_nodes
        if max_nodes is not None and max_nodes < self.largest:
            raise ValueError(
                f"The largest problem has {self.largest:,} nodes: set data.max_nodes "
                f"to at least that (got {max_nodes:,})."
            )

    def __iter__(self) -> Iterator[Batch]:
        worker = torch.utils.data.get_worker_info()
        offset, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        step = self.first_step + offset
        while True:
            yield self.batch(step)
            step += stride

    def batch(self, step: int) -> Batch:
        """The batch of training step `step`."""
        generator = keyed_generator("batch", self.seed, self.rank, step)
        if self.data.num_examples is None:
            groups = self._fresh(generator)
        else:
            groups = self._examples(self.data.num_examples, generator)
        return to_batch(groups, self.options)

    def _fresh(self, generator: torch.Generator) -> list[Instances]:
        """New instances, those of one size drawn together."""
        problems, which = self.source.draw_many(self.data.batch_size, generator)
        counts = which[: self._num_fitting(problems, which)].bincount().tolist()
        return [
            self._instances(problem, problem.sample_batch(count, generator), generator)
            for problem, count in zip(problems, counts, strict=False)
            if count
        ]

    def _examples(
        self, num_examples: int, generator: torch.Generator
    ) -> list[Instances]:
        """Some of the finite data set, in which example i is keyed by (seed, i)."""
        number = torch.randint(
            num_examples, (self.data.batch_size,), generator=generator
        )
        keys = [keyed_generator("example", self.seed, i) for i in number.tolist()]
        problems = [self.source.draw(key) for key in keys]
        num = self._num_fitting(problems, torch.arange(len(problems)))
        return [
            self._instances(problem, problem.sample_batch(1, key), generator)
            for problem, key in zip(problems[:num], keys[:num], strict=True)
        ]

    def _instances(
        self, problem: Problem, values: dict[str, Tensor], generator: torch.Generator
    ) -> Instances:
        num = len(next(iter(values.values())))
        observed = problem.observe_batch(num, generator, self.observe)
        return encode(problem, values, observed, self.options)

    def _num_fitting(self, problems: Sequence[Problem], which: Tensor) -> int:
        """How many draws fit: the batch ends where the largest problem might not."""
        if self.data.max_nodes is None:
            return len(which)
        sizes = [graph_of(problem, self.options).num_nodes for problem in problems]
        num_nodes = torch.tensor(sizes)[which]
        before = num_nodes.cumsum(0) - num_nodes
        return int((before + self.largest <= self.data.max_nodes).sum())
