"""What the device holds for each slot between steps."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Limits
from optimist.actors.worker.torch_rows import Rows
from optimist.kernels.choice import TORCH, Kernels
from optimist.kernels.kv_cache import clear, null_block
from optimist.messages.base import Column, ints, size
from optimist.messages.errors import MessageError
from optimist.messages.slots import BlockDelta, OpenedSlot

Ints = NDArray[np.int32]

FREE = -1
"""generation of a slot that no request is in"""


class SlotState:
    """On the device, by slot: token ids, tokens computed, block table; and the KV cache.

    more: caches of a proposer, under the same block table. kernels: the operators that work on it.

    On the host, which needs them to check what it is told: the generation in each slot, how many
    blocks its table row holds, and how many of those came from the prefix cache.
    """

    def __init__(
        self,
        limits: Limits,
        cache: Tensor,
        more: tuple[Tensor, ...] = (),
        kernels: Kernels = TORCH,
    ) -> None:
        self._limits = limits
        self.kernels = kernels
        self.cache = cache
        self.caches = (cache, *more)
        slots, self.width = limits.max_slots, limits.max_model_len + 1
        columns = -(-limits.max_model_len // limits.block_size)
        self.token_ids = torch.zeros((slots, self.width), dtype=torch.int32)
        self.computed = torch.zeros(slots, dtype=torch.int32)
        self.block_table = torch.full((slots, columns), null_block(cache), dtype=torch.int32)
        self._generations = np.full(slots, FREE, np.int32)
        self._owned = np.zeros(slots, np.int32)
        self._cached = np.zeros(slots, np.int32)
        self._version = 0

    def reset(self) -> None:
        """Every slot is free, the block table has version 0."""
        self._generations[:] = FREE
        self._version = 0

    def close_slots(self, slots: Column) -> None:
        """Requests left these slots."""
        for slot in self._checked("closed", ints(slots)):
            if self._generations[slot] == FREE:
                raise MessageError(f"closed: slot {slot} is free already")
            self._generations[slot] = FREE

    def open_slot(self, opened: OpenedSlot) -> None:
        """A request moves in: its tokens go to the device, its table row is empty."""
        (slot,) = self._checked("opened.slot", np.array([opened.slot]))
        if self._generations[slot] != FREE:
            raise MessageError(f"opened.slot: slot {slot} is not free")
        tokens, ids = size(opened.token_ids), ints(opened.token_ids)
        if not opened.cached_len < tokens < self.width:
            raise MessageError(
                f"opened.token_ids: expected more than cached_len {opened.cached_len} and fewer than "
                f"{self.width}, got {tokens} in slot {slot}"
            )
        if ids.max() >= self._limits.vocab_size:
            raise MessageError(
                f"opened.token_ids: expected tokens below {self._limits.vocab_size}, "
                f"got {ids.max()} in slot {slot}"
            )
        self.token_ids[slot, :tokens] = torch.from_numpy(ids.copy())
        self.computed[slot] = opened.cached_len
        self.block_table[slot] = null_block(self.cache)
        self._generations[slot] = opened.generation
        self._owned[slot] = 0
        self._cached[slot] = -(-opened.cached_len // self._limits.block_size)

    def apply_blocks(self, delta: BlockDelta) -> None:
        """Bring the block table to the delta's version, and clear the blocks that are new to it.

        Raises MessageError when the version is not the next one, or a block or column is none.
        """
        if delta.version != self._version + 1:
            raise MessageError(f"blocks.version: expected {self._version + 1}, got {delta.version}")
        self._version = delta.version
        if not delta.slots:
            return
        slots, counts, blocks = ints(delta.slots), ints(delta.counts), ints(delta.blocks)
        self._checked("blocks.slots", slots)
        rows = np.repeat(slots, counts).astype(np.int64)
        within = np.arange(rows.size) - np.repeat(np.cumsum(counts) - counts, counts)
        columns = np.repeat(ints(delta.offsets), counts) + within
        self._check_blocks(columns, blocks)
        flat = torch.from_numpy(rows * self.block_table.shape[1] + columns)
        self.block_table.view(-1).index_copy_(0, flat, torch.from_numpy(blocks.copy()))
        np.maximum.at(self._owned, rows, (columns + 1).astype(np.int32))
        fresh = tuple(blocks[columns >= self._cached[rows]].tolist())
        for cache in self.caches:
            clear(cache, fresh)

    def draft(self, slots: Ints, counts: Ints, ids: Tensor) -> None:
        """Drafts behind the last token of each slot. slots, counts: [D]; ids: [sum(counts)]."""
        at = torch.from_numpy(np.repeat(slots, counts).astype(np.int64))
        within = np.arange(at.shape[0]) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = self.computed.index_select(0, at) + torch.from_numpy(within + 1)
        flat = at * self.width + positions
        self.token_ids.view(-1).index_copy_(0, flat, ids.to(torch.int32))

    def write(self, slots: Tensor, behind: int, ids: Tensor) -> None:
        """A draft of each slot, `behind` places behind its last token but one. slots: [N] int64; ids: [N]."""
        flat = slots * self.width + self.computed.index_select(0, slots) + behind
        self.token_ids.view(-1).index_copy_(0, flat, ids.to(torch.int32))

    def tokens_at(self, slots: Tensor, positions: Tensor) -> Tensor:
        """Tokens, or drafts, at these positions. slots, positions: [N] int64. [N] int32."""
        return self.token_ids.view(-1).index_select(0, slots * self.width + positions)

    def check_rows(self, rows: Rows, longest: int, needed: NDArray[np.int64]) -> None:
        """Raise MessageError unless each row's request is in its slot, with blocks for the step."""
        slots = self._checked("slots", rows.slots)
        if np.unique(slots).size != slots.size:
            raise MessageError(f"slots: expected each once, got {slots.tolist()}")
        if longest > self._limits.max_model_len:
            raise MessageError(
                f"lengths: expected at most {self._limits.max_model_len} tokens, got {longest}"
            )
        for name, got, bad in (
            ("generation", rows.generations, self._generations[slots] != rows.generations),
            ("blocks in the table, needs", needed, self._owned[slots] < needed),
        ):
            if bad.any():
                row = int(bad.argmax())
                held = self._generations if got is rows.generations else self._owned
                raise MessageError(f"slot {slots[row]}: has {held[slots[row]]} {name} {got[row]}")

    def _check_blocks(self, columns: NDArray[np.int64], blocks: NDArray[np.int32]) -> None:
        if columns.size and columns.max() >= self.block_table.shape[1]:
            raise MessageError(
                f"blocks.offsets: expected columns below {self.block_table.shape[1]}, "
                f"got {columns.max()}"
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
