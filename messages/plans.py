"""What one step computes, as the scheduler decided it: scheduler to metadata builder.

One tagged Struct for each kind, joined in a union; never one Struct with an optional field. Which
kind an engine emits is fixed at its start: a proposer and depth > 1 means OptimisticPlan always,
everything else means ExactPlan always.
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


class _Plan(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What both kinds share.

    epoch: the newest incarnation among scheduler and worker; device state never outlives it.
    step: from 0, one more each plan of the epoch. Executed once and in order.
    opened: slots that requests move into before this step. closed: slots they left, [C].
    blocks: version `step + 1` of the block table.
    """

    epoch: int
    step: int
    opened: tuple[OpenedSlot, ...] = ()
    closed: Column = EMPTY
    blocks: BlockDelta
    prefill: PrefillRows


class ExactPlan(_Plan, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to builder, once a step, where every length is known while planning.

    decode_slots, decode_generations: [D]. draft_counts: drafts verified on the row, [D].
    decode_lens: tokens computed after the step, the row's query (1 + drafts) included, [D].
    drafts_wanted: drafts that the step behind this one would take on the row, decode rows, then prefill
        rows, [D + P]: only for those is its result held back. Empty: none.
    """

    decode_slots: Column = EMPTY
    decode_generations: Column = EMPTY
    draft_counts: Column = EMPTY
    decode_lens: ExactSeqLens = ExactSeqLens(b"")
    drafts_wanted: Column = EMPTY

    def __post_init__(self) -> None:
        _check_decode(self, self.draft_counts, self.decode_lens.count())
        if self.drafts_wanted:
            rows = size(self.decode_slots) + size(self.prefill.slots)
            check_columns("ExactPlan", {"drafts_wanted": (self.drafts_wanted, rows)})
            check_non_negative("ExactPlan", {"drafts_wanted": self.drafts_wanted})


class OptimisticPlan(_Plan, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to builder, once a step, while drafts of earlier steps are unsettled.

    Decode rows have a bound and nothing else: no computed count, output count, position or slot.
    decode_slots, decode_generations: [D]. draft_counts: drafts the row has room for, [D].
    decode_bound: tokens computed after the step if every draft is accepted, [D].
    """

    decode_slots: Column = EMPTY
    decode_generations: Column = EMPTY
    draft_counts: Column = EMPTY
    decode_bound: SeqLensUpperBound = SeqLensUpperBound(b"")

    def __post_init__(self) -> None:
        _check_decode(self, self.draft_counts, self.decode_bound.count())


Plan = ExactPlan | OptimisticPlan


def _check_decode(plan: ExactPlan | OptimisticPlan, drafts: Column, lengths: int) -> None:
    rows, name = size(plan.decode_slots), type(plan).__name__
    check_columns(
        name,
        {
            "decode_generations": (plan.decode_generations, rows),
            "draft_counts": (drafts, rows),
            "decode_lens or decode_bound": (bytes(4 * lengths), rows),
        },
    )
    check_non_negative(
        name,
        {
            "closed": plan.closed,
            "decode_slots": plan.decode_slots,
            "decode_generations": plan.decode_generations,
            "draft_counts": drafts,
        },
    )
