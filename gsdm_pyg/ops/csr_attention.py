"""Attention over the edges of a graph, in compressed sparse rows: the public functions.

    out_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j   over the edges j -> i

No message per edge is ever stored: an edge costs time, a node costs memory. Only where
edges have terms of their own does the backward pass hold two numbers per edge and head.
"""

from typing import Literal

from torch import Tensor

from gsdm_pyg.ops import library, reference
from gsdm_pyg.ops.checks import check_graph, check_heads, check_packed, check_terms
from gsdm_pyg.ops.csr import EdgeTerms, Transpose

Backend = Literal["auto", "reference", "cpu", "triton"]


def csr_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rowptr: Tensor,
    col: Tensor,
    transpose: Transpose | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
    factor: Tensor | None = None,
    edge: Tensor | None = None,
) -> Tensor:
    r"""Softmax attention of every destination over its incoming edges.

    .. math::
        \mathrm{out}_i = \sum_{j \to i} \mathrm{softmax}_j
            (s \, q_i^\top k_{ij} + b_{ij}) \, m_{ij} \, v_{ij}, \qquad
        k_{ij} = [k_j, e_{ij}], \quad v_{ij} = [v_j, e_{ij}]

    A destination without edges, or with :math:`-\infty` as every bias, gets 0.

    Args:
        q: Queries of the destinations, [N_dst, H, C + F] with F features of edges, by
            default none. Like k and v it may be a strided view (one third of a fused
            projection) and is not copied.
        k: Keys of the sources, [N_src, H, C].
        v: Values of the sources, [N_src, H, C].
        rowptr: Where the incoming edges of every destination begin, [N_dst + 1].
        col: The source of every edge, [E]; int32 or int64, like rowptr.
        transpose: The transposed graph, from :func:`transpose_csr`. None says that the
            graph is symmetric: where j -> i is an edge, i -> j is one as often.
        bias: b, added to the logits, [E, H]. With this or another term of edges the
            backward pass needs the transposed graph also where it is symmetric, and
            sorts the edges for it unless it is given.
        scale: s, the factor of the logits; 1 / sqrt(C) unless given.
        backend: "auto" takes the fused kernels wherever they run, and else the
            reference in plain torch; a name insists.
        factor: m, multiplies the weights behind the softmax, [E, H], as dropout does;
            has no gradient.
        edge: e, the features of edges, [E, F], which all heads share. Keys and values
            that depend on a projection W e are had without storing it, as
            q . (k + W e) = [q, W' q] . [k, e], and likewise for the values.

    Returns:
        [N_dst, H, C + F]
    """
    check_heads(q, k, v, edge)
    check_graph(q, k.size(0), rowptr, col, transpose)
    terms = EdgeTerms(bias, factor, edge)
    check_terms(q, col.numel(), terms)
    scale = k.size(-1) ** -0.5 if scale is None else scale
    if not is_fused(q, backend):
        return reference.csr_attention(q, k, v, rowptr, col, terms, scale)
    terms = like_queries(terms, q)
    return library.attention((q, k, v), rowptr, col, transpose or (), terms, scale)


def csr_self_attention(
    qkv: Tensor,
    rowptr: Tensor,
    col: Tensor,
    transpose: Transpose | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
    factor: Tensor | None = None,
) -> Tensor:
    """:func:`csr_attention` within one set of nodes, from one fused projection.

    The gradient of `qkv` is written as one tensor, without copies.

    Args:
        qkv: Queries, keys and values, [N, 3, H, C].
        rowptr: See :func:`csr_attention`, like all others.
        col: The source of every edge, [E].
        transpose: The transposed graph; None for a symmetric one.
        bias: Added to the logits, [E, H].
        scale: Factor of the logits; 1 / sqrt(C) unless given.
        backend: Which implementation to take.
        factor: Multiplies the weights, [E, H].

    Returns:
        [N, H, C]
    """
    check_packed(qkv)
    check_graph(qkv, qkv.size(0), rowptr, col, transpose)
    terms = EdgeTerms(bias, factor)
    check_terms(qkv, col.numel(), terms)
    scale = qkv.size(-1) ** -0.5 if scale is None else scale
    if not is_fused(qkv, backend):
        q, k, v = qkv.unbind(1)
        return reference.csr_attention(q, k, v, rowptr, col, terms, scale)
    terms = like_queries(terms, qkv)
    return library.attention((qkv,), rowptr, col, transpose or (), terms, scale)


def like_queries(terms: EdgeTerms, q: Tensor) -> EdgeTerms:
    """The terms as kernels read them: contiguous, in the dtype of the queries."""
    return EdgeTerms(*(x if x is None else x.to(q.dtype).contiguous() for x in terms))


def is_fused(x: Tensor, backend: Backend) -> bool:
    """Whether the fused kernels serve, and not the reference."""
    available = library.FUSED.get(x.device.type) if x.dtype in library.DTYPES else None
    if backend == "auto":
        return available is not None
    if backend not in ("reference", "cpu", "triton"):
        raise ValueError(
            f'backend must be "auto", "reference", "cpu" or "triton" (got {backend!r})'
        )
    if backend not in ("reference", available):
        raise RuntimeError(
            f"backend={backend!r} cannot run here: it needs "
            + ("Numba, " if backend == "cpu" else "Triton, ")
            + f"a {'CPU' if backend == 'cpu' else 'CUDA'} tensor and a floating-point "
            f'dtype; backend="auto" takes what there is (got {x.dtype} on {x.device})'
        )
    return backend != "reference"
