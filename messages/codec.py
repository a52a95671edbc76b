"""Bytes to messages and back, with limits on size and depth. msgspec's msgpack only."""

from __future__ import annotations

from collections.abc import Sequence
from types import GenericAlias
from typing import Any, Generic, TypeVar

import msgspec

from optimist.messages.base import Message
from optimist.messages.errors import MessageError

MAX_ACTOR_BYTES = 64 * 2**20
MAX_CLIENT_BYTES = 4 * 2**20
MAX_CLIENT_DEPTH = 8

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_BUNDLE = b"\xdd"
"""an array with four bytes of length: a message is a map and never begins like this"""

_encoder = msgspec.msgpack.Encoder()


def encode(message: Message) -> bytes:
    """The wire form of a message. Raises MessageError when it has none."""
    try:
        return _encoder.encode(message)
    except (TypeError, ValueError, OverflowError) as error:
        raise MessageError(f"{type(message).__name__}: {error}") from error


def bundle(frames: Sequence[bytes]) -> bytes:
    """Messages that were encoded, at least one, as one frame for `Codec.decode_all`."""
    if len(frames) == 1:
        return frames[0]
    return b"".join((_BUNDLE, len(frames).to_bytes(4, "big"), *frames))


class Codec(Generic[M]):
    """Decodes one closed union of messages and nothing else.

    accepts: the message classes. max_bytes: longer frames are refused before they are read.
    max_depth: deeper nesting is refused before it is read; None leaves it to the closed types, which
    is enough between actors.
    """

    def __init__(
        self,
        accepts: tuple[type[M], ...],
        *,
        max_bytes: int = MAX_ACTOR_BYTES,
        max_depth: int | None = None,
    ) -> None:
        if not accepts:
            raise MessageError("Codec: expected at least one message class, got none")
        self.accepts = accepts
        self.max_bytes = max_bytes
        self.max_depth = max_depth
        union: Any = accepts[0]
        for kind in accepts[1:]:
            union = union | kind
        self._decoder: msgspec.msgpack.Decoder[M] = msgspec.msgpack.Decoder(union)
        self._several: msgspec.msgpack.Decoder[list[M]] = msgspec.msgpack.Decoder(
            GenericAlias(list, (union,))
        )

    def decode(self, frame: bytes | bytearray | memoryview) -> M:
        """The message in a frame. Raises MessageError naming what was expected, what came and where.

        Raises InvalidRequest, naming the field, for sampling parameters that are out of range.
        """
        return self._read(self._decoder, frame)

    def decode_all(self, frame: bytes) -> list[M]:
        """The messages in a frame, one or those of a `bundle`. Raises as `decode` does, for all of them."""
        if not frame.startswith(_BUNDLE):
            return [self._read(self._decoder, frame)]
        if messages := self._read(self._several, frame):
            return messages
        raise MessageError("frame: expected a message, got a bundle of none")

    def _read(
        self, decoder: msgspec.msgpack.Decoder[T], frame: bytes | bytearray | memoryview
    ) -> T:
        if len(frame) > self.max_bytes:
            raise MessageError(f"frame: expected at most {self.max_bytes} bytes, got {len(frame)}")
        if self.max_depth is not None:
            check_depth(frame, self.max_depth)
        try:
            return decoder.decode(frame)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise MessageError(str(error)) from error


def check_depth(frame: bytes | bytearray | memoryview, limit: int) -> None:
    """Raise MessageError when arrays and maps nest deeper than `limit`, or claim more than is there.

    One pass over the headers, no recursion, nothing allocated from a claimed size.
    """
    data, end, at = bytes(frame), len(frame), 0
    open_items = [1]
    while open_items:
        if open_items[-1] == 0:
            open_items.pop()
            continue
        open_items[-1] -= 1
        if at >= end:
            raise MessageError(f"frame: truncated at byte {at}")
        at, skip, items = _header(data, at, end)
        if skip > end - at or items > end - at:
            raise MessageError(f"frame: byte {at} claims more than the {end - at} bytes left")
        at += skip
        if items:
            open_items.append(items)
            if len(open_items) > limit + 1:
                raise MessageError(f"frame: nested deeper than {limit}")
    if at != end:
        raise MessageError(f"frame: {end - at} bytes after the message")


def _header(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Read one msgpack header: (position behind it, bytes of body to skip, items inside)."""
    first = data[at]
    at += 1
    if first <= 0x7F or first >= 0xE0 or first in (0xC0, 0xC2, 0xC3):
        return at, 0, 0
    if first <= 0x8F:
        return at, 0, 2 * (first & 0x0F)
    if first <= 0x9F:
        return at, 0, first & 0x0F
    if first <= 0xBF:
        return at, first & 0x1F, 0
    if first in _FIXED:
        return at, _FIXED[first], 0
    if first not in _SIZED:
        raise MessageError(f"frame: byte {at - 1} is no msgpack type that we use ({first:#04x})")
    width, items_each = _SIZED[first]
    if at + width > end:
        raise MessageError(f"frame: truncated at byte {at}")
    count = int.from_bytes(data[at : at + width], "big")
    return (at + width, 0, items_each * count) if items_each else (at + width, count, 0)


_FIXED = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_SIZED = {
    0xC4: (1, 0),
    0xC5: (2, 0),
    0xC6: (4, 0),
    0xD9: (1, 0),
    0xDA: (2, 0),
    0xDB: (4, 0),
    0xDC: (2, 1),
    0xDD: (4, 1),
    0xDE: (2, 2),
    0xDF: (4, 2),
}
