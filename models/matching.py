"""Whether a file holds exactly the tensors that a network needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from optimist.messages.errors import ModelError

Shape = tuple[int, ...]


def match_tensors(path: Path, *, needed: Mapping[str, Shape], found: Mapping[str, Shape]) -> None:
    """Compare by the file's own names. Raises ModelError naming file, tensor, needed and actual.

    A tensor that nothing needs is refused too: leaving it out would change the result unnoticed.
    """
    for name, shape in needed.items():
        if name not in found:
            raise ModelError(
                f"{path}: tensor {name}: needed shape {list(shape)}, but it is missing"
            )
        if found[name] != shape:
            raise ModelError(
                f"{path}: tensor {name}: needed shape {list(shape)}, got {list(found[name])}"
            )
    for name in found:
        if name not in needed:
            raise ModelError(
                f"{path}: tensor {name}: not needed by this architecture, so it cannot be honoured"
            )
