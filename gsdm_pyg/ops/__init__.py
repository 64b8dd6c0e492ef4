"""Attention over the edges of a graph, and a LayerNorm of nodes, with fused kernels."""

from gsdm_pyg.ops.attention import csr_attention, csr_self_attention
from gsdm_pyg.ops.csr import transpose_csr
from gsdm_pyg.ops.norm import node_norm

__all__ = ["csr_attention", "csr_self_attention", "node_norm", "transpose_csr"]
