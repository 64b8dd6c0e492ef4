"""The paper's generative problems as programs; their graphs are those of `problems/`.

`problems/` states the same graphs by hand and draws data by a few calls of torch, which
is faster for small batches (`python -m benchmarks.programs`). Sorting and Sudoku are
not here: how their data are drawn does not show the constraints that their graphs have.
"""

import torch
from torch.distributions import Bernoulli, Categorical, Normal, Uniform

from gsdm_pyg import (
    Continuous,
    ProgramProblem,
    Size,
    let,
    observe,
    program,
    sample,
)
from problems.boolean_circuit import draw_gates


@program
def bcmf(m, n, k):
    """Factorize E = A R with A in [0, 1] and R binary."""
    A = sample("A", Uniform(0, 1), (m, k))
    R = sample("R", Bernoulli(0.3), (k, n))
    C = let("C", A[:, None, :] * R.T[None])
    observe("E", C.sum(-1))


@program(positions={"D": (0,), "A": (1,), "R": (0,), "C": (2,)})  # of the k terms
def hierarchical_bcmf(m, n, k):
    """The same with K of k terms, each of them with a 1 in its row of R.

    Positions are declared: A and R come from draws without a name, of which it cannot
    be told that rows and columns can be permuted.
    """
    K = sample("K", Categorical(torch.arange(k + 1) > 0))  # uniform on 1..k
    D = let("D", torch.arange(k) < K)
    A = Uniform(0, 1).sample((m, k)) * D
    A = let("A", A, role="latent", domain=Continuous(0, 1))
    column, first = torch.arange(n), Categorical(0.7 ** torch.arange(n)).sample((k, 1))
    others = Bernoulli(0.3).sample((k, n)).bool() & (column > first)
    R = let("R", ((column == first) | others) & D[:, None], role="latent")
    C = let("C", A[:, None, :] * R.T[None])
    observe("E", C.sum(-1))


class Circuit(ProgramProblem):
    """Compute a tree of AND and OR gates; gate i combines nodes 2i and 2i + 1."""

    n: Size

    def __post_init__(self) -> None:
        super().__post_init__()
        draw_gates(self.n, 0)  # the same in all instances: drawn before, and cached

    def program(self):
        nodes = [x.bool() for x in observe("x", Bernoulli(0.5), 2**self.n)]
        gates = torch.cat(draw_gates(self.n, 0)).tolist()
        for i, is_and in enumerate(gates[:-1]):
            nodes.append(let(f"h[{i}]", _gate(is_and, *nodes[2 * i : 2 * i + 2])))
        let("y", _gate(gates[-1], *nodes[-2:]), role="latent")


def _gate(is_and, a, b):
    return a & b if is_and else a | b


@program
def matrix_inversion(n):
    """Solve A R = E for R."""
    A = observe("A", Normal(0.0, 1.0), (n, n))
    R = sample("R", Normal(0.0, 1.0), (n, n))
    C = let("C", A[:, None, :] * R.T[None])
    observe("E", C.sum(-1))


@program
def state_space(steps):
    """Infer a hidden path from noisy observations of it."""
    x = [sample("x[0]", Normal(0.0, 1.0))]
    for t in range(1, steps):
        x.append(sample(f"x[{t}]", Normal(0.9 * x[-1], (1 - 0.9**2) ** 0.5)))
    observe("y", Normal(torch.stack(x), 0.5))
