"""Columns: int32 on their way, packed once, read without a copy, never changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimist.messages.base import check_non_negative, column, floats, ints, size
from optimist.messages.errors import MessageError

INT32 = st.integers(-(2**31), 2**31 - 1)


@given(values=st.lists(INT32, max_size=50))
def test_what_is_packed_is_what_is_read(values: list[int]) -> None:
    packed = column(values)
    assert ints(packed).tolist() == values
    assert size(packed) == len(values)
    assert packed == column(np.asarray(values, np.int64)) == column(iter(values))


def test_the_view_is_read_only_int32_and_no_copy() -> None:
    packed = column([1, 2])
    view = ints(packed)
    assert view.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5
    assert np.shares_memory(view, np.frombuffer(packed, np.uint8))
    assert floats(np.asarray([0.5], "<f4").tobytes()).tolist() == [0.5]


@pytest.mark.parametrize(
    "values",
    [[2**31], [-(2**31) - 1], np.asarray([2**40]), [0.5], np.asarray([1.0]), [True, 2.5]],
)
def test_what_does_not_fit_is_refused(values: Any) -> None:
    with pytest.raises(MessageError, match=r"column: expected int"):
        column(values)


def test_other_integer_types_and_layouts_are_packed_alike() -> None:
    base = np.arange(10)
    for array in (base[::2], base.astype(np.uint8)[::2], base.astype(">i8")[::2]):
        assert ints(column(array)).tolist() == [0, 2, 4, 6, 8]


@given(values=st.lists(INT32, max_size=40), count=st.integers(1, 60))
def test_a_negative_value_is_found_anywhere_in_a_column_of_any_size(
    values: list[int], count: int
) -> None:
    repeated = column(values * count)
    if any(value < 0 for value in values):
        with pytest.raises(MessageError, match=r"a\.b: expected values >= 0, got a negative one"):
            check_non_negative("a", {"b": repeated})
    else:
        check_non_negative("a", {"b": repeated})
