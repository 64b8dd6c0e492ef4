"""A coin's fairness: a Pyro model trained at many sizes, beside the exact posterior.

    pip install pyro-ppl
    python -m examples.programs.coin --minutes 2

The model of Pyro's tutorial "SVI Part I": a Beta(10, 10) prior of the fairness, and a
site for each flip. The number of flips is a size, so that one GSDM learns from 1 to 20
flips and answers for any number, less exactly beyond 20.
"""

import argparse

import pyro
import pyro.distributions as dist
import torch

from gsdm_pyg import GSDM
from gsdm_pyg.programs.pyro import from_pyro


def coin(num_flips):
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    for i in pyro.plate("flips", num_flips):
        pyro.sample(f"flip_{i}", dist.Bernoulli(fairness))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=2, help="of training")
    parser.add_argument("--samples", type=int, default=2000, help="of the posterior")
    options = parser.parse_args()

    family = from_pyro(coin, 20, observed=["flip"]).family(num_flips=(1, 20))
    model = GSDM.from_problem(family, layers=3)
    model.fit(max_time=f"00:00:{options.minutes:02}:00", batch_size=64)
    print("                     GSDM           exact")
    print("flips  heads      mean     sd    mean     sd")
    for num_flips, heads in ((1, 1), (10, 6), (20, 4), (30, 24)):
        flips = (torch.arange(num_flips) < heads).long()
        found = model.sample(
            from_pyro(coin, num_flips, observed=["flip"]),
            given={"flip": flips},
            num_samples=options.samples,
            generator=0,
        )["fairness"]
        exact = dist.Beta(10.0 + heads, 10.0 + num_flips - heads)
        print(
            f"{num_flips:5}{heads:7}   {found.mean():7.3f}{found.std():7.3f} "
            f"{exact.mean:7.3f}{exact.stddev:7.3f}"
        )


if __name__ == "__main__":
    main()
