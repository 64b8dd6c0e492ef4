"""Graphical models (section 2.3): variables, directed edges, factors -> edge_index.

Edges stay directed inside the model. `edge_index` symmetrises them, adds a clique per
factor and a self-loop per node (section 3.1). Two parents of one child are NOT linked
to each other: the paper's rule is "an edge, or a common factor", not moralisation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from gsdm_pyg.checks import check_choice
from gsdm_pyg.variables import (
    Continuous,
    Domain,
    Role,
    Variable,
    check_positions,
    column_blocks,
)

Arrays = Mapping[str, Tensor]
Edges = Literal["structured", "complete", "random", "directed"]

RANDOM_DEGREE = 20  # how many others a node attends to in a random graph


class _Layout(NamedTuple):
    """How values stand in x [N, W]."""

    discrete: Tensor  # [N, W], the cells of one-hot codes
    continuous: Tensor  # [N, W], the cells of numbers
    classes: Tensor  # [W], the class that a column of a one-hot code stands for
    missing: list[Tensor]  # per variable, values that encode to zeros


class GraphicalModel:
    """Named arrays of nodes joined by directed edges and by factors.

    Example::

        graph = GraphicalModel()
        a = graph.add_variable("a", (3,))
        b = graph.add_variable("b", (3, 4), Categorical(2))
        graph.connect(a[:, None], b)      # a[i] -> b[i, j]
        graph.factor(b)                   # the entries of each row constrain each other
    """

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.num_nodes = 0
        self._known_layout: _Layout | None = None
        self._edges: list[Tensor] = []  # each [2, E], parent -> child
        self._cliques: list[Tensor] = []  # each [F, n], the nodes of F factors

    def add_variable(
        self,
        name: str,
        shape: Sequence[int],
        domain: Domain = Continuous(),
        role: Role = Role.LATENT,
        positions: Sequence[Tensor] = (),
    ) -> Tensor:
        """Add an array of nodes and return their ids, shaped like the variable.

        Args:
            name: The key of the variable in samples and in `given`.
            shape: Its shape; () for a single number.
            domain: `Continuous()` or `Categorical(k)`.
            role: Observed, latent, or an intermediate that helps the latent ones.
            positions: Whole numbers that broadcast to the shape, one array per
                coordinate. Nodes that agree in all of them are exchangeable, and by
                default all are: exchangeable embeddings do not tell them apart.
        """
        shape = tuple(int(size) for size in shape)
        if not name:
            raise ValueError("A variable needs a name that is not empty (got '').")
        if name in self.variables:
            raise ValueError(
                f"Variable names are unique: choose another (got {name!r})."
            )
        if any(size < 1 for size in shape):
            raise ValueError(
                f"Every size of variable {name!r} must be at least 1 (got {shape})."
            )
        positions = check_positions(name, shape, positions)
        variable = Variable(name, shape, domain, role, self.num_nodes, positions)
        self.variables[name] = variable
        self.num_nodes += variable.num_nodes
        return self.node_ids(name)

    def node_ids(self, name: str) -> Tensor:
        """The ids of a variable's nodes, in its shape."""
        variable = self.variables[name]
        ids = torch.arange(variable.nodes.start, variable.nodes.stop)
        return ids.view(variable.shape)

    def connect(self, parents: Tensor, children: Tensor) -> None:
        """Add one directed edge per pair of the two broadcast id tensors."""
        try:
            pairs = torch.broadcast_tensors(self._ids(parents), self._ids(children))
        except RuntimeError as error:
            raise ValueError(
                "connect() broadcasts its two arguments as NumPy does: add axes with "
                "[:, None] until they fit "
                f"(got {tuple(parents.shape)} and {tuple(children.shape)})."
            ) from error
        edges = torch.stack([pairs[0].reshape(-1), pairs[1].reshape(-1)])  # [2, E]
        if (edges[0] == edges[1]).any():
            node = int(edges[0][edges[0] == edges[1]][0])
            raise ValueError(f"A node cannot be its own parent (got node {node}).")
        self._edges.append(edges)

    def factor(self, ids: Tensor) -> None:
        """Put the nodes along the last dimension under one factor, for each row."""
        ids = self._ids(ids)
        if ids.dim() == 0 or ids.size(-1) < 1:
            raise ValueError(
                "factor() joins the ids along the last dimension: pass at least one "
                f"(got shape {tuple(ids.shape)})."
            )
        self._cliques.append(ids.reshape(-1, ids.size(-1)))

    def edges(self) -> Tensor:
        """The directed edges [2, E], parent over child."""
        return torch.cat([torch.empty(2, 0, dtype=torch.long), *self._edges], dim=1)

    def factor_pairs(self) -> Tensor:
        """Ordered pairs [2, P] of different nodes that share a factor."""
        pairs = [torch.empty(2, 0, dtype=torch.long)]
        for clique in self._cliques:
            first, second = torch.broadcast_tensors(clique[:, :, None], clique[:, None])
            pairs.append(torch.stack([first.reshape(-1), second.reshape(-1)]))
        joined = torch.cat(pairs, dim=1)
        return joined[:, joined[0] != joined[1]]

    def _members(self) -> Tensor:
        """Pairs [2, P] (factor, node), factors counted from 0."""
        members, first = [torch.empty(2, 0, dtype=torch.long)], 0
        for clique in self._cliques:
            factor = torch.arange(first, first + len(clique))
            factor = factor.repeat_interleave(clique.size(1))
            members.append(torch.stack([factor, clique.reshape(-1)]))
            first += len(clique)
        return torch.cat(members, dim=1)

    def edge_index(self, edges: Edges = "structured") -> EdgeIndex:
        """Who attends to whom, each node also to itself; sorted by destination.

        Args:
            edges: "structured": along the edges in both directions, and to the nodes of
                the same factor. "directed": the same without children. "complete": to
                all nodes. "random": to 20 others, or all if there are fewer, drawn once
                and for all per number of nodes.
        """
        check_choice("edges", edges, Edges)
        n, directed = self.num_nodes, self.edges()
        if edges == "complete":
            key = torch.arange(n * n)
        else:
            linked = [torch.arange(n).expand(2, -1)]
            if edges == "random":
                linked.append(_random_pairs(n))
            else:
                linked += [directed, self.factor_pairs()]
            if edges == "structured":
                linked.append(directed.flip(0))
            source, target = torch.cat(linked, dim=1)
            key = torch.unique(target * n + source)  # by destination
        return EdgeIndex(
            torch.stack([key % n, key // n]),
            sparse_size=(n, n),
            sort_order="col",
            is_undirected=edges in ("structured", "complete"),
        )

    def without_intermediates(self) -> GraphicalModel:
        """The model in which each intermediate's parents are its children's parents.

        A factor over an intermediate becomes one over that intermediate's parents.
        """
        kept = GraphicalModel()
        new_id = torch.full((self.num_nodes,), -1)
        for variable in self.variables.values():
            if variable.role is not Role.INTERMEDIATE:
                ids = kept.add_variable(
                    variable.name,
                    variable.shape,
                    variable.domain,
                    variable.role,
                    variable.positions,
                )
                new_id[variable.nodes] = ids.reshape(-1)
        edges, dropped = self.edges(), new_id < 0
        ancestry = _through(dropped, edges)
        linked = _replace_last(edges.flip(0), dropped, ancestry).flip(0)
        linked = linked[:, ~dropped[linked[1]]]
        if linked.numel():
            kept._edges.append(new_id[linked])
        members = _replace_last(self._members(), dropped, ancestry)
        pairs = _join(members.flip(0), members)
        pairs = pairs[:, pairs[0] != pairs[1]]
        if pairs.numel():
            kept._cliques.append(new_id[pairs].t())
        return kept

    def encode(self, values: Arrays) -> Tensor:
        """Named arrays -> x [N, W]; a node fills only the columns of its domain."""
        layout, flat, num_discrete = self._layout(), [], 0
        for variable, missing in zip(
            self.variables.values(), layout.missing, strict=True
        ):
            if variable.name not in values:
                flat.append(missing)
                continue
            value = torch.as_tensor(values[variable.name])
            if tuple(value.shape) != variable.shape:
                raise ValueError(
                    f"Variable {variable.name!r} has the shape {variable.shape} "
                    f"(got {tuple(value.shape)})."
                )
            flat.append(value.reshape(-1))
            if variable.domain.num_classes:
                num_discrete += variable.num_nodes
        column = torch.cat(flat).to(torch.get_default_dtype())[:, None]  # [N, 1]
        one_hot = (column == layout.classes) & layout.discrete
        valid = int(one_hot.count_nonzero()) == num_discrete
        if not (valid and math.isfinite(column.sum())):
            self._refuse_values(values)
        return torch.where(layout.continuous, column, one_hot)

    def _refuse_values(self, values: Arrays) -> None:
        """Raise an error that names a value outside of its domain."""
        for name, variable in self.variables.items():
            if name in values:
                value = torch.as_tensor(values[name])
                if variable.domain.num_classes:
                    wrong = variable.domain.outside(value)
                else:
                    wrong = ~torch.isfinite(value)
                if wrong.any():
                    raise ValueError(
                        f"Variable {name!r} takes {variable.domain} "
                        f"(got {value[wrong][0].item()})."
                    )

    def _layout(self) -> _Layout:
        """Which cells of x [N, W] hold what, worked out once."""
        if self._known_layout is None or len(self._known_layout.missing) != len(
            self.variables
        ):
            num_nodes = torch.tensor([v.num_nodes for v in self.variables.values()])
            owned = torch.zeros(len(num_nodes), self.num_columns, dtype=torch.bool)
            classes, discrete, missing = torch.zeros(self.num_columns), [], []
            for row, (name, columns) in zip(owned, self.columns().items(), strict=True):
                domain = self.variables[name].domain
                row[columns] = True
                discrete.append(domain.num_classes is not None)
                if discrete[-1]:
                    classes[columns] = torch.arange(domain.num_columns).float()
                filler = -1.0 if discrete[-1] else 0.0  # encodes to zeros
                missing.append(torch.full((self.variables[name].num_nodes,), filler))
            owned = owned.repeat_interleave(num_nodes, 0)
            is_discrete = torch.tensor(discrete).repeat_interleave(num_nodes)[:, None]
            self._known_layout = _Layout(
                owned & is_discrete, owned & ~is_discrete, classes, missing
            )
        return self._known_layout

    def decode(self, x: Tensor) -> dict[str, Tensor]:
        """Node values [..., N, W] -> named arrays [..., *shape], discrete as ints."""
        named = self.unpack(x)
        return {
            name: self.variables[name].domain.decode(named[name][..., columns])
            for name, columns in self.columns().items()
        }

    def unpack(self, x: Tensor) -> dict[str, Tensor]:
        """Per-node rows [..., N, F] -> one tensor [..., *shape, F] per variable."""
        if x.dim() < 2 or x.size(-2) != self.num_nodes:
            raise ValueError(
                f"unpack() takes one row per node, [..., {self.num_nodes}, F] "
                f"(got shape {tuple(x.shape)})."
            )
        return {
            name: x[..., variable.nodes, :].reshape(
                *x.shape[:-2], *variable.shape, x.size(-1)
            )
            for name, variable in self.variables.items()
        }

    def columns(self) -> dict[str, slice]:
        """The value columns of each variable: one block of columns per domain."""
        classes = [variable.domain.num_classes for variable in self.variables.values()]
        return dict(zip(self.variables, column_blocks(classes), strict=True))

    @property
    def num_columns(self) -> int:
        """W, the number of value columns."""
        return max((columns.stop for columns in self.columns().values()), default=0)

    def to_networkx(self) -> nx.DiGraph:
        """Nodes with `variable`, `position` and `role`; edges with `kind`.

        A directed edge has kind "directed"; two nodes of one factor are joined by
        edges of kind "factor" in both directions.
        """
        graph = nx.DiGraph()
        for variable in self.variables.values():
            for offset, position in enumerate(np.ndindex(*variable.shape)):
                graph.add_node(
                    variable.first_node + offset,
                    variable=variable.name,
                    position=position,
                    role=variable.role.value,
                )
        graph.add_edges_from(self.factor_pairs().t().tolist(), kind="factor")
        graph.add_edges_from(self.edges().t().tolist(), kind="directed")
        return graph

    def __repr__(self) -> str:
        return self.summary()

    def summary(self, edges: Edges = "structured") -> str:
        """Variables, and how many nodes and edges there are, in one line."""
        num_edges = self.edge_index(edges).size(1)
        density = num_edges / max(self.num_nodes**2, 1)
        variables = ", ".join(
            f"{v.name}{list(v.shape)} {v.role.value}" for v in self.variables.values()
        )
        return (
            f"GraphicalModel({variables}; {self.num_nodes:,} nodes, "
            f"{num_edges:,} edges, density {density:.2%})"
        )

    def _ids(self, ids: Tensor) -> Tensor:
        if not isinstance(ids, Tensor) or ids.dtype != torch.long:
            raise TypeError(
                "Pass node ids as add_variable() returns them, or slices of those "
                f"(got {getattr(ids, 'dtype', type(ids).__name__)})."
            )
        if ids.numel() and not (0 <= int(ids.min()) <= int(ids.max()) < self.num_nodes):
            raise ValueError(
                f"Node ids of this model are 0..{self.num_nodes - 1} "
                f"(got {int(ids.min())}..{int(ids.max())})."
            )
        return ids


def _random_pairs(num_nodes: int) -> Tensor:
    """Pairs [2, P] that give each node `RANDOM_DEGREE` different others as sources.

    All subsets are equally likely (Floyd's algorithm, for all nodes at once).
    """
    generator = torch.Generator().manual_seed(0)
    others = max(num_nodes - 1, 0)
    chosen = torch.empty(num_nodes, 0, dtype=torch.long)
    for last in range(max(others - RANDOM_DEGREE, 0), others):
        drawn = torch.randint(last + 1, (num_nodes, 1), generator=generator)
        taken = (chosen == drawn).any(1, keepdim=True)
        chosen = torch.cat([chosen, torch.where(taken, last, drawn)], dim=1)
    node = torch.arange(num_nodes)[:, None]
    chosen = chosen + (chosen >= node)  # nobody is among the others of itself
    return torch.stack([chosen.reshape(-1), node.expand_as(chosen).reshape(-1)])


def _through(dropped: Tensor, edges: Tensor) -> Tensor:
    """Pairs [2, P] (kept ancestor, dropped node) linked through dropped nodes only."""
    into_dropped = edges[:, dropped[edges[1]]]
    frontier = torch.unique(into_dropped[:, ~dropped[into_dropped[0]]], dim=1)
    between = into_dropped[:, dropped[into_dropped[0]]]
    found = frontier
    for _ in range(int(dropped.sum())):
        frontier = torch.unique(_join(frontier, between), dim=1)
        longer = torch.unique(torch.cat([found, frontier], dim=1), dim=1)
        if longer.size(1) == found.size(1):
            break
        found = longer
    return found


def _join(left: Tensor, right: Tensor) -> Tensor:
    """All (a, c) with (a, b) in `left` and (b, c) in `right`; both [2, P]."""
    right = right[:, right[0].argsort()]
    start = torch.searchsorted(right[0].contiguous(), left[1].contiguous())
    stop = torch.searchsorted(right[0].contiguous(), left[1].contiguous(), right=True)
    count = stop - start
    first = (start - (count.cumsum(0) - count)).repeat_interleave(count)
    return torch.stack(
        [
            left[0].repeat_interleave(count),
            right[1][first + torch.arange(first.numel())],
        ]
    )


def _replace_last(pairs: Tensor, dropped: Tensor, ancestry: Tensor) -> Tensor:
    """`pairs` [2, P] with dropped nodes in the last row replaced by their ancestors."""
    gone = dropped[pairs[1]]
    expanded = _join(pairs[:, gone], ancestry.flip(0))
    return torch.cat([pairs[:, ~gone], expanded], dim=1)


def as_spec(graph: GraphicalModel) -> list[dict[str, str | int | None]]:
    """The size-free description of a model's variables, as plain JSON values."""
    return [
        {
            "name": variable.name,
            "num_classes": variable.domain.num_classes,
            "role": variable.role.value,
        }
        for variable in graph.variables.values()
    ]
