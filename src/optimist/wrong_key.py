"""Which entry of a mapping is wrong: msgspec says where the mapping is, and leaves out the key."""

from __future__ import annotations

import math
from typing import Any

HOLE = "[...]"
"""what msgspec says in place of a key"""


def with_key(path: str, tree: Any) -> str:
    """The path with the key of the first value that is no finite number, where it has a hole at its end.

    tree: what was decoded, as plain Python values. A path without a hole comes back as it is.
    """
    head, hole, rest = path.partition(HOLE)
    if not hole:
        return path
    node = tree
    for name in head.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    if not rest and isinstance(node, dict):
        wrong = (str(key) for key, value in node.items() if not _number(value))
        head = ".".join((head, next(wrong, "")))
    return head.rstrip(".") + rest.replace(HOLE, "")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
