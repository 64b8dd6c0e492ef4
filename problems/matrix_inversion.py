"""Matrix inversion (the paper's appendix): BCMF with real numbers, solved for R."""

from typing import ClassVar, Literal

import torch
from matplotlib.figure import Figure

from gsdm_pyg import GraphicalModel, Panel, Problem, Role, Size, check_choice
from problems.bcmf import multiply

Target = Literal["random", "identity"]

NEWTON_STEPS = 20  # each squares the residual 1 - A R


class MatrixInversion(Problem):
    """Solve A R = E for R, given A and E; if E is the identity, R is A's inverse.

    Args:
        n: Rows and columns of every matrix.
        target: What E is. "random" is E = A R for standard-normal A and R, on which
            the paper trains; "identity" is the identity, on which it tests.
    """

    n: Size
    target: Target = "random"

    tolerance: ClassVar[float] = 0.01
    best_values: ClassVar = {"median_rmse": 0.0, "rmse": 0.0}

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("MatrixInversion.target", self.target, Target)

    def graphical_model(self) -> GraphicalModel:
        n, graph = self.n, GraphicalModel()
        A = graph.add_variable("A", (n, n), role=Role.OBSERVED)
        R = graph.add_variable("R", (n, n))
        C = graph.add_variable("C", (n, n, n), role=Role.INTERMEDIATE)
        E = graph.add_variable("E", (n, n), role=Role.OBSERVED)
        graph.connect(A[:, None, :], C)  # C[i, j, l] = A[i, l] * R[l, j]
        graph.connect(R.T[None], C)
        graph.connect(C, E[:, :, None])  # E[i, j] = sum_l C[i, j, l]
        return graph

    def sample_batch(self, num, generator=None):
        A = torch.randn(num, self.n, self.n, generator=generator)
        if self.target == "identity":
            E = torch.eye(self.n).repeat(num, 1, 1)
            return {**multiply(A, torch.linalg.inv(A)), "E": E}
        return multiply(A, torch.randn(num, self.n, self.n, generator=generator))

    def metrics(self, sample, truth):
        """RMSE of A R, with the sampled R, against the given E."""
        error = truth["A"] @ sample["R"] - truth["E"]
        return {"rmse": error.square().mean().sqrt().item()}

    def violations(self, samples):
        """The distance between each entry of E and of A R."""
        return {"E = A R": (samples["E"] - samples["A"] @ samples["R"]).abs()}

    def polish(self, samples, known):
        """R by Newton's iteration for the inverse, where E is the identity; then C.

        It converges from an R near the inverse. Elsewhere the sampled R is kept, unless
        A R comes closer to the identity.
        """
        A, R, E = (samples[name] for name in ("A", "R", "E"))
        inverts = known["E"].flatten(1).all(1) & ~known["R"].flatten(1).any(1)
        inverts &= (torch.eye(self.n, device=E.device) == E).flatten(1).all(1)
        R = torch.where(inverts[:, None, None], _newton_inverse(A, R), R)
        return {**samples, "R": R, "C": multiply(A, R)["C"]}

    def summary(self, scores):
        """The mean, and the median: some matrices are nearly singular."""
        rmse = torch.tensor([score["rmse"] for score in scores], dtype=torch.double)
        return {**super().summary(scores), "median_rmse": rmse.quantile(0.5).item()}

    def panels(self):
        marks = {"E = A R": "E"}
        return [Panel("matrix", ("A", "R", "E"), signs=("×", "="), marks=marks)]

    def plot(self, sample, truth) -> Figure:
        """A and the sampled R, then A R beside E on the same color scale."""
        A, R, E = truth["A"], sample["R"], truth["E"]
        panels = {"A": A, "R": R, "A R": A @ R, "E": E}
        shared = float(torch.stack([panels["A R"], E]).abs().max())
        figure = Figure(figsize=(10, 3), layout="constrained")
        axes = figure.subplots(1, len(panels))
        for ax, (title, matrix) in zip(axes, panels.items(), strict=True):
            bound = shared if title in ("A R", "E") else float(matrix.abs().max())
            ax.imshow(matrix.cpu(), vmin=-bound, vmax=bound, cmap="RdBu_r")
            ax.set(title=title, xlabel=f"±{bound:.3g}", xticks=[], yticks=[])
        return figure


def _newton_inverse(A, R):
    """R [S, n, n] by the iteration R (2 - A R), where that brings A R closer to 1.

    If the powers of 1 - A R vanish it converges: each step squares that matrix.
    """
    A, start = A.double(), R.double()
    identity = torch.eye(A.size(-1), dtype=A.dtype, device=A.device)
    X = start
    for _ in range(NEWTON_STEPS):
        X = X @ (2 * identity - A @ X)
    better = _distance(A @ X, identity) < _distance(A @ start, identity)  # not if NaN
    return torch.where(better, X, start).to(R)


def _distance(X, Y):
    """The largest difference of two matrices of a batch, [S, 1, 1]."""
    return (X - Y).abs().amax((-2, -1), keepdim=True)
