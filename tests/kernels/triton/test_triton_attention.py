"""Paged attention in Triton against its spec: every shape of rows, loose bounds, split context."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from paged_rows import Paged, Shape, on, optimistic, paged

from optimist.kernels.metadata import ExactMetadata, Metadata
from optimist.kernels.paged_attention import CARD
from optimist.kernels.paged_attention import triton as triton_attention
from optimist.kernels.paged_attention.triton import paged_attention, prepare
from optimist.kernels.sync_check import checked_step

SCALE = 0.25
"""exact in float32, as which a compiled kernel gets numbers"""

ROWS = {
    "one decode": ([1], [1]),
    "decodes": ([1, 1, 1], [5, 4, 17]),
    "a whole prompt": ([9], [9]),
    "prompts": ([3, 1, 8, 2], [3, 1, 8, 2]),
    "decodes and chunks": ([1, 1, 1, 4, 6], [8, 3, 1, 4, 22]),
    "a long chunk": ([70], [91]),
    "long context": ([1, 2], [150, 131]),
    "padding rows": ([1, 3, 0, 0], [6, 7, 0, 0]),
    "only padding": ([0, 0], [0, 0]),
    "no rows": ([], []),
}


def run(
    case: Paged,
    metadata: Metadata,
    *,
    window: int | None = None,
    softcap: float | None = None,
    splits: int | None = None,
) -> torch.Tensor:
    plan = prepare(metadata, case.cache, dtype=case.q.dtype, window=window, splits=splits)
    got = paged_attention(case.q, case.cache, plan, scale=SCALE, softcap=softcap)
    want = CARD.reference(
        case.q, case.cache, case.metadata, scale=SCALE, window=window, softcap=softcap
    )
    CARD.assert_near(got, want)
    return got


@pytest.mark.parametrize("window", [None, 1, 6], ids=["full", "window 1", "window 6"])
@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_rows_equal_the_spec(
    rows: tuple[list[int], list[int]], window: int | None, device: str
) -> None:
    case = on(paged(*rows), device)
    run(case, case.metadata, window=window)


@pytest.mark.parametrize("dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("size", [16, 32, 64])
def test_head_sizes_and_block_sizes(dim: int, size: int, device: str) -> None:
    case = on(paged([1, 1, 5], [9, 70, 12], Shape(6, 2, dim, size, torch.bfloat16)), device)
    run(case, case.metadata)


@pytest.mark.parametrize("dtype", CARD.dtypes)
@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (6, 2), (20, 1)], ids=["mha", "gqa", "mqa"])
def test_dtypes_and_heads(dtype: torch.dtype, heads: int, groups: int, device: str) -> None:
    case = on(paged([1, 1, 7], [9, 20, 12], Shape(heads, groups, 8, 5, dtype)), device)
    run(case, case.metadata)


@pytest.mark.parametrize("splits", [2, 3, 7])
@pytest.mark.parametrize("window", [None, 40])
def test_context_may_be_split(splits: int, window: int | None, device: str) -> None:
    case = on(paged([1, 1, 1, 3], [200, 3, 70, 5]), device)
    run(case, case.metadata, window=window, splits=splits, softcap=2.0)


def drafted(case: Paged, decodes: int) -> ExactMetadata:
    """The same rows, of which so many decode, though some have queries of several tokens."""
    prefilling = case.metadata.is_prefilling.copy()
    prefilling[:decodes] = False
    return replace(case.metadata, num_decodes=decodes, is_prefilling=prefilling)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize("slack", [0, 1, 5, 400])
def test_a_loose_bound_changes_nothing(slack: int, splits: int, device: str) -> None:
    case = on(paged([1, 4, 2, 6], [8, 33, 31, 9]), device)
    exact = drafted(case, 3)
    tight = run(case, exact, splits=splits)
    assert torch.equal(run(case, optimistic(exact, slack), splits=splits), tight)


def test_scores_are_capped(device: str) -> None:
    case = on(paged([1, 4], [9, 12]), device)
    run(case, case.metadata, softcap=0.5)
    run(case, case.metadata, window=3, softcap=2.0)


def test_padding_tokens_get_zeros(device: str) -> None:
    case = on(paged([1, 3], [6, 7], padding=3), device)
    assert run(case, case.metadata)[4:].eq(0).all()


def test_queries_may_be_part_of_a_wider_row(device: str) -> None:
    case = on(paged([1, 3, 1], [6, 7, 2]), device)
    wide = torch.cat((case.q, case.q), 1)[:, : case.q.shape[1]]
    run(case._replace(q=wide), case.metadata)


def test_context_is_split_where_programs_are_few() -> None:
    case = paged([1, 1, 3], [200, 3, 5])
    plan = prepare(case.metadata, case.cache, dtype=case.q.dtype, window=None)
    decodes, prefills = plan.parts
    assert plan.splits(decodes, 1) == 1
    long = prepare(
        replace(optimistic(case.metadata, 0), max_seq_len=4096),
        *(case.cache,),
        dtype=case.q.dtype,
        window=None,
        splits=5,
    )
    assert (long.splits(decodes, 1), long.splits(prefills, 1)) == (5, 1)


def test_nothing_is_read_on_the_host(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIST_SYNC_CHECK", "error")
    case = on(paged([1, 1, 4], [8, 100, 4]), device)
    for metadata in (case.metadata, optimistic(case.metadata, 3)):
        with checked_step():
            plan = prepare(metadata, case.cache, dtype=case.q.dtype, window=5, splits=2)
            paged_attention(case.q, case.cache, plan, scale=SCALE)


@pytest.mark.parametrize("slack", [None, 3], ids=["exact", "bound"])
@pytest.mark.parametrize(
    ("lengths", "parts"),
    [([4096] * 64, 1), ([4096] + [64] * 63, 16), ([4096, 64], 16), ([64] * 64, 1)],
    ids=["even", "one long among many", "one long and one short", "all short"],
)
def test_a_long_row_among_short_ones_is_split_as_if_it_were_alone(
    lengths: list[int], parts: int, slack: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(triton_attention, "_processors", lambda device: 132)
    case = paged([1] * len(lengths), lengths)
    metadata = case.metadata if slack is None else optimistic(case.metadata, slack)
    plan = prepare(metadata, case.cache, dtype=case.q.dtype, window=None)
    (part,) = plan.parts
    assert plan.splits(part, 8 * part.rows) == parts
