"""Stop strings in a text that arrives piece by piece."""

from __future__ import annotations

from typing import NamedTuple


class Found(NamedTuple):
    """A stop string that is complete. stop: which one."""

    stop: str


class StopStrings:
    """Lets text through, except what could still become a stop string.

    The stop that is complete first wins; of several that end at the same character, the longest. So
    the cut does not depend on how the text is divided into tokens.
    """

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._patterns = tuple(_Pattern(stop) for stop in sorted(set(stops), key=len, reverse=True))
        self._held = ""

    def push(self, text: str, *, may_stop: bool = True) -> tuple[str, Found | None]:
        """Take more text. Returns what can be shown, and the stop string that ends it, if any.

        may_stop: False lets a complete stop string pass as ordinary text.
        """
        if not self._patterns:
            return text, None
        seen = self._held + text
        for position, character in enumerate(text, start=len(self._held) + 1):
            complete = [p for p in self._patterns if p.advance(character)]
            if complete and may_stop:
                self._held = ""
                return seen[: position - len(complete[0].text)], Found(complete[0].text)
        held = max(pattern.matched for pattern in self._patterns)
        self._held = seen[len(seen) - held :]
        return seen[: len(seen) - held], None

    def finish(self) -> str:
        """What was held back, now that no more text comes."""
        held, self._held = self._held, ""
        return held


class _Pattern:
    """One stop string, and how much of it the text so far ends with (Knuth, Morris and Pratt)."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.matched = 0
        self._borders = _borders(text)

    def advance(self, character: str) -> bool:
        """Take one character. True when it completes the string; the match then goes on behind it."""
        matched = self.matched
        while matched and self.text[matched] != character:
            matched = self._borders[matched]
        if self.text[matched] == character:
            matched += 1
        complete = matched == len(self.text)
        self.matched = self._borders[matched] if complete else matched
        return complete


def _borders(text: str) -> list[int]:
    """borders[k]: length of the longest proper prefix of text[:k] that is also its suffix."""
    borders = [0] * (len(text) + 1)
    length = 0
    for at in range(1, len(text)):
        while length and text[at] != text[length]:
            length = borders[length]
        if text[at] == text[length]:
            length += 1
        borders[at + 1] = length
    return borders
