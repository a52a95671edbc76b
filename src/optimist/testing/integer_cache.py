"""The integer model's paged KV cache: two layers, written and read through block tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import OptimistError
from optimist.testing.hashing import Hashes, first_kvs, second_kvs, terms

POISON = np.uint64(0x0BADBADBADBADBAD)
"""what unwritten and freed KV holds"""


class Violation(OptimistError):
    """A batch asked for something that no correct scheduler and builder ask for."""


class IntegerCache:
    """KV of `num_blocks` blocks, and one more that is never written: unset table entries name it.

    checked: reading poison raises Violation. Otherwise it is read, and changes tokens.
    """

    def __init__(self, num_blocks: int, block_size: int, *, checked: bool) -> None:
        self.unset = num_blocks
        self._block_size = block_size
        self.checked = checked
        self._first = np.full((num_blocks + 1, block_size), POISON, np.uint64)
        self._second = self._first.copy()

    def poison(self, blocks: NDArray[np.integer] | slice = slice(None)) -> None:
        """Overwrite blocks with poison: nobody may read them before they are written again."""
        self._first[blocks] = POISON
        self._second[blocks] = POISON

    def attend(
        self,
        table: NDArray[np.int32],
        ends: NDArray[np.int64],
        rows: NDArray[np.int64],
        positions: NDArray[np.int64],
        tokens: NDArray[np.int64],
    ) -> Hashes:
        """Write both layers of the query tokens; the fold over the second up to each of them, [Q].

        table: blocks of each row, [R, B]. ends: tokens of each row with its query, [R].
        rows, positions, tokens: of the query tokens, [Q].
        """
        blocks, offsets = table[rows, positions // self._block_size], positions % self._block_size
        if self.checked and bool((blocks == self.unset).any()):
            raise Violation("attend: a query token has no block to write its KV to")
        kv = first_kvs(tokens, positions)
        self._first[blocks, offsets] = kv
        folds = self._terms(self._first, table, ends).cumsum(axis=1, dtype=np.uint64)
        self._second[blocks, offsets] = second_kvs(kv, folds[rows, positions])
        folds = self._terms(self._second, table, ends).cumsum(axis=1, dtype=np.uint64)
        upto: Hashes = folds[rows, positions]
        return upto

    def _terms(self, layer: Hashes, table: NDArray[np.int32], ends: NDArray[np.int64]) -> Hashes:
        width = -(-int(ends.max(initial=0)) // self._block_size)
        kv = layer[table[:, :width]].reshape(len(table), width * self._block_size)
        valid = np.arange(kv.shape[1]) < ends[:, None]
        if self.checked and bool((valid & (kv == POISON)).any()):
            row, index = np.argwhere(valid & (kv == POISON))[0]
            raise Violation(f"attend: row {row} reads KV of token {index}, which nobody wrote")
        return np.where(valid, terms(kv), np.uint64(0))
