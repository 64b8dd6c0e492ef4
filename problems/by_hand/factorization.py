"""Factorizations E = A R by hand (appendix "BCMF baselines"), and what a user would do.

Those of the paper do not bound A: where an entry leaves [0, 1], their error is lower
than that of any answer.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from importlib import import_module

import numpy as np
import torch
from pydantic import PositiveFloat, PositiveInt

from gsdm_pyg import Baseline
from problems.bcmf import BCMF, multiply

EXACT = 1e-5  # an RMSE that needs no further restart


class Factorization(Baseline):
    """A point estimate of A and R given all of E, which uses nothing else."""

    def check(self, problem):
        if not isinstance(problem, BCMF) or problem.given != "E":
            raise ValueError(f"{self.name} factorizes E of a BCMF (got {problem}).")

    def draw(self, problem, values, known, num_samples, generator):
        if not known["E"].all():
            raise ValueError(f"{self.name} takes all of E (got NaN, or no E).")
        size = (len(values["E"]), num_samples)
        seeds = torch.randint(2**31, size, generator=generator)
        pairs = [
            self.factorize(E, problem.k, seed)
            for E, row in zip(values["E"].double().numpy(), seeds.tolist(), strict=True)
            for seed in row
        ]
        A, R = (
            torch.from_numpy(np.stack(part)).unflatten(0, size)
            for part in zip(*pairs, strict=True)
        )
        used = R.bool().any(-1)  # of HierarchicalBCMF, which terms, and how many
        return {**multiply(A, R), "D": used.long(), "K": used.sum(-1)}

    @abstractmethod
    def factorize(self, E, k, seed):
        """A [m, k] and R [k, n], of zeros and ones, with E [m, n] about A R."""


class KMeans(Factorization):
    """Columns of E in k clusters: A has their centers, R says which one each is in."""

    name = "kmeans"

    def factorize(self, E, k, seed):
        cluster = _sklearn("cluster")
        (m, n), used = E.shape, min(k, E.shape[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on fewer different columns than clusters
            found = cluster.KMeans(used, n_init=10, random_state=seed).fit(E.T)
        A, R = np.zeros((m, k)), np.zeros((k, n), np.int64)
        A[:, :used] = found.cluster_centers_.T
        R[found.labels_, np.arange(n)] = 1
        return A, R


class NMF(Factorization):
    """Non-negative factors by coordinate descent, of which R is rounded."""

    name = "nmf"

    def factorize(self, E, k, seed):
        A, R = _nmf(E, k, seed, init=None)
        return A, R.round().clip(0, 1).astype(np.int64)


class Greedy(Factorization):
    """The algorithm that the paper prints: k columns of E, largest sum first, are A.

    Column by column it is right there, and zero elsewhere. If k is above n, the last
    column comes again, as in the paper, and is too large.
    """

    name = "greedy"

    def factorize(self, E, k, seed):
        n = E.shape[1]
        order = np.argsort(-E.sum(0), kind="stable")[:k]
        picked = np.concatenate([order, np.full(k - len(order), n - 1)])
        R = np.zeros((k, n), np.int64)
        R[np.arange(k), picked] = 1
        return E[:, picked], R


class NMFLeastSquares(Factorization):
    """NMF from random starts, R by a threshold, then A and R in turn; the best of all.

    A is the bounded least-squares solution given R. Each column of R is then the best
    of all 2^k, or changes one entry at a time where k is above 10, until nothing does.
    """

    name = "nmf_least_squares"

    restarts: PositiveInt = 20
    """Random starts; fewer if one is exact."""
    seconds: PositiveFloat | None = None
    """Make no further start after so long per answer, which then depends on the
    machine."""

    def factorize(self, E, k, seed):
        started, best, least = time.monotonic(), None, np.inf
        for start in range(self.restarts):
            late = self.seconds is not None and (
                time.monotonic() - started > self.seconds
            )
            if least < EXACT or (late and best is not None):
                break
            A, R = _nmf(E, k, (seed + start) % 2**31, init="random")
            R = (R.max(1, keepdims=True) / 2 < R).astype(np.int64)
            A, R, error = _alternate(E, R)
            if error < least:
                best, least = (A, R), error
        return best


def _alternate(E, R):
    """A and R in turn until the RMSE falls no more: A, R and the RMSE."""
    A = _bounded_least_squares(E, R)
    error = _rmse(E, A, R)
    while error > EXACT:
        new_R = _best_binary(E, A, R)
        new_A = _bounded_least_squares(E, new_R)
        new_error = _rmse(E, new_A, new_R)
        if new_error > error * (1 - 1e-6):
            break
        A, R, error = new_A, new_R, new_error
    return A, R, error


def _bounded_least_squares(E, R):
    """A [m, k] in [0, 1] with the least squared error of E - A R."""
    lsq_linear = import_module("scipy.optimize").lsq_linear
    design = R.T.astype(float)
    rows = [lsq_linear(design, row, (0, 1), method="bvls").x for row in E]
    return np.stack(rows).clip(0, 1)


def _best_binary(E, A, R):
    """R [k, n] of zeros and ones with a lower squared error of E - A R, or the same."""
    k = A.shape[1]
    if k <= 10:
        every = (np.arange(2**k)[:, None] >> np.arange(k)) & 1  # [2^k, k]
        products = every @ A.T  # [2^k, m]
        errors = (products**2).sum(1)[:, None] - 2 * products @ E  # and a constant
        return every[errors.argmin(0)].T
    R, gram, columns = R.copy(), A.T @ A, np.arange(R.shape[1])
    pull = A.T @ E - gram @ R  # [k, n], half of minus the gradient
    while True:
        sign = 1 - 2 * R  # what a change adds
        change = gram.diagonal()[:, None] - 2 * sign * pull  # to the squared error
        pick = change.argmin(0)
        better = change[pick, columns] < -1e-12
        if not better.any():
            return R
        where = columns[better], pick[better]
        step = sign[where[1], where[0]]
        R[where[1], where[0]] += step
        pull[:, where[0]] -= gram[:, where[1]] * step


def _rmse(E, A, R):
    return float(np.sqrt(np.mean((E - A @ R) ** 2)))


def _nmf(E, k, seed, init):
    """Non-negative A [m, k] and R [k, n], by scikit-learn."""
    decomposition = _sklearn("decomposition")
    model = decomposition.NMF(k, init=init, random_state=seed, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not converged: the next start may be
        return model.fit_transform(E.clip(0)), model.components_


def _sklearn(module):
    """A module of scikit-learn, if it is installed."""
    try:
        return import_module(f"sklearn.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "This factorization needs scikit-learn: pip install scikit-learn.",
            name=error.name,
        ) from error
