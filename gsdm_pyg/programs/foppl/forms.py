"""Parts of forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsdm_pyg.programs.foppl.reader import Atom, Form, Group, Symbol


def is_definition(form: Form) -> bool:
    match form:
        case Group(_, "(", (Symbol(_, "defn"), *_)):
            return True
    return False


def bindings_of(group: Group) -> list[tuple[str, Form]]:
    """Names and forms in turn."""
    names, forms = group.items[::2], group.items[1::2]
    if len(names) != len(forms):
        raise group.place.error(
            "Names and values alternate, [name value ...] "
            f"(got {len(group.items)} of them)."
        )
    return [(symbol_name(name), form) for name, form in zip(names, forms, strict=True)]


def symbol_name(form: Form) -> str:
    if isinstance(form, Symbol):
        return form.name
    raise form.place.error("Here a name is due (got another expression).")


def strings(forms: Sequence[Form]) -> Iterator[str]:
    """All strings of the source, which may be names of variables."""
    for form in forms:
        if isinstance(form, Group):
            yield from strings(form.items)
        elif isinstance(form, Atom) and isinstance(form.value, str):
            yield form.value
