"""Checks of the inputs of `csr_attention`, where a kernel would misread them."""

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs


def check_heads(q: Tensor, k: Tensor, v: Tensor, edge: Tensor | None) -> None:
    """q [N_dst, H, C + F], k and v [N_src, H, C], of one dtype on one device."""
    shapes = q.dim() == k.dim() == 3 and k.shape == v.shape and k.size(1) == q.size(1)
    features = 0 if edge is None else edge.size(-1)
    if not shapes or 0 in k.shape[1:] or q.size(2) != k.size(2) + features:
        raise ValueError(
            "q must be [N_dst, H, C + F], and k and v [N_src, H, C], with H and C > 0 "
            f"and F = {features} edge features "
            f"(got {list(q.shape)}, {list(k.shape)}, {list(v.shape)})"
        )
    if not q.dtype == k.dtype == v.dtype or not q.device == k.device == v.device:
        raise TypeError(
            "q, k and v must have one dtype and device; convert them with .to() "
            f"(got {q.dtype} on {q.device}, {k.dtype} on {k.device}, "
            f"{v.dtype} on {v.device})"
        )


def check_packed(qkv: Tensor) -> None:
    """qkv [N, 3, H, C]."""
    if qkv.dim() != 4 or qkv.size(1) != 3 or 0 in qkv.shape[2:]:
        raise ValueError(
            "qkv must hold queries, keys and values as [N, 3, H, C] with H and C > 0 "
            f"(got {list(qkv.shape)})"
        )


def check_graph(inputs: AttentionInputs) -> None:
    """rowptr [N_dst + 1], col [E], and the transposed graph likewise."""
    q, rowptr, col, num_src = inputs.qkv[0], inputs.rowptr, inputs.col, inputs.num_src
    num_dst, edges = q.size(0), col.numel()
    _check_index("rowptr", rowptr, num_dst + 1, col, q)
    _check_index("col", col, edges, col, q)
    if not inputs.transpose:
        if num_dst != num_src:
            raise ValueError(
                "A graph between two sets of nodes is not symmetric: pass "
                "transpose=transpose_csr(rowptr, col, num_src) "
                f"(got {num_dst} destinations and {num_src} sources)"
            )
    else:
        t_rowptr, t_row, t_perm = inputs.transpose
        _check_index("transpose[0]", t_rowptr, num_src + 1, col, q)
        _check_index("transpose[1]", t_row, edges, col, q)
        _check_index("transpose[2]", t_perm, edges, col, q)


def check_terms(inputs: AttentionInputs) -> None:
    """bias and factor [E, H], edge [E, F], on the device of q."""
    q, terms, num_edges = inputs.qkv[0], inputs.terms, inputs.col.numel()
    for name, term in zip(terms._fields, terms, strict=True):
        if term is None:
            continue
        last = ("F", term.size(-1)) if name == "edge" else ("H", q.size(-2))
        if term.shape != (num_edges, last[1]) or term.device != q.device:
            raise ValueError(
                f"{name} must be [E, {last[0]}] = [{num_edges}, {last[1]}] on "
                f"{q.device} (got {list(term.shape)} on {term.device})"
            )
    if terms.edge is not None and terms.edge.size(-1) == 0:
        raise ValueError("edge must have features, or be None (got [E, F] with F = 0)")
    if terms.factor is not None and terms.factor.requires_grad:
        raise ValueError(
            "factor has no gradient: pass factor.detach() (got requires_grad=True)"
        )


def _check_index(name: str, index: Tensor, size: int, col: Tensor, q: Tensor) -> None:
    if hasattr(
        index, "as_tensor"
    ):  # PyG's Index wraps a tensor and has no memory of its own
        raise TypeError(
            f"{name} must be a plain tensor: pass {name}.as_tensor() "
            f"(got {type(index).__name__})"
        )
    if index.dim() != 1 or index.numel() != size or not index.is_contiguous():
        raise ValueError(
            f"{name} must be a contiguous vector of {size} entries "
            f"(got shape {list(index.shape)}, stride {list(index.stride())})"
        )
    if index.dtype != col.dtype or index.dtype not in (torch.int32, torch.int64):
        raise TypeError(
            "rowptr, col and the transposed graph must be all int32 or all int64 "
            f"(got {index.dtype} for {name} and {col.dtype} for col)"
        )
    if index.device != q.device:
        raise ValueError(
            f"{name} must be on the device of q, {q.device}; move it with .to() "
            f"(got {index.device})"
        )
