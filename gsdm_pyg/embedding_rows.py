"""What distinguishes the nodes of a graph, as it travels from data to denoiser."""

from __future__ import annotations

from typing import TypedDict

from torch import Tensor


class EmbeddingRows(TypedDict):
    """Which embedding each node has: R rows, one for all exchangeable nodes of a graph.

    It travels as the attribute `embedding` of a PyG `Data` or `Batch`.
    """

    row_id: Tensor  # [N], the row of each node
    row_variable: Tensor  # [R], the variable of each row
    row_position: Tensor  # [R, P], its coordinates; zero beyond those it has
    row_graph: Tensor  # [R], the graph of each row
