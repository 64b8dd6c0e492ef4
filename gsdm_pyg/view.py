"""What a model sees of a problem: its edges, its intermediates, how nodes are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gsdm_pyg.checks import check_choice
from gsdm_pyg.graphical_model import Edges
from gsdm_pyg.variables import Role

Embedding = Literal["exchangeable", "array", "independent", "shared"]
Intermediates = Literal["keep", "drop", "unsupervised"]


@dataclass(frozen=True)
class GraphView:
    """The way in which a problem is shown to a model; other ways are ablations.

    Args:
        embedding: What tells the nodes of one variable apart (section 3.2).
            "exchangeable": the positions that the problem declares, so that nodes which
            agree in all of them are alike. "array": the index in the array.
            "independent": each node has a vector of its own, at one size only.
            "shared": nothing but the edges.
        edges: Who attends to whom, see `GraphicalModel.edge_index`.
        intermediates: "keep" trains them like latent variables. "drop" takes their
            nodes out, see `GraphicalModel.without_intermediates`. "unsupervised" leaves
            the nodes without values: their input is zero and they take no loss. With
            the last two, intermediates can neither be given nor sampled.
    """

    embedding: Embedding = "exchangeable"
    edges: Edges = "structured"
    intermediates: Intermediates = "keep"

    def __post_init__(self) -> None:
        check_choice("embedding", self.embedding, Embedding)
        check_choice("edges", self.edges, Edges)
        check_choice("intermediates", self.intermediates, Intermediates)

    def silences(self, role: Role) -> bool:
        """Whether the nodes of variables of this role are there without a value."""
        return role is Role.INTERMEDIATE and self.intermediates == "unsupervised"
