"""One operator, attention over the edges of a graph, in several implementations."""

from gsdm_pyg.ops.csr import transpose_csr
from gsdm_pyg.ops.csr_attention import csr_attention, csr_self_attention

__all__ = ["csr_attention", "csr_self_attention", "transpose_csr"]
