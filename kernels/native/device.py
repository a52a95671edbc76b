"""Weights, cache and slots behind a handle of the native library."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence
from ctypes import POINTER, byref, c_double, c_float, c_int32, c_uint8, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.asked import Asked, Asking, rows_view
from optimist.kernels.native.library import (
    CChoice,
    CScores,
    CShape,
    instruction_set,
    library,
)
from optimist.kernels.native.shapes import (
    STORED,
    Choice,
    Chosen,
    Floats,
    Format,
    Ints,
    Matrix,
    Part,
    Rows,
    Scores,
    Shape,
    Vector,
)

PHASES = (
    *("embed", "norm", "qkv", "rope", "attention", "o"),
    *("gate_up", "down", "head", "choose", "wait"),
)
"""parts of a step whose time is counted"""

NO_LAYER = -1

_NONE = memoryview(b"")
_Bytes = POINTER(c_uint8)
_Ints = POINTER(c_int32)
_Floats = POINTER(c_float)


class NativeError(Exception):
    """The library refused. The text says what was expected and what came."""


class NativeDevice:
    """A network without weights, an empty cache, free slots.

    isa: the name of an instruction set, "" for the best of this machine. Raises ConfigError for one that
    is not there and NativeError when memory or threads do not suffice. Used by one thread at a time.
    """

    def __init__(self, shape: Shape, isa: str = "") -> None:
        self.shape = shape
        self.isa = instruction_set(isa)
        self._library = library()
        text = ctypes.create_string_buffer(256)
        frequencies = np.ascontiguousarray(shape.frequencies, np.float64)
        values = (*shape[:-1], frequencies.ctypes.data_as(POINTER(c_double)))
        self._handle = self._library.native_create(
            byref(CShape(*values)), self.isa.encode(), text, len(text)
        )
        if not self._handle:
            raise NativeError(text.value.decode())
        self._lent: mmap.mmap | None = None
        self._asking = Asking()

    def allocate(self, layer: int, part: Part, kind: Format, group: int | None = None) -> None:
        """Memory for a matrix, zero. group: inputs that share a scale of the activations, 32 or 64."""
        self._call("linear", layer, part, kind, group or 0)

    def pack(
        self,
        layer: int,
        part: Part,
        first: int,
        matrix: Matrix,
        half: int = -1,
    ) -> None:
        """Rows of a matrix from output `first` on.

        half: 0 where they are rows of the gate, 1 of up, and `first` counts among those.
        """
        rows, order = np.ascontiguousarray(matrix.rows), matrix.order
        listed = None if order is None else _column(order)
        self._call(
            *("pack", layer, part, first, half),
            *(STORED[matrix.kind], len(rows), matrix.inputs, as_bytes(rows)),
            None if listed is None else as_ints(listed),
        )

    def vector(self, layer: int, which: Vector, first: int, values: Floats) -> None:
        """Numbers of a vector from `first` on. The matrix of a bias comes before it."""
        self._call("vector", layer, which, first, values.size, as_floats(values))

    def embedding(self, matrix: Matrix) -> None:
        """The embedding, kept as it is stored. Not called at all: rows are those of a bf16 head."""
        rows = np.ascontiguousarray(matrix.rows)
        self._call("embedding", STORED[matrix.kind], as_bytes(rows))

    def embedding_room(self, kind: str) -> None:
        """Memory for an embedding of this type, zero."""
        self._call("embedding", STORED[kind], None)

    def held(self, layer: int, part: Part) -> memoryview:
        """The packed bytes of a matrix where they lie; gone when the device is closed or is lent others."""
        at = c_void_p()
        size = self._library.native_held(self._handle, layer, part, byref(at))
        return memoryview((c_uint8 * size).from_address(at.value or 0)).cast("B") if size else _NONE

    def lend(self, mapping: mmap.mmap, places: Sequence[tuple[int, Part, int]]) -> None:
        """Matrices (layer, part, offset) in a mapping, in place of the device's own; closed with the device.

        Offsets are multiples of 64, and 4096 bytes follow the last matrix.
        """
        start = np.frombuffer(mapping, np.uint8).ctypes.data
        for layer, part, offset in places:
            self._library.native_lend(self._handle, layer, part, start + offset)
        self._lent = mapping

    def checksum(self, seed: int, data: memoryview) -> int:
        """Of bytes, and of what came before. It tells damage, and nobody's intent."""
        values = np.frombuffer(data, np.uint8)
        return int(self._library.native_checksum(seed, values.ctypes.data, values.size))

    def fill_cache(self, value: float) -> None:
        """Every key and value at once, for tests of what nobody has written."""
        self._library.native_fill_cache(self._handle, value)

    def reset(self) -> None:
        """Forget every slot."""
        self._library.native_reset(self._handle)

    def open_slot(self, slot: int, ids: Ints, cached: int, choice: Choice) -> None:
        """A request moves in with its tokens, of which `cached` are in its first blocks already."""
        ids = _column(ids)
        self._call("open", slot, as_ints(ids), ids.size, cached, byref(choice_view(choice)))

    def set_blocks(self, slots: Ints, columns: Ints, blocks: Ints) -> None:
        """Entries of block tables, [N] each. Raises NativeError for a block or column that is none."""
        slots, columns, blocks = _column(slots), _column(columns), _column(blocks)
        self._call("blocks", slots.size, as_ints(slots), as_ints(columns), as_ints(blocks))

    def draft(self, slots: Ints, counts: Ints, layers: int) -> None:
        """Let the first layers, with the head, guess so many tokens of each slot, [N] each.

        The next step verifies them: its rows of these slots have as many drafts, and it is given no
        draft_ids. Raises NativeError when a slot has no blocks for them.
        """
        slots, counts = _column(slots), _column(counts)
        self._call("draft", slots.size, as_ints(slots), as_ints(counts), layers)

    def step(self, rows: Rows, alternatives: int = 0, lengths: Ints | None = None) -> Chosen:
        """Compute the rows and let those that sample choose: `ask` and `run`, one behind the other."""
        return self.run(self.ask(rows, alternatives, lengths))

    def ask(self, rows: Rows, alternatives: int = 0, lengths: Ints | None = None) -> Asked:
        """All of a step that needs no device, perhaps beside an earlier step: see Asking."""
        return self._asking.ask(rows, min(alternatives, self.shape.vocab), lengths)

    def run(self, asked: Asked) -> Chosen:
        """Compute a step that was asked for, once.

        Raises NativeError, before anything changes, when the rows contradict what the slots hold.
        """
        self._call("step", *asked.views)
        return asked.chosen

    @property
    def computing(self) -> int:
        """Threads that computed the last step, 0 before the first."""
        return int(self._library.native_computing(self._handle))

    def announce(self, fd: int) -> None:
        """Let the next step write to an eventfd once it is under way, or refused: in either case once."""
        self._library.native_announce(self._handle, fd)

    def score(self, places: Ints, ids: Ints, alternatives: int) -> Scores:
        """How likely each id was behind a query token of the last step. places, ids: [N].

        Raises NativeError when a place is none of that step's.
        """
        count = len(ids)
        places, ids, alternatives = (
            _column(places),
            _column(ids),
            min(alternatives, self.shape.vocab),
        )
        found = Scores(
            np.empty(count, np.float32),
            np.empty(count, np.int32),
            np.zeros((count, alternatives), np.int32),
            np.zeros((count, alternatives), np.float32),
        )
        views = CScores(
            *(count, as_ints(places), as_ints(ids), alternatives),
            *(as_floats(found.logprobs), as_ints(found.ranks)),
            *(as_ints(found.top_ids), as_floats(found.top_values)),
        )
        self._call("score", byref(views))
        return found

    def logits(self, rows: Rows) -> Floats:
        """Logits behind every token of the rows, [T, V]. They are computed, and nothing is chosen."""
        out = np.empty((int(rows.queries.sum()), self.shape.vocab), np.float32)
        self._call("logits", byref(rows_view(rows)), as_floats(out))
        return out

    def profile(self) -> dict[str, float]:
        """Seconds in each phase since the last call. The first call begins to count."""
        seconds = np.zeros(len(PHASES))
        self._library.native_profile(self._handle, seconds.ctypes.data_as(POINTER(c_double)))
        return dict(zip(PHASES, seconds.tolist(), strict=True))

    @property
    def weight_bytes(self) -> int:
        """Memory of the packed weights."""
        return int(self._library.native_weight_bytes(self._handle))

    @property
    def cache_bytes(self) -> int:
        """Memory of keys and values, scales included."""
        return int(self._library.native_cache_bytes(self._handle))

    def close(self) -> None:
        """Give everything back. Nothing may be called after it."""
        self._library.native_destroy(self._handle)
        self._handle = None
        if self._lent is not None:
            self._lent.close()

    def _call(self, name: str, *arguments: Any) -> None:
        if not self._handle:
            raise NativeError(f"{name}: the device is closed")
        if getattr(self._library, f"native_{name}")(self._handle, *arguments):
            raise NativeError(self._library.native_error(self._handle).decode())


def dequantise(matrix: Matrix) -> Floats:
    """The weights of a matrix in float32, [rows, inputs], whatever its order."""
    rows = np.ascontiguousarray(matrix.rows)
    out = np.empty((len(rows), matrix.inputs), np.float32)
    size = (STORED[matrix.kind], *out.shape)
    library().native_dequantise(*size, as_bytes(rows), as_floats(out))
    return out if matrix.order is None else out[matrix.order]


def choice_view(choice: Choice) -> CChoice:
    """Parameters as the library takes them; it keeps their arrays alive."""
    biased, stops = _column(choice.bias_ids), _column(choice.stop_ids)
    values = np.ascontiguousarray(choice.bias_values)
    numbers = (*choice[: choice._fields.index("bias_ids")], biased.size, stops.size)
    view = CChoice(*numbers, as_ints(biased), as_ints(stops), as_floats(values))
    view.keep = (biased, stops, values)
    return view


def as_bytes(values: NDArray[np.uint8]) -> Any:
    """A pointer that C understands; it keeps the array alive."""
    return values.ctypes.data_as(_Bytes)


def _column(values: NDArray[np.integer]) -> Ints:
    return np.ascontiguousarray(values, np.int32)


def as_ints(values: Ints) -> Any:
    """The same."""
    return values.ctypes.data_as(_Ints)


def as_floats(values: Floats) -> Any:
    """The same. Raises TypeError for another type or layout."""
    if values.dtype != np.float32 or not values.flags.c_contiguous:
        raise TypeError(f"native: expected contiguous float32 values, got {values.dtype}")
    return values.ctypes.data_as(_Floats)
