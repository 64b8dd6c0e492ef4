"""Tensors as kernels read them: by address, so their memory is checked first.

A tensor may have no memory (freed storage, a zero that autograd has not written out) or
hold its numbers without their sign (a lazy negation). A kernel that gets an address can
see neither.
"""

from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs
from gsdm_pyg.private_api import is_fake, is_functional, is_zero_tensor


def check_tensor(name: str, x: object) -> None:
    """Reject lists, arrays, None and the like, and nested tensors."""
    if not isinstance(x, Tensor) or x.is_nested:
        kind = "nested tensor" if isinstance(x, Tensor) else type(x).__name__
        raise TypeError(f"{name} must be a tensor (got {kind})")


def has_storage(x: Tensor) -> bool:
    """Whether x has a storage of its own: tensors inside of `torch.func` have none."""
    if is_functional(x):
        return False
    try:
        x.untyped_storage()
    except NotImplementedError:
        return False
    return True


def readable(name: str, x: Tensor) -> Tensor:
    """x with its numbers in memory and its last dimension contiguous."""
    if is_zero_tensor(x):
        x = x.clone()
    check_memory(name, x)
    if x.is_neg():
        x = x.resolve_neg()
    if x.dim() and x.stride()[-1] != 1:
        x = x.contiguous()
    return x


def readable_gradient(grad: Tensor) -> Tensor:
    """The gradient of real outputs, `readable`."""
    if is_fake(grad) or grad.is_meta:
        kind = "fake tensor" if is_fake(grad) else "meta tensor"
        raise ValueError(
            f"The gradient must hold numbers, as the output does (got a {kind})"
        )
    return readable("the gradient", grad)


def check_memory(name: str, x: Tensor) -> None:
    """Reject a tensor whose storage was freed or made too small."""
    last = x.storage_offset()
    for size, stride in zip(x.shape, x.stride(), strict=True):
        last += (size - 1) * stride
    size = x.untyped_storage().nbytes()
    if size < (last + 1) * x.element_size() and x.numel():
        raise ValueError(
            f"{name} must have memory for its entries: clone a tensor before its "
            f"storage is freed or resized (got a storage of {size} bytes for "
            f"{x.dtype} of shape {list(x.shape)})"
        )


def readable_inputs(inputs: AttentionInputs) -> AttentionInputs:
    """The inputs, each of them `readable`."""
    return inputs.map(readable)
