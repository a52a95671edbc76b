"""Who computes: every operator of a step, in one version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from optimist.kernels import (
    advance,
    kv_write,
    paged_attention,
    place,
    rms_norm,
    rope,
    sampling,
    silu_and_mul,
    verify,
)
from optimist.kernels.place import Placed
from optimist.kernels.sampling import Rows
from optimist.kernels.triton_interpreter import interpret, missing, quiet
from optimist.kernels.verify import Places, Verified
from optimist.messages.errors import ConfigError


class Kernels(NamedTuple):
    """The operators, named and called as in their folders. What `prepare` makes, `paged_attention` takes."""

    name: str
    rms_norm: Callable[[Tensor, Tensor, float], Tensor]
    add_rms_norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]
    rope_: Callable[[Tensor, Tensor, Tensor], Tensor]
    silu_and_mul: Callable[[Tensor], Tensor]
    kv_write: Callable[[Tensor, Tensor, Tensor], None]
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


TORCH = Kernels(
    name="torch",
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


def triton_kernels(device: str) -> Kernels:
    """The same in Triton: compiled for a GPU, interpreted on a `cpu`, slowly.

    Raises ConfigError where Triton is not installed, or was loaded to compile and should interpret.
    """
    if why := missing():
        raise ConfigError(f"kernels: {why}")
    if device == "cpu":
        interpret()
    else:
        quiet()
    from optimist.kernels import triton_operators

    return Kernels(
        name="triton",
        **{name: getattr(triton_operators, name) for name in Kernels._fields if name != "name"},
    )
