"""A cache of eight bits: what is written to it, with scales, and attention over it."""

from __future__ import annotations

import pytest
import torch
from paged_rows import Shape, on, paged

from optimist.kernels import gpus, kv_cache, kv_write
from optimist.kernels.kv_write.triton import kv_write as triton_kv_write
from optimist.kernels.paged_attention import CARD
from optimist.kernels.paged_attention.triton import paged_attention, prepare
from optimist.kernels.triton_narrow import fp8_of
from optimist.messages.errors import ConfigError

EVERY = (torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2)

NARROW = (fp8_of("cuda:0", gpus.found()),) if torch.cuda.is_available() else EVERY
"""those that the device converts, the interpreter all of them"""


def empty(groups: int, blocks: int, size: int, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """A layer's cache, of zeros."""
    cache = kv_cache.allocate(1, groups, blocks, size, dim, dtype)[0]
    cache.view(torch.uint8).zero_()
    return cache


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_each_head_of_a_token_has_a_scale(dtype: torch.dtype, device: str) -> None:
    kv = torch.randn(4, 7, 8, generator=torch.Generator().manual_seed(0)).bfloat16()[:, 1:]
    kv[1] *= 10_000_000
    kv[3] *= 1e-6
    kv[0, 2] = 0
    slots = torch.tensor([5, 0, -1, 11])
    caches = [empty(3, 3, 4, 8, dtype) for _ in range(2)]
    there = caches[0].to(device)
    triton_kv_write(kv.to(device), there, slots.to(device))
    kv_write.CARD.reference(kv, caches[1], slots)
    ours, spec = (
        [part[:, :-1].float() for part in kv_cache.scaled(cache)]
        for cache in (there.cpu(), caches[1])
    )
    assert torch.equal(ours[0], spec[0]) and torch.equal(ours[1], spec[1])
    assert ours[0].abs().max() == torch.finfo(dtype).max
    held = ours[0] * ours[1][..., None]
    for token, (block, offset) in {0: (1, 1), 1: (0, 0), 3: (2, 3)}.items():
        want = kv[token].float()
        most = want.abs().amax(-1, keepdim=True)
        assert ((held[:, block, offset] - want).abs() <= 0.13 * want.abs() + 0.01 * most).all()
    written = torch.zeros(3, 4, dtype=torch.bool)
    written.view(-1)[[5, 0, 11]] = True
    assert ours[1][:, :3][:, ~written].eq(0).all()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_what_is_no_number_stays_none(dtype: torch.dtype, device: str) -> None:
    kv = torch.ones(1, 2, 8, dtype=torch.bfloat16)
    kv[0, 1, 3] = torch.nan
    cache = empty(1, 1, 4, 8, dtype).to(device)
    triton_kv_write(kv.to(device), cache, torch.tensor([0], device=device))
    held, scales = (part[:, 0, 0].float().cpu() for part in kv_cache.scaled(cache))
    values = held * scales[:, None]
    assert values.isfinite().all(-1).tolist() == [True, False]
    assert values[1, 3].isnan()


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize("magnitude", [1.0, 1e5], ids=["small", "large"])
@pytest.mark.parametrize("dtype", NARROW[:2], ids=str)
def test_attention_over_a_cache_of_eight_bits(
    dtype: torch.dtype, magnitude: float, splits: int, device: str
) -> None:
    case = on(paged([1, 1, 6], [9, 70, 12], Shape(6, 2, 16, 4, torch.bfloat16)), device)
    plain = case.cache * magnitude
    cache = empty(2, case.cache.shape[1] - kv_cache.SPARE_BLOCKS, 4, 16, dtype).to(device)
    every = torch.arange(plain.shape[1] * 4, device=device)
    kv_write.CARD.reference(plain.flatten(1, 2).transpose(0, 1), cache, every)
    plan = prepare(case.metadata, cache, dtype=torch.bfloat16, window=None, splits=splits)
    scale = 0.3 / magnitude
    got = paged_attention(case.q, cache, plan, scale=scale) / magnitude
    want = CARD.reference(case.q, cache, case.metadata, scale=scale) / magnitude
    CARD.assert_near(got, want)
    exact = CARD.reference(case.q, case.cache, case.metadata, scale=0.3)
    assert 0.001 < (got - exact).abs().max() < 0.3


def test_scales_lie_behind_the_numbers_of_their_block() -> None:
    cache = kv_cache.allocate(2, 1, 3, 4, 8, torch.float8_e5m2)
    assert cache.shape == (2, 2, 5, 4, 12)
    assert kv_cache.block_bytes(2, 1, 4, 8, cache.dtype) == cache[:, :, 0].numel() == 2 * 2 * 4 * 12
    numbers, scales = kv_cache.scaled(cache[1])
    scales[:] = 7.0
    kv_cache.clear(cache, (1,))
    assert scales[:, 1].eq(0).all() and scales[:, 0].eq(7).all()
    assert numbers.shape == (2, 5, 4, 8)
    assert numbers[:, 1].float().eq(0).all()


def test_blocks_of_odd_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"kv_dtype: .* block_size 1 and heads of 6"):
        kv_cache.allocate(1, 1, 1, 1, 6, torch.float8_e4m3fn)
