"""A hidden Markov model whose time has a direction, with its exact posterior.

    python -m examples.programs.hidden_markov --steps 1200
    python -m examples.programs.hidden_markov --steps 1200 --observe mixed

The chain mostly goes round 0 -> 1 -> 2 -> 3 -> 0. The program says nothing of time; the
model learns its direction from the kinds of edges. With `--edge-kinds ignored` it
cannot, and its error stays at that of a model that knows no direction. With positions
instead (`--edge-kinds ignored --embedding array`) it knows no lengths beyond training.
With `--observe mixed` it answers given any entries of y and z.
"""

import argparse
from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import one_hot

from examples.measures import comparison, hide, marginal_errors
from gsdm_pyg import GSDM, observe, program, sample

START = torch.tensor([0.4, 0.3, 0.2, 0.1])
MOVE = torch.tensor(
    [
        [0.10, 0.80, 0.05, 0.05],
        [0.05, 0.10, 0.80, 0.05],
        [0.05, 0.05, 0.10, 0.80],
        [0.80, 0.05, 0.05, 0.10],
    ]
)
SHOW = 0.45 * torch.eye(4) + 0.1375  # what is seen is the state in 59% of all steps


@program
def hidden_markov(length):
    """States z of a chain, each seen through a noisy y."""
    z = [sample("z[0]", Categorical(START))]
    for t in range(1, length):
        z.append(sample(f"z[{t}]", Categorical(MOVE[z[-1]])))
    observe("y", Categorical(SHOW[torch.stack(z)]))


def exact_marginals(y: Tensor, z: Tensor | None = None) -> Tensor:
    """P(z[t] | y, z) by the forward-backward algorithm, [length, 4].

    Args:
        y: What is seen, [length], NaN where it is missing.
        z: The states that are known, [length], NaN elsewhere; by default none.
    """
    start, move = START.double(), MOVE.double()
    evidence = _likelihood(y, SHOW.double())
    if z is not None:
        evidence = evidence * _likelihood(z, torch.eye(4, dtype=torch.double))
    forward, backward = [start * evidence[0]], [torch.ones(4, dtype=torch.double)]
    for seen in evidence[1:]:
        message = (forward[-1] / forward[-1].sum()) @ move
        forward.append(message * seen)
    for seen in evidence[1:].flip(0):
        message = move @ (seen * backward[-1])
        backward.append(message / message.sum())
    joint = torch.stack(forward) * torch.stack(backward[::-1])
    return joint / joint.sum(1, keepdim=True)


def _likelihood(values: Tensor, table: Tensor) -> Tensor:
    """P(values[t] | state), [length, 4]; 1 where a value is missing."""
    missing = values.isnan()
    seen = table.T[values.masked_fill(missing, 0).long()]
    return seen.masked_fill(missing[:, None], 1)


def error(
    model: GSDM | None,
    length: int,
    instances: int = 20,
    samples: int = 100,
    given: Literal["y", "any"] = "y",
) -> dict[str, float]:
    """Errors of the marginals of sampled states, see `marginal_errors`.

    Without a model, those of exact samples: what so few of them show by chance.

    Args:
        model: The model, or None.
        length: Of the chains.
        instances: How many chains.
        samples: How many samples of each.
        given: All of y, or random entries of y and z.
    """
    problem, generator = hidden_markov(length=length), torch.Generator().manual_seed(1)
    values = problem.sample_batch(instances, generator)
    known = {"y": values["y"]} if given == "y" else hide(values, generator)
    hidden = torch.full((instances, length), torch.nan)
    z = known.get("z", hidden)
    pairs = zip(known["y"], z, strict=True)
    exact = torch.stack([exact_marginals(*pair) for pair in pairs])
    if model is None:
        rows = exact.flatten(0, 1)  # [instances * length, 4]
        drawn = rows.multinomial(samples, replacement=True, generator=generator)
        drawn = drawn.unflatten(0, (instances, length)).transpose(1, 2)
    else:
        drawn = model.sample(problem, known, samples, generator=2)["z"]
    found = one_hot(drawn, 4).double().mean(1)  # [instances, length, 4]
    unknown = z.isnan()
    return marginal_errors([(found[unknown], exact[unknown])])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--samples", type=int, default=100, help="of each chain")
    parser.add_argument("--observe", choices=("roles", "mixed"), default="roles")
    parser.add_argument("--edge-kinds", default="auto")
    parser.add_argument("--embedding", default="exchangeable")
    args = parser.parse_args()
    family = hidden_markov.family(length=(2, 10))
    model = GSDM.from_problem(
        family,
        layers=10,
        heads=4,
        observe=args.observe,
        edge_kinds=args.edge_kinds,
        embedding=args.embedding,
    )
    model.fit(max_steps=args.steps, batch_size=64)
    for given in ("y", "any") if args.observe == "mixed" else ("y",):
        for length in (10, 30):
            found, chance = (
                error(m, length, samples=args.samples, given=given)
                for m in (model, None)
            )
            print(f"length {length}, given {given}:\n{comparison(found, chance)}")


if __name__ == "__main__":
    main()
