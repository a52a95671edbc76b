"""Decoding that goes on as it was: the rows of a step are those of the step before, a token later."""

from __future__ import annotations

from typing import NamedTuple

from optimist.actors.worker.base import RowDrafts
from optimist.kernels.native.shapes import Ints, Rows
from optimist.messages.base import Column, size
from optimist.messages.batches import Batch, ExactBatch


class Steady(NamedTuple):
    """A step in which every row decoded, chose, and had no drafts. What the next one asks of its rows needs not
    be found out again as long as no request comes or goes.

    same: columns of the batch that stay what they are. asked: alternatives of each row, -1 for no report,
    [R]; most: the largest, 0 for none. reports: whether any row asks how likely its token was.
    """

    same: tuple[Column, ...]
    rows: Rows
    asked: Ints
    most: int
    reports: bool

    def goes_on(self, batch: Batch, drafts: RowDrafts | None) -> bool:
        """Whether this batch is one of the same rows."""
        return (
            not (batch.opened or batch.closed)
            and batch.num_decodes == self.rows.slots.size
            and _none(drafts)
            and _columns(batch) == self.same
        )


def steady(batch: Batch, drafts: RowDrafts | None, rows: Rows, asked: Ints) -> Steady | None:
    """What the next step may know from this one, None where it is not such a step."""
    alone = batch.num_decodes == size(batch.slots) == rows.samples.sum()
    if not alone or not _none(drafts) or rows.draft_ids.size:
        return None
    most = int(asked.max(initial=-1))
    return Steady(_columns(batch), rows, asked, max(0, most), most >= 0)


def _columns(batch: Batch) -> tuple[Column, ...]:
    same = batch.slots, batch.generations, batch.draft_counts
    return (*same, batch.query_start_loc, batch.samples) if isinstance(batch, ExactBatch) else same


def _none(drafts: RowDrafts | None) -> bool:
    """Whether no row has drafts: nobody on the host drafts, or what it was to bring is not there."""
    return drafts is None or not (drafts.ids.size or drafts.counts.any())
