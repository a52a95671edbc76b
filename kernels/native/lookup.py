"""Texts of requests, and drafts looked up in them, behind a handle of the native library."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.library import library
from optimist.kernels.native.shapes import Ints

_ROWS = 64
"""room for rows of a step, and for a few tokens of each; it grows"""


class LookupFailed(Exception):
    """The library refused: a slot is not open, or memory did not suffice."""


class NativeLookup:
    """Requests by slot. Made by `ngram_lookup` and `suffix_lookup`; used by one thread at a time."""

    def __init__(self, handle: int | None) -> None:
        """handle: of the library, which is destroyed with this object. Raises LookupFailed for None."""
        if handle is None:
            raise LookupFailed("lookup: memory does not suffice")
        self._library = library()
        self._handle = handle
        self._step = self._library.native_lookup_step
        self._room(_ROWS, _ROWS, _ROWS)
        weakref.finalize(self, self._library.native_lookup_destroy, handle)

    @property
    def nbytes(self) -> int:
        """Memory of all texts and their indices."""
        return int(self._library.native_lookup_bytes(self._handle))

    def open(self, slot: int, token_ids: Ints, salt: str | None = None) -> None:
        """A request with these tokens, [N], is in the slot. salt: see Proposer.shares."""
        name = None if salt is None else salt.encode()
        length = -1 if name is None else len(name)
        ids = np.ascontiguousarray(token_ids, np.int32)
        address = ids.ctypes.data
        self._check(
            self._library.native_lookup_open(self._handle, slot, name, length, address, len(ids)),
            "open",
        )

    def close(self, slot: int) -> None:
        """It has left the slot. Nothing happens when there is none."""
        self._check(self._library.native_lookup_close(self._handle, slot), "close")

    def step(
        self, slots: NDArray[Any], counts: NDArray[Any], most: NDArray[Any], token_ids: NDArray[Any]
    ) -> tuple[Ints, Ints]:
        """Requests went on, in slots [S] with counts [S] of token_ids [sum], and want at most `most` drafts, [S].

        Returns how many drafts each gets, [S] int32, and which, [sum] int32. Raises LookupFailed, with some
        rows told and others not, for a slot that is not open, ValueError for arrays that do not fit together.
        """
        _check_shapes(token_ids, slots, counts, most)
        rows, tokens, room = len(slots), len(token_ids), int(most.sum())
        if rows > self._columns.shape[1] or tokens > len(self._ids) or room > len(self._found):
            self._room(2 * rows, max(2 * tokens, len(self._ids)), 2 * room)
        columns = self._columns
        columns[0, :rows], columns[1, :rows], columns[2, :rows] = slots, counts, most
        _check_counts(columns[1:3, :rows], tokens)
        self._ids[:tokens] = token_ids
        drafts = self._step(self._handle, rows, *self._addresses)
        self._check(drafts, "step")
        return columns[3, :rows].copy(), self._found[:drafts].copy()

    def rehearse(
        self, slots: NDArray[Any], counts: NDArray[Any], most: int, token_ids: NDArray[Any]
    ) -> Ints:
        """Requests went on as in `step`, and want no drafts. What would at most `most` each time have been worth?

        Returns how often they would have been asked for, how often there were some, drafts up to the first
        wrong one, and right ones: [4, S] int32. Raises what `step` does.
        """
        _check_shapes(token_ids, slots, counts)
        rows, tokens = len(slots), len(token_ids)
        if rows > self._columns.shape[1] or tokens > len(self._ids):
            self._room(2 * rows, 2 * tokens, len(self._found))
        columns = self._columns
        columns[0, :rows], columns[1, :rows] = slots, counts
        _check_counts(columns[1:2, :rows], tokens)
        self._ids[:tokens] = token_ids
        at, of, _, ids, _, _ = self._addresses
        room = columns.shape[1]
        call = self._library.native_lookup_rehearse
        self._check(call(self._handle, rows, at, of, most, ids, room, self._worth_at), "rehearse")
        return self._worth[:, :rows].copy()

    def _room(self, rows: int, tokens: int, drafts: int) -> None:
        """Arrays at addresses that stay, since to find one out takes as long as a lookup."""
        self._columns: Ints = np.zeros((4, max(rows, _ROWS)), np.int32)
        self._ids: Ints = np.zeros(max(tokens, _ROWS), np.int32)
        self._found: Ints = np.zeros(max(drafts, _ROWS), np.int32)
        slots, counts, most, made = (row.ctypes.data for row in self._columns)
        others = (self._ids.ctypes.data, made, self._found.ctypes.data)
        self._addresses = (slots, counts, most, *others)
        self._worth: Ints = np.zeros_like(self._columns)
        self._worth_at = self._worth.ctypes.data

    def _check(self, result: int, method: str) -> None:
        if result < 0:
            raise LookupFailed(f"lookup.{method}: a slot is not open, or memory does not suffice")


def _check_shapes(token_ids: NDArray[Any], *columns: NDArray[Any]) -> None:
    """Raise ValueError unless these are whole numbers, the columns of one length."""
    expected = columns[0].shape
    if token_ids.ndim != 1 or any(column.shape != expected for column in columns):
        shapes = [column.shape for column in columns]
        raise ValueError(
            f"lookup: expected [S] each and ids [sum], got {shapes}, {token_ids.shape}"
        )
    for given in (token_ids, *columns):
        if given.dtype.kind != "i":
            raise ValueError(f"lookup: expected whole numbers, got {given.dtype}")


def _check_counts(counts: Ints, tokens: int) -> None:
    """Raise ValueError where the library would read or write beside the arrays. counts: [1 or 2, S]."""
    if counts.size and int(counts.min()) < 0:
        raise ValueError(f"lookup: expected counts >= 0, got {counts.tolist()}")
    if (told := int(counts[0].sum())) != tokens:
        raise ValueError(f"lookup: expected {told} token ids, as many as are counted, got {tokens}")


def ngram_lookup(shortest: int, longest: int) -> NativeLookup:
    """The longest match of so many of a request's last tokens. Raises ConfigError without the library."""
    return NativeLookup(library().native_lookup_ngram(shortest, longest))


def suffix_lookup(depth: int, capacity: int, least: float) -> NativeLookup:
    """Suffix trees of requests, and of `capacity` tokens of ended ones. depth: tokens of a match at most.
    least: probability that a draft must have. Raises ConfigError without the library.
    """
    return NativeLookup(library().native_lookup_suffix(depth, capacity, least))
