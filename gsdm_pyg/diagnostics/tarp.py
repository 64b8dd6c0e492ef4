"""TARP: coverage of regions around random reference points (Lemos et al., 2023).

The share of samples that are closer to a reference point than the truth is uniform for
an exact sampler. Its ECDF is the expected coverage of the regions around such points,
of all unknown entries jointly: the distance is one more quantity to rank.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gsdm_pyg.encoding import Arrays

JOINT = "all (TARP)"  # the name of this quantity


def reference_distances(
    draws: Arrays,
    reference: Arrays,
    unknown: Arrays,
    scales: Mapping[str, float | None],
) -> Tensor:
    """Distances of draws to a reference point in their unknown entries, [B, S + 1].

        d^2 = sum over variables of the mean over unknown entries of e^2

    with e the difference in units of the variable's scale, or whether classes differ.
    Instances without unknown entries have the distance NaN.

    Args:
        draws: An array [B, S + 1, *shape] per variable.
        reference: An array [B, *shape] per variable: any values that do not depend on
            the truth, such as another draw from the prior.
        unknown: A boolean array [B, *shape] per variable.
        scales: The scale of each continuous variable, None of a discrete one.
    """
    total: Tensor | None = None
    any_unknown: Tensor | None = None
    for name, scale in scales.items():
        value, mask = draws[name].double(), unknown[name]
        away = value - reference[name].double()[:, None]  # [B, S + 1, *shape]
        squared = (away != 0).double() if scale is None else (away / scale).square()
        free = mask.reshape(len(mask), 1, -1)
        squared = torch.where(free, squared.reshape(*value.shape[:2], -1), 0.0)
        mean = squared.sum(-1) / free.sum(-1).clamp(min=1)
        total = mean if total is None else total + mean
        has_any = free.any(-1)
        any_unknown = has_any if any_unknown is None else any_unknown | has_any
    if total is None or any_unknown is None:
        raise ValueError("A distance needs at least one variable (got none).")
    return torch.where(any_unknown, total.sqrt(), torch.nan)
