"""What the page has to know of a subject before anything is computed."""

from __future__ import annotations

import math
from typing import Any

from gsdm_pyg.evaluation import label
from gsdm_pyg.model import GSDM
from gsdm_pyg.variables import Role, Variable
from gsdm_pyg.workbench.subject import Subject


def describe(subject: Subject, most_samples: int) -> dict[str, Any]:
    """The subject as JSON: names, shapes, domains, panels, and what can be asked.

    Args:
        subject: What to describe.
        most_samples: How many samples one request may ask for.
    """
    stamp = subject.stamp  # before the model, so that it is never too new
    problem, graph, model = subject.problem, subject.graph, subject.model
    scales = {} if model is None else {v.name: v.scale for v in model.spec.variables}
    return {
        "name": subject.name,
        "problem": type(problem).__name__,
        "label": label(problem),
        "sizes": [f"{name} = {size}" for name, size in problem.sizes().items()],
        "about": next(iter((type(problem).__doc__ or "").splitlines()), ""),
        "variables": [
            _describe_variable(graph.variables[name], scales.get(name))
            for name in subject.names
        ],
        "panels": [panel.to_dict() for panel in subject.panels],
        "others": [name for name in subject.names if name not in subject.shown],
        "nodes": graph.num_nodes,
        "model": None if model is None else _describe_model(model),
        "has_rules": subject.has_rules,
        "seed": subject.seed,
        "most_samples": most_samples,
        "follows_run": subject.follows_run,
        "stamp": stamp,
    }


def _describe_model(model: GSDM) -> dict[str, Any]:
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "layers": model.settings.layers,
        "sampler": str(model.sampler),
        "steps": model.sampler.steps,
        "most_steps": model.settings.num_timesteps,
    }


def _describe_variable(variable: Variable, scale: float | None) -> dict[str, Any]:
    domain = variable.domain
    low, high = getattr(domain, "low", -math.inf), getattr(domain, "high", math.inf)
    return {
        "name": variable.name,
        "shape": list(variable.shape),
        "role": variable.role.value,
        "intermediate": variable.role is Role.INTERMEDIATE,
        "classes": domain.num_classes,
        "domain": str(domain),
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
        "scale": scale,
    }
