"""Which rule is for which operator of torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from gsdm_pyg.programs.rules.along_axes import (
    along,
    cross,
    last_axes,
    layer_norm,
    prefix,
)
from gsdm_pyg.programs.rules.call import Rule, base_name, everything
from gsdm_pyg.programs.rules.elementwise import (
    by_list,
    choice,
    constant,
    elementwise,
    lookup,
    loss,
    product,
    replaced,
)
from gsdm_pyg.programs.rules.movement import embedding, movement
from gsdm_pyg.programs.rules.placement import along_axis, put, scatter
from gsdm_pyg.programs.rules.products import matmul, outer, pairs
from gsdm_pyg.programs.rules.windows import convolution, pool

_RULES: list[tuple[Rule, str]] = [
    # Element by element
    (product, "mul"),
    (choice("condition", "self", "other"), "where"),
    (choice("mask", "value", "self"), "masked_fill"),
    (elementwise, "clone _to_copy contiguous lift_fresh expand_copy complex polar"),
    (elementwise, "floor_divide nan_to_num isclose prelu _prelu_kernel log_sigmoid"),
    (elementwise, "log_sigmoid_forward frexp special_entr"),
    (loss, "mse_loss smooth_l1_loss huber_loss binary_cross_entropy"),
    (loss, "soft_margin_loss"),
    (replaced("src"), "copy"),
    (replaced("value"), "fill"),
    (lookup("boundaries", "self"), "bucketize"),
    (lookup("sorted_sequence", "self"), "searchsorted"),
    (constant, "zero zeros_like ones_like full_like empty_like new_zeros new_ones"),
    (constant, "new_full new_empty empty_strided new_empty_strided"),
    # Movement
    (movement("self"), "index _unsafe_index index_select gather take flip roll rot90"),
    (movement("self"), "repeat constant_pad_nd tril triu diag_embed masked_select"),
    (movement("self"), "reflection_pad1d reflection_pad2d reflection_pad3d"),
    (movement("self"), "replication_pad1d replication_pad2d replication_pad3d"),
    (movement("self"), "upsample_nearest1d upsample_nearest2d upsample_nearest3d"),
    (movement("self"), "_upsample_nearest_exact1d _upsample_nearest_exact2d"),
    (movement("self"), "pixel_shuffle pixel_unshuffle im2col channel_shuffle"),
    (movement("self"), "diagonal_copy select_copy slice_copy permute_copy view_copy"),
    (movement("self"), "unfold_copy as_strided_copy squeeze_copy transpose_copy"),
    (movement("tensors"), "cat stack _unsafe_cat block_diag"),
    (movement("self", "src"), "slice_scatter select_scatter diagonal_scatter"),
    (movement("self", "src"), "as_strided_scatter"),
    (movement("self", "source"), "masked_scatter"),
    (embedding, "embedding"),
    (put, "index_put _unsafe_index_put _index_put_impl"),
    (along_axis, "index_add index_copy index_reduce index_fill"),
    (scatter, "scatter scatter_add scatter_reduce"),
    # Along axes
    (along, "sum mean prod amax amin max min all any var std var_mean std_mean"),
    (along, "logsumexp norm linalg_vector_norm argmax argmin count_nonzero"),
    (along, "nansum median nanmedian mode kthvalue aminmax sort argsort topk msort"),
    (along, "_softmax _log_softmax softmax log_softmax glu"),
    (along, "_is_all_true _is_any_true _fft_r2c _fft_c2c _fft_c2r"),
    (prefix, "cumsum cumprod logcumsumexp cummax cummin"),
    (layer_norm, "native_layer_norm"),
    (cross, "linalg_cross"),
    (last_axes(2), "linalg_inv_ex linalg_cholesky_ex linalg_qr _linalg_svd trace"),
    (last_axes(2), "_linalg_eigh _linalg_eigvals linalg_eig linalg_matrix_exp"),
    (last_axes(2), "_linalg_det _linalg_slogdet cholesky_inverse cholesky"),
    (last_axes(2), "linalg_lu_factor_ex linalg_lu linalg_pinv"),
    (last_axes(2), "linalg_solve_triangular cholesky_solve triangular_solve"),
    (last_axes(2), "_adaptive_avg_pool2d adaptive_max_pool2d upsample_bilinear2d"),
    (last_axes(2), "upsample_bicubic2d _scaled_dot_product_flash_attention_for_cpu"),
    (last_axes(1), "upsample_linear1d"),
    (everything, "_linalg_solve_ex linalg_lstsq histc put _linalg_check_errors"),
    # Products and windows
    (matmul("self", "mat2"), "mm bmm"),
    (matmul("self", "vec"), "mv"),
    (matmul("mat1", "mat2", "self"), "addmm _sparse_addmm"),
    (matmul("mat", "vec", "self"), "addmv"),
    (matmul("batch1", "batch2", "self"), "baddbmm addbmm"),
    (matmul("self", "tensor"), "dot"),
    (matmul("self", "other"), "vdot"),
    (pairs("x1", "x2"), "_cdist_forward _euclidean_dist"),
    (outer, "addr"),
    (convolution, "convolution"),
    (pool(2), "avg_pool2d max_pool2d_with_indices"),
    (pool(3), "avg_pool3d max_pool3d_with_indices"),
]
_BY_NAME: Mapping[str, Rule] = {
    name: rule for rule, names in _RULES for name in names.split()
}


def rule_of(function: Any) -> Rule | None:
    """The rule for an operator of `torch.ops`, or None."""
    name = base_name(function)
    if function.namespace != "aten":
        return None
    if name.startswith("_foreach_"):
        return by_list
    if name in _BY_NAME:
        return _BY_NAME[name]
    return elementwise if torch.Tag.pointwise in function.tags else None
