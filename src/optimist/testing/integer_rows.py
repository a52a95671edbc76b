"""The rows of a step as the integer model sees them, whatever kind of batch they come in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.worker.base import RowDrafts
from optimist.messages.base import ints
from optimist.messages.batches import Batch, ExactBatch

Longs = NDArray[np.int64]


class StepRows(NamedTuple):
    """Decode rows, then prefill rows.

    slots, queries: [R]. generations: [R]. samples: whether a row ends in new tokens, [R].
    drafts: of the decode rows. said: tokens after the step, as far as the batch says so: of all rows in
    an ExactBatch, of the prefill rows in an OptimisticBatch.
    """

    slots: Longs
    queries: Longs
    generations: NDArray[np.int32]
    samples: NDArray[np.bool_]
    num_decodes: int
    drafts: RowDrafts
    said: Longs

    @property
    def token_rows(self) -> Longs:
        """The row of each query token, [Q]."""
        return np.repeat(np.arange(len(self.slots)), self.queries)

    def positions(self, ends: Longs) -> Longs:
        """Of each query token, [Q]. ends: tokens of each row with its query, [R]."""
        first = np.repeat(ends - self.queries.cumsum(), self.queries)
        return first + np.arange(len(first))


def rows_of(batch: Batch, drafts: RowDrafts | None) -> StepRows:
    """The rows of a batch with these drafts; None: without any."""
    decodes = batch.num_decodes
    drafts = drafts or RowDrafts(np.zeros(decodes, np.int32), np.zeros(0, np.int32))
    if isinstance(batch, ExactBatch):
        queries, samples = np.diff(ints(batch.query_start_loc)), ints(batch.samples)
        said = batch.seq_lens.exact()
    else:
        # bound, exact on prefill rows: queries of prompt chunks
        said = batch.prefill.seq_lens.exact()
        queries = np.concatenate([1 + drafts.counts, said - ints(batch.prefill.starts)])
        samples = np.concatenate([np.ones(decodes, np.int32), ints(batch.prefill.samples)])
    return StepRows(
        slots=ints(batch.slots).astype(np.int64),
        queries=queries.astype(np.int64),
        generations=ints(batch.generations),
        samples=samples == 1,
        num_decodes=decodes,
        drafts=drafts,
        said=said.astype(np.int64),
    )
