"""Graphically structured diffusion models on PyTorch Geometric.

Public names are loaded on first use, so that `gsdm_pyg.nn` alone needs neither
diffusers nor matplotlib.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gsdm_pyg.baselines import Baseline
    from gsdm_pyg.checks import check_choice
    from gsdm_pyg.choices import Observe
    from gsdm_pyg.data import ProblemBatches, to_data
    from gsdm_pyg.diffusion import GraphDiffusion
    from gsdm_pyg.doctor import diagnose
    from gsdm_pyg.encoding import Arrays
    from gsdm_pyg.graphical_model import GraphicalModel
    from gsdm_pyg.model import GSDM
    from gsdm_pyg.nn import Denoiser, StructuredAttentionConv
    from gsdm_pyg.panels import Panel
    from gsdm_pyg.plotting import matrix_figure
    from gsdm_pyg.problem import Problem, ProblemFamily, graph_of
    from gsdm_pyg.programs import ProgramProblem, factor, let, observe, program, sample
    from gsdm_pyg.seeding import keyed_generator
    from gsdm_pyg.settings import GraphOptions, ModelSettings, SamplerSettings
    from gsdm_pyg.sizes import Size, Sizes
    from gsdm_pyg.variables import (
        Categorical,
        Continuous,
        Integer,
        Role,
        Simplex,
        Variable,
    )

__version__ = "0.1.0"

_PUBLIC = {  # module -> names, in the order of the data flow
    "checks": ["check_choice"],
    "choices": ["Observe"],
    "seeding": ["keyed_generator"],
    "sizes": ["Size", "Sizes"],
    "variables": [
        "Categorical",
        "Continuous",
        "Integer",
        "Role",
        "Simplex",
        "Variable",
    ],
    "encoding": ["Arrays"],
    "graphical_model": ["GraphicalModel"],
    "plotting": ["matrix_figure"],
    "panels": ["Panel"],
    "problem": ["Problem", "ProblemFamily", "graph_of"],
    "programs": ["ProgramProblem", "factor", "let", "observe", "program", "sample"],
    "doctor": ["diagnose"],
    "data": ["ProblemBatches", "to_data"],
    "nn": ["Denoiser", "StructuredAttentionConv"],
    "diffusion": ["GraphDiffusion"],
    "settings": ["GraphOptions", "ModelSettings", "SamplerSettings"],
    "model": ["GSDM"],
    "baselines": ["Baseline"],
}
_MODULE_OF = {name: module for module, names in _PUBLIC.items() for name in names}

__all__ = [  # noqa: RUF022, the order of the data flow
    "check_choice",
    "Observe",
    "keyed_generator",
    "Size",
    "Sizes",
    "Categorical",
    "Continuous",
    "Integer",
    "Role",
    "Simplex",
    "Variable",
    "Arrays",
    "GraphicalModel",
    "matrix_figure",
    "Panel",
    "Problem",
    "ProblemFamily",
    "graph_of",
    "ProgramProblem",
    "factor",
    "let",
    "observe",
    "program",
    "sample",
    "diagnose",
    "ProblemBatches",
    "to_data",
    "Denoiser",
    "StructuredAttentionConv",
    "GraphDiffusion",
    "GraphOptions",
    "ModelSettings",
    "SamplerSettings",
    "GSDM",
    "Baseline",
]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return import_module(f"gsdm_pyg.{name}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'gsdm_pyg' has no attribute {name!r}")
    value = getattr(import_module(f"gsdm_pyg.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
