"""Norm, gate, rotation and KV write in Triton against their specs, at ragged sizes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from optimist.kernels import add_rms_norm, kv_cache, kv_write, rms_norm, rope, silu_and_mul
from optimist.kernels.add_rms_norm import triton as triton_add_rms_norm
from optimist.kernels.kv_write import triton as triton_kv_write
from optimist.kernels.rms_norm import triton as triton_rms_norm
from optimist.kernels.rope import triton as triton_rope
from optimist.kernels.silu_and_mul import triton as triton_silu_and_mul

DTYPES = (torch.bfloat16, torch.float32, torch.float64)
TOKENS = (0, 1, 5)

EPS = 2.0**-17
"""exact in float32, as which a compiled kernel gets numbers"""


def random(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.randn(*shape, generator=generator).to(dtype).to(device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [1, 33, 576])
def test_rms_norm(tokens: int, width: int, dtype: torch.dtype, device: str) -> None:
    x, weight = random(tokens, width, dtype=dtype, device=device) * 30, random(width, device=device)
    got = triton_rms_norm.rms_norm(x, weight, EPS)
    rms_norm.CARD.assert_near(got, rms_norm.CARD.reference(x, weight, EPS))


def test_rms_norm_of_heads_in_a_wider_row(device: str) -> None:
    qkv, weight = random(5, 6, 16, device=device), random(16, device=device)
    heads = qkv[:, 1:4]
    got = triton_rms_norm.rms_norm(heads, weight, EPS)
    rms_norm.CARD.assert_near(got, rms_norm.CARD.reference(heads, weight, EPS))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [33, 576])
def test_add_rms_norm(tokens: int, width: int, dtype: torch.dtype, device: str) -> None:
    x = random(tokens, width, device=device).to(torch.promote_types(dtype, torch.float32))
    more, weight = random(tokens, width, dtype=dtype, device=device), random(width, device=device)
    total = x + more
    want = add_rms_norm.CARD.reference(x.clone(), more, weight, EPS)
    got = triton_add_rms_norm.add_rms_norm(x, more[:, :width], weight, EPS)
    assert torch.equal(x, total)
    add_rms_norm.CARD.assert_near(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [1, 33, 1536])
def test_silu_and_mul(tokens: int, width: int, dtype: torch.dtype, device: str) -> None:
    x = random(tokens, 2 * width, dtype=dtype, device=device)
    got = triton_silu_and_mul.silu_and_mul(x)
    silu_and_mul.CARD.assert_near(got, silu_and_mul.CARD.reference(x))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("dim", [2, 16, 80])
def test_rope_turns_heads_in_place(tokens: int, dim: int, dtype: torch.dtype, device: str) -> None:
    qkv = random(tokens, 5, dim, dtype=dtype, device=device)
    heads, others = qkv[:, :3], qkv[:, 3:].clone()
    turns = 10000.0 ** -torch.arange(dim // 2).double()
    cos, sin = rope.rotations(torch.arange(tokens) * 37, turns, 1.0, dtype)
    cos, sin = cos.to(device), sin.to(device)
    want = rope.CARD.reference(heads, cos, sin)
    assert triton_rope.rope_(heads, cos, sin) is heads
    rope.CARD.assert_near(heads, want)
    assert torch.equal(qkv[:, 3:], others)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("slots", [[], [5], [3, 0, 11, 4], [7, -1, 2, -1]], ids=str)
def test_kv_write(slots: list[int], dtype: torch.dtype, device: str) -> None:
    where = torch.tensor(slots, dtype=torch.int64, device=device)
    kv = random(len(slots), 9, 10, dtype=dtype, device=device)[:, 3:]
    shape = (6 + 1, 3 + kv_cache.SPARE_BLOCKS, 4, 10)
    caches = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(2)]
    triton_kv_write.kv_write(kv, caches[0][:6], where)
    kv_write.CARD.reference(kv, caches[1][:6], where)
    named = [cache[:, :-1] for cache in caches]
    kv_write.CARD.assert_near(named[0], named[1])


def test_a_last_dimension_with_gaps_is_refused(device: str) -> None:
    x = torch.zeros(3, 8, 2, device=device)[..., 0]
    with pytest.raises(ValueError, match="stride 1"):
        triton_rms_norm.rms_norm(x, torch.ones(8, device=device), EPS)
