"""Right uses of exact and optimistic kinds side by side. Every checker must be silent about this file."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from optimist.actors.base import Actor
from optimist.actors.builder.apply import apply
from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer
from optimist.actors.worker.base import Executor, RowDrafts, Ticket
from optimist.kernels.metadata import ExactMetadata, Metadata, OptimisticMetadata
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.transport.base import Inbox, Ref
from optimist.transport.mailbox import Mailbox


def any_attention(metadata: Metadata) -> int:
    """An operator that takes both kinds."""
    if isinstance(metadata, ExactMetadata):
        return metadata.host_lens.total()
    return metadata.decode_bound.total() + metadata.prefill_lens.total()


def exact_attention(metadata: ExactMetadata) -> int:
    return int(metadata.host_lens.exact().sum())


def parts(exact: ExactMetadata, optimistic: OptimisticMetadata) -> tuple[int, int]:
    """A part of a kind is of that kind."""
    cut: ExactMetadata = exact.unpadded(4, 2)
    less: OptimisticMetadata = optimistic.unpadded(4, 2)
    bound: SeqLensUpperBound = less.decode_bound.rows(0, 1)
    known: ExactSeqLens = less.prefill_lens
    return exact_attention(cut) + any_attention(less), bound.max() + known.max()


def batch_of(plan: Plan) -> ExactBatch | OptimisticBatch:
    return apply(plan, block_size=16, incarnation=1)


def narrowed(batch: Batch) -> int:
    match batch:
        case ExactBatch():
            return batch.seq_lens.max()
        case OptimisticBatch():
            return batch.bound.max() + batch.prefill.seq_lens.max()


class Wide(Actor[Plan]):
    """Takes every plan."""

    name: ClassVar[str] = "wide"

    def receive(self, message: Plan) -> None:
        self.seen = message


class Narrow(Actor[ExactPlan]):
    """Takes exact plans, and says so."""

    name: ClassVar[str] = "narrow"

    def receive(self, message: ExactPlan) -> None:
        self.lens = message.decode_lens.exact()


class Guess(Proposer):
    def open(self, slot: int, generation: int, token_ids: Ids) -> None: ...
    def close(self, slot: int, generation: int) -> None: ...
    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None: ...
    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        return np.zeros(max_drafts, np.int32)


def wired(
    exact: ExactPlan,
    optimistic: OptimisticPlan,
    drafts: Drafts,
    accepted: Accepted,
    worker: Ref[Drafts | Batch],
    proposer: Ref[Accepted],
) -> list[Plan]:
    inbox: Inbox[Plan] = Mailbox[Plan]((ExactPlan, OptimisticPlan))
    only: Ref[Drafts] = worker
    only.send(drafts)
    proposer.send(accepted)
    handlers: list[Callable[[ExactPlan], None]] = [Wide(1).receive, Narrow(1).receive]
    handlers[0](exact)
    del inbox
    return [exact, optimistic, *[exact]]


def ran(executor: Executor, batch: OptimisticBatch, drafts: RowDrafts) -> Ticket:
    return executor.submit(batch, drafts)


guess: Proposer = Guess(ProposerConfig())
