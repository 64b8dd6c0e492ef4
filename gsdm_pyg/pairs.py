"""Relations between nodes, as pairs [2, P]: drawn at random, joined, shortened."""

from __future__ import annotations

import torch
from torch import Tensor


def random_pairs(
    num_nodes: int, degree: int, generator: torch.Generator | None = None
) -> Tensor:
    """Pairs [2, P] that give each node `degree` different others as sources.

    All subsets are equally likely (Floyd's algorithm, for all nodes at once).

    Args:
        num_nodes: Nodes to draw for, and from.
        degree: Others per node; all of them if there are fewer.
        generator: Source of randomness.
    """
    others = max(num_nodes - 1, 0)
    chosen = torch.empty(num_nodes, 0, dtype=torch.long)
    for last in range(max(others - degree, 0), others):
        drawn = torch.randint(last + 1, (num_nodes, 1), generator=generator)
        taken = (chosen == drawn).any(1, keepdim=True)
        chosen = torch.cat([chosen, torch.where(taken, last, drawn)], dim=1)
    node = torch.arange(num_nodes)[:, None]
    chosen = chosen + (chosen >= node)  # nobody is among the others of itself
    return torch.stack([chosen.reshape(-1), node.expand_as(chosen).reshape(-1)])


def through(dropped: Tensor, edges: Tensor) -> Tensor:
    """Pairs [2, P] (kept ancestor, dropped node) linked through dropped nodes only."""
    into_dropped = edges[:, dropped[edges[1]]]
    frontier = torch.unique(into_dropped[:, ~dropped[into_dropped[0]]], dim=1)
    between = into_dropped[:, dropped[into_dropped[0]]]
    found = frontier
    for _ in range(int(dropped.sum())):
        frontier = torch.unique(join(frontier, between), dim=1)
        longer = torch.unique(torch.cat([found, frontier], dim=1), dim=1)
        if longer.size(1) == found.size(1):
            break
        found = longer
    return found


def join(left: Tensor, right: Tensor) -> Tensor:
    """All (a, c) with (a, b) in `left` and (b, c) in `right`; both [2, P]."""
    right = right[:, right[0].argsort()]
    start = torch.searchsorted(right[0].contiguous(), left[1].contiguous())
    stop = torch.searchsorted(right[0].contiguous(), left[1].contiguous(), right=True)
    count = stop - start
    first = (start - (count.cumsum(0) - count)).repeat_interleave(count)
    return torch.stack(
        [
            left[0].repeat_interleave(count),
            right[1][first + torch.arange(first.numel())],
        ]
    )


def replace_last(pairs: Tensor, dropped: Tensor, ancestry: Tensor) -> Tensor:
    """`pairs` [2, P] with dropped nodes in the last row replaced by their ancestors."""
    gone = dropped[pairs[1]]
    expanded = join(pairs[:, gone], ancestry.flip(0))
    return torch.cat([pairs[:, ~gone], expanded], dim=1)
