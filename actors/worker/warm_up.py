"""A pass over nobody's tokens at the start, so that no request waits until kernels are compiled."""

from __future__ import annotations

from typing import NamedTuple

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

CONTEXT_OF_SPLIT, MOST_SPLITS = 256, 32
"""tokens of context that attention's kernels give a program of their own, and of how many; see there"""

TILES = (32, 64)
"""tokens of which Triton's products of few bits make programs, beside the smallest"""


class Pass(NamedTuple):
    """One row. bound: of its context, which its real length keeps well below."""

    tokens: int
    decodes: bool = False
    bound: int = 0


def warm_up(
    model: Llama, cache: Tensor, progress: Progress, max_model_len: int, most_drafts: int
) -> None:
    """Enqueue a prompt chunk of each size that writes nothing and reads the null block, and, where kernels
    are Triton's, tokens and drafts of a row that decodes.
    """
    passes = [Pass(tokens) for tokens in SIZES]
    if model.kernels.captured:
        passes += [Pass(tokens) for tokens in TILES]
        passes += decoding(max_model_len, most_drafts)
    with torch.inference_mode():
        for done, one in enumerate(passes):
            _pass(model, cache, *one)
            progress("compiled sizes", done + 1, len(passes))


def decoding(max_model_len: int, most_drafts: int) -> list[Pass]:
    """Passes of one row for each program that attention makes of query tokens, and each number of parts that
    it splits a context into: powers of two, both.
    """
    bounds = [1]
    while bounds[-1] < min(max_model_len, MOST_SPLITS * CONTEXT_OF_SPLIT):
        bounds.append(max(2 * bounds[-1], CONTEXT_OF_SPLIT))
    queries, more = [], 2
    while more <= most_drafts:
        queries.append(more)
        more *= 2
    queries += [1 + most_drafts] if most_drafts else []
    few = [Pass(tokens, True, bound) for tokens in queries for bound in (1, bounds[-1])]
    return [Pass(1, True, bound) for bound in bounds] + few


def _pass(model: Llama, cache: Tensor, tokens: int, decodes: bool, bound: int) -> None:
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
        max_seq_len=max(tokens, bound),
        num_decodes=int(decodes),
        is_prefilling=np.full(1, not decodes),
        host_lens=ExactSeqLens.of([tokens]),
    )
    model.forward(torch.zeros_like(at), at, cache, metadata, at)
