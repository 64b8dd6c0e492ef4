"""Layers of the denoiser, each usable on its own."""

from gsdm_pyg.nn.denoiser import Denoiser
from gsdm_pyg.nn.structured_attention import StructuredAttentionConv

__all__ = ["Denoiser", "StructuredAttentionConv"]
