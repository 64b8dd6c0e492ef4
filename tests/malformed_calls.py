"""Malformed calls of the attention functions: none may crash or compute other numbers.

The kernels read tensors by address, so a wrong index or a tensor without memory could
end the process. `tests/test_malformed_calls.py` therefore runs these calls in children:

    python -m tests.malformed_calls FIRST THREADS

makes the calls from number FIRST on, and prints one line "name: outcome" after each. A
call is a valid one, see `malformed_targets.py`, of which one argument is changed before
the forward pass or before the backward pass.
"""

from __future__ import annotations

import linecache
import math
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.testing import assert_close

import gsdm_pyg.ops
from tests.malformed_targets import (
    TARGETS,
    Target,
    attention,
    attention_values,
    convolve,
    edge_index,
    layer_values,
    sorted_edges,
)

MAX_SECONDS = 120  # of one call; compiling the kernels of its options included
MAX_BYTES = 32 * 2**30  # of address space
PACKAGE = Path(gsdm_pyg.ops.__file__).parents[1]
Change = Callable[[Any], Any]


class Call(NamedTuple):
    """A malformed call, and the valid one whose numbers it gives unless rejected."""

    name: str
    make: Callable[[], Any]
    twin: Callable[[], Any] | None = None  # None: any numbers are right
    ours: bool = False  # whether our own error must reject it


# Damage: changes a tensor in place, before the forward or the backward pass.


def _set(position: float, value: Callable[[Tensor], int], index: Tensor) -> None:
    index[round(position * (index.numel() - 1))] = value(index)


def _resize(num_bytes: Callable[[int], int], x: Tensor) -> None:
    x.untyped_storage().resize_(num_bytes(x.untyped_storage().nbytes()))


WRONG_NODES: dict[str, Callable[[Tensor], int]] = {
    "below 0": lambda index: -1,
    "after the last": lambda index: int(index.max()) + 1,
    "huge": lambda index: min(2**40, torch.iinfo(index.dtype).max),
    "lowest": lambda index: torch.iinfo(index.dtype).min,
}
PLACES = {"first": 0.0, "middle": 0.5, "last": 1.0}
NODES: dict[str, Change] = {
    f"{place} {label}": partial(_set, PLACES[place], value)
    for place, (label, value) in product(PLACES, WRONG_NODES.items())
}
POINTERS: dict[str, Change] = {
    "starts at 1": partial(_set, 0.0, lambda index: 1),
    "starts below 0": partial(_set, 0.0, lambda index: -1),
    "falls": partial(_set, 0.5, lambda index: int(index[-1])),
    "is negative": partial(_set, 0.5, lambda index: -7),
    "is int32 max": partial(_set, 0.5, lambda index: 2**31 - 1),
    "is int32 min": partial(_set, 0.5, lambda index: -(2**31)),
    "ends before the last edge": partial(_set, 1.0, lambda index: int(index[-1]) - 1),
    "ends after the last edge": partial(_set, 1.0, lambda index: int(index[-1]) + 1),
    "is zero": lambda index: index.zero_(),
    "is all edges": lambda index: index.fill_(int(index[-1])),
    "wraps around": lambda index: index[1:4].copy_(
        torch.tensor([2**31 - 1, -(2**31), -1])
    ),
}
MEMORY: dict[str, Change] = {
    "freed": partial(_resize, lambda size: 0),
    "shrunk": partial(_resize, lambda size: 4),
    "halved": partial(_resize, lambda size: size // 8 * 4),
}


LATE = {"falls", "is int32 max", "middle huge", "last lowest", "freed", "halved"}


def damages(argument: str) -> dict[str, Change]:
    """What can happen to the numbers and the memory of an argument."""
    if argument in ("source", "destination"):  # parts of the edges, with no memory
        return NODES
    if argument in ("rowptr", "transpose[0]"):
        return POINTERS | MEMORY
    nodes = ("col", "transpose[1]", "transpose[2]", "row_id")
    return NODES | MEMORY if argument in nodes else MEMORY


# Replacements: another object in place of a tensor.


def _fake(x: Tensor) -> Tensor:
    return FakeTensorMode().from_tensor(x)


REPLACEMENTS: dict[str, Change] = {
    "a list": lambda x: x.tolist(),
    "an array": lambda x: x.numpy(),
    "a string": lambda x: "x",
    "a number": lambda x: 3,
    "a list of tensors": lambda x: [x],
    "None": lambda x: None,
    "a row less": lambda x: x[:-1],
    "empty": lambda x: x[:0],
    "a scalar": lambda x: x.reshape(-1)[0],
    "2**40 rows": lambda x: x[:1].expand(2**40, *x.shape[1:]),
    "fake": _fake,
    "meta": lambda x: x.to("meta"),
    "sparse COO": lambda x: x.to_sparse(),
    "sparse CSR": lambda x: x.view(x.size(0), -1).to_sparse_csr(),
    "nested": lambda x: torch.nested.nested_tensor(list(x)),
    "jagged": lambda x: torch.nested.nested_tensor(list(x), layout=torch.jagged),
    "quantized": lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8),
    "mkldnn": lambda x: x.float().to_mkldnn(),
}
OPTIONS: dict[str, list[Any]] = {
    "scale": [math.nan, math.inf, -math.inf, 1e300, "x", 1j, [1.0], torch.ones(2)],
    "backend": ["gpu", "", None, 3, ["cpu"], "triton"],
    "transpose": [(), "abc", 3, True, torch.ones(3).long(), ((),) * 3],
    "eps": ["x", [1.0]],
    "num_src": [-1, 0, 1, 2**60, 2.5, "6", None],
}
# Valid in an odd form, or rejected: the numbers are those of a plain copy.
ODD: dict[str, Change] = {
    "zeros without memory": lambda x: torch._efficientzerotensor(
        x.shape, dtype=x.dtype
    ),
    "lazily negated": torch._neg_view,
    "expanded over rows": lambda x: x[:1].expand_as(x),
    "expanded over columns": lambda x: x[..., :1].expand_as(x),
    "overlapping": lambda x: x.flatten().as_strided(x.shape, (1,) * x.dim()),
    "with rows last": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "with an offset of one": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[
        1:
    ].view(x.shape),
    "a parameter": lambda x: torch.nn.Parameter(x, x.is_floating_point()),
    "float64": lambda x: x.double(),
    "float16": lambda x: x.half(),
    "int64": lambda x: x.long(),
    "a row more": lambda x: torch.cat([x, x[-1:]]),
    "a column less": lambda x: x[..., :-1],
    "a dimension more": lambda x: x[None],
    "bool": lambda x: x.bool(),
    "int16": lambda x: x.to(torch.int16),
    "uint64": lambda x: x.to(torch.uint64),
    "complex": lambda x: x.to(torch.complex64),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
}


def replaced(x: Any, change: Change) -> Any:
    """The changed argument; it requires a gradient if it did."""
    y = change(x.detach() if isinstance(x, Tensor) else x)
    if isinstance(y, Tensor) and y.is_floating_point() and y.is_leaf:
        y = y.requires_grad_(x.requires_grad)
    return y


def plain(x: Any) -> Any:
    """A contiguous copy with memory and sign of its own."""
    if not isinstance(x, Tensor):
        return x
    copy = torch.empty(x.shape, dtype=x.dtype).copy_(x.detach())
    return copy.requires_grad_(x.requires_grad)


# Calls


def target_calls(target: Target) -> Iterator[Call]:
    """The target with each of its arguments changed in turn."""

    def changed(argument: str, change: Change, copied: bool = False) -> Any:
        values = target.values()
        values[argument] = replaced(values[argument], change)
        if copied:
            values[argument] = plain(values[argument])
        return target.call(values)

    def damaged(argument: str, damage: Change) -> Any:
        values = target.values()
        copy = values[argument].detach().clone()
        damage(copy)
        copy.requires_grad_(values[argument].requires_grad)
        return target.call({**values, argument: copy})

    def damaged_late(argument: str, damage: Change) -> Any:
        values = target.values()

        def late(out: Tensor) -> Tensor:
            gradient = torch.ones_like(out)
            # `.data` has a version of its own, so autograd does not notice the change.
            damage((out if argument == "out" else values[argument]).data)
            return gradient

        return target.call(values, late)

    def valid() -> Any:
        return target.call(target.values())

    values = target.values()
    tensors = [name for name, x in values.items() if isinstance(x, Tensor)]
    for argument in tensors:
        ours = target.reads_transpose or "transpose" not in argument
        for label, damage in damages(argument).items():
            make = partial(damaged, argument, damage)
            yield Call(f"{target.name}, {argument} {label}", make, valid, ours)
            if target.differentiable and label in LATE:
                make = partial(damaged_late, argument, damage)
                what = f"{target.name}, before the backward, {argument} {label}"
                yield Call(what, make, valid, ours)
    if not target.in_detail:
        return
    for argument, (label, change) in product(tensors, REPLACEMENTS.items()):
        optional = argument in ("bias", "factor", "edge") and label == "None"
        shapes = label == "meta" and "operator" in target.name  # and no numbers
        if not optional and not shapes:
            make = partial(changed, argument, change)
            yield Call(f"{target.name}, {argument} is {label}", make, valid)
    for argument, (label, change) in product(tensors, ODD.items()):
        make = partial(changed, argument, change)
        twin = partial(changed, argument, change, True)
        yield Call(f"{target.name}, {argument} {label}", make, twin)
    for argument in (name for name in OPTIONS if name in target.options):
        for value in OPTIONS[argument]:

            def with_option(argument=argument, value=value) -> Any:
                return target.call({**target.values(), argument: value})

            yield Call(f"{target.name}, {argument} {value!r}", with_option, valid)
    if target.differentiable:
        for label, damage in MEMORY.items():
            make = partial(damaged_late, "out", damage)
            yield Call(f"{target.name}, output {label}", make, valid)
        for label, change in (REPLACEMENTS | ODD).items():

            def with_gradient(change=change, copied=False) -> Any:
                def late(out: Tensor) -> Any:
                    gradient = change(torch.ones_like(out))
                    return plain(gradient) if copied else gradient

                return target.call(target.values(), late)

            twin = partial(with_gradient, copied=True) if label in ODD else valid
            yield Call(f"{target.name}, gradient is {label}", with_gradient, twin)


def empty_side_calls() -> Iterator[Call]:
    """Edges although there are no sources, or no destinations."""
    for terms, side in product(((), ("bias",)), ("sources", "destinations")):

        def attend(terms=terms, side=side) -> Any:
            values = attention_values("small", terms)
            for name in "kv" if side == "sources" else "q":
                values[name] = values[name].detach()[:0].requires_grad_()
            pointer = "transpose[0]" if side == "sources" else "rowptr"
            return attention({**values, pointer: values[pointer][-1:]})

        name = f"csr_attention, {len(terms)} terms, edges without {side}"
        yield Call(name, attend, ours=True)
    for backend, side in product(("auto", "scatter"), (0, 1)):

        def convolve_pair(backend=backend, side=side) -> Any:
            values = layer_values("small", "tensor")
            sizes = (0, 6) if side == 0 else (6, 0)
            x = tuple(torch.randn(size, 5) for size in sizes)
            return convolve({**values, "x": x}, form="tensor", backend=backend)

        name = f"layer, {backend}, no {('sources', 'destinations')[side]}"
        yield Call(name, convolve_pair, ours=True)


def claim_calls() -> Iterator[Call]:
    """An `EdgeIndex` that is not what it claims, or that changes after its caches."""
    for on, order, backend in product(
        ("small", "components"), ("row", "col"), ("auto", "fused", "scatter")
    ):
        what = f"EdgeIndex by {order}, {on}, {backend}"

        def call(change, on=on, order=order, backend=backend, **claims) -> Any:
            values = layer_values(on, "tensor")
            source, destination = sorted_edges(values, order)
            size = len(values["x"])
            pairs = change(torch.stack([source, destination]))
            edges = edge_index(*pairs, order, size, **claims)
            return convolve({**values, "edges": edges}, "given", backend=backend)

        def stale(change, on=on, order=order, backend=backend) -> Any:
            values = layer_values(on, "tensor")
            edges = edge_index(
                *sorted_edges(values, order), order, len(values["x"])
            ).fill_cache_()
            change(edges)
            return convolve({**values, "edges": edges}, "given", backend=backend)

        reverse = partial(call, lambda pairs: pairs.flip(1))
        yield Call(f"{what}, not sorted", reverse, ours=backend != "scatter")
        half = partial(call, lambda x: x[:, : x.size(1) // 3], undirected=True)
        yield Call(f"{what}, not undirected", half)
        for label, change in {
            "memory": lambda edges: MEMORY["freed"](edges.as_tensor()),
            "source": lambda edges: NODES["middle huge"](edges.as_tensor()[0]),
            "destination": lambda edges: NODES["middle huge"](edges.as_tensor()[1]),
            "CSR pointer": lambda edges: POINTERS["is int32 max"](
                edges.get_csr()[0][0].data
            ),
            "CSC pointer": lambda edges: POINTERS["is int32 max"](
                edges.get_csc()[0][0].data
            ),
            "CSR nodes": lambda edges: NODES["middle huge"](edges.get_csr()[0][1].data),
            "CSC nodes": lambda edges: NODES["middle huge"](edges.get_csc()[0][1].data),
        }.items():
            if backend != "scatter":  # PyG's own code reads the caches
                call_stale = partial(stale, change)
                yield Call(f"{what}, {label} changed afterwards", call_stale)


def matrix_calls() -> Iterator[Call]:
    """Sparse matrices of another layout or size."""
    others: dict[str, Change] = {
        "CSC": lambda x: x.to_sparse_csc(),
        "BSR": lambda x: x.to_sparse_bsr((2, 2)),
        "BSC": lambda x: x.to_sparse_bsc((2, 2)),
        "dense": lambda x: x,
        "batched CSR": lambda x: torch.stack([x, x]).to_sparse_csr(),
        "too large CSR": lambda x: torch.block_diag(x, x).to_sparse_csr(),
        "wide CSR": lambda x: x.repeat(1, 2).to_sparse_csr(),
        "meta CSR": lambda x: x.to_sparse_csr().to("meta"),
        "meta COO": lambda x: x.to_sparse().to("meta"),
        "uncoalesced COO": lambda x: torch.sparse_coo_tensor(
            x.nonzero().T, torch.ones(int(x.sum())), x.shape
        ),
    }
    for (label, convert), backend in product(others.items(), ("auto", "scatter")):

        def call(convert=convert, backend=backend) -> Any:
            values, adj = layer_values("small", "tensor"), torch.zeros(6, 6)
            adj[values["destination"], values["source"]] = 1
            return convolve({**values, "edges": convert(adj)}, "given", backend=backend)

        yield Call(f"{label} matrix, {backend}", call, ours=True)


def transform_calls() -> Iterator[Call]:
    """Tensors that `torch.func` or forward-mode differentiation wraps."""
    terms = ("bias", "factor", "edge")

    def over(name: str, x: Tensor, backend: str = "auto") -> Tensor:
        values = {
            key: value.detach() if isinstance(value, Tensor) else value
            for key, value in attention_values("small", terms).items()
        }
        return attention({**values, name: x, "backend": backend})[0]

    def tangent(name: str, x: Tensor, backend: str = "auto") -> Tensor | None:
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            return forward_ad.unpack_dual(over(name, dual, backend)).tangent

    def mapped(name: str, x: Tensor, backend: str = "auto") -> Tensor:
        each = partial(over, name, backend=backend)
        return torch.func.vmap(each)(torch.stack([x, x]))[1]

    def functional(name: str, x: Tensor, backend: str = "auto") -> Tensor:
        return torch.func.functionalize(partial(over, name, backend=backend))(x)

    def slope(name: str, x: Tensor, backend: str = "auto") -> Tensor:
        return torch.func.grad(lambda x: over(name, x, backend).sum())(x)

    for name, transform, backend in product(
        ("q", "k", "v", "rowptr", "col", "bias", "factor", "edge"),
        (tangent, mapped, functional, slope),
        ("auto", "cpu"),
    ):
        index = name in ("rowptr", "col")
        if transform in (tangent, slope) and (index or name == "factor"):
            continue
        x = attention_values("small", terms)[name].detach()
        twin = partial(transform, name, x, "reference")
        if transform in (mapped, functional):
            twin = partial(over, name, x, "reference")
        call = partial(transform, name, x, backend)
        yield Call(f"csr_attention, {backend}, {transform.__name__} {name}", call, twin)


def all_calls() -> list[Call]:
    calls = [call for target in TARGETS for call in target_calls(target)]
    others = empty_side_calls, claim_calls, matrix_calls, transform_calls
    return calls + [call for make in others for call in make()]


# The child process


def outcome(call: Call) -> str:
    """ "returned", "wrong numbers", or an error's type and message in one line."""
    try:
        result = call.make()
    except Exception as error:
        kind = next(x for x in type(error).__mro__ if x.__module__ == "builtins")
        message = " ".join(str(error).split())
        return f"{kind.__name__}: {message}{' [ours]' if _raised_here(error) else ''}"
    try:
        if call.twin is not None:
            assert_close(result, call.twin(), equal_nan=True)
    except Exception as error:
        return "wrong numbers: " + " ".join(str(error).split())
    return "returned"


def _raised_here(error: BaseException) -> bool:
    """Whether a `raise` statement of the package itself raised the error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    path = trace.tb_frame.f_code.co_filename
    line = linecache.getline(path, trace.tb_lineno)
    return path.startswith(str(PACKAGE)) and line.strip().startswith("raise")


def main(first: int, threads: int) -> None:
    """Make the calls from number `first` on, and print the outcome of each."""
    torch.set_num_threads(threads)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    for call in all_calls()[first:]:
        signal.alarm(MAX_SECONDS)  # ends the process, which counts as a crash
        print(f"{call.name}: {outcome(call)}", flush=True)
    signal.alarm(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
