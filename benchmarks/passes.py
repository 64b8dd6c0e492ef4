"""One training pass of every implementation that the benchmarks compare.

"Compiled PyG" is `torch.compile(dynamic=True, fullgraph=True)` of the eager code: one
graph without breaks, and one compilation for graphs of all sizes. (Layers compile
once more below 4,097 nodes, where torch sums a bias's gradient in another way.)

Every operator gets the layout that its own layer has: ours and dense attention q, k and
v packed, [N, 3, H, C], PyG's three matrices [N, D]. H and C are constants of PyG's
module. As sizes of a tensor, dynamic=True would make them variables too, and the
compiled operator was up to 1.9 times as slow on one thread, slower than the layer.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import TransformerConv

from benchmarks.graphs import Workload
from benchmarks.measure import products
from gsdm_pyg.nn import StructuredAttentionConv

Attention = Callable[..., Tensor]  # packed [N, 3, H, C], or three [N, D] -> [N, H, C]


@dataclass
class TrainingPass:
    """Forward and backward: the output, and gradients of inputs and parameters."""

    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    grad: Tensor  # of the output
    parameters: Iterable[nn.Parameter] = ()

    def __call__(self) -> Tensor:
        for tensor in (*self.inputs, *self.parameters):
            tensor.grad = None
        out = self.function(*self.inputs)
        out.backward(self.grad)
        return out.detach()

    def results(self) -> tuple[Tensor, Tensor]:
        """The output, and the gradients of all inputs side by side."""
        out = self()
        return out, torch.cat([tensor.grad.flatten(1) for tensor in self.inputs], 1)


def check_agreement(passes: list[TrainingPass]) -> None:
    """Raise if outputs, or gradients of inputs, differ by more than rounding."""
    first, *others = [run.results() for run in passes]
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-3, atol=1e-4)


def compiled(function: Callable) -> Callable:
    """The function, compiled for graphs of all sizes."""
    return torch.compile(function, dynamic=True, fullgraph=True)


def pyg_attention(heads: int, channels: int) -> Attention:
    """`TransformerConv.propagate`: attention from q, k, v [N, D] and edges [2, E]."""
    conv = TransformerConv(heads * channels, channels, heads)

    def attention(q: Tensor, k: Tensor, v: Tensor, edge_index: Tensor) -> Tensor:
        shape = (-1, conv.heads, conv.out_channels)
        q, k, v = q.view(shape), k.view(shape), v.view(shape)
        return conv.propagate(edge_index, query=q, key=k, value=v, edge_attr=None)

    return attention


def attention_passes(
    work: Workload, packed: Iterable[Attention], separate: Iterable[Attention] = ()
) -> list[TrainingPass]:
    """A pass of each function, on the same random numbers.

    Args:
        work: The graph, and the heads on it.
        packed: Functions of q, k and v in one, [N, 3, H, C].
        separate: Functions of q, k and v, each [N, D].
    """
    shape = (work.heads, work.channels)
    qkv = torch.randn(work.num_nodes, 3, *shape)
    grad = torch.randn(work.num_nodes, *shape)
    parts = tuple(
        part.flatten(1).contiguous().requires_grad_() for part in qkv.unbind(1)
    )
    qkv.requires_grad_()
    return [
        *(TrainingPass(attention, (qkv,), grad) for attention in packed),
        *(TrainingPass(attention, parts, grad) for attention in separate),
    ]


def layers_of(conv: TransformerConv) -> dict[str, nn.Module]:
    """The layers that are compared, with the same weights."""
    return {
        "ours": StructuredAttentionConv.from_transformer_conv(conv),
        "PyG": conv,
        "compiled PyG": compiled(conv),
    }


def layer_passes(
    layers: dict[str, nn.Module],
    num_nodes: int,
    edges: dict[str, Tensor],
    edge_attr: Tensor | None = None,
) -> list[TrainingPass]:
    """A pass of each layer, on the same random numbers.

    Args:
        layers: From `layers_of`, or some of them.
        num_nodes: N, the rows of x.
        edges: For each of the layers its edges, [2, E].
        edge_attr: The features of the edges, [E, edge_dim].
    """
    conv = next(iter(layers.values()))
    x = torch.randn(num_nodes, conv.in_channels, requires_grad=True)
    grad = torch.randn(num_nodes, conv.heads * conv.out_channels)

    def forward(name: str) -> Callable[[Tensor], Tensor]:
        layer, edge_index = layers[name], edges[name]
        return lambda x: layer(x, edge_index, edge_attr)

    return [
        TrainingPass(forward(name), (x,), grad, list(layer.parameters()))
        for name, layer in layers.items()
    ]


def layer_floor(
    num_nodes: int, in_channels: int, width: int, edges: tuple[int, int] | None = None
) -> Callable[[], None]:
    """The matrix products of an attention layer: the time that it takes at least.

    They are x W' for q, k, v and the skip term in one, grad W and grad' x; and for edge
    features, which have no gradient, e W' and grad' e.

    Args:
        num_nodes: N, the rows of x.
        in_channels: The columns of x.
        width: D, the columns of each of q, k, v and the skip term.
        edges: Rows and columns of the edge features, if there are any.
    """
    nodes = products([(num_nodes, in_channels, 4 * width)])
    if edges is None:
        return nodes
    features = products([(*edges, width)], input_grad=False)

    def run() -> None:
        nodes()
        features()

    return run
