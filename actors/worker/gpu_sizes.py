"""How much of a GPU's memory is left for the KV cache: pure numbers, from free bytes and shapes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from optimist.actors.config import RESERVE_MB, WorkerConfig
from optimist.actors.proposer.kinds import IN_PASSES
from optimist.actors.worker.limits import MEGABYTE, batch_tokens
from optimist.kernels.linear import widened
from optimist.messages.errors import ConfigError
from optimist.models.config import ModelConfig

WIDE = 4
"""bytes of a float32"""

LOGITS_COPIES = {"sample": 4, "rejection": 7, "block": 7}
"""of the logits of a step at once, by how drafts are judged. Sampling: raw for log-probabilities, processed,
and two in their making. Else: raw, processed, probabilities, their parts, the likeliest, the proposal, the residual."""

COUNTS = WIDE + 1
"""bytes of a token that penalties count: how often it was emitted, and whether it is in the prompt"""


def step_bytes(config: WorkerConfig, model: ModelConfig, itemsize: int) -> int:
    """Bytes that the largest step takes beside weights and caches, generously, and what stays beside it.

    itemsize: of the network's dtype. Of a layer, what lives at once: the residual stream in float32, its
    norm, queries, keys, values and what attention makes of them, and the feed-forward's inner values.
    Counts of tokens are made when the first request asks for a penalty, and are reserved here.
    """
    heads = model.num_heads + 2 * model.num_kv_heads
    narrow = 2 * model.hidden_size + (heads + model.num_heads) * model.head_dim
    token = WIDE * 2 * model.hidden_size + itemsize * (narrow + 3 * model.intermediate_size)
    tokens = batch_tokens(config, on_gpu=True)
    places = min(config.max_slots * (1 + config.most_drafts), tokens)
    logits = LOGITS_COPIES[config.verify] * WIDE * places
    counts = COUNTS * (places + config.max_slots)
    weights = 0 if config.quant == "none" else widened.BYTES
    step = token * tokens + model.vocab_size * (logits + counts)
    return step + weights + graph_bytes(config, model)


def graph_bytes(config: WorkerConfig, model: ModelConfig) -> int:
    """Bytes that graphs leave the residual stream in: those of steps, and those of passes that draft."""
    if not config.graphs:
        return 0
    drafting = 2 if config.proposer in IN_PASSES else 0
    return WIDE * model.hidden_size * config.max_slots * (1 + config.most_drafts + drafting)


def kv_room(free: int, config: WorkerConfig, model: ModelConfig, itemsize: int) -> int:
    """Bytes for KV caches when `free` are left beside the weights; none where that is too little."""
    reserve_mb = RESERVE_MB if config.reserve_mb is None else config.reserve_mb
    taken = step_bytes(config, model, itemsize) + reserve_mb * MEGABYTE
    return max(0, free - taken)


NO_MEMORY = ("out of memory", "ALLOC_FAILED")
"""what drivers and their libraries say where they allocate for themselves: for kernels, graphs, handles"""


def _out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or any(why in str(error) for why in NO_MEMORY)


@contextmanager
def enough_memory(config: WorkerConfig, device: str) -> Iterator[None]:
    """Raises ConfigError, saying what to lower, where the device runs out of memory meanwhile."""
    try:
        yield
    except RuntimeError as error:
        said = str(error).partition("\n")[0]
        if not _out_of_memory(error):
            raise
        raise ConfigError(
            f"worker.device: {device} has too little memory for this engine. Lower kv_memory_mb or "
            f"kv_blocks, max_slots ({config.max_slots}), max_batch_tokens ({batch_tokens(config, on_gpu=True)}) or "
            f"max_model_len, raise reserve_mb, turn graphs off, or take fewer bits of weights: {said}"
        ) from None
