"""How large executors make themselves, and the sizes that they refuse before anything is allocated."""

from __future__ import annotations

from typing import Any

import pytest
from toy_device import executor

from optimist.actors.config import WorkerConfig
from optimist.actors.worker import limits
from optimist.actors.worker.limits import batch_tokens
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.actors.worker.torch_executor import TorchExecutor
from optimist.messages.errors import ConfigError
from optimist.models.default import default_model

SMALL: dict[str, Any] = {"kv_blocks": 8, "max_slots": 2, "max_model_len": 20}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_slots": 0}, r"worker\.max_slots: expected at least 1, got 0"),
    ({"max_batch_tokens": 0}, r"worker\.max_batch_tokens: expected at least 1"),
    ({"max_model_len": 1}, r"worker\.max_model_len: expected 2 to"),
    ({"kv_blocks": 1}, r"worker\.kv_blocks: expected room for a block .* got 1 blocks"),
    ({"kv_blocks": None, "kv_memory_mb": 0}, r"worker\.kv_memory_mb: .* got 0 blocks"),
]


def small(**options: Any) -> TorchExecutor:
    return executor(**{**SMALL, **options})


def _forbid(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def allocate(*_: Any) -> None:
        raise AssertionError("allocated")

    monkeypatch.setattr(where, allocate)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *REFUSED,
        ({"block_size": 0}, r"worker\.block_size: expected at least 1, got 0"),
        ({"max_model_len": 65}, r"worker\.max_model_len: expected 2 to 64"),
    ],
)
def test_sizes_that_torch_cannot_have_are_refused_before_anything_is_allocated(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forbid(monkeypatch, "toy_device.NETWORK.allocate_cache")
    with pytest.raises(ConfigError, match=message):
        small(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *REFUSED,
        ({"dtype": "float32"}, r"worker\.dtype: native expects bfloat16, got float32"),
        ({"block_size": 24}, "block_size: expected a multiple of 16, got 24"),
        ({"block_size": 0}, "block_size: expected a multiple of 16, got 0"),
        ({"max_model_len": 8193}, r"worker\.max_model_len: expected 2 to 8192"),
    ],
)
def test_sizes_that_the_library_cannot_have_are_refused_before_anything_is_allocated(
    options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _forbid(monkeypatch, "optimist.actors.worker.native_executor.load_device")
    with pytest.raises(ConfigError, match=message):
        NativeExecutor.load(WorkerConfig(model=str(default_model()), **options), lambda *_: None)


def test_sizes_that_do_not_fit_the_model_are_refused_before_a_weight_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _forbid(monkeypatch, "optimist.models.loader.load_model")
    config = WorkerConfig(kv_blocks=1, model=str(default_model()))
    with pytest.raises(ConfigError, match=r"worker\.kv_blocks: expected room for a block"):
        TorchExecutor.load(config, lambda what, done, total: None)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"kv_blocks": 2**40},
            r"worker\.kv_blocks: expected .* within the 3 MiB .*, got one of \d+ MiB. Lower kv_blocks$",
        ),
        (
            {"kv_memory_mb": 16, "max_slots": 8},
            r"worker\.kv_memory_mb: .* got one of 16 MiB. Lower kv_memory_mb, max_slots \(8\) or",
        ),
    ],
)
@pytest.mark.parametrize("kind", [NativeExecutor, TorchExecutor])
def test_a_cache_that_could_never_be_filled_is_refused_before_a_weight_is_read(
    kind: type[NativeExecutor | TorchExecutor],
    options: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _forbid(monkeypatch, "optimist.models.loader.load_model")
    _forbid(monkeypatch, "optimist.actors.worker.native_executor.load_device")
    monkeypatch.setattr(limits, "available", lambda: 4_000_000)
    config = WorkerConfig(model=str(default_model()), **options)
    with pytest.raises(ConfigError, match=message):
        kind.load(config, lambda what, done, total: None)


def test_memory_becomes_blocks_but_no_more_than_all_slots_can_fill() -> None:
    # A block: 2 layers, 2 KV heads, keys and values, 4 tokens, 8 float64 values: 2048 bytes.
    assert small(kv_blocks=None, kv_memory_mb=1, max_slots=200).limits.num_blocks == 512
    assert small(kv_blocks=None, kv_memory_mb=1).limits.num_blocks == 2 * 5
    assert small(kv_blocks=100).limits.num_blocks == 100


def test_limits_name_the_models_own_length_where_none_is_asked_for() -> None:
    found = small(max_model_len=None).limits
    assert found.max_model_len == 64
    assert (found.vocab_size, found.max_slots, found.max_batch_tokens) == (97, 2, 258)


def test_a_step_has_room_for_every_slot_and_for_the_same_prompt_tokens_whoever_runs() -> None:
    found = small(max_slots=200, kv_blocks=None).limits
    assert (found.max_batch_tokens, found.max_prompt_tokens) == (456, 256)


def test_a_size_of_ones_own_is_shared_as_it_comes() -> None:
    found = small(max_slots=200, kv_blocks=None, max_batch_tokens=64).limits
    assert (found.max_batch_tokens, found.max_prompt_tokens) == (64, None)


def test_a_step_on_a_gpu_is_larger() -> None:
    assert batch_tokens(WorkerConfig(), on_gpu=True) > batch_tokens(WorkerConfig(), on_gpu=False)
