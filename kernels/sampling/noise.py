"""Gumbel noise keyed by (seed, position, token id): a counter, hashed. There is no generator state.

For each row two 32-bit keys are hashed from seed and position; then the token id is mixed with the
first, hashed, mixed with the second and hashed again. `mix` is a bijection of 32-bit words whose
multipliers were chosen for low bias. 31 bits of the result make a uniform v in (0, 1), and the noise
is -log(-log(1 - v)): small v, the large noise that decides, keep full relative precision.
"""

from __future__ import annotations

import torch
from torch import Tensor

_GOLDEN = -1640531527  # 0x9e3779b9 as int32: spreads neighbouring ids
_FIRST, _SECOND = 2146121005, -2073254261  # 0x7feb352d, 0x846ca68b
_OTHER = -2048144789  # 0x85ebca6b: seed 0 at position 0 is as good as any
_LIMIT = 1.0 - 2.0**-24


def mix(x: Tensor) -> Tensor:
    """A bijection of int32 words that looks random; products wrap."""
    x = x ^ ((x >> 16) & 0xFFFF)
    x = x * _FIRST
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x * _SECOND
    return x ^ ((x >> 16) & 0xFFFF)


def keys(seed: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Two int32 words for each row. seed, position: [S] int64."""
    low, high, at = seed.to(torch.int32), (seed >> 32).to(torch.int32), position.to(torch.int32)
    # The second must not be a function of the first: for one token id they would cancel in every row.
    return mix(mix(mix(low ^ _OTHER) ^ high) ^ at), mix(mix(mix(at ^ _GOLDEN) ^ high) ^ low)


def gumbel(seed: Tensor, position: Tensor, ids: Tensor) -> Tensor:
    """Noise of each row for each token id, [S, N] float32. seed, position: [S] int64; ids: [N] int32."""
    first, second = keys(seed, position)
    bits = mix(mix(ids * _GOLDEN ^ first[:, None]) ^ second[:, None]) & 0x7FFFFFFF
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-31).clamp_(max=_LIMIT)
    return uniform.neg_().log1p_().neg_().log_().neg_()
