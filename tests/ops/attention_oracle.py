"""Attention over edges as a dense masked softmax, and graphs to test it on."""

from typing import NamedTuple

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from gsdm_pyg.ops import transpose_csr


class Graph(NamedTuple):
    """Edges source -> destination, sorted by destination."""

    source: Tensor  # [E]
    destination: Tensor  # [E]
    num_src: int
    num_dst: int

    def csr(self, dtype: torch.dtype = torch.int64) -> tuple[Tensor, Tensor]:
        counts = torch.bincount(self.destination, minlength=self.num_dst)
        rowptr = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        return rowptr.to(dtype), self.source.to(dtype)

    def transpose(self, dtype: torch.dtype = torch.int64) -> tuple[Tensor, ...]:
        return transpose_csr(*self.csr(dtype), self.num_src)


def graph(edges: list[tuple[int, int]], num_src: int, num_dst: int) -> Graph:
    """A graph from pairs (source, destination); keeps duplicates and their order."""
    edges = sorted(edges, key=lambda edge: edge[1])
    pairs = torch.tensor(edges, dtype=torch.int64).view(-1, 2)
    return Graph(pairs[:, 0].contiguous(), pairs[:, 1].contiguous(), num_src, num_dst)


def random_graph(num_nodes: int, density: float) -> Graph:
    """A symmetric graph without isolated nodes."""
    linked = torch.rand(num_nodes, num_nodes) < density
    linked |= linked.T | torch.eye(num_nodes, dtype=torch.bool)
    destination, source = linked.nonzero().T.contiguous()
    return Graph(source, destination, num_nodes, num_nodes)


def star(num_leaves: int) -> Graph:
    """Node 0 and its leaves, linked both ways: a hub."""
    edges = [(leaf, 0) for leaf in range(1, num_leaves + 1)]
    return graph(
        edges + [(0, leaf) for leaf, _ in edges], num_leaves + 1, num_leaves + 1
    )


def disjoint_union(graphs: list[Graph]) -> Graph:
    """Several graphs as one, as in a batch."""
    edges, size = [], 0
    for on in graphs:
        pairs = zip(on.source.tolist(), on.destination.tolist(), strict=True)
        edges += [(j + size, i + size) for j, i in pairs]
        size += on.num_dst
    return graph(edges, size, size)


@st.composite
def graphs(draw: st.DrawFn, symmetric: bool) -> Graph:
    """Small graphs with isolated nodes, self-loops and duplicate edges."""
    num_src = draw(st.integers(1, 7))
    num_dst = num_src if symmetric else draw(st.integers(1, 7))
    edge = st.tuples(st.integers(0, num_src - 1), st.integers(0, num_dst - 1))
    edges = draw(st.lists(edge, max_size=30))
    if symmetric:
        edges = edges + [(j, i) for i, j in edges]
    return graph(edges, num_src, num_dst)


def dense_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    on: Graph,
    bias: Tensor | None,
    scale: float,
    factor: Tensor | None = None,
    edge: Tensor | None = None,
) -> Tensor:
    """Softmax over all edges, with those into other nodes masked."""
    k, v = k[on.source], v[on.source]  # [E, H, C]
    if edge is not None:
        each = edge[:, None].expand(-1, k.size(1), -1)  # the same in all heads
        k, v = torch.cat([k, each], -1), torch.cat([v, each], -1)
    logit = torch.einsum("ihc,ehc->ihe", q, k) * scale  # [N_dst, H, E]
    if bias is not None:
        logit = logit + bias.T
    own = on.destination == torch.arange(on.num_dst)[:, None]  # [N_dst, E]
    some = own.any(1)
    logit = logit.masked_fill(~own[:, None], -torch.inf)
    p = logit[some].softmax(-1)
    out = torch.einsum("ihe,ehc->ihc", p if factor is None else p * factor.T, v)
    return torch.zeros_like(q).index_put((some.nonzero()[:, 0],), out)


def assert_gradients_close(out, expected, inputs, **tolerance) -> None:
    """Gradients of a random projection of both outputs are the same."""
    grad = torch.randn_like(out)
    ours, theirs = (gradients(x, grad, *inputs) for x in (out, expected))
    for x, y in zip(ours, theirs, strict=True):
        assert_close(x, y, **tolerance)


def gradients(out: Tensor, grad: Tensor, *inputs: Tensor | None) -> list[Tensor]:
    given = [x for x in inputs if x is not None]
    if not out.requires_grad:
        return [torch.zeros_like(x) for x in given]
    return list(torch.autograd.grad(out, given, grad, materialize_grads=True))
