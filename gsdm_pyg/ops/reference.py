"""CSR attention in plain torch: the definition, on any device, with torch's autograd."""

import torch
from torch import Tensor


def csr_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    rowptr: Tensor,
    col: Tensor,
    bias: Tensor | None,
    scale: float,
) -> Tensor:
    r"""out_i = sum_j softmax_j(scale q_i . k_j + bias_ij) v_j over the edges j -> i."""
    rows = rowptr.numel() - 1
    row = torch.repeat_interleave(
        torch.arange(rows, device=q.device), rowptr.diff().long(), output_size=col.numel()
    )
    col = col.long()
    accum = torch.promote_types(q.dtype, torch.float32)
    q_i, k_j = q.index_select(0, row), k.index_select(0, col)  # [E, H, C]
    logit = (q_i.to(accum) * k_j.to(accum)).sum(-1) * scale  # [E, H]
    if bias is not None:
        logit = logit + bias.to(accum)
    shape = (rows, q.size(1))
    index = row[:, None].expand_as(logit)
    highest = logit.new_zeros(shape).scatter_reduce(
        0, index, logit.detach(), "amax", include_self=False
    )
    highest = highest.masked_fill(highest == -torch.inf, 0.0)
    p = (logit - highest.index_select(0, row)).exp()
    total = p.new_zeros(shape).index_add(0, row, p)
    total = total.masked_fill(total == 0, 1.0)
    p = p / total.index_select(0, row)
    message = p.unsqueeze(-1) * v.index_select(0, col).to(accum)
    out = message.new_zeros((rows, *q.shape[1:])).index_add(0, row, message)
    return out.to(q.dtype)
