"""Named arrays -> PyG `Data` -> batches of graphs of many sizes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import IterableDataset
from torch_geometric import EdgeIndex
from torch_geometric.data import Batch, Data

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.problem import Observe, Problem, ProblemFamily, graph_of
from gsdm_pyg.variables import Variable
from gsdm_pyg.view import Embedding, GraphView


@dataclass(frozen=True)
class Structure:
    """What all instances of a problem share. Nodes of one label share an embedding."""

    edge_index: EdgeIndex  # [2, E], sorted by destination
    variable_id: Tensor  # [N], which variable a node belongs to
    label_id: Tensor  # [N], which label a node has
    label_variable: Tensor  # [K], the variable of each label
    label_position: Tensor  # [K, P], its coordinates; zero beyond those it has


@lru_cache(maxsize=1024)
def structure(problem: Problem, view: GraphView = GraphView()) -> Structure:
    """The edges and node labels of a problem, computed once per size and view."""
    graph = graph_of(problem, view)
    variables = graph.variables.values()
    num_nodes = torch.tensor([v.num_nodes for v in variables])
    variable_id = torch.arange(len(num_nodes)).repeat_interleave(num_nodes)
    parts = [_positions(variable, view.embedding) for variable in variables]
    width = max(part.size(1) for part in parts)
    position = torch.cat([F.pad(part, (0, width - part.size(1))) for part in parts])
    label_id = variable_id
    for column in position.unbind(1):
        value, code = column.unique(return_inverse=True)
        label_id = (label_id * len(value) + code).unique(return_inverse=True)[1]
    num_labels = int(label_id.max()) + 1
    label_variable = torch.empty(num_labels, dtype=torch.long)
    label_position = torch.empty(num_labels, width, dtype=torch.long)
    label_variable[label_id], label_position[label_id] = variable_id, position
    edge_index = graph.edge_index(view.edges)
    return Structure(edge_index, variable_id, label_id, label_variable, label_position)


def _positions(variable: Variable, embedding: Embedding) -> Tensor:
    """What tells the nodes of a variable apart, [num_nodes, P]."""
    if embedding == "exchangeable":
        return variable.coordinates
    if embedding == "array":
        return torch.ones(variable.shape).nonzero()  # the index along every axis
    nodes = torch.arange(variable.nodes.start, variable.nodes.stop)[:, None]
    return nodes if embedding == "independent" else nodes[:, :0]


class ProblemData(Data):
    """A graph whose nodes point to labels; batching counts labels over all graphs."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key == "label_id":
            return self.label_variable.size(0)
        return super().__inc__(key, value, *args, **kwargs)


def to_data(
    problem: Problem, values: Arrays, observed: Arrays, view: GraphView = GraphView()
) -> ProblemData:
    """One instance as a graph.

    The result has `x` [N, W] with the values in the columns of their domains,
    `observed` [N], and what stands in the problem's `structure`.

    Args:
        problem: The problem that the values belong to.
        values: An array per variable; variables left out are zero.
        observed: A boolean array per variable.
        view: How the problem is shown.
    """
    graph, shared = graph_of(problem, view), structure(problem, view)
    for variable in graph.variables.values():
        if view.silences(variable.role):
            values = {n: value for n, value in values.items() if n != variable.name}
            nowhere = torch.zeros(variable.shape, dtype=torch.bool)
            observed = {**observed, variable.name: nowhere}
    return ProblemData(
        x=graph.encode(values),
        observed=torch.cat([observed[name].reshape(-1) for name in graph.variables]),
        edge_index=shared.edge_index,
        variable_id=shared.variable_id,
        label_id=shared.label_id,
        label_variable=shared.label_variable,
        label_position=shared.label_position,
    )


def check_given(
    graph: GraphicalModel, given: Mapping[str, Any], view: GraphView = GraphView()
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Validate `given`: its values, and which entries of each variable are known."""
    names = [v.name for v in graph.variables.values() if not view.silences(v.role)]
    for name in given:
        if name not in names:
            raise ValueError(
                f"given takes the variables {', '.join(names)} (got {name!r})."
            )
    values, known = {}, {}
    for name, variable in graph.variables.items():
        known[name] = torch.zeros(variable.shape, dtype=torch.bool)
        if name not in given:
            continue
        value = _as_tensor(name, given[name])
        if tuple(value.shape) != variable.shape:
            raise ValueError(
                f"given[{name!r}] must have the shape {variable.shape} "
                f"(got {tuple(value.shape)})."
            )
        known[name] = ~value.isnan()
        wrong = known[name] & variable.domain.outside(value)
        if wrong.any():
            raise ValueError(
                f"given[{name!r}] takes {variable.domain}, NaN where unknown "
                f"(got {value[wrong][0].item()})."
            )
        values[name] = torch.where(known[name], value, 0)
    return values, known


def _as_tensor(name: str, value: Any) -> Tensor:
    """An array of numbers as float64, or int64 where it holds whole numbers."""
    try:
        if not isinstance(value, Tensor):
            array = np.array(value)  # a copy: strides may be negative
            real = np.issubdtype(array.dtype, np.floating)
            array = array.astype(float if real else int, casting="same_kind")
            value = torch.from_numpy(array)
        if value.is_complex():
            raise TypeError("complex numbers")
        value = value.detach().cpu()
        return value.double() if value.is_floating_point() else value.long()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"given[{name!r}] must be an array of real numbers, NaN where unknown "
            f"(got {value!r})."
        ) from error


def collate(graphs: list[Data]) -> Batch:
    """One disconnected graph out of many from `to_data`, sorted by destination still.

    The same as PyG's `Batch.from_data_list`, whose bookkeeping graph by graph would
    take most of the time of making a batch, and with the row pointers known.
    `label_variable_batch` tells which graph a label belongs to.
    """
    edges = [graph.edge_index for graph in graphs]
    num_nodes = torch.tensor([graph.x.size(0) for graph in graphs])
    num_edges = torch.tensor([edge_index.size(1) for edge_index in edges])
    num_labels = torch.tensor([graph.label_variable.size(0) for graph in graphs])
    node_ptr, edge_ptr = _cumulated(num_nodes), _cumulated(num_edges)
    label_ptr, no_shift = _cumulated(num_labels), torch.zeros_like(num_nodes)
    total = int(node_ptr[-1])
    batch = Batch(_base_cls=type(graphs[0]))
    batch._num_graphs = len(graphs)
    batch._slice_dict = {"edge_index": edge_ptr}  # these serve `batch.to_data_list()`
    batch._inc_dict = {"edge_index": node_ptr[:-1]}
    for key in ("x", "observed", "variable_id", "label_id"):
        batch[key] = torch.cat([graph[key] for graph in graphs])
        batch._slice_dict[key], batch._inc_dict[key] = node_ptr, no_shift
    for key in ("label_variable", "label_position"):
        batch[key] = torch.cat([graph[key] for graph in graphs])
        batch._slice_dict[key], batch._inc_dict[key] = label_ptr, no_shift
    batch.label_id += label_ptr[:-1].repeat_interleave(num_nodes)
    batch._inc_dict["label_id"] = label_ptr[:-1]
    rowptr = torch.cat([edge_index.get_csc()[0][0][1:] for edge_index in edges])
    rowptr += edge_ptr[:-1].repeat_interleave(num_nodes)
    batch.edge_index = EdgeIndex(
        torch.cat([edge_index.as_tensor() for edge_index in edges], dim=1)
        + node_ptr[:-1].repeat_interleave(num_edges),
        sparse_size=(total, total),
        sort_order="col",
        is_undirected=all(edge_index.is_undirected for edge_index in edges),
    )
    batch.edge_index._indptr = torch.cat([rowptr.new_zeros(1), rowptr])  # its cache
    number = torch.arange(len(graphs))
    batch.label_variable_batch = number.repeat_interleave(num_labels)
    batch.label_variable_ptr = label_ptr
    batch.batch, batch.ptr = number.repeat_interleave(num_nodes), node_ptr
    return batch


def _cumulated(counts: Tensor) -> Tensor:
    """Where each of several runs begins, and where the last ends, [n + 1]."""
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


class ProblemBatches(IterableDataset):
    """Training batches, the one for step i a function of (seed, rank, i) alone.

    Args:
        source: A problem or a family that draws sizes per instance.
        batch_size: The most graphs in a batch.
        max_nodes: The most nodes in a batch. A batch is closed as soon as the largest
            problem of the family might not fit any more, so that the bound holds and
            sizes are still drawn without bias.
        num_examples: Train on that many distinct instances instead of fresh ones.
        observe: What to condition on, see `Problem.observe`.
        view: How problems are shown.
        seed: Root of all randomness.
        rank: Index of this process among those training together.
        first_step: Where iteration starts, for runs that are resumed.
    """

    def __init__(
        self,
        source: Problem | ProblemFamily,
        batch_size: int,
        max_nodes: int | None = None,
        num_examples: int | None = None,
        observe: Observe = "roles",
        view: GraphView = GraphView(),
        seed: int = 0,
        rank: int = 0,
        first_step: int = 0,
    ) -> None:
        super().__init__()
        self.source = source
        self.batch_size = batch_size
        self.num_examples = num_examples
        self.observe = observe
        self.view = view
        self.seed = seed
        self.rank = rank
        self.first_step = first_step
        self.largest = graph_of(source.largest(), view).num_nodes
        self.max_nodes = max_nodes
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
        graphs: list[Data] = []
        num_nodes = 0
        while len(graphs) < self.batch_size and (
            self.max_nodes is None or num_nodes + self.largest <= self.max_nodes
        ):
            graphs.append(self._instance(generator))
            num_nodes += graphs[-1].num_nodes
        return collate(graphs)

    def _instance(self, generator: torch.Generator) -> Data:
        example = generator
        if self.num_examples is not None:
            number = int(torch.randint(self.num_examples, (), generator=generator))
            example = keyed_generator("example", self.seed, number)
        problem = self.source.draw(example)
        values = problem.sample(example)
        observed = problem.observe(generator, self.observe)
        return to_data(problem, values, observed, self.view)


def keyed_generator(purpose: str, *key: int) -> torch.Generator:
    """A generator whose stream depends on the purpose and the key alone."""
    entropy = [zlib.crc32(purpose.encode()), len(key), *key]
    state = int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0])
    return torch.Generator().manual_seed(state >> 1)
