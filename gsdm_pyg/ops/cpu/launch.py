"""Tensors in, tensors out: fills in tasks and runs the attention kernels."""

import ctypes
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs, EdgeTerms
from gsdm_pyg.ops.cpu import complete, memory
from gsdm_pyg.ops.cpu.backward_kernels import ROWS_PER_ITEM
from gsdm_pyg.ops.cpu.compile import compiled
from gsdm_pyg.ops.cpu.component_kernels import MIN_DEGREE, MIN_ITEMS
from gsdm_pyg.ops.cpu.exponential import CONSTANTS
from gsdm_pyg.ops.cpu.memory import empty
from gsdm_pyg.ops.cpu.task import StridedTensor, Task
from gsdm_pyg.ops.cpu.threads import run_kernel
from gsdm_pyg.ops.cpu.vector import LINE
from gsdm_pyg.ops.cpu.work_items import EDGES_PER_ITEM, TABLE_SIZE, WEIGHTS_SIZE
from gsdm_pyg.ops.csr import check_csr

Graph = tuple[Tensor, Tensor]  # rowptr [rows + 1], col [E]
Kernel = tuple[int | str | bool, ...]  # name and options, see `compiled`
LOG2_E = math.log2(math.e)
STORAGE = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
}


def forward(inputs: AttentionInputs) -> tuple[Tensor, Tensor]:
    """out [N_dst, H, C + F], and log2 of every softmax's denominator, [N_dst, H].

    The last dimension of q, k and v is contiguous, and so are the terms.
    """
    parts = _complete_components(inputs)
    if parts:
        out, lse = complete.forward(inputs, parts)
        if complete.is_trusted(lse):
            return out, lse
    like, channels = inputs.qkv[0], inputs.qkv[-1].size(-1)
    rows, heads, width = like.size(0), like.size(-2), like.size(-1)
    out = empty((rows, heads, width), like.dtype)
    accum = torch.float64 if like.dtype == torch.float64 else torch.float32
    lse = empty((rows, heads), accum)
    task = _new_task(inputs, out, lse)
    storage, terms = STORAGE[like.dtype], inputs.terms
    options = (terms.bias is not None, terms.factor is not None)
    same_stride = task.k.row == task.v.row
    kernel = ("forward", channels, width - channels, storage, same_stride, *options)
    combine = ("combine_forward", width, storage)
    _run_over_rows(task, (inputs.rowptr, inputs.col), width + 2, kernel, combine)
    return out, lse


def backward(
    grad: Tensor, out: Tensor, lse: Tensor, edge_grad: bool, inputs: AttentionInputs
) -> list[Tensor]:
    """Gradients of q, k and v, packed as they were, then of bias and edge if given.

    Args:
        grad: Gradient of `out`; its last dimension is contiguous.
        out: From `forward`, like lse.
        lse: [N_dst, H]
        edge_grad: Whether to compute the gradient of `edge`; else it has no rows.
        inputs: See `forward`. With terms per edge the transposed graph is given.
    """
    terms, graph, num_src = inputs.terms, (inputs.rowptr, inputs.col), inputs.num_src
    rows, heads, width = out.shape
    channels, storage = inputs.qkv[-1].size(-1), STORAGE[out.dtype]
    features = width - channels
    grads = [empty(x.shape, x.dtype) for x in inputs.qkv]
    parts = _complete_components(inputs)
    if parts and complete.is_trusted(lse):
        return complete.backward(grad, out, lse, inputs, parts, grads)
    task = _new_task(inputs, out, lse)
    task.grad = _strided(grad)
    task.dq, task.dk, task.dv = _split_qkv(grads)
    if (
        not terms
        and rows == num_src
        and _run_components(task, graph, channels, storage)
    ):
        return grads

    stats = empty((rows, heads, 2), lse.dtype)
    task.stats = stats.data_ptr()
    _run_items(task, -(-rows // ROWS_PER_ITEM) or 1, ("stats", width, storage))
    ds, p = (
        empty((task.num_edges if terms else 0, heads), lse.dtype) for _ in range(2)
    )
    dedge = empty((task.num_edges if edge_grad else 0, features), lse.dtype)
    task.ds, task.p, task.dedge = ds.data_ptr(), p.data_ptr(), dedge.data_ptr()

    biased, factored = terms.bias is not None, terms.factor is not None

    def run(graph: Graph, query: bool, key: bool) -> None:
        kind = (channels, features, storage)
        kernel: Kernel = ("backward_keys", *kind)
        if not terms:
            same_stride = task.q.row == task.k.row == task.v.row
            nontemporal = _nontemporal(task, grads)
            options = (same_stride, query, key, nontemporal)
            kernel = ("backward", channels, storage, *options)
        elif query:
            options = (task.k.row == task.v.row, biased, factored, edge_grad)
            kernel = ("backward_edges", *kind, *options)
        combine = ("combine_backward", *kind, query, key)
        _run_over_rows(task, graph, width + 2 * channels, kernel, combine)

    run(graph, query=True, key=not inputs.transpose)
    if inputs.transpose:
        t_rowptr, t_row, t_perm = inputs.transpose
        task.perm = t_perm.data_ptr()
        _set_graph(task, (t_rowptr, t_row), rows)
        run((t_rowptr, t_row), query=False, key=True)
    return grads + terms.gradients(ds, dedge)


def _new_task(inputs: AttentionInputs, out: Tensor, lse: Tensor) -> Task:
    """A task with the inputs and the results of the forward pass."""
    q, k, v = _split_qkv(inputs.qkv)
    task = Task(
        scale=inputs.scale * LOG2_E,
        heads=out.size(1),
        constants=CONSTANTS.data_ptr(),
        q=q,
        k=k,
        v=v,
        out=_strided(out),
        lse=lse.data_ptr(),
    )
    _set_graph(task, (inputs.rowptr, inputs.col), inputs.num_src)
    for name, term in zip(EdgeTerms._fields, inputs.terms, strict=True):
        setattr(task, name, 0 if term is None else term.data_ptr())
    return task


def _strided(x: Tensor) -> StridedTensor:
    row, head, _ = x.stride()
    size = x.element_size()
    return StridedTensor(x.data_ptr(), row * size, head * size)


def _split_qkv(qkv: Sequence[Tensor]) -> list[StridedTensor]:
    """`unpack_qkv`; a packed tensor is not sliced, which takes torch longer."""
    if len(qkv) == 3:
        return [_strided(x) for x in qkv]
    (packed,) = qkv
    row, third, head, _ = (s * packed.element_size() for s in packed.stride())
    start = packed.data_ptr()
    return [StridedTensor(start + n * third, row, head) for n in range(3)]


def _set_graph(task: Task, graph: Graph, num_cols: int) -> None:
    """Set the graph to compute, and the number of nodes that `col` may name."""
    rowptr, col = graph
    task.num_rows, task.num_edges = rowptr.numel() - 1, col.numel()
    task.rowptr, task.col = rowptr.data_ptr(), col.data_ptr()
    task.num_cols, task.index_size, task.hubs = num_cols, col.element_size(), 0


def _run_items(task: Task, num_items: int, kernel: Kernel) -> None:
    """Run a kernel on all threads, until all work items are done."""
    task.counter, task.threads, task.num_items = 0, 0, num_items
    threads = min(torch.get_num_threads(), num_items)
    run_kernel(compiled(*kernel), ctypes.addressof(task), threads)


def _run_over_rows(
    task: Task, graph: Graph, partial_size: int, kernel: Kernel, combine: Kernel
) -> None:
    """Run a kernel over all rows of the graph, then combine the results of hubs.

    Args:
        task: Names the tensors and the graph.
        graph: The same graph, for the error message if it is wrong.
        partial_size: Numbers in a partial result per head.
        kernel: Computes rows, and partial results of hubs.
        combine: Combines the partial results.
    """
    num_items = -(-task.num_edges // EDGES_PER_ITEM) or 1
    task.workspace_size = 5 * TABLE_SIZE + max(task.heads, 3) * (WEIGHTS_SIZE + 64)
    workspaces = min(torch.get_num_threads(), num_items) * task.workspace_size
    slot_rows, partials = 16 * num_items, 2 * num_items * task.heads * partial_size * 8
    space = empty((workspaces + slot_rows + partials,), torch.uint8)
    task.workspaces = space.data_ptr()
    task.slot_rows = task.workspaces + workspaces
    task.partials = task.slot_rows + slot_rows
    _run_items(task, num_items, kernel)
    _check_indices(task, graph)
    if task.hubs:  # the kernel looks for them in all items
        run_kernel(compiled(*combine), ctypes.addressof(task), 1)


def _check_indices(task: Task, graph: Graph) -> None:
    """Raise if a kernel found an index out of range."""
    if task.invalid:
        check_csr(*graph, task.num_cols)
        raise IndexError(
            "transpose must list every edge of the graph once: pass "
            "transpose_csr(rowptr, col, num_src) (got positions out of range)"
        )


def _complete_components(inputs: AttentionInputs) -> list[complete.Batch]:
    """The complete components that the graph is made of; empty if it is not."""
    if not complete.may_be_complete(inputs):
        return []
    rows = inputs.qkv[0].size(0)
    starts, last_row = (torch.zeros(rows + 1, dtype=torch.int64) for _ in range(2))
    task = Task(components=starts.data_ptr(), row_id=last_row.data_ptr())
    _set_graph(task, (inputs.rowptr, inputs.col), inputs.num_src)
    _run_items(task, 1, ("find_complete",))
    return complete.batches(starts[: task.num_components + 1].tolist())


def _nontemporal(task: Task, grads: Sequence[Tensor]) -> bool:
    """Whether gradients are too large for the caches, and made of whole lines."""
    sizes = [grads[0].size(-1) * grads[0].element_size()]
    for x in (task.dq, task.dk, task.dv):
        sizes += [x.address, x.row, x.head]
    large = sum(x.nbytes for x in grads) > memory.LARGE_BYTES
    return large and all(size % LINE == 0 for size in sizes)


def _run_components(task: Task, graph: Graph, channels: int, storage: str) -> bool:
    """Compute the gradients by components, if the graph has enough small ones.

    The choice depends on the graph alone, so results do not depend on the threads.
    """
    if task.num_edges < MIN_DEGREE * task.num_rows:
        return False
    components = empty((task.num_rows + 1,), torch.int64)
    task.components = components.data_ptr()
    _run_items(task, 1, ("find_components", channels, storage))
    num_items = task.num_components * task.heads
    if num_items < MIN_ITEMS:
        return False
    threads = min(torch.get_num_threads(), num_items)
    space = empty((threads * task.workspace_size,), torch.uint8)
    task.workspaces = space.data_ptr()
    _run_items(task, num_items, ("backward_components", channels, storage))
    _check_indices(task, graph)
    return True
