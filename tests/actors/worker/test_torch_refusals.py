"""What the torch executor refuses, and how it says so; and how large it makes itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from toy_device import NETWORK, executor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.base import column
from optimist.messages.batches import ExactBatch
from optimist.messages.errors import ConfigError, MessageError
from optimist.messages.lengths import ExactSeqLens
from optimist.messages.slots import BlockDelta, OpenedSlot
from optimist.models.default import default_model
from optimist.testing.hand import GREEDY

SMALL: dict[str, Any] = {"kv_blocks": 8, "max_slots": 2, "max_model_len": 20}


def small(**options: Any) -> TorchExecutor:
    return executor(**{**SMALL, **options})


def opened(**changed: Any) -> OpenedSlot:
    plain: dict[str, Any] = {
        "slot": 0,
        "generation": 3,
        "request": 0,
        "token_ids": column([1, 2, 3, 4, 5]),
        "prompt_len": 5,
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
        "max_query_len": 5,
        "max_blocks": 2,
        "query_start_loc": column([0, 5]),
        "seq_lens": ExactSeqLens.of([5]),
        "samples": column([1]),
    }
    return ExactBatch(**{**plain, **changed})


def test_the_plain_batch_is_accepted() -> None:
    assert small().submit(batch()).wait().slots.tolist() == [0]


REFUSED: dict[str, tuple[Callable[[], ExactBatch], str]] = {
    "block table version": (
        lambda: batch(blocks=delta(version=2)),
        r"blocks\.version: expected 1, got 2",
    ),
    "block": (lambda: batch(blocks=delta(blocks=column([5, 8]))), "expected blocks below 8, got 8"),
    "column": (lambda: batch(blocks=delta(offsets=column([4]))), "expected columns below 5, got 5"),
    "slot of blocks": (
        lambda: batch(blocks=delta(slots=column([2]))),
        r"blocks\.slots: expected slots below 2, got 2",
    ),
    "slot": (lambda: batch(slots=column([2])), "slots: expected slots below 2, got 2"),
    "slot twice": (
        lambda: batch(
            slots=column([0, 0]),
            generations=column([3, 3]),
            query_start_loc=column([0, 4, 5]),
            seq_lens=ExactSeqLens.of([4, 5]),
            samples=column([0, 1]),
        ),
        r"slots: expected each once, got \[0, 0\]",
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
    "length": (
        lambda: batch(query_start_loc=column([0, 21]), seq_lens=ExactSeqLens.of([21])),
        "expected at most 20 tokens, got 21",
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
        lambda: batch(opened=(opened(token_ids=column(range(21))),)),
        "fewer than 21, got 21 in slot 0",
    ),
    "nothing to compute": (
        lambda: batch(opened=(opened(cached_len=5),)),
        "expected more than cached_len 5",
    ),
    "token": (
        lambda: batch(opened=(opened(token_ids=column([1, 2, 97])),)),
        "expected tokens below 97, got 97 in slot 0",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), REFUSED.values(), ids=REFUSED)
def test_a_batch_that_contradicts_the_device_is_refused(
    wrong: Callable[[], ExactBatch], message: str
) -> None:
    with pytest.raises(MessageError, match=message):
        small().submit(wrong())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, r"worker\.block_size: expected at least 1, got 0"),
        ({"max_slots": 0}, r"worker\.max_slots: expected at least 1, got 0"),
        ({"max_batch_tokens": 0}, r"worker\.max_batch_tokens: expected at least 1"),
        ({"max_model_len": 65}, r"worker\.max_model_len: expected 2 to 64"),
        ({"max_model_len": 1}, r"worker\.max_model_len: expected 2 to 64"),
        ({"kv_blocks": 1}, r"worker\.kv_blocks: expected room for a block .* got 1 blocks"),
        ({"kv_blocks": None, "kv_memory_mb": 0}, r"worker\.kv_memory_mb: .* got 0 blocks"),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_anything_is_allocated(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(blocks: int, block_size: int) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr(NETWORK, "allocate_cache", allocate)
    with pytest.raises(ConfigError, match=message):
        small(**options)


def test_sizes_that_do_not_fit_the_model_are_refused_before_a_weight_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def load(*arguments: object) -> None:
        raise AssertionError("read")

    monkeypatch.setattr("optimist.models.loader.load_model", load)
    config = WorkerConfig(kv_blocks=1, model=str(default_model()))
    with pytest.raises(ConfigError, match=r"worker\.kv_blocks: expected room for a block"):
        TorchExecutor.load(config, lambda what, done, total: None)


def test_memory_becomes_blocks_but_no_more_than_all_slots_can_fill() -> None:
    # A block: 2 layers, 2 KV heads, keys and values, 4 tokens, 8 float64 values: 2048 bytes.
    assert small(kv_blocks=None, kv_memory_mb=1, max_slots=200).limits.num_blocks == 512
    assert small(kv_blocks=None, kv_memory_mb=1).limits.num_blocks == 2 * 5
    assert small(kv_blocks=100).limits.num_blocks == 100


def test_limits_name_the_models_own_length_where_none_is_asked_for() -> None:
    limits = small(max_model_len=None).limits
    assert limits.max_model_len == 64
    assert (limits.vocab_size, limits.max_slots, limits.max_batch_tokens) == (97, 2, 2048)
