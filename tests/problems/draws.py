"""Instances of a problem for tests, drawn together as one batch."""

import torch


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw_batch(problem, num, seed=0):
    """`num` instances: an array [num, *shape] per variable."""
    return problem.sample_batch(num, seeded(seed))


def draw_list(problem, num, seed=0):
    """`num` instances one by one: a list of an array [*shape] per variable."""
    batch = draw_batch(problem, num, seed)
    return [{name: v[i] for name, v in batch.items()} for i in range(num)]
