"""Projections that share one matrix, so that one product computes them all."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter


class PackedLinear(Linear):
    """PyG's `Linear`, lazy if in_channels is -1; a call may ask for some rows only."""

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        if rows is None:
            return super().forward(x)
        bias = None if self.bias is None else self.bias[rows]
        return F.linear(x, self.weight[rows], bias)


def only_multiplies(layer: nn.Module) -> bool:
    """Whether a call is a product with `weight` and nothing else, and can be spared."""
    hooks = layer._forward_hooks or layer._forward_pre_hooks
    hooks = hooks or layer._backward_hooks or layer._backward_pre_hooks
    usual = isinstance(layer, Linear) and type(layer).forward is Linear.forward
    usual = usual and "forward" not in vars(layer)
    return usual and layer.bias is None and not hooks


@torch.no_grad()
def copy_stacked(layer: Linear, *parts: Linear) -> None:
    """Stack the rows of several layers in one; lazy ones have nothing to copy yet."""
    if is_uninitialized_parameter(parts[0].weight):
        return
    layer.weight.copy_(torch.cat([part.weight for part in parts]))
    if layer.bias is not None:
        layer.bias.copy_(torch.cat([part.bias for part in parts]))
