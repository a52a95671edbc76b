"""Bytes to a body: every fault is an InvalidRequest that names the field."""

from __future__ import annotations

import difflib
import re
from typing import Any, TypeVar, get_type_hints

import msgspec

from optimist.http.bodies import Body
from optimist.messages.errors import InvalidRequest

B = TypeVar("B", bound=Body)

_AT = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")


def decode(kind: type[B], content: bytes) -> B:
    """Read a body. Raises InvalidRequest for bad JSON, and naming a field that is unknown, of the
    wrong type or not supported."""
    try:
        body = msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(kind, str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"the body is not valid JSON: {error}") from None
    check_supported(body)
    return body


def check_supported(body: Body, path: str = "") -> None:
    """Raise InvalidRequest naming the first field whose value we know of but do not support."""
    for name, (_, only) in fields(type(body)).items():
        value = getattr(body, name)
        where = f"{path}.{name}" if path else name
        if only is not None and value is not None and not _among(value, only):
            allowed = ", ".join(msgspec.json.encode(one).decode() for one in (None, *only))
            why = fields(type(body))[name][0]
            raise InvalidRequest(f"{where}: not supported ({why}); expected {allowed}", field=where)
        for at, item in enumerate(value if isinstance(value, list) else []):
            if isinstance(item, Body):
                check_supported(item, f"{where}[{at}]")
        if isinstance(value, Body):
            check_supported(value, where)


def _among(value: Any, only: tuple[Any, ...]) -> bool:
    return any(type(value) is type(one) and value == one for one in only)


def fields(kind: type[Body]) -> dict[str, tuple[str, tuple[Any, ...] | None]]:
    """Of each field of a body: what it does, and the only values it may have (None: any)."""
    if kind not in _FIELDS:
        _FIELDS[kind] = {
            name: _described(hint)
            for name, hint in get_type_hints(kind, include_extras=True).items()
        }
    return _FIELDS[kind]


_FIELDS: dict[type[Body], dict[str, tuple[str, tuple[Any, ...] | None]]] = {}


def _described(hint: Any) -> tuple[str, tuple[Any, ...] | None]:
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, msgspec.Meta):
            return note.description or "", (note.extra or {}).get("only")
    return "", None


def _refusal(kind: type[Body], message: str) -> InvalidRequest:
    found = _AT.search(message)
    path = found["path"] if found else ""
    text = message[: found.start()] if found else message
    for pattern in (_UNKNOWN, _MISSING):
        if match := pattern.match(text):
            path = f"{path}.{match['name']}" if path else match["name"]
    if _UNKNOWN.match(text):
        near = difflib.get_close_matches(path, list(fields(kind)), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        return InvalidRequest(f"{path}: unknown field{hint}", field=path)
    return InvalidRequest(f"{path}: {text}" if path else text, field=path or None)
