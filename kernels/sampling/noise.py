"""Gumbel noise keyed by (seed, position, token id): a counter, hashed. There is no generator state.

For each row two 32-bit keys are hashed from seed and position; then the token id is mixed with the
first, hashed, mixed with the second and hashed again. `mix_` is a bijection of 32-bit words whose
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

PROPOSAL, ACCEPT, RESIDUAL = 1, 2, 3
"""branches of a request's noise: what drafts are drawn with, judged with, replaced with"""


def mix_(x: Tensor) -> Tensor:
    """A bijection of int32 words that looks random, in place; products wrap. Returns x."""
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    x *= _FIRST
    x ^= (x >> 15).bitwise_and_(0x1FFFF)
    x *= _SECOND
    x ^= (x >> 16).bitwise_and_(0xFFFF)
    return x


def keys(seed: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
    """Two int32 words for each row. seed, position: [S] int64."""
    low, high, at = seed.to(torch.int32), (seed >> 32).to(torch.int32), position.to(torch.int32)
    # The second must not be a function of the first: for one token id they would cancel in every row.
    return (
        mix_(mix_(mix_(low ^ _OTHER) ^ high) ^ at),
        mix_(mix_(mix_(at ^ _GOLDEN) ^ high) ^ low),
    )


def branch(seed: Tensor, at: Tensor, which: int) -> Tensor:
    """A seed of its own for one use of the noise at one place, [S] int64.

    seed: [S] int64. at: what tells rounds of the same request apart, [S] int64. which: PROPOSAL, ...
    """
    first, second = keys(seed, at)
    high, low = mix_(mix_(first ^ which) ^ second), mix_(mix_(second ^ which) ^ first)
    return (high.long() << 32) | (low.long() & 0xFFFFFFFF)


def uniform(seed: Tensor, position: Tensor) -> Tensor:
    """A number in (0, 1) for each row, neither end included, [S] float64. seed, position: [S] int64."""
    first, second = keys(seed, position)
    bits = mix_(mix_(first) ^ second) & 0x7FFFFFFF
    return (bits.double() + 0.5) * 2.0**-31


def gumbel(seed: Tensor, position: Tensor, ids: Tensor) -> Tensor:
    """Noise of each row for each token id, [S, N] float32. seed, position: [S] int64; ids: [N] int32."""
    first, second = keys(seed, position)
    bits = mix_(ids * _GOLDEN ^ first[:, None]).bitwise_xor_(second[:, None])
    bits = mix_(bits).bitwise_and_(0x7FFFFFFF)
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-31).clamp_(max=_LIMIT)
    return uniform.neg_().log1p_().neg_().log_().neg_()
