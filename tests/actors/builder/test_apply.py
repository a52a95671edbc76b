"""From plan to batch."""

from __future__ import annotations

import pytest

from optimist.actors.builder.apply import apply
from optimist.messages.base import column, ints
from optimist.messages.batches import ExactBatch, OptimisticBatch
from optimist.messages.codec import Codec, encode
from optimist.messages.lengths import ExactSeqLens, SeqLensUpperBound
from optimist.messages.plans import ExactPlan, OptimisticPlan
from optimist.messages.slots import BlockDelta, OpenedSlot, PrefillRows, Sampling

OPENED = OpenedSlot(
    slot=5,
    generation=2,
    request=77,
    token_ids=column([1, 2, 3]),
    prompt_len=3,
    cached_len=0,
    sampling=Sampling(temperature=0.0, seed=1),
)
DELTA = BlockDelta(
    version=4, slots=column([5]), offsets=column([0]), counts=column([1]), blocks=column([9])
)
PREFILL = PrefillRows(
    slots=column([5, 6]),
    generations=column([2, 0]),
    starts=column([0, 16]),
    seq_lens=ExactSeqLens.of([3, 17]),
    samples=column([1, 0]),
)


def exact(**changes: object) -> ExactPlan:
    fields: dict[str, object] = {
        "incarnation": 1,
        "epoch": 8,
        "step": 3,
        "opened": (OPENED,),
        "closed": column([2]),
        "blocks": DELTA,
        "prefill": PREFILL,
        "decode_slots": column([0, 3]),
        "decode_generations": column([1, 4]),
        "draft_counts": column([0, 2]),
        "decode_lens": ExactSeqLens.of([10, 33]),
    }
    return ExactPlan(**(fields | changes))  # type: ignore[arg-type]


def optimistic() -> OptimisticPlan:
    return OptimisticPlan(
        incarnation=1,
        epoch=8,
        step=3,
        opened=(OPENED,),
        closed=column([2]),
        blocks=DELTA,
        prefill=PREFILL,
        decode_slots=column([0, 3]),
        decode_generations=column([1, 4]),
        draft_counts=column([3, 3]),
        decode_bound=SeqLensUpperBound.of([10, 33]),
    )


def built(plan: ExactPlan) -> ExactBatch:
    batch = apply(plan, block_size=16, incarnation=6)
    assert isinstance(batch, ExactBatch)
    return batch


def test_decode_rows_come_first_then_prefill_rows() -> None:
    batch = built(exact())
    assert batch.num_decodes == 2
    assert ints(batch.slots).tolist() == [0, 3, 5, 6]
    assert ints(batch.generations).tolist() == [1, 4, 2, 0]
    assert batch.seq_lens.exact().tolist() == [10, 33, 3, 17]
    assert ints(batch.draft_counts).tolist() == [0, 2]


def test_queries_are_one_and_the_drafts_or_the_chunk() -> None:
    batch = built(exact())
    assert ints(batch.query_start_loc).tolist() == [0, 1, 4, 7, 8]
    assert batch.max_query_len == 3
    assert ints(batch.samples).tolist() == [1, 1, 1, 0]


def test_a_prompt_chunk_of_one_token_is_no_decode_row() -> None:
    batch = built(
        exact(
            decode_slots=b"",
            decode_generations=b"",
            draft_counts=b"",
            decode_lens=ExactSeqLens(b""),
        )
    )
    assert batch.num_decodes == 0 and ints(batch.query_start_loc).tolist() == [0, 3, 4]


def test_the_longest_row_decides_how_many_blocks_there_are() -> None:
    assert built(exact()).max_blocks == 3
    assert built(exact(decode_lens=ExactSeqLens.of([10, 32]))).max_blocks == 2


def test_identity_slots_and_blocks_are_passed_on_as_they_are() -> None:
    for plan in (exact(), optimistic()):
        batch = apply(plan, block_size=16, incarnation=6)
        assert (batch.incarnation, batch.epoch, batch.step) == (6, 8, 3)
        assert batch.opened is plan.opened and batch.blocks is plan.blocks
        assert batch.closed == plan.closed


def test_a_plan_without_rows_is_a_batch_without_rows() -> None:
    batch = built(
        exact(
            prefill=PrefillRows(),
            decode_slots=b"",
            decode_generations=b"",
            draft_counts=b"",
            decode_lens=ExactSeqLens(b""),
        )
    )
    assert ints(batch.query_start_loc).tolist() == [0] and batch.max_query_len == 0
    assert batch.max_blocks == 0 and batch.samples == b""


def test_an_optimistic_plan_keeps_its_bound_and_its_exact_prefill_rows() -> None:
    plan = optimistic()
    batch = apply(plan, block_size=16, incarnation=6)
    assert isinstance(batch, OptimisticBatch)
    assert batch.bound is plan.decode_bound and batch.prefill is plan.prefill
    assert ints(batch.slots).tolist() == [0, 3, 5, 6] and batch.num_decodes == 2
    assert ints(batch.draft_counts).tolist() == [3, 3]
    assert batch.max_query_len == 4 and batch.max_blocks == 3


def test_an_optimistic_batch_has_no_place_for_a_decode_row_s_length() -> None:
    batch = apply(optimistic(), block_size=16, incarnation=6)
    fields = set(type(batch).__struct_fields__)
    assert not fields & {"seq_lens", "query_start_loc", "samples", "positions", "decode_lens"}


@pytest.mark.parametrize("plan", [exact(), optimistic()], ids=["exact", "optimistic"])
def test_a_batch_survives_the_wire(plan: ExactPlan | OptimisticPlan) -> None:
    batch = apply(plan, block_size=16, incarnation=6)
    codec: Codec[ExactBatch | OptimisticBatch] = Codec((ExactBatch, OptimisticBatch))
    assert encode(codec.decode(encode(batch))) == encode(batch)


def test_a_plan_stays_as_it_was() -> None:
    plan = exact()
    before = encode(plan)
    built(plan)
    assert encode(plan) == before
