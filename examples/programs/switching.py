"""A path that is calm or restless, discrete and continuous at once, by enumeration.

    python -m examples.programs.switching --steps 2000

    z[t] is z[t-1] with probability 0.9,    x[t] ~ N(0.9 x[t-1], scale[z[t]]^2),
    y[t] ~ N(x[t], 0.3^2)

Given the regimes z, the path x and what is seen of it, y, are jointly Gaussian. So the
exact posterior is a mixture over all 2^length regimes (a switching linear-Gaussian
model).
"""

import argparse

import torch
from torch import Tensor
from torch.distributions import Categorical, MultivariateNormal, Normal

from examples.measures import comparison, marginal_errors, moment_errors
from examples.mixture import Mixture, binary_configurations
from gsdm_pyg import GSDM, observe, program, sample

START = torch.tensor([0.5, 0.5])
MOVE = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
SCALE = torch.tensor([0.2, 1.5])  # of a step, calm and restless
MEMORY, NOISE = 0.9, 0.3


@program
def switching(length):
    """Regimes z, a path x whose steps they scale, and what is seen of it, y."""
    z = [sample("z[0]", Categorical(START))]
    x = [sample("x[0]", Normal(0.0, SCALE[z[0]]))]
    for t in range(1, length):
        z.append(sample(f"z[{t}]", Categorical(MOVE[z[-1]])))
        x.append(sample(f"x[{t}]", Normal(MEMORY * x[-1], SCALE[z[-1]])))
    observe("y", Normal(torch.stack(x), NOISE))


def exact_posterior(y: Tensor) -> Mixture:
    """The posterior of z and x given y [length]."""
    y, length = y.double(), len(y)
    z = binary_configurations(length)  # [M, length]
    move = MOVE.double().log()[z[:, :-1], z[:, 1:]].sum(1)
    prior = START.double().log()[z[:, 0]] + move
    time = torch.arange(length)
    lag = time[:, None] - time
    # x = A e, where e[t] has the scale of z[t]
    path = torch.where(lag >= 0, MEMORY ** lag.double(), 0)
    covariance = (path * SCALE.double().square()[z][:, None]) @ path.T  # [M, T, T]
    seen = covariance + NOISE**2 * torch.eye(length)
    evidence = MultivariateNormal(torch.zeros_like(y), seen).log_prob(y)
    gain = torch.linalg.solve(seen, covariance).mT
    return Mixture(z, prior + evidence, gain @ y, covariance - gain @ covariance)


def error(
    model: GSDM | None, length: int, instances: int = 20, samples: int = 400
) -> dict[str, float]:
    """Errors of the probabilities of z, and of mean and spread of x.

    Without a model, those of exact samples: what so few of them show by chance.
    """
    problem, generator = switching(length=length), torch.Generator().manual_seed(1)
    y = problem.sample_batch(instances, generator)["y"]
    exact = [exact_posterior(seen) for seen in y]
    if model is None:
        drawn = [posterior.draw(samples, generator) for posterior in exact]
        z, x = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    else:
        found = model.sample(problem, {"y": y}, samples, generator=2)
        z, x = found["z"], found["x"]
    moments = zip(*[posterior.moments() for posterior in exact], strict=True)
    p = torch.stack([posterior.probabilities() for posterior in exact]).flatten()
    q = z.double().mean(1).flatten()
    pairs = [(torch.stack([1 - q, q], 1), torch.stack([1 - p, p], 1))]
    return {
        **marginal_errors(pairs),
        **moment_errors(x.double(), *map(torch.stack, moments)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=6)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--samples", type=int, default=400, help="of each chain")
    args = parser.parse_args()
    model = GSDM.from_problem(switching(length=args.length))
    model.fit(max_steps=args.steps, batch_size=64)
    found, chance = (error(m, args.length, samples=args.samples) for m in (model, None))
    print(f"switching, length {args.length}:\n{comparison(found, chance)}")


if __name__ == "__main__":
    main()
