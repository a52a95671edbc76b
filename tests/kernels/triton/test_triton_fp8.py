"""A cache of eight bits: what is written to it, and attention over it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from paged_rows import Shape, on, paged

from optimist.kernels import kv_write
from optimist.kernels.kv_write import triton as triton_kv_write
from optimist.kernels.paged_attention import CARD
from optimist.kernels.paged_attention.triton import paged_attention, prepare

NARROW = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)
Write = Callable[..., None]


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize(
    "write", [kv_write.kv_write, triton_kv_write.kv_write], ids=["torch", "triton"]
)
def test_keys_and_values_are_scaled_and_saturate(
    write: Write, dtype: torch.dtype, device: str
) -> None:
    kv = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    kv[1] *= 10_000_000
    scales = torch.tensor([1.0, 0.5, 2.0, 0.01, 1.0, 7.0])
    slots = torch.tensor([5, 0, -1, 11])
    caches = [torch.zeros(6, 5, 4, 8).to(dtype) for _ in range(2)]
    write(*(part.to(device) for part in (kv, caches[0], slots)), scales.to(device))
    kv_write.CARD.reference(kv, caches[1], slots, scales)
    named = [cache[:, :-1].float() for cache in caches]
    assert torch.equal(*named)
    most = torch.finfo(dtype).max
    assert named[0].abs().max() == most
    assert torch.allclose(named[0][:, 1, 1], kv[0].float() / scales[:, None], rtol=0.13, atol=0.01)


@pytest.mark.parametrize("splits", [1, 3])
def test_attention_over_a_cache_of_eight_bits(splits: int, device: str) -> None:
    case = on(paged([1, 1, 6], [9, 70, 12], Shape(6, 2, 16, 4, torch.bfloat16)), device)
    scales = torch.tensor([0.5, 1.0, 2.0, 0.25], device=device)
    narrow = (case.cache.float() / scales[:, None, None, None]).clamp(-448, 448)
    cache = narrow.to(torch.float8_e4m3fn)
    plan = prepare(case.metadata, cache, dtype=torch.bfloat16, window=None, splits=splits)
    got = paged_attention(case.q, cache, plan, scale=0.3, scales=scales)
    want = CARD.reference(case.q, cache, case.metadata, scale=0.3, scales=scales)
    CARD.assert_near(got, want)
    exact = CARD.reference(case.q, case.cache, case.metadata, scale=0.3)
    assert 0.001 < (got - exact).abs().max() < 0.5
