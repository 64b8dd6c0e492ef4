"""Relations of nodes, [2, M]: drawn at random, composed, closed over dropped nodes.

Each of the P columns is a pair of related nodes.
"""

from __future__ import annotations

import torch
from torch import Tensor


def random_relation(
    num_nodes: int, degree: int, generator: torch.Generator | None = None
) -> Tensor:
    """A relation (source, node) [2, M] of each node and `degree` distinct others.

    All sets of sources are equally likely (Floyd's algorithm, for all nodes at once).

    Args:
        num_nodes: Number of nodes N.
        degree: Sources per node; all other nodes if there are fewer.
        generator: Source of randomness.
    """
    others = max(num_nodes - 1, 0)
    chosen = torch.empty(num_nodes, 0, dtype=torch.long)
    for last in range(max(others - degree, 0), others):
        drawn = torch.randint(last + 1, (num_nodes, 1), generator=generator)
        taken = (chosen == drawn).any(1, keepdim=True)
        chosen = torch.cat([chosen, torch.where(taken, last, drawn)], dim=1)
    node = torch.arange(num_nodes)[:, None]
    chosen = chosen + (chosen >= node)  # skip the node itself
    return torch.stack([chosen.reshape(-1), node.expand_as(chosen).reshape(-1)])


def ancestors_through(dropped: Tensor, edges: Tensor) -> Tensor:
    """The relation (kept ancestor, dropped node) [2, M] along dropped nodes only.

    Args:
        dropped: Which nodes are dropped, booleans [N].
        edges: The directed edges [2, E], parent over child.
    """
    into_dropped = edges[:, dropped[edges[1]]]
    frontier = torch.unique(into_dropped[:, ~dropped[into_dropped[0]]], dim=1)
    between = into_dropped[:, dropped[into_dropped[0]]]
    found = frontier
    for _ in range(int(dropped.sum())):
        frontier = torch.unique(compose(frontier, between), dim=1)
        extended = torch.unique(torch.cat([found, frontier], dim=1), dim=1)
        if extended.size(1) == found.size(1):
            break
        found = extended
    return found


def compose(left: Tensor, right: Tensor) -> Tensor:
    """All (a, c) with (a, b) in `left` and (b, c) in `right`, once for each such b."""
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


def replace_dropped(relation: Tensor, dropped: Tensor, ancestors: Tensor) -> Tensor:
    """A relation [2, M] whose second nodes, where dropped, become their ancestors.

    Args:
        relation: Any relation to nodes, [2, M].
        dropped: Which nodes are dropped, booleans [N].
        ancestors: The ancestors of dropped nodes, see `ancestors_through`.
    """
    replaced = dropped[relation[1]]
    expanded = compose(relation[:, replaced], ancestors.flip(0))
    return torch.cat([relation[:, ~replaced], expanded], dim=1)
