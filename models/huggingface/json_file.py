"""JSON files of a Hugging Face folder, read by expected type."""

from __future__ import annotations

import json
from pathlib import Path

from optimist.messages.errors import ModelError


class JsonFile:
    """An object read from a file. Getters raise ModelError, naming file and key, for another type.

    null counts as missing. A getter without a default raises ModelError for a missing key.
    """

    def __init__(self, path: Path, values: dict[str, object]) -> None:
        self.path = path
        self.values = values

    def integer(self, key: str, default: int | None = None) -> int:
        value = self._get(key, default)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise self.refused(key, "an integer")

    def real(self, key: str, default: float | None = None) -> float:
        value = self._get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        raise self.refused(key, "a number")

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._get(key, default)
        if isinstance(value, bool):
            return value
        raise self.refused(key, "true or false")

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if isinstance(value, str):
            return value
        raise self.refused(key, "a string")

    def section(self, key: str) -> JsonFile:
        """The object below a key, empty when it is missing."""
        value = self._get(key, {})
        if isinstance(value, dict):
            return JsonFile(self.path, value)
        raise self.refused(key, "an object")

    def ids(self, key: str) -> tuple[int, ...]:
        """A token id or a list of them, empty when it is missing."""
        value = self.values.get(key)
        items = value if isinstance(value, list) else [] if value is None else [value]
        ids = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
        if len(ids) == len(items):
            return ids
        raise self.refused(key, "a token id or a list of them")

    def refused(self, key: str, expected: str) -> ModelError:
        """The error that says what was expected of a key and what is there."""
        return ModelError(
            f"{self.path}: {key}: expected {expected}, got {self.values.get(key)!r:.120}"
        )

    def _get(self, key: str, default: object) -> object:
        value = self.values.get(key)
        value = default if value is None else value
        if value is None:
            raise ModelError(f"{self.path}: {key}: missing")
        return value


def read_json(path: Path) -> JsonFile:
    """Read a JSON object. Raises ModelError when it is absent or something else."""
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise ModelError(f"{path}: missing") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: expected a JSON object, got {error}") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: expected a JSON object, got {type(values).__name__}")
    return JsonFile(path, values)


def read_optional_json(path: Path) -> JsonFile:
    """Read a JSON object, empty when the file is absent. Raises ModelError for anything else."""
    return read_json(path) if path.exists() else JsonFile(path, {})
