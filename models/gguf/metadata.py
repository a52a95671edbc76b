"""The key-value part of a GGUF file, read by expected type."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from optimist.messages.errors import ModelError
from optimist.models.gguf.reader import Value

T = TypeVar("T")


class Metadata:
    """Keys and values. Every getter raises ModelError, naming file and key, for another type.

    A getter without a default raises ModelError when the key is missing.
    """

    def __init__(self, path: Path, values: dict[str, Value]) -> None:
        self.path = path
        self._values = values

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self._wrong(key, "an integer", value)

    def real(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self._wrong(key, "a number", value)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._get(key, default)
        if isinstance(value, bool):
            return value
        raise self._wrong(key, "a bool", value)

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, None if default is None else default.encode())
        if isinstance(value, bytes):
            return self._decoded(key, value)
        raise self._wrong(key, "a string", value)

    def texts(self, key: str) -> list[str]:
        return [self._decoded(key, value) for value in self._items(key, bytes, "strings")]

    def integers(self, key: str) -> list[int]:
        return self._items(key, int, "integers")

    def reals(self, key: str) -> list[float]:
        return self._items(key, float, "floats")

    def length(self, key: str) -> int:
        """How many items an array has."""
        value = self._get(key, None)
        if isinstance(value, list):
            return len(value)
        raise self._wrong(key, "an array", value)

    def optional_id(self, key: str) -> int | None:
        """A token id, or None when the file names none."""
        return self.integer(key) if key in self._values else None

    def _get(self, key: str, default: Value | None) -> Value:
        value = self._values.get(key, default)
        if value is None:
            raise ModelError(f"{self.path}: metadata {key}: missing")
        return value

    def _items(self, key: str, kind: type[T], expected: str) -> list[T]:
        value = self._get(key, None)
        if isinstance(value, list) and all(isinstance(item, kind) for item in value):
            return [item for item in value if isinstance(item, kind)]
        raise self._wrong(key, f"an array of {expected}", value)

    def _decoded(self, key: str, value: bytes) -> str:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ModelError(
                f"{self.path}: metadata {key}: expected UTF-8, got {value[:64]!r}"
            ) from None

    def _wrong(self, key: str, expected: str, value: Value) -> ModelError:
        got = f"an array of {len(value)}" if isinstance(value, list) else repr(value)[:80]
        return ModelError(f"{self.path}: metadata {key}: expected {expected}, got {got}")
