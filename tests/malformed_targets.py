"""Valid calls of everything that reads tensors by address, to be made malformed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch_geometric import EdgeIndex

from gsdm_pyg.nn import StructuredAttentionConv
from gsdm_pyg.ops import csr_attention, csr_self_attention, node_norm, transpose_csr
from tests.ops.attention_oracle import Graph, disjoint_union, graph, star

HEADS, CHANNELS, FEATURES, WIDTH = 2, 8, 3, 16
TERMS = ("bias", "factor", "edge")
Values = dict[str, Any]  # arguments by name; "transpose[0]" is a part of one
Late = Callable[[Tensor], Any]  # output -> its gradient; called before the backward


class Target(NamedTuple):
    """A function, and how to make valid arguments of it."""

    name: str
    values: Callable[[], Values]
    call: Callable[..., Any]  # of the values, and of a `Late` if differentiable
    differentiable: bool = False  # and its backward pass is ours, not torch's
    reads_transpose: bool = True
    in_detail: bool = False  # whether arguments of other types and forms are tried
    options: frozenset[str] = frozenset()  # arguments that are not tensors


@cache
def _graphs() -> dict[str, Graph]:
    links = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 4)]
    both = links + [(j, i) for i, j in links] + [(i, i) for i in range(6)]
    clique = graph([(j, i) for i in range(10) for j in range(10)], 10, 10)
    return {
        "small": graph(both, 6, 6),
        "hub": star(600),  # more edges than a work item holds
        "components": disjoint_union([clique] * 20),  # gradients by components
        "complete": disjoint_union([graph_of_all_edges(200)]),  # dense attention
    }


def graph_of_all_edges(size: int) -> Graph:
    return graph([(j, i) for i in range(size) for j in range(size)], size, size)


def random(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).requires_grad_()


def differentiated(values: Values, out: Tensor, late: Late) -> list[Tensor]:
    """The output, then the gradients of all arguments that require one."""
    leaves = [x for x in values.values() if isinstance(x, Tensor) and x.requires_grad]
    result = out.detach().clone()
    grad = late(out)
    if not out.requires_grad:
        return [result]
    grads = torch.autograd.grad(out, leaves, grad, allow_unused=True)
    return [result, *(x for x in grads if x is not None)]


# csr_attention and csr_self_attention


def attention_values(
    on: str,
    terms: tuple[str, ...] = (),
    index: torch.dtype = torch.int64,
    symmetric: bool = False,
    channels: int = CHANNELS,
) -> Values:
    """Arguments of `csr_attention`."""
    chosen = _graphs()[on]
    rowptr, col = (x.clone() for x in chosen.csr(index))
    width = channels + (FEATURES if "edge" in terms else 0)
    values: Values = {"q": random(chosen.num_dst, HEADS, width)}
    values |= {name: random(chosen.num_src, HEADS, channels) for name in "kv"}
    shapes = {"bias": HEADS, "factor": HEADS, "edge": FEATURES}
    values |= {name: random(col.numel(), shapes[name]) for name in terms}
    if "factor" in values:
        values["factor"] = values["factor"].detach()
    values |= {"rowptr": rowptr, "col": col}
    if not symmetric:
        parts = enumerate(chosen.transpose(index))
        values |= {f"transpose[{n}]": part for n, part in parts}
    return values


def packed_values(on: str) -> Values:
    """Arguments of `csr_self_attention`."""
    values = attention_values(on, symmetric=True)
    qkv = torch.stack([values.pop(name).detach() for name in "qkv"], 1)
    return {"qkv": qkv.requires_grad_(), **values}


def grouped(values: Values) -> Values:
    """The parts of the transposed graph as one argument."""
    parts = [x for name, x in values.items() if name.startswith("transpose[")]
    rest = {name: x for name, x in values.items() if "transpose[" not in name}
    return {"transpose": tuple(parts) or None, **rest}


def attention(values: Values, late: Late = torch.ones_like) -> list[Tensor]:
    function = csr_self_attention if "qkv" in values else csr_attention
    given = {"backend": "cpu", "scale": 0.5, **grouped(values)}
    return differentiated(values, function(**given), late)


def by_reference(values: Values, late: Late = torch.ones_like) -> list[Tensor]:
    return attention({"backend": "reference", **values}, late)


def without_gradients(values: Values) -> list[Tensor]:
    with torch.no_grad():
        return attention(values)


# The operators of torch


def operator_values(on: str, terms: tuple[str, ...] = ()) -> Values:
    values = attention_values(on, terms)
    return {name: x.detach() for name, x in values.items()}


def _operator_arguments(values: Values) -> Values:
    given = {"bias": None, "factor": None, "edge": None, "scale": 0.5, **values}
    qkv = [given.pop(name) for name in "qkv"]
    given = grouped(given)
    return {**given, "qkv": qkv, "transpose": list(given["transpose"])}


def operator(values: Values) -> list[Tensor]:
    return list(torch.ops.gsdm_pyg.csr_attention(**_operator_arguments(values)))


def backward_operator_values(on: str, terms: tuple[str, ...] = ()) -> Values:
    values = operator_values(on, terms)
    out, lse = operator(values)
    return {"grad": torch.ones_like(out), "out": out, "lse": lse, **values}


def backward_operator(values: Values) -> list[Tensor]:
    given = {"edge_grad": "edge" in values, **_operator_arguments(values)}
    return torch.ops.gsdm_pyg.csr_attention_backward(**given)


# node_norm and transpose_csr


def norm_values() -> Values:
    shapes = {"x": (7, WIDTH), "weight": (WIDTH,), "shift": (WIDTH,)}
    shapes["table"] = (3, WIDTH)
    values: Values = {name: random(*shape) for name, shape in shapes.items()}
    return {**values, "row_id": torch.tensor([0, 1, 2, 2, 1, 0, 0])}


def normalize(values: Values, late: Late = torch.ones_like) -> list[Tensor]:
    return differentiated(values, node_norm(**values), late)


def transpose_values() -> Values:
    values = attention_values("small")
    return {"rowptr": values["rowptr"], "col": values["col"], "num_src": 6}


# StructuredAttentionConv


def layer_values(on: str, form: str, edge_dim: int | None = None) -> Values:
    """Nodes, edges in parts, and edge features."""
    chosen = _graphs()[on]
    values: Values = {"x": random(chosen.num_src, 5)}
    if edge_dim is not None:
        values["edge_attr"] = random(chosen.source.numel(), edge_dim)
    if form == "CSR":
        rowptr, col = chosen.csr()
        return {**values, "rowptr": rowptr, "col": col}
    edges = {"source": chosen.source, "destination": chosen.destination}
    if "by row" in form:
        order = chosen.source.argsort(stable=True)
        edges = {name: x[order] for name, x in edges.items()}
    return {**values, **{name: x.clone() for name, x in edges.items()}}


def sorted_edges(values: Values, order: str) -> tuple[Tensor, Tensor]:
    source, destination = values["source"], values["destination"]
    perm = (source if order == "row" else destination).argsort(stable=True)
    return source[perm], destination[perm]


def edge_index(
    source: Tensor,
    destination: Tensor,
    order: str,
    size: int | None,
    undirected: bool = False,
) -> EdgeIndex:
    """An `EdgeIndex` that claims this order; PyG does not check the claim."""
    return EdgeIndex(
        torch.stack([source, destination]),
        sparse_size=(size, size),
        sort_order=order,
        is_undirected=undirected,
    )


def _edges(values: Values, form: str) -> Any:
    """The edges in one of the forms that a layer takes."""
    if form == "given":
        return values["edges"]
    size = len(values["x"])
    if form == "CSR":
        rowptr, col = values["rowptr"], values["col"]
        parts = rowptr, col, torch.ones(col.numel()), (size, size)
        return torch.sparse_csr_tensor(*parts, check_invariants=False)
    source, destination = values["source"], values["destination"]
    if form == "COO":
        pairs = torch.stack([destination, source])
        return torch.sparse_coo_tensor(
            pairs,
            torch.ones(len(source)),
            (size, size),
            is_coalesced=True,
            check_invariants=False,
        )
    if form.startswith("EdgeIndex"):
        order = "row" if "by row" in form else "col"
        known = size if ", sized" in form else None
        undirected = ", undirected" in form
        return edge_index(source, destination, order, known, undirected)
    return torch.stack([source, destination])


def convolve(
    values: Values,
    form: str,
    late: Late = torch.ones_like,
    backend: str = "auto",
) -> list[Tensor]:
    edge_attr = values.get("edge_attr")
    torch.manual_seed(0)
    edge_dim = FEATURES if "edge_attr" in values else None
    conv = StructuredAttentionConv(
        5, CHANNELS, HEADS, edge_dim=edge_dim, backend=backend
    )
    out = conv(values["x"], _edges(values, form), edge_attr)
    return differentiated(values, out, late)


def _layer_target(form: str, backend: str, edge_dim: int | None, on: str) -> Target:
    features = "" if edge_dim is None else ", features"
    name = f"layer, {backend}, {form}, {on}{features}"
    values = partial(layer_values, on, form, edge_dim)
    call = partial(convolve, form=form, backend=backend)
    return Target(name, values, call, in_detail=form == "tensor" and on == "small")


def _attention_target(
    on: str,
    terms: tuple[str, ...] = (),
    index: torch.dtype = torch.int64,
    symmetric: bool = False,
    channels: int = CHANNELS,
) -> Target:
    form = "symmetric" if symmetric else "transposed"
    name = f"csr_attention, {on}, {form}, {len(terms)} terms, {index}"
    values = partial(attention_values, on, terms, index, symmetric, channels)
    return Target(name, values, attention, differentiable=True)


_OPTIONS = frozenset({"scale", "backend", "transpose"})
_FORMS = [
    f"EdgeIndex by {order}{sized}{undirected}"
    for order in ("row", "col")
    for sized in ("", ", sized")
    for undirected in ("", ", undirected")
]
TARGETS = [
    _attention_target("small", TERMS, torch.int32)._replace(
        in_detail=True, options=_OPTIONS
    ),
    _attention_target("small", symmetric=True),
    _attention_target("hub", symmetric=True),
    _attention_target("hub", TERMS, torch.int32),
    _attention_target("components", index=torch.int32, symmetric=True),
    _attention_target("components")._replace(reads_transpose=False),
    _attention_target("components", TERMS, symmetric=True),
    _attention_target("complete", symmetric=True, channels=32),
    Target(
        "csr_self_attention, components",
        partial(packed_values, "components"),
        attention,
        differentiable=True,
        in_detail=True,
        options=_OPTIONS,
    ),
    Target(
        "csr_attention, reference",
        partial(attention_values, "small", TERMS),
        by_reference,
        reads_transpose=False,
    ),
    Target(
        "csr_attention, no_grad",
        partial(attention_values, "small", TERMS),
        without_gradients,
        reads_transpose=False,
    ),
    *(
        Target(f"{name}, {on}", partial(values, on), call, reads_transpose=False)
        for name, values, call in (
            ("operator", operator_values, operator),
            ("backward operator", backward_operator_values, backward_operator),
        )
        for on in ("hub", "components")
    ),
    Target(
        "operator, small, 3 terms",
        partial(operator_values, "small", TERMS),
        operator,
        in_detail=True,
        reads_transpose=False,
        options=frozenset({"scale"}),
    ),
    Target(
        "backward operator, small, 3 terms",
        partial(backward_operator_values, "small", TERMS),
        backward_operator,
        in_detail=True,
    ),
    Target(
        "node_norm",
        norm_values,
        normalize,
        differentiable=True,
        in_detail=True,
        options=frozenset({"eps"}),
    ),
    Target(
        "transpose_csr",
        transpose_values,
        lambda values: list(transpose_csr(**values)),
        in_detail=True,
        options=frozenset({"num_src"}),
    ),
    _layer_target("tensor", "auto", FEATURES, "small"),
    _layer_target("tensor", "scatter", FEATURES, "small"),
    _layer_target("tensor", "auto", None, "components"),
    *(_layer_target(form, "auto", None, "small") for form in (*_FORMS, "COO", "CSR")),
    *(_layer_target(form, "auto", FEATURES, "hub") for form in (*_FORMS[:2], "CSR")),
    *(_layer_target(form, "scatter", None, "small") for form in (*_FORMS[:2], "CSR")),
]
