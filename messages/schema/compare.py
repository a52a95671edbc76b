"""Whether a newer description of the client protocol keeps what an older one promised."""

from __future__ import annotations

from typing import Any

from optimist.messages.schema.directions import CLIENT_DIRECTIONS
from optimist.messages.schema.generate import reachable

_NOTHING = object()


def broken_rules(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """One sentence for each promise of `old` that `new` breaks within one protocol version.

    1. A message stays. 2. A field stays. 3. A field keeps its type. 4. A field keeps its default.
    5. A new field has a default. 6. What the gateway sends gets no new field: clients refuse it.
    Messages between actors promise nothing: the actors of an engine are of one version.
    """
    broken: list[str] = []
    for direction in CLIENT_DIRECTIONS:
        kept = new["directions"].get(direction, [])
        broken += [
            f"{direction}: {name} is gone; a message stays (rule 1)"
            for name in old["directions"][direction]
            if name not in kept
        ]
    sent = reachable(old["$defs"], old["directions"]["gateway to client"])
    promised = sent | reachable(old["$defs"], old["directions"]["client to gateway"])
    for name in sorted(promised & new["$defs"].keys()):
        broken += _compare(name, old["$defs"][name], new["$defs"][name], frozen=name in sent)
    return broken


def _compare(name: str, old: dict[str, Any], new: dict[str, Any], *, frozen: bool) -> list[str]:
    before, after = old.get("properties", {}), new.get("properties", {})
    broken = []
    for field in before:
        if field not in after:
            broken.append(f"{name}.{field} is gone; a field stays (rule 2)")
        elif _type(before[field]) != _type(after[field]):
            broken.append(f"{name}.{field} has another type; a field keeps its type (rule 3)")
        elif not _keeps(_default(before[field]), _default(after[field])):
            broken.append(f"{name}.{field} has another default; a field keeps it (rule 4)")
    for field in after.keys() - before.keys():
        if field in new.get("required", ()):
            broken.append(f"{name}.{field} is new and required; it needs a default (rule 5)")
        elif frozen:
            broken.append(
                f"{name}.{field} is new; the gateway sends {name} to old clients (rule 6)"
            )
    if "enum" in old and old["enum"] != new.get("enum"):
        broken.append(f"{name} has other values; a type stays (rule 3)")
    return broken


def _keeps(before: Any, after: Any) -> bool:
    """Whether a default is what it was. One made of fields may gain some: they have defaults."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.items() <= after.items()
    return bool(before == after)


def _type(field: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in field.items() if key not in ("default", "description")}


def _default(field: dict[str, Any]) -> Any:
    return field.get("default", _NOTHING)
