"""Every operator that a step runs, in Triton."""

from __future__ import annotations

from optimist.kernels.add_rms_norm.triton import add_rms_norm
from optimist.kernels.advance.triton import advance
from optimist.kernels.kv_write.triton import kv_write
from optimist.kernels.ngram.triton import ngram
from optimist.kernels.paged_attention.triton import paged_attention, prepare
from optimist.kernels.place.triton import place
from optimist.kernels.rms_norm.triton import rms_norm
from optimist.kernels.rope.triton import rope_
from optimist.kernels.sampling.triton import distribution, greedy, sample
from optimist.kernels.silu_and_mul.triton import silu_and_mul
from optimist.kernels.token_to_req_indices.triton import token_to_req_indices
from optimist.kernels.verify.triton import block, compare, reject

__all__ = [
    "add_rms_norm",
    "advance",
    "block",
    "compare",
    "distribution",
    "greedy",
    "kv_write",
    "ngram",
    "paged_attention",
    "place",
    "prepare",
    "reject",
    "rms_norm",
    "rope_",
    "sample",
    "silu_and_mul",
    "token_to_req_indices",
]
