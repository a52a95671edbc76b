"""What one rendering of a template may do: how many steps, and how large anything may get.

Steps are counted, not seconds, so that the same template with the same messages always ends alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from itertools import chain
from typing import Any, Self

from jinja2.utils import Namespace

MAX_STEPS = 200_000
"""turns of loops, calls, and thousands of characters or items handled, in one rendering"""
MAX_SIZE = 16 * 2**20
"""characters or items of any value, and characters written"""
MAX_NUMBER = 100_000
"""an integer handed to a method or filter, where it may be a width or a count"""


class BudgetSpent(Exception):
    """A template went beyond a limit. Says which."""


class Budget:
    """What one rendering may still do. Entering it makes it the one that counts."""

    def __init__(self) -> None:
        self._steps = 0
        self._token: Token[Budget | None] | None = None

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _current.reset(self._token)

    def take(self, size: int = 0) -> None:
        """Count a step over so many characters or items. Raises BudgetSpent after the last one."""
        self._steps += 1 + size // 1024
        if self._steps > MAX_STEPS:
            raise BudgetSpent(f"more than {MAX_STEPS} steps")


_current: ContextVar[Budget | None] = ContextVar("template budget", default=None)


def join_texts(separator: str, parts: Iterable[object]) -> str:
    """The parts as one text. Raises BudgetSpent as soon as it is too long."""
    texts: list[str] = []
    size = 0
    for part in parts:
        texts.append(str(shown(checked(part))))
        size += len(texts[-1]) + len(separator)
        check_size(size)
    return separator.join(texts)


def checked(value: Any) -> Any:
    """The value. Raises BudgetSpent when it is too large, counted with everything in it."""
    if isinstance(value, str | bytes):
        check_size(len(value))
    elif is_sized(value):
        _weigh(value, {})
    elif isinstance(value, int) and value.bit_length() > 4096:
        raise BudgetSpent("a number of more than 4096 bits")
    return value


def _weigh(value: Any, known: dict[int, int]) -> int:
    """Characters and items in a value, those of a part that occurs twice counted twice.

    known: weights of containers by identity, so that the work does not double as the weight does.
    """
    if isinstance(value, str | bytes):
        return 1 + len(value)
    if isinstance(value, Namespace):
        raise BudgetSpent("a namespace as text or within a list")
    if not is_sized(value):
        return 1
    if id(value) not in known:
        parts = chain(value, value.values()) if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_weigh(part, known) for part in parts)
        check_size(known[id(value)])
    return known[id(value)]


def shown(value: Any) -> Any:
    """What is written: no namespace, whose text could double with each one inside another."""
    if isinstance(value, Namespace):
        raise BudgetSpent("a namespace as text")
    return value


def take(size: int = 0) -> None:
    """Compiling folds constants outside any rendering: then there is nothing to count on."""
    if (budget := _current.get()) is not None:
        budget.take(size)


def is_sized(value: object) -> bool:
    """Whether a value is text or a container that can be measured without using it up."""
    return isinstance(value, str | bytes | list | tuple | dict | set)


def size_of(value: Any) -> int:
    """Characters or items of a value; of a number, how often it would repeat something."""
    if isinstance(value, int):
        return abs(value)
    return len(value) if is_sized(value) else 1


def check_size(size: int) -> None:
    """Raise BudgetSpent for so many characters or items, if that is too many."""
    if size > MAX_SIZE:
        raise BudgetSpent(f"a text or list of more than {MAX_SIZE}")


def check_numbers(*values: object) -> None:
    """Raise BudgetSpent for an integer that is too large to be a width or a count."""
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_NUMBER:
            raise BudgetSpent(f"a number above {MAX_NUMBER} as a width or count")


def check_widths(layout: str) -> None:
    """Raise BudgetSpent for a format in which a width is written that is too large."""
    digits = 0
    for character in layout:
        digits = digits + 1 if character.isdigit() else 0
        if digits > 5:
            raise BudgetSpent("a width of more than five digits")
