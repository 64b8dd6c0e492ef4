"""Groups of varying size with a common mean: exact by integration over two scales.

    python -m examples.programs.hierarchical_normal --steps 3000

    mu ~ N(0, 1),    tau ~ U(0, 2),    sigma ~ U(0, 2),
    theta[j] ~ N(mu, tau^2),    y[i] ~ N(theta[group of i], sigma^2)

The number of groups and the size of each are drawn per instance. Given tau and sigma
everything is Gaussian, so that the exact posterior is an average over a grid of the two
scales.
"""

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import Normal, Uniform

from examples.measures import comparison, moment_errors
from gsdm_pyg import GSDM, Sizes, observe, program, sample

LARGEST = 2.0  # tau and sigma


@program(positions={})  # edges tell which values are of one group
def hierarchical_normal(groups: Sizes):
    mu = sample("mu", Normal(0.0, 1.0))
    tau = sample("tau", Uniform(0.0, LARGEST))
    sigma = sample("sigma", Uniform(0.0, LARGEST))
    theta = sample("theta", Normal(mu, tau), len(groups))
    observe("y", Normal(theta[members(groups)], sigma))


def members(groups: tuple[int, ...]) -> Tensor:
    """The group of each entry of y."""
    return torch.arange(len(groups)).repeat_interleave(torch.tensor(groups))


@dataclass(frozen=True)
class Posterior:
    """The scales on a grid of G cells; mu and the J entries of theta given them."""

    weights: Tensor  # of the cells, [G]
    scales: Tensor  # tau and sigma in the middle of a cell, [G, 2]
    width: float  # of a cell
    mean: Tensor  # of mu, [G]
    variance: Tensor  # of mu, [G]
    group_means: Tensor  # of y, [J]
    shrinkage: Tensor  # 1 leaves theta at mu, 0 at the mean of its group; [G, J]

    def moments(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Mean and standard deviation of each variable, [1] or [J]."""
        mean, variance, s = self.mean[:, None], self.variance[:, None], self.shrinkage
        tau, sigma = self.scales[:, :1], self.scales[:, 1:]
        theta = s * mean + (1 - s) * self.group_means
        cell = torch.full_like(tau, self.width**2 / 12)  # the variance within a cell
        parts = {
            "mu": (mean, variance),
            "tau": (tau, cell),
            "sigma": (sigma, cell),
            "theta": (theta, tau.square() * s + s.square() * variance),
        }
        found = {}
        for name, (means, variances) in parts.items():
            average = self.weights @ means
            square = self.weights @ (variances + means.square())
            found[name] = (average, (square - average.square()).sqrt())
        return found

    def draw(self, num: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Exact samples up to the width of a cell: [num] or [num, J]."""
        which = self.weights.multinomial(num, replacement=True, generator=generator)
        options = {"dtype": torch.double, "generator": generator}
        offset = self.width * (torch.rand(num, 2, **options) - 0.5)
        tau, sigma = (self.scales[which] + offset).unbind(1)
        noise = torch.randn(num, **options)
        mu = self.mean[which] + self.variance[which].sqrt() * noise
        s = self.shrinkage[which]  # [num, J]
        noise = torch.randn(s.shape, **options)
        theta = s * mu[:, None] + (1 - s) * self.group_means
        theta = theta + tau[:, None] * s.sqrt() * noise
        return {"mu": mu, "tau": tau, "sigma": sigma, "theta": theta}


def exact_posterior(y: Tensor, groups: tuple[int, ...], points: int = 300) -> Posterior:
    """The posterior given y, by the midpoint rule for tau and sigma.

    The mean of group j is N(mu, v[j]) with v[j] = tau^2 + sigma^2 / size[j], and its
    residuals depend on sigma alone.

    Args:
        y: All values, group by group.
        groups: The size of each group.
        points: Of the grid, for each of the two scales.
    """
    size, member = torch.tensor(groups, dtype=torch.double), members(groups)
    center = torch.zeros_like(size).index_add(0, member, y.double()) / size
    residuals = (y.double() - center[member]).square().sum()
    width = LARGEST / points
    middle = width * (torch.arange(points, dtype=torch.double) + 0.5)
    scales = torch.cartesian_prod(middle, middle)  # [G, 2]
    tau, sigma = scales[:, :1], scales[:, 1:]
    v = tau.square() + sigma.square() / size  # [G, J]
    precision = 1 + (1 / v).sum(1)  # of mu
    mean = (center / v).sum(1) / precision
    within = -(len(y) - len(groups)) * sigma.log() - residuals / (2 * sigma.square())
    between = -(v.log() + center.square() / v).sum(1)
    evidence = within[:, 0] + (between - precision.log() + precision * mean**2) / 2
    return Posterior(
        weights=evidence.softmax(0),
        scales=scales,
        width=width,
        mean=mean,
        variance=1 / precision,
        group_means=center,
        shrinkage=1 - tau.square() / v,
    )


def error(
    model: GSDM | None,
    groups: tuple[int, ...],
    instances: int = 20,
    samples: int = 400,
) -> dict[str, float]:
    """Errors of mean and spread of each variable; the share of scales at their bounds.

    Without a model, those of exact samples: what so few of them show by chance.
    """
    problem = hierarchical_normal(groups=groups)
    generator = torch.Generator().manual_seed(1)
    y = problem.sample_batch(instances, generator)["y"]
    exact = [exact_posterior(seen, groups) for seen in y]
    if model is None:
        drawn = [posterior.draw(samples, generator) for posterior in exact]
        found = {name: torch.stack([d[name] for d in drawn]) for name in drawn[0]}
    else:
        found = model.sample(problem, {"y": y}, samples, generator=2)
    moments = [posterior.moments() for posterior in exact]
    errors = {}
    for name in moments[0]:
        mean, std = (torch.stack([m[name][i] for m in moments]) for i in (0, 1))
        entries = found[name].double().reshape(instances, samples, -1)
        for kind, value in moment_errors(entries, mean, std).items():
            errors[f"{name} {kind}"] = value
    scales = torch.stack([found["tau"], found["sigma"]])
    at_bounds = (scales <= 0) | (scales >= LARGEST)
    return {**errors, "scales at bounds": at_bounds.double().mean().item()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--samples", type=int, default=400, help="given each instance")
    args = parser.parse_args()
    sizes = {"length": (3, 8), "each": (2, 8)}
    model = GSDM.from_problem(hierarchical_normal.family(groups=sizes))
    model.fit(max_steps=args.steps, batch_size=32)
    for groups in ((3, 8, 2, 5), (2, 4, 6, 8, 2, 4, 6, 8)):
        found, chance = (error(m, groups, samples=args.samples) for m in (model, None))
        print(f"groups of {', '.join(map(str, groups))}:\n{comparison(found, chance)}")


if __name__ == "__main__":
    main()
