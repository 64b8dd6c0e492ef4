"""Linear-Gaussian models given any of their entries, beside the exact posterior.

    python -m examples.programs.any_subset --steps 2000
    python -m examples.programs.any_subset --problem state_space --steps 2000

One model, trained with `observe="mixed"`, answers 20 random patterns: some entries of
all variables are given, and all others are sampled. The errors are relative to the
exact standard deviation, beside those that as many exact samples show by chance.
"""

import argparse

import torch
from torch import Tensor

from examples.measures import comparison, hide, join, moment_errors
from examples.programs.gaussian_linear import covariance, gaussian_linear
from gsdm_pyg import GSDM, Problem
from problems import StateSpace
from problems.gaussian import condition


def error(
    model: GSDM | None,
    problem: Problem,
    prior: Tensor,
    patterns: int = 20,
    samples: int = 400,
) -> dict[str, float]:
    """Errors of mean and spread over random patterns of given entries.

    Args:
        model: The model; None measures exact samples.
        problem: A problem whose variables are jointly Gaussian with mean 0.
        prior: The covariance [n, n] of its entries, in the order of its variables.
        patterns: How many instances, each with its own given entries.
        samples: How many samples of each.
    """
    generator = torch.Generator().manual_seed(1)
    given = hide(problem.sample_batch(patterns, generator), generator)
    exact = [condition(torch.zeros(len(prior)), prior, row) for row in join(given, 1)]
    means, covariances = (torch.stack(parts) for parts in zip(*exact, strict=True))
    if model is None:
        drawn = draw(means, covariances, samples, generator)
    else:
        found = model.sample(problem, given, samples, generator=2)
        drawn = join({name: found[name] for name in given}, 2).double()
    return moment_errors(drawn, means, covariances.diagonal(dim1=-2, dim2=-1).sqrt())


def draw(
    means: Tensor, covariances: Tensor, samples: int, generator: torch.Generator
) -> Tensor:
    """Samples [B, S, n] of B Gaussians; entries may have no variance."""
    values, vectors = torch.linalg.eigh(covariances)
    roots = vectors * values.clamp(min=0).sqrt()[:, None]  # [B, n, n]
    shape = (len(means), samples, means.size(1))
    noise = torch.randn(shape, dtype=torch.double, generator=generator)
    return means[:, None] + noise @ roots.mT


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ("gaussian_linear", "state_space")
    parser.add_argument("--problem", choices=names, default=names[0])
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--steps", type=int, default=2000)
    args = parser.parse_args()
    if args.problem == "state_space":
        problem: Problem = StateSpace(args.size)
        prior = problem.covariance()
    else:
        problem, prior = gaussian_linear(n=args.size), covariance(args.size)
    model = GSDM.from_problem(problem, observe="mixed")
    model.fit(max_steps=args.steps, batch_size=128)
    print(f"{problem}, 20 random patterns of given entries:")
    print(comparison(error(model, problem, prior), error(None, problem, prior)))


if __name__ == "__main__":
    main()
