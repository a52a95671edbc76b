"""What msgspec says about a value of the wrong type, in the words of this project."""

from __future__ import annotations

import re
from collections.abc import Iterable

_AT = re.compile(r" - at (?:`key` in )?`\$[^`]*`$")
_CHOICE = re.compile(r"Invalid enum value (?P<got>.*)", re.DOTALL)
_TYPE = re.compile(r"Expected `(?P<kind>[^`]*)`(?P<range>.*?)(?:, got `(?P<got>[^`]*)`)?$")
_MISSING = re.compile(r"Object missing required field `")
_UNKNOWN = re.compile(r"Object contains unknown field `")


def plain_words(error: str, choices: Iterable[object] = (), got: str = "") -> str:
    """Its reason: what was expected and what came, without where.

    choices: what the field may be, where its type lists that. got: what came; "" is what msgspec
    says of it.
    """
    text = _AT.sub("", error)
    if match := _CHOICE.match(text):
        named = ", ".join(map(str, choices))
        return (
            f"expected {f'one of {named}' if named else 'another value'}, got {got or match['got']}"
        )
    if match := _TYPE.match(text):
        kind = match["kind"].replace(" | ", " or ").replace("null", "None")
        came = got or match["got"]
        return f"expected {kind}{match['range']}" + (f", got {came}" if came else "")
    if _MISSING.match(text):
        return "expected a value, got nothing"
    if _UNKNOWN.match(text):
        return "no such field"
    return text[:1].lower() + text[1:].replace("`", "")
