"""A pass over nobody's tokens at the start, so that no request waits until kernels are compiled."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from optimist.actors.worker.base import Progress
from optimist.kernels.kv_cache import null_block
from optimist.kernels.metadata import ExactMetadata
from optimist.messages.lengths import ExactSeqLens
from optimist.models.llama import Llama

SIZES = (1, 2)
"""tokens of a pass: one is a size of its own for compilers, and two stand for all others"""


def warm_up(model: Llama, cache: Tensor, progress: Progress) -> None:
    """Enqueue a prompt chunk of each of SIZES that writes nothing and reads the null block."""
    with torch.inference_mode():
        for done, tokens in enumerate(SIZES):
            _pass(model, cache, tokens)
            progress("compiled sizes", done + 1, len(SIZES))


def _pass(model: Llama, cache: Tensor, tokens: int) -> None:
    at = torch.arange(tokens, device=cache.device)
    metadata = ExactMetadata(
        query_start_loc=torch.arange(2, dtype=torch.int32, device=cache.device) * tokens,
        seq_lens=torch.full((1,), tokens, dtype=torch.int32, device=cache.device),
        block_table=torch.full(
            (1, tokens), null_block(cache), dtype=torch.int32, device=cache.device
        ),
        slot_mapping=torch.full((tokens,), -1, dtype=torch.int64, device=cache.device),
        query_offsets=np.array([0, tokens], np.int32),
        max_query_len=tokens,
        max_seq_len=tokens,
        num_decodes=0,
        is_prefilling=np.ones(1, np.bool_),
        host_lens=ExactSeqLens.of([tokens]),
    )
    model.forward(torch.zeros_like(at), at, cache, metadata, at)
