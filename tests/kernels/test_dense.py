"""Norm, gate, rotation and linears against their specs, at ragged sizes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from optimist.kernels import linear, rms_norm, rope, silu_and_mul
from optimist.kernels.linear import cpu

DTYPES = (torch.bfloat16, torch.float32, torch.float64)
TOKENS = (0, 1, 7, 65)


def random(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + math.prod(shape))
    return torch.randn(*shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [1, 33, 576])
def test_rms_norm(tokens: int, width: int, dtype: torch.dtype) -> None:
    x, weight = random(tokens, width, dtype=dtype) * 30, random(width, dtype=dtype)
    got = rms_norm.rms_norm(x, weight, 1e-5)
    rms_norm.CARD.assert_near(got, rms_norm.CARD.reference(x, weight, 1e-5))


def test_rms_norm_of_heads_in_a_wider_row() -> None:
    qkv, weight = random(5, 6, 16), random(16)
    heads = qkv[:, 1:4]
    got = rms_norm.rms_norm(heads, weight, 1e-5)
    rms_norm.CARD.assert_near(got, rms_norm.CARD.reference(heads, weight, 1e-5))


def test_rms_norm_of_zeros_is_zero() -> None:
    assert rms_norm.rms_norm(torch.zeros(2, 8), torch.ones(8), 1e-6).eq(0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("width", [1, 33, 1536])
def test_silu_and_mul(tokens: int, width: int, dtype: torch.dtype) -> None:
    x = random(tokens, 2 * width, dtype=dtype)
    # Rounded once more in between than the spec, where torch has two operators.
    got, want = silu_and_mul.silu_and_mul(x), silu_and_mul.CARD.reference(x)
    silu_and_mul.CARD.assert_near(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("dim", [2, 16, 64])
def test_rope_turns_heads_in_place(tokens: int, dim: int, dtype: torch.dtype) -> None:
    qkv = random(tokens, 5, dim, dtype=dtype)
    heads, others = qkv[:, :3], qkv[:, 3:].clone()
    positions = torch.arange(tokens) * 37
    cos, sin = rope.rotations(positions, 10000.0 ** -torch.arange(dim // 2).double(), 1.0, dtype)
    want = rope.CARD.reference(heads, cos, sin)
    assert rope.rope_(heads, cos, sin) is heads
    rope.CARD.assert_near(heads, want)
    assert torch.equal(qkv[:, 3:], others)


def test_a_rotation_is_one_of_each_pair_of_dimensions() -> None:
    x, angle = random(1, 1, 4, dtype=torch.float64), 3 * torch.tensor([1.0, 0.1]).double()
    cos, sin = rope.rotations(torch.tensor([3]), angle / 3, 2.0, torch.float64)
    turned = torch.polar(torch.full((2,), 2.0).double(), angle) * torch.complex(
        x[0, 0, :2], x[0, 0, 2:]
    )
    want = torch.cat((turned.real, turned.imag))
    torch.testing.assert_close(rope.CARD.reference(x, cos, sin)[0, 0], want)


def test_rotations_are_right_at_far_positions() -> None:
    cos, _ = rope.rotations(
        torch.tensor([1_000_003]), torch.tensor([0.7], dtype=torch.float64), 1.0, torch.float32
    )
    assert abs(float(cos[0, 0, 0]) - math.cos(1_000_003 * 0.7)) < 1e-6


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("tokens", "inputs", "outputs"), [(0, 8, 4), (1, 1, 1), (3, 33, 65), (70, 576, 96)]
)
def test_linear(tokens: int, inputs: int, outputs: int, dtype: torch.dtype, bias: bool) -> None:
    x = random(tokens, inputs, dtype=dtype)
    weight = random(outputs, inputs, dtype=dtype, seed=1) / math.sqrt(inputs)
    offset = random(outputs, dtype=dtype, seed=2) if bias else None
    want = linear.CARD.reference(x, weight, offset)
    for layer in (linear.pack(weight, offset), cpu.plain(weight, offset)):
        linear.CARD.assert_near(layer(x), want)


def test_a_packed_linear_keeps_no_hold_of_the_weight() -> None:
    x, weight = random(2, 16), random(4, 16)
    layer, want = linear.pack(weight), linear.CARD.reference(x, weight)
    weight.fill_(torch.nan)
    assert cpu.packable(torch.float32)
    linear.CARD.assert_near(layer(x), want)


def test_without_packing_operators_the_plain_linear_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cpu, "_NEEDED", ("_an_operator_that_torch_has_dropped",))
    x, weight = random(2, 16), random(4, 16)
    assert not cpu.packable(torch.float32)
    linear.CARD.assert_near(linear.pack(weight)(x), linear.CARD.reference(x, weight))
