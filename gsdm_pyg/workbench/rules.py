"""Rules of a problem on the page: which samples break them, and at which entries."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import Tensor

from gsdm_pyg.solving.solution import broken
from gsdm_pyg.workbench.subject import Subject

logger = logging.getLogger("gsdm_pyg")


def broken_rules(subject: Subject, samples: dict[str, Tensor]) -> dict[str, Any]:
    """What S samples break: `broken` has the names of rules, `wrong` the entries.

    A rule marks the entries of a variable if a panel says so, or if it is called like
    the variable, see `Panel`. Nothing is returned where the problem has no rules.

    Args:
        subject: The problem and its panels.
        samples: An array [S, *shape] per variable.
    """
    problem = subject.problem
    if not subject.has_rules:
        return {}
    num = len(next(iter(samples.values())))
    try:
        missed = {name: v > 0 for name, v in broken(problem, samples).items()}
    except Exception:  # code of a user, which estimates may be too strange for
        logger.exception("violations() of %s failed; its rules are not shown", problem)
        return {}
    names: list[list[str]] = [[] for _ in range(num)]
    wrong: dict[str, Tensor] = {}
    marks = {rule: name for p in subject.panels for rule, name in p.marks.items()}
    for rule, where in missed.items():
        for sample in where.reshape(num, -1).any(1).nonzero()[:, 0].tolist():
            names[sample].append(rule)
        name = marks.get(rule, rule)
        if name in samples:
            entries = _entries(where, samples[name].shape)
            if entries is not None:
                wrong[name] = wrong.get(name, torch.zeros_like(entries)) | entries
    return {
        "broken": names,
        "wrong": {n: [w.flatten().tolist() for w in each] for n, each in wrong.items()},
    }


def _entries(where: Tensor, shape: torch.Size) -> Tensor | None:
    """Booleans [S, *shape] of entries, from those of entries or of leading axes."""
    if where.shape != shape[: where.dim()]:
        return None
    return where.reshape(*where.shape, *[1] * (len(shape) - where.dim())).expand(shape)
