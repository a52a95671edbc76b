"""Limits of a device that holds its caches in torch tensors."""

from __future__ import annotations

import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker import limits
from optimist.actors.worker.base import Limits
from optimist.kernels.kv_cache import block_bytes
from optimist.models.config import ModelConfig


def limits_of(
    config: WorkerConfig,
    model: ModelConfig,
    dtype: torch.dtype,
    draft: ModelConfig | None = None,
    room: int | None = None,
) -> Limits:
    """Sizes for this model, and for the one that drafts, whose cache has as many blocks.

    dtype: of the caches. room: bytes for them, as in optimist.actors.worker.limits.

    Raises ConfigError, naming the option, for one that cannot be.
    """
    size = max(1, config.block_size)
    each = sum(
        block_bytes(one.num_layers, one.num_kv_heads, size, one.head_dim, dtype)
        for one in (model, draft)
        if one is not None
    )
    return limits.limits_of(config, model, each, room)
