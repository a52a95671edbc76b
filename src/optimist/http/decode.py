"""Bytes to a body: every fault is an InvalidRequest that names the field."""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from optimist.http.bodies import Body
from optimist.http.fields import choices, fields, nearest, only
from optimist.messages.errors import InvalidRequest
from optimist.wrong_key import HOLE, with_key

B = TypeVar("B", bound=Body)

_AT = re.compile(r" - at (?:`key` in )?`\$\.?(?P<path>[^`]*)`$")
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
_TYPE = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_CHOICE = re.compile(r"Invalid enum value (?P<got>.*)", re.DOTALL)
_HIGH, _LOW = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = re.compile(_HIGH + b"(?!" + _LOW + b")|(?<!" + _HIGH + b")" + _LOW)


def decode(kind: type[B], content: bytes) -> B:
    """Read a body. Raises InvalidRequest for bad JSON, and naming a field that is unknown, given
    twice, of the wrong type or not supported."""
    try:
        body = msgspec.json.decode(content, type=kind)
        json.loads(content, object_pairs_hook=_once)
    except msgspec.ValidationError as error:
        raise _refusal(kind, str(error), content) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = "half of a surrogate pair" if _HALF.search(content) else str(error)
        raise InvalidRequest(f"the body is not valid JSON: {why}") from None
    check_supported(body)
    return body


def check_supported(body: Body, path: str = "") -> None:
    """Raise InvalidRequest naming the first field whose value we know of but do not support."""
    for name, about in fields(type(body)).items():
        value = getattr(body, name)
        where = f"{path}.{name}" if path else name
        allowed = only(about)
        if allowed is not None and value is not None and not _among(value, allowed):
            shown = ", ".join(msgspec.json.encode(one).decode() for one in (None, *allowed))
            raise InvalidRequest(
                f"{where}: not supported ({about.effect}); expected {shown}", field=where
            )
        for at, item in enumerate(value if isinstance(value, list) else []):
            if isinstance(item, Body):
                check_supported(item, f"{where}[{at}]")
        if isinstance(value, Body):
            check_supported(value, where)


def _among(value: Any, allowed: tuple[Any, ...]) -> bool:
    return any(type(value) is type(one) and value == one for one in allowed)


def _once(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise InvalidRequest(f"{name}: expected once, got it twice", field=name)
        seen.add(name)


def _refusal(kind: type[Body], message: str, content: bytes) -> InvalidRequest:
    """What msgspec says, in the words of this project."""
    found = _AT.search(message)
    path = found["path"] if found else ""
    if HOLE in path:
        path = with_key(path, json.loads(content))
    text = message[: found.start()] if found else message
    if match := _UNKNOWN.match(text):
        near = nearest(kind, path, match["name"])
        path, text = _below(path, match["name"]), "unknown field"
        text += f"; did you mean {near}?" if near else ""
    elif match := _MISSING.match(text):
        path, text = _below(path, match["name"]), "expected a value, got nothing"
    elif match := _CHOICE.match(text):
        text = f"expected one of {', '.join(choices(kind, path))}, got {match['got']}"
    elif match := _TYPE.match(text):
        text = f"expected {match['expected'].replace(' | ', ' or ')}, got {match['got']}"
    else:
        text = text[:1].lower() + text[1:].replace("`", "")
    return InvalidRequest(f"{path}: {text}" if path else text, field=path or None)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
