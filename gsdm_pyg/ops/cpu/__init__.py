"""CSR attention and norms on the CPU: Numba kernels on short vectors.

Bottom up: `vector`, `vector_math` and `exponential` (one value holds a head's
channels), `edge_block` (a few edges at once), `task` and `work_items` (what a thread
computes), the files of kernels (`component_kernels` for batches of small graphs),
`compile`, `threads`, `memory`, `launch` and `norm`.
"""

from gsdm_pyg.ops.cpu import norm
from gsdm_pyg.ops.cpu.launch import backward, forward

__all__ = ["backward", "forward", "norm"]
