"""A dense layer of many tokens whose weights have few bits: a part of them is widened, and multiplied as any other."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear

MANY = 256
"""tokens from which it pays: kernels that multiply narrow weights widen them again for every 64 tokens or fewer"""

AT_ONCE = 1 << 23
"""weights that are wide at once"""

BYTES = 10 * AT_ONCE
"""of memory that this takes: two copies in float32, and the narrow values in whole bytes"""


def multiplied(
    x: Tensor, outputs: int, bias: Tensor | None, widened: Callable[[slice], Tensor]
) -> Tensor:
    """x [T, K] times weights [N, K] transposed, plus bias [N]. [T, N] in x's dtype.

    widened: weights of these of the `outputs`, [n, K] in x's dtype.
    """
    y = torch.empty((x.shape[0], outputs), dtype=x.dtype, device=x.device)
    step = max(1, AT_ONCE // x.shape[1])
    for low in range(0, outputs, step):
        part = slice(low, min(low + step, outputs))
        y[:, part] = linear(x, widened(part), None if bias is None else bias[part])
    return y
