"""Tries by committing: one entry after the other gets a class, and what follows, too."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from gsdm_pyg.data import Instances, encode, to_batch
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.posterior import batches_of
from gsdm_pyg.problem import graph_of
from gsdm_pyg.solving.implied import Implications
from gsdm_pyg.solving.task import OnEstimate, Task

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
    ) -> tuple[dict[str, Tensor], Tensor]:
        """An answer for each row and what it took, as `Sampling` has it.

        Where it ends without an answer, the likeliest classes fill the rest.
        """
        problem = self._task.problem
        instances = encode(problem, *self._task.given(rows), self._options)
        answers, spent = [], []
        for chunk in batches_of(instances, self._options, self._max_nodes):
            own = [generator(i) for i in range(chunk.start, chunk.stop)]
            part = instances[chunk]
            x, cost = self._fill(part, rows[chunk], budget[chunk], own, on_estimate)
            answers.append(x)
            spent.append(cost)
        return dict(self._graph.decode(torch.cat(answers))), torch.cat(spent)

    def _fill(
        self,
        instances: Instances,
        rows: Tensor,
        budget: Tensor,
        generators: list[torch.Generator],
        on_estimate: OnEstimate | None,
    ) -> tuple[Tensor, Tensor]:
        """Values [b, N, W] and evaluations [b]."""
        x, known = instances.x.clone(), instances.observed.clone()
        allowed, x, known = self._implied(x, known)
        spent = torch.zeros(len(x), dtype=torch.long)
        going = ~known.all(1) & ~self._implied.contradictory(allowed, known).any(1)
        while going.any():
            at = going.nonzero()[:, 0]
            p = self._marginals(x[at], known[at], [generators[i] for i in at.tolist()])
            spent[at] += 1
            if on_estimate is not None:
                on_estimate(rows[at], torch.where(known[at, :, None], x[at], p))
            p = p * allowed[at]
            done = self._commit(p, known[at], [generators[i] for i in at.tolist()])
            x[at] = torch.where(known[at, :, None], x[at], done)
            committed = known[at] | (done.sum(-1) > 0)
            left, filled, all_known = self._implied(x[at], committed)
            wrong = self._implied.contradictory(left, all_known).any(1)
            allowed[at], x[at], known[at] = left, filled, all_known
            over = wrong | all_known.all(1) | (spent[at] >= budget[at])
            x[at] = torch.where(all_known[..., None] | ~over[:, None, None], x[at], p)
            going[at] = ~over
        return x, spent

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
