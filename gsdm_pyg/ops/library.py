"""The operator `gsdm_pyg::csr_attention`: its registration with torch, its gradient.

Queries, keys and values come either as three tensors or as one packed [N, 3, H, C];
gradients come back likewise, so a packed projection gets its gradient in one piece.
Compiled graphs contain the registered operator. Eager calls take the same functions
through a `torch.autograd.Function`, which costs a fifth of the dispatcher's time.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from gsdm_pyg.ops.csr import transpose_csr

try:
    from gsdm_pyg.ops import cpu
except ImportError:  # Numba is missing
    cpu = None  # type: ignore[assignment]

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Where fused kernels run: torch device -> name of the implementation.
FUSED = {"cpu": "cpu"} if cpu is not None else {}
if torch.cuda.is_available() and find_spec("triton") is not None:
    FUSED["cuda"] = "triton"


def kernels(device: torch.device) -> ModuleType:
    """The module whose `forward` and `backward` run on the device."""
    if device.type == "cpu":
        return cpu
    from gsdm_pyg.ops import triton_gpu

    return triton_gpu


def rowwise(x: Tensor) -> Tensor:
    """x itself if its channels lie side by side, else a copy."""
    return x if x.stride(-1) == 1 else x.contiguous()


def forward(
    qkv: Sequence[Tensor],
    rowptr: Tensor,
    col: Tensor,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The attention, and log2 of every softmax's denominator for the backward pass."""
    qkv = [rowwise(x) for x in qkv]
    return kernels(qkv[0].device).forward(qkv, (rowptr, col), bias, scale)


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    rowptr: Tensor,
    col: Tensor,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    scale: float,
) -> list[Tensor]:
    """Gradients of q, k, v (packed as they were), then of the bias if there is one."""
    if bias is not None and not transpose:
        transpose = transpose_csr(rowptr, col, qkv[-1].size(0))
    qkv, grad, graph = [rowwise(x) for x in qkv], rowwise(grad), (rowptr, col)
    module = kernels(grad.device)
    return module.backward(grad, qkv, out, lse, graph, transpose, bias, scale)


def forward_fake(qkv, rowptr, col, transpose, bias, scale):
    """Tensors like those that `forward` returns."""
    q = qkv[0]
    heads, channels = q.shape[-2:]
    rows = rowptr.size(0) - 1
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty(rows, heads, channels), q.new_empty((rows, heads), dtype=accum)


def backward_fake(grad, qkv, out, lse, rowptr, col, transpose, bias, scale):
    """Tensors like those that `backward` returns."""
    inputs = [*qkv, bias] if bias is not None else qkv
    return [x.new_empty(x.shape) for x in inputs]


GRAPH = "Tensor rowptr, Tensor col, Tensor[] transpose, Tensor? bias, float scale"
library = torch.library.Library("gsdm_pyg", "DEF")
library.define(f"csr_attention(Tensor[] qkv, {GRAPH}) -> (Tensor, Tensor)")
library.define(
    "csr_attention_backward(Tensor grad, Tensor[] qkv, Tensor out, Tensor lse, "
    f"{GRAPH}) -> Tensor[]"
)
for key in ("CPU", "CUDA"):
    library.impl("csr_attention", forward, key)
    library.impl("csr_attention_backward", backward, key)
torch.library.register_fake("gsdm_pyg::csr_attention", forward_fake, lib=library)
torch.library.register_fake(
    "gsdm_pyg::csr_attention_backward", backward_fake, lib=library
)


def setup_context(ctx, inputs, output):
    qkv, rowptr, col, transpose, bias, scale = inputs
    ctx.save_for_backward(*output, rowptr, col, bias, *transpose, *qkv)
    ctx.scale, ctx.num_transpose = scale, len(transpose)


def operator_backward(ctx, grad, _):
    out, lse, rowptr, col, bias, *rest = ctx.saved_tensors
    transpose, qkv = rest[: ctx.num_transpose], rest[ctx.num_transpose :]
    grads = torch.ops.gsdm_pyg.csr_attention_backward(
        grad, qkv, out, lse, rowptr, col, transpose, bias, ctx.scale
    )
    dbias = grads.pop() if bias is not None else None
    return grads, None, None, [None] * ctx.num_transpose, dbias, None


def refuse_second_derivative(ctx, *grads):
    raise NotImplementedError(
        "csr_attention's fused kernels have no second derivative; pass "
        'backend="reference" to differentiate twice'
    )


torch.library.register_autograd(
    "gsdm_pyg::csr_attention",
    operator_backward,
    setup_context=setup_context,
    lib=library,
)
torch.library.register_autograd(
    "gsdm_pyg::csr_attention_backward", refuse_second_derivative, lib=library
)


class EagerAttention(torch.autograd.Function):
    """The operator and its gradient without the dispatcher."""

    @staticmethod
    def forward(ctx, rowptr, col, transpose, bias, scale, *qkv):
        out, lse = forward(qkv, rowptr, col, transpose, bias, scale)
        ctx.save_for_backward(out, lse, rowptr, col, bias, *transpose, *qkv)
        ctx.scale, ctx.num_transpose = scale, len(transpose)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        out, lse, rowptr, col, bias, *rest = ctx.saved_tensors
        transpose, qkv = rest[: ctx.num_transpose], rest[ctx.num_transpose :]
        grads = backward(grad, qkv, out, lse, rowptr, col, transpose, bias, ctx.scale)
        dbias = grads.pop() if bias is not None else None
        return None, None, None, dbias, None, *grads


def attention(
    qkv: Sequence[Tensor],
    rowptr: Tensor,
    col: Tensor,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    """The fused operator, differentiable; compiled graphs see it as one node."""
    plain = type(qkv[0]) in (Tensor, torch.nn.Parameter)
    if torch.compiler.is_compiling() or not plain:
        args = (list(qkv), rowptr, col, list(transpose), bias, scale)
        return torch.ops.gsdm_pyg.csr_attention(*args)[0]
    if not torch.is_grad_enabled():
        return forward(qkv, rowptr, col, transpose, bias, scale)[0]
    return EagerAttention.apply(rowptr, col, transpose, bias, scale, *qkv)
