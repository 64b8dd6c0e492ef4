"""Methods that are trained, by the setting `method` of a model."""

from __future__ import annotations

from gsdm_pyg.baselines.regression import GraphRegression
from gsdm_pyg.baselines.vaeac import GraphVAEAC
from gsdm_pyg.choices import Backend, Method
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.diffusion.graph_model import GraphModel
from gsdm_pyg.problem_spec import ProblemSpec
from gsdm_pyg.settings import ModelSettings


def build(
    spec: ProblemSpec, settings: ModelSettings, backend: Backend = "auto"
) -> GraphModel:
    """A model with fresh weights of the method that the settings name."""
    methods: dict[Method, type[GraphDiffusion | GraphVAEAC]] = {
        "diffusion": GraphDiffusion,
        "regression": GraphRegression,
        "vaeac": GraphVAEAC,
    }
    return methods[settings.method](spec, settings, backend)
