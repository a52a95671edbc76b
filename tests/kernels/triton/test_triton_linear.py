"""Dense layers with weights of few bits: what is stored, and what Triton makes of it."""

from __future__ import annotations

import pytest
import torch

from optimist.kernels import linear_int4, linear_int8
from optimist.kernels.linear import widened
from optimist.kernels.linear_int4 import triton as triton_int4
from optimist.kernels.linear_int4.reference import weights
from optimist.kernels.linear_int8 import triton as triton_int8
from optimist.kernels.triton_common import recorded

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


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dtype", linear_int8.CARD.dtypes)
def test_weights_are_widened_part_by_part_where_tokens_are_many(
    dtype: torch.dtype, bias: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(widened, "AT_ONCE", 7 * 96)
    x = random(widened.MANY, 96).to(dtype).to(device)
    drawn = random(33, 96, seed=1) / 96**0.5
    offset = random(33, seed=2).to(dtype).to(device) if bias else None
    eight = linear_int8.Int8(*(part.to(device) for part in linear_int8.quantised(drawn)))
    four = linear_int4.Int4(*(part.to(device) for part in linear_int4.quantised(drawn)))
    with recorded() as launches:
        got = triton_int8.linear_int8(x, eight, offset), triton_int4.linear_int4(x, four, offset)
    assert launches == []
    linear_int8.CARD.assert_near(got[0], linear_int8.CARD.reference(x, eight, offset))
    linear_int4.CARD.assert_near(got[1], linear_int4.CARD.reference(x, four, offset))
