"""Dense layers by oneDNN on weights in its own blocked layout; by F.linear where there is none.

The layout's operators are private to torch: they are looked up by name, and missed without harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Linear = Callable[[Tensor], Tensor]
"""[T, K] -> [T, N]"""


def pack(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """A layer that owns weight [N, K] and bias [N] in the fastest layout for their dtype.

    The packed copy is opaque: `weight` may be dropped.
    """
    if weight.device.type == "cpu" and packable(weight.dtype):
        return _packed(weight, bias)
    return plain(weight, bias)


def plain(weight: Tensor, bias: Tensor | None = None) -> Linear:
    """A layer on the weight as it is: the oracle of the packed one, and the only one in float64."""
    return lambda x: F.linear(x, weight, bias)


def packable(dtype: torch.dtype) -> bool:
    """Whether oneDNN has a layout of its own for this dtype on this machine."""
    if any(_op(name) is None for name in _NEEDED):
        return False
    if dtype == torch.bfloat16:
        return bool(_op("_is_mkldnn_bf16_supported")())
    return dtype == torch.float32


_NEEDED = ("_is_mkldnn_bf16_supported", "_reorder_linear_weight", "_linear_pointwise")


def _op(name: str) -> Any:
    return getattr(torch.ops.mkldnn, name, None)


def _packed(weight: Tensor, bias: Tensor | None) -> Linear:
    blocked = _op("_reorder_linear_weight")(weight.contiguous())
    run = _op("_linear_pointwise").default
    return lambda x: run(x, blocked, bias, "none", [], "")
