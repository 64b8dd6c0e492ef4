"""Binary-continuous matrix factorization (section 4 of the paper)."""

from typing import ClassVar, Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor
from torch.distributions import Bernoulli, Uniform

from gsdm_pyg import (
    Categorical,
    Continuous,
    GraphicalModel,
    Panel,
    Problem,
    Role,
    Size,
    check_choice,
    let,
    matrix_figure,
    observe,
    sample,
)
from problems.least_squares import best_codes, bounded_least_squares, improve

Given = Literal["E", "nothing"]

P_ONE = 0.3  # chance of a 1 in R


class BCMF(Problem):
    """Factorize E = A R with A in [0, 1] and R binary: E[i, j] = sum_l A[i, l] R[l, j].

    Args:
        m: Rows of E.
        n: Columns of E.
        k: Rank, the columns of A and the rows of R.
        given: What is observed. With "nothing", A, R and E are all sampled.
    """

    m: Size
    n: Size
    k: Size
    given: Given = "E"

    tolerance: ClassVar[float] = 0.01
    ordered = False  # whether the order of the k terms of the sum matters

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(f"{type(self).__name__}.given", self.given, Given)

    def graphical_model(self) -> GraphicalModel:
        m, n, k, graph = self.m, self.n, self.k, GraphicalModel()
        term = torch.arange(k)
        last = (term,) if self.ordered else ()  # l of A[i, l] and C[i, j, l]
        first = (term[:, None],) if self.ordered else ()  # l of R[l, j]
        A = graph.add_variable("A", (m, k), Continuous(0, 1), positions=last)
        R = graph.add_variable("R", (k, n), Categorical(2), positions=first)
        C = graph.add_variable("C", (m, n, k), role=Role.INTERMEDIATE, positions=last)
        role = Role.OBSERVED if self.given == "E" else Role.LATENT
        E = graph.add_variable("E", (m, n), role=role)
        graph.connect(A[:, None, :], C)  # C[i, j, l] = A[i, l] * R[l, j]
        graph.connect(R.T[None], C)
        graph.connect(C, E[:, :, None])  # E[i, j] = sum_l C[i, j, l]
        return graph

    def sample_batch(self, num, generator=None):
        A = torch.rand(num, self.m, self.k, generator=generator)
        R = (torch.rand(num, self.k, self.n, generator=generator) < P_ONE).long()
        return multiply(A, R)

    def program(self):
        A = sample("A", Uniform(0, 1), (self.m, self.k))
        R = sample("R", Bernoulli(P_ONE), (self.k, self.n))
        C = let("C", A[:, None, :] * R.T[None])
        observe("E", C.sum(-1))

    def metrics(self, sample, truth):
        """RMSE between the sampled A R and E: the given one, or the sampled one."""
        error = self._target(sample, truth) - sample["A"] @ sample["R"].float()
        return {"rmse": error.square().mean().sqrt().item()}

    def violations(self, samples):
        """The distance between each entry of E and of A R."""
        product = samples["A"] @ samples["R"].float()
        return {"E = A R": (samples["E"] - product).abs()}

    def polish(self, samples, known):
        """A and R that fit the known entries of E; the others follow from A and R.

        Where nothing of A and R is given, by local search, see `improve`. Where one of
        them is given whole and nothing of the other, the other is the best: by bounded
        least squares A, by comparing codes R. Elsewhere they stay as they are.
        """
        E, A, R = (samples[name] for name in ("E", "A", "R"))
        fixed = known["A"].flatten(1).any(1) | known["R"].flatten(1).any(1)
        A, R = improve(E, A, R, known["E"], fixed, exact=self.tolerance / 10)
        at = _only_given(known["R"], known["A"])
        A[at] = bounded_least_squares(E[at], A[at], R[at], known["E"][at])
        at = _only_given(known["A"], known["R"])
        R[at] = best_codes(E[at], A[at], R[at], known["E"][at])
        exact = multiply(A, R)
        return {**exact, "E": torch.where(known["E"], E, exact["E"])}

    def panels(self):
        marks = {"E = A R": "E"}
        return [Panel("matrix", ("A", "R", "E"), signs=("×", "="), marks=marks)]

    def plot(self, sample, truth) -> Figure:
        """A, R and A R beside E, as in the paper's figure."""
        A, R = sample["A"], sample["R"].float()
        E = self._target(sample, truth)
        return matrix_figure({"A": A, "R": R, "A R": A @ R, "E": E})

    def _target(self, sample, truth) -> Tensor:
        """The E that A R should equal."""
        return (truth if self.given == "E" else sample)["E"]


def multiply(A: Tensor, R: Tensor) -> dict[str, Tensor]:
    """A [..., m, k], R [..., k, n], their products C and the sums E = A R."""
    C = A[..., :, None, :] * R.mT[..., None, :, :]  # [..., m, n, k]
    return {"A": A, "R": R, "C": C, "E": C.sum(-1)}


def _only_given(known: Tensor, other: Tensor) -> Tensor:
    """The instances of which all is `known` and nothing of the other factor is, [b]."""
    whole = known.flatten(1).all(1) & ~other.flatten(1).any(1)
    return whole.nonzero()[:, 0]
