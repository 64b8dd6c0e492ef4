"""The statements `sample` and `observe` of FOPPL, as those of programs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import torch
from torch import Tensor

from gsdm_pyg.programs.foppl.distributions import decoded, distribution, encoded
from gsdm_pyg.programs.foppl.place import Misuse, Place
from gsdm_pyg.programs.foppl.values import (
    Law,
    Value,
    describe,
    from_tensor,
    is_random,
    stack,
    to_tensor,
    whole,
)
from gsdm_pyg.programs.sites import let, observe, sample

Entry = tuple[int, ...]


@dataclass
class Variable:
    """The entries of a variable so far; each with the value that it is observed at."""

    place: Place
    entries: dict[Entry, Tensor | None] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        """Of the axes that loops give it."""
        return [max(index) + 1 for index in zip(*self.entries, strict=True)]


class Variables(dict[str, Variable]):
    """The variables of a run, by name."""

    def add(self, name: str, entry: Entry, place: Place) -> None:
        """Add an entry that a statement names."""
        entries = self.setdefault(name, Variable(place)).entries
        first = next(iter(entries), entry)
        if entry in entries or len(entry) != len(first):
            raise place.error(
                "Every variable has a name of its own, and one entry for each round of "
                f"the loops around it: {name} is named before, {self[name].place} "
                f"(got {_text(name, entry)})."
            )
        entries[entry] = None

    def check(self) -> None:
        """Raise an error if a variable does not have all entries up to its last."""
        for name, variable in self.items():
            for entry in itertools.product(*map(range, variable.lengths)):
                if entry not in variable.entries:
                    raise variable.place.error(
                        f"All rounds of the loops around {name} draw it: draw "
                        f"{_text(name, entry)} too, or give all of its statements one "
                        f'name, as in (sample "{name}" ...) '
                        f"(got {len(variable.entries)} entries)."
                    )

    def given(self) -> dict[str, Tensor]:
        """The values that the program observes; NaN where there is none."""
        given = {}
        for name, variable in self.items():
            values = [value for _, value in sorted(variable.entries.items())]
            known = next((value for value in values if value is not None), None)
            if known is not None:
                missing = torch.full(known.shape, torch.nan)
                filled = stack([missing if v is None else v for v in values])
                given[name] = filled.reshape((*variable.lengths, *known.shape))
        return given


def name_and_entry(name: Value) -> tuple[str, Entry | None]:
    """The variable and the entry of "x", or of ["x" 3 1]."""
    parts = name if isinstance(name, tuple) else (name,)
    if not parts or not isinstance(parts[0], str) or not set("[]").isdisjoint(parts[0]):
        got = describe(parts[0] if parts else name)
        raise Misuse(
            f'takes a name such as "x", or ["x" 3] for one of its entries (got {got}).'
        )
    entry = tuple(map(whole, parts[1:]))
    return parts[0], entry if isinstance(name, tuple) else None


def execute(statement: str, name: str, entry: Entry, law: Law) -> tuple[Tensor, Value]:
    """Name an entry of a variable; its tensor, and what the program sees of it."""
    site = _text(name, entry)
    if law.name != "dirac":
        draw = sample if statement == "sample" else observe
        drawn = draw(site, distribution(law))
        return drawn, decoded(law, drawn)
    point = to_tensor(law.parameters[0])
    is_whole = not (point.is_floating_point() or point.dtype == torch.bool)
    compute = let if statement == "sample" else observe
    drawn = compute(site, point.float() if is_whole else point)
    return drawn, from_tensor(drawn.to(point.dtype))


def observed_value(law: Law, value: Value, drawn: Tensor) -> Tensor:
    """The value of an `observe` in the source, as data of the variable.

    Args:
        law: The distribution.
        value: What the source says.
        drawn: A draw, which the value must be like.
    """
    if is_random(value):
        raise Misuse(
            "takes a constant value, which is given when the model is used "
            f"(got {describe(value)})."
        )
    given = encoded(law, value)
    if given.shape != drawn.shape:
        like = "a number" if drawn.dim() == 0 else f"a vector of {len(drawn)}"
        raise Misuse(
            f"takes a value like those of its distribution, {like} "
            f"(got {describe(value)})."
        )
    return given


def _text(name: str, entry: Entry) -> str:
    return f"{name}[{', '.join(map(str, entry))}]" if entry else name
