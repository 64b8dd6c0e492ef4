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
from gsdm_pyg.problem import (
    Problem,
    ProblemFamily,
    check_source_argument,
    graph_of,
)
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import DataSettings, GraphOptions
from gsdm_pyg.simulate import simulate


def to_batch(
    groups: Sequence[Instances], options: GraphOptions = GraphOptions()
) -> Batch:
    """One disconnected graph out of many, grouped by size and sorted by destination.

    Holds what PyG's `Batch.from_data_list` makes of the same graphs, without Python per
    graph. Only that function's own bookkeeping is missing: `to_data_list` needs it.
    """
    shared = [structure(group.problem, options) for group in groups]
    counts = torch.tensor([len(group) for group in groups])

    def per_graph(tensors: list[Tensor], dim: int = 0) -> Tensor:
        """A tensor per group, repeated for each graph and concatenated."""
        each = zip(tensors, counts.tolist(), strict=True)
        return torch.cat(
            [torch.cat([t] * n, dim) if n > 1 else t for t, n in each], dim
        )

    def lengths(tensors: list[Tensor]) -> tuple[Tensor, Tensor]:
        """The length of each graph's tensor [B], and where it begins [B + 1]."""
        length = torch.tensor([t.size(-1) for t in tensors]).repeat_interleave(counts)
        return length, torch.cat([length.new_zeros(1), length.cumsum(0)])

    edges = [s.edge_index.as_tensor() for s in shared]
    num_nodes, node_ptr = lengths([s.variable_id for s in shared])
    num_edges, _ = lengths(edges)
    num_rows, row_ptr = lengths([s.embedding["row_variable"] for s in shared])
    graph, total = torch.arange(len(num_nodes)), int(node_ptr[-1])
    embedding = {
        key: per_graph([s.embedding[key] for s in shared])  # type: ignore[literal-required]
        for key in EmbeddingRows.__annotations__
    }
    embedding["row_id"] += row_ptr[:-1].repeat_interleave(num_nodes)
    embedding["row_graph"] += graph.repeat_interleave(num_rows)
    return Batch(
        x=torch.cat([group.x.flatten(0, 1) for group in groups]),
        observed=torch.cat([group.observed.flatten() for group in groups]),
        edge_index=EdgeIndex(
            per_graph(edges, dim=1) + node_ptr[:-1].repeat_interleave(num_edges),
            sparse_size=(total, total),
            sort_order="col",
            is_undirected=all(s.edge_index.is_undirected for s in shared),
        ).fill_cache_(no_transpose=True),
        edge_kind=per_graph([s.edge_kind for s in shared]),
        variable_id=per_graph([s.variable_id for s in shared]),
        embedding=embedding,
        batch=graph.repeat_interleave(num_nodes),
        ptr=node_ptr,
    )


_OTHERS = ("observe", "options", "seed", "rank", "first_step")


class ProblemBatches(IterableDataset[Batch]):
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
        self.source = check_source_argument(source)
        self.data = DataSettings.parse(data, also=_OTHERS)
        self.observe = observe
        self.options = options
        self.seed = seed
        self.rank = rank
        self.first_step = first_step
        self._drawn: dict[int, tuple[Problem, dict[str, Tensor]]] = {}  # examples
        self.largest = graph_of(source.largest(), options).num_nodes
        self.num_graphs = self.data.num_graphs(self.largest)
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
            groups = self._fresh(step, generator)
        else:
            groups = self._examples(self.data.num_examples, step, generator)
        return to_batch(groups, self.options)

    def _fresh(self, step: int, generator: torch.Generator) -> list[Instances]:
        """New instances, those of one size drawn together."""
        problems, which = self.source.draw_many(self.num_graphs, generator)
        counts = which[: self._num_fitting(problems, which)].bincount().tolist()
        return [
            self._observe(problem, simulate(problem, count, generator, step), generator)
            for problem, count in zip(problems, counts, strict=False)
            if count
        ]

    def _examples(
        self, num_examples: int, step: int, generator: torch.Generator
    ) -> list[Instances]:
        """Some of the finite data set, in which example i is keyed by (seed, i)."""
        size = (self.num_graphs,)
        numbers = torch.randint(num_examples, size, generator=generator).tolist()
        examples = [self._example(number, step) for number in numbers]
        problems = [problem for problem, _ in examples]
        num = self._num_fitting(problems, torch.arange(len(problems)))
        groups: dict[Problem, list[dict[str, Tensor]]] = {}
        for problem, values in examples[:num]:
            groups.setdefault(problem, []).append(values)
        return [
            self._observe(
                problem,
                {name: torch.cat([v[name] for v in values]) for name in values[0]},
                generator,
            )
            for problem, values in groups.items()
        ]

    def _example(self, number: int, step: int) -> tuple[Problem, dict[str, Tensor]]:
        """One example of the finite data set, drawn once and kept."""
        if number not in self._drawn:
            key = keyed_generator("example", self.seed, number)
            problem = self.source.draw(key)
            self._drawn[number] = problem, simulate(problem, 1, key, step)
        return self._drawn[number]

    def _observe(
        self, problem: Problem, values: dict[str, Tensor], generator: torch.Generator
    ) -> Instances:
        """Choose what is observed of some instances, and encode them."""
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
