"""The noise of `noise.py` on the device: the same counter, hashed to the same bits."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mix(x: tl.tensor) -> tl.tensor:
    """A bijection of 32-bit words that looks random. x: uint32."""
    x = x ^ (x >> 16)
    x = x * 0x7FEB352D
    x = x ^ (x >> 15)
    x = x * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def keys(seed: tl.tensor, position: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Two words of a seed, int64, and a position, int64."""
    low, high, at = seed.to(tl.uint32), (seed >> 32).to(tl.uint32), position.to(tl.uint32)
    first = mix(mix(mix(low ^ 0x85EBCA6B) ^ high) ^ at)
    return first, mix(mix(mix(at ^ 0x9E3779B9) ^ high) ^ low)


@triton.jit
def branch(seed: tl.tensor, at: tl.tensor, WHICH: tl.constexpr) -> tl.tensor:
    """A seed of its own, int64, for one use of the noise at one place."""
    first, second = keys(seed, at)
    high, low = mix(mix(first ^ WHICH) ^ second), mix(mix(second ^ WHICH) ^ first)
    return (high.to(tl.int64) << 32) | low.to(tl.int64)


@triton.jit
def uniform(seed: tl.tensor, position: tl.tensor) -> tl.tensor:
    """A number in (0, 1), float64."""
    first, second = keys(seed, position)
    bits = mix(mix(first) ^ second) & 0x7FFFFFFF
    return (bits.to(tl.float64) + 0.5) * (2.0**-31)


@triton.jit
def gumbel(first: tl.tensor, second: tl.tensor, ids: tl.tensor) -> tl.tensor:
    """Noise of token ids, int32, under two keys; float32.

    The logarithm of 1 - v is a series where v is small: there the noise is large, and decides.
    """
    bits = mix(mix((ids.to(tl.uint32) * 0x9E3779B9) ^ first) ^ second) & 0x7FFFFFFF
    v = tl.minimum((bits.to(tl.float32) + 0.5) * (2.0**-31), 1.0 - 2.0**-24)
    series = 1.0 / 7.0 + v / 8.0
    series = v * (
        1.0 + v * (1 / 2 + v * (1 / 3 + v * (1 / 4 + v * (1 / 5 + v * (1 / 6 + v * series)))))
    )
    return -tl.log(tl.where(v < 0.0625, series, -tl.log(1.0 - v)))
