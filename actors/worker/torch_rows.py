"""The rows of a batch as host arrays, whichever kind of batch it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.errors import MessageError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound

Ints = NDArray[np.int32]


class Rows(NamedTuple):
    """Decode rows, then prefill rows.

    slots, generations: [R]. offsets: where each row's query begins, and the total, [R + 1].
    sampling: the rows that choose a token, [S]. num_decodes: how many rows decode.
    """

    slots: Ints
    generations: Ints
    offsets: Ints
    sampling: Ints
    num_decodes: int

    @property
    def queries(self) -> Ints:
        """Tokens of each row's query, [R]."""
        return np.diff(self.offsets)

    @property
    def last(self) -> Ints:
        """The last token of each row that samples, [S]."""
        return self.offsets[self.sampling + 1] - 1


def rows_of(batch: Batch) -> Rows:
    """The rows of a batch. Raises MessageError when they contradict each other, or have drafts."""
    if ints(batch.draft_counts).any():
        raise MessageError(
            "batch.draft_counts: expected 0 on every row, this executor runs no drafts"
        )
    if isinstance(batch, ExactBatch):
        offsets, samples = ints(batch.query_start_loc), ints(batch.samples)
    else:
        offsets, samples = _optimistic(batch)
    queries = np.diff(offsets)
    if offsets[0] != 0 or (queries < 1).any():
        raise MessageError(f"batch: expected queries of at least one token, got {queries.tolist()}")
    return Rows(
        ints(batch.slots),
        ints(batch.generations),
        offsets,
        np.flatnonzero(samples).astype(np.int32),
        batch.num_decodes,
    )


def _optimistic(batch: OptimisticBatch) -> tuple[Ints, Ints]:
    prefill, decodes = batch.prefill, batch.num_decodes
    # bound, exact on prefill rows: how long the query of a prompt chunk is
    queries = prefill.seq_lens.exact() - ints(prefill.starts)
    queries = np.concatenate((np.ones(decodes, np.int32), queries))
    samples = np.concatenate((np.ones(decodes, np.int32), ints(prefill.samples)))
    return np.concatenate(([0], np.cumsum(queries))).astype(np.int32), samples


def longest(batch: Batch) -> int:
    """No row is longer when the step ends."""
    if isinstance(batch, ExactBatch):
        return batch.seq_lens.max()
    # bound, sizing: refuses a batch that could reach past the context; widest shape of a step
    return max(batch.bound.max(), batch.prefill.seq_lens.max())


def blocks_needed(batch: Batch, block_size: int) -> NDArray[np.int64]:
    """Blocks that each row's table must hold for the step, [R]; of a bound, those that suffice."""
    lengths: ExactSeqLens | SeqLensUpperBound
    if isinstance(batch, ExactBatch):
        lengths = batch.seq_lens
        known = lengths.exact()
    else:
        # bound, sizing: blocks that the table must hold, checked before the device changes
        bound = batch.bound.sizing_array(reader="worker.blocks_needed")
        # bound, exact on prefill rows: their share of the same sizes
        known = np.concatenate((bound, batch.prefill.seq_lens.exact()))
    return -(-known.astype(np.int64) // block_size)
