"""Local search for a matrix factorisation: the best A given R, the best R given A."""

import torch
from torch import Tensor

SWEEPS = 300  # over the coordinates, at the most; each is exact in one coordinate
MOST_CODES = 10  # rows of R up to which all 2^k columns are compared
ROUNDS = 20  # of alternation, which seldom needs more than five
REPLACEMENTS = 30  # rounds in which each of the k terms is replaced once


def improve(
    E: Tensor, A: Tensor, R: Tensor, fixed: Tensor, exact: float
) -> tuple[Tensor, Tensor]:
    """A and R that fit E at least as well, by alternation and by replacing terms.

    Where the fit is not exact, each of the k terms in turn becomes a random one before
    A and R are alternated again, and the best of these k is kept if it is better. The
    random terms are the same for all matrices, so that the result of one does not
    depend on the others.

    Args:
        E: The matrices to factorise, [S, m, n].
        A: In [0, 1], [S, m, k].
        R: Binary, [S, k, n].
        fixed: Matrices [S] that stay as they are.
        exact: The largest error of an entry that needs no further search.
    """
    k, generator = A.size(-1), torch.Generator().manual_seed(0)
    A, R = alternate(E, A, R, fixed)
    best = _squared_error(E, A, R)
    term = torch.arange(k)
    for _ in range(REPLACEMENTS):
        columns = torch.rand(k, A.size(1), generator=generator).to(A)
        off = (E - A @ R.to(A)).abs().amax((1, 2)) > exact
        at = (off & ~fixed).nonzero()[:, 0]
        if not len(at):
            break
        E_at, new_A, new_R = (x[at].repeat_interleave(k, 0) for x in (E, A, R))
        each = new_A.unflatten(0, (len(at), k))  # the l-th of k gets another term l
        each[:, term, :, term] = columns[:, None].expand(-1, len(at), -1)
        new_R = best_codes(E_at, new_A, new_R)
        new_A, new_R = alternate(E_at, new_A, new_R, fixed[at].repeat_interleave(k))
        error, l = _squared_error(E_at, new_A, new_R).view(-1, k).min(1)  # noqa: E741
        better = error < best[at]
        chosen = (torch.arange(len(at)) * k + l)[better]
        A[at[better]], R[at[better]] = new_A[chosen], new_R[chosen]
        best[at[better]] = error[better]
    return A, R


def _squared_error(E: Tensor, A: Tensor, R: Tensor) -> Tensor:
    """The squared error of each of S factorisations, [S]."""
    return (E.double() - A.double() @ R.double()).square().sum((1, 2))


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
