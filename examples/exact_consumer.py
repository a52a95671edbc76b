"""A consumer that needs lengths is given bounds. The type checker says so, and so does the program.

$ mypy examples/exact_consumer.py
exact_consumer.py:39: error: "SeqLensUpperBound" has no attribute "__iter__" (not iterable)
exact_consumer.py:57: error: Argument 1 to "send" of "Ref" has incompatible type
    "OptimisticPlan"; expected "ExactPlan"
exact_consumer.py:61: error: Argument 1 to "tokens_to_read" has incompatible type
    "OptimisticPlan"; expected "ExactPlan"

$ python examples/exact_consumer.py
blocks to keep: 3
refused: consumer: does not accept OptimisticPlan; accepts ExactPlan
not there: 'OptimisticPlan' object has no attribute 'decode_lens'
no number: 'SeqLensUpperBound' object is not iterable
"""

from __future__ import annotations

from optimist.messages.errors import MessageError
from optimist.messages.lengths import SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.slots import BlockDelta, PrefillRows
from optimist.transport.base import Ref
from optimist.transport.mailbox import Mailbox


def tokens_to_read(plan: ExactPlan) -> int:
    """Right: it says that it needs lengths, and reads them by name."""
    return int(plan.decode_lens.exact().sum())


def blocks_to_keep(plan: OptimisticPlan) -> int:
    """Right as well: a size may come from a bound, since what is in it follows on the device."""
    return plan.decode_bound.blocks(16)


def last_positions(plan: OptimisticPlan) -> list[int]:
    """Wrong: where the last token of each row is, nobody but the device knows."""
    return [bound - 1 for bound in plan.decode_bound]


def main() -> None:
    plan = OptimisticPlan(
        incarnation=1,
        epoch=1,
        step=0,
        blocks=BlockDelta(version=1),
        prefill=PrefillRows(),
        decode_slots=b"\0\0\0\0",
        decode_generations=b"\1\0\0\0",
        draft_counts=b"\3\0\0\0",
        decode_bound=SeqLensUpperBound.of([40]),
    )
    print("blocks to keep:", blocks_to_keep(plan))
    consumer: Ref[ExactPlan] = Mailbox((ExactPlan,), name="consumer").ref()
    try:
        consumer.send(plan)
    except MessageError as error:
        print("refused:", error)
    try:
        tokens_to_read(plan)
    except AttributeError as error:
        print("not there:", error)
    try:
        last_positions(plan)
    except TypeError as error:
        print("no number:", error)


if __name__ == "__main__":
    main()
