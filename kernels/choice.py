"""Who computes: every operator of a step, in one version."""

from __future__ import annotations

from optimist.kernels import (
    add_rms_norm,
    advance,
    kv_write,
    linear,
    ngram,
    paged_attention,
    place,
    rms_norm,
    rope,
    sampling,
    silu_and_mul,
    token_to_req_indices,
    verify,
)
from optimist.kernels.contract import Kernels
from optimist.kernels.paged_attention import sdpa
from optimist.kernels.triton_interpreter import interpret, missing, quiet
from optimist.messages.errors import ConfigError

TORCH = Kernels(
    name="torch",
    pack=linear.pack,
    pack_head=linear.pack,
    rms_norm=rms_norm.rms_norm,
    add_rms_norm=add_rms_norm.add_rms_norm,
    rope_=rope.rope_,
    silu_and_mul=silu_and_mul.silu_and_mul,
    kv_write=kv_write.kv_write,
    prepare=paged_attention.prepare,
    paged_attention=paged_attention.paged_attention,
    token_to_req_indices=token_to_req_indices.token_to_req_indices,
    place=place.place,
    advance=advance.advance,
    greedy=sampling.greedy,
    sample=sampling.sample,
    distribution=sampling.distribution,
    compare=verify.compare,
    reject=verify.reject,
    block=verify.block,
    ngram=ngram.ngram,
)

SDPA = TORCH._replace(paged_attention=sdpa.paged_attention)
"""TORCH for a GPU"""


def torch_kernels(device: str) -> Kernels:
    """The operators in torch, for a device such as `cpu` or `cuda:0`."""
    return TORCH if device == "cpu" else SDPA


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
