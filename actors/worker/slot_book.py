"""What the host knows about the slots of a device, and holds every batch against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import Limits
from optimist.messages.base import Column, ints, size
from optimist.messages.errors import MessageError
from optimist.messages.slots import BlockDelta, OpenedSlot

FREE = -1
"""generation of a slot that no request is in"""

Ints = NDArray[np.int32]

NONE: Ints = np.zeros(0, np.int32)


class SlotBook:
    """By slot: the generation in it and how many blocks its table row holds. No length is here."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._columns = -(-limits.max_model_len // limits.block_size)
        self._generations = np.full(limits.max_slots, FREE, np.int32)
        self._owned = np.zeros(limits.max_slots, np.int32)
        self._row = np.zeros(limits.max_slots, np.int64)
        self._version = 0

    def reset(self) -> None:
        """Every slot is free, the block table has version 0."""
        self._generations[:] = FREE
        self._version = 0

    def close_slots(self, slots: Column) -> None:
        """Requests left these slots. Raises MessageError when there was none."""
        for slot in self._checked("closed", ints(slots)):
            if self._generations[slot] == FREE:
                raise MessageError(f"closed: slot {slot} is free already")
            self._generations[slot] = FREE

    def open_slot(self, opened: OpenedSlot) -> None:
        """A request moves in. Raises MessageError when it, or a token of it, does not fit."""
        (slot,) = self._checked("opened.slot", np.array([opened.slot]))
        if self._generations[slot] != FREE:
            raise MessageError(f"opened.slot: slot {slot} is not free")
        tokens, longest = size(opened.token_ids), self._limits.max_model_len
        if not opened.cached_len < tokens <= longest:
            raise MessageError(
                f"opened.token_ids: expected more than cached_len {opened.cached_len} and fewer than "
                f"{longest + 1}, got {tokens} in slot {slot}"
            )
        sampling = opened.sampling
        for name, ids in (
            ("token_ids", opened.token_ids),
            ("sampling.bias_ids", sampling.bias_ids),
            ("sampling.stop_ids", sampling.stop_ids),
        ):
            if (top := ints(ids).max(initial=0)) >= self._limits.vocab_size:
                raise MessageError(
                    f"opened.{name}: expected tokens below {self._limits.vocab_size}, "
                    f"got {top} in slot {slot}"
                )
        self._generations[slot] = opened.generation
        self._owned[slot] = 0

    def entries(self, delta: BlockDelta) -> tuple[Ints, Ints, Ints]:
        """Slot, column and block of every entry of the next version of the block table.

        Raises MessageError when the version is not the next one, or a block or column is none.
        """
        if delta.version != self._version + 1:
            raise MessageError(f"blocks.version: expected {self._version + 1}, got {delta.version}")
        self._version = delta.version
        if not delta.blocks and not delta.counts:
            return NONE, NONE, NONE
        counts, blocks = ints(delta.counts), ints(delta.blocks)
        slots = np.repeat(self._checked("blocks.slots", ints(delta.slots)), counts)
        within = np.arange(slots.size) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = np.repeat(ints(delta.offsets), counts) + within
        self._check_blocks(columns, blocks)
        np.maximum.at(self._owned, slots, (columns + 1).astype(np.int32))
        return slots, columns.astype(np.int32), blocks

    def check_rows(
        self, slots: Ints, generations: Ints, longest: int, needed: NDArray[np.int64]
    ) -> None:
        """Raise MessageError unless each row's request is in its slot, with blocks for the step."""
        self._checked("slots", slots)
        order = np.arange(slots.size)
        self._row[slots] = order
        if (self._row[slots] != order).any():
            raise MessageError(f"slots: expected one row of a slot, got {slots.tolist()}")
        if longest > self._limits.max_model_len:
            raise MessageError(
                f"lengths: expected at most {self._limits.max_model_len} tokens, got {longest}"
            )
        for name, got, held, bad in (
            ("generation", generations, self._generations, self._generations[slots] != generations),
            ("blocks in the table, needs", needed, self._owned, self._owned[slots] < needed),
        ):
            if bad.any():
                row = int(bad.argmax())
                raise MessageError(f"slot {slots[row]}: has {held[slots[row]]} {name} {got[row]}")

    def check_lengths(self, slots: Ints, lengths: Ints) -> None:
        """The same of rows whose requests are known to be in their slots. lengths: to have blocks for, [R]."""
        limits = self._limits
        room = np.minimum(self._owned[slots] * limits.block_size, limits.max_model_len)
        if (lengths > room).any():
            needed = -(-lengths.astype(np.int64) // limits.block_size)
            self.check_rows(slots, self._generations[slots], int(lengths.max()), needed)

    def _check_blocks(self, columns: NDArray[np.int64], blocks: Ints) -> None:
        if columns.size and columns.max() >= self._columns:
            raise MessageError(
                f"blocks.offsets: expected columns below {self._columns}, got {columns.max()}"
            )
        if blocks.size and blocks.max() >= self._limits.num_blocks:
            raise MessageError(
                f"blocks.blocks: expected blocks below {self._limits.num_blocks}, got {blocks.max()}"
            )

    def _checked(self, name: str, slots: NDArray[np.int32]) -> NDArray[np.int32]:
        if slots.size and slots.max() >= self._limits.max_slots:
            raise MessageError(
                f"{name}: expected slots below {self._limits.max_slots}, got {slots.max()}"
            )
        return slots
