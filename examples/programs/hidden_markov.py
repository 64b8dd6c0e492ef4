"""A hidden Markov model whose time has a direction, with its exact posterior.

    python -m examples.programs.hidden_markov --steps 1200

The chain mostly goes round 0 -> 1 -> 2 -> 3 -> 0. The program says nothing of time; the
model learns its direction from the kinds of edges. With `--edge-kinds ignored` it
cannot, and its error stays at that of a model that knows no direction. With positions
instead (`--edge-kinds ignored --embedding array`) it knows no lengths beyond training.
"""

import argparse

import torch
from torch import Tensor
from torch.distributions import Categorical
from torch.nn.functional import one_hot

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


def exact_marginals(y: Tensor) -> Tensor:
    """P(z[t] | y) by the forward-backward algorithm, [length, 4]."""
    start, move, show = START.double(), MOVE.double(), SHOW.double()
    forward, backward = [start * show[:, y[0]]], [torch.ones(4, dtype=torch.double)]
    for seen in y[1:]:
        message = (forward[-1] / forward[-1].sum()) @ move
        forward.append(message * show[:, seen])
    for seen in y[1:].flip(0):
        message = move @ (show[:, seen] * backward[-1])
        backward.append(message / message.sum())
    joint = torch.stack(forward) * torch.stack(backward[::-1])
    return joint / joint.sum(1, keepdim=True)


def error(
    model: GSDM | None, length: int, instances: int = 20, samples: int = 100
) -> float:
    """The mean total-variation distance of sampled marginals from the exact ones.

    Without a model, that of exact samples: what so few of them show by chance.
    """
    problem, generator = hidden_markov(length=length), torch.Generator().manual_seed(1)
    y = problem.sample_batch(instances, generator)["y"]
    exact = torch.stack([exact_marginals(seen) for seen in y])
    if model is None:
        rows = exact.flatten(0, 1)  # [instances * length, 4]
        z = rows.multinomial(samples, replacement=True, generator=generator)
        z = z.unflatten(0, (instances, length)).transpose(1, 2)
    else:
        z = model.sample(problem, {"y": y}, samples, generator=2)["z"]
    found = one_hot(z, 4).double().mean(1)  # [instances, length, 4]
    return (found - exact).abs().sum(-1).mean().item() / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--edge-kinds", default="auto")
    parser.add_argument("--embedding", default="exchangeable")
    args = parser.parse_args()
    family = hidden_markov.family(length=(2, 10))
    options = {"edge_kinds": args.edge_kinds, "embedding": args.embedding}
    model = GSDM.from_problem(family, layers=10, heads=4, **options)
    model.fit(max_steps=args.steps, batch_size=64)
    for length in (10, 30):
        print(
            f"length {length}: total variation {error(model, length):.3f} "
            f"(exact samples: {error(None, length):.3f})"
        )


if __name__ == "__main__":
    main()
