"""Shortest paths in attention masks: how many layers information needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from torch_geometric import EdgeIndex

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

_SWEEPS = 16  # searches from one node each, before all sources are searched together
_BLOCK = 1024  # sources that are searched together


class Longest(NamedTuple):
    """The longest of many shortest paths."""

    hops: int
    exact: bool  # otherwise `hops` is a lower bound


def adjacency(edge_index: EdgeIndex, also: Ints | None = None) -> csr_array:
    """Entry (i, j) where j attends to i: rows follow the flow of information.

    Args:
        edge_index: Sources and destinations, [2, E].
        also: If given, one more node follows the others, and these attend to it.
    """
    source, target = edge_index.as_tensor().numpy()
    num_nodes = edge_index.get_sparse_size(0)
    if also is not None:
        source = np.concatenate([source, np.full(len(also), num_nodes)])
        target = np.concatenate([target, also])
        num_nodes += 1
    shape = (num_nodes, num_nodes)
    return csr_array((np.ones(len(source)), (source, target)), shape=shape)


def reached(edge_index: EdgeIndex, sources: Ints) -> Mask:
    """Which nodes information from any of the sources can reach, [N]."""
    num_nodes = edge_index.get_sparse_size(0)
    hops = _hops(adjacency(edge_index, also=sources), num_nodes)
    return hops[:num_nodes] >= 0


def longest_path(
    links: csr_array, sources: Ints, targets: Mask, symmetric: bool, budget: float
) -> Longest:
    """The longest shortest path from a source to a target that it reaches.

    On a symmetric graph a search from w bounds all other sources v of its component:
    ecc(v) <= d(v, w) + ecc(w). Searching from the largest bound each time, a few
    searches settle long graphs. What they leave open is searched from all sources
    together, if the budget allows.

    Args:
        links: As `adjacency` returns it, with a self-loop per node.
        sources: Where paths start.
        targets: Where they may end, [N].
        symmetric: Whether every edge has its reverse.
        budget: The most sources times edges to search together.
    """
    best, bound = 0, np.full(len(sources), np.inf)
    for _ in range(_SWEEPS if symmetric else 0):
        if not (bound > best).any():
            break
        hops = _hops(links, int(sources[bound.argmax()]))
        eccentricity = int(hops[targets].max(initial=0))
        best = max(best, eccentricity)
        at_sources = hops[sources]
        update = np.where(at_sources >= 0, at_sources + eccentricity, np.inf)
        bound = np.minimum(bound, update)
        bound[at_sources == 0] = 0  # it was searched from
    left = sources[bound > best]
    if len(left) * links.nnz > budget:
        return Longest(best, False)
    incoming = links if symmetric else links.T.tocsr()
    for first in range(0, len(left), _BLOCK):
        block = left[first : first + _BLOCK]
        best = max(best, _longest_together(incoming, block, targets))
    return Longest(best, True)


def _hops(links: csr_array, source: int) -> Ints:
    """The hops from one node to each, -1 where there is no path, [N]."""
    order, before = breadth_first_order(links, source)
    ancestor = np.arange(len(before))
    ancestor[order[1:]] = before[order[1:]]
    hops = (ancestor != np.arange(len(before))).astype(np.int64)
    while (further := hops[ancestor]).any():  # ancestors twice as far each time
        hops, ancestor = hops + further, ancestor[ancestor]
    found = np.full_like(hops, -1)
    found[order] = hops[order]
    return found


def _longest_together(incoming: csr_array, sources: Ints, targets: Mask) -> int:
    """The same by a bit per node and source: a hop is the union over neighbors."""
    num_words = -(-len(sources) // 64)
    known = np.zeros((len(targets), num_words), np.uint64)  # [N, words]
    number = np.arange(len(sources))
    bits = np.uint64(1) << (number % 64).astype(np.uint64)
    known[sources, number // 64] = bits
    longest = hops = 0
    while True:
        union = np.bitwise_or.reduceat(
            known[incoming.indices], incoming.indptr[:-1], axis=0
        )
        changed = (union != known).any(1)
        if not changed.any():
            return longest
        known, hops = union, hops + 1
        if changed[targets].any():
            longest = hops
