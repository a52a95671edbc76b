"""A step as the native library is asked for it: views of columns, and room for what is chosen."""

from __future__ import annotations

from ctypes import byref
from typing import Any, NamedTuple

import numpy as np

from optimist.kernels.native.library import CChosen, CRows
from optimist.kernels.native.shapes import Chosen, Ints, Rows


class Asked(NamedTuple):
    """A step that lacks nothing but the device.

    views: for the library. chosen: what it will write to. kept: memory that the views are of.
    """

    views: tuple[Any, Any]
    chosen: Chosen
    kept: object


class Asking:
    """Makes steps of rows, and remembers the last ones: they mostly come again. One thread at a time."""

    def __init__(self) -> None:
        self._rows: Rows | None = None
        self._view = CRows(0)
        self._sampling = self._places = 0

    def ask(self, rows: Rows, alternatives: int, lengths: Ints | None) -> Asked:
        """alternatives: the most any row asks for. lengths: in place of those of the rows.

        Rows that come again must be what they were.
        """
        if rows is not self._rows:
            self._rows, self._view = rows, rows_view(rows)
            self._sampling = int(np.count_nonzero(rows.samples))
            self._places = self._sampling + int(rows.drafts[rows.samples != 0].sum())
        view = self._view
        if lengths is not None:
            view = CRows.from_buffer_copy(view)
            view.lengths = lengths.ctypes.data
        chosen, room = _room(self._sampling, self._places, alternatives)
        return Asked((byref(view), byref(room)), chosen, (self._view.keep, lengths))


def _room(rows: int, places: int, alternatives: int) -> tuple[Chosen, CChosen]:
    """Of two arrays for all: a step has no time for six."""
    room, begin = np.zeros((4, places), np.int32), 0
    counts, ids, logprobs, ranks = room
    tops = np.zeros((2, places, alternatives), np.int32)
    chosen = Chosen(
        *(counts[:rows], ids, logprobs.view(np.float32), ranks),
        *(tops[0], tops[1].view(np.float32)),
    )
    begin, top = room.ctypes.data, tops.ctypes.data if alternatives else 0
    row, plane = 4 * places, 4 * places * alternatives
    addresses = (begin, begin + row, begin + 2 * row, begin + 3 * row, top, top + plane)
    return chosen, CChosen(*addresses, alternatives)


def rows_view(rows: Rows) -> CRows:
    """The columns one behind the other in an array that stays alive in `keep`."""
    columns = np.concatenate(rows, dtype=np.int32)
    count, at = rows.slots.size, columns.ctypes.data
    if any(column.size != count for column in rows[:-1]):
        raise ValueError(f"rows: expected {count} values in each column")
    view = CRows(count, *range(at, at + 6 * 4 * count, 4 * count)) if count else CRows(0)
    if not rows.draft_ids.size:
        view.draft_ids = None
    view.keep = columns
    return view
