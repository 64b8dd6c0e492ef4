"""Attention over the edges of a graph, in compressed sparse rows: the public functions.

    out_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j   over the edges j -> i

No message per edge is stored: an edge costs time, a node costs memory. Only with terms
per edge (bias, factor, features) the backward pass holds two numbers per edge and head.
"""

from typing import Literal

from torch import Tensor

from gsdm_pyg.ops import fused_operator, reference
from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.checks import check_graph, check_heads, check_packed, check_terms
from gsdm_pyg.ops.csr import Transpose

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
        q: Queries of the destinations, [N_dst, H, C + F] with F edge features, by
            default none. Like k and v it may be a strided view (one third of a packed
            projection) and is not copied.
        k: Keys of the sources, [N_src, H, C].
        v: Values of the sources, [N_src, H, C].
        rowptr: Where the incoming edges of every destination begin, [N_dst + 1].
        col: The source of every edge, [E]; int32 or int64, like rowptr.
        transpose: The transposed graph, from :func:`transpose_csr`. None means that the
            graph is symmetric: each edge j -> i occurs as often as i -> j.
        bias: b, added to the logits, [E, H]. With a bias, factor or edge features the
            backward pass needs the transposed graph of a symmetric graph too, and sorts
            the edges for it unless it is given.
        scale: s, the factor of the logits; 1 / sqrt(C) by default.
        backend: "auto" uses the fused kernels wherever they run, and otherwise the
            reference in plain torch. A name requires that implementation.
        factor: m, multiplies the weights after the softmax, [E, H], as dropout does;
            has no gradient.
        edge: e, edge features [E, F], shared by all heads. Keys and values that add a
            projection W e need not store it, as q . (k + W e) = [q, W' q] . [k, e], and
            likewise for the values.

    Returns:
        [N_dst, H, C + F]
    """
    check_heads(q, k, v, edge)
    scale = k.size(-1) ** -0.5 if scale is None else scale
    terms = EdgeTerms(bias, factor, edge)
    inputs = AttentionInputs((q, k, v), rowptr, col, transpose or (), terms, scale)
    return _attention(inputs, backend)


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
    """:func:`csr_attention` within one set of nodes, from one packed projection.

    The gradient of `qkv` is written as one tensor, without copies.

    Args:
        qkv: Queries, keys and values, [N, 3, H, C].
        rowptr: See :func:`csr_attention`, like all others.
        col: The source of every edge, [E].
        transpose: The transposed graph; None for a symmetric one.
        bias: Added to the logits, [E, H].
        scale: Factor of the logits; 1 / sqrt(C) by default.
        backend: Which implementation to use.
        factor: Multiplies the weights, [E, H].

    Returns:
        [N, H, C]
    """
    check_packed(qkv)
    scale = qkv.size(-1) ** -0.5 if scale is None else scale
    terms = EdgeTerms(bias, factor)
    inputs = AttentionInputs((qkv,), rowptr, col, transpose or (), terms, scale)
    return _attention(inputs, backend)


def _attention(inputs: AttentionInputs, backend: Backend) -> Tensor:
    check_graph(inputs)
    check_terms(inputs)
    if not is_fused(inputs.qkv[0], backend):
        return reference.attention(inputs)
    if inputs.terms:
        terms = inputs.terms.to_kernel_layout(inputs.qkv[0])
        inputs = inputs._replace(terms=terms)
    return fused_operator.attention(inputs)


def is_fused(x: Tensor, backend: Backend) -> bool:
    """Whether the fused kernels are used, and not the reference."""
    available = fused_operator.available_backend(x)
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
            f'dtype; backend="auto" uses what can run (got {x.dtype} on {x.device})'
        )
    return backend != "reference"
