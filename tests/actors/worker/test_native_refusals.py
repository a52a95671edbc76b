"""What the native executor refuses, and how it says so; and how large it makes itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from native_toy import executor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.kernels.native.library import here, instruction_set
from optimist.messages.base import column
from optimist.messages.batches import ExactBatch
from optimist.messages.errors import ConfigError, MessageError
from optimist.messages.lengths import ExactSeqLens
from optimist.messages.slots import BlockDelta, OpenedSlot, Sampling
from optimist.models.default import default_model

SMALL: dict[str, Any] = {"blocks": 8, "slots": 2, "max_len": 70, "max_tokens": 60}


def opened(**changed: Any) -> OpenedSlot:
    plain: dict[str, Any] = {
        "slot": 0,
        "generation": 3,
        "request": 0,
        "token_ids": column(range(20)),
        "prompt_len": 20,
        "cached_len": 0,
        "sampling": Sampling(temperature=0, seed=0),
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


def test_the_plain_batch_is_accepted() -> None:
    assert executor(**SMALL).submit(batch()).wait().slots.tolist() == [0]


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
    "opened slot": (lambda: batch(opened=(opened(slot=9),)), "expected slots below 2, got 9"),
    "closed slot": (lambda: batch(closed=column([3])), "closed: expected slots below 2, got 3"),
    "generation": (lambda: batch(generations=column([2])), "slot 0: has 3 generation 2"),
    "nobody in the slot": (lambda: batch(opened=()), "slot 0: has -1 generation 3"),
    "blocks for the step": (
        lambda: batch(blocks=delta(counts=column([1]), blocks=column([5]))),
        "slot 0: has 1 blocks in the table, needs 2",
    ),
    "a hole in the blocks": (
        lambda: batch(blocks=delta(offsets=column([1]))),
        "slot 0: has no blocks for 20 tokens",
    ),
    "length beyond the context": (
        lambda: batch(query_start_loc=column([0, 71]), seq_lens=ExactSeqLens.of([71])),
        "expected at most 70 tokens, got 71",
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
            opened=(opened(token_ids=column(range(61)), prompt_len=61),),
            blocks=delta(counts=column([4]), blocks=column([5, 6, 1, 2])),
            query_start_loc=column([0, 61]),
            seq_lens=ExactSeqLens.of([61]),
        ),
        "expected at most 60 query tokens, got 61",
    ),
    "empty query": (
        lambda: batch(query_start_loc=column([0, 0])),
        r"expected queries of at least one token, got \[0\]",
    ),
    "prompt too long": (
        lambda: batch(opened=(opened(token_ids=column(range(71))),)),
        "fewer than 71, got 71 in slot 0",
    ),
    "nothing to compute": (
        lambda: batch(opened=(opened(cached_len=20),)),
        "expected more than cached_len 20",
    ),
    "token": (
        lambda: batch(opened=(opened(token_ids=column([1, 2, 101])),)),
        r"opened\.token_ids: expected tokens below 101, got 101 in slot 0",
    ),
    "biased token": (
        lambda: batch(opened=(opened(sampling=biased(101)),)),
        r"opened\.sampling\.bias_ids: expected tokens below 101, got 101",
    ),
}


@pytest.mark.parametrize(("wrong", "message"), REFUSED.values(), ids=REFUSED)
def test_a_batch_that_contradicts_the_device_is_refused(
    wrong: Callable[[], ExactBatch], message: str
) -> None:
    with pytest.raises(MessageError, match=message):
        executor(**SMALL).submit(wrong())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "float32"}, r"worker\.dtype: native expects bfloat16, got float32"),
        ({"block_size": 24}, "block_size: expected a multiple of 16, got 24"),
        ({"block_size": 0}, "block_size: expected a multiple of 16, got 0"),
        ({"max_slots": 0}, r"worker\.max_slots: expected at least 1, got 0"),
        ({"max_model_len": 8193}, r"worker\.max_model_len: expected 2 to 8192"),
        ({"kv_blocks": 1}, r"worker\.kv_blocks: expected room for a block .* got 1 blocks"),
        ({"kv_memory_mb": 0}, r"worker\.kv_memory_mb: .* got 0 blocks"),
    ],
)
def test_sizes_that_cannot_be_are_refused_before_anything_is_allocated(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allocate(*_: Any) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr("optimist.actors.worker.native_executor.load_device", allocate)
    with pytest.raises(ConfigError, match=message):
        NativeExecutor.load(WorkerConfig(model=str(default_model()), **options), lambda *_: None)


def test_an_instruction_set_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected one of .*portable, got 'sse9'"):
        instruction_set("sse9")
    assert instruction_set() == here()[0]


def test_a_library_that_was_not_built_has_a_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from optimist.kernels.native import library

    monkeypatch.setattr(library, "__file__", str(tmp_path / "library.py"))
    library.library.cache_clear()
    assert "install a C++ compiler" in library.missing()
    library.library.cache_clear()


def test_a_library_of_another_version_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from optimist.kernels.native import library

    monkeypatch.setattr(library, "ABI", 0)
    library.library.cache_clear()
    assert "install the package again" in library.missing()
    library.library.cache_clear()
