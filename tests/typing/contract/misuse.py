"""Wrong uses of the length contract. Every checker must report each line marked BAD, and no other.

Where a checker is named behind BAD, only that one can: all of them raise when they run.
"""

from __future__ import annotations

from typing import assert_never

from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan, Plan
from optimist.messages.slots import BlockDelta, PrefillRows
from optimist.transport.base import Ref
from optimist.transport.mailbox import Mailbox

bound = SeqLensUpperBound.of([5, 6])
delta, prefill = BlockDelta(version=1), PrefillRows()
exact_inbox = Mailbox((ExactPlan,))


def takes_exact_plan(plan: ExactPlan) -> None: ...
def takes_any_plan_ref(ref: Ref[Plan]) -> None: ...
def takes_exact(lens: ExactSeqLens) -> None: ...
def takes_bound(lens: SeqLensUpperBound) -> None: ...
def takes_int(value: int) -> None: ...
def takes_list(values: list[int]) -> None: ...


def plans(exact: ExactPlan, optimistic: OptimisticPlan, plan: Plan, r: Ref[ExactPlan]) -> None:
    takes_exact_plan(optimistic)  # BAD an optimistic plan to an exact consumer
    takes_exact_plan(plan)  # BAD a union that was not narrowed
    r.send(optimistic)  # BAD an optimistic plan to an actor that takes exact ones
    exact_inbox.ref().send(optimistic)  # BAD the same through its mailbox
    takes_any_plan_ref(exact_inbox.ref())  # BAD the mailbox's own ref as one for any plan
    takes_any_plan_ref(r)  # BAD a ref for exact plans as one for any plan
    optimistic.decode_lens  # BAD no exact length of a decode row
    optimistic.decode_starts  # BAD no computed count of a decode row
    exact.decode_bound  # BAD no bound where lengths are exact


def batches(exact: ExactBatch, optimistic: OptimisticBatch) -> None:
    optimistic.seq_lens  # BAD no exact length in an optimistic batch
    optimistic.query_start_loc  # BAD offsets of decode rows live on the device
    takes_exact(optimistic.bound)  # BAD a bound to a consumer of exact lengths
    takes_bound(exact.seq_lens)  # BAD a length where a bound is meant
    OptimisticBatch(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, seq_lens=5)  # BAD


ExactPlan(incarnation=1, epoch=1, step=0, blocks=delta, prefill=prefill, decode_lens=bound)  # BAD
PrefillRows(seq_lens=bound)  # BAD a bound for a prefill row
bound.exact()  # BAD no exact() on a bound
bound.sizing_array()  # BAD the raw door without a name
int(bound)  # BAD as a number
takes_int(bound)  # BAD as an int
takes_list(bound)  # BAD as a list
bound[0]  # BAD by index
len(bound)  # BAD a length of its own
list(bound)  # BAD iterated
max(bound)  # BAD by the builtin
bound + 1  # BAD arithmetic
bound < 5  # BAD order
3 in bound  # BAD membership
range(bound)  # BAD as a range
bound > 5  # BAD order, the other way round
5 <= bound  # BAD order, the number first
1 + bound  # BAD arithmetic, the number first
bound % 16  # BAD a remainder
divmod(bound, 16)  # BAD both
round(bound)  # BAD rounded
sorted([bound])  # BAD sorted among others
max([bound])  # BAD the largest of some
any(bound)  # BAD asked one by one
tuple(bound)  # BAD as a tuple
[1, 2, 3][bound]  # BAD as an index
first, second = bound  # BAD unpacked
part: int = bound.rows(0, 1)  # BAD the bound of one row as a number
bound.max = takes_int  # BAD a reading replaced
for length in bound:  # BAD row by row
    takes_int(length)


def compared(numbers: list[int]) -> None:
    if bound == 5:  # BAD [mypy] equal to a number
        takes_int(5)
    while bound != 5:  # BAD [mypy] not equal to a number
        takes_int(5)
    assert bound == numbers  # BAD [mypy] equal to a list
    assert bound == ExactSeqLens.of([5, 6])  # BAD [mypy] equal to lengths


def not_exhaustive(plan: Plan) -> int:
    match plan:
        case ExactPlan():
            return 1
        case _:
            assert_never(plan)  # BAD the optimistic plan was forgotten
