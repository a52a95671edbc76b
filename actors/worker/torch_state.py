"""What the device holds for each slot between steps."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from optimist.actors.worker.base import Limits
from optimist.actors.worker.slot_book import SlotBook
from optimist.kernels.choice import TORCH
from optimist.kernels.contract import Kernels
from optimist.kernels.device import upload, upload_together
from optimist.kernels.kv_cache import clear, null_block
from optimist.messages.base import Column, ints
from optimist.messages.slots import BlockDelta, OpenedSlot

Ints = NDArray[np.int32]


class SlotState:
    """On the device, by slot: token ids, tokens computed, block table; and the KV cache.

    more: caches of a proposer, under the same block table. kernels: the operators that work on it.
    book: what the host knows about the slots. It also knows how many blocks of each came from the
    prefix cache: those are not cleared.
    """

    def __init__(
        self,
        limits: Limits,
        cache: Tensor,
        more: tuple[Tensor, ...] = (),
        kernels: Kernels = TORCH,
    ) -> None:
        self._block_size = limits.block_size
        self.kernels = kernels
        self.cache = cache
        self.caches = (cache, *more)
        self.device = device = cache.device
        slots, self.width = limits.max_slots, limits.max_model_len + 1
        columns = -(-limits.max_model_len // limits.block_size)
        self.token_ids = torch.zeros((slots, self.width), dtype=torch.int32, device=device)
        self.computed = torch.zeros(slots, dtype=torch.int32, device=device)
        null = null_block(cache)
        self.block_table = torch.full((slots, columns), null, dtype=torch.int32, device=device)
        self.book = SlotBook(limits)
        self._cached = np.zeros(slots, np.int32)

    def reset(self) -> None:
        """Every slot is free, the block table has version 0."""
        self.book.reset()

    def close_slots(self, slots: Column) -> None:
        """Requests left these slots. Raises MessageError when there was none."""
        self.book.close_slots(slots)

    def open_slot(self, opened: OpenedSlot) -> None:
        """A request moves in: its tokens go to the device, its table row is empty.

        Raises MessageError when it, or a token of it, does not fit.
        """
        self.book.open_slot(opened)
        slot, tokens = opened.slot, ints(opened.token_ids).copy()
        self.token_ids[slot, : tokens.size] = upload(tokens, self.device)
        self.computed[slot] = opened.cached_len
        self.block_table[slot] = null_block(self.cache)
        self._cached[slot] = -(-opened.cached_len // self._block_size)

    def apply_blocks(self, delta: BlockDelta) -> None:
        """Bring the block table to the delta's version, and clear the blocks that are new to it.

        Raises MessageError when the version is not the next one, or a block or column is none.
        """
        slots, columns, blocks = self.book.entries(delta)
        if not slots.size:
            return
        flat = slots.astype(np.int64) * self.block_table.shape[1] + columns
        at, ids = upload_together((flat, blocks.copy()), self.device)
        self.block_table.view(-1).index_copy_(0, at, ids)
        fresh = tuple(blocks[columns >= self._cached[slots]].tolist())
        for cache in self.caches:
            clear(cache, fresh)

    def draft(self, slots: Ints, counts: Ints, ids: Tensor) -> None:
        """Drafts behind the last token of each slot. slots, counts: [D]; ids: [sum(counts)]."""
        at = upload(np.repeat(slots, counts).astype(np.int64), self.device)
        within = np.arange(at.shape[0]) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = self.computed.index_select(0, at) + upload(within + 1, self.device)
        flat = at * self.width + positions
        self.token_ids.view(-1).index_copy_(0, flat, ids.to(torch.int32))

    def write(self, slots: Tensor, behind: int, ids: Tensor) -> None:
        """A draft of each slot, `behind` places behind its last token but one. slots: [N] int64; ids: [N]."""
        flat = slots * self.width + self.computed.index_select(0, slots) + behind
        self.token_ids.view(-1).index_copy_(0, flat, ids.to(torch.int32))

    def tokens_at(self, slots: Tensor, positions: Tensor) -> Tensor:
        """Tokens, or drafts, at these positions. slots, positions: [N] int64. [N] int32."""
        return self.token_ids.view(-1).index_select(0, slots * self.width + positions)
