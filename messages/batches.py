"""What one step computes, row by row, ready for the device: metadata builder to worker.

Rows are ordered decode first, then prefill; `num_decodes` is the border, taken from the phase of
each request and never from the shape of its query.
"""

from __future__ import annotations

from optimist.messages.base import (
    EMPTY,
    ActorMessage,
    Column,
    check_columns,
    check_non_negative,
    size,
)
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows


class _Batch(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What both kinds share.

    epoch, step, opened, closed, blocks: as in the plan.
    slots, generations: of every row, [R]. draft_counts: of the decode rows, [D].
    max_query_len, max_blocks: the largest query and the largest number of blocks of any row; from
    bounds where the row has a bound, so they size buffers and grids and nothing else.
    """

    epoch: int
    step: int
    opened: tuple[OpenedSlot, ...] = ()
    closed: Column = EMPTY
    blocks: BlockDelta
    slots: Column = EMPTY
    generations: Column = EMPTY
    num_decodes: int = 0
    draft_counts: Column = EMPTY
    max_query_len: int = 0
    max_blocks: int = 0


class ExactBatch(_Batch, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Builder to worker, once a step, for an ExactPlan.

    query_start_loc: where each row's query begins, and the total, [R+1].
    seq_lens: tokens computed after the step, [R].
    samples: 1 where the row ends in a new token, [R].
    drafts_wanted: as in the plan, [R]; empty: none.
    """

    query_start_loc: Column
    seq_lens: ExactSeqLens = ExactSeqLens(b"")
    samples: Column = EMPTY
    drafts_wanted: Column = EMPTY

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "ExactBatch",
            {
                "generations": (self.generations, rows),
                "draft_counts": (self.draft_counts, self.num_decodes),
                "query_start_loc": (self.query_start_loc, rows + 1),
                "seq_lens": (bytes(4 * self.seq_lens.count()), rows),
                "samples": (self.samples, rows),
                "drafts_wanted": (self.drafts_wanted, rows if self.drafts_wanted else 0),
            },
        )
        more = {
            "query_start_loc": self.query_start_loc,
            "samples": self.samples,
            "drafts_wanted": self.drafts_wanted,
        }
        _check_ids(self, more)


class OptimisticBatch(_Batch, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Builder to worker, once a step, for an OptimisticPlan.

    The worker owns the offsets, positions, lengths and slots of the decode rows: it computes them on
    the device from what it holds there. bound: of the decode rows, [D].
    prefill: the prefill rows, exact, [R - D].
    """

    bound: SeqLensUpperBound = SeqLensUpperBound(b"")
    prefill: PrefillRows

    def __post_init__(self) -> None:
        rows = size(self.slots)
        check_columns(
            "OptimisticBatch",
            {
                "generations": (self.generations, rows),
                "draft_counts": (self.draft_counts, self.num_decodes),
                "bound": (bytes(4 * self.bound.count()), self.num_decodes),
                "prefill.slots": (self.prefill.slots, rows - self.num_decodes),
            },
        )
        _check_ids(self, {})


Batch = ExactBatch | OptimisticBatch


def _check_ids(batch: _Batch, more: dict[str, Column]) -> None:
    shared = {
        "closed": batch.closed,
        "slots": batch.slots,
        "generations": batch.generations,
        "draft_counts": batch.draft_counts,
    }
    check_non_negative(type(batch).__name__, shared | more)
