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
        path: The estimates of the try that found `solution`, [T, *shape] per variable,
            if asked for.
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

    An answer is another one if its latent classes differ from those of all before it,
    or its latent numbers do by more than the tolerance. Entries are compared one by
    one: what only changes the order of exchangeable entries is another answer.
    """
    if not answers:
        return {}, torch.zeros(0, dtype=torch.long)
    stacked = {name: torch.stack([a[name] for a in answers]) for name in answers[0]}
    rows, within = [], []
    for name, variable in graph_of(problem).variables.items():
        if variable.role is Role.LATENT:
            rows.append(stacked[name].double().reshape(len(answers), -1))
            number = isinstance(variable.domain, Continuous)
            allowed = problem.tolerance if number else 0.0
            within.append(torch.full_like(rows[-1][0], allowed))
    values, tolerance = torch.cat(rows, 1), torch.cat(within)
    first: list[int] = []  # the first of each set of answers that are the same
    counts: list[int] = []
    for index, row in enumerate(values):
        same = ((values[first] - row).abs() <= tolerance).all(1).nonzero()[:, 0]
        if len(same):
            counts[int(same[0])] += 1
        else:
            first.append(index)
            counts.append(1)
    return {n: value[first] for n, value in stacked.items()}, torch.tensor(counts)
