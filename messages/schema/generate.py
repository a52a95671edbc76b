"""The committed description of the messages: a JSON Schema, and golden bytes of one example each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from optimist.messages.client import PROTOCOL_VERSION
from optimist.messages.codec import encode
from optimist.messages.schema.directions import (
    CLIENT_DIRECTIONS,
    DIRECTIONS,
    every_message,
    members,
)
from optimist.messages.schema.examples import examples

FOLDER = Path(__file__).parent
SCHEMA_FILE = FOLDER / f"v{PROTOCOL_VERSION}.json"
GOLDEN_FILE = FOLDER / f"v{PROTOCOL_VERSION}.bin"

ENCODING = (
    "msgpack: an object is a map with string keys, contentEncoding base64 stands for bin, and an "
    "integer key of an object is an integer on the wire"
)


def schema() -> dict[str, Any]:
    """What the messages look like now: directions by class name, and the classes as JSON Schema.

    Classes of the client protocol have their docstrings with them.
    """
    kinds = every_message()
    _, components = msgspec.json.schema_components(kinds, ref_template="#/$defs/{name}")
    described = reachable(components, (k.__name__ for k in client_messages()))
    for name, component in components.items():
        if name not in described:
            component.pop("description", None)
    made = {
        "protocol": PROTOCOL_VERSION,
        "encoding": ENCODING,
        "directions": {d: [k.__name__ for k in members(u)] for d, u in DIRECTIONS.items()},
        "$defs": components,
    }
    as_read_back: dict[str, Any] = json.loads(json.dumps(made))
    return as_read_back


def client_messages() -> tuple[type[Any], ...]:
    """The message classes of the client protocol."""
    return tuple(kind for union in CLIENT_DIRECTIONS.values() for kind in members(union))


def reachable(components: dict[str, Any], names: Iterable[str]) -> set[str]:
    """These definitions and all that they refer to."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _references(components[name])
    return found


def _references(node: Any) -> list[str]:
    if isinstance(node, list):
        return [name for item in node for name in _references(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"].removeprefix("#/$defs/")] if "$ref" in node else []
    return own + [name for item in node.values() for name in _references(item)]


def schema_text() -> str:
    """The schema as it is committed."""
    return json.dumps(schema(), indent=1) + "\n"


def golden_bytes() -> bytes:
    """The examples as they are committed: each its length, four bytes big-endian, and its msgpack."""
    frames = (encode(example) for example in examples())
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


def golden_frames(golden: bytes) -> list[bytes]:
    """The msgpack of each example in a file of golden bytes."""
    frames, at = [], 0
    while at < len(golden):
        size = int.from_bytes(golden[at : at + 4], "big")
        frames.append(golden[at + 4 : at + 4 + size])
        at += 4 + size
    return frames
