"""Messages as a reader wants to see them: columns as lists, empty fields left out."""

from __future__ import annotations

from typing import Any

import msgspec

from optimist.messages.base import ints
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound


def shown(value: Any) -> str:
    """One line for a message, a part of one, or a value in it."""
    match value:
        case ExactSeqLens():
            return str(value.exact().tolist())
        case SeqLensUpperBound():
            # bound, display: a line for people, marked as a bound
            return f"<= {value.sizing_array(reader='trace').tolist()}"
        case msgspec.Struct():
            fields = {f.name: getattr(value, f.name) for f in msgspec.structs.fields(value)}
            said = [f"{name}={shown(v)}" for name, v in fields.items() if not _empty(v)]
            return f"{type(value).__name__}({', '.join(said)})"
        case tuple():
            return f"[{', '.join(shown(item) for item in value)}]"
        case bytes() if len(value) % 4 == 0:
            return str(ints(value).tolist())
    return str(value)


def _empty(value: Any) -> bool:
    match value:
        case ExactSeqLens() | SeqLensUpperBound():
            return value.count() == 0
        case bytes() | tuple() | str():
            return not value
    return value is None
