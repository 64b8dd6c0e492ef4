"""Attention over the edges of a graph, in compressed sparse rows: the public functions.

    out_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j   over the edges j -> i

No message per edge is stored: an edge costs time, a node costs memory. Only with terms
per edge (bias, factor, features) the backward pass holds two numbers per edge and head.
"""

from typing import Literal

import torch
from torch import Tensor

from gsdm_pyg.ops import fused_operator, reference
from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.checks import (
    check_fake,
    check_graph,
    check_heads,
    check_packed,
    check_scale,
    check_terms,
)
from gsdm_pyg.ops.csr import Transpose
from gsdm_pyg.ops.derivatives import is_transformed
from gsdm_pyg.ops.kernel_inputs import has_storage, readable_inputs

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

    A destination without edges, or with :math:`-\infty` as every bias, gets 0. NaN and
    infinity in the inputs spread as in the reference. Where numbers overflow on the way
    the gradients may differ, as they are summed in another order.

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
            reference in plain torch: inside of `torch.func` and `torch.export`, and for
            forward-mode differentiation. A name requires that implementation. Second
            derivatives always come from the reference.
        factor: m, multiplies the weights after the softmax, [E, H], as dropout does;
            has no gradient.
        edge: e, edge features [E, F], shared by all heads. Keys and values that add a
            projection W e need not store it, as q . (k + W e) = [q, W' q] . [k, e], and
            likewise for the values.

    Returns:
        [N_dst, H, C + F]
    """
    check_heads(q, k, v, edge)
    check_scale(scale, q)
    scale = k.size(-1) ** -0.5 if scale is None else scale
    graph = rowptr, col, () if transpose is None else transpose
    terms = EdgeTerms(bias, factor, edge)
    inputs = AttentionInputs((q, k, v), *graph, terms, scale)
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
    check_scale(scale, qkv)
    scale = qkv.size(-1) ** -0.5 if scale is None else scale
    graph = rowptr, col, () if transpose is None else transpose
    terms = EdgeTerms(bias, factor)
    inputs = AttentionInputs((qkv,), *graph, terms, scale)
    return _attention(inputs, backend)


def _attention(inputs: AttentionInputs, backend: Backend) -> Tensor:
    check_graph(inputs)
    check_terms(inputs)
    fused = is_fused(inputs.qkv[0], backend)
    if fused:
        reject_tracing()
    if not torch.compiler.is_compiling():
        check_fake(inputs)
        transform = _transform(inputs)
        if transform is not None and backend not in ("auto", "reference"):
            raise NotImplementedError(
                f"backend={backend!r} has no such derivatives or transforms; "
                f'backend="reference" has, and "auto" uses it (got {transform})'
            )
        if transform is None:
            inputs = readable_inputs(inputs)
        fused = fused and transform is None
    if not fused:
        return reference.attention(inputs)
    if inputs.terms:
        terms = inputs.terms.to_kernel_layout(inputs.qkv[0])
        inputs = inputs._replace(terms=terms)
    return fused_operator.attention(inputs)


def _transform(inputs: AttentionInputs) -> str | None:
    """What happens to the inputs that only plain torch can follow, if anything."""
    if not all(has_storage(x) for _, x in inputs.tensors()):
        return "torch.func"
    if any(is_transformed(x) for _, x in inputs.tensors()):
        return "forward-mode differentiation"
    return None


def is_fused(x: Tensor, backend: Backend) -> bool:
    """Whether the fused kernels are used, and not the reference."""
    available = fused_operator.available_backend(x)
    if torch.compiler.is_exporting():  # a model to deploy has plain operators only
        available = None
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
            + f"a {'CPU' if backend == 'cpu' else 'CUDA'} tensor of 16, 32 or 64 bits, "
            "and no torch.export; "
            f'backend="auto" uses what can run (got {x.dtype} on {x.device})'
        )
    return backend != "reference"


def reject_tracing() -> None:
    """torch.jit.trace records torch's own operators only."""
    if torch.jit.is_tracing():  # type: ignore[attr-defined]
        raise RuntimeError(
            "torch.jit.trace cannot record the fused kernels: use torch.export.export, "
            'or backend="reference" (in a layer backend="scatter") '
            "(got a call while tracing)"
        )
