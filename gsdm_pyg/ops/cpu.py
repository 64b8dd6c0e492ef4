"""CSR attention on the CPU: compiled kernels, threads, and tensors as addresses."""

import ctypes
import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import torch
from numba import cfunc, types
from torch import Tensor

from gsdm_pyg.ops import kernels
from gsdm_pyg.ops import schedule as at

STORAGE = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}
Fields = ctypes.c_int64 * at.FIELDS
_gomp = ctypes.CDLL(None).GOMP_parallel
_gomp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
_gomp.restype = None


@cache
def compiled(name: str, *options) -> ctypes._CFuncPtr:
    function = getattr(kernels, f"make_{name}")(*options)
    label = "_".join(str(option) for option in (name, *options))
    function.__name__ = function.__qualname__ = label
    kernel = cfunc(types.void(types.int64), cache=True, error_model="numpy")(function)
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(kernel.address), kernel.address


def run(kernel, task, pieces: int):
    task[at.COUNTER // 8] = 0
    task[at.PIECES // 8] = pieces
    threads = min(torch.get_num_threads(), pieces)
    if threads == 1:
        kernel[0](ctypes.addressof(task))
    else:
        _gomp(kernel[1], ctypes.addressof(task), threads, 0)


def put(task, field: int, tensor: Tensor) -> None:
    size = tensor.element_size()
    strides = tensor.stride()
    task[field // 8] = tensor.data_ptr()
    task[field // 8 + 1] = strides[0] * size
    task[field // 8 + 2] = strides[1] * size


def new_task(q, rowptr, col, scale):
    task = Fields()
    task[at.ROWS // 8] = rowptr.numel() - 1
    task[at.EDGES // 8] = col.numel()
    task[at.HEADS // 8] = q.size(1)
    task[at.WIDE // 8] = rowptr.element_size()
    task[at.ROWPTR // 8] = rowptr.data_ptr()
    task[at.COL // 8] = col.data_ptr()
    ctypes.c_double.from_buffer(task, at.SCALE).value = scale * math.log2(math.e)
    return task


def forward(q, k, v, rowptr, col, bias, scale):
    _, heads, channels = q.shape
    storage = STORAGE[q.dtype]
    index = "int64" if col.dtype == torch.int64 else "int32"
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    task = new_task(q, rowptr, col, scale)
    rows = rowptr.numel() - 1
    out = q.new_empty(rows, heads, channels)
    lse = torch.empty(rows, heads, dtype=accum)
    pieces = max(1, -(-col.numel() // at.PIECE))
    parts = torch.empty(2 * pieces, heads, channels + 2, dtype=accum)
    owner = torch.full((2 * pieces,), -1)
    for field, tensor in ((at.Q, q), (at.K, k), (at.V, v), (at.OUT, out)):
        put(task, field, tensor)
    task[at.LSE // 8] = lse.data_ptr()
    task[at.PARTS // 8] = parts.data_ptr()
    task[at.OWNER // 8] = owner.data_ptr()
    if bias is not None:
        task[at.BIAS // 8] = bias.data_ptr()
    options = (channels, storage, index, bias is not None)
    run(compiled("forward", *options), task, pieces)
    if task[at.HUBS // 8]:
        task[at.COUNTER // 8] = 0
        compiled("combine_forward", *options)[0](ctypes.addressof(task))
    return out, lse


def backward(q, k, v, rowptr, col, out, lse, grad, dq, dk, dv, scale):
    _, heads, channels = q.shape
    storage = STORAGE[q.dtype]
    index = "int64" if col.dtype == torch.int64 else "int32"
    accum = torch.float64 if q.dtype == torch.float64 else torch.float32
    task = new_task(q, rowptr, col, scale)
    rows = rowptr.numel() - 1
    stats = torch.empty(rows, heads, 2, dtype=accum)
    pieces = max(1, -(-col.numel() // at.PIECE))
    parts = torch.empty(2 * pieces, heads, 3, channels, dtype=accum)
    owner = torch.full((2 * pieces,), -1)
    tensors = (q, k, v, out, grad, dq, dk, dv)
    fields = (at.Q, at.K, at.V, at.OUT, at.GRAD, at.DQ, at.DK, at.DV)
    for field, tensor in zip(fields, tensors):
        put(task, field, tensor)
    task[at.LSE // 8] = lse.data_ptr()
    task[at.STATS // 8] = stats.data_ptr()
    task[at.PARTS // 8] = parts.data_ptr()
    task[at.OWNER // 8] = owner.data_ptr()
    run(compiled("stats", channels, storage), task, max(1, -(-rows // at.PIECE)))
    run(compiled("backward", channels, storage, index, False, True, True), task, pieces)
    if task[at.HUBS // 8]:
        compiled("combine_backward", channels, storage, True, True)[0](
            ctypes.addressof(task)
        )
