"""Several projections stacked in one matrix, so that one product computes them all."""

from __future__ import annotations

from typing import Any

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


def stack_projections(
    module: nn.Module, state_dict: dict[str, Tensor], prefix: str, *_: Any
) -> None:
    """Before weights are loaded: stack q, k and v if they are a `TransformerConv`'s.

    That layer has a skip projection even where it does not use it.
    """
    packed, skips = hasattr(module, "lin_qkv"), module.lin_skip is not None
    for kind in ("weight", "bias"):
        names = [f"{prefix}lin_{name}.{kind}" for name in ("query", "key", "value")]
        if not all(name in state_dict for name in names):
            continue
        q, k, v = (state_dict.pop(name) for name in names)
        if packed:
            state_dict[f"{prefix}lin_qkv.{kind}"] = _stack(q, k, v)
        else:
            state_dict[f"{prefix}lin_q.{kind}"] = q
            state_dict[f"{prefix}lin_kv.{kind}"] = _stack(k, v)
        if not skips:
            state_dict.pop(f"{prefix}lin_skip.{kind}", None)


def split_projections(state_dict: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of a layer, named as in a `TransformerConv`."""
    stacked = {"lin_qkv": ("query", "key", "value"), "lin_kv": ("key", "value")}
    stacked["lin_q"] = ("query",)
    split = {}
    for name, value in state_dict.items():
        layer, kind = name.rsplit(".", 1)
        parts = stacked.get(layer, ())
        lazy = is_uninitialized_parameter(value)
        rows = [value] * len(parts) if lazy else value.chunk(max(len(parts), 1))
        for part, row in zip(parts, rows, strict=False):
            split[f"lin_{part}.{kind}"] = row
        if not parts:
            split[name] = value
    return split


def _stack(*weights: Tensor) -> Tensor:
    """The rows of several weights; lazy ones have none."""
    lazy = is_uninitialized_parameter(weights[0])
    return weights[0] if lazy else torch.cat(weights)
