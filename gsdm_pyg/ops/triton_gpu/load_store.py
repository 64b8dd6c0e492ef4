"""Loading and storing rows of tensors [N, H, C] in Triton kernels."""

import triton
import triton.language as tl


@triton.jit
def load_row(
    x, row, head, row_stride, head_stride, C: tl.constexpr, BLOCK_C: tl.constexpr
):
    """The channels of one head of one row, [BLOCK_C]."""
    channel = tl.arange(0, BLOCK_C)
    return tl.load(
        x + row * row_stride + head * head_stride + channel, channel < C, other=0.0
    )


@triton.jit
def load_rows(
    x,
    rows,
    head,
    valid,
    row_stride,
    head_stride,
    C: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    """The channels of one head of several rows, [BLOCK_E, BLOCK_C]."""
    channel = tl.arange(0, BLOCK_C)[None, :]
    address = x + rows[:, None] * row_stride + head * head_stride + channel
    return tl.load(address, valid[:, None] & (channel < C), other=0.0)


@triton.jit
def store_row(
    x, value, row, head, row_stride, head_stride, C: tl.constexpr, BLOCK_C: tl.constexpr
):
    channel = tl.arange(0, BLOCK_C)
    address = x + row * row_stride + head * head_stride + channel
    tl.store(address, value.to(x.dtype.element_ty), channel < C)
