"""Tries by sampling: each is a new sample, and a short one.

Where answers are verified, several short samples find a solution sooner than a long
one, and a new one sooner than a restart of the last (docs/solving.md has the figures).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gsdm_pyg.data import encode
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.posterior import SamplingInterrupted, sample_posterior
from gsdm_pyg.settings import SamplerSettings
from gsdm_pyg.solving.task import OnEstimate, Task, Tried

SHORT = 10  # steps of the first tries
LONGER = 8  # after so many tries, the next ones have twice the steps


class Sampling:
    """Draws a sample of each row.

    Args:
        diffusion: A trained diffusion model.
        task: The rows to solve.
        sampler: How to draw; its steps are the most that a try has, and its restarts
            are not used.
        max_nodes: Draw in batches of at most this many nodes.
    """

    def __init__(
        self,
        diffusion: GraphDiffusion,
        task: Task,
        sampler: SamplerSettings,
        max_nodes: int,
    ) -> None:
        self._diffusion = diffusion
        self._task = task
        self._sampler = sampler.updated({"restarts": 0})
        self._max_nodes = max_nodes

    def cost(self, number: int) -> int:
        """Evaluations of the network that a try takes, tries counted from 0."""
        return min(SHORT * 2 ** (number // LONGER), self._sampler.steps)

    def __call__(
        self,
        rows: Tensor,
        number: int,
        budget: Tensor,
        generator: Callable[[int], torch.Generator],
        on_estimate: OnEstimate | None = None,
    ) -> Iterator[Tried]:
        """Samples of the rows, as they are finished.

        Args:
            rows: Which rows to try, [b].
            number: The number of the try, counted from 0.
            budget: Evaluations left to each, at least `cost(number)`.
            generator: Source of randomness of the i-th of the rows.
            on_estimate: Called after each evaluation, see `Search`.
        """
        steps, options = self.cost(number), self._diffusion.settings.graph
        instances = encode(self._task.problem, *self._task.given(rows), options)

        def follow(chunk: slice, x: Tensor) -> None:
            if on_estimate is not None:
                on_estimate(rows[chunk], x.cpu())

        try:
            samples = sample_posterior(
                self._diffusion,
                instances,
                self._sampler.updated({"steps": steps}),
                generator,
                self._max_nodes,
                follow,
            )
        except SamplingInterrupted as partial:
            found = len(next(iter(partial.samples.values())))
            yield Tried(rows[:found], partial.samples, torch.full((found,), steps))
            raise
        yield Tried(rows, samples, torch.full((len(rows),), steps))
