"""Graphical models (section 2.3): variables, directed edges, factors -> edge_index.

Edges stay directed inside the model. `edge_index` symmetrizes them, adds a clique per
factor and a self-loop per node (section 3.1). Two parents of one child are NOT linked
to each other: the paper's rule is "an edge, or a common factor", not moralization.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import networkx as nx
import numpy as np
import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from gsdm_pyg.checks import check_choice
from gsdm_pyg.choices import Edges
from gsdm_pyg.encoding import Arrays, Encoding
from gsdm_pyg.relations import (
    ancestors_through,
    compose,
    random_relation,
    replace_dropped,
)
from gsdm_pyg.variables import (
    Continuous,
    Domain,
    Integer,
    Role,
    Simplex,
    Variable,
    check_domain,
    check_positions,
    check_shape,
    column_blocks,
)

RANDOM_DEGREE = 20  # how many other nodes a node attends to in a random graph


EDGE_KINDS = ("itself", "parent", "child", "factor")


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
        self._encoding: Encoding | None = None  # of these variables, once used
        self._edges: list[Tensor] = []  # each [2, E], parent -> child
        self._cliques: list[Tensor] = []  # each [F, n], the nodes of F factors

    def add_variable(
        self,
        name: str,
        shape: Sequence[int] | int,
        domain: Domain = Continuous(),
        role: Role | str = Role.LATENT,
        positions: Sequence[Tensor] = (),
    ) -> Tensor:
        """Add an array of nodes and return their ids, shaped like the variable.

        Args:
            name: The key of the variable in samples and in `given`.
            shape: Its shape; () for a single number.
            domain: `Continuous(low, high)`, `Integer(low, high)`, `Simplex()` or
                `Categorical(num_classes)`.
            role: Observed, latent, or an intermediate result; by its name, too.
            positions: Integers that broadcast to the shape, one tensor per coordinate.
                Nodes that agree in all coordinates are exchangeable: exchangeable
                embeddings do not distinguish them. By default all do.
        """
        if not (isinstance(name, str) and name):
            raise ValueError(
                f"A variable needs a name that is not empty (got {name!r})."
            )
        if name in self.variables:
            raise ValueError(
                f"Variable names are unique: choose another (got {name!r})."
            )
        shape, domain, role = (
            check_shape(name, shape),
            check_domain(name, domain),
            Role(role),
        )
        if isinstance(domain, Simplex) and not shape:
            raise ValueError(
                f"Variable {name!r} holds shares of a whole along its last axis: give "
                f"it a shape such as (3,) (got {shape})."
            )
        positions = check_positions(name, shape, positions)
        variable = Variable(name, shape, domain, role, self.num_nodes, positions)
        self.variables[name] = variable
        self.num_nodes += variable.num_nodes
        self._encoding = None
        return self.node_ids(name)

    def node_ids(self, name: str) -> Tensor:
        """The ids of a variable's nodes, in its shape."""
        variable = self.variables[name]
        ids = torch.arange(variable.nodes.start, variable.nodes.stop)
        return ids.view(variable.shape)

    def connect(self, parents: Tensor, children: Tensor) -> None:
        """Add one directed edge per pair of the two broadcast id tensors."""
        try:
            pairs = torch.broadcast_tensors(
                self._check_ids(parents), self._check_ids(children)
            )
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
        ids = self._check_ids(ids)
        if ids.dim() == 0 or ids.size(-1) < 1:
            raise ValueError(
                "factor() links the ids along the last dimension: pass at least one "
                f"(got shape {tuple(ids.shape)})."
            )
        self._cliques.append(ids.reshape(-1, ids.size(-1)))

    def edges(self) -> Tensor:
        """The directed edges [2, E], parent over child."""
        return torch.cat([torch.empty(2, 0, dtype=torch.long), *self._edges], dim=1)

    def factor_pairs(self) -> Tensor:
        """Ordered pairs [2, M] of different nodes that share a factor."""
        pairs = [torch.empty(2, 0, dtype=torch.long)]
        for clique in self._cliques:
            first, second = torch.broadcast_tensors(clique[:, :, None], clique[:, None])
            pairs.append(torch.stack([first.reshape(-1), second.reshape(-1)]))
        joined = torch.cat(pairs, dim=1)
        return joined[:, joined[0] != joined[1]]

    def _members(self) -> Tensor:
        """The relation (factor, node) [2, M]; factors are numbered from 0."""
        members, first = [torch.empty(2, 0, dtype=torch.long)], 0
        for clique in self._cliques:
            factor = torch.arange(first, first + len(clique))
            factor = factor.repeat_interleave(clique.size(1))
            members.append(torch.stack([factor, clique.reshape(-1)]))
            first += len(clique)
        return torch.cat(members, dim=1)

    def edge_index(self, edges: Edges = "structured") -> EdgeIndex:
        """Which nodes attend to which, each also to itself; sorted by destination.

        Args:
            edges: "structured": a node attends to its parents, its children and the
                nodes of its factors. "directed": the same without its children.
                "complete": to all nodes. "random": to 20 other nodes, or all if there
                are fewer; the same ones in every graph with that number of nodes.
        """
        check_choice("edges", edges, Edges)
        n, directed = self.num_nodes, self.edges()
        if edges == "complete":
            key = torch.arange(n * n)
        else:
            linked = [torch.arange(n).expand(2, -1)]
            if edges == "random":
                generator = torch.Generator().manual_seed(0)
                linked.append(random_relation(n, RANDOM_DEGREE, generator))
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

    def edge_kinds(self, edge_index: Tensor) -> Tensor:
        """What the source of each edge is to its destination, [E]: see `EDGE_KINDS`.

        Args:
            edge_index: Edges [2, E] as `edge_index` returns them.
        """
        n, (source, target) = self.num_nodes, edge_index
        parent, child = self.edges()
        kinds = torch.full_like(source, EDGE_KINDS.index("factor"))
        kinds[torch.isin(target * n + source, child * n + parent)] = 1
        kinds[torch.isin(source * n + target, child * n + parent)] = 2
        return kinds.masked_fill(source == target, 0)

    def without_intermediates(self) -> GraphicalModel:
        """The model without its intermediate variables.

        The parents of an intermediate become parents of its children, and replace it in
        its factors.
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
        ancestors = ancestors_through(dropped, edges)
        linked = replace_dropped(edges.flip(0), dropped, ancestors).flip(0)
        linked = linked[:, ~dropped[linked[1]]]
        if linked.numel():
            kept._edges.append(new_id[linked])
        members = replace_dropped(self._members(), dropped, ancestors)
        pairs = compose(members.flip(0), members)
        pairs = pairs[:, pairs[0] != pairs[1]]
        if pairs.numel():
            kept._cliques.append(new_id[pairs].t())
        return kept

    def encode(self, values: Arrays) -> Tensor:
        """Named arrays [*lead, *shape] -> x [*lead, N, W]; variables left out are zero.

        A node fills only the columns of its domain. All arrays have the same leading
        dimensions: none for one instance, [B] for B instances.
        """
        if self._encoding is None:
            self._encoding = Encoding(self.variables.values())
        return self._encoding.encode(values)

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

    def to_networkx(self) -> nx.DiGraph:
        """Nodes with their variable, entry, role and domain; edges with `kind`.

        A node has the attributes `variable`, `position` (its index in the array),
        `role`, `classes` (0 if it is a number), `integer` (True of an integer), `low`
        and `high` (its bounds, where it has them) and `coordinates` (see `positions` of
        `add_variable`). A directed edge has kind "directed". Two nodes of one factor
        are linked in both directions by edges of kind "factor".
        `gsdm_pyg.programs.from_networkx` reads it.
        """
        graph = nx.DiGraph()
        for variable in self.variables.values():
            domain, coordinates = variable.domain, variable.coordinates.tolist()
            shared: dict[str, str | float] = {
                "variable": variable.name,
                "role": variable.role.value,
                "classes": domain.num_classes or 0,
            }
            if isinstance(domain, Integer):
                shared["integer"] = True
            for bound in ("low", "high"):
                if math.isfinite(getattr(domain, bound, math.inf)):
                    shared[bound] = float(getattr(domain, bound))
            for offset, position in enumerate(np.ndindex(*variable.shape)):
                graph.add_node(
                    variable.first_node + offset,
                    position=position,
                    coordinates=tuple(coordinates[offset]),
                    **shared,
                )
        graph.add_edges_from(self.factor_pairs().t().tolist(), kind="factor")
        graph.add_edges_from(self.edges().t().tolist(), kind="directed")
        return graph

    def __repr__(self) -> str:
        return self.summary()

    def summary(self, edges: Edges = "structured") -> str:
        """The variables and the numbers of nodes and edges, in one line."""
        num_edges = self.edge_index(edges).size(1)
        density = num_edges / max(self.num_nodes**2, 1)
        variables = ", ".join(
            f"{v.name}{list(v.shape)} {v.role.value}" for v in self.variables.values()
        )
        return (
            f"GraphicalModel({variables}; {self.num_nodes:,} nodes, "
            f"{num_edges:,} edges, density {density:.2%})"
        )

    def _check_ids(self, ids: Tensor) -> Tensor:
        """The ids, if they are those of nodes of this model."""
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
