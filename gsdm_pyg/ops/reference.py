"""CSR attention in plain torch: the definition, on any device, by torch's autograd."""

import torch
from torch import Tensor

from gsdm_pyg.ops.csr import EdgeTerms, row_of_edge

try:
    import torch_scatter
except (ImportError, OSError):
    torch_scatter = None


def use_torch_scatter() -> bool:
    """torch-scatter is faster than torch's own, which torch.compile understands."""
    return torch_scatter is not None and not torch.compiler.is_compiling()


def segment_max(x: Tensor, row: Tensor, rows: int) -> Tensor:
    """The largest x of every row, [rows, H]; 0 where a row has none."""
    if use_torch_scatter():
        return torch_scatter.scatter_max(x, row, dim=0, dim_size=rows)[0]
    index = row[:, None].expand_as(x)
    zeros = x.new_zeros(rows, x.size(1))
    return zeros.scatter_reduce(0, index, x, "amax", include_self=False)


def segment_sum(x: Tensor, row: Tensor, rows: int) -> Tensor:
    """The sum over every row's edges, [rows, ...]."""
    if use_torch_scatter():
        return torch_scatter.scatter_sum(x, row, dim=0, dim_size=rows)
    return x.new_zeros(rows, *x.shape[1:]).index_add(0, row, x)


def csr_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rowptr: Tensor,
    col: Tensor,
    terms: EdgeTerms,
    scale: float,
) -> Tensor:
    """out_i = sum_j softmax_j(scale q_i . k_ij + bias_ij) factor_ij v_ij."""
    rows, accum = rowptr.numel() - 1, torch.promote_types(q.dtype, torch.float32)
    row, col = row_of_edge(rowptr, col.numel()), col.long()
    q_i = q.index_select(0, row).to(accum)  # [E, H, C]
    k_j, v_j = k.index_select(0, col).to(accum), v.index_select(0, col).to(accum)
    if terms.edge is not None:
        edge = terms.edge.to(accum).unsqueeze(1).expand(-1, q.size(1), -1)  # [E, H, F]
        k_j, v_j = torch.cat([k_j, edge], -1), torch.cat([v_j, edge], -1)
    logit = (q_i * k_j).sum(-1) * scale  # [E, H]
    if terms.bias is not None:
        logit = logit + terms.bias
    top = segment_max(logit.detach(), row, rows)
    top = top.masked_fill(top == -torch.inf, 0.0)  # where the bias excludes every edge
    p = (logit - top.index_select(0, row)).exp()
    total = segment_sum(p, row, rows)
    total = total.masked_fill(total == 0, 1.0)
    p = p / total.index_select(0, row)
    if terms.factor is not None:
        p = p * terms.factor
    return segment_sum(p.unsqueeze(-1) * v_j, row, rows).to(q.dtype)
