"""Matrix factorization of unknown rank (the paper's appendix on hierarchical BCMF)."""

import math
from typing import ClassVar

import torch
from matplotlib.figure import Figure

from gsdm_pyg import (
    Categorical,
    GraphicalModel,
    Panel,
    Problem,
    Role,
    matrix_figure,
)
from problems.bcmf import BCMF, P_ONE, multiply
from problems.least_squares import bounded_least_squares


class HierarchicalBCMF(BCMF):
    """Factorize E = A R as in BCMF, where only the first K of k terms are used.

    K is uniform on 1..k and D[l] = 1 for the first K of the k indices l. Where D[l] is
    1, row l of R is Bernoulli(0.3) conditioned on having a 1; where it is 0, row l of R
    and column l of A are zero.

    Args:
        m: Rows of E.
        n: Columns of E.
        k: The largest rank.
        given: What is observed. With "nothing", A, R, K and E are all sampled.
    """

    ordered = True  # the first K terms are used, the others are zero
    partial = ("rank_accuracy",)
    best_values: ClassVar = {"rmse": 0.0, "rank_accuracy": 1.0}
    program = Problem.program  # none: that of BCMF is another model

    def graphical_model(self) -> GraphicalModel:
        graph = super().graphical_model()
        A, R = graph.node_ids("A"), graph.node_ids("R")
        K = graph.add_variable("K", (), Categorical(self.k + 1))  # the rank; never 0
        term, gate, role = torch.arange(self.k), Categorical(2), Role.INTERMEDIATE
        D = graph.add_variable("D", (self.k,), gate, role=role, positions=(term,))
        graph.connect(K, D)  # D[l] = [l < K], counting l from 0
        graph.connect(D, A)  # column l of A is zero unless D[l]
        graph.connect(D[:, None], R)  # row l of R is zero unless D[l]
        return graph

    def sample_batch(self, num, generator=None):
        K = torch.randint(1, self.k + 1, (num,), generator=generator)
        D = self._used(K).long()
        A = torch.rand(num, self.m, self.k, generator=generator) * D[:, None, :]
        R = self._rows(num, generator) * D[:, :, None]
        return {**multiply(A, R), "K": K, "D": D}

    def metrics(self, sample, truth):
        """RMSE as in BCMF, and whether the rank is right if E identifies it.

        E identifies K if the matrix E has rank K: fewer terms cannot add up to it, and
        more would have to be linearly dependent by coincidence. Otherwise (the K rows
        of R are dependent, or K is above m or n) `rank_accuracy` is NaN. It is also NaN
        if nothing is given.
        """
        rank = torch.linalg.matrix_rank(truth["E"], atol=1e-4, rtol=0.0)
        identified = self.given == "E" and bool(rank == truth["K"])
        right = float(sample["K"] == truth["K"]) if identified else math.nan
        return {**super().metrics(sample, truth), "rank_accuracy": right}

    def violations(self, samples):
        """As in BCMF, what unused terms hold, and used rows of R without a 1."""
        A, R = samples["A"], samples["R"]
        used = self._used(samples["K"])
        return {
            **super().violations(samples),
            "unused columns of A are zero": A.abs() * ~used[:, None],
            "unused rows of R are zero": R * ~used[:, :, None],
            "used rows of R have a 1": used & ~R.any(2),
        }

    def polish(self, samples, known):
        """The best A given R; D, and zeros, as the sampled K gives them."""
        E, A, R = (samples[name] for name in ("E", "A", "R"))
        used = self._used(samples["K"])
        R = R * used[:, :, None]
        fixed = known["A"].flatten(1).any(1)[:, None, None]
        best = bounded_least_squares(E, A * used[:, None], R, known["E"])
        A = torch.where(fixed, A, best)
        exact = multiply(A, R)
        E = torch.where(known["E"], E, exact["E"])
        return {**samples, **exact, "E": E, "D": used.long()}

    def panels(self):
        return [*super().panels(), Panel("grid", ("K",))]

    def plot(self, sample, truth) -> Figure:
        """A, R and A R beside E, with the sampled rank and the true one."""
        A, R = sample["A"], sample["R"].float()
        product, target = f"A R, K = {sample['K']}", "E"
        if self.given == "E":
            target = f"E, K = {truth['K']}"
        E = self._target(sample, truth)
        return matrix_figure({"A": A, "R": R, product: A @ R, target: E})

    def _used(self, K):
        """Which of the k terms samples of rank K [S] use, [S, k]."""
        return torch.arange(self.k, device=K.device) < K[:, None]

    def _rows(self, num, generator):
        """Rows [num, k, n] of Bernoulli(0.3) conditioned on having a 1.

        The first 1 is at j with a probability proportional to 0.7^j; the entries after
        it are independent.
        """
        n, p_zero = self.n, 1 - P_ONE
        u = torch.rand(num, self.k, 1, generator=generator)
        first = torch.log1p(u * (p_zero**n - 1)) / math.log(p_zero)
        first = first.long().clamp(max=n - 1)  # [num, k, 1], by inverting the CDF
        ones = torch.rand(num, self.k, n, generator=generator) < P_ONE
        columns = torch.arange(n)
        return ((columns == first) | (columns > first) & ones).long()
