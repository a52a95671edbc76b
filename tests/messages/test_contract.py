"""What an optimistic message cannot say, and what its decoder refuses to hear."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from optimist.messages.base import column
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.codec import Codec, encode
from optimist.messages.errors import MessageError
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.schema.examples import examples
from optimist.messages.slots import BlockDelta, PrefillRows

PLANS: Codec[ExactPlan | OptimisticPlan] = Codec((ExactPlan, OptimisticPlan))
BY_TYPE: dict[type[Any], Any] = {type(message): message for message in examples()}
EXACT = {"type": "exact", "i4": b"\1\0\0\0"}
BOUND = {"type": "upper_bound", "i4": b"\1\0\0\0"}


def wire(kind: type[Any], **changes: Any) -> bytes:
    """An example with some fields changed behind the back of its class."""
    fields = msgspec.msgpack.decode(encode(BY_TYPE[kind]))
    return msgspec.msgpack.encode({**fields, **changes})


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (wire(OptimisticPlan, decode_lens=EXACT), "unknown field `decode_lens`"),
        (wire(OptimisticPlan, decode_bound=EXACT), "Invalid value 'exact' - at `$.decode_bound"),
        (wire(OptimisticPlan, decode_starts=b""), "unknown field `decode_starts`"),
        (wire(OptimisticPlan, seq_lens=EXACT), "unknown field `seq_lens`"),
        (wire(OptimisticPlan, type="exact_plan"), "unknown field `decode_bound`"),
        (wire(ExactPlan, type="optimistic_plan"), "unknown field `decode_lens`"),
        (wire(ExactPlan, decode_lens=BOUND), "Invalid value 'upper_bound' - at `$.decode_lens"),
        (wire(ExactPlan, type="plan"), "Invalid value 'plan' - at `$.type`"),
    ],
)
def test_a_smuggled_length_is_refused_with_its_path(frame: bytes, reason: str) -> None:
    with pytest.raises(MessageError) as error:
        PLANS.decode(frame)
    assert reason in str(error.value)


def test_an_actor_for_exact_plans_does_not_decode_an_optimistic_one() -> None:
    with pytest.raises(MessageError, match="Invalid value 'optimistic_plan'"):
        Codec((ExactPlan,)).decode(wire(OptimisticPlan))


def test_optimistic_messages_have_exact_lengths_for_prefill_rows_only() -> None:
    for kind in (OptimisticPlan, OptimisticBatch):
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        assert ExactSeqLens not in fields.values()
        assert SeqLensUpperBound in fields.values()
        told = {n for n in fields if any(w in n for w in ("position", "start", "len", "computed"))}
        assert told <= {"max_query_len"}
        assert "drafts_wanted" not in fields
    for other in (ExactPlan, ExactBatch):
        assert SeqLensUpperBound not in {field.type for field in msgspec.structs.fields(other)}


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        (ExactPlan, {"decode_lens": ExactSeqLens.of([1, 2])}, "expected 1 int32 values, got 8"),
        (OptimisticPlan, {"draft_counts": column([1, 2])}, "draft_counts: expected 1"),
        (ExactBatch, {"query_start_loc": column([0, 1])}, "query_start_loc: expected 3"),
        (ExactPlan, {"drafts_wanted": column([1])}, "drafts_wanted: expected 2 int32 values"),
        (ExactBatch, {"drafts_wanted": column([1])}, "drafts_wanted: expected 2 int32 values"),
        (ExactBatch, {"num_decodes": 2}, "draft_counts: expected 2"),
        (OptimisticBatch, {"num_decodes": 0}, "draft_counts: expected 0"),
        (OptimisticBatch, {"prefill": PrefillRows()}, "prefill.slots: expected 1"),
        (OptimisticBatch, {"bound": SeqLensUpperBound.of([])}, "bound: expected 1"),
    ],
)
def test_rows_that_do_not_agree_are_refused_by_name(
    kind: type[Any], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(MessageError) as error:
        msgspec.structs.replace(BY_TYPE[kind], **changes)
    assert reason in str(error.value)


def test_counts_that_sum_up_by_a_negative_one_are_refused() -> None:
    with pytest.raises(MessageError, match="counts: expected values >= 0"):
        BlockDelta(
            version=1,
            slots=column([0, 1]),
            offsets=column([0, 0]),
            counts=column([3, -1]),
            blocks=column([1, 2]),
        )
