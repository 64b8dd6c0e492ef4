"""Exact steps of matrix factorisation: the best A given R, and the best R given A."""

import torch
from torch import Tensor

SWEEPS = 300  # over the coordinates, at the most; each is exact in one coordinate
MOST_CODES = 10  # rows of R up to which all 2^k columns are compared
ROUNDS = 20  # of alternation, which seldom needs more than five


def alternate(E: Tensor, A: Tensor, R: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """A and R that fit E at least as well: the best A given R and R given A, in turns.

    Args:
        E: The matrices to factorise, [S, m, n].
        A: In [0, 1], [S, m, k].
        R: Binary, [S, k, n].
        fixed: Matrices [S] that stay as they are.
    """
    A, R = A.clone(), R.clone()
    going = ~fixed
    for _ in range(ROUNDS):
        at = going.nonzero()[:, 0]
        if not len(at):
            break
        A[at] = bounded_least_squares(E[at], A[at], R[at])
        better = best_codes(E[at], A[at], R[at])
        going[at] = (better != R[at]).flatten(1).any(1)
        R[at] = better
    return A, R


def bounded_least_squares(E: Tensor, A: Tensor, R: Tensor) -> Tensor:
    """The A in [0, 1] that minimizes |E - A R|^2, by coordinate descent from A."""
    A, gram, target = A.double(), R.double() @ R.double().mT, E.double() @ R.double().mT
    curvature = gram.diagonal(dim1=-2, dim2=-1)  # [S, k]
    columns = list(A.unbind(-1))  # k of [S, m]
    moved = torch.full((len(A),), torch.inf, dtype=A.dtype)
    for _ in range(SWEEPS):
        going = moved > 1e-7  # each matrix by itself: others do not change its result
        if not going.any():
            break
        moved = torch.zeros_like(moved)
        for l, used in enumerate(curvature.unbind(-1)):  # noqa: E741, the paper's letter
            others = torch.stack(columns, -1) @ gram[..., l, None]
            step = (target[..., l] - others[..., 0]) / used.clamp(min=1)[:, None]
            new = (columns[l] + step).clamp(0, 1).where(going[:, None], columns[l])
            moved = moved.maximum((new - columns[l]).abs().amax(1))
            columns[l] = new
    return torch.stack(columns, -1).to(E)


def best_codes(E: Tensor, A: Tensor, R: Tensor) -> Tensor:
    """The binary R that minimizes |E - A R|^2; R itself if there are too many."""
    k = A.size(-1)
    if k > MOST_CODES:
        return R
    codes = (torch.arange(2**k)[:, None] >> torch.arange(k) & 1).to(A)  # [2^k, k]
    product = A @ codes.T  # [S, m, 2^k]
    error = product.square().sum(1)[..., None] - 2 * product.mT @ E  # [S, 2^k, n]
    return codes[error.argmin(1)].mT.to(R.dtype)
