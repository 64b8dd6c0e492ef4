"""CSR attention in plain torch: the definition, on any device.

Autograd, `torch.func` and torch.compile follow it.
"""

import torch
from torch import Tensor

from gsdm_pyg.ops.attention_inputs import AttentionInputs, unpack_qkv
from gsdm_pyg.ops.csr import check_csr, row_of_edge


def _segment_max(x: Tensor, row: Tensor, rows: int) -> Tensor:
    """The largest x of every row, [rows, H]; 0 for a row without edges."""
    index = row[:, None].expand_as(x)
    zeros = x.new_zeros(rows, x.size(1))
    return zeros.scatter_reduce(0, index, x, "amax", include_self=False)


def _segment_sum(x: Tensor, row: Tensor, rows: int) -> Tensor:
    """The sum of x over the edges of every row, [rows, ...]."""
    return x.new_zeros(rows, *x.shape[1:]).index_add(0, row, x)


def attention(inputs: AttentionInputs) -> Tensor:
    """out_i = sum_j softmax_j(scale q_i . k_ij + bias_ij) factor_ij v_ij."""
    check_csr(inputs.rowptr, inputs.col, inputs.num_src)
    (q, k, v), terms, rowptr = unpack_qkv(inputs.qkv), inputs.terms, inputs.rowptr
    rows, accum = rowptr.numel() - 1, torch.promote_types(q.dtype, torch.float32)
    row, col = row_of_edge(rowptr, inputs.col.numel()), inputs.col.long()
    q_i = q.index_select(0, row).to(accum)  # [E, H, C]
    k_j, v_j = k.index_select(0, col).to(accum), v.index_select(0, col).to(accum)
    if terms.edge is not None:
        edge = terms.edge.to(accum).unsqueeze(1).expand(-1, q.size(1), -1)  # [E, H, F]
        k_j, v_j = torch.cat([k_j, edge], -1), torch.cat([v_j, edge], -1)
    logit = (q_i * k_j).sum(-1) * inputs.scale  # [E, H]
    if terms.bias is not None:
        logit = logit + terms.bias
    max_logit = _segment_max(logit.detach(), row, rows)
    excluded = max_logit == -torch.inf  # by the bias of every edge
    max_logit = max_logit.masked_fill(excluded, 0.0)
    p = (logit - max_logit.index_select(0, row)).exp()
    denominator = _segment_sum(p, row, rows)
    denominator = denominator.masked_fill(denominator == 0, 1.0)
    p = p / denominator.index_select(0, row)
    if terms.factor is not None:
        p = p * terms.factor
    return _segment_sum(p.unsqueeze(-1) * v_j, row, rows).to(q.dtype)
