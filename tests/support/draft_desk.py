"""A worker's desk with a proposer that a test plays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from optimist.actors.worker.base import Limits, Outcome
from optimist.actors.worker.core import Times
from optimist.actors.worker.desk import Desk
from optimist.messages.base import column
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.errors import MailboxFull
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

LIMITS = Limits(
    num_blocks=64,
    block_size=4,
    max_slots=4,
    max_model_len=64,
    max_batch_tokens=64,
    vocab_size=100,
)


class Sent:
    """A Ref that keeps what is sent, until it is full."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.full = False

    def send(self, message: Any, /) -> None:
        if self.full:
            raise MailboxFull("full")
        self.messages.append(message)


class Bench:
    """A desk with two requests in slots 0 and 1, whose prompts of 5 tokens are computed in step 0."""

    def __init__(self, *, exact: bool = False, wanted: Sequence[int] = (3, 3)) -> None:
        """exact: batches are, and say how many drafts are wanted behind them in slots 0 and 1."""
        self.scheduler, self.proposer = Sent(), Sent()
        self.desk = Desk(9, LIMITS, self.scheduler, self.proposer)
        self.exact, self.wanted = exact, wanted
        self.open(epoch=7)
        due = self.desk.due()
        assert due is not None
        self.tell(due.batch, [[50], [60]])

    def open(self, *, epoch: int) -> None:
        """Put the first batch of an epoch."""
        self.epoch, self.step = epoch, 0
        prefill = PrefillRows(
            slots=column([0, 1]),
            generations=column([3, 4]),
            starts=column([0, 0]),
            seq_lens=ExactSeqLens.of([5, 5]),
            samples=column([1, 1]),
        )
        opened = tuple(
            OpenedSlot(
                slot=slot,
                generation=3 + slot,
                request=slot,
                token_ids=column(range(5)),
                prompt_len=5,
                cached_len=0,
                sampling=Sampling(temperature=0.0, seed=0),
            )
            for slot in (0, 1)
        )
        self.batch([], opened=opened, prefill=prefill)

    def batch(
        self,
        room: Sequence[int],
        *,
        opened: tuple[OpenedSlot, ...] = (),
        prefill: PrefillRows | None = None,
    ) -> None:
        """Put the next batch: so much room for drafts of slots 0 and 1."""
        decodes, prefill = len(room), prefill or PrefillRows()
        rows = column(range(decodes)) + prefill.slots
        lens = ExactSeqLens.of([5] * (len(rows) // 4))
        fields: dict[str, Any] = {
            "incarnation": 2,
            "epoch": self.epoch,
            "step": self.step,
            "opened": opened,
            "blocks": BlockDelta(version=self.step + 1),
            "slots": rows,
            "generations": column(range(3, 3 + decodes)) + prefill.generations,
            "num_decodes": decodes,
            "draft_counts": column(room),
        }
        if self.exact:
            starts = column(range(len(rows) // 4 + 1))
            samples = column([1] * (len(rows) // 4))
            batch: Batch = ExactBatch(
                **fields,
                query_start_loc=starts,
                seq_lens=lens,
                samples=samples,
                drafts_wanted=column(self.wanted),
            )
        else:
            batch = OptimisticBatch(
                **fields, bound=SeqLensUpperBound.of([20] * decodes), prefill=prefill
            )
        self.step += 1
        self.desk.put(batch)

    def tell(self, batch: Batch, tokens: Sequence[Sequence[int]]) -> None:
        """The step brought these tokens of slots 0 and 1."""
        outcome = Outcome(
            slots=np.arange(2, dtype=np.int32),
            generations=np.array([3, 4], np.int32),
            token_counts=np.array([len(row) for row in tokens], np.int32),
            token_ids=np.array([token for row in tokens for token in row], np.int32),
            drafts_run=np.array([len(row) - 1 for row in tokens], np.int32),
            logprobs=None,
        )
        self.desk.tell(batch, outcome, Times(10))

    def drafts(self, after: int, rows: dict[int, list[int]], **changes: Any) -> None:
        """Drafts by slot came."""
        fields: dict[str, Any] = {
            "incarnation": 5,
            "epoch": self.epoch,
            "after_step": after,
            "slots": column(rows),
            "generations": column(3 + slot for slot in rows),
            "counts": column(len(ids) for ids in rows.values()),
            "token_ids": column(token for ids in rows.values() for token in ids),
        }
        self.desk.take(Drafts(**(fields | changes)))

    def bound(self, *, give_up: bool = False) -> tuple[list[int], list[int]] | None:
        """Counts and ids of the drafts of the batch that is due."""
        due = self.desk.due(give_up=give_up)
        if due is None:
            return None
        assert due.drafts is not None
        return due.drafts.counts.tolist(), due.drafts.ids.tolist()

    @property
    def dropped(self) -> dict[str, int]:
        assert self.desk.late is not None
        return {reason: count for reason, count in self.desk.late.kept.dropped.items() if count}


def told(bench: Bench) -> list[Accepted]:
    """What the proposer was told."""
    return [message for message in bench.proposer.messages if isinstance(message, Accepted)]
