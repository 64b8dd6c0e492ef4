"""The diffusion (section 2): noise, denoising, loss and sampling."""

from gsdm_pyg.diffusion.diffusion import GraphDiffusion
from gsdm_pyg.diffusion.solvers import default_sampler

__all__ = ["GraphDiffusion", "default_sampler"]
