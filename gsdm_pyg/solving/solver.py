"""Instances in, solutions out: what `GSDM.solve` does."""

from __future__ import annotations

import torch
from torch import Tensor

from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings import SamplerSettings, SearchSettings
from gsdm_pyg.solving.search import Search, imply
from gsdm_pyg.solving.solution import Solution, distinct
from gsdm_pyg.solving.task import OnEstimate, Task


class SolvingInterrupted(KeyboardInterrupt):
    """Ctrl-C while solving: `solutions` has what was found so far."""

    def __init__(self, solutions: list[Solution]) -> None:
        super().__init__()
        self.solutions = solutions


def solve(
    diffusion: GraphDiffusion,
    problem: Problem,
    values: Arrays,
    known: Arrays,
    sampler: SamplerSettings,
    search: SearchSettings,
    seed: int,
    max_nodes: int,
    num_solutions: int = 1,
    return_path: bool = False,
    on_estimate: OnEstimate | None = None,
) -> list[Solution]:
    """A solution of each of B instances.

    Args:
        diffusion: A trained diffusion model.
        problem: The problem.
        values: An array [B, *shape] per variable of which something is given.
        known: A boolean array [B, *shape] per variable.
        sampler: How a try by sampling draws.
        search: How to try, and how often.
        seed: Chooses all randomness.
        max_nodes: Draw in batches of at most this many nodes.
        num_solutions: How many answers to look for of each instance.
        return_path: Whether solutions keep the estimates on the way.
        on_estimate: Called after each evaluation of the network with the instances
            [b] that it was made for, and their estimated values [b, N, W].
    """
    options = diffusion.settings.graph
    values, known = imply(problem, values, known, options)
    repeated = [
        {
            name: array.repeat_interleave(num_solutions, 0)
            for name, array in arrays.items()
        }
        for arrays in (values, known)
    ]
    task = Task(problem, *repeated)

    def follow(rows: Tensor, x: Tensor) -> None:
        assert on_estimate is not None
        on_estimate(rows // num_solutions, x)

    def generator(row: int, number: int) -> torch.Generator:
        return keyed_generator("solve", seed, *divmod(row, num_solutions), number)

    following = None if on_estimate is None else follow
    run = Search(
        diffusion, task, sampler, search, generator, max_nodes, return_path, following
    )
    decode = graph_of(problem, options).decode

    def solutions() -> list[Solution]:
        found = []
        for first in range(0, len(task), num_solutions):
            rows = torch.arange(first, first + num_solutions)
            shown = min(rows.tolist(), key=run.missed_by)  # the first of the best
            frames = run.paths.get(shown)
            path = dict(decode(torch.stack(frames))) if frames else None
            found.append(_solution(run, rows, shown, path))
        return found

    try:
        run.run()
    except KeyboardInterrupt as stop:
        raise SolvingInterrupted(solutions()) from stop
    return solutions()


def _solution(
    run: Search, rows: Tensor, shown: int, path: dict[str, Tensor] | None
) -> Solution:
    """The solution of the instance that some rows belong to.

    Args:
        run: The search, which may not be finished.
        rows: The answers of the instance.
        shown: The one to show.
        path: The estimates on the way to it.
    """
    answers = [
        {name: value[row] for name, value in run.best.items()}
        for row in rows[run.solved[rows]].tolist()
    ]
    tried = run.num_broken[shown] < torch.iinfo(torch.long).max
    best = {name: value[shown] for name, value in run.best.items()} if tried else {}
    amounts = {name: amount[shown] for name, amount in run.missed.items()}
    missed = {name: amount for name, amount in amounts.items() if amount.any()}
    return Solution(
        best,
        bool(run.solved[shown]),
        int(run.evaluations[rows].sum()),
        *distinct(run.task.problem, answers),
        missed,
        path,
    )
