"""Graphs whose components are complete: dense attention, by matrix products.

The numbers are the same. Components of equal size that follow each other are one batch.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs, unpack_qkv
from gsdm_pyg.private_api import dense_attention, dense_attention_backward

LOG2_E = math.log2(math.e)
MIN_PRODUCT = 4096  # edges per node times channels: with fewer, the kernels are faster
MIN_EDGES = 32 * 1024  # per batch: a batch costs as much as about so many edges


class Batch(NamedTuple):
    """Components of one size, in consecutive rows."""

    first: int  # row
    size: int  # nodes of a component
    num_components: int

    def of(self, x: Tensor) -> Tensor:
        """Its rows of x [N, H, C], as [B, H, n, C]; of x [N, H], as [B, H, n]."""
        rows = x[self.first : self.first + self.size * self.num_components]
        return rows.unflatten(0, (self.num_components, self.size)).transpose(1, 2)


def may_be_complete(inputs: AttentionInputs) -> bool:
    """Whether it is worth looking: attention without terms, and many edges per node."""
    num_edges, num_dst = inputs.col.numel(), inputs.qkv[0].size(0)
    channels = inputs.qkv[-1].size(-1)
    many = num_dst > 0 and num_edges * channels >= MIN_PRODUCT * num_dst
    return many and num_dst == inputs.num_src and not inputs.terms


def is_trusted(lse: Tensor) -> bool:
    """Whether no logit was NaN or infinite: torch's gradients would hide it."""
    return bool(lse.isfinite().all())


def batches(starts: Sequence[int]) -> list[Batch]:
    """Batches of components that begin at `starts`, whose last entry is their end."""
    result: list[Batch] = []
    for first, end in itertools.pairwise(starts):
        size = end - first
        if result and result[-1].size == size:
            result[-1] = result[-1]._replace(
                num_components=result[-1].num_components + 1
            )
        else:
            result.append(Batch(first, size, 1))
    num_edges = sum(batch.num_components * batch.size**2 for batch in result)
    return result if num_edges >= MIN_EDGES * len(result) else []


def forward(inputs: AttentionInputs, parts: list[Batch]) -> tuple[Tensor, Tensor]:
    """As `launch.forward`."""
    q, k, v = unpack_qkv(inputs.qkv)
    outs, sums = [], []
    for part in parts:
        qkv = part.of(q), part.of(k), part.of(v)
        out, lse = dense_attention(*qkv, inputs.scale)
        outs.append(out.transpose(1, 2).flatten(0, 1))
        sums.append(lse.transpose(1, 2).flatten(0, 1))
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    return torch.cat(outs).contiguous(), torch.cat(sums).to(accum) * LOG2_E


def backward(
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    inputs: AttentionInputs,
    parts: list[Batch],
    grads: list[Tensor],
) -> list[Tensor]:
    """As `launch.backward`: fills in `grads`, the gradients of q, k and v."""
    named = (*unpack_qkv(inputs.qkv), grad, out, lse / LOG2_E)
    for part in parts:
        q, k, v, do, o, sums = (part.of(x) for x in named)
        slopes = dense_attention_backward(do, q, k, v, o, sums, inputs.scale)
        for target, slope in zip(unpack_qkv(grads), slopes, strict=True):
            part.of(target).copy_(slope)
    return grads
