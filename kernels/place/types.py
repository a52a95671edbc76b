"""What the beginning of a step yields."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Placed(NamedTuple):
    """Of each query token. ids: [T] int32. positions: in its request, [T] int64.

    kv_slots: where its key and value go, block * P + offset, [T] int64.
    """

    ids: Tensor
    positions: Tensor
    kv_slots: Tensor
