"""Keeping control tokens that are spelled in messages from becoming control tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from optimist.messages.errors import InvalidRequest

ROLES = ("system", "developer", "user", "assistant", "tool")
"""who may speak; some templates write the role between the brackets of a control token"""

_CANDIDATES = range(0x10F000, 0x10FFFE)
"""private characters that a text has no reason to contain"""


@dataclass(frozen=True, slots=True)
class Covered:
    """Messages in which a mark interrupts every spelled control token. mark: None if none was."""

    messages: list[dict[str, object]]
    mark: str | None

    def pieces(self, text: str) -> Iterator[str]:
        """A rendered text, to be encoded piece by piece: no token spans two of them."""
        pieces = [text] if self.mark is None else text.split(self.mark)
        return (piece for piece in pieces if piece)


class Shield:
    """Interrupts the names of control tokens in messages by a mark that is taken out again.

    Doing it before the template runs leaves the template's own control tokens whole; a mark inside
    a name survives what templates do to a message (strip, split, compare). A message that ends in
    the beginning of a name, or begins with the end of one, is closed off there, so that no name
    arises where it meets its surroundings.
    """

    def __init__(self, names: Iterable[str]) -> None:
        long = sorted({name for name in names if len(name) > 1})
        self._starts = re.compile(f"(?={'|'.join(map(re.escape, long))})") if long else None
        self._heads = tuple({name[:end] for name in long for end in range(1, len(name))})
        self._tails = tuple({name[start:] for name in long for start in range(1, len(name) - 1)})

    def cover(self, messages: Sequence[Mapping[str, object]]) -> Covered:
        """Copies of messages, safe to render. Raises InvalidRequest for a role nobody may have."""
        for index, message in enumerate(messages):
            if (role := message.get("role")) not in ROLES:
                raise InvalidRequest(
                    f"messages[{index}].role: expected one of {', '.join(ROLES)}; got {role!r:.80}",
                    field=f"messages[{index}].role",
                )
        if not any(map(self._is_exposed, _texts(messages))):
            return Covered([dict(message) for message in messages], None)
        mark = _unused_mark(messages)
        return Covered(
            [
                {key: self._interrupted(key, value, mark) for key, value in message.items()}
                for message in messages
            ],
            mark,
        )

    def _is_exposed(self, text: str) -> bool:
        return (
            text.rstrip().endswith(self._heads)
            or text.lstrip().startswith(self._tails)
            or (self._starts is not None and self._starts.search(text) is not None)
        )

    def _interrupted(self, key: str, value: object, mark: str) -> object:
        match value:
            case str() if key != "role":
                return self._marked(value, mark)
            case Mapping():
                return {name: self._interrupted(name, item, mark) for name, item in value.items()}
            case list() | tuple():
                return [self._interrupted("", item, mark) for item in value]
        return value

    def _marked(self, text: str, mark: str) -> str:
        cuts = (
            set()
            if self._starts is None
            else {found.start() + 1 for found in self._starts.finditer(text)}
        )
        first, last = len(text) - len(text.lstrip()), len(text.rstrip())
        if text.startswith(self._tails, first):
            cuts.add(first)
        if text.endswith(self._heads, first, last):
            cuts.add(last)
        borders = [0, *sorted(cuts), len(text)]
        return mark.join(text[start:end] for start, end in pairwise(borders))


def _texts(value: object) -> Iterator[str]:
    """Every string in messages but the roles."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, item in value.items():
                if key != "role":
                    yield from _texts(item)
        case list() | tuple():
            for item in value:
                yield from _texts(item)


def _unused_mark(messages: object) -> str:
    used = set().union(*_texts(messages))
    mark = next((chr(code) for code in _CANDIDATES if chr(code) not in used), None)
    if mark is None:
        raise InvalidRequest(
            "messages: expected text, got every private character", field="messages"
        )
    return mark
