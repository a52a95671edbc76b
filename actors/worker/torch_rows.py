"""The rows of a batch as host arrays, whichever kind of batch it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import RowDrafts
from optimist.actors.worker.row_drafts import checked_drafts
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.errors import MessageError

Ints = NDArray[np.int32]
Indices = NDArray[np.int64]


class Rows(NamedTuple):
    """Decode rows, then prefill rows.

    slots, generations: [R]. offsets: where each row's query begins, and the total, [R + 1].
    sampling: the rows that choose a token, [S]. num_decodes: how many rows decode.
    drafts: how many drafts are verified on each decode row, the last tokens of its query, [D].
    """

    slots: Ints
    generations: Ints
    offsets: Ints
    sampling: Ints
    num_decodes: int
    drafts: Ints

    @property
    def queries(self) -> Ints:
        """Tokens of each row's query, [R]."""
        return np.diff(self.offsets)

    @property
    def drafted(self) -> Ints:
        """How many drafts are verified on each row that samples, [S]."""
        every = np.zeros(self.slots.size, np.int32)
        every[: self.num_decodes] = self.drafts
        return every[self.sampling]

    @property
    def places(self) -> Indices:
        """The query tokens behind which a token is chosen, [J]: of each row the last, and those before drafts."""
        return _ranges(self.offsets[self.sampling + 1] - 1 - self.drafted, self.drafted + 1)

    @property
    def draft_tokens(self) -> Indices:
        """The query tokens that are drafts, [sum(drafts)]."""
        return _ranges(self.offsets[: self.num_decodes] + 1, self.drafts)


def _ranges(starts: Ints, counts: Ints) -> Indices:
    """`counts[i]` numbers from `starts[i]` on, for each i, one behind the other."""
    ends = np.cumsum(counts, dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    return np.arange(total) + np.repeat(starts - ends + counts, counts)


def rows_of(batch: Batch, drafts: RowDrafts | None, *, itself: bool, vocab_size: int) -> Rows:
    """The rows of a batch. Raises MessageError when they, or the drafts, contradict each other.

    itself: the device drafts, as many tokens as the batch has room for.
    """
    counts = _counts(batch, drafts, itself=itself, vocab_size=vocab_size)
    if isinstance(batch, ExactBatch):
        offsets, samples = ints(batch.query_start_loc), ints(batch.samples)
    else:
        offsets, samples = _optimistic(batch, counts)
    queries = np.diff(offsets)
    if offsets[0] != 0 or (queries < 1).any():
        raise MessageError(f"batch: expected queries of at least one token, got {queries.tolist()}")
    if (queries[: batch.num_decodes] != counts + 1).any():
        raise MessageError(
            f"batch: expected queries of decode rows to be a token and {counts.tolist()} drafts, "
            f"got {queries[: batch.num_decodes].tolist()}"
        )
    return Rows(
        ints(batch.slots),
        ints(batch.generations),
        offsets,
        np.flatnonzero(samples).astype(np.int32),
        batch.num_decodes,
        counts,
    )


def _counts(batch: Batch, drafts: RowDrafts | None, *, itself: bool, vocab_size: int) -> Ints:
    """How many drafts run on each decode row, [D]."""
    if itself:
        if drafts is not None:
            raise MessageError("drafts: expected none from the host, this device drafts itself")
        return ints(batch.draft_counts)
    return checked_drafts(batch, drafts, vocab_size).counts


def _optimistic(batch: OptimisticBatch, drafts: Ints) -> tuple[Ints, Ints]:
    prefill, decodes = batch.prefill, batch.num_decodes
    # bound, exact on prefill rows: how long the query of a prompt chunk is
    queries = prefill.seq_lens.exact() - ints(prefill.starts)
    queries = np.concatenate((drafts + 1, queries))
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
    if isinstance(batch, ExactBatch):
        known = batch.seq_lens.exact()
    else:
        # bound, sizing: blocks that the table must hold, checked before the device changes
        bound = batch.bound.sizing_array(reader="worker.blocks_needed")
        # bound, exact on prefill rows: their share of the same sizes
        known = np.concatenate((bound, batch.prefill.seq_lens.exact()))
    return -(-known.astype(np.int64) // block_size)
