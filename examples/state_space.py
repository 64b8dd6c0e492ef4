"""The posterior of a hidden path, sampled and exact: how far apart are they?

    python -m examples.state_space
    python -m examples.state_space --length 50 --picture posterior.png
    python -m examples.state_space --solver ddpm  # narrows the posterior

For a few fresh instances, many paths are drawn given the observations. Errors are those
of `StateSpace.posterior_error`: of the mean, in exact standard deviations, and of the
spread, relative to the exact one. In brackets: the errors that as many exact samples
would show by chance.
"""

import argparse
import math
from typing import get_args

import torch

from gsdm_pyg import GSDM
from gsdm_pyg.choices import Solver
from gsdm_pyg.seeding import keyed_generator
from problems import StateSpace


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="pretrained/state-space")
    parser.add_argument("--length", type=int, default=20, help="length of the path")
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--steps", type=int, help="default: the model's own")
    parser.add_argument("--solver", choices=get_args(Solver), help="likewise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--picture", help="draw the first instance into this file")
    options = parser.parse_args()

    model = GSDM.from_pretrained(options.model)
    chosen = {"steps": options.steps, "solver": options.solver}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    problem = StateSpace(options.length)
    errors = []
    for number in range(options.instances):
        generator = keyed_generator("state space", options.seed, number)
        truth = problem.sample(generator)
        paths = model.sample(
            problem,
            given={"y": truth["y"]},
            num_samples=options.samples,
            generator=generator,
            **chosen,
        )
        errors.append(problem.posterior_error(paths, truth))
        if options.picture and number == 0:
            problem.plot(paths, truth).savefig(options.picture, dpi=120)

    chance = 1 / math.sqrt(options.samples)
    for name, by_chance in (("mean", chance), ("spread", chance / math.sqrt(2))):
        values = torch.tensor([error[name] for error in errors])
        print(
            f"error of the {name}: {values.mean():.3f}, at most {values.max():.3f} "
            f"(exact samples: {by_chance:.3f})"
        )


if __name__ == "__main__":
    main()
