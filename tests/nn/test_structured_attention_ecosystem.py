"""What surrounds a layer in other projects: in-place layers, transforms, exporters."""

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.testing import assert_close
from torch_geometric import EdgeIndex
from torch_geometric.nn import Sequential

from gsdm_pyg.nn import StructuredAttentionConv

EDGES = torch.tensor([[0, 1, 1, 2, 0, 3, 2, 3], [1, 0, 2, 1, 0, 3, 3, 1]])


def layer(backend: str = "auto", **options) -> StructuredAttentionConv:
    torch.manual_seed(0)
    return StructuredAttentionConv(3, 4, heads=2, backend=backend, **options)


def rows() -> Tensor:
    return torch.randn(5, 3, generator=torch.Generator().manual_seed(1))


def weights(conv: nn.Module) -> dict[str, Tensor]:
    return {name: x.detach() for name, x in conv.named_parameters()}


@pytest.mark.parametrize(
    "activation",
    [torch.relu_, lambda x: F.elu(x, inplace=True), nn.ReLU(inplace=True)],
)
def test_an_activation_may_change_the_output_in_place(activation):
    def gradient(backend):
        x = rows().requires_grad_()
        conv = layer(backend, root_weight=False)
        activation(conv(x, EDGES)).square().sum().backward()
        return x.grad

    assert_close(gradient("auto"), gradient("scatter"))


def test_sequential_models_may_have_in_place_activations():
    def gradient(backend):
        conv, x = layer(backend, root_weight=False), rows().requires_grad_()
        steps = [(conv, "x, edge_index -> x"), nn.ReLU(inplace=True)]
        Sequential("x, edge_index", steps)(x, EDGES).square().sum().backward()
        return x.grad

    assert_close(gradient("auto"), gradient("scatter"))


@pytest.mark.parametrize("backend", ["auto", "fused"])
def test_torch_func_differentiates_and_maps_the_layer(backend):
    def results(backend):
        conv = layer(backend)

        def call(parameters, x):
            return torch.func.functional_call(conv, parameters, (x, EDGES))

        def loss(parameters, x):
            return call(parameters, x).square().sum()

        two = torch.stack([rows(), 2 * rows()])
        return (
            torch.func.grad(loss)(weights(conv), rows()),
            torch.func.jacrev(call, 1)(weights(conv), rows()),
            torch.func.vmap(torch.func.grad(loss, 1), (None, 0))(weights(conv), two),
        )

    assert_close(results(backend), results("scatter"))


def test_many_gradients_at_once_are_those_of_one_at_a_time():
    x = rows().requires_grad_()
    out, many = layer()(x, EDGES), torch.randn(3, 5, 8)
    (at_once,) = torch.autograd.grad(out, x, many, True, is_grads_batched=True)
    one_at_a_time = [torch.autograd.grad(out, x, one, True)[0] for one in many]
    assert_close(at_once, torch.stack(one_at_a_time))


def test_forward_mode_and_second_derivatives_are_those_of_the_scatter_backend():
    def results(backend):
        x, conv = rows().requires_grad_(), layer(backend)
        (first,) = torch.autograd.grad(conv(x, EDGES).sin().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(rows(), torch.ones(5, 3))
            return second, forward_ad.unpack_dual(conv(dual, EDGES)).tangent

    assert_close(results("auto"), results("scatter"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_exported_layers_have_plain_operators_only():
    conv = layer().eval()
    exported = torch.export.export(conv, (rows(), EDGES))
    assert "gsdm_pyg" not in exported.graph_module.code
    assert_close(exported.module()(rows(), EDGES), conv(rows(), EDGES))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_layers_export_to_onnx(tmp_path):
    pytest.importorskip("onnxscript")
    program = torch.onnx.export(layer().eval(), (rows(), EDGES), dynamo=True)
    assert {node.domain for node in program.model.graph} <= {"", "pkg.onnxscript"}


@pytest.mark.slow
def test_layers_compile_for_any_number_of_nodes():
    conv = layer()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for num_nodes in (5, 9):
        x = torch.randn(num_nodes, 3)
        assert_close(compiled(x, EDGES), conv(x, EDGES))


@pytest.mark.filterwarnings("ignore")
def test_tracing_is_rejected_with_what_works():
    with pytest.raises(RuntimeError, match=r"cannot record.*torch\.export.*scatter"):
        torch.jit.trace(layer(), (rows(), EDGES))
    traced = torch.jit.trace(layer("scatter"), (rows(), EDGES), check_trace=False)
    assert_close(traced(rows(), EDGES), layer()(rows(), EDGES))


@pytest.mark.parametrize("backend", ["auto", "scatter"])
@pytest.mark.parametrize("filled", [True, False])
@pytest.mark.parametrize("order", ["row", "col"])
def test_edges_of_inference_mode_can_train_afterwards(backend, filled, order):
    by_order = EDGES[:, EDGES[0 if order == "row" else 1].argsort(stable=True)]
    with torch.inference_mode():
        edges = EdgeIndex(by_order.clone(), sparse_size=(5, 5), sort_order=order)
        if filled:
            layer(backend)(rows(), edges)
    x, expected = rows().requires_grad_(), rows().requires_grad_()
    layer(backend)(x, edges).square().sum().backward()
    layer(backend)(expected, EDGES).square().sum().backward()
    assert_close(x.grad, expected.grad)


def test_caches_that_inference_mode_filled_can_train_afterwards():
    edges = EdgeIndex(EDGES, sparse_size=(5, 5)).sort_by("col")[0]
    with torch.inference_mode():
        expected = layer()(rows(), edges)
    x = rows().requires_grad_()
    out = layer()(x, edges)
    out.sum().backward()
    assert_close(out.detach(), expected.clone())


@pytest.mark.parametrize("backend", ["auto", "scatter"])
@pytest.mark.parametrize(
    ("convert", "message"),
    [
        (lambda x: torch.sparse_coo_tensor(*x), r"must be coalesced"),
        (lambda x: torch.sparse_coo_tensor(*x).to_sparse_csc(), r"got .*sparse_csc"),
    ],
)
def test_other_sparse_matrices_are_rejected_with_the_fix(backend, convert, message):
    adj = convert((EDGES.flip(0), torch.ones(EDGES.size(1)), (5, 5)))
    with pytest.raises(ValueError, match=message):
        layer(backend)(rows(), adj)


@pytest.mark.parametrize("backend", ["auto", "scatter"])
def test_meta_and_fake_tensors_give_shapes(backend):
    conv = layer(backend)
    out = conv.to("meta")(rows().to("meta"), EDGES.to("meta"))
    assert out.is_meta and out.shape == (5, 8)
    with FakeTensorMode() as mode:
        fake = layer(backend)(torch.ones(5, 3), mode.from_tensor(EDGES))
    assert fake.shape == (5, 8)


def test_edges_on_another_device_are_rejected():
    with pytest.raises(ValueError, match=r"device of x, cpu.*got meta"):
        layer("scatter")(rows(), EDGES.to("meta"))
