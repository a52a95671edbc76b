"""Every operator's card."""

from __future__ import annotations

from optimist.kernels import (
    kv_write,
    linear,
    logprobs,
    paged_attention,
    rms_norm,
    rope,
    sampling,
    silu_and_mul,
)
from optimist.kernels.card import Card

CARDS: tuple[Card, ...] = (
    kv_write.CARD,
    linear.CARD,
    logprobs.CARD,
    paged_attention.CARD,
    rms_norm.CARD,
    rope.CARD,
    sampling.CARD,
    silu_and_mul.CARD,
)
"""in alphabetical order"""
