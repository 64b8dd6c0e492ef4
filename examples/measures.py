"""How far samples are from a posterior that is known exactly.

The examples that have one measure with these functions, for a model and for as many
exact samples: what the latter show is chance.
"""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor


def join(values: Mapping[str, Tensor], lead: int) -> Tensor:
    """All variables as one array [*lead, n], in their order.

    Args:
        values: An array [*lead, *shape] per variable.
        lead: How many axes come before the shape of a variable.
    """
    return torch.cat([v.reshape(*v.shape[:lead], -1) for v in values.values()], -1)


def hide(values: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Values with NaN in place of random entries: what is left is given.

    Of the n entries of an instance, 0 to n - 1 are left, with equal chance.

    Args:
        values: An array [B, *shape] per variable.
        generator: Source of randomness.
    """
    joined = join(values, 1).double()  # [B, n]
    num, size = joined.shape
    ranks = torch.rand(num, size, generator=generator).argsort(1).argsort(1)
    num_left = torch.randint(0, size, (num, 1), generator=generator)
    joined = joined.masked_fill(ranks >= num_left, torch.nan)
    parts = joined.split([v[0].numel() for v in values.values()], 1)
    return {
        name: part.reshape(v.shape)
        for (name, v), part in zip(values.items(), parts, strict=True)
    }


def moment_errors(samples: Tensor, mean: Tensor, std: Tensor) -> dict[str, float]:
    """Errors of the mean and the standard deviation of S samples.

    Both are relative to the exact standard deviation, as root mean squares over all
    entries that have one above 0. S exact samples of a Gaussian have errors of about
    1 / sqrt(S) and 1 / sqrt(2 S).

    Args:
        samples: [..., S, n].
        mean: The exact mean, [..., n].
        std: The exact standard deviation, [..., n].
    """
    unknown = std > 0
    errors = {
        "mean": (samples.mean(-2) - mean)[unknown] / std[unknown],
        "spread": samples.std(-2)[unknown] / std[unknown] - 1,
    }
    return {name: e.square().mean().sqrt().item() for name, e in errors.items()}


def marginal_errors(marginals: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Errors of marginal probabilities: absolute differences and total variation.

    `probability` is the mean absolute difference over all classes of all entries,
    `total_variation` the mean over entries of half the sum over their classes.

    Args:
        marginals: Found and exact probabilities [M, K], of M entries with K classes
            each; entries with other numbers of classes come as another pair.
    """
    differences = [(found - exact).abs() for found, exact in marginals]
    distances = torch.cat([d.sum(-1) / 2 for d in differences])
    every = torch.cat([d.flatten() for d in differences])
    return {
        "probability": every.mean().item(),
        "total_variation": distances.mean().item(),
    }


def comparison(found: Mapping[str, float], chance: Mapping[str, float]) -> str:
    """A line per error, beside that of exact samples.

    Args:
        found: Errors of a model by name.
        chance: Those of as many exact samples.
    """
    lines = []
    for name, value in found.items():
        ratio = f", ratio {value / chance[name]:.2f}" if chance[name] else ""
        lines.append(
            f"  {name:16} {value:.4f} (exact samples: {chance[name]:.4f}{ratio})"
        )
    return "\n".join(lines)
