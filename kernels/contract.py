"""What an executor calls: every operator of a step, whoever computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optimist.kernels.linear import Linear
from optimist.kernels.place import Placed
from optimist.kernels.sampling import Rows
from optimist.kernels.verify import Places, Verified


class Kernels(NamedTuple):
    """The operators, named and called as in their folders. What `prepare` makes, `paged_attention` takes.

    pack, pack_head: make a layer of weight and bias; the second decides between tokens. kv_dtype: of the KV
    cache, None is the network's. captured: whether what they launch depends on bounds alone.
    """

    name: str
    pack: Callable[[Tensor, Tensor | None], Linear]
    pack_head: Callable[[Tensor, Tensor | None], Linear]
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    add_rms_norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    rope_: Callable[[Tensor, Tensor, Tensor], Tensor]
    silu_and_mul: Callable[[Tensor], Tensor]
    kv_write: Callable[..., None]
    prepare: Callable[..., Any]
    paged_attention: Callable[..., Tensor]
    place: Callable[..., Placed]
    advance: Callable[..., None]
    greedy: Callable[[Tensor], Tensor]
    sample: Callable[[Tensor, Rows], Tensor]
    distribution: Callable[[Tensor, Rows], Tensor]
    compare: Callable[[Tensor, Places], Verified]
    reject: Callable[..., Verified]
    block: Callable[..., Verified]
    ngram: Callable[..., Tensor]
    kv_dtype: torch.dtype | None = None
    captured: bool = False
