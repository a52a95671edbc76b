"""Keys and values land in their KV slots and nowhere else."""

from __future__ import annotations

import pytest
import torch

from optimist.kernels import kv_cache
from optimist.kernels.kv_write import CARD, kv_write


@pytest.mark.parametrize("dtype", CARD.dtypes)
@pytest.mark.parametrize("slots", [[], [5], [3, 0, 11, 4], [7, -1, 2, -1]], ids=str)
def test_kv_write(slots: list[int], dtype: torch.dtype) -> None:
    where = torch.tensor(slots, dtype=torch.int64)
    wide = torch.randn(len(slots), 9, 8).to(dtype)
    kv = wide[:, 3:]
    caches = [torch.zeros(6, 3 + kv_cache.SPARE_BLOCKS, 4, 8, dtype=dtype) for _ in range(2)]
    kv_write(kv, caches[0], where)
    CARD.reference(kv, caches[1], where)
    named = [cache[:, :-1] for cache in caches]
    CARD.assert_near(named[0], named[1])
    expected = torch.zeros_like(named[0])
    for token, slot in enumerate(slots):
        if slot >= 0:
            expected[:, slot // 4, slot % 4] = kv[token]
    assert torch.equal(named[0], expected)


def test_padding_leaves_the_null_block_as_it_is() -> None:
    cache = torch.zeros(2, 3 + kv_cache.SPARE_BLOCKS, 4, 8)
    kv_write(torch.full((2, 2, 8), torch.nan), cache, torch.tensor([-1, -1]))
    assert cache[:, : kv_cache.null_block(cache) + 1].eq(0).all()


def test_a_fresh_cache_has_a_null_block_and_cleared_blocks_are_zero() -> None:
    cache = kv_cache.allocate(2, 1, 5, 4, 8, torch.bfloat16)
    assert cache.shape == (2, 2, 7, 4, 8)
    assert cache[:, :, kv_cache.null_block(cache)].eq(0).all()
    assert cache[:, :, 0].isnan().all()
    kv_cache.clear(cache, (0, 3))
    kv_cache.clear_at_once(cache, (1, 4))
    assert cache[:, :, [1, 4]].eq(0).all() and cache[:, :, 2].isnan().all()
    assert cache[:, :, [0, 3]].eq(0).all()
    assert kv_cache.block_bytes(2, 1, 4, 8, torch.bfloat16) == cache[:, :, 0].numel() * 2
