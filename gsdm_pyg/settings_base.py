"""Settings: values that are validated once, with errors in full sentences."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError


class SettingsError(ValueError):
    """Settings that cannot be used; the message names each key, its value and why."""


if TYPE_CHECKING:
    _SettingsType = type  # pydantic's metaclass has no public name
else:

    class _SettingsType(type(BaseModel)):
        """Makes `SamplerSettings(stepps=3)` fail with the same sentence as `parse`."""

        def __call__(cls, **values: Any) -> Any:
            try:
                return super().__call__(**values)
            except ValidationError as error:
                raise _settings_error(cls, error) from None


class Settings(BaseModel, metaclass=_SettingsType):
    """Values that are checked once and never change."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    @classmethod
    def parse(cls, values: Mapping[str, Any], also: Iterable[str] = ()) -> Self:
        """Validate values by name.

        Args:
            values: The settings that differ from their defaults.
            also: Other names that the caller takes, to suggest for a misspelt one.
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise _settings_error(cls, error, also) from None

    def updated(self, changes: Mapping[str, Any], also: Iterable[str] = ()) -> Self:
        """The same settings with some changed; see `parse`."""
        return self.parse({**self.model_dump(), **changes}, also)


def _settings_error(
    cls: type[Settings], error: ValidationError, also: Iterable[str] = ()
) -> SettingsError:
    return SettingsError("\n".join(_sentence(cls, e, also) for e in error.errors()))


def _sentence(cls: type[Settings], error: Any, also: Iterable[str]) -> str:
    """One sentence per error: the key, what is wrong, what was given, and the fix."""
    location = error["loc"]
    key = ".".join(str(part) for part in location)
    if error["type"] == "extra_forbidden":
        return f"Unknown setting {key!r}; {_suggestion(cls, location, also)}"
    if error["type"] == "missing" and isinstance(location[-1], str):
        return f"The config needs the key {key!r}."
    if error["type"] == "value_error":  # of a validator, which names the value itself
        return (
            f"{key}: {error['ctx']['error']}." if key else f"{error['ctx']['error']}."
        )
    return f"{key}: {error['msg']} (got {error['input']!r})."


def _suggestion(
    cls: type[Settings], location: tuple[Any, ...], also: Iterable[str]
) -> str:
    """What a misspelt or misplaced key should have been."""
    *path, name = location
    section: Any = cls
    for part in path:
        if isinstance(part, int):  # the entry of a list
            section = get_args(section)[0]
        elif get_origin(section) is dict:  # the entry of that name
            section = get_args(section)[1]
        else:
            section = section.model_fields[part].annotation
    known = [*section.model_fields, *(also if section is cls else ())]
    elsewhere = [
        f"{other}.{name}"
        for other, field in cls.model_fields.items()
        if name in getattr(field.annotation, "model_fields", ())
    ]
    if path and name in cls.model_fields:
        elsewhere.append(name)
    near = (
        difflib.get_close_matches(str(name), known, n=1, cutoff=0.7)
        or elsewhere
        or difflib.get_close_matches(str(name), known, n=1, cutoff=0.6)
    )
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
