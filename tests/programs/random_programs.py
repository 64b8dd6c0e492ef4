"""Random straight-line programs, and how often their traced dependence is too much.

`python -m tests.programs.random_programs 1000` prints the share.
"""

import random
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from tests.programs.oracle import Input, moved, traced

INPUTS = (Input((3, 3)), Input((3, 3), "bool"), Input((3,), "3"))
ZEROS = torch.tensor([[1.0, 0, 2], [0, 1, 0], [0, 0, 1]]).double()
MASK = ZEROS > 0
PLACES = torch.tensor([2, 0, 0])


class Statement(NamedTuple):
    """An operation on two earlier tensors and a number from 0 to 2."""

    operation: int
    first: int
    second: int
    number: int


def _bounded(x: Tensor) -> Tensor:
    """Keep values small, so that none overflows."""
    return 3 * x / (1 + x.abs())


def _set_row(x: Tensor, y: Tensor, n: int) -> Tensor:
    x[n] = y[:, n]
    return x


def _set_by_mask(x: Tensor, y: Tensor, n: int) -> Tensor:
    x[y > n] = 0.5
    return x


def _change_view(x: Tensor, y: Tensor, n: int) -> Tensor:
    x.T[n:] *= y[0]
    return x


def _change_diagonal(x: Tensor, y: Tensor, n: int) -> Tensor:
    x.diagonal().add_(y[n])
    return x


def _noisy(x: Tensor, y: Tensor, n: int) -> Tensor:
    return x + torch.randn(3, dtype=x.dtype) * n


def _convolved(x: Tensor, y: Tensor, n: int) -> Tensor:
    kernel = torch.ones(3, 1, n + 1, dtype=x.dtype)
    return torch.nn.functional.conv1d(x[None], kernel, padding=n, groups=3)[0, :, :3]


POOL: list[Callable[[Tensor, Tensor, int], Tensor]] = [
    lambda x, y, n: _bounded(x + y),
    lambda x, y, n: x - y[n],
    lambda x, y, n: _bounded(x * y),
    lambda x, y, n: torch.maximum(x, y),
    lambda x, y, n: x.tanh(),
    lambda x, y, n: x.round(),
    lambda x, y, n: (x > y).double(),
    lambda x, y, n: torch.where(x > n - 1, x, y),
    lambda x, y, n: torch.where(MASK, x, y),
    lambda x, y, n: x * ZEROS,
    lambda x, y, n: _bounded(x @ y),
    lambda x, y, n: _bounded(x @ ZEROS),
    lambda x, y, n: _bounded(torch.einsum("ij,kj->ik", x, y)),
    lambda x, y, n: _bounded(y + x.sum(n % 2, keepdim=True)),
    lambda x, y, n: x.mean(1)[:, None].expand(3, 3),
    lambda x, y, n: x.amax(0) + y,
    lambda x, y, n: _bounded(x.cumsum(n % 2)),
    lambda x, y, n: x.cummax(n % 2).values,
    lambda x, y, n: x.sort(n % 2).values,
    lambda x, y, n: x.argsort(1).double() / 3,
    lambda x, y, n: x.softmax(n % 2),
    lambda x, y, n: x.logsumexp(0).expand(3, 3),
    lambda x, y, n: x.T,
    lambda x, y, n: x.flip(n % 2),
    lambda x, y, n: x.roll(n, 1),
    lambda x, y, n: x.tril(n - 1),
    lambda x, y, n: x.diagonal().diag_embed(),
    lambda x, y, n: x[PLACES],
    lambda x, y, n: x[:, [n, 0, 1]],
    lambda x, y, n: torch.cat([x[:n], y[n:]]),
    lambda x, y, n: torch.stack([x[0], y[1], x[n]], 1),
    lambda x, y, n: x.reshape(-1).flip(0).view(3, 3),
    lambda x, y, n: _bounded(x.index_add(0, PLACES, y)),
    lambda x, y, n: _bounded(x.clone().add_(y.T)),
    _set_row,
    _set_by_mask,
    _change_view,
    _change_diagonal,
    _noisy,
    _convolved,
]


def run(program: Sequence[Statement]) -> Callable[..., Sequence[Tensor]]:
    """The program as a function of its inputs; its results are its last two tensors."""

    def function(real: Tensor, bits: Tensor, places: Tensor) -> Sequence[Tensor]:
        tensors = [real.clone(), bits.double(), real[places], real[:, places[0]].diag()]
        for operation, first, second, number in program:
            x = tensors[first % len(tensors)]
            y = tensors[second % len(tensors)]
            if 0 in x.stride():
                x = x.clone()  # an expanded tensor cannot be changed in place
            tensors.append(POOL[operation](x, y.clone(), number))
        return [x.clone() for x in tensors[-2:]]

    return function


def draw(seed: int) -> list[Statement]:
    """A program of 5 to 12 statements."""
    chosen = random.Random(seed)
    sizes = (len(POOL), 12, 12, 3)
    length = chosen.randint(5, 12)
    return [Statement(*map(chosen.randrange, sizes)) for _ in range(length)]


def compare(program: Sequence[Statement], num_draws: int = 8) -> tuple[int, int, int]:
    """The numbers of dependencies: missed, too many, and all that were traced."""
    function = run(program)
    generator = torch.Generator().manual_seed(2)
    values = [x.draw(generator) for x in INPUTS]
    found = traced(function, values)
    expected = moved(function, INPUTS, num_draws, found)
    missed = int((expected & ~found).sum())
    return missed, int((found & ~expected).sum()), int(found.sum())


def main(num: int) -> None:
    """Print how many dependencies of `num` programs are missed, and too many."""
    torch.set_num_threads(1)
    counts = [compare(draw(seed), num_draws=80) for seed in range(num)]
    missed, extra, all_found = map(sum, zip(*counts, strict=True))
    print(
        f"{num} programs, {all_found} dependencies: {missed} missed, {extra} too many "
        f"({extra / all_found:.1%})"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
