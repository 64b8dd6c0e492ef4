"""Attention over the edges of a graph, in several implementations; norms of nodes."""

from gsdm_pyg.ops.csr import transpose_csr
from gsdm_pyg.ops.csr_attention import csr_attention, csr_self_attention
from gsdm_pyg.ops.node_norm import node_norm

__all__ = ["csr_attention", "csr_self_attention", "node_norm", "transpose_csr"]
