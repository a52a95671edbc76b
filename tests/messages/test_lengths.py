"""The length types: no way from a bound to a number but by name, and none that is silent."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.messages.errors import MessageError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound

Lens = type[ExactSeqLens] | type[SeqLensUpperBound]
BOTH = pytest.mark.parametrize("kind", [ExactSeqLens, SeqLensUpperBound])
LENGTHS = st.lists(st.integers(0, 2**31 - 1), max_size=20)

REFUSED: dict[str, Callable[[Any], object]] = {
    "int()": int,
    "float()": float,
    "complex()": complex,
    "index": operator.index,
    "round": round,
    "math.floor": math.floor,
    "len()": len,
    "item": lambda x: x[0],
    "slice": lambda x: x[:1],
    "list()": list,
    "max()": max,
    "sum()": sum,
    "sorted()": sorted,
    "reversed()": lambda x: list(reversed(x)),
    "in": lambda x: 5 in x,
    "unpacking": lambda x: [*x],
    "range()": range,
    "+": lambda x: x + 1,
    "r+": lambda x: 1 + x,
    "-": lambda x: x - 1,
    "r-": lambda x: 10 - x,
    "*": lambda x: x * 2,
    "/": lambda x: x / 2,
    "//": lambda x: x // 2,
    "%": lambda x: x % 2,
    "**": lambda x: x**2,
    "@": lambda x: x @ x,
    "negation": operator.neg,
    "abs()": abs,
    "~": operator.invert,
    "<<": lambda x: x << 1,
    "&": lambda x: x & 1,
    "<": lambda x: x < 5,
    "<=": lambda x: x <= 5,
    ">": lambda x: x > 5,
    ">=": lambda x: x >= 5,
    "==": lambda x: x == 5,
    "== itself": lambda x: operator.eq(x, x),
    "!= itself": lambda x: operator.ne(x, x),
    "!=": lambda x: x != 5,
    "truth": bool,
    "not": operator.not_,
    "hash()": hash,
    "bytes()": bytes,
    "memoryview()": memoryview,
    "np.asarray": np.asarray,
    "np.array": np.array,
    "np.array of a list": lambda x: np.array([x]),
    "np.add": lambda x: np.add(x, 1),
    "set item": lambda x: operator.setitem(x, 0, 1),
    "call": lambda x: x(),
    "format": lambda x: format(x, "d"),
    "if": lambda x: 1 if x else 0,
    "and": lambda x: x and 1,
    "== of lists": lambda x: [x] == [5],
    "in a list": lambda x: x in [5],
    "sorted": lambda x: sorted([x, x]),
    "max of some": lambda x: max([x, x]),
    "index of a list": lambda x: [1, 2][x],
    "set": lambda x: {x},
}


@BOTH
@pytest.mark.parametrize("use", REFUSED)
def test_a_length_is_neither_number_nor_sequence_nor_buffer(kind: Lens, use: str) -> None:
    with pytest.raises(TypeError):
        REFUSED[use](kind.of([5, 6]))


@BOTH
def test_it_does_not_change(kind: Lens) -> None:
    lens = kind.of([5, 6])
    for name in ("_buf", "exact", "new"):
        with pytest.raises(AttributeError):
            setattr(lens, name, b"")


def test_a_bound_has_no_exact_and_an_exact_length_no_sizing_array() -> None:
    assert not hasattr(SeqLensUpperBound.of([5]), "exact")
    assert not hasattr(ExactSeqLens.of([5]), "sizing_array")


def test_torch_takes_none_of_them() -> None:
    import torch

    for lens in (ExactSeqLens.of([5]), SeqLensUpperBound.of([5])):
        for take in (torch.tensor, torch.as_tensor, torch.asarray):
            with pytest.raises((TypeError, RuntimeError)):
                take(lens)


@BOTH
def test_generic_inspection_shows_bytes_and_never_numbers(kind: Lens) -> None:
    lens = kind.of([5, 6])
    assert msgspec.structs.astuple(lens) == (b"\5\0\0\0\6\0\0\0",)
    assert "5" not in repr(lens).replace("\\x05", "")


@BOTH
@given(values=LENGTHS)
def test_reductions_agree_with_the_values(kind: Lens, values: list[int]) -> None:
    lens = kind.of(values)
    assert lens.count() == len(values)
    assert lens.max() == max(values, default=0)
    assert lens.total() == sum(values)
    assert lens.blocks(16) == sum(-(-value // 16) for value in values)
    assert lens.rows_with_context().tolist() == [value > 0 for value in values]
    part = lens.rows(1, 3)
    assert type(part) is kind
    assert part.total() == sum(values[1:3])


@given(values=LENGTHS)
def test_the_named_doors_give_the_values_read_only(values: list[int]) -> None:
    for array in (
        ExactSeqLens.of(values).exact(),
        SeqLensUpperBound.of(values).sizing_array(reader="test"),
    ):
        assert array.tolist() == values
        assert array.dtype == np.int32
        assert not array.flags.writeable


def test_the_raw_door_asks_who_reads() -> None:
    with pytest.raises(ValueError, match="the reader's name, got an empty string"):
        SeqLensUpperBound.of([1]).sizing_array(reader="")
    with pytest.raises(TypeError):
        SeqLensUpperBound.of([1]).sizing_array()  # type: ignore[call-arg]


@BOTH
@pytest.mark.parametrize("values", [[-1], [3, -5], [2**31], [1.5], ["a"]])
def test_what_is_no_length_is_refused(kind: Lens, values: list[Any]) -> None:
    with pytest.raises(MessageError):
        kind.of(values)


GOOD = {"type": "upper_bound", "i4": b"\1\0\0\0"}


@pytest.mark.parametrize(
    ("wire", "reason"),
    [
        ({**GOOD, "type": "exact"}, "Invalid value 'exact' - at `$.type`"),
        ({"type": "upper_bound"}, "missing required field `i4`"),
        ({**GOOD, "exact": b""}, "unknown field `exact`"),
        ({**GOOD, "_buf": b""}, "unknown field `_buf`"),
        ([1, 2], "Expected `object`, got `array`"),
        (5, "Expected `object`, got `int`"),
        ({**GOOD, "i4": [1]}, "Expected `bytes`, got `array` - at `$.i4`"),
        ({**GOOD, "i4": b"abc"}, "expected a whole number of int32, got 3 bytes"),
        ({**GOOD, "i4": b"\xff\xff\xff\xff"}, "expected lengths >= 0, got a negative one"),
    ],
)
def test_the_wire_form_is_checked(wire: object, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.msgpack.decode(msgspec.msgpack.encode(wire), type=SeqLensUpperBound)
    assert reason in str(error.value)
