"""Operators on numbers of few bits: weights of eight and four, and a KV cache of eight."""

from __future__ import annotations

import torch
from torch import Tensor

from optimist.kernels import gpus
from optimist.kernels.contract import Kernels
from optimist.kernels.linear import Linear
from optimist.kernels.linear_int4 import quantised as four_bits
from optimist.kernels.linear_int4.triton import linear_int4
from optimist.kernels.linear_int8 import quantised as eight_bits
from optimist.kernels.linear_int8.triton import linear_int8
from optimist.messages.errors import ConfigError

ADA = (8, 9)
"""capability from which an NVIDIA GPU converts e4m3"""


def quantised(kernels: Kernels, quant: str) -> Kernels:
    """The same, with linears of `int8` or `int4` weights. The head has eight bits: it decides between tokens."""
    return kernels._replace(pack=_int4 if quant == "int4" else _int8, pack_head=_int8)


def _int8(weight: Tensor, bias: Tensor | None) -> Linear:
    held = eight_bits(weight)
    return lambda x: linear_int8(x, held, bias)


def _int4(weight: Tensor, bias: Tensor | None) -> Linear:
    try:
        held = four_bits(weight)
    except ValueError as error:
        raise ConfigError(f"worker.quant: int4 does not fit this model: {error}") from None
    return lambda x: linear_int4(x, held, bias)


def cached_narrowly(kernels: Kernels, device: str) -> Kernels:
    """The same, with a KV cache of eight bits: a scale for each head of each token, see kv_cache."""
    return kernels._replace(kv_dtype=fp8_of(device, gpus.found()))


def fp8_of(device: str, seen: gpus.Gpus) -> torch.dtype:
    """The numbers of eight bits that a device converts by itself."""
    if device == "cpu":
        return torch.float8_e4m3fn
    at = int(device.partition(":")[2] or 0)
    if seen.amd:
        return torch.float8_e4m3fnuz if seen.amd[at] == gpus.AMD else torch.float8_e4m3fn
    return torch.float8_e4m3fn if seen.capabilities[at] >= ADA else torch.float8_e5m2
