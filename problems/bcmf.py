"""Binary-continuous matrix factorisation (section 4 of the paper)."""

import torch
from matplotlib.figure import Figure

from gsdm_pyg import Categorical, Continuous, GraphicalModel, Problem, Role
from gsdm_pyg.plotting import matrix_figure


class BCMF(Problem):
    """Factorise E = A R with A in [0, 1] and R binary: E[i, j] = sum_l A[i, l] R[l, j].

    Args:
        m: Rows of E.
        n: Columns of E.
        k: Rank, the columns of A and the rows of R.
    """

    m: int
    n: int
    k: int

    def graphical_model(self) -> GraphicalModel:
        m, n, k, graph = self.m, self.n, self.k, GraphicalModel()
        A = graph.add_variable("A", (m, k), Continuous(0, 1))
        R = graph.add_variable("R", (k, n), Categorical(2))
        C = graph.add_variable("C", (m, n, k), role=Role.INTERMEDIATE)
        E = graph.add_variable("E", (m, n), role=Role.OBSERVED)
        graph.connect(A[:, None, :], C)  # C[i, j, l] = A[i, l] * R[l, j]
        graph.connect(R.T[None], C)
        graph.connect(C, E[:, :, None])  # E[i, j] = sum_l C[i, j, l]
        return graph

    def sample(self, generator=None):
        A = torch.rand(self.m, self.k, generator=generator)
        R = (torch.rand(self.k, self.n, generator=generator) < 0.3).long()
        C = A[:, None, :] * R.T[None]  # [m, n, k]
        return {"A": A, "R": R, "C": C, "E": C.sum(-1)}

    def metrics(self, sample, truth):
        """RMSE between the E of `truth` and the sampled A R."""
        error = truth["E"] - sample["A"] @ sample["R"].float()
        return {"rmse": error.square().mean().sqrt().item()}

    def plot(self, sample, truth) -> Figure:
        """A, R and A R beside E, as in the paper's figure."""
        A, R = sample["A"], sample["R"].float()
        return matrix_figure({"A": A, "R": R, "A R": A @ R, "E": truth["E"]})
