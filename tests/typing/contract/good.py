"""Right uses of the length contract. Every checker must be silent about this file."""

from __future__ import annotations

from typing import assert_never

from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import BlockDelta, PrefillRows
from optimist.transport.base import Ref
from optimist.transport.mailbox import Mailbox

exact = ExactSeqLens.of([3, 4])
bound = SeqLensUpperBound.of([5, 6])
sizes: int = bound.max() + bound.total() + bound.blocks(16) + bound.count()
rows = bound.rows_with_context()
part: SeqLensUpperBound = bound.rows(0, 1)
known: ExactSeqLens = exact.rows(0, 1)
numbers = exact.exact()
raw = bound.sizing_array(reader="tests.typing.contract.good")


def exact_plan() -> ExactPlan:
    return ExactPlan(
        incarnation=1,
        epoch=1,
        step=0,
        blocks=BlockDelta(version=1),
        prefill=PrefillRows(),
        decode_lens=exact,
    )


def narrowed(plan: Plan) -> int:
    if isinstance(plan, ExactPlan):
        return int(plan.decode_lens.exact()[0])
    return plan.decode_bound.max()


def exhaustive(plan: Plan) -> int:
    match plan:
        case ExactPlan():
            return plan.decode_lens.total()
        case OptimisticPlan():
            return plan.decode_bound.total()
        case _:
            assert_never(plan)


def takes_more(wide: Ref[Plan]) -> Ref[ExactPlan]:
    return wide


plans: Mailbox[Plan] = Mailbox((ExactPlan, OptimisticPlan))
builder: Ref[Plan] = plans.ref()
exact_only: Ref[ExactPlan] = plans.ref()


def send(builder: Ref[Plan], worker: Ref[ExactBatch | OptimisticBatch], batch: ExactBatch) -> None:
    builder.send(exact_plan())
    worker.send(batch)
