"""The inputs of attention, as one object for all implementations.

A packed [N, 3, H, C] holds queries, keys and values of one set of nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

from torch import Tensor


class EdgeTerms(NamedTuple):
    """What an edge itself, and neither of its ends, adds to the attention."""

    bias: Tensor | None = None  # [E, H], added to the logits
    factor: Tensor | None = None  # [E, H], multiplies the weights
    edge: Tensor | None = None  # [E, F], the last channels of the edge's key and value

    def __bool__(self) -> bool:
        bias, factor, edge = self
        return bias is not None or factor is not None or edge is not None

    def to_kernel_layout(self, q: Tensor) -> Self:
        """The terms contiguous and in the dtype of the queries."""
        terms = (x if x is None else x.to(q.dtype).contiguous() for x in self)
        return type(self)(*terms)

    def gradients(self, dbias: Tensor, dedge: Tensor) -> list[Tensor]:
        """The gradients of the bias and of the edge features that are given."""
        pairs = ((self.bias, dbias), (self.edge, dedge))
        return [grad.to(term.dtype) for term, grad in pairs if term is not None]


class AttentionInputs(NamedTuple):
    """Inputs of out_i = sum_j softmax_j(scale q_i . k_ij + bias_ij) factor_ij v_ij."""

    qkv: Sequence[Tensor]  # q [N_dst, H, C + F], k and v [N_src, H, C]; or one packed
    rowptr: Tensor  # [N_dst + 1], where the edges into each destination begin
    col: Tensor  # [E], the source of each edge
    transpose: Sequence[Tensor]  # from `transpose_csr`; empty for a symmetric graph
    terms: EdgeTerms
    scale: float

    @property
    def num_src(self) -> int:
        return self.qkv[-1].size(0)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """All tensors with their names."""
        names = ("q", "k", "v") if len(self.qkv) == 3 else ("qkv",)
        yield from zip(names, self.qkv, strict=True)
        yield from (("rowptr", self.rowptr), ("col", self.col))
        yield from (("transpose", x) for x in self.transpose)
        for name, term in zip(EdgeTerms._fields, self.terms, strict=True):
            if term is not None:
                yield name, term

    def map(self, change: Callable[[str, Tensor], Tensor]) -> AttentionInputs:
        """The inputs with every tensor replaced by change(name, tensor)."""
        changed = [change(name, x) for name, x in self.tensors()]
        qkv, rest = changed[: len(self.qkv)], iter(changed[len(self.qkv) :])
        graph = next(rest), next(rest), [next(rest) for _ in self.transpose]
        terms = EdgeTerms(*(x if x is None else next(rest) for x in self.terms))
        return AttentionInputs(qkv, *graph, terms, self.scale)

    def flatten(self) -> tuple[Any, ...]:
        """The arguments of the torch operator, which takes no nested tuples."""
        graph = (self.rowptr, self.col, list(self.transpose))
        return list(self.qkv), *graph, *self.terms, self.scale

    @classmethod
    def unflatten(
        cls,
        qkv: Sequence[Tensor],
        rowptr: Tensor,
        col: Tensor,
        transpose: Sequence[Tensor],
        bias: Tensor | None,
        factor: Tensor | None,
        edge: Tensor | None,
        scale: float,
    ) -> AttentionInputs:
        return cls(qkv, rowptr, col, transpose, EdgeTerms(bias, factor, edge), scale)


def unpack_qkv(qkv: Sequence[Tensor]) -> Sequence[Tensor]:
    """q, k and v, each [N, H, C], from three tensors or one packed [N, 3, H, C]."""
    return qkv if len(qkv) == 3 else qkv[0].unbind(1)
