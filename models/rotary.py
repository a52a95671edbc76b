"""Rotary frequencies of a config, in float64, with every scaling that a file can ask for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from optimist.messages.errors import ModelError
from optimist.models.config import (
    FactorsRope,
    LinearRope,
    Llama3Rope,
    ModelConfig,
    PlainRope,
    YarnRope,
)

Frequencies = NDArray[np.float64]


def frequencies(config: ModelConfig) -> tuple[Frequencies, float]:
    """Radians that a head dimension turns per position, [head_dim / 2], and the scale of cos and sin.

    Raises ModelError when a list of factors does not fit head_dim.
    """
    half = config.head_dim // 2
    plain = config.rope_theta ** (-np.arange(half, dtype=np.float64) / half)
    match config.rope_scaling:
        case PlainRope():
            return plain, 1.0
        case LinearRope(factor=factor):
            return plain / factor, 1.0
        case FactorsRope(factors=factors):
            return plain / _checked(factors, half), 1.0
        case Llama3Rope() as llama:
            return _llama3(plain, llama), 1.0
        case YarnRope() as yarn:
            return _yarn(plain, yarn, config), yarn.attention_factor


def _checked(factors: tuple[float, ...], half: int) -> Frequencies:
    if len(factors) != half:
        raise ModelError(f"rope factors: expected {half}, half of head_dim, got {len(factors)}")
    return np.asarray(factors, np.float64)


def _llama3(plain: Frequencies, by: Llama3Rope) -> Frequencies:
    turns = by.original_max_len * plain / (2 * math.pi)
    blend = (turns - by.low_freq_factor) / (by.high_freq_factor - by.low_freq_factor)
    kept = np.clip(blend, 0.0, 1.0)
    return plain * (kept + (1 - kept) / by.factor)


def _yarn(plain: Frequencies, by: YarnRope, config: ModelConfig) -> Frequencies:
    low, high = (_dimension(turns, by, config) for turns in (by.beta_fast, by.beta_slow))
    if by.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, config.head_dim - 1)
    span = high - low or 0.001
    scaled = np.clip((np.arange(plain.size) - low) / span, 0.0, 1.0)
    return np.asarray(plain * (1 - scaled + scaled / by.factor), np.float64)


def _dimension(turns: float, by: YarnRope, config: ModelConfig) -> float:
    """The dimension that turns so often within the original context."""
    positions_a_turn = by.original_max_len / (turns * 2 * math.pi)
    return config.head_dim * math.log(positions_a_turn) / (2 * math.log(config.rope_theta))
