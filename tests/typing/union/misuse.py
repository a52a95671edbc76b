"""Wrong uses of exact and optimistic kinds. Every checker must report each line marked BAD, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from optimist.actors.base import Actor
from optimist.actors.builder.apply import apply
from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer
from optimist.kernels.metadata import ExactMetadata, Metadata, OptimisticMetadata
from optimist.messages.batches import Batch, ExactBatch, OptimisticBatch
from optimist.messages.drafting import Accepted, Drafts
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import BlockDelta, PrefillRows
from optimist.transport.base import Ref

bound = SeqLensUpperBound.of([5, 6])
other = SeqLensUpperBound.of([1, 2])
delta, prefill = BlockDelta(version=1), PrefillRows()


def exact_attention(metadata: ExactMetadata) -> None: ...
def exact_lens(lens: ExactSeqLens) -> None: ...
def exact_plans(plans: list[ExactPlan]) -> None: ...
def for_any_plan(handle: Callable[[Plan], None]) -> None: ...
def handle_exact(plan: ExactPlan) -> None: ...


def operators(exact: ExactMetadata, optimistic: OptimisticMetadata, either: Metadata) -> None:
    exact_attention(optimistic)  # BAD optimistic metadata to an operator that needs lengths
    exact_attention(either)  # BAD a union that was not narrowed
    exact_attention(optimistic.unpadded(4, 2))  # BAD cutting does not make it exact
    optimistic.host_lens  # BAD no host lengths of decode rows
    optimistic.decode_lens  # BAD nor by this name
    exact.decode_bound  # BAD no bound where lengths are exact
    either.host_lens  # BAD a field of one kind alone
    exact_lens(optimistic.decode_bound)  # BAD a bound for a length
    exact_lens(optimistic.decode_bound.rows(0, 1))  # BAD a part of a bound is a bound
    cut: ExactMetadata = optimistic.unpadded(4, 2)  # BAD the same
    optimistic.decode_bound.exact()  # BAD a bound is never exact
    del cut


def smuggled(optimistic: OptimisticPlan) -> None:
    OptimisticPlan(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, decode_lens=bound)  # BAD
    OptimisticPlan(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, positions=b"")  # BAD
    OptimisticPlan(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, decode_bound=7)  # BAD
    OptimisticBatch(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, samples=b"")  # BAD
    PrefillRows(seq_lens=optimistic.decode_bound)  # BAD a decode row's bound as a prefill length
    optimistic.decode_bound = other  # BAD messages do not change
    optimistic.output_counts  # BAD nobody counts outputs here
    optimistic.slots  # BAD no KV slots either


def unions(plan: Plan, batch: Batch, plans: list[Plan]) -> None:
    made: ExactBatch = apply(plan, block_size=16, incarnation=1)  # BAD the batch is of the plan's kind
    exact_plans(plans)  # BAD a list of either kind
    for_any_plan(handle_exact)  # BAD a handler of one kind for both
    plan.decode_lens  # BAD a field of one kind alone
    plan.decode_bound  # BAD a field of the other
    batch.seq_lens  # BAD a field of one kind alone
    batch.bound  # BAD a field of the other
    del made


class Narrow(Actor[Plan]):
    """Promises to take every plan and takes one kind."""

    name: ClassVar[str] = "narrow"

    def receive(self, message: ExactPlan) -> None: ...  # BAD narrower than promised


class Lists(Proposer):
    """Answers with a list of its own."""

    def open(self, slot: int, generation: int, token_ids: Ids) -> None: ...
    def close(self, slot: int, generation: int) -> None: ...
    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None: ...
    def propose(self, slot: int, generation: int, max_drafts: int) -> list[str]: ...  # BAD no ids


class Unfinished(Proposer):
    """Forgets to propose."""

    def open(self, slot: int, generation: int, token_ids: Ids) -> None: ...
    def close(self, slot: int, generation: int) -> None: ...
    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None: ...


Unfinished(ProposerConfig())  # BAD an abstract method is missing


def drafting(worker: Ref[Drafts], proposer: Ref[Accepted], a: Accepted, d: Drafts) -> None:
    worker.send(a)  # BAD accepted tokens to the worker
    proposer.send(d)  # BAD drafts to the proposer


bound - 1  # BAD subtraction
bound - other  # BAD of another bound
bound * 2  # BAD multiplication
bound // 16  # BAD division
-bound  # BAD a sign
abs(bound)  # BAD a magnitude
float(bound)  # BAD as a float
sum(bound)  # BAD summed by the builtin
min(bound, other)  # BAD the smaller of two
sorted(bound)  # BAD sorted
enumerate(bound)  # BAD counted through
reversed(bound)  # BAD backwards
[*bound]  # BAD unpacked
[0] * bound  # BAD as a count
bound[0:1]  # BAD a slice
bytes(bound)  # BAD as a buffer
memoryview(bound)  # BAD as a view of one
np.zeros(bound)  # BAD as a shape
bound <= other  # BAD compared with another
total: int = bound  # BAD assigned to a number
