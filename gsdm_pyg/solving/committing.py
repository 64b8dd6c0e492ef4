"""Tries by committing: classes for one entry after the other, and what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from gsdm_pyg.data import Instances, encode, to_batch
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.posterior import batches_of
from gsdm_pyg.problem import graph_of
from gsdm_pyg.solving.implied import Implications
from gsdm_pyg.solving.task import OnEstimate, Task, Tried

CERTAIN = 0.95  # entries of this probability are committed together


class Committing:
    """Draws classes one by one, each from its marginal given those before.

    One evaluation of the network says what each unknown entry may be. A random entry
    gets a class at random by these probabilities, and so do all of which the network is
    certain. `Problem.possible` then says what follows. A try ends with an answer or
    with a contradiction. Drawn from exact marginals, answers have the exact
    distribution. The order is random because training gives random entries, too.

    Args:
        diffusion: A trained diffusion model.
        task: The rows to solve; all unknown entries are discrete.
        max_nodes: Evaluate in batches of at most this many nodes.
    """

    def __init__(self, diffusion: GraphDiffusion, task: Task, max_nodes: int) -> None:
        self._diffusion = diffusion
        self._task = task
        self._max_nodes = max_nodes
        self._options = diffusion.settings.graph
        self._graph = graph_of(task.problem, self._options)
        self._implied = Implications(task.problem, self._options)

    def cost(self, number: int) -> int:
        """The least that a try takes."""
        return 1

    def __call__(
        self,
        rows: Tensor,
        number: int,
        budget: Tensor,
        generator: Callable[[int], torch.Generator],
        on_estimate: OnEstimate | None = None,
    ) -> Iterator[Tried]:
        """Answers of the rows, as they are finished, as `Sampling` has it.

        Where a try ends without an answer, the likeliest classes fill the rest.
        """
        problem = self._task.problem
        instances = encode(problem, *self._task.given(rows), self._options)
        for chunk in batches_of(instances, self._options, self._max_nodes):
            own = [generator(i) for i in range(chunk.start, chunk.stop)]
            part = instances[chunk]
            yield from self._fill(part, rows[chunk], budget[chunk], own, on_estimate)

    def _fill(
        self,
        instances: Instances,
        rows: Tensor,
        budget: Tensor,
        generators: list[torch.Generator],
        on_estimate: OnEstimate | None,
    ) -> Iterator[Tried]:
        """Answers of the rows [b] of one batch."""
        allowed, x, known = self._implied(instances.x, instances.observed)
        left = torch.arange(len(x))  # of the batch, rows whose try goes on
        spent = 0
        while len(left):
            own = [generators[i] for i in left.tolist()]
            p, spent = self._marginals(x, known, own), spent + 1
            if on_estimate is not None:
                on_estimate(rows[left], torch.where(known[..., None], x, p))
            p = p * allowed
            p = torch.where(p.sum(-1, keepdim=True) > 0, p, allowed.to(p))
            codes = self._commit(p, known, own)
            x = torch.where(known[..., None], x, codes)
            allowed, x, known = self._implied(x, known | (codes.sum(-1) > 0))
            wrong = self._implied.contradictory(allowed, known).any(1)
            over = wrong | known.all(1) | (spent >= budget[left])
            if over.any():
                answers = torch.where(known[..., None], x, p)[over]
                cost = torch.full((len(answers),), spent)
                yield Tried(rows[left[over]], self._graph.decode(answers), cost)
            left, x, known, allowed = (a[~over] for a in (left, x, known, allowed))

    def _marginals(
        self, x: Tensor, known: Tensor, generators: list[torch.Generator]
    ) -> Tensor:
        """Class probabilities [b, N, W] given what is known."""
        device = self._diffusion.alpha_bar.device
        part = Instances(self._task.problem, x, known)
        batch = to_batch([part], self._options).to(device)
        return self._diffusion.marginals(batch, generators).cpu().view_as(x)

    @staticmethod
    def _commit(p: Tensor, known: Tensor, generators: list[torch.Generator]) -> Tensor:
        """One-hot codes [b, N, W] of the entries that are committed, zero elsewhere."""
        p = p / p.sum(-1, keepdim=True).clamp(min=1e-30)
        certain = ~known & (p.amax(-1) >= CERTAIN)  # [b, N]
        order = torch.stack([torch.rand(p.size(1), generator=g) for g in generators])
        one = order.masked_fill(known, -1).argmax(1)[:, None]  # [b, 1]
        chosen = certain.scatter(1, one, True)
        threshold = torch.stack(
            [torch.rand(p.size(1), generator=g) for g in generators]
        )
        passed = p.cumsum(-1) <= threshold[..., None] * p.sum(-1, keepdim=True)
        drawn = passed.sum(-1).clamp(max=p.size(-1) - 1)
        code = torch.nn.functional.one_hot(drawn, p.size(-1))
        return code.to(p) * chosen[..., None]
