"""What solving returns, and what it is verified by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gsdm_pyg.encoding import Arrays
from gsdm_pyg.problem import Problem, graph_of
from gsdm_pyg.returned import Method, as_values, check_by_name
from gsdm_pyg.variables import Continuous, Role


@dataclass(frozen=True)
class Solution:
    """The answer to one instance; only what is verified is a solution.

    Args:
        solution: An array per variable: the first verified answer, and without one the
            answer that violates least.
        verified: Whether it satisfies all constraints.
        evaluations: Evaluations of the network that all answers of the instance took.
        solutions: The different verified answers, [D, *shape] per variable, in the
            order in which they were found.
        counts: How often each of them was found, [D].
        violations: What `solution` still violates, by the name of the constraint;
            nothing if it is verified.
        path: Estimates on the way to `solution`, [evaluations, *shape] per variable, if
            asked for.
    """

    solution: dict[str, Tensor]
    verified: bool
    evaluations: int
    solutions: dict[str, Tensor]
    counts: Tensor
    violations: dict[str, Tensor] = field(default_factory=dict)
    path: dict[str, Tensor] | None = None

    @property
    def distinct(self) -> int:
        """How many different solutions were found."""
        return len(self.counts)

    def __str__(self) -> str:
        """In words, such as "verified after 50 evaluations"."""
        cost = f"after {self.evaluations} evaluations"
        if self.verified:
            return f"verified {cost}"
        broken = ", ".join(self.violations) or "nothing was tried"
        return f"not solved {cost}: {broken}"


def broken(problem: Problem, samples: Arrays) -> dict[str, Tensor]:
    """By how much S samples miss each constraint, [S, *any], 0 within the tolerance.

    That latent values are in their domains is a constraint of every problem. A
    violation that is true, or not a number, is infinite: no tolerance allows it.
    """
    method = Method("violations", problem)
    found = problem.violations(samples)
    check_by_name(method, found)
    num = len(next(iter(samples.values())))
    missed = {}
    for name, value in found.items():
        values = as_values(method, name, value)
        amount = values.double()
        if values.dtype == torch.bool:
            amount = torch.where(values, torch.inf, 0.0).double()
        if (amount < 0).any():
            raise ValueError(
                f"{method} returns by how much {name!r} is missed, at least 0: take "
                f"the absolute value (got {amount.min().item()})."
            )
        if amount.dim() == 0 or len(amount) != num:
            raise ValueError(
                f"{method} must return {name!r} in the shape (S, ...), here S = {num} "
                f"samples (got {tuple(amount.shape)})."
            )
        amount = torch.where(amount.isnan(), torch.inf, amount)
        missed[name] = torch.where(amount > problem.tolerance, amount, 0.0)
    for name, variable in graph_of(problem).variables.items():
        if variable.role is Role.LATENT:
            outside = variable.domain.outside(samples[name])
            missed[f"{name} is in its domain"] = outside.double()
    return missed


def num_broken(missed: Arrays, num: int) -> Tensor:
    """How many constraints each of `num` samples misses, [num]."""
    counts = torch.zeros(num, dtype=torch.long)
    for amount in missed.values():
        counts += (amount > 0).flatten(1).sum(1) if amount.dim() > 1 else amount > 0
    return counts


def amount_broken(missed: Arrays, num: int) -> Tensor:
    """By how much each of `num` samples misses constraints in sum, [num]."""
    sums = torch.zeros(num, dtype=torch.double)
    for amount in missed.values():
        sums += amount.double().reshape(num, -1).sum(1)
    return sums


def distinct(
    problem: Problem, answers: Sequence[dict[str, Tensor]]
) -> tuple[dict[str, Tensor], Tensor]:
    """The different answers [D, *shape] per variable, and how often each comes [D].

    Answers are the same if their latent classes agree, and their latent numbers up to
    the tolerance.
    """
    variables = graph_of(problem).variables
    numbers: dict[tuple[float, ...], int] = {}
    kept: list[dict[str, Tensor]] = []
    counts: list[int] = []
    for answer in answers:
        key: list[float] = []
        for name, value in answer.items():
            if variables[name].role is not Role.LATENT:
                continue
            if isinstance(variables[name].domain, Continuous) and problem.tolerance:
                value = (value.double() / problem.tolerance).round()
            key += value.flatten().tolist()
        number = numbers.setdefault(tuple(key), len(kept))
        if number == len(kept):
            kept.append(answer)
            counts.append(0)
        counts[number] += 1
    names = answers[0] if answers else {}
    stacked = {name: torch.stack([answer[name] for answer in kept]) for name in names}
    return stacked, torch.tensor(counts, dtype=torch.long)
