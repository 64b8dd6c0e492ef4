"""Sparse regression: which inputs matter? Exact by enumeration of the gates.

    python -m examples.programs.sparse_regression --steps 3000

    gate[j] ~ Bernoulli(0.3),    weight[j] ~ N(0, 1),    X[i, j] ~ N(0, 1),
    y[i] ~ N(sum_j X[i, j] gate[j] weight[j], 0.5^2)

This is a regression with a prior of spike and slab. Given the gates, weights and
outputs are jointly Gaussian, so that the inclusion probabilities P(gate[j] = 1 | X, y)
are sums over 2^p sets of gates. One model learns from several numbers of rows n and
inputs p.
"""

import argparse
import math

import torch
from torch import Tensor
from torch.distributions import Bernoulli, MultivariateNormal, Normal

from examples.measures import comparison, moment_errors
from examples.mixture import Mixture, binary_configurations
from gsdm_pyg import GSDM, let, observe, program, sample

INCLUDED, NOISE = 0.3, 0.5


@program
def sparse_regression(n, p):
    gate = sample("gate", Bernoulli(INCLUDED), p)
    weight = sample("weight", Normal(0.0, 1.0), p)
    X = observe("X", Normal(0.0, 1.0), (n, p))
    coefficient = let("coefficient", gate * weight)
    term = let("term", X * coefficient)  # pairs the columns of X with their gates
    observe("y", Normal(term.sum(-1), NOISE))


def exact_posterior(X: Tensor, y: Tensor) -> Mixture:
    """The posterior of gates and weights given X [n, p] and y [n]."""
    (n, p), y = X.shape, y.double()
    gates = binary_configurations(p)  # [M, p]
    odds = math.log(INCLUDED / (1 - INCLUDED))
    prior = odds * gates.sum(1).double()  # up to a constant
    gated = X.double() * gates[:, None]  # [M, n, p]
    seen = gated @ gated.mT + NOISE**2 * torch.eye(n)
    evidence = MultivariateNormal(torch.zeros_like(y), seen).log_prob(y)
    gain = torch.linalg.solve(seen, gated).mT  # [M, p, n]
    covariance = torch.eye(p) - gain @ gated
    return Mixture(gates, prior + evidence, gain @ y, covariance)


def error(
    model: GSDM | None, n: int, p: int, instances: int = 20, samples: int = 400
) -> dict[str, float]:
    """Errors of the inclusion probabilities, and of mean and spread of the weights.

    Without a model, those of exact samples: what so few of them show by chance.
    """
    problem, generator = sparse_regression(n=n, p=p), torch.Generator().manual_seed(1)
    values = problem.sample_batch(instances, generator)
    given = {name: values[name] for name in ("X", "y")}
    exact = [exact_posterior(*row) for row in zip(*given.values(), strict=True)]
    if model is None:
        drawn = [posterior.draw(samples, generator) for posterior in exact]
        gate, weight = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    else:
        found = model.sample(problem, given, samples, generator=2)
        gate, weight = found["gate"], found["weight"]
    moments = zip(*[posterior.moments() for posterior in exact], strict=True)
    inclusion = torch.stack([posterior.probabilities() for posterior in exact])
    difference = gate.double().mean(1) - inclusion
    return {
        "inclusion": difference.abs().mean().item(),
        **moment_errors(weight.double(), *map(torch.stack, moments)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--samples", type=int, default=400, help="of each regression")
    args = parser.parse_args()
    model = GSDM.from_problem(sparse_regression.family(n=(4, 12), p=(2, 6)))
    model.fit(max_steps=args.steps, batch_size=32)
    for n, p in ((8, 4), (12, 6)):
        found, chance = (error(m, n, p, samples=args.samples) for m in (model, None))
        print(f"{n} rows, {p} inputs:\n{comparison(found, chance)}")


if __name__ == "__main__":
    main()
