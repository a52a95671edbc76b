"""Dense layers with weights of few bits: what is stored, and what Triton makes of it."""

from __future__ import annotations

import pytest
import torch

from optimist.kernels import linear_int4, linear_int8
from optimist.kernels.linear_int4 import triton as triton_int4
from optimist.kernels.linear_int4.reference import weights
from optimist.kernels.linear_int8 import triton as triton_int8

SIZES = [(0, 64, 8), (1, 32, 1), (3, 96, 65), (17, 288, 40), (70, 64, 33)]


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dtype", linear_int8.CARD.dtypes)
@pytest.mark.parametrize(("tokens", "inputs", "outputs"), SIZES)
def test_eight_bits(
    tokens: int, inputs: int, outputs: int, dtype: torch.dtype, bias: bool, device: str
) -> None:
    x = random(tokens, 2 * inputs).to(dtype).to(device)[:, inputs:]
    packed = linear_int8.quantised(random(outputs, inputs, seed=1) / inputs**0.5)
    weight = linear_int8.Int8(*(part.to(device) for part in packed))
    offset = random(outputs, seed=2).to(dtype).to(device) if bias else None
    want = linear_int8.CARD.reference(x, weight, offset)
    linear_int8.CARD.assert_near(triton_int8.linear_int8(x, weight, offset), want)


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dtype", linear_int4.CARD.dtypes)
@pytest.mark.parametrize(("tokens", "inputs", "outputs"), SIZES)
def test_four_bits(
    tokens: int, inputs: int, outputs: int, dtype: torch.dtype, bias: bool, device: str
) -> None:
    x = random(tokens, inputs).to(dtype).to(device)
    packed = linear_int4.quantised(random(outputs, inputs, seed=1) / inputs**0.5)
    weight = linear_int4.Int4(*(part.to(device) for part in packed))
    offset = random(outputs, seed=2).to(dtype).to(device) if bias else None
    want = linear_int4.CARD.reference(x, weight, offset)
    linear_int4.CARD.assert_near(triton_int4.linear_int4(x, weight, offset), want)


def test_eight_bits_are_within_half_a_step() -> None:
    weight = random(7, 40)
    weight[3] = 0
    packed = linear_int8.quantised(weight)
    error = (packed.values * packed.scale[:, None] - weight).abs()
    assert (error <= packed.scale[:, None] / 2 * 1.001).all()
    assert packed.values.abs().amax(1).tolist() == [127, 127, 127, 0, 127, 127, 127]


def test_four_bits_are_within_a_step_of_their_group() -> None:
    weight = random(7, 96) + 3
    weight[2, :32] = 1.5
    packed = linear_int4.quantised(weight)
    assert packed.values.shape == (7, 48)
    step = packed.scale.float().repeat_interleave(32, 1)
    # Half a step, and what bfloat16 takes from scale and offset.
    assert ((weights(packed) - weight).abs() <= step / 2 + 0.03 * weight.abs()).all()
    assert (weights(packed) - weight)[2, :32].abs().max() < 0.01


def test_four_bits_need_whole_groups() -> None:
    with pytest.raises(ValueError, match="groups of 32, got 40"):
        linear_int4.quantised(random(2, 40))
