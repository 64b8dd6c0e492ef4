"""The operator `gsdm_pyg::csr_attention`: its registration with torch, its gradient.

Queries, keys and values come either as three tensors or as one packed [N, 3, H, C];
gradients come back likewise, so a packed projection gets its gradient in one piece.
`terms` are the fields of `EdgeTerms`, here one by one, as operators take no tuples.
Compiled graphs contain the registered operator. Eager calls take the same functions
through a `torch.autograd.Function`, which costs a fifth of the dispatcher's time.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

import torch
from torch import Tensor

from gsdm_pyg.ops.csr import EdgeTerms, transpose_csr

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
    factor: Tensor | None,
    edge: Tensor | None,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The attention, and log2 of every softmax's denominator for the backward pass."""
    qkv, terms = [rowwise(x) for x in qkv], EdgeTerms(bias, factor, edge)
    return kernels(qkv[0].device).forward(qkv, (rowptr, col), terms, scale)


def backward(
    grad: Tensor,
    qkv: Sequence[Tensor],
    out: Tensor,
    lse: Tensor,
    rowptr: Tensor,
    col: Tensor,
    transpose: Sequence[Tensor],
    bias: Tensor | None,
    factor: Tensor | None,
    edge: Tensor | None,
    scale: float,
    edge_grad: bool,
) -> list[Tensor]:
    """Gradients of q, k, v (packed as they were), then of bias and edge where given.

    That of `edge` has no rows unless `edge_grad` says that it is wanted.
    """
    terms = EdgeTerms(bias, factor, edge)
    if terms and not transpose:
        transpose = transpose_csr(rowptr, col, qkv[-1].size(0))
    qkv, grad, graph = [rowwise(x) for x in qkv], rowwise(grad), (rowptr, col)
    module, rest = kernels(grad.device), (graph, transpose, terms, scale, edge_grad)
    return module.backward(grad, qkv, out, lse, *rest)


def forward_fake(qkv, rowptr, col, transpose, bias, factor, edge, scale):
    """Tensors like those that `forward` returns."""
    q = qkv[0]
    heads, channels = q.shape[-2:]
    rows = rowptr.size(0) - 1
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty(rows, heads, channels), q.new_empty((rows, heads), dtype=accum)


def backward_fake(
    grad, qkv, out, lse, rowptr, col, transpose, bias, factor, edge, scale, edge_grad
):
    """Tensors like those that `backward` returns."""
    grads = [x.new_empty(x.shape) for x in qkv]
    if bias is not None:
        grads.append(bias.new_empty(bias.shape))
    if edge is not None:
        grads.append(edge.new_empty(edge.shape if edge_grad else (0, edge.shape[1])))
    return grads


GRAPH = "Tensor rowptr, Tensor col, Tensor[] transpose, "
GRAPH += "Tensor? bias, Tensor? factor, Tensor? edge, float scale"
library = torch.library.Library("gsdm_pyg", "DEF")
library.define(f"csr_attention(Tensor[] qkv, {GRAPH}) -> (Tensor, Tensor)")
library.define(
    "csr_attention_backward(Tensor grad, Tensor[] qkv, Tensor out, Tensor lse, "
    f"{GRAPH}, bool edge_grad) -> Tensor[]"
)
for key in ("CPU", "CUDA"):
    library.impl("csr_attention", forward, key)
    library.impl("csr_attention_backward", backward, key)
torch.library.register_fake("gsdm_pyg::csr_attention", forward_fake, lib=library)
torch.library.register_fake(
    "gsdm_pyg::csr_attention_backward", backward_fake, lib=library
)


def setup_context(ctx, inputs, output):
    qkv, rowptr, col, transpose, bias, factor, edge, scale = inputs
    save(ctx, output, rowptr, col, transpose, (bias, factor, edge), scale, qkv)


def save(ctx, output, rowptr, col, transpose, terms, scale, qkv):
    """Keep for the backward pass what `saved_gradients` reads."""
    ctx.save_for_backward(*output, rowptr, col, *terms, *transpose, *qkv)
    ctx.scale, ctx.num_transpose = scale, len(transpose)


def saved_gradients(ctx, grad, function, edge_grad):
    """(gradients of qkv, of the bias, of the features of edges), by `function`."""
    out, lse, rowptr, col, *rest = ctx.saved_tensors
    terms, rest = EdgeTerms(*rest[:3]), rest[3:]
    transpose, qkv = rest[: ctx.num_transpose], rest[ctx.num_transpose :]
    graph = (rowptr, col, transpose)
    grads = function(grad, qkv, out, lse, *graph, *terms, ctx.scale, edge_grad)
    dedge = grads.pop() if terms.edge is not None else None
    dbias = grads.pop() if terms.bias is not None else None
    return grads, dbias, dedge if edge_grad else None


def operator_backward(ctx, grad, _):
    function = torch.ops.gsdm_pyg.csr_attention_backward
    grads, dbias, dedge = saved_gradients(ctx, grad, function, ctx.needs_input_grad[6])
    return grads, None, None, [None] * ctx.num_transpose, dbias, None, dedge, None


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
    def forward(ctx, rowptr, col, transpose, bias, factor, edge, scale, *qkv):
        terms = (bias, factor, edge)
        output = forward(qkv, rowptr, col, transpose, *terms, scale)
        save(ctx, output, rowptr, col, transpose, terms, scale, qkv)
        return output[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        edge_grad = ctx.needs_input_grad[5]
        grads, dbias, dedge = saved_gradients(ctx, grad, backward, edge_grad)
        return None, None, None, dbias, None, dedge, None, *grads


def attention(
    qkv: Sequence[Tensor],
    rowptr: Tensor,
    col: Tensor,
    transpose: Sequence[Tensor],
    terms: EdgeTerms,
    scale: float,
) -> Tensor:
    """The fused operator, differentiable; compiled graphs see it as one node."""
    plain = type(qkv[0]) in (Tensor, torch.nn.Parameter)
    if torch.compiler.is_compiling() or not plain:
        args = (list(qkv), rowptr, col, list(transpose), *terms, scale)
        return torch.ops.gsdm_pyg.csr_attention(*args)[0]
    if not torch.is_grad_enabled():
        return forward(qkv, rowptr, col, transpose, *terms, scale)[0]
    return EagerAttention.apply(rowptr, col, transpose, *terms, scale, *qkv)
