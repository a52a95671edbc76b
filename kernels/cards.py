"""Every operator's card."""

from __future__ import annotations

from optimist.kernels import (
    add_rms_norm,
    advance,
    kv_write,
    linear,
    linear_int4,
    linear_int8,
    logprobs,
    ngram,
    paged_attention,
    place,
    rms_norm,
    rope,
    sampling,
    silu_and_mul,
    token_to_req_indices,
    verify,
)
from optimist.kernels.card import Card

CARDS: tuple[Card, ...] = (
    add_rms_norm.CARD,
    advance.CARD,
    kv_write.CARD,
    linear.CARD,
    linear_int4.CARD,
    linear_int8.CARD,
    logprobs.CARD,
    ngram.CARD,
    paged_attention.CARD,
    place.CARD,
    rms_norm.CARD,
    rope.CARD,
    sampling.CARD,
    silu_and_mul.CARD,
    token_to_req_indices.CARD,
    verify.CARD,
)
"""in alphabetical order"""
