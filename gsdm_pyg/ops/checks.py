"""Checks of the inputs of `csr_attention`, where a kernel would misread them."""

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs
from gsdm_pyg.ops.csr import INDEX_DTYPES
from gsdm_pyg.ops.kernel_inputs import check_tensor
from gsdm_pyg.private_api import is_fake


def check_heads(q: Tensor, k: Tensor, v: Tensor, edge: Tensor | None) -> None:
    """q [N_dst, H, C + F], k and v [N_src, H, C], of one dtype on one device."""
    _check_numbers(q=q, k=k, v=v)
    if edge is not None:
        _check_numbers(edge=edge)
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
    _check_numbers(qkv=qkv)
    if qkv.dim() != 4 or qkv.size(1) != 3 or 0 in qkv.shape[2:]:
        raise ValueError(
            "qkv must hold queries, keys and values as [N, 3, H, C] with H and C > 0 "
            f"(got {list(qkv.shape)})"
        )


def check_scale(scale: float | None, like: Tensor) -> None:
    """A number that is finite in the dtype that logits are computed in."""
    if scale is None:
        return
    if isinstance(scale, Tensor | str | complex | list | tuple):
        raise TypeError(
            "scale must be a number; multiply q by a tensor to learn it "
            f"(got {type(scale).__name__})"
        )
    accum = torch.promote_types(like.dtype, torch.float32)
    limit = torch.finfo(accum).max / 2
    if not -limit < scale < limit:
        raise ValueError(f"scale must be finite in {accum} (got {scale})")


def check_inputs(inputs: AttentionInputs) -> None:
    """All inputs, as the torch operator gets them."""
    terms = inputs.terms
    if len(inputs.qkv) == 3:
        q, k, v = inputs.qkv
        check_heads(q, k, v, terms.edge)
    elif len(inputs.qkv) == 1 and terms.edge is None:
        check_packed(inputs.qkv[0])
    else:
        raise ValueError(
            "qkv must be queries, keys and values, or one packed tensor without edge "
            f"features (got {len(inputs.qkv)} tensors)"
        )
    check_graph(inputs)
    check_terms(inputs)
    like = inputs.qkv[0]
    check_scale(inputs.scale, like)
    for name, term in zip(terms._fields, terms, strict=True):
        if term is not None and (term.dtype != like.dtype or not term.is_contiguous()):
            raise ValueError(
                f"{name} must be contiguous and have the dtype of q, {like.dtype} "
                f"(got {term.dtype}, stride {list(term.stride())})"
            )


def check_results(
    grad: Tensor, out: Tensor, lse: Tensor, inputs: AttentionInputs
) -> None:
    """The results of the forward pass and the gradient, as the operator gets them."""
    like = inputs.qkv[0]
    rows, heads, width = like.size(0), like.size(-2), like.size(-1)
    accum = torch.float64 if like.dtype == torch.float64 else torch.float32
    _check_result("grad", grad, [rows, heads, width], like.dtype, like)
    _check_result("out", out, [rows, heads, width], like.dtype, like)
    _check_result("lse", lse, [rows, heads], accum, like)


def _check_result(
    name: str, x: Tensor, shape: list[int], dtype: torch.dtype, like: Tensor
) -> None:
    check_tensor(name, x)
    right = list(x.shape) == shape and x.dtype == dtype and x.device == like.device
    if not right or (name != "grad" and not x.is_contiguous()):
        raise ValueError(
            f"{name} must be a contiguous {dtype} of shape {shape} on {like.device} "
            f"(got {x.dtype} of shape {list(x.shape)} on {x.device})"
        )


def check_graph(inputs: AttentionInputs) -> None:
    """rowptr [N_dst + 1], col [E], and the transposed graph likewise."""
    q, rowptr, col, num_src = inputs.qkv[0], inputs.rowptr, inputs.col, inputs.num_src
    check_tensor("col", col)
    num_dst, edges = q.size(0), col.numel()
    _check_index("rowptr", rowptr, num_dst + 1, col, q)
    _check_index("col", col, edges, col, q)
    if edges and 0 in (num_dst, num_src):
        raise IndexError(
            "Edges need sources and destinations: pass k, v and q with a row per node "
            f"(got {edges} edges between {num_src} sources and {num_dst} destinations)"
        )
    if not isinstance(inputs.transpose, tuple | list):
        raise TypeError(
            "transpose must be what transpose_csr returns, three tensors "
            f"(got {type(inputs.transpose).__name__})"
        )
    if not inputs.transpose:
        if num_dst != num_src:
            raise ValueError(
                "A graph between two sets of nodes is not symmetric: pass "
                "transpose=transpose_csr(rowptr, col, num_src) "
                f"(got {num_dst} destinations and {num_src} sources)"
            )
    else:
        if len(inputs.transpose) != 3:
            raise ValueError(
                "transpose must be what transpose_csr returns, three tensors "
                f"(got {len(inputs.transpose)})"
            )
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
        _check_numbers(**{name: term})
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


def check_fake(inputs: AttentionInputs) -> None:
    """Real numbers with a real graph; fake numbers may come with either."""
    fake = {name for name, x in inputs.tensors() if is_fake(x)}
    real = {name for name, x in inputs.tensors() if not is_fake(x)}
    if fake and real - {"rowptr", "col", "transpose"}:
        raise ValueError(
            "Fake and real tensors cannot be mixed: convert all of them by one "
            f"FakeTensorMode (got fake {sorted(fake)} beside real {sorted(real)})"
        )


def _check_numbers(**tensors: Tensor) -> None:
    """Dense tensors of floating-point numbers."""
    for name, x in tensors.items():
        check_tensor(name, x)
        if x.layout != torch.strided or not x.is_floating_point():
            raise TypeError(
                f"{name} must be a dense tensor of floating-point numbers "
                f"(got {x.dtype}, {x.layout})"
            )


def _check_index(name: str, index: Tensor, size: int, col: Tensor, q: Tensor) -> None:
    check_tensor(name, index)
    if index.layout != torch.strided:
        raise TypeError(f"{name} must be a dense tensor (got {index.layout})")
    if hasattr(index, "as_tensor"):  # PyG's Index wraps a tensor and has no memory
        raise TypeError(
            f"{name} must be a plain tensor: pass {name}.as_tensor() "
            f"(got {type(index).__name__})"
        )
    if index.dim() != 1 or index.numel() != size or not index.is_contiguous():
        raise ValueError(
            f"{name} must be a contiguous vector of {size} entries "
            f"(got shape {list(index.shape)}, stride {list(index.stride())})"
        )
    if index.dtype != col.dtype or index.dtype not in INDEX_DTYPES:
        raise TypeError(
            "rowptr, col and the transposed graph must be all int32 or all int64 "
            f"(got {index.dtype} for {name} and {col.dtype} for col)"
        )
    if index.device != q.device:
        raise ValueError(
            f"{name} must be on the device of q, {q.device}; move it with .to() "
            f"(got {index.device})"
        )
