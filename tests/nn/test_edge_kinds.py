"""Attention that knows whether an edge leads to a parent, a child or a co-member."""

import pytest
import torch
from torch.testing import assert_close
from torch_geometric.data import Batch

from gsdm_pyg import (
    GSDM,
    Denoiser,
    GraphicalModel,
    Problem,
    ProblemBatches,
    Role,
    Size,
    StructuredAttentionConv,
    graph_of,
    to_data,
)
from gsdm_pyg.data import needs_edge_kinds, structure
from gsdm_pyg.graphical_model import EDGE_KINDS
from gsdm_pyg.settings import GraphOptions
from problems import BCMF, Sorting, StateSpace, Sudoku


class Chain(Problem):
    steps: Size

    def graphical_model(self):
        graph = GraphicalModel()
        x = graph.add_variable("x", (self.steps,))
        y = graph.add_variable("y", (self.steps,), role=Role.OBSERVED)
        graph.connect(x[:-1], x[1:])
        graph.connect(x, y)
        return graph

    def sample_batch(self, num, generator=None):
        x = torch.randn(num, self.steps, generator=generator).cumsum(1)
        return {"x": x, "y": x}


def test_kinds_say_what_the_source_is_to_the_destination():
    graph = GraphicalModel()
    a, b = graph.add_variable("a", (2,)), graph.add_variable("b", ())
    graph.connect(a[0], b)
    graph.factor(a)
    edges = graph.edge_index()
    kinds = [EDGE_KINDS[kind] for kind in graph.edge_kinds(edges.as_tensor())]
    found = dict(zip(map(tuple, edges.t().tolist()), kinds, strict=True))
    assert found == {
        (0, 0): "itself",
        (1, 1): "itself",
        (2, 2): "itself",
        (0, 1): "factor",
        (1, 0): "factor",
        (0, 2): "parent",
        (2, 0): "child",
    }


@pytest.mark.parametrize(
    ("problem", "untold"),
    [
        (Chain(steps=4), True),
        (StateSpace(steps=3), True),
        (BCMF(m=2, n=3, k=2), False),  # variables tell parents from children
        (Sorting(n=4), False),  # positions do
        (Sudoku(a=2, b=2), False),  # there is one kind only
    ],
    ids=str,
)
def test_kinds_are_learned_where_embeddings_do_not_tell_them(problem, untold):
    assert needs_edge_kinds(problem, GraphOptions()) == untold
    model = GSDM.from_problem(problem, width=8, layers=8)
    assert model.settings.edge_kinds == ("learned" if untold else "ignored")


def test_both_ways_of_batching_give_the_same_kinds():
    problems = Chain(steps=3), Chain(steps=5)
    graphs, masks = [], []
    for problem in problems:
        values = problem.sample(torch.Generator().manual_seed(0))
        masks = problem.observe()
        graphs.append(to_data(problem, values, masks))
    batch = Batch.from_data_list(graphs)
    shared = [structure(problem).edge_kind for problem in problems]
    assert torch.equal(batch.edge_kind, torch.cat(shared))
    drawn = ProblemBatches(problems[1], batch_size=2).batch(0)
    assert torch.equal(drawn.edge_kind, shared[1].repeat(2))


def output_of(denoiser, batch, x):
    t = torch.tensor([7])
    graph = batch.observed, batch.edge_index, batch.embedding
    return denoiser(x, t, *graph, edge_kind=batch.edge_kind)


@pytest.mark.parametrize("kinds", [False, True])
def test_only_kinds_of_edges_tell_a_chain_from_its_reversal(kinds):
    torch.manual_seed(0)
    problem = Chain(steps=5)
    batch = ProblemBatches(problem, batch_size=1).batch(0)
    denoiser = Denoiser(1, 2, width=16, layers=3, heads=2, edge_kinds=kinds).eval()
    for parameter in denoiser.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    node = graph_of(problem).node_ids
    reversal = torch.cat([node("x").flip(0), node("y").flip(0)])
    x = torch.randn(10, 1)
    forwards, backwards = (
        output_of(denoiser, batch, x),
        output_of(denoiser, batch, x[reversal]),
    )
    same = torch.allclose(forwards[reversal], backwards, atol=1e-4)
    assert same == (not kinds)


def test_a_denoiser_with_kinds_asks_for_them():
    batch = ProblemBatches(Chain(steps=2), batch_size=1).batch(0)
    denoiser = Denoiser(1, 2, width=8, layers=1, edge_kinds=True)
    graph = batch.observed, batch.edge_index, batch.embedding
    with pytest.raises(ValueError, match=r"needs the kind of each edge.*\(got None\)"):
        denoiser(batch.x, torch.tensor([3]), *graph)


@pytest.mark.parametrize("options", [{}, {"dropout": 0.0}, {"edge_dim": 3}])
def test_the_layers_bias_is_added_to_the_logits(options):
    torch.manual_seed(0)
    edge_index = torch.tensor([[0, 1, 2, 2, 0, 1], [1, 0, 0, 1, 2, 2]])
    x, bias = torch.randn(3, 5), torch.randn(6, 2, requires_grad=True)
    edge_attr = torch.randn(6, 3) if "edge_dim" in options else None
    results = {}
    for backend in ("fused", "scatter"):
        torch.manual_seed(1)
        conv = StructuredAttentionConv(5, 4, 2, backend=backend, **options)
        out = conv(x, edge_index, edge_attr, edge_bias=bias)
        (grad,) = torch.autograd.grad(out.square().sum(), bias)
        results[backend] = out, grad
    assert_close(results["fused"], results["scatter"], rtol=1e-4, atol=1e-5)
    plain = conv(x, edge_index, edge_attr)
    assert not torch.allclose(plain, results["scatter"][0])
    constant = conv(x, edge_index, edge_attr, edge_bias=torch.ones(6, 2))
    assert_close(constant, plain, rtol=1e-4, atol=1e-5)  # a softmax ignores it


def test_a_bias_of_the_wrong_shape_is_rejected():
    conv = StructuredAttentionConv(5, 4, 2)
    edge_index = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match=r"\[E, H\] = \[2, 2\] \(got \[2, 3\]\)"):
        conv(torch.randn(2, 5), edge_index, edge_bias=torch.zeros(2, 3))
