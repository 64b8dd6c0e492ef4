"""Linear-Gaussian models given any of their entries, beside the exact posterior.

    python -m examples.programs.any_subset --steps 2000
    python -m examples.programs.any_subset --problem state_space --steps 2000
    python -m examples.programs.any_subset --observe roles

One model, trained with `observe="mixed"`, answers 20 random patterns: some entries of
all variables are given, and all others are sampled. It also answers 20 instances of the
main conditional, which is given what the roles observe. With `--observe roles` it is
trained for this alone: the difference is the price of all other patterns. The errors
are relative to the exact standard deviation, beside those that as many exact samples
show by chance.
"""

import argparse
from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from examples.measures import comparison, hide, join, moment_errors
from examples.programs.gaussian_linear import covariance, gaussian_linear
from gsdm_pyg import GSDM, Problem, Role
from problems import StateSpace
from problems.gaussian import condition


def error(
    model: GSDM | None,
    problem: Problem,
    prior: Tensor,
    patterns: int = 20,
    samples: int = 400,
    given: Literal["any", "roles"] = "any",
) -> dict[str, float]:
    """Errors of mean and spread over instances, each with its own given entries.

    Args:
        model: The model; None measures exact samples.
        problem: A problem whose variables are jointly Gaussian with mean 0.
        prior: The covariance [n, n] of its entries, in the order of its variables.
        patterns: How many instances.
        samples: How many samples of each.
        given: Random entries of all variables, or those that the roles observe.
    """
    generator = torch.Generator().manual_seed(1)
    values = problem.sample_batch(patterns, generator)
    known = hide(values, generator) if given == "any" else by_role(problem, values)
    exact = [condition(torch.zeros(len(prior)), prior, row) for row in join(known, 1)]
    means, covariances = (torch.stack(parts) for parts in zip(*exact, strict=True))
    if model is None:
        drawn = draw(means, covariances, samples, generator)
    else:
        found = model.sample(problem, known, samples, generator=2)
        drawn = join({name: found[name] for name in known}, 2).double()
    return moment_errors(drawn, means, covariances.diagonal(dim1=-2, dim2=-1).sqrt())


def by_role(problem: Problem, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values [B, *shape] with NaN in place of the variables that are not observed."""
    variables = problem.graphical_model().variables
    return {
        name: value.double()
        if variables[name].role is Role.OBSERVED
        else torch.full_like(value, torch.nan, dtype=torch.double)
        for name, value in values.items()
    }


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
    parser.add_argument("--samples", type=int, default=400, help="given each pattern")
    parser.add_argument("--observe", choices=("mixed", "roles"), default="mixed")
    args = parser.parse_args()
    if args.problem == "state_space":
        problem: Problem = StateSpace(args.size)
        prior = problem.covariance()
    else:
        problem, prior = gaussian_linear(n=args.size), covariance(args.size)
    model = GSDM.from_problem(problem, observe=args.observe)
    model.fit(max_steps=args.steps, batch_size=128)
    patterns = {"roles": "20 instances of the main conditional"}
    if args.observe == "mixed":
        patterns["any"] = "20 random patterns of given entries"
    for given, what in patterns.items():
        found, chance = (
            error(m, problem, prior, samples=args.samples, given=given)
            for m in (model, None)
        )
        print(f"{problem}, {what}:\n{comparison(found, chance)}")


if __name__ == "__main__":
    main()
