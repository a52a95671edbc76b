"""Who computes: every operator of a step, in one version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from optimist.kernels import (
    advance,
    kv_write,
    linear,
    paged_attention,
    place,
    rms_norm,
    rope,
    sampling,
    silu_and_mul,
    verify,
)
from optimist.kernels.linear import Linear
from optimist.kernels.place import Placed
from optimist.kernels.sampling import Rows
from optimist.kernels.triton_interpreter import interpret, missing, quiet
from optimist.kernels.verify import Places, Verified
from optimist.messages.errors import ConfigError


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
    kv_dtype: torch.dtype | None = None
    captured: bool = False


TORCH = Kernels(
    name="torch",
    pack=linear.pack,
    pack_head=linear.pack,
    rms_norm=rms_norm.rms_norm,
    add_rms_norm=rms_norm.add_rms_norm,
    rope_=rope.rope_,
    silu_and_mul=silu_and_mul.silu_and_mul,
    kv_write=kv_write.kv_write,
    prepare=paged_attention.prepare,
    paged_attention=paged_attention.paged_attention,
    place=place.place,
    advance=advance.advance,
    greedy=sampling.greedy,
    sample=sampling.sample,
    distribution=sampling.distribution,
    compare=verify.compare,
    reject=verify.reject,
    block=verify.block,
)


def triton_kernels(device: str, *, quant: str = "none", kv_dtype: str = "auto") -> Kernels:
    """The same in Triton: compiled for a GPU, interpreted on a `cpu`, slowly.

    quant, kv_dtype: as in WorkerConfig; weights of few bits are rounded here, whatever the file has.
    Raises ConfigError where Triton is not installed, or was loaded to compile and should interpret.
    """
    if why := missing():
        raise ConfigError(f"kernels: {why}")
    if device == "cpu":
        interpret()
    else:
        quiet()
    from optimist.kernels import triton_narrow, triton_operators

    found = TORCH._replace(
        name="triton",
        captured=True,
        **{name: getattr(triton_operators, name) for name in triton_operators.__all__},
    )
    if quant in ("int8", "int4"):
        found = triton_narrow.quantised(found, quant)
    return triton_narrow.cached_narrowly(found, device) if kv_dtype == "fp8" else found
