"""Draws that ignore what is given: what any other method must be better than."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from gsdm_pyg.baselines.baseline import Baseline
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem
from gsdm_pyg.simulate import simulate


class Prior(Baseline):
    """A fresh instance of the problem for each sample."""

    name = "prior"

    def draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        generator: torch.Generator,
    ) -> Mapping[str, Tensor]:
        num = len(next(iter(known.values())))
        drawn = simulate(problem, num * num_samples, generator)
        return {name: v.unflatten(0, (num, num_samples)) for name, v in drawn.items()}


class Marginals(Baseline):
    """Each entry by itself from a fresh instance: right on its own, not together."""

    name = "marginals"

    def draw(
        self,
        problem: Problem,
        values: Arrays,
        known: Arrays,
        num_samples: int,
        generator: torch.Generator,
    ) -> Mapping[str, Tensor]:
        num = len(next(iter(known.values())))
        drawn = simulate(problem, max(num * num_samples, 256), generator)
        picked = {}
        for name, value in drawn.items():
            shape = (num, num_samples, *value.shape[1:])
            which = torch.randint(
                len(value), (num * num_samples, *value.shape[1:]), generator=generator
            )
            picked[name] = value.gather(0, which).view(shape)
        return picked
