"""Repeat tries until each row is solved or has used up what it may cost."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from tqdm import tqdm

from gsdm_pyg.data import encode
from gsdm_pyg.diffusion import GraphDiffusion
from gsdm_pyg.encoding import Arrays
from gsdm_pyg.posterior import progress_bar
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.settings import GraphOptions, SamplerSettings, SearchSettings
from gsdm_pyg.solving.committing import Committing
from gsdm_pyg.solving.implied import Implications
from gsdm_pyg.solving.sampling import Sampling
from gsdm_pyg.solving.solution import amount_broken, broken, num_broken
from gsdm_pyg.solving.task import OnEstimate, Task
from gsdm_pyg.variables import Role

AT_ONCE = 32  # answers that are polished together: Ctrl-C loses no others


class Search:
    """Tries every row of a task; what is found so far is there at any time.

    Args:
        diffusion: A trained diffusion model.
        task: The rows.
        sampler: How a try by sampling draws.
        search: How to try, and how often.
        generator: The source of randomness of a row in its i-th try, so that the answer
            of a row does not depend on which others are solved with it.
        max_nodes: Draw in batches of at most this many nodes.
        keep_paths: Whether to keep the estimates of the tries that answers came by.
        on_estimate: Called after each evaluation of the network with the rows [b] that
            it was made for and their estimated values [b, N, W].
    """

    best: dict[str, Tensor]  # the answer of each row that misses least, [R, *shape]
    num_broken: Tensor  # constraints that it misses, [R]; 0 if it is a solution
    missed: dict[str, Tensor]  # by how much, per constraint, [R, *any]
    evaluations: Tensor  # that each row took, [R]
    paths: dict[int, list[Tensor]]  # estimates [N, W] of the try of a row's answer

    def __init__(
        self,
        diffusion: GraphDiffusion,
        task: Task,
        sampler: SamplerSettings,
        search: SearchSettings,
        generator: Callable[[int, int], torch.Generator],
        max_nodes: int,
        keep_paths: bool,
        on_estimate: OnEstimate | None = None,
    ) -> None:
        self.task = task
        self._search = search
        self._generator = generator
        self._keep_paths = keep_paths
        self._on_estimate = on_estimate
        options, most = diffusion.settings.graph, search.max_evaluations
        if most is not None and most < sampler.steps:
            sampler = sampler.updated({"steps": most, "restarts": 0})
        self._try: Sampling | Committing = (
            Committing(diffusion, task, max_nodes)
            if _commits(search, task, options)
            else Sampling(diffusion, task, sampler, max_nodes)
        )
        self.best, self.missed, self.paths = {}, {}, {}
        self._frames: dict[int, list[Tensor]] = {}  # of the try of each row at hand
        self.num_broken = torch.full((len(task),), torch.iinfo(torch.long).max)
        self._amount = torch.full((len(task),), torch.inf, dtype=torch.double)
        self.evaluations = torch.zeros(len(task), dtype=torch.long)

    @property
    def solved(self) -> Tensor:
        """Which rows are solved, [R]."""
        return self.num_broken == 0

    def missed_by(self, row: int) -> tuple[int, float]:
        """How many constraints the answer of a row misses, and by how much in sum."""
        return int(self.num_broken[row]), float(self._amount[row])

    def run(self) -> None:
        """Solve what can be solved; Ctrl-C leaves what is found so far."""
        most = self._search.max_evaluations or torch.iinfo(torch.long).max
        with progress_bar(len(self.task), "solving") as bar:
            self._take_what_is_given()
            bar.update(int(self.solved.sum()))
            for number in range(self._search.tries):
                budget = most - self.evaluations
                affordable = budget >= self._try.cost(number)
                rows = (~self.solved & affordable).nonzero()[:, 0]
                if not len(rows):
                    break
                self._again(rows, number, budget[rows], bar)

    def _again(self, rows: Tensor, number: int, budget: Tensor, bar: tqdm) -> None:
        """One more try of some rows [b]."""

        def generator(i: int) -> torch.Generator:
            return self._generator(int(rows[i]), number)

        self._frames = {row: [] for row in rows.tolist()}
        follows = self._keep_paths or self._on_estimate is not None
        follow = self._follow if follows else None
        for tried in self._try(rows, number, budget, generator, follow):
            self.evaluations[tried.rows] += tried.evaluations
            for part in torch.arange(len(tried.rows)).split(AT_ONCE):
                answers = {name: value[part] for name, value in tried.answers.items()}
                self._keep(tried.rows[part], answers)
                bar.update(int(self.solved.sum()) - bar.n)

    def _follow(self, rows: Tensor, x: Tensor) -> None:
        if self._keep_paths:
            for row, nodes in zip(rows.tolist(), x.cpu(), strict=True):
                self._frames[row].append(nodes.clone())
        if self._on_estimate is not None:
            self._on_estimate(rows, x)

    def _take_what_is_given(self) -> None:
        """Verify rows of which all is known; one that is no solution is rejected."""
        variables = graph_of(self.task.problem).variables
        complete = torch.ones(len(self.task), dtype=torch.bool)
        for name, mask in self.task.known.items():
            if variables[name].role is not Role.INTERMEDIATE:
                complete &= mask.flatten(1).all(1) if mask.dim() > 1 else mask
        rows = complete.nonzero()[:, 0]
        answers = self.task.given(rows)[0]
        self._keep(rows, answers)
        wrong = rows[~self.solved[rows]]
        if len(wrong):
            missed = [n for n, amount in self.missed.items() if amount[wrong[0]].any()]
            raise ValueError(
                "Everything is given and contradicts the constraints: leave unknown "
                f"what is to be found (got a violation of {', '.join(missed)})."
            )

    def _keep(self, rows: Tensor, samples: dict[str, Tensor]) -> None:
        """Polish and verify answers of some rows, and keep those that miss less."""
        if not len(rows):
            return
        problem, (values, known) = self.task.problem, self.task.given(rows)
        polished = {**samples, **problem.polish(samples, known)}
        answers = {
            name: torch.where(known[name], values[name].to(value), value)
            if name in values
            else value
            for name, value in polished.items()
        }
        missed = broken(problem, answers)
        for name, variable in graph_of(problem).variables.items():
            if variable.role is Role.INTERMEDIATE and name in polished:
                off = (answers[name].double() - polished[name].double()).abs()
                off = torch.where(off > problem.tolerance, off, 0.0)
                missed[f"{name} as given"] = off
        num, amount = num_broken(missed, len(rows)), amount_broken(missed, len(rows))
        best = self.num_broken[rows]
        less = (num < best) | ((num == best) & (amount < self._amount[rows]))
        for kept, found in ((self.best, answers), (self.missed, missed)):
            better = {name: value[less] for name, value in found.items()}
            _put(kept, rows[less], better, len(self.task))
        for row in rows[less].tolist():
            self.paths[row] = self._frames.get(row, [])
        self._amount[rows[less]] = amount[less]
        self.num_broken[rows[less]] = num[less]


def imply(
    problem: Problem, values: Arrays, known: Arrays, options: GraphOptions
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What is given, and what constraints imply by it; contradictions are rejected.

    Args:
        problem: The problem.
        values: An array [B, *shape] per variable of which something is given.
        known: A boolean array [B, *shape] per variable.
        options: The graph that the model sees.
    """
    implied, decode = Implications(problem, options), graph_of(problem, options).decode
    instances = encode(problem, values, known, options)
    x, observed = instances.x, instances.observed
    if problem.possible(decode(x), implied.named(observed)) is not None:
        allowed, x, observed = implied(x, observed)
        implied.check(implied.contradictory(allowed, observed))
    return dict(decode(x)), implied.named(observed)


def _commits(search: SearchSettings, task: Task, options: GraphOptions) -> bool:
    """Whether to commit classes one by one."""
    if search.method == "sample" or not len(task):
        return False
    numbers = [
        name
        for name, variable in graph_of(task.problem, options).variables.items()
        if variable.domain.num_classes is None and not task.known[name].all()
    ]
    implies = task.problem.possible(*task.given(torch.arange(1))) is not None
    if search.method == "commit" and (numbers or not implies):
        reason = f"{numbers[0]} is a number" if numbers else "it implies nothing"
        raise ValueError(
            'method="commit" needs unknown variables that are all discrete, and '
            f'possible() of the problem: use method="sample" (got {task.problem}, '
            f"of which {reason})."
        )
    return implies and not numbers


def _put(
    arrays: dict[str, Tensor], rows: Tensor, values: Arrays, num_rows: int
) -> None:
    """Write values [b, *shape] of some rows [b] into arrays [R, *shape]."""
    for name, value in values.items():
        if name not in arrays:
            arrays[name] = value.new_zeros((num_rows, *value.shape[1:]))
        arrays[name][rows] = value.to(arrays[name])
