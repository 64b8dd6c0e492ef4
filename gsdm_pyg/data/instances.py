"""Instances of a problem: named arrays -> values and edges of the nodes of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from gsdm_pyg.choices import Embedding
from gsdm_pyg.embedding_rows import EmbeddingRows
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.graphical_model import EDGE_KINDS
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.programs.program_problem import found_positions
from gsdm_pyg.settings import GraphOptions
from gsdm_pyg.variables import Variable


@dataclass(frozen=True)
class Structure:
    """What all instances of a problem share."""

    edge_index: EdgeIndex  # [2, E], sorted by destination
    edge_kind: Tensor  # [E], what each source is to its destination
    variable_id: Tensor  # [N], which variable a node belongs to
    embedding: EmbeddingRows  # what distinguishes the nodes


@lru_cache(maxsize=1024)
def structure(problem: Problem, options: GraphOptions = GraphOptions()) -> Structure:
    """The edges and embedding rows of a problem, computed once per size and options."""
    graph = graph_of(problem, options)
    variables = graph.variables.values()
    num_nodes = torch.tensor([v.num_nodes for v in variables])
    variable_id = torch.arange(len(num_nodes)).repeat_interleave(num_nodes)
    axes = found_positions(problem) if options.embedding == "auto" else {}
    positions = [
        _positions(variable, options.embedding, axes.get(variable.name, ()))
        for variable in variables
    ]
    width = max(position.size(1) for position in positions)  # P
    position = torch.cat([F.pad(p, (0, width - p.size(1))) for p in positions])
    row_id = variable_id
    for column in position.unbind(1):
        value, code = column.unique(return_inverse=True)
        row_id = (row_id * len(value) + code).unique(return_inverse=True)[1]
    num_rows = int(row_id.max()) + 1
    row_variable = torch.empty(num_rows, dtype=torch.long)
    row_position = torch.empty(num_rows, width, dtype=torch.long)
    row_variable[row_id], row_position[row_id] = variable_id, position
    edge_index = graph.edge_index(options.edges)
    return Structure(
        edge_index,
        graph.edge_kinds(edge_index.as_tensor()),
        variable_id,
        EmbeddingRows(
            row_id=row_id,
            row_variable=row_variable,
            row_position=row_position,
            row_graph=torch.zeros(num_rows, dtype=torch.long),
        ),
    )


def _positions(variable: Variable, embedding: Embedding, axes: Sequence[int]) -> Tensor:
    """What distinguishes the nodes of a variable, [num_nodes, P]."""
    if embedding == "auto":
        return torch.ones(variable.shape).nonzero()[:, list(axes)]
    if embedding == "exchangeable":
        return variable.coordinates
    if embedding == "array":
        return torch.ones(variable.shape).nonzero()  # the index along every axis
    nodes = torch.arange(variable.nodes.start, variable.nodes.stop)[:, None]
    return nodes if embedding == "independent" else nodes[:, :0]


def needs_edge_kinds(problem: Problem, options: GraphOptions) -> bool:
    """Whether two edges of different kinds join nodes of the same embeddings.

    Then a model cannot tell a parent from a child unless it knows the kinds of edges.
    """
    shared = structure(problem, options)
    row_id, kind = shared.embedding["row_id"], shared.edge_kind
    source, target = shared.edge_index.as_tensor()
    others = kind != EDGE_KINDS.index("itself")
    ends = row_id[target] * (int(row_id.max()) + 1) + row_id[source]
    pairs = torch.stack([ends[others], kind[others]]).unique(dim=1)
    return len(pairs[0].unique()) < pairs.size(1)


@dataclass(frozen=True)
class Instances:
    """B instances of one problem, encoded."""

    problem: Problem
    x: Tensor  # [B, N, W], values in the columns of their domains
    observed: Tensor  # [B, N]

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, part: slice) -> Instances:
        return Instances(self.problem, self.x[part], self.observed[part])


def encode(
    problem: Problem,
    values: Arrays,
    observed: Arrays,
    options: GraphOptions = GraphOptions(),
) -> Instances:
    """Several instances at once.

    Args:
        problem: The problem that the values belong to.
        values: An array [B, *shape] per variable; variables left out are zero.
        observed: A boolean array [B, *shape] per variable.
        options: The graph that a model sees.
    """
    graph, known = graph_of(problem, options), []
    for name, variable in graph.variables.items():
        mask = observed[name].flatten(1) if variable.shape else observed[name][:, None]
        if not options.has_values(variable.role):
            values = {n: value for n, value in values.items() if n != name}
            mask = torch.zeros_like(mask)
        known.append(mask)
    mask = torch.cat(known, 1)  # [B, N]
    x = graph.encode(values)
    if x.shape[:-2] not in ((), mask.shape[:1]):  # () where no value is given
        raise ValueError(
            f"values and observed hold {len(mask)} instances, in their first dimension "
            f"(got leading dimensions {tuple(x.shape[:-2])} of the values)."
        )
    return Instances(problem, x.expand(len(mask), *x.shape[-2:]), mask)


class ProblemData(Data):
    """A graph whose nodes point to embedding rows; batching counts rows and graphs."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        if key == "row_id":
            return len(self.embedding["row_variable"])
        if key == "row_graph":
            return 1
        return super().__inc__(key, value, *args, **kwargs)


def to_data(
    problem: Problem,
    values: Arrays,
    observed: Arrays,
    options: GraphOptions = GraphOptions(),
) -> ProblemData:
    """One instance as a graph, which PyG's `Batch.from_data_list` can batch.

    It has `x` [N, W] with the values in the columns of their domains, `observed` [N],
    and the `edge_index`, `edge_kind`, `variable_id` and `embedding` of the problem's
    `structure`.

    Args:
        problem: The problem that the values belong to.
        values: An array per variable; variables left out are zero.
        observed: A boolean array per variable.
        options: The graph that a model sees.
    """
    one = encode(
        problem,
        {name: torch.as_tensor(value)[None] for name, value in values.items()},
        {name: mask[None] for name, mask in observed.items()},
        options,
    )
    shared = structure(problem, options)
    return ProblemData(
        x=one.x[0],
        observed=one.observed[0],
        edge_index=shared.edge_index,
        edge_kind=shared.edge_kind,
        variable_id=shared.variable_id,
        embedding=dict(shared.embedding),
    )
