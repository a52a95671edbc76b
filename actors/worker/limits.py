"""How large the device state is, decided before anything is allocated."""

from __future__ import annotations

from optimist.actors.config import AUTO_DRAFTS, WorkerConfig
from optimist.actors.contract import too_many_drafts
from optimist.actors.worker.base import Limits
from optimist.actors.worker.memory import available
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig

MEGABYTE = 1 << 20


CPU_KV_MEMORY_MB = 512
"""of the KV cache, where nobody says"""

CPU_PROMPT_TOKENS = 256
"""of a step, beside its decode rows: more are no faster to compute there, and whoever comes next would wait
for them"""

GPU_BATCH_TOKENS = 2048


def batch_tokens(config: WorkerConfig, *, on_gpu: bool) -> int:
    """Query tokens of one step; where nobody says, every slot has one and prompts have room besides.

    On a CPU that room is always the same: prompts advance as fast whoever else runs. On a GPU, where a step
    is larger by far, it is what decode rows leave, at least half.
    """
    if config.max_batch_tokens is not None:
        return config.max_batch_tokens
    if on_gpu:
        return max(GPU_BATCH_TOKENS, 2 * config.max_slots)
    return CPU_PROMPT_TOKENS + config.max_slots


def prompt_tokens(config: WorkerConfig, *, on_gpu: bool) -> int | None:
    """How many of them may be of prompts, None where that is not limited."""
    return None if on_gpu or config.max_batch_tokens is not None else CPU_PROMPT_TOKENS


def limits_of(
    config: WorkerConfig, model: ModelConfig, block_bytes: int, room: int | None = None
) -> Limits:
    """Sizes for this model. block_bytes: of a KV block over all layers. room: bytes for the KV cache where
    config names no size; None is what a CPU gives: what the system has now is the most it may be.

    Raises ConfigError, naming the option, for one that cannot be.
    """
    tokens = batch_tokens(config, on_gpu=room is not None)
    for name, value in (
        ("block_size", config.block_size),
        ("max_slots", config.max_slots),
        ("max_batch_tokens", tokens),
    ):
        if value < 1:
            raise ConfigError(f"worker.{name}: expected at least 1, got {value}")
    longest = config.max_model_len or model.max_model_len
    if not 2 <= longest <= model.max_model_len:
        raise ConfigError(
            f"worker.max_model_len: expected 2 to {model.max_model_len}, which the model was made "
            f"for, got {longest}"
        )
    check_drafts(config, longest)
    num_blocks = _num_blocks(config, block_bytes, -(-longest // config.block_size), room)
    if room is None:
        _check_memory(config, num_blocks * block_bytes)
    return Limits(
        num_blocks=num_blocks,
        block_size=config.block_size,
        max_slots=config.max_slots,
        max_model_len=longest,
        max_batch_tokens=tokens,
        vocab_size=model.vocab_size,
        max_prompt_tokens=prompt_tokens(config, on_gpu=room is not None),
    )


def check_drafts(config: WorkerConfig, max_model_len: int) -> None:
    """Raise ConfigError where a row may have more drafts than a request has tokens, but for `auto`."""
    if config.most_drafts >= max(max_model_len, AUTO_DRAFTS + 1):
        raise ConfigError(too_many_drafts(config.most_drafts, max_model_len))


def _check_memory(config: WorkerConfig, wanted: int) -> None:
    """Raise ConfigError where a KV cache of so many bytes could not be filled. The system gives memory as
    blocks are first used, and ends a process that it has none for.
    """
    if wanted <= (there := available()):
        return
    option, more = "kv_blocks", ""
    if config.kv_blocks is None:
        option, more = "kv_memory_mb", f", max_slots ({config.max_slots}) or max_model_len"
    raise ConfigError(
        f"worker.{option}: expected a KV cache within the {int(there) // MEGABYTE} MiB of memory that are "
        f"available here, got one of {-(-wanted // MEGABYTE)} MiB. Lower {option}{more}"
    )


def _num_blocks(
    config: WorkerConfig, block_bytes: int, blocks_a_request: int, room: int | None
) -> int:
    if config.kv_blocks is None:
        if config.kv_memory_mb is not None:
            room = config.kv_memory_mb * MEGABYTE
        elif room is None:
            room = CPU_KV_MEMORY_MB * MEGABYTE
        option, got = "kv_memory_mb", room // block_bytes
    else:
        option, got = "kv_blocks", config.kv_blocks
    if got < config.max_slots:
        raise ConfigError(
            f"worker.{option}: expected room for a block of {block_bytes} bytes for each of max_slots "
            f"{config.max_slots}, got {got} blocks"
        )
    return got if config.kv_blocks is not None else min(got, config.max_slots * blocks_a_request)


def draft_layers(model: ModelConfig, layers: int | None) -> int:
    """How many layers draft. Raises ConfigError, naming the option, unless some are left out."""
    total = model.num_layers
    wanted = max(1, total // 4) if layers is None else layers
    if not 1 <= wanted < total:
        raise ConfigError(
            f"worker.draft_layers: expected 1 to {total - 1} of the model's {total} layers, "
            f"got {wanted}"
        )
    return wanted
