"""Rotary frequencies of every scaling, against values worked out by hand and against limits."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from optimist.messages.errors import ModelError
from optimist.models.config import (
    FactorsRope,
    LinearRope,
    Llama3Rope,
    ModelConfig,
    RopeScaling,
    YarnRope,
)
from optimist.models.rotary import Frequencies, frequencies

CONFIG = ModelConfig(
    architecture="llama",
    vocab_size=10,
    hidden_size=8,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=64,
    intermediate_size=8,
    max_model_len=4096,
    rms_norm_eps=1e-5,
    rope_theta=10000.0,
)
PLAIN = 10000.0 ** (-np.arange(32) / 32)


def scaled(scaling: RopeScaling) -> Frequencies:
    found, scale = frequencies(dataclasses.replace(CONFIG, rope_scaling=scaling))
    assert scale == (scaling.attention_factor if isinstance(scaling, YarnRope) else 1.0)
    return found


def test_plain() -> None:
    found, scale = frequencies(CONFIG)
    assert_allclose(found, PLAIN)
    assert (found[0], scale) == (1.0, 1.0)


def test_linear_slows_every_dimension() -> None:
    assert_allclose(scaled(LinearRope(factor=4.0)), PLAIN / 4)


def test_factors_slow_each_dimension_by_its_own() -> None:
    factors = tuple(1.0 + i for i in range(32))
    assert_allclose(scaled(FactorsRope(factors=factors)), PLAIN / np.array(factors))
    with pytest.raises(ModelError, match="rope factors: expected 32, half of head_dim, got 3"):
        scaled(FactorsRope(factors=(1.0, 2.0, 3.0)))


def test_llama3_keeps_high_slows_low_and_blends_between() -> None:
    scaling = Llama3Rope(
        factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_len=1024
    )
    wavelengths = 2 * math.pi / PLAIN
    found = scaled(scaling)
    high, low = wavelengths < 1024 / 4, wavelengths > 1024
    assert high.any() and low.any() and not (high | low).all()
    assert_allclose(found[high], PLAIN[high])
    assert_allclose(found[low], PLAIN[low] / 8)
    for i in np.flatnonzero(~(high | low)):
        smooth = (1024 / wavelengths[i] - 1) / (4 - 1)
        assert_allclose(found[i], (1 - smooth) * PLAIN[i] / 8 + smooth * PLAIN[i])


@pytest.mark.parametrize("truncate", [True, False])
def test_yarn_ramps_over_dimensions(truncate: bool) -> None:
    scaling = YarnRope(factor=4.0, original_max_len=2048, attention_factor=1.3, truncate=truncate)
    found = scaled(scaling)
    turns = 2048 * PLAIN / (2 * math.pi)
    assert_allclose(found[turns > 40], PLAIN[turns > 40])
    assert_allclose(found[turns < 0.8], PLAIN[turns < 0.8] / 4)
    slowed = PLAIN / found
    assert (np.diff(slowed) > -1e-12).all()
    # 32 turns fall on dimension 8.09, one turn on 20.1 (of head_dim 64, theta 10,000).
    low = 64 * math.log(2048 / (32 * 2 * math.pi)) / (2 * math.log(10000))
    high = 64 * math.log(2048 / (2 * math.pi)) / (2 * math.log(10000))
    first, last = (math.floor(low), math.ceil(high)) if truncate else (low, high)
    share = (14 - first) / (last - first)
    assert_allclose(found[14], PLAIN[14] * (1 - share) + PLAIN[14] / 4 * share)


def test_a_yarn_ramp_of_no_width_is_a_step() -> None:
    scaling = YarnRope(
        factor=2.0,
        original_max_len=2048,
        attention_factor=1.0,
        beta_fast=4.0,
        beta_slow=4.0,
        truncate=False,
    )
    slowed = PLAIN / scaled(scaling)
    assert set(np.round(slowed, 6)) == {1.0, 2.0}
