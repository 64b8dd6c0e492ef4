"""Random attention: the CPU kernels compute what the reference in plain torch computes.

Three claims: ordinary numbers agree with the reference in double precision and with the
dense softmax; NaN and infinity in the inputs spread to the same entries as in the
reference; where numbers overflow on the way, the output is finite in the same entries.
A gradient has another formula than autograd's. It is finite in the same entries if the
output is finite; if not, it is not finite wherever the reference is not. After an
overflow, which depends on the order of a sum, gradients are not compared.
"""

from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from attention_oracle import (
    Graph,
    dense_attention,
    disjoint_union,
    gradients,
    graph,
    graphs,
    star,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from gsdm_pyg.ops import csr_attention, csr_self_attention
from gsdm_pyg.ops.cpu.component_kernels import MIN_DEGREE, MIN_ITEMS
from gsdm_pyg.ops.cpu.work_items import EDGES_PER_ITEM

pytestmark = pytest.mark.slow

ALL_TERMS = ("bias", "factor", "edge")
FEATURES = 3
# Channels, dtype and terms per edge; each combination compiles kernels of its own.
KINDS = [
    (5, torch.float64, ()),
    (5, torch.float64, ALL_TERMS),
    (16, torch.float32, ()),
    (16, torch.float32, ("bias",)),
    (8, torch.bfloat16, ()),
    (8, torch.bfloat16, ALL_TERMS),
    (3, torch.float16, ("factor",)),
    (33, torch.float32, ("edge",)),
    (1, torch.float32, ()),
]
# Of the largest entry of a tensor. A gradient reads `out` after it was rounded.
TOLERANCE = {
    torch.float64: 1e-11,
    torch.float32: 2e-5,
    torch.bfloat16: 3e-2,
    torch.float16: 4e-3,
}
NOT_FINITE = [float("nan"), float("inf"), float("-inf")]
HUGE = 1.0  # stands for a number whose products overflow, whatever the dtype
FUZZ = settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


# Graphs


def clique(num_nodes: int) -> Graph:
    """All edges within a set of nodes, self-loops included."""
    nodes = range(num_nodes)
    return graph([(j, i) for i in nodes for j in nodes], num_nodes, num_nodes)


def one_sided_hub(num_edges: int, into: bool) -> Graph:
    """Node 1 of three has all edges, as their destination or as their source."""
    edges = [(i, 1) for i in range(num_edges)]
    if into:
        return graph(edges, num_edges, 3)
    return graph([(i, j) for j, i in edges], 3, num_edges)


@cache
def build(kind: str, *arguments: Any) -> Graph:
    """A graph from its description, which is short in the report of a failure."""
    if kind == "cliques":
        return disjoint_union([clique(size) for size in arguments])
    if kind == "edges":
        edges, num_src, num_dst = arguments
        return graph(list(edges), num_src, num_dst)
    return {"star": star, "one-sided hub": one_sided_hub}[kind](*arguments)


def description(on: Graph) -> tuple[Any, ...]:
    edges = zip(on.source.tolist(), on.destination.tolist(), strict=True)
    return "edges", tuple(edges), on.num_src, on.num_dst


SYMMETRIC = st.one_of(
    graphs(symmetric=True).map(description),
    st.integers(0, 4).map(lambda size: ("edges", (), size, size)),
    st.tuples(st.just("star"), st.sampled_from([511, 512, 513, 1_030])),
    st.integers(16, 20).map(lambda number: ("cliques", *[8] * number)),
    st.sampled_from([(8, 9, 10, 11) * 4, (1, 8, 17) * 11]).map(
        lambda sizes: ("cliques", *sizes)
    ),
)
DIRECTED = st.one_of(
    graphs(symmetric=False).map(description),
    st.tuples(
        st.just("one-sided hub"), st.sampled_from([512, 513, 1_500]), st.booleans()
    ),
)


# Cases


class Case(NamedTuple):
    """What is drawn; the numbers follow from the seed."""

    graph: tuple[Any, ...]  # see `build`
    symmetric: bool  # no transposed graph is given
    kind: tuple[int, torch.dtype, tuple[str, ...]]
    heads: int
    index: torch.dtype
    layout: str
    magnitudes: dict[str, float]  # of each tensor; 1 by default
    faults: list[tuple[str, float, float]]  # tensor, position from 0 to 1, its entry
    seed: int

    @property
    def on(self) -> Graph:
        return build(*self.graph)


@st.composite
def cases(draw: st.DrawFn, magnitudes: list[float], faults: list[float]) -> Case:
    """A case: some of its tensors have these magnitudes, and some hold faults."""
    symmetric = draw(st.booleans())
    kind = draw(st.sampled_from(KINDS))
    names = ["q", "k", "v", "grad", *kind[2]]
    sizes = st.dictionaries(
        st.sampled_from(names), st.sampled_from(magnitudes), max_size=2
    )
    entries = st.just([])
    if faults:
        entry = st.tuples(
            st.sampled_from(names), st.floats(0, 1), st.sampled_from(faults)
        )
        entries = st.lists(entry, min_size=1, max_size=3)
    return Case(
        draw(SYMMETRIC if symmetric else DIRECTED),
        symmetric,
        kind,
        draw(st.integers(1, 4)),
        draw(st.sampled_from([torch.int32, torch.int64])),
        draw(st.sampled_from(["contiguous", "packed", "mixed", "expanded"])),
        draw(sizes),
        draw(entries),
        draw(st.integers(0, 2**16)),
    )


def entry_of(fault: float, dtype: torch.dtype) -> float:
    """The entry that a fault stands for."""
    accum = torch.promote_types(dtype, torch.float32)
    return torch.finfo(accum).max ** 0.8 if fault == HUGE else fault


def numbers(case: Case) -> dict[str, Tensor]:
    """All tensors of a case, contiguous: q, k, v, grad, and the terms."""
    on, (channels, dtype, terms) = case.on, case.kind
    generator = torch.Generator().manual_seed(case.seed)
    num_edges = on.source.numel()
    width = channels + (FEATURES if "edge" in terms else 0)
    shapes = {
        "q": (on.num_dst, case.heads, width),
        "k": (on.num_src, case.heads, channels),
        "v": (on.num_src, case.heads, channels),
        "grad": (on.num_dst, case.heads, width),
        "bias": (num_edges, case.heads),
        "factor": (num_edges, case.heads),
        "edge": (num_edges, FEATURES),
    }
    tensors = {}
    for name, shape in shapes.items():
        if name in ("q", "k", "v", "grad", *terms):
            x = torch.randn(shape, dtype=torch.float64, generator=generator)
            x = x * case.magnitudes.get(name, 1.0)
            for fault, position, value in case.faults:
                if fault == name and x.numel():
                    place = round(position * (x.numel() - 1))
                    x.view(-1)[place] = entry_of(value, dtype)
            tensors[name] = x.to(dtype)
    return tensors


def arranged(case: Case, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """q, k and v in the memory layout of the case."""
    q, k, v = (tensors[name] for name in "qkv")
    if case.layout == "mixed":
        q = q.transpose(0, 1).contiguous().transpose(0, 1)  # heads first
        v = torch.cat([v, v, v], -1)[..., v.size(-1) : 2 * v.size(-1)]  # sliced
    elif case.layout == "expanded" and k.size(0):
        k = k[:1].expand_as(k)
        v = v[:, :1].expand_as(v)
    return {**tensors, "q": q, "k": k, "v": v}


class Results(NamedTuple):
    out: Tensor
    gradients: list[Tensor]  # of q, k, v, bias and edge


def leaves_of(tensors: dict[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: x.detach().to(dtype).requires_grad_(name not in ("grad", "factor"))
        for name, x in tensors.items()
    }


def attend(
    case: Case, tensors: dict[str, Tensor], backend: str, dtype: torch.dtype
) -> Results:
    """The attention of a case and its gradients, in the given dtype."""
    given = leaves_of(tensors, dtype)
    csr, transpose = case.on.csr(case.index), None
    if not case.symmetric:
        transpose = case.on.transpose(case.index)
    terms = {name: given[name] for name in ALL_TERMS if name in given}
    scale = 0.5
    if case.layout == "packed" and case.symmetric and "edge" not in terms:
        qkv = torch.stack([given[name].detach() for name in "qkv"], 1).requires_grad_()
        out = csr_self_attention(
            qkv, *csr, transpose, scale=scale, backend=backend, **terms
        )
        (dqkv, *others) = gradients(out, given["grad"], qkv, given.get("bias"))
        return Results(out.detach(), [*dqkv.unbind(1), *others])
    q, k, v = (given[name] for name in "qkv")
    out = csr_attention(q, k, v, *csr, transpose, scale=scale, backend=backend, **terms)
    inputs = (q, k, v, given.get("bias"), given.get("edge"))
    return Results(out.detach(), gradients(out, given["grad"], *inputs))


def dense(case: Case, tensors: dict[str, Tensor]) -> Results:
    """The same in double precision, as a masked softmax over all edges."""
    given = leaves_of(tensors, torch.float64)
    q, k, v = (given[name] for name in "qkv")
    bias, factor, edge = (given.get(name) for name in ALL_TERMS)
    out = dense_attention(q, k, v, case.on, bias, 0.5, factor, edge)
    return Results(out.detach(), gradients(out, given["grad"], q, k, v, bias, edge))


# Comparisons


def named(results: Results, case: Case) -> list[tuple[str, Tensor]]:
    terms = [name for name in ("bias", "edge") if name in case.kind[2]]
    inputs = ["q", "k", "v", *terms]
    grads = zip(inputs, results.gradients, strict=True)
    return [("out", results.out), *((f"gradient of {x}", y) for x, y in grads)]


def natural_scales(tensors: dict[str, Tensor]) -> dict[str, float]:
    """The size of one edge's share of each result: rounding is relative to it."""
    size = {
        name: x.double().abs().max().item() if x.numel() else 0.0
        for name, x in tensors.items()
    }
    edge, factor = size.get("edge", 0.0), size.get("factor", 1.0)
    value, key = max(size["v"], edge), max(size["k"], edge)
    weight = size["grad"] * value * factor
    return {
        "out": value * factor,
        "gradient of q": weight * key,
        "gradient of k": weight * size["q"],
        "gradient of v": size["grad"] * factor,
        "gradient of bias": weight,
        "gradient of edge": weight * size["q"] + size["grad"] * factor,
    }


def assert_near(
    ours: Results, theirs: Results, case: Case, tensors: dict[str, Tensor]
) -> None:
    """Equal up to rounding, relative to the largest entry and to an edge's share."""
    tolerance, scales = TOLERANCE[case.kind[1]], natural_scales(tensors)
    pairs = zip(named(ours, case), named(theirs, case), strict=True)
    for (name, x), (_, y) in pairs:
        if not y.numel():
            continue
        error, largest = (x.double() - y).abs().max(), y.abs().max()
        smallest = torch.finfo(case.kind[1]).tiny
        allowed = tolerance * (largest + scales[name]) + smallest
        assert error <= allowed, f"{name}: error {error}, allowed {allowed}"


def assert_same_entries(name: str, label: str, found: Tensor, expected: Tensor) -> None:
    where = (found != expected).nonzero()
    assert not len(where), (
        f"{name}: {label} in {int(found.sum())} entries, in the reference in "
        f"{int(expected.sum())}; first difference at {where[0].tolist()}"
    )


def test_cases_are_of_the_kinds_that_they_are_drawn_for():
    cliques, hub = build("cliques", *[8] * 16), build("star", 513)
    assert cliques.csr()[0].diff().min() == MIN_DEGREE
    assert MIN_ITEMS == 2 * 16  # heads times components
    assert hub.csr()[0].diff().max() == 513 > EDGES_PER_ITEM


@FUZZ
@given(case=cases([1e-30, 1e-3, 1.0], []))
def test_kernels_match_the_reference_and_the_dense_softmax(case):
    tensors = arranged(case, numbers(case))
    ours = attend(case, tensors, "cpu", case.kind[1])
    assert_near(ours, attend(case, tensors, "reference", torch.float64), case, tensors)
    assert_near(ours, dense(case, tensors), case, tensors)


@FUZZ
@given(case=cases([1e-30, 0.0, 1.0], NOT_FINITE))
def test_nan_and_infinity_spread_as_in_the_reference(case):
    tensors, dtype = arranged(case, numbers(case)), case.kind[1]
    ours = attend(case, tensors, "cpu", dtype)
    theirs = attend(case, tensors, "reference", dtype)
    assert_same_entries("out", "NaN", ours.out.isnan(), theirs.out.isnan())
    for value in (torch.inf, -torch.inf):
        assert_same_entries("out", str(value), ours.out == value, theirs.out == value)
    pairs = zip(named(ours, case), named(theirs, case), strict=True)
    for (name, x), (_, y) in pairs:
        hidden = x.isfinite() & ~y.isfinite()
        assert_same_entries(name, "hidden faults", hidden, torch.zeros_like(hidden))
        if theirs.out.isfinite().all():
            assert_same_entries(name, "finite", x.isfinite(), y.isfinite())


@FUZZ
@given(case=cases([1e-30, 0.0, 1.0, 1e4], [*NOT_FINITE, HUGE]))
def test_output_is_finite_after_an_overflow_where_the_reference_is(case):
    tensors, dtype = arranged(case, numbers(case)), case.kind[1]
    ours = attend(case, tensors, "cpu", dtype).out
    theirs = attend(case, tensors, "reference", dtype).out
    assert_same_entries("out", "finite", ours.isfinite(), theirs.isfinite())
