"""Eight schools: a Pyro model, its posterior by a GSDM and by NUTS.

    pip install pyro-ppl
    python -m examples.programs.eight_schools --minutes 3

How much do courses help, in general (mu), from school to school (tau) and in each
school (theta), given eight estimates y with known errors (Rubin, 1981)? The model is
the hierarchical one of Pyro's examples (examples/eight_schools/mcmc.py), except for the
prior of tau: HalfCauchy(25) there, HalfNormal(10) here for both methods. A GSDM divides
values by their standard deviation, which no Cauchy has.
"""

import argparse

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.reparam import LocScaleReparam

from examples.measures import comparison, join, moment_errors
from gsdm_pyg import GSDM
from gsdm_pyg.programs.pyro import from_pyro

Y = torch.tensor([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SIGMA = torch.tensor([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def eight_schools(sigma, y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 10.0))
    tau = pyro.sample("tau", dist.HalfNormal(10.0))
    with pyro.plate("schools", len(sigma)):
        theta = pyro.sample("theta", dist.Normal(mu, tau))
        pyro.sample("y", dist.Normal(theta, sigma), obs=y)


def by_gsdm(minutes: int, num_samples: int) -> dict[str, torch.Tensor]:
    problem = from_pyro(eight_schools, SIGMA, observed=["y"])
    model = GSDM.from_problem(problem, layers=5, heads=4)
    model.fit(max_time=f"00:00:{minutes:02}:00", batch_size=128)
    return model.sample(problem, given={"y": Y}, num_samples=num_samples)


def by_nuts(num_samples: int) -> dict[str, torch.Tensor]:
    # theta = mu + tau * eta, which NUTS samples more easily.
    model = pyro.poutine.reparam(eight_schools, {"theta": LocScaleReparam(0.0)})
    chain = MCMC(NUTS(model), num_samples, warmup_steps=500, disable_progbar=True)
    chain.run(SIGMA, Y)
    samples = chain.get_samples()
    mu, tau = samples["mu"], samples["tau"]
    theta = mu[:, None] + tau[:, None] * samples["theta_decentered"]
    return {"mu": mu, "tau": tau, "theta": theta}


def error(
    samples: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]
) -> dict[str, float]:
    """Errors of mean and spread of all ten quantities, in standard deviations.

    Args:
        samples: mu and tau [S], theta [S, 8].
        reference: Likewise, of the posterior that counts as right.
    """
    names = ("mu", "tau", "theta")
    found, exact = (join({n: s[n] for n in names}, 1) for s in (samples, reference))
    return moment_errors(found, exact.mean(0), exact.std(0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=3, help="of training")
    parser.add_argument("--samples", type=int, default=2000, help="of the posterior")
    options = parser.parse_args()

    pyro.set_rng_seed(0)
    gsdm, nuts = by_gsdm(options.minutes, options.samples), by_nuts(options.samples)
    print("             GSDM            NUTS")
    print("           mean     sd     mean     sd")
    for name in ("mu", "tau", "theta"):
        columns = [samples[name].view(options.samples, -1) for samples in (gsdm, nuts)]
        for number in range(columns[0].shape[1]):
            label = f"theta[{number}]" if name == "theta" else name
            moments = [
                f"{x[:, number].mean():7.2f}{x[:, number].std():7.2f}" for x in columns
            ]
            print(f"{label:8}{moments[0]}  {moments[1]}")
    print("Errors in standard deviations, beside those of a second run of NUTS:")
    print(comparison(error(gsdm, nuts), error(by_nuts(options.samples), nuts)))


if __name__ == "__main__":
    main()
