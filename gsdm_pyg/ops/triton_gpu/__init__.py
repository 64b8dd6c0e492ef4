"""CSR attention on the GPU: Triton kernels of the same algorithm as on the CPU.

`row_chunks` splits rows into chunks of bounded length, the files of kernels compute
them, and `launch` goes from tensors to tensors. Importing this package imports Triton.
"""

from gsdm_pyg.ops.triton_gpu.launch import backward, forward

__all__ = ["backward", "forward"]
