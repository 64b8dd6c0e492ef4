"""Named arrays -> PyG `Data` -> batches of graphs of many sizes."""

from gsdm_pyg.data.batches import ProblemBatches, to_batch
from gsdm_pyg.data.given import check_given
from gsdm_pyg.data.instances import (
    Instances,
    ProblemData,
    encode,
    needs_edge_kinds,
    structure,
    to_data,
)
from gsdm_pyg.data.simulations import with_simulations

__all__ = [
    "Instances",
    "ProblemBatches",
    "ProblemData",
    "check_given",
    "encode",
    "needs_edge_kinds",
    "structure",
    "to_batch",
    "to_data",
    "with_simulations",
]
