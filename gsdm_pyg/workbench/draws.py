"""Instances for the page: all values of one, and which of them are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import NonNegativeInt

from gsdm_pyg.seeding import keyed_generator
from gsdm_pyg.settings_base import Settings
from gsdm_pyg.simulate import simulate_one
from gsdm_pyg.workbench.subject import Subject
from gsdm_pyg.workbench.values import to_list


class _Wish(Settings):
    """What the page asks for when it wants an instance."""

    seed: NonNegativeInt
    """Chooses the instance and what is given."""


def draw_instance(subject: Subject, asked: Mapping[str, Any]) -> dict[str, Any]:
    """An instance of the problem as JSON: values and booleans of all entries."""
    generator = keyed_generator("workbench", _Wish.parse(asked).seed)
    with subject.turns.turn():
        drawn = simulate_one(subject.problem, generator)
        observed = subject.problem.observe(generator, subject.settings.observe)
    names = subject.names
    return {
        "values": {name: to_list(drawn[name]) for name in names},
        "given": {name: observed[name].flatten().tolist() for name in names},
    }
