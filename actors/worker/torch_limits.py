"""Limits of a device that holds its cache in a torch tensor."""

from __future__ import annotations

import torch

from optimist.actors.config import WorkerConfig
from optimist.actors.worker import limits
from optimist.actors.worker.base import Limits
from optimist.kernels.kv_cache import block_bytes
from optimist.models.config import ModelConfig


def limits_of(config: WorkerConfig, model: ModelConfig, dtype: torch.dtype) -> Limits:
    """Sizes for this model. Raises ConfigError, naming the option, for one that cannot be."""
    size = max(1, config.block_size)
    each = block_bytes(model.num_layers, model.num_kv_heads, size, model.head_dim, dtype)
    return limits.limits_of(config, model, each)
