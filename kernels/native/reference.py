"""The spec of the library's operators where torch has none: numpy, float64, one formula each.

Those of numbers of few bits are in quantised.py; attention, choosing and reporting have theirs in torch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optimist.kernels.native.quantised import Reals
from optimist.kernels.native.shapes import Floats, Format, Ints

TILE = 16
"""tokens whose keys lie together"""

KEY_GROUP = 32
"""values of a key of 8 bits that share a scale"""


def nearest_bf16(values: NDArray[np.floating]) -> Floats:
    """The nearest bfloat16 numbers, of two as near the even one. The values are finite."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    found: Floats = (bits + 0x7FFF + (bits >> 16 & 1) & np.uint32(0xFFFF0000)).view(np.float32)
    return found


def bf16_linear(x: Floats, weights: Floats) -> Reals:
    """x [T, K] times weights [N, K] transposed, both in bfloat16. [T, N]."""
    found: Reals = nearest_bf16(x).astype(np.float64) @ nearest_bf16(weights).astype(np.float64).T
    return found


def gated(gate: Reals, up: Reals) -> Reals:
    """gate * sigmoid(gate) * up, [T, F] each."""
    found: Reals = gate / (1 + np.exp(-gate)) * up
    return found


def picked(logits: Floats) -> tuple[Floats, Ints]:
    """The largest of each row of logits [T, V], NaN where there is one, and where it is first."""
    return logits.max(-1), logits.argmax(-1).astype(np.int32)


def rms_norm(x: Floats, weight: Floats, eps: float) -> Reals:
    """Each row of x [..., E] over its root mean square, times weight [E]."""
    wide = x.astype(np.float64)
    found: Reals = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + eps) * weight
    return found


def rotated(x: Floats, turns: Floats) -> Reals:
    """x [T, N, D] turned by cosines and sines [T, D] of half a head each: values half a head apart are a pair."""
    first, second = np.split(x.astype(np.float64), 2, -1)
    cos, sin = np.split(turns.astype(np.float64)[:, None], 2, -1)
    return np.concatenate((first * cos - second * sin, second * cos + first * sin), -1)


def cached(cache: NDArray[np.uint8], kept: Format, dim: int) -> tuple[Reals, Reals]:
    """Keys and values out of a cache [B, G, P / 16, bytes of a tile], [B, P, G, D] each.

    A tile has keys in pairs of dimensions, [W / 2][16][2], then values in pairs of tokens, [8][W][2], W being D
    up to a multiple of 16. In 8 bits there are scales in bfloat16 behind these: of each 32 dimensions of the keys,
    [W / 32][16], and of the values, [16].
    """
    width = -(-dim // TILE) * TILE
    size = width * TILE * (2 if kept is Format.BF16 else 1)
    keys, values = (cache[..., at : at + size] for at in (0, size))
    lead = cache.shape[:3]
    by_token = np.moveaxis(_numbers(keys, kept).reshape(*lead, width // 2, TILE, 2), -2, -3)
    k = by_token.reshape(*lead, TILE, width)
    v = np.moveaxis(_numbers(values, kept).reshape(*lead, TILE // 2, width, 2), -1, -2)
    v = v.reshape(*lead, TILE, width)
    if kept is not Format.BF16:
        groups = -(-width // KEY_GROUP)
        raw = np.ascontiguousarray(cache[..., 2 * size : 2 * (size + (groups + 1) * TILE)])
        scales = _numbers(raw, Format.BF16).reshape(*lead, groups + 1, TILE)
        of_keys = np.repeat(np.moveaxis(scales[..., :-1, :], -1, -2), KEY_GROUP, -1)
        k, v = k * of_keys[..., :width], v * scales[..., -1, :, None]
    return _by_position(k)[..., :dim], _by_position(v)[..., :dim]


def _numbers(raw: NDArray[np.uint8], kept: Format) -> Reals:
    raw = np.ascontiguousarray(raw)
    if kept is Format.BF16:
        bits = raw.view(np.uint16).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return raw.view(np.int8).astype(np.float64)


def _by_position(rows: Reals) -> Reals:
    """[B, G, P / 16, 16, W] as [B, P, G, W]."""
    blocks, groups, tiles, lanes, width = rows.shape
    return np.moveaxis(rows.reshape(blocks, groups, tiles * lanes, width), 1, 2)
