"""Several projections stacked in one matrix, so that one product computes them all."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn.dense.linear import Linear, is_uninitialized_parameter

from gsdm_pyg.private_api import has_module_hooks


class PackedLinear(Linear):
    """PyG's `Linear`, lazy if in_channels is -1; a call may use only some rows of W."""

    def forward(self, x: Tensor, rows: slice | None = None) -> Tensor:
        if rows is None:
            return super().forward(x)
        bias = None if self.bias is None else self.bias[rows]
        return F.linear(x, self.weight[rows], bias)


def is_plain_product(layer: nn.Module) -> bool:
    """Whether a call is x W^T and nothing else, so that it need not be called."""
    unchanged = isinstance(layer, Linear) and type(layer).forward is Linear.forward
    unchanged = unchanged and "forward" not in vars(layer)
    return unchanged and layer.bias is None and not has_module_hooks(layer)


@torch.no_grad()
def copy_stacked(layer: Linear, *sources: Linear) -> None:
    """Copy the rows of several layers into one; a lazy layer has no weights to copy."""
    if is_uninitialized_parameter(sources[0].weight):
        return
    layer.weight.copy_(torch.cat([source.weight for source in sources]))
    if layer.bias is not None:
        layer.bias.copy_(torch.cat([source.bias for source in sources]))
