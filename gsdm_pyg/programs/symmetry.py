"""Symmetry (section 3.2): which indices of a graph can be permuted, M = pi M.

A permutation of nodes is an automorphism if it maps directed edges to directed edges
and factor pairs to factor pairs. It then leaves the symmetrized mask as it is, and also
the kind and the direction of every link: no automorphism reverses a chain.

The graph alone does not prove that a distribution is exchangeable. That also takes
equal parameters along the index: the graph of hierarchical BCMF treats all k terms
alike, but the distribution uses the first K of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, permutations, product, zip_longest
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gsdm_pyg.checks import whole_number
from gsdm_pyg.graphical_model import GraphicalModel

Axis = tuple[str, int]  # the name of a variable and the number of its axis
Array = NDArray[Any]

MOST_CANDIDATES = 500  # permutations of nodes that `orbits` tries
MOST_LINKS = 2_000_000  # nodes and links above which `orbits` tries two per index
MOST_PAIRED = 12  # size up to which `orbits` tries to swap any two values of an index


@dataclass(frozen=True)
class Index:
    """What runs along axes of one or more variables at the same time.

    The index k of BCMF is Index((("A", 1), ("R", 0), ("C", 2)), size=k).
    """

    axes: tuple[Axis, ...]
    size: int


@dataclass(frozen=True)
class Counterexample:
    """A link that a permutation of an index maps to two nodes without such a link.

    Attributes:
        edge: The link: "s[0] -> s[1]", or "P[0] -- P[1]" if the two share a factor.
        image: Where the permutation maps it, in the same form.
        nodes: The ids of the two nodes of `edge`.
        permutation: The value v of the index becomes permutation[v].
    """

    edge: str
    image: str
    nodes: tuple[int, int]
    permutation: tuple[int, ...]

    def __str__(self) -> str:
        return f"The graph has {self.edge}, but not its image {self.image}."


def indices(graph: GraphicalModel) -> list[Index]:
    """All indices of a graph, ordered by their first axes. Axes of size 1 have none.

    Two axes of the same size belong to one index if their coordinates agree on all
    edges from one variable to the other, or on all factor pairs of the two. They also
    do if the coordinates differ on all of them. In both cases, an index with only one
    of the two axes cannot be exchangeable. No index has two axes of one variable: the
    tie that would cause this is ignored.
    """
    return _indices(graph, _Links(graph))


def permute(
    graph: GraphicalModel,
    index: Index | Sequence[Axis],
    permutation: Sequence[int] | Tensor,
) -> Tensor:
    """The permutation of nodes [N] that permutes an index: node i becomes result[i].

    Args:
        graph: The graph.
        index: An index, or its axes as pairs (variable name, axis).
        permutation: The value v of the index becomes permutation[v].
    """
    index, values = _check_index(graph, index), np.asarray(permutation)
    each = list(range(index.size))
    if values.dtype.kind not in "iu" or sorted(values.reshape(-1).tolist()) != each:
        raise ValueError(
            f"A permutation of this index holds each of 0..{index.size - 1} once "
            f"(got {values.tolist()})."
        )
    return torch.from_numpy(_permute(graph, dict.fromkeys(index.axes, values)))


def check_exchangeable(
    graph: GraphicalModel, axes: Index | Sequence[Axis]
) -> Counterexample | None:
    """None if every permutation of an index leaves the graph as it is.

    A swap of two neighbors and the full cycle generate all permutations, so these two
    are verified. Equal parameters are not, see the module.

    Args:
        graph: The graph.
        axes: An index, or its axes as pairs (variable name, axis). Here two of them may
            be of one variable.
    """
    return _counterexample(graph, _Links(graph), _check_index(graph, axes))


def exchangeable_indices(graph: GraphicalModel) -> list[Index]:
    """The indices whose permutations leave the graph as it is.

    This is what the graph allows. The distribution is exchangeable only if, in
    addition, its parameters do not depend on the index.
    """
    links = _Links(graph)
    found = _indices(graph, links)
    return [index for index in found if _counterexample(graph, links, index) is None]


def colors(graph: GraphicalModel) -> Tensor:
    """Color refinement (1-WL): the stable color of each node [N], numbered from 0.

    The first color is the variable, and so the domain and the role. Each round adds the
    multisets of the colors of parents, of children and of nodes that share a factor,
    until no color splits. An automorphism maps each node to one of the same color. A
    round costs O(N + E), and a chain of T steps takes T / 2 rounds.
    """
    (parent, child), (node, other) = _Links(graph).pairs
    color, num_colors = _owners(graph), len(graph.variables)
    generator = np.random.default_rng(0)
    while True:
        # Sums of random numbers, one per kind and color, distinguish multisets.
        code = generator.integers(2**64, size=(4, num_colors), dtype=np.uint64)
        total = code[0, color]
        np.add.at(total, child, code[1, color[parent]])
        np.add.at(total, parent, code[2, color[child]])
        np.add.at(total, node, code[3, color[other]])
        color, before = _numbered(total), num_colors
        num_colors = int(color.max(initial=-1)) + 1
        if num_colors == before:
            return torch.from_numpy(color)


def orbits(graph: GraphicalModel) -> Tensor:
    """Which nodes [N] automorphisms map to each other, as classes numbered from 0.

    Candidates are permutations of an index or of all axes of one size, and exchanges of
    axes. Each is verified before it is used, so nodes of one class are alike. The
    search is not complete: nodes of two classes may be alike too. Nodes of one class
    have the same color, see `colors`.
    """
    links, orbit = _Links(graph), np.arange(graph.num_nodes)
    for permutation in islice(_candidates(graph, links), MOST_CANDIDATES):
        joins = not np.array_equal(orbit[permutation], orbit)
        if joins and links.broken(permutation) is None:
            orbit = _join(orbit, permutation)
    return torch.from_numpy(_numbered(orbit))


class _Links:
    """The directed edges and the factor pairs of a graph, each link once."""

    def __init__(self, graph: GraphicalModel) -> None:
        self.num_nodes = n = graph.num_nodes
        self.keys: list[Array] = []  # each [E], sorted
        self.pairs: list[Array] = []  # each [2, E], in the same order
        for source, target in (graph.edges().numpy(), graph.factor_pairs().numpy()):
            keys = np.unique(source * n + target)
            self.keys.append(keys)
            self.pairs.append(np.stack(np.divmod(keys, max(n, 1))))
        self.size = n + sum(map(len, self.keys))

    def broken(self, permutation: Array) -> tuple[str, list[int]] | None:
        """The arrow and the nodes of a link whose image is none, if there is one."""
        moved = permutation != np.arange(self.num_nodes)
        for arrow, keys, pairs in zip(("->", "--"), self.keys, self.pairs, strict=True):
            links = pairs[:, moved[pairs].any(0)]
            source, target = permutation[links]
            image = source * self.num_nodes + target
            nearest = np.searchsorted(keys, image).clip(max=len(keys) - 1)
            missing = np.flatnonzero(keys[nearest] != image)
            if len(missing):
                return arrow, links[:, missing[0]].tolist()
        return None


def _counterexample(
    graph: GraphicalModel, links: _Links, index: Index
) -> Counterexample | None:
    for values in islice(_permutations(index.size), 2):
        permutation = _permute(graph, dict.fromkeys(index.axes, values))
        if (found := links.broken(permutation)) is not None:
            arrow, (source, target) = found
            edge, image = (
                f"{_node_name(graph, a)} {arrow} {_node_name(graph, b)}"
                for a, b in ((source, target), permutation[[source, target]])
            )
            return Counterexample(edge, image, (source, target), tuple(values.tolist()))
    return None


def _candidates(graph: GraphicalModel, links: _Links) -> Iterator[Array]:
    """Permutations of nodes [N] to verify, the most promising ones first."""
    found, alike = _indices(graph, links), dict[int, tuple[Axis, ...]]()  # by size
    for index in found:
        alike[index.size] = alike.get(index.size, ()) + index.axes
    sizes = {index.axes: index.size for index in found}
    sizes.update((axes, size) for size, axes in alike.items())
    moves = [_moves(size, {1: axes}) for axes, size in sizes.items()]
    for size, more in permutations(alike, 2):
        if more % size == 0:  # such as groups, and the members of all groups in a row
            moves.append(_moves(size, {1: alike[size], more // size: alike[more]}))
    for move in moves:
        yield from (_permute(graph, axes) for axes in islice(move, 2))
    if links.size > MOST_LINKS:
        return
    for one, other in combinations(found, 2):
        if one.size == other.size:
            yield _exchange(graph, dict(one.axes), dict(other.axes))
    for a, b in combinations(sorted({axis for _, axis in _axes(graph)}), 2):
        names = [name for name, axis in _axes(graph) if axis == b]
        yield _exchange(graph, dict.fromkeys(names, a), dict.fromkeys(names, b))
    for turn in zip_longest(*moves):
        yield from (_permute(graph, axes) for axes in turn if axes is not None)


def _moves(
    size: int, axes: Mapping[int, Sequence[Axis]]
) -> Iterator[dict[Axis, Array]]:
    """How to permute axes at the same time, in blocks of the length that is the key."""
    for values in _permutations(size):
        yield {a: _in_blocks(values, b) for b, of in axes.items() for a in of}


def _permutations(size: int) -> Iterator[Array]:
    """Permutations of 0..size-1 to try; the first two generate all others."""
    lengths = [length for length in range(1, size) if size % length == 0]
    for length in lengths:
        yield _in_blocks(_swap(size // length, 0, 1), length)
        yield _in_blocks(np.roll(np.arange(size // length), -1), length)
    yield np.arange(size)[::-1]
    for length in lengths:
        for i in range(1, size // length - 1):
            yield _in_blocks(_swap(size // length, i, i + 1), length)
    for i, j in combinations(range(size if size <= MOST_PAIRED else 0), 2):
        yield _swap(size, i, j)


def _swap(size: int, i: int, j: int) -> Array:
    values = np.arange(size)
    values[[i, j]] = j, i
    return values


def _in_blocks(values: Array, length: int) -> Array:
    """A permutation of blocks, as one of their members; block 0 is 0..length-1."""
    return (values[:, None] * length + np.arange(length)).reshape(-1)


def _permute(graph: GraphicalModel, axes: Mapping[Axis, Array]) -> Array:
    """The permutation of nodes [N] that permutes each axis by its values."""
    permutation = np.arange(graph.num_nodes)
    for (name, axis), values in axes.items():
        variable = graph.variables[name]
        nodes = permutation[variable.nodes].reshape(variable.shape)
        permutation[variable.nodes] = nodes.take(values, axis).reshape(-1)
    return permutation


def _exchange(
    graph: GraphicalModel, one: Mapping[str, int], other: Mapping[str, int]
) -> Array:
    """The permutation of nodes [N] that exchanges two axes of variables."""
    permutation = np.arange(graph.num_nodes)
    for name in one.keys() & other.keys():
        variable = graph.variables[name]
        if variable.shape[one[name]] == variable.shape[other[name]]:
            ids = graph.node_ids(name).transpose(one[name], other[name])
            permutation[variable.nodes] = ids.reshape(-1).numpy()
    return permutation


def _join(label: Array, permutation: Array) -> Array:
    """Labels [N] of classes after the classes of a node and its image are joined."""
    while not np.array_equal(label, image := label[permutation]):
        least = np.arange(len(label))  # which label each label becomes
        np.minimum.at(least, label, image)
        np.minimum.at(least, image, label)  # or a long cycle takes many rounds
        while not np.array_equal(least, shorter := least[least]):
            least = shorter
        label = least[label]
    return label


def _indices(graph: GraphicalModel, links: _Links) -> list[Index]:
    sizes = _axes(graph)
    groups: dict[Axis, tuple[Axis, ...]] = {axis: (axis,) for axis in sizes}
    for one, other in _ties(graph, links):
        joined = groups[one] + groups[other]
        if len({name for name, _ in joined}) == len(joined):
            groups.update(dict.fromkeys(joined, joined))
    ordered = (tuple(a for a in sizes if a in group) for group in groups.values())
    return [Index(axes, sizes[axes[0]]) for axes in dict.fromkeys(ordered)]


def _ties(graph: GraphicalModel, links: _Links) -> list[tuple[Axis, Axis]]:
    """Axes that belong to one index, see `indices`: those that agree come first."""
    agree: list[tuple[Axis, Axis]] = []
    differ: list[tuple[Axis, Axis]] = []
    variables, owner = list(graph.variables.values()), _owners(graph)
    several = np.array([variable.num_nodes > 1 for variable in variables], dtype=bool)
    for pairs in links.pairs:
        one, other = owner[pairs]
        pairs = pairs[:, (one != other) & several[one] & several[other]]
        key = owner[pairs[0]] * len(variables) + owner[pairs[1]]
        order = key.argsort(kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        for part in np.split(pairs[:, order], starts, axis=1)[1:]:
            x, y = (variables[i] for i in owner[part[:, 0]])
            at_x = np.unravel_index(part[0] - x.first_node, x.shape)
            at_y = np.unravel_index(part[1] - y.first_node, y.shape)
            for a, b in product(range(len(x.shape)), range(len(y.shape))):
                same = at_x[a] == at_y[b]  # [E]
                if x.shape[a] == y.shape[b] > 1 and (same == same[0]).all():
                    (agree if same[0] else differ).append(((x.name, a), (y.name, b)))
    return agree + differ


def _axes(graph: GraphicalModel) -> dict[Axis, int]:
    """The sizes of all axes, except those of size 1."""
    return {
        (variable.name, axis): size
        for variable in graph.variables.values()
        for axis, size in enumerate(variable.shape)
        if size > 1
    }


def _owners(graph: GraphicalModel) -> Array:
    """The number of the variable of each node [N]."""
    sizes = [variable.num_nodes for variable in graph.variables.values()]
    return np.repeat(np.arange(len(sizes)), np.array(sizes, dtype=int))


def _numbered(labels: Array) -> Array:
    """Labels [N] as 0, 1, ... in the order in which they first appear."""
    _, first, label = np.unique(labels, return_index=True, return_inverse=True)
    return first.argsort().argsort()[label]


def _node_name(graph: GraphicalModel, node: int) -> str:
    """A node as text, such as "s[0]"."""
    variable = list(graph.variables.values())[_owners(graph)[node]]
    place = np.unravel_index(node - variable.first_node, variable.shape)
    return variable.name + (str([int(i) for i in place]) if variable.shape else "")


def _check_index(graph: GraphicalModel, axes: Index | Sequence[Axis]) -> Index:
    """An index with axes of this graph, all of one size."""
    pairs = axes.axes if isinstance(axes, Index) else axes
    form = 'An index has one axis or more, as pairs such as ("x", 0)'
    try:
        given = {(name, axis): whole_number(axis) for name, axis in pairs}
    except (TypeError, ValueError) as error:
        raise ValueError(f"{form} (got {axes!r}).") from error
    if not given:
        raise ValueError(f"{form} (got none).")
    sizes: dict[Axis, int] = {}
    for (name, raw), axis in given.items():
        if name not in graph.variables:
            known = ", ".join(graph.variables)
            raise ValueError(f"The variables of this graph are {known} (got {name!r}).")
        shape = graph.variables[name].shape
        if axis is None or not 0 <= axis < len(shape):
            raise ValueError(
                f"Variable {name!r} of shape {shape} has {len(shape)} axes, counted "
                f"from 0 (got {raw!r})."
            )
        sizes[name, axis] = shape[axis]
    if len(set(sizes.values())) > 1:
        raise ValueError(f"All axes of an index have the same size (got {sizes}).")
    return Index(tuple(sizes), next(iter(sizes.values())))
