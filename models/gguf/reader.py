"""Reading the values of a GGUF header in order, never past the end of the file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from pathlib import Path

from optimist.messages.errors import ModelError

Scalar = int | float | bool
Value = Scalar | bytes | list["Value"]
"""a metadata value; text is kept as bytes until somebody wants it"""

STRING, ARRAY, BOOL = 8, 9, 7
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "B",
    10: "Q",
    11: "q",
    12: "d",
}
MAX_NESTING = 4
"""arrays within arrays; a file that nests deeper is refused before the stack is"""


class HeaderReader:
    """A position in a mapped file. Raises ModelError when a value would end beyond the file."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.position = 0
        self._data = data
        self._size = len(data)

    def need(self, size: int, what: str) -> None:
        """Raise ModelError unless `size` more bytes are there."""
        if size > self._size - self.position:
            raise ModelError(
                f"{self.path}: {what}: needed {size} bytes at byte {self.position}, "
                f"but the file ends at byte {self._size}"
            )

    def number(self, code: str, what: str) -> int:
        """One little-endian integer of the given struct code."""
        layout = struct.Struct("<" + code)
        self.need(layout.size, what)
        (value,) = layout.unpack_from(self._data, self.position)
        self.position += layout.size
        return int(value)

    def string(self, what: str) -> bytes:
        """Length and bytes of a text."""
        size = self.number("Q", what)
        self.need(size, what)
        start, self.position = self.position, self.position + size
        return self._data[start : self.position]

    def text(self, what: str) -> str:
        """A text that has to be UTF-8."""
        raw = self.string(what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise ModelError(f"{self.path}: {what}: expected UTF-8, got {raw[:64]!r}") from None

    def value(self, what: str) -> Value:
        """A metadata value with its type before it."""
        return self._typed(self.number("I", what), what, 0)

    def _typed(self, kind: int, what: str, nesting: int) -> Value:
        if kind == STRING:
            return self.string(what)
        if kind == ARRAY:
            return self._array(what, nesting)
        if kind not in SCALARS:
            raise ModelError(f"{self.path}: {what}: expected a value type of 0..12, got {kind}")
        return self._scalars(kind, 1, what)[0]

    def _array(self, what: str, nesting: int) -> list[Value]:
        kind, count = self.number("I", what), self.number("Q", what)
        if nesting >= MAX_NESTING:
            raise ModelError(f"{self.path}: {what}: arrays nested deeper than {MAX_NESTING}")
        if kind == STRING:
            return self._strings(count, what)
        if kind == ARRAY:
            self.need(12 * count, what)
            return [self._array(what, nesting + 1) for _ in range(count)]
        if kind not in SCALARS:
            raise ModelError(f"{self.path}: {what}: expected a value type of 0..12, got {kind}")
        return self._scalars(kind, count, what)

    def _scalars(self, kind: int, count: int, what: str) -> list[Value]:
        code = SCALARS[kind]
        size = count * struct.calcsize("<" + code)
        self.need(size, what)
        values = struct.unpack_from(f"<{count}{code}", self._data, self.position)
        self.position += size
        return [bool(value) for value in values] if kind == BOOL else list(values)

    def _strings(self, count: int, what: str) -> list[Value]:
        self.need(8 * count, what)
        data, position, size = self._data, self.position, self._size
        length_at: Callable[[mmap.mmap, int], tuple[int]] = struct.Struct("<Q").unpack_from
        found: list[Value] = []
        for index in range(count):
            start = position + 8
            length = length_at(data, position)[0] if start <= size else 0
            position = start + length
            if position > size:
                self.position = start
                self.need(max(length, 1), f"{what}[{index}]")
            found.append(data[start:position])
        self.position = position
        return found
