"""The graphs of the benchmarks: symmetric, sorted by destination, always the same."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex


class Workload(NamedTuple):
    """A symmetric graph, its edges sorted by destination, and the heads on it."""

    edge_index: Tensor  # [2, E]
    rowptr: Tensor  # [N + 1]
    num_graphs: int  # of equal size
    heads: int
    channels: int

    @property
    def num_nodes(self) -> int:
        return self.rowptr.numel() - 1

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    def sorted_edge_index(self, undirected: bool = True) -> EdgeIndex:
        """What our layer takes: it sorts nothing in a call."""
        return EdgeIndex(
            self.edge_index,
            sparse_size=(self.num_nodes, self.num_nodes),
            sort_order="col",
            is_undirected=undirected,
        )


def workload(
    edges: Tensor,
    num_nodes: int,
    num_graphs: int,
    heads: int,
    channels: int,
    self_loops: bool = True,
) -> Workload:
    """Symmetrize one graph's edges [2, E], add self-loops, repeat it, sort."""
    loops = torch.arange(num_nodes if self_loops else 0).expand(2, -1)
    edges = torch.cat([edges, edges.flip(0), loops], dim=1)
    shift = num_nodes * torch.arange(num_graphs)[:, None]
    source, destination = ((end + shift).flatten() for end in edges)
    total = num_nodes * num_graphs
    key = torch.unique(destination * total + source)
    counts = torch.bincount(key // total, minlength=total)
    rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    return Workload(
        torch.stack([key % total, key // total]), rowptr, num_graphs, heads, channels
    )


def bcmf(m: int = 10, n: int = 16, k: int = 8, num_graphs: int = 8) -> Workload:
    """Matrix factorization: A[m, k], R[k, n] -> C[m, n, k] -> E[m, n]."""
    sizes = [m * k, k * n, m * n * k, m * n]
    ids = torch.arange(sum(sizes)).split(sizes)
    a, r = ids[0].view(m, 1, k), ids[1].view(k, n).T.reshape(1, n, k)
    c, e = ids[2].view(m, n, k), ids[3].view(m, n, 1)
    pairs = [torch.broadcast_tensors(x, y) for x, y in ((a, c), (r, c), (c, e))]
    edges = torch.cat([torch.stack([x.flatten(), y.flatten()]) for x, y in pairs], 1)
    return workload(edges, sum(sizes), num_graphs, heads=2, channels=32)


def sudoku(num_graphs: int = 32) -> Workload:
    """9 x 9: every cell attends its row, its column, its block and itself."""
    cell = torch.arange(81)
    row, column = cell // 9, cell % 9
    block = row // 3 * 3 + column // 3
    linked = torch.zeros(81, 81, dtype=torch.bool)
    for group in (row, column, block):
        linked |= group[:, None] == group
    return workload(linked.nonzero().T, 81, num_graphs, heads=8, channels=16)


def _distinct(
    draws: Tensor, num_nodes: int, num_pairs: int, generator: torch.Generator
) -> Tensor:
    """That many of the pairs drawn [2, P], each once and none with equal ends."""
    low, high = draws.sort(dim=0).values
    pairs = torch.unique((low * num_nodes + high)[low < high])
    pairs = pairs[torch.randperm(pairs.numel(), generator=generator)[:num_pairs]]
    return torch.stack([pairs // num_nodes, pairs % num_nodes])


def power_law(num_nodes: int = 100_000, num_edges: int = 1_000_000) -> Workload:
    """Ends of edges drawn with probabilities rank^-0.85, in random order."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.arange(1, num_nodes + 1).double().pow(-0.85)
    draws = torch.multinomial(weight, 4 * num_edges, True, generator=generator)
    num_pairs = (num_edges - num_nodes) // 2
    edges = _distinct(draws.view(2, -1), num_nodes, num_pairs, generator)
    names = torch.randperm(num_nodes, generator=generator)
    return workload(names[edges], num_nodes, 1, heads=4, channels=16)


def complete(num_nodes: int = 128, num_graphs: int = 8) -> Workload:
    """Complete graphs with self-loops: dense attention needs no mask."""
    edges = torch.ones(num_nodes, num_nodes).nonzero().T
    return workload(edges, num_nodes, num_graphs, heads=4, channels=16)


def uniform(num_nodes: int, degree: int) -> Workload:
    """Both ends of an edge drawn uniformly; `degree` edges per node, no self-loops."""
    generator = torch.Generator().manual_seed(0)
    num_pairs = num_nodes * degree // 2
    draws = torch.randint(num_nodes, (2, 2 * num_pairs), generator=generator)
    edges = _distinct(draws, num_nodes, num_pairs, generator)
    return workload(edges, num_nodes, 1, heads=4, channels=16, self_loops=False)
