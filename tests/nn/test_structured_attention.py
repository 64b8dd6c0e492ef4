"""The layer against dense masked attention, on graphs small enough to write down."""

import math
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.explain.algorithm.utils import set_masks

from gsdm_pyg import GSDM, ProblemBatches, StructuredAttentionConv
from gsdm_pyg.nn import fused_attention, structured_attention
from gsdm_pyg.ops import fused_operator
from problems import BCMF
from tests.helpers import STUCK

HEADS, CHANNELS = 2, 8

# number of nodes, undirected edges (self-loops included where they are wanted)
GRAPHS = {
    "path with loops": (4, [(0, 1), (1, 2), (2, 3), (0, 0), (1, 1), (2, 2), (3, 3)]),
    "star without loops": (6, [(0, v) for v in range(1, 6)]),
    "complete": (5, [(a, b) for a in range(5) for b in range(a, 5)]),
    "isolated nodes": (6, [(1, 2), (2, 2), (4, 4)]),
    "no edges": (3, []),
}


def edges_of(name, **arguments):
    """The graph as an `EdgeIndex` sorted by column."""
    num_nodes, links = GRAPHS[name]
    pairs = {(a, b) for a, b in links} | {(b, a) for a, b in links}
    pairs = sorted(pairs, key=lambda pair: (pair[1], pair[0]))
    return EdgeIndex(
        torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).t().contiguous(),
        sort_order="col",
        is_undirected=True,
        **{"sparse_size": (num_nodes, num_nodes), **arguments},
    )


def dense(conv, x, edge_index):
    """softmax(q k^T / sqrt(C)) v with everything except the edges masked."""
    source, target = torch.tensor(edge_index.tolist(), dtype=torch.long)
    mask = torch.zeros(len(x), len(x), dtype=torch.bool)
    mask[target, source] = True
    qkv = x @ conv.lin_qkv.weight.T + conv.lin_qkv.bias
    q, k, v = qkv.view(len(x), 3, conv.heads, conv.out_channels).unbind(1)
    logits = torch.einsum("ihc,jhc->hij", q, k) / math.sqrt(conv.out_channels)
    weight = logits.masked_fill(~mask, -torch.inf).softmax(-1)
    weight = weight.masked_fill(~mask.any(1)[:, None], 0)  # no edges
    return torch.einsum("hij,jhc->ihc", weight, v).flatten(1)


def layer(backend="auto", scale=1.0):
    """Attention alone, without the skip term."""
    conv = StructuredAttentionConv(
        5, CHANNELS, HEADS, root_weight=False, backend=backend
    )
    with torch.no_grad():
        for parameter in conv.parameters():
            parameter.normal_(std=scale)
    return conv


def results(conv, forward, x):
    """The output and the gradients of a random projection of it."""
    x = x.clone().requires_grad_()
    out = forward(x)
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out)
    return out, *torch.autograd.grad((out * weight).sum(), [x, *conv.parameters()])


@pytest.mark.parametrize("backend", ["scatter", "fused"])
@pytest.mark.parametrize("name", GRAPHS)
def test_attention_matches_dense_softmax(name, backend):
    conv, edge_index = layer(backend).double(), edges_of(name)
    x = torch.randn(GRAPHS[name][0], 5, dtype=torch.double)
    computed = results(conv, lambda x: conv(x, edge_index), x)
    expected = results(conv, lambda x: dense(conv, x, edge_index), x)
    for value, oracle in zip(computed, expected, strict=True):
        assert_close(value, oracle)


@pytest.mark.parametrize("backend", ["scatter", "fused"])
def test_attention_survives_large_logits(backend):
    conv, edge_index = layer(backend, scale=20.0), edges_of("complete")
    x = torch.randn(5, 5)
    out = conv(x, edge_index)
    assert out.isfinite().all()
    assert_close(out, dense(conv, x, edge_index), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("backend", ["scatter", "fused"])
def test_edges_point_from_source_to_target(backend):
    conv, x = layer(backend), torch.randn(2, 5)
    out = conv(x, torch.tensor([[0], [1]]))  # node 1 attends to node 0 alone
    value = conv.lin_qkv(x).view(2, 3, -1)[0, 2]
    assert_close(out[1], value)
    assert_close(out[0], torch.zeros_like(value))


@pytest.mark.parametrize("backend", ["scatter", "fused"])
def test_a_node_without_incoming_edges_gets_zeros(backend):
    out = layer(backend)(torch.randn(6, 5), edges_of("isolated nodes"))
    isolated = torch.tensor([True, False, False, True, False, True])
    assert (out[isolated] == 0).all()
    assert (out[~isolated] != 0).all()


def test_without_bias_and_skip_there_is_one_packed_matrix():
    conv = StructuredAttentionConv(5, CHANNELS, HEADS, bias=False, root_weight=False)
    shapes = {name: list(p.shape) for name, p in conv.named_parameters()}
    assert shapes == {"lin_qkv.weight": [3 * HEADS * CHANNELS, 5]}


def test_undirected_edges_sorted_by_column_are_not_copied(monkeypatch):
    calls = []
    fused = fused_attention.csr_self_attention

    def recorded(*arguments, **terms):
        calls.append(arguments)
        return fused(*arguments, **terms)

    monkeypatch.setattr(fused_attention, "csr_self_attention", recorded)
    edge_index = edges_of("path with loops")
    layer("auto")(torch.randn(4, 5), edge_index)
    ((qkv, rowptr, col, transpose),) = calls
    (colptr, row), _ = edge_index.get_csc()
    assert qkv.shape == (4, 3, HEADS, CHANNELS) and qkv.is_contiguous()
    assert rowptr is colptr and col.data_ptr() == row.data_ptr()
    assert transpose is None


def hook(conv, edge_index):
    conv.register_message_forward_hook(lambda conv, inputs, message: 2 * message)


def explainer(conv, edge_index):
    mask = torch.nn.Parameter(torch.full([edge_index.size(1)], 2.0))
    set_masks(conv, mask, edge_index, apply_sigmoid=False)


@pytest.mark.parametrize("doubling", [hook, explainer])
def test_hooks_and_explainers_see_messages(doubling):
    x, edge_index = torch.randn(4, 5), edges_of("path with loops")
    conv = layer("auto")
    before = conv(x, edge_index)
    doubling(conv, edge_index)
    assert_close(conv(x, edge_index), 2 * before, rtol=1e-4, atol=1e-5)
    conv.backend = "fused"
    with pytest.raises(ValueError, match=r"backend='fused' computes no messages.*got"):
        conv(x, edge_index)


def test_fused_rejects_returning_attention_weights():
    conv, x, edge_index = layer("fused"), torch.randn(4, 5), edges_of("path with loops")
    with pytest.raises(ValueError, match="got return_attention_weights=False"):
        conv(x, edge_index, return_attention_weights=False)


def test_auto_scatters_where_no_kernel_runs(monkeypatch):
    x, edge_index = torch.randn(4, 5), edges_of("path with loops")
    conv = layer("auto")
    expected = conv(x, edge_index)
    monkeypatch.setattr(fused_operator, "FUSED_BACKENDS", {})
    monkeypatch.setattr(structured_attention, "fused_attention", None)
    assert_close(conv(x, edge_index), expected, rtol=1e-4, atol=1e-5)
    conv.backend = "fused"
    with pytest.raises(ValueError, match=r"torch\.float32 on cpu.*no kernel"):
        conv(x, edge_index)


def test_reset_parameters_draws_new_weights():
    conv = StructuredAttentionConv(5, CHANNELS, HEADS)
    before = conv.lin_qkv.weight.clone()
    conv.reset_parameters()
    assert not torch.equal(conv.lin_qkv.weight, before)


def test_repr_names_channels_and_heads():
    text = repr(StructuredAttentionConv(5, 8, heads=2))
    assert text == "StructuredAttentionConv(5, 8, heads=2, backend='auto')"


def numbers():
    """A loss and its gradients through PyG's softmax and aggregation."""
    torch.manual_seed(0)
    problem = BCMF(m=3, n=4, k=2)
    model = GSDM.from_problem(problem, width=16, layers=2, heads=2, backend="scatter")
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    batch = ProblemBatches(problem, batch_size=2).batch(0)
    found = []
    for edge_index in (batch.edge_index, batch.edge_index.as_tensor()):
        batch.edge_index = edge_index
        loss = model.diffusion.loss(batch, torch.Generator().manual_seed(0))
        found += [loss, *torch.autograd.grad(loss, list(model.parameters()))]
    return [value.detach() for value in found]


WITHOUT = """
import sys
sys.modules["torch_scatter"] = None  # now importing it fails
sys.path[:0] = sys.argv[1:3]
import torch
import torch_geometric.typing
from test_structured_attention import numbers

assert not torch_geometric.typing.WITH_TORCH_SCATTER
torch.save(numbers(), sys.argv[3])
"""


@pytest.mark.slow
def test_numbers_are_the_same_without_torch_scatter(tmp_path):
    pytest.importorskip("torch_scatter")
    here, file = Path(__file__).parent, tmp_path / "numbers.pt"
    arguments = [str(here), str(here.parents[1]), str(file)]
    subprocess.run(
        [sys.executable, "-c", WITHOUT, *arguments], check=True, timeout=STUCK
    )
    for value, without in zip(numbers(), torch.load(file), strict=True):
        assert_close(value, without, rtol=1e-4, atol=1e-6)
