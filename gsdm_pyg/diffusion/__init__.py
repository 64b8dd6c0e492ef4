"""The diffusion (section 2): noise, denoising, loss and sampling."""

from gsdm_pyg.diffusion.diffusion import GraphDiffusion

__all__ = ["GraphDiffusion"]
