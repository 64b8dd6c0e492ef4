"""Rules for draws without a name: nodes of their own, which no variable holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from gsdm_pyg.programs.errors import error
from gsdm_pyg.programs.rows import Rows, identity, union
from gsdm_pyg.programs.rules.call import Call, broadcast, everything

AddNodes = Callable[[int], int]  # how many -> the number of the first

# Each element is a draw of its own, from the parameters at its place.
_EACH = {
    *("bernoulli", "binomial", "cauchy", "exponential", "geometric", "log_normal"),
    *("native_dropout", "normal", "poisson", "rand", "rand_like", "randint"),
    *("randint_like", "randn", "randn_like", "random", "uniform", "_standard_gamma"),
}
# The last axis is one draw, from a whole row of parameters.
_LAST_AXIS = {"randperm", "multinomial", "_sample_dirichlet"}
# Only with dropout.
_DROPOUT = {"_scaled_dot_product_flash_attention_for_cpu"}


def is_draw(call: Call, function: Any) -> bool:
    """Whether an operator draws random numbers."""
    if call.name in _DROPOUT:
        return bool(call["dropout_p"])
    tagged = torch.Tag.nondeterministic_seeded in function.tags
    return tagged or call.name in _EACH or call.name in _LAST_AXIS


def draw(call: Call, add_nodes: AddNodes) -> list[Rows]:
    """New nodes, and what the parameters of the draw depend on."""
    if call["generator"] is not None:
        raise error(
            "A draw inside of a program comes from torch's global generator: leave out "
            "generator=, or draw numbers that are the same in all instances before, "
            "outside of the program (got a generator of its own)."
        )
    out = call.outputs[0]
    same = all(x.shape == out.shape for x in call.outputs)
    if call.name in _EACH and same:
        parameters = [x for x in call.tensors() if x is not _ignored(call)]
        parts = [identity(add_nodes(out.numel()), out.numel())]
        parts += [broadcast(call.rows(x), x, out.shape) for x in parameters]
        return [union(parts)] * len(call.outputs)
    if call.name in _LAST_AXIS:
        return [_last_axis(call, add_nodes)]
    return [
        union([rows, _shared(x.numel(), node)])
        for node in [add_nodes(1)]
        for x, rows in zip(call.outputs, everything(call), strict=True)
    ]


def _last_axis(call: Call, add_nodes: AddNodes) -> Rows:
    out = call.outputs[0]
    lead = out.shape[:-1].numel() if call.name != "randperm" else 1
    owner = np.arange(lead).repeat(out.numel() // max(lead, 1))
    own = identity(add_nodes(out.numel()), out.numel())
    parts = [own]
    if not call["replacement"]:  # draws of one row exclude each other
        parts = [own.group(owner, lead).take(owner)]
    for x in call.tensors():
        each = np.arange(lead).repeat(x.numel() // max(lead, 1))
        parts.append(call.rows(x).group(each, lead).take(owner))
    return union(parts)


def _ignored(call: Call) -> Any:
    """The tensor whose values do not matter: draws replace them, or have its shape."""
    replaces = call.function.__name__.split(".")[0].endswith("_")
    return call["self"] if replaces or call.name.endswith("_like") else None


def _shared(count: int, node: int) -> Rows:
    element = np.arange(count)
    return Rows(count, element, np.full(count, node))
