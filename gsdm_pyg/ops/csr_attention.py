"""CSR attention."""

import math
from typing import Literal

import torch
from torch import Tensor

from gsdm_pyg.ops import cpu, reference

Transpose = tuple[Tensor, Tensor, Tensor]
Backend = Literal["auto", "reference", "cpu", "triton"]


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, qkv, rowptr, col, scale):
        q, k, v = qkv.unbind(1)
        out, lse = cpu.forward(q, k, v, rowptr, col, None, scale)
        ctx.save_for_backward(qkv, rowptr, col, out, lse)
        ctx.scale = scale
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        qkv, rowptr, col, out, lse = ctx.saved_tensors
        dqkv = torch.empty(qkv.shape, dtype=qkv.dtype)
        if grad.stride(-1) != 1:
            grad = grad.contiguous()
        cpu.backward(
            *qkv.unbind(1), rowptr, col, out, lse, grad, *dqkv.unbind(1), ctx.scale
        )
        return dqkv, None, None, None


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
) -> Tensor:
    """Attention over the incoming edges of every row."""
    scale = 1 / math.sqrt(q.size(-1)) if scale is None else scale
    return reference.csr_attention(q, k, v, rowptr, col, bias, scale)


def csr_self_attention(
    qkv: Tensor,
    rowptr: Tensor,
    col: Tensor,
    transpose: Transpose | None = None,
    bias: Tensor | None = None,
    scale: float | None = None,
    backend: Backend = "auto",
) -> Tensor:
    """Attention with queries, keys and values packed as [N, 3, H, C]."""
    scale = 1 / math.sqrt(qkv.size(-1)) if scale is None else scale
    if transpose is None and bias is None and backend in ("auto", "cpu"):
        return _SelfAttention.apply(qkv, rowptr, col, scale)
    q, k, v = qkv.unbind(1)
    return csr_attention(q, k, v, rowptr, col, transpose, bias, scale, backend)
