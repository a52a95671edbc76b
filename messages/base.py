"""What every message has in common, and the column type that carries arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import MessageError

Column = Annotated[bytes, msgspec.Meta(description="little-endian int32 values, read-only")]
"""An int32 array on its way: a `bytes` buffer, so that it is read-only from birth."""

Floats = Annotated[bytes, msgspec.Meta(description="little-endian float32 values, read-only")]
"""A float32 array on its way."""

EMPTY: Column = b""

_INT32 = np.dtype("<i4")


def column(values: Iterable[int] | NDArray[np.integer]) -> Column:
    """Pack integers into a Column. Raises MessageError when a value does not fit in int32."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if array.dtype == _INT32:
        # Most columns of a step are: there is nothing that could not fit.
        return array.tobytes()
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise MessageError(f"column: expected integers, got {array.dtype}")
    if array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31)):
        raise MessageError("column: expected int32, got a value out of its range")
    return array.astype("<i4").tobytes()


def ints(values: Column) -> NDArray[np.int32]:
    """The read-only int32 view of a Column, shape [N]. Copy what outlives the message."""
    return np.frombuffer(values, "<i4")


def floats(values: Floats) -> NDArray[np.float32]:
    """The read-only float32 view of a Floats column, shape [N]."""
    return np.frombuffer(values, "<f4")


def size(values: Column) -> int:
    """How many values a Column holds."""
    return len(values) // 4


def check_columns(owner: str, lengths: dict[str, tuple[Column, int]]) -> None:
    """Raise MessageError unless every named column holds the number of values that goes with it."""
    for name, (values, expected) in lengths.items():
        if len(values) != 4 * expected:
            raise MessageError(
                f"{owner}.{name}: expected {expected} int32 values, got {len(values)} bytes"
            )


def check_non_negative(owner: str, columns: dict[str, Column]) -> None:
    """Raise MessageError when a column holds a negative value: a placeholder is a count, never -1.

    And when it is no whole number of int32.
    """
    for name, values in columns.items():
        if not values:
            continue
        if len(values) % 4:
            raise MessageError(
                f"{owner}.{name}: expected a whole number of int32 values, got {len(values)} bytes"
            )
        if any_negative(values):
            raise MessageError(f"{owner}.{name}: expected values >= 0, got a negative one")


def any_negative(values: Column) -> bool:
    """Whether an int32 is negative. The sign is in its last byte: mostly faster than an array."""
    if len(values) <= 4096:
        return not values[3::4].isascii()
    return int(ints(values).min()) < 0


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A piece of a message: never sent alone, so it has neither tag nor sender."""


class Message(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    gc=False,
    tag_field="type",
    tag=lambda name: "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_"),
):
    """Anything that is sent whole. Its tag is its class name in snake case, under the key `type`."""


class ActorMessage(Message, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A message between actors.

    incarnation: number of the sender's life, from one counter of the supervisor, so that a
        later life of any actor has a larger number. It fences messages of dead senders.
    urgent: may use the part of an inbox that is kept free for such messages. It does not overtake.
    """

    urgent: ClassVar[bool] = False

    incarnation: int
