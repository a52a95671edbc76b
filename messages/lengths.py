"""Value types for sequence lengths. Neither is a number, a sequence or a buffer.

No number or container protocol method is defined. `ExactSeqLens.exact()` is the only way from a
length to numbers; a bound gives reductions, one class test and one raw door with a named reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import Column, any_negative, column, ints
from optimist.messages.errors import MessageError

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Opaque(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, eq=False):
    """Wire form: a map of the tag and a little-endian int32 buffer under the key `i4`."""

    _buf: Column = msgspec.field(name="i4")

    def __post_init__(self) -> None:
        if len(self._buf) % 4:
            raise MessageError(
                f"{type(self).__name__}: expected a whole number of int32, got {len(self._buf)} bytes"
            )
        if self._buf and any_negative(self._buf):
            raise MessageError(f"{type(self).__name__}: expected lengths >= 0, got a negative one")

    @classmethod
    def of(cls, values: Iterable[int] | NDArray[np.integer]) -> Self:
        """Lengths of the rows in order, [R]. Raises MessageError on a negative or huge one."""
        return cls(column(values))

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} has no truth value; use count()")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is not an array; use a named accessor")

    # Hidden from the checkers on purpose: with object.__eq__ in view they reject `bound == 5`.
    if not TYPE_CHECKING:

        def __eq__(self, other: object) -> NoReturn:
            raise TypeError(f"{type(self).__name__} does not compare; use a named accessor")

        __ne__ = __eq__
        __hash__ = None

    def count(self) -> int:
        """How many rows there are: exact in either type."""
        return len(self._buf) // 4

    def max(self) -> int:
        """The largest length, 0 for no rows. Of a bound: no row is longer."""
        return int(ints(self._buf).max(initial=0))

    def total(self) -> int:
        """The sum of the lengths. Of a bound: the rows together are no longer."""
        return int(ints(self._buf).sum(dtype=np.int64))

    def blocks(self, block_size: int) -> int:
        """How many blocks of `block_size` tokens hold the rows. Of a bound: they suffice."""
        return int((-(-ints(self._buf).astype(np.int64) // block_size)).sum())

    def rows_with_context(self) -> NDArray[np.bool_]:
        """Which rows hold tokens at all, [R] bool: padding rows have length 0.

        The answer is the same for a length and for its bound, so reading it tells nothing more.
        """
        return ints(self._buf) > 0

    def rows(self, start: int, stop: int) -> Self:
        """The same kind of lengths for rows start to stop."""
        return type(self)(self._buf[4 * start : 4 * stop])


class ExactSeqLens(
    _Opaque, tag="exact", frozen=True, gc=False, forbid_unknown_fields=True, eq=False
):
    """Lengths that are true when the step runs, its own query tokens included."""

    def exact(self) -> NDArray[np.int32]:
        """The lengths, [R] int32, read-only."""
        return ints(self._buf)


class SeqLensUpperBound(
    _Opaque, tag="upper_bound", frozen=True, gc=False, forbid_unknown_fields=True, eq=False
):
    """Lengths if every speculated token is accepted. Fit for sizing, for nothing else."""

    def sizing_array(self, *, reader: str) -> NDArray[np.int32]:
        """The bounds, [R] int32, read-only: the one raw door.

        reader: who looks, as listed with its reason in docs/length-contract.md. Raises ValueError
        when it is empty.
        """
        if not reader:
            raise ValueError("sizing_array: expected the reader's name, got an empty string")
        return ints(self._buf)
