"""Paged attention against its spec, and the spec against plain dense attention."""

from __future__ import annotations

import pytest
import torch
from paged_rows import Paged, Shape, optimistic, paged

from optimist.kernels import kv_cache
from optimist.kernels.metadata import Metadata
from optimist.kernels.paged_attention import CARD, paged_attention, prepare, sdpa
from optimist.kernels.sync_check import checked_step

ROWS = {
    "one decode": ([1], [1]),
    "decodes": ([1, 1, 1], [5, 4, 17]),
    "a whole prompt": ([9], [9]),
    "prompts": ([3, 1, 8, 2], [3, 1, 8, 2]),
    "chunks": ([3, 5], [11, 5]),
    "decodes and chunks": ([1, 1, 4, 1, 6], [8, 3, 4, 1, 22]),
    "drafts": ([3, 1, 4, 3, 3, 4, 1, 2], [30, 9, 4, 3, 18, 25, 1, 40]),
    "a long chunk": ([150], [171]),
    "one long, many short": ([1] * 7, [300, 5, 6, 7, 8, 9, 4]),
    "padding rows": ([1, 3, 0, 0], [6, 7, 0, 0]),
    "only padding": ([0, 0], [0, 0]),
    "no rows": ([], []),
}


VERSIONS = (paged_attention, sdpa.paged_attention)


def run(case: Paged, metadata: Metadata, *, window: int | None, softcap: float | None) -> None:
    groups = prepare(metadata, case.cache, dtype=case.q.dtype, window=window)
    want = CARD.reference(
        case.q, case.cache, case.metadata, scale=0.3, window=window, softcap=softcap
    )
    for version in VERSIONS:
        got = version(case.q, case.cache, groups, scale=0.3, softcap=softcap)
        CARD.assert_near(got, want)


@pytest.mark.parametrize("window", [None, 1, 6], ids=["full", "window 1", "window 6"])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows_equal_the_spec(rows: tuple[list[int], list[int]], window: int | None) -> None:
    case = paged(*rows)
    run(case, case.metadata, window=window, softcap=None)


@pytest.mark.parametrize("dtype", CARD.dtypes)
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2), (8, 1)], ids=["mha", "gqa", "mqa"])
@pytest.mark.parametrize("size", [1, 5, 16])
def test_dtypes_heads_and_block_sizes(
    dtype: torch.dtype, heads: int, groups: int, size: int
) -> None:
    case = paged([1, 1, 7], [9, 20, 12], Shape(heads, groups, 8, size, dtype))
    run(case, case.metadata, window=None, softcap=None)


@pytest.mark.parametrize("slack", [0, 1, 5, 40])
@pytest.mark.parametrize("window", [None, 5])
def test_a_loose_bound_changes_nothing(slack: int, window: int | None) -> None:
    case = paged([1, 1, 1, 6], [8, 3, 31, 9])
    run(case, optimistic(case.metadata, slack), window=window, softcap=None)


def test_scores_are_capped() -> None:
    case = paged([1, 4], [9, 12])
    run(case, case.metadata, window=None, softcap=0.5)
    run(case, case.metadata, window=3, softcap=2.0)


def test_padding_tokens_get_zeros() -> None:
    case = paged([1, 3], [6, 7], padding=3)
    run(case, case.metadata, window=None, softcap=None)
    groups = prepare(case.metadata, case.cache, dtype=case.q.dtype, window=None)
    assert paged_attention(case.q, case.cache, groups, scale=0.3)[4:].eq(0).all()


def test_queries_may_be_part_of_a_wider_row() -> None:
    case = paged([1, 3, 1], [6, 7, 2])
    wide = torch.cat((case.q, case.q), 1)[:, : case.q.shape[1]]
    run(case._replace(q=wide), case.metadata, window=None, softcap=None)


def test_long_rows_do_not_make_short_ones_as_long() -> None:
    case = paged([1] * 40, [2000, *[8] * 39], Shape(dim=64, size=16))
    groups = prepare(case.metadata, case.cache, dtype=case.q.dtype, window=None)
    assert sum(group.blocks.shape[0] for group in groups) < 2 * (125 + 39)
    run(case, case.metadata, window=None, softcap=None)


def test_rows_with_equally_many_drafts_share_their_products() -> None:
    case = paged([4, 2, 4, 4, 2, 1], [20, 8, 12, 17, 13, 9])
    groups = prepare(case.metadata, case.cache, dtype=case.q.dtype, window=None)
    assert sorted((group.rows, group.tiles[0].queries) for group in groups) == [
        (1, 1),
        (2, 2),
        (3, 4),
    ]


def test_a_window_gathers_only_blocks_near_the_end() -> None:
    case = paged([1, 1], [200, 190])
    (group,) = prepare(case.metadata, case.cache, dtype=case.q.dtype, window=8)
    assert group.blocks.shape[0] == 2 * 3


def test_nothing_is_read_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    case = paged([1, 1, 4, 1, 6], [8, 300, 4, 1, 22])
    for metadata in (case.metadata, optimistic(case.metadata, 3)):
        for window in (None, 5):
            with checked_step():
                groups = prepare(metadata, case.cache, dtype=case.q.dtype, window=window)
                for version in VERSIONS:
                    version(case.q, case.cache, groups, scale=0.3)


@pytest.mark.parametrize("window", [None, 4])
def test_the_spec_is_dense_attention(window: int | None) -> None:
    shape = Shape(heads=6, groups=2, dtype=torch.float64)
    queries, lengths = [1, 5], [9, 13]
    case = paged(queries, lengths, shape)
    got = CARD.reference(case.q, case.cache, case.metadata, scale=0.3, window=window)
    first = 0
    for row, (query, length) in enumerate(zip(queries, lengths, strict=True)):
        blocks = case.metadata.block_table[row].long()
        kv = case.cache[:, blocks].flatten(1, 2)[:, :length].repeat_interleave(3, 0)
        at = torch.arange(length - query, length)[:, None]
        seen = torch.arange(length) <= at
        if window is not None:
            seen &= torch.arange(length) > at - window
        want = torch.nn.functional.scaled_dot_product_attention(
            case.q[first : first + query].transpose(0, 1), kv[:6], kv[6:], seen, scale=0.3
        )
        torch.testing.assert_close(got[first : first + query], want.transpose(0, 1))
        first += query


def test_null_block_is_not_a_block_of_any_row() -> None:
    case = paged([1, 3], [6, 7])
    null = kv_cache.null_block(case.cache)
    assert case.cache.shape[1] == null + kv_cache.SPARE_BLOCKS
    assert not case.metadata.block_table[0, :2].eq(null).any()
