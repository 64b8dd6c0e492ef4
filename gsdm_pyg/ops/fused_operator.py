"""The operator `gsdm_pyg::csr_attention`: its registration with torch, its gradient.

Queries, keys and values are three tensors or one packed [N, 3, H, C]. Gradients have
the same form, so a packed projection gets its gradient as one tensor.
Compiled graphs contain the registered operator. Eager calls use the same functions
through a `torch.autograd.Function`, which costs a fifth of the dispatcher's time.
"""

from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs
from gsdm_pyg.ops.csr import transpose_csr

try:
    from gsdm_pyg.ops import cpu
except ImportError:  # Numba is missing
    cpu = None  # type: ignore[assignment]

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
# Where fused kernels run: torch device -> name of the backend.
FUSED_BACKENDS = {"cpu": "cpu"} if cpu is not None else {}
if torch.cuda.is_available() and find_spec("triton") is not None:
    FUSED_BACKENDS["cuda"] = "triton"


def available_backend(x: Tensor) -> str | None:
    """The name of the fused backend for tensors like x, if there is one."""
    return FUSED_BACKENDS.get(x.device.type) if x.dtype in DTYPES else None


def attention(inputs: AttentionInputs) -> Tensor:
    """The fused operator, differentiable; compiled graphs contain it as one node."""
    plain = type(inputs.qkv[0]) in (Tensor, torch.nn.Parameter)
    if torch.compiler.is_compiling() or not plain:
        return torch.ops.gsdm_pyg.csr_attention(*inputs.flatten())[0]
    if not torch.is_grad_enabled():
        return _forward(inputs)[0]
    bias, _, edge = inputs.terms
    return _EagerAttention.apply(inputs, bias, edge, *inputs.qkv)


def _kernels(device: torch.device) -> ModuleType:
    """The module whose `forward` and `backward` run on the device."""
    if device.type == "cpu":
        return cpu
    from gsdm_pyg.ops import triton_gpu

    return triton_gpu


def _with_contiguous_channels(inputs: AttentionInputs) -> AttentionInputs:
    """Copy those of q, k and v whose last dimension is not contiguous."""
    if all(x.stride(-1) == 1 for x in inputs.qkv):
        return inputs
    qkv = [x if x.stride(-1) == 1 else x.contiguous() for x in inputs.qkv]
    return inputs._replace(qkv=qkv)


def _forward(inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """The attention, and log2 of every softmax's denominator for the backward pass."""
    return _kernels(inputs.col.device).forward(_with_contiguous_channels(inputs))


def _backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, inputs: AttentionInputs
) -> list[Tensor]:
    """Gradients of q, k, v (packed as they were), then of bias and edge if given.

    That of `edge` has no rows unless `edge_grad`.
    """
    grad = grad if grad.stride(-1) == 1 else grad.contiguous()
    inputs = _with_contiguous_channels(inputs)
    if inputs.terms and not inputs.transpose:
        transpose = transpose_csr(inputs.rowptr, inputs.col, inputs.num_src)
        inputs = inputs._replace(transpose=transpose)
    return _kernels(grad.device).backward(grad, out, lse, edge_grad, inputs)


# Registration with torch. The operator's arguments are `AttentionInputs.flatten()`.

_INPUTS = "Tensor[] qkv, Tensor rowptr, Tensor col, Tensor[] transpose, "
_INPUTS += "Tensor? bias, Tensor? factor, Tensor? edge, float scale"


def _operator(*flat: Any) -> tuple[Tensor, Tensor]:
    return _forward(AttentionInputs.unflatten(*flat))


def _operator_backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, *flat: Any
) -> list[Tensor]:
    return _backward(grad, out, lse, edge_grad, AttentionInputs.unflatten(*flat))


def _fake_operator(*flat: Any) -> tuple[Tensor, Tensor]:
    """Tensors like those that `_operator` returns."""
    inputs = AttentionInputs.unflatten(*flat)
    q, rows = inputs.qkv[0], inputs.rowptr.size(0) - 1
    heads, channels = q.shape[-2:]
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    return q.new_empty(rows, heads, channels), q.new_empty((rows, heads), dtype=accum)


def _fake_operator_backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, *flat: Any
) -> list[Tensor]:
    """Tensors like those that `_operator_backward` returns."""
    inputs = AttentionInputs.unflatten(*flat)
    bias, _, edge = inputs.terms
    grads = [x.new_empty(x.shape) for x in inputs.qkv]
    if bias is not None:
        grads.append(bias.new_empty(bias.shape))
    if edge is not None:
        grads.append(edge.new_empty(edge.shape if edge_grad else (0, edge.shape[1])))
    return grads


def _save(ctx: Any, inputs: AttentionInputs, output: tuple[Tensor, Tensor]) -> None:
    """Keep for the backward pass what `_saved` returns."""
    _, rowptr, col, transpose, terms, scale = inputs
    ctx.save_for_backward(*output, rowptr, col, *terms, *transpose, *inputs.qkv)
    ctx.scale, ctx.num_transpose = scale, len(transpose)


def _saved(ctx: Any) -> tuple[Tensor, Tensor, AttentionInputs]:
    """out, lse and the inputs."""
    out, lse, rowptr, col, bias, factor, edge, *rest = ctx.saved_tensors
    transpose, qkv = rest[: ctx.num_transpose], rest[ctx.num_transpose :]
    flat = (qkv, rowptr, col, transpose, bias, factor, edge, ctx.scale)
    return out, lse, AttentionInputs.unflatten(*flat)


def _split_gradients(
    grads: list[Tensor], inputs: AttentionInputs, edge_grad: bool
) -> tuple[list[Tensor], Tensor | None, Tensor | None]:
    """(gradients of qkv, of the bias, of the edge features), None where missing."""
    dedge = grads.pop() if inputs.terms.edge is not None else None
    dbias = grads.pop() if inputs.terms.bias is not None else None
    return grads, dbias, dedge if edge_grad else None


def _setup_context(
    ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]
) -> None:
    _save(ctx, AttentionInputs.unflatten(*inputs), output)


def _operator_gradient(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
    edge_grad = ctx.needs_input_grad[6]
    out, lse, inputs = _saved(ctx)
    backward = torch.ops.gsdm_pyg.csr_attention_backward
    grads = backward(grad, out, lse, edge_grad, *inputs.flatten())
    grads, dbias, dedge = _split_gradients(grads, inputs, edge_grad)
    return grads, None, None, [None] * ctx.num_transpose, dbias, None, dedge, None


def _reject_second_derivative(ctx: Any, *grads: Tensor) -> None:
    raise NotImplementedError(
        "csr_attention's fused kernels have no second derivative; pass "
        'backend="reference" to differentiate twice'
    )


class _EagerAttention(torch.autograd.Function):
    """The operator and its gradient without the dispatcher.

    bias, edge and qkv are also arguments of their own: autograd does not look for
    tensors inside of `inputs`.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: AttentionInputs,
        bias: Tensor | None,
        edge: Tensor | None,
        *qkv: Tensor,
    ) -> Tensor:
        output = _forward(inputs)
        _save(ctx, inputs, output)
        return output[0]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        edge_grad = ctx.needs_input_grad[2]
        out, lse, inputs = _saved(ctx)
        grads = _backward(grad, out, lse, edge_grad, inputs)
        grads, dbias, dedge = _split_gradients(grads, inputs, edge_grad)
        return None, dbias, dedge, *grads


_library = torch.library.Library("gsdm_pyg", "DEF")
_library.define(f"csr_attention({_INPUTS}) -> (Tensor, Tensor)")
_library.define(
    "csr_attention_backward(Tensor grad, Tensor out, Tensor lse, bool edge_grad, "
    f"{_INPUTS}) -> Tensor[]"
)
for _key in ("CPU", "CUDA"):
    _library.impl("csr_attention", _operator, _key)
    _library.impl("csr_attention_backward", _operator_backward, _key)
torch.library.register_fake("gsdm_pyg::csr_attention", _fake_operator, lib=_library)
torch.library.register_fake(
    "gsdm_pyg::csr_attention_backward", _fake_operator_backward, lib=_library
)
torch.library.register_autograd(
    "gsdm_pyg::csr_attention",
    _operator_gradient,
    setup_context=_setup_context,
    lib=_library,
)
torch.library.register_autograd(
    "gsdm_pyg::csr_attention_backward", _reject_second_derivative, lib=_library
)
