"""Graphically structured diffusion models on PyTorch Geometric."""

from gsdm_pyg.data import ProblemBatches, to_data
from gsdm_pyg.graphical_model import GraphicalModel
from gsdm_pyg.model import GSDM
from gsdm_pyg.nn import Denoiser, StructuredAttentionConv
from gsdm_pyg.problem import Problem, ProblemFamily
from gsdm_pyg.variables import Categorical, Continuous, Role, Variable
from gsdm_pyg.view import GraphView

__all__ = [
    "GSDM",
    "Categorical",
    "Continuous",
    "Denoiser",
    "GraphView",
    "GraphicalModel",
    "Problem",
    "ProblemBatches",
    "ProblemFamily",
    "Role",
    "StructuredAttentionConv",
    "Variable",
    "to_data",
]
