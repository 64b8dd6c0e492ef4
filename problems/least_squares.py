"""Local search for a matrix factorization: the best A given R, the best R given A.

Only known entries of E are fitted.
"""

import numpy as np
import torch
from torch import Tensor

from gsdm_pyg import keyed_generator

SWEEPS = 300  # over the coordinates, at the most; each is exact in one coordinate
MOST_CODES = 10  # rows of R up to which all 2^k columns are compared
ROUNDS = 20  # of alternation, which seldom needs more than five
REPLACEMENTS = 30  # rounds in which each of the k terms is replaced once
MOST_NUMBERS = 2**24  # of one array: bounds how many matrices are searched at once


def improve(
    E: Tensor, A: Tensor, R: Tensor, known: Tensor, fixed: Tensor, exact: float
) -> tuple[Tensor, Tensor]:
    """A and R that fit E at least as well, by alternation and by replacing terms.

    Where the fit is not exact, there is a round for k copies of A and R. In the l-th,
    column l of A is random, R is fitted anew, and both are alternated. The best copy is
    kept if it is better, and so on. The random columns depend on the R that a matrix
    comes with: another try replays none of them, and no other matrix matters.

    Args:
        E: The matrices to factorize, [S, m, n].
        A: In [0, 1], [S, m, k].
        R: Binary, [S, k, n].
        known: Which entries of E to fit, [S, m, n].
        fixed: Matrices [S] that stay as they are.
        exact: The largest error of an entry that needs no further search.
    """
    k, n = R.shape[1:]
    at_once = max(1, MOST_NUMBERS // (k * n * 2 ** min(k, MOST_CODES)))
    parts = zip(*(x.split(at_once) for x in (E, A, R, known, fixed)), strict=True)
    found = [_improve(*part, exact) for part in parts]
    return torch.cat([A for A, _ in found]), torch.cat([R for _, R in found])


def _improve(E, A, R, known, fixed, exact):
    m, k = A.shape[1:]
    generators = _generators(R)
    replaced = torch.eye(k, dtype=torch.bool, device=A.device)[:, None]  # [k, 1, k]
    A, R = alternate(E, A, R, known, fixed)
    for _ in range(REPLACEMENTS):
        inexact = _residual(E, A, R, known).abs().amax((1, 2)) > exact
        searched = (inexact & ~fixed).nonzero()[:, 0]  # [b]
        if not len(searched):
            break
        own = [generators[i] for i in searched.tolist()]
        columns = torch.stack([torch.rand(m, k, generator=g) for g in own]).to(A)
        new_A = torch.where(replaced, columns[:, None], A[searched, None])
        new_A = new_A.flatten(0, 1)  # [b, k, m, k] -> [b k, m, k]
        target, mask, new_R = (
            x[searched].repeat_interleave(k, 0) for x in (E, known, R)
        )
        new_R = best_codes(target, new_A, new_R, mask)
        free = torch.zeros_like(mask[:, 0, 0])
        new_A, new_R = alternate(target, new_A, new_R, mask, free)
        errors = _squared_error(target, new_A, new_R, mask).view(-1, k)
        error, copy = errors.min(1)  # [b]
        better = error < _squared_error(*(x[searched] for x in (E, A, R, known)))
        chosen = copy + k * torch.arange(len(copy), device=A.device)
        A[searched[better]] = new_A[chosen[better]]
        R[searched[better]] = new_R[chosen[better]]
    return A, R


def _generators(R: Tensor) -> list[torch.Generator]:
    """A source of randomness for each of S matrices, by its own R [k, n] alone."""
    codes = np.packbits(R.flatten(1).bool().cpu().numpy(), axis=1)  # [S, bytes]
    keys = [int.from_bytes(code.tobytes(), "big") for code in codes]
    return [keyed_generator("replace", key) for key in keys]


def _residual(E: Tensor, A: Tensor, R: Tensor, known: Tensor) -> Tensor:
    """E - A R at known entries and 0 at others, [S, m, n]."""
    return (E.double() - A.double() @ R.double()).where(known, 0.0)


def _squared_error(E: Tensor, A: Tensor, R: Tensor, known: Tensor) -> Tensor:
    """The squared error of each of S factorizations, [S]."""
    return _residual(E, A, R, known).square().sum((1, 2))


def alternate(
    E: Tensor, A: Tensor, R: Tensor, known: Tensor, fixed: Tensor
) -> tuple[Tensor, Tensor]:
    """A and R that fit E at least as well: the best A given R and R given A, in turns.

    Args:
        E: The matrices to factorize, [S, m, n].
        A: In [0, 1], [S, m, k].
        R: Binary, [S, k, n].
        known: Which entries of E to fit, [S, m, n].
        fixed: Matrices [S] that stay as they are.
    """
    A, R = A.clone(), R.clone()
    going = ~fixed
    for _ in range(ROUNDS):
        at = going.nonzero()[:, 0]
        if not len(at):
            break
        A[at] = bounded_least_squares(E[at], A[at], R[at], known[at])
        better = best_codes(E[at], A[at], R[at], known[at])
        going[at] = (better != R[at]).flatten(1).any(1)
        R[at] = better
    return A, R


def bounded_least_squares(E: Tensor, A: Tensor, R: Tensor, known: Tensor) -> Tensor:
    """The A in [0, 1] that minimizes |E - A R|^2, by coordinate descent from A.

    A row of A stays as it is where nothing of its row of E is known.
    """
    A, codes, mask = A.double(), R.double(), known.double()
    gram = (mask[:, :, None] * codes[:, None]) @ codes[:, None].mT  # [S, m, k, k]
    target = E.double().where(known, 0.0) @ codes.mT  # [S, m, k]
    columns = list(A.unbind(-1))  # k of [S, m]
    moved = torch.full((len(A),), torch.inf, dtype=A.dtype, device=A.device)
    for _ in range(SWEEPS):
        going = moved > 1e-7  # each matrix by itself: others do not change its result
        if not going.any():
            break
        moved = torch.zeros_like(moved)
        for l in range(len(columns)):  # noqa: E741, the paper's letter
            others = (torch.stack(columns, -1) * gram[..., l, :]).sum(-1)
            step = (target[..., l] - others) / gram[..., l, l].clamp(min=1)
            new = (columns[l] + step).clamp(0, 1).where(going[:, None], columns[l])
            moved = moved.maximum((new - columns[l]).abs().amax(1))
            columns[l] = new
    return torch.stack(columns, -1).to(E)


def best_codes(E: Tensor, A: Tensor, R: Tensor, known: Tensor) -> Tensor:
    """The binary R that minimizes |E - A R|^2; above `MOST_CODES` a better one than R.

    A column of R stays as it is where nothing of its column of E is known.
    """
    k = A.size(-1)
    if k > MOST_CODES:
        return _better_codes(E, A, R, known)
    bits = torch.arange(k, device=A.device)
    codes = (torch.arange(2**k, device=A.device)[:, None] >> bits & 1).to(A)  # [2^k, k]
    product = (A @ codes.T).mT  # [S, 2^k, m]
    target = E.where(known, 0.0)
    error = product.square() @ known.to(A) - 2 * product @ target  # [S, 2^k, n]
    best = codes[error.argmin(1)].mT.to(R.dtype)  # [S, k, n]
    return best.where(known.any(1)[:, None], R)


def _better_codes(E: Tensor, A: Tensor, R: Tensor, known: Tensor) -> Tensor:
    """One row of R after the other is the best given the others, in one sweep."""
    R = R.clone()
    for l in range(A.size(-1)):  # noqa: E741
        column = A[:, :, l, None]  # [S, m, 1]
        without = (E - A @ R.to(A) + column * R[:, l, None].to(A)).where(known, 0.0)
        gain = (column * (2 * without - column * known)).sum(1)  # of a 1, [S, n]
        R[:, l] = torch.where(gain == 0, R[:, l], (gain > 0).to(R))
    return R
