"""What the types of the bodies say about their fields."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from optimist.http.bodies import Body


class Field(NamedTuple):
    """One field of a body. effect: what it does, in words. extra: see bodies."""

    hint: Any
    effect: str
    extra: dict[str, Any]


@cache
def fields(kind: type[Body]) -> dict[str, Field]:
    """Every field of a body by its name."""
    hints = get_type_hints(kind, include_extras=True)
    return {name: _field(hint) for name, hint in hints.items()}


def only(field: Field) -> tuple[Any, ...] | None:
    """The only values that a field may have beside null; None where any will do."""
    values: tuple[Any, ...] | None = field.extra.get("only")
    return values


def nearest(kind: type[Body], path: str, name: str) -> str:
    """The field that was meant, among those of the object at this path; "" when none is near."""
    owner = next(_bodies(_at(kind, path)), None)
    near = difflib.get_close_matches(name, fields(owner), n=1) if owner is not None else []
    return near[0] if near else ""


def choices(kind: type[Body], path: str) -> list[str]:
    """The values that the field at this path may have, where they are listed by its type."""
    return [str(value) for hint in _parts(_at(kind, path)) for value in _listed(hint)]


def _at(kind: type[Body], path: str) -> Any:
    """The type at a path such as `messages[0].content[1].type`."""
    hint: Any = kind
    for name in re.sub(r"\[[^\]]*\]", "", path).split("."):
        owner = next((one for one in _bodies(hint) if name in fields(one)), None)
        if owner is None:
            return hint
        hint = fields(owner)[name].hint
    return hint


def _bodies(hint: Any) -> Iterator[type[Body]]:
    for part in _parts(hint):
        if isinstance(part, type) and issubclass(part, Body):
            yield part


def _parts(hint: Any) -> Iterator[Any]:
    """A type and all that it is made of."""
    yield hint
    if get_origin(hint) is not Literal:
        for inner in get_args(hint):
            yield from _parts(inner)


def _listed(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) is Literal else ()


def _field(hint: Any) -> Field:
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, msgspec.Meta):
            return Field(hint, note.description or "", note.extra or {})
    return Field(hint, "", {})
