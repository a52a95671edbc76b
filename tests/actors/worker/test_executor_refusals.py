"""What every executor refuses of a batch, and how it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from executor_scenes import SCENES

from optimist.actors.worker.base import Executor
from optimist.messages.base import column
from optimist.messages.batches import ExactBatch
from optimist.messages.errors import MessageError
from optimist.messages.lengths import ExactSeqLens
from optimist.messages.slots import BlockDelta, OpenedSlot, Sampling
from optimist.testing.hand import GREEDY

SMALL: dict[str, Any] = {
    "block_size": 16,
    "kv_blocks": 8,
    "max_slots": 2,
    "max_model_len": 60,
    "max_batch_tokens": 50,
}


@pytest.fixture(params=["torch", "native"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return SCENES[request.param].make(**SMALL)


def opened(**changed: Any) -> OpenedSlot:
    plain: dict[str, Any] = {
        "slot": 0,
        "generation": 3,
        "request": 0,
        "token_ids": column(range(20)),
        "prompt_len": 20,
        "cached_len": 0,
        "sampling": GREEDY,
    }
    return OpenedSlot(**{**plain, **changed})


def delta(**changed: Any) -> BlockDelta:
    plain: dict[str, Any] = {
        "version": 1,
        "slots": column([0]),
        "offsets": column([0]),
        "counts": column([2]),
        "blocks": column([5, 6]),
    }
    return BlockDelta(**{**plain, **changed})


def batch(**changed: Any) -> ExactBatch:
    plain: dict[str, Any] = {
        "incarnation": 1,
        "epoch": 1,
        "step": 0,
        "opened": (opened(),),
        "blocks": delta(),
        "slots": column([0]),
        "generations": column([3]),
        "num_decodes": 0,
        "draft_counts": b"",
        "max_query_len": 20,
        "max_blocks": 2,
        "query_start_loc": column([0, 20]),
        "seq_lens": ExactSeqLens.of([20]),
        "samples": column([1]),
    }
    return ExactBatch(**{**plain, **changed})


def biased(token: int) -> Sampling:
    return Sampling(
        temperature=0, seed=0, bias_ids=column([token]), bias_values=b"\x00\x00\x80\x3f"
    )


def test_the_plain_batch_is_accepted(executor: Executor) -> None:
    assert executor.submit(batch()).wait().slots.tolist() == [0]


Refused = dict[str, tuple[Callable[[], ExactBatch], str]]

REFUSED: Refused = {
    "block table version": (
        lambda: batch(blocks=delta(version=2)),
        r"blocks\.version: expected 1, got 2",
    ),
    "block": (lambda: batch(blocks=delta(blocks=column([5, 8]))), "expected blocks below 8, got 8"),
    "column": (lambda: batch(blocks=delta(offsets=column([3]))), "expected columns below 4, got 4"),
    "slot of blocks": (
        lambda: batch(blocks=delta(slots=column([2]))),
        r"blocks\.slots: expected slots below 2, got 2",
    ),
    "slot": (lambda: batch(slots=column([2])), "slots: expected slots below 2, got 2"),
    "two rows of a slot": (
        lambda: batch(
            slots=column([0, 0]),
            generations=column([3, 3]),
            query_start_loc=column([0, 10, 20]),
            seq_lens=ExactSeqLens.of([10, 20]),
            samples=column([0, 1]),
        ),
        r"slots: expected one row of a slot, got \[0, 0\]",
    ),
    "slot that is free already": (
        lambda: batch(closed=column([1])),
        "closed: slot 1 is free already",
    ),
    "slot that is not free": (
        lambda: batch(opened=(opened(), opened(generation=4))),
        r"opened\.slot: slot 0 is not free",
    ),
    "opened slot": (lambda: batch(opened=(opened(slot=9),)), "expected slots below 2, got 9"),
    "closed slot": (lambda: batch(closed=column([3])), "closed: expected slots below 2, got 3"),
    "generation": (lambda: batch(generations=column([2])), "slot 0: has 3 generation 2"),
    "nobody in the slot": (lambda: batch(opened=()), "slot 0: has -1 generation 3"),
    "blocks for the step": (
        lambda: batch(blocks=delta(counts=column([1]), blocks=column([5]))),
        "slot 0: has 1 blocks in the table, needs 2",
    ),
    "length beyond the context": (
        lambda: batch(query_start_loc=column([0, 61]), seq_lens=ExactSeqLens.of([61])),
        "expected at most 60 tokens, got 61",
    ),
    "drafts": (
        lambda: batch(num_decodes=1, draft_counts=column([1])),
        r"drafts\.counts: expected exactly batch\.draft_counts \[1\] in an ExactBatch, got \[0\]",
    ),
    "empty query": (
        lambda: batch(query_start_loc=column([0, 0])),
        r"expected queries of at least one token, got \[0\]",
    ),
    "prompt too long": (
        lambda: batch(opened=(opened(token_ids=column(range(61))),)),
        "fewer than 61, got 61 in slot 0",
    ),
    "nothing to compute": (
        lambda: batch(opened=(opened(cached_len=20),)),
        "expected more than cached_len 20",
    ),
    "token": (
        lambda: batch(opened=(opened(token_ids=column([1, 2, 101])),)),
        r"opened\.token_ids: expected tokens below (97|101), got 101 in slot 0",
    ),
    "biased token": (
        lambda: batch(opened=(opened(sampling=biased(101)),)),
        r"opened\.sampling\.bias_ids: expected tokens below (97|101), got 101",
    ),
}

NATIVE: Refused = {
    "a hole in the blocks": (
        lambda: batch(blocks=delta(offsets=column([1]))),
        "slot 0: has no blocks for 20 tokens",
    ),
    "length that is not the device's": (
        lambda: batch(seq_lens=ExactSeqLens.of([21])),
        "slot 0: expected a length of 20 after the step, got 21",
    ),
    "token nobody knows": (
        lambda: batch(query_start_loc=column([0, 21]), seq_lens=ExactSeqLens.of([21])),
        "slot 0: expected a query that ends at token 20, the last one known, got 21",
    ),
    "sample before the last token": (
        lambda: batch(query_start_loc=column([0, 9]), seq_lens=ExactSeqLens.of([9])),
        "slot 0: expected a query that ends at token 20, the last one known, got 9",
    ),
    "too many tokens": (
        lambda: batch(
            opened=(opened(token_ids=column(range(51)), prompt_len=51),),
            blocks=delta(counts=column([4]), blocks=column([5, 6, 1, 2])),
            query_start_loc=column([0, 51]),
            seq_lens=ExactSeqLens.of([51]),
        ),
        "expected at most 50 query tokens, got 51",
    ),
}
"""what only a device can see that reads its own lengths without delay"""


@pytest.mark.parametrize(("wrong", "message"), REFUSED.values(), ids=REFUSED)
def test_a_batch_that_contradicts_the_device_is_refused(
    executor: Executor, wrong: Callable[[], ExactBatch], message: str
) -> None:
    with pytest.raises(MessageError, match=message):
        executor.submit(wrong())


@pytest.mark.parametrize("executor", ["native"], indirect=True)
@pytest.mark.parametrize(("wrong", "message"), NATIVE.values(), ids=NATIVE)
def test_a_batch_that_contradicts_the_native_device_is_refused(
    executor: Executor, wrong: Callable[[], ExactBatch], message: str
) -> None:
    with pytest.raises(MessageError, match=message):
        executor.submit(wrong())
