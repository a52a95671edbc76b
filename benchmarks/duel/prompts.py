"""What is sent: token ids that are the same for everyone, and never the same twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count

from optimist.bench.prose import passages

WORDS = 200
"""of a text that is to be said again"""

SAID = 60
"""letters of it that the answer begins with"""

FIRST, SPAN = 1000, 28_000
"""ids of ordinary tokens in any vocabulary"""


class Prompts:
    """Hands out prompts. encode: of the model, for those that are text."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._number = 0

    def some(self, count: int, length: int) -> list[list[int]]:
        """So many prompts of so many ids, none of which begins like any before."""
        first, self._number = self._number, self._number + count
        return [
            [FIRST + (number * 7919 + at * 104_729) % SPAN for at in range(length)]
            for number in range(first, first + count)
        ]

    def texts(self) -> Iterator[list[int]]:
        """Asks to repeat a text, again and again another one; every call begins with the same.

        The answer has begun. No two texts have anything in common before all of the prose was used.
        """
        for text in _texts():
            yield self._encode(
                "<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n<|im_start|>user\n"
                f"Repeat this text word for word:\n\n{text}<|im_end|>\n<|im_start|>assistant\n"
                + text[:SAID]
            )


def _texts() -> Iterator[str]:
    """From one novel after the other; then again, of other words."""
    novels = [passage.split() for passage in passages()]
    pieces = min(map(len, novels)) // WORDS - 1
    for number in count():
        turn, piece = divmod(number // len(novels), pieces)
        at = WORDS * piece + 17 * turn % WORDS
        yield " ".join(novels[number % len(novels)][at : at + WORDS])
