"""What an executor calls: every operator of a step, whoever computes it."""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optimist.kernels.linear import Linear
from optimist.kernels.metadata import ExactMetadata, OptimisticMetadata
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
    token_to_req_indices: Callable[[Tensor, Tensor], Tensor]
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


def told_of_rows(kernels: Kernels) -> tuple[Callable[..., Any], ...]:
    """The operators that are told of rows: `prepare`, and others whose signature says so."""
    others = (one for one in kernels if callable(one) and one is not kernels.prepare)
    return (kernels.prepare, *(one for one in others if metadata_taken(one)))


def metadata_taken(operator: Callable[..., Any]) -> set[str]:
    """Names of the kinds of metadata that an operator's signature lets in."""
    try:
        hints = typing.get_type_hints(operator)
    except (NameError, TypeError):
        return set()
    hints.pop("return", None)
    kinds = {kind for hint in hints.values() for kind in (typing.get_args(hint) or (hint,))}
    return {kind.__name__ for kind in (ExactMetadata, OptimisticMetadata) if kind in kinds}
