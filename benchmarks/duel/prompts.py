"""What is sent: token ids that are the same for everyone, and never the same twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator

TEXT = (
    "In the hills above the {town} there is an old {place} that nobody has used for twenty years. The "
    "{owner} who built it came from the coast, and brought with him two carts of tools, a clock and a "
    "dog. He worked alone from spring to autumn. When the first snow fell the roof was on, the stove was "
    "lit, and the clock stood in the window where people could see it from the road. For many winters it "
    "was the only light on that side of the valley. Children were told to walk towards the light if they "
    "lost their way, and some of them did. When the {owner} grew old he moved down to the {town}, and he "
    "left the clock where it was. Every Sunday his daughter climbed the hill to wind it. She said that a "
    "clock which stops is only a box, and that her father had never owned a box that he did not fill. "
    "One day she did not come, and the clock stopped at ten minutes past four. It has not moved since."
)
TOWNS = ("town", "village", "river", "market", "church", "harbour", "city", "station")
PLACES = ("house", "mill", "school", "farm", "barn", "tower", "shop", "inn")
OWNERS = ("man", "miller", "teacher", "farmer", "smith", "captain", "doctor", "baker")

FIRST, SPAN = 1000, 28_000
"""ids of ordinary tokens in any vocabulary"""


class Prompts:
    """Hands out prompts. encode: of the model, for those that are text."""

    def __init__(self, encode: Callable[[str], list[int]]) -> None:
        self._encode = encode
        self._number = 0
        self._texts = _texts()

    def some(self, count: int, length: int) -> list[list[int]]:
        """So many prompts of so many ids, none of which begins like any before."""
        first, self._number = self._number, self._number + count
        return [
            [FIRST + (number * 7919 + at * 104_729) % SPAN for at in range(length)]
            for number in range(first, first + count)
        ]

    def text(self) -> list[int]:
        """Asks to repeat a text that was not asked for before; the first words of it are said."""
        story = next(self._texts)
        return self._encode(
            "<|im_start|>system\nYou are a helpful AI assistant.<|im_end|>\n<|im_start|>user\n"
            f"Repeat this text word for word:\n\n{story}<|im_end|>\n<|im_start|>assistant\n"
            + story[:60]
        )


def _texts() -> Iterator[str]:
    while True:
        for number in range(len(TOWNS) ** 3):
            turns = number // 64, number // 8, number
            town, place, owner = (
                names[(turn + number) % 8]
                for names, turn in zip((TOWNS, PLACES, OWNERS), turns, strict=True)
            )
            yield TEXT.format(town=town, place=place, owner=owner)
