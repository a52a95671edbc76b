"""Single operators of the native library, in every instruction set, against their specs."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from optimist.kernels.metadata import ExactMetadata
from optimist.kernels.native import reference
from optimist.kernels.native.cards import CARDS
from optimist.kernels.native.library import here
from optimist.kernels.native.operators import (
    attention,
    rms_norm,
)
from optimist.kernels.native.quantised import (
    eight_bit_keys,
    eight_bit_values,
)
from optimist.kernels.native.shapes import Floats, Format
from optimist.kernels.paged_attention.reference import paged_attention
from optimist.kernels.rope.reference import rope, rotations
from optimist.messages.lengths import ExactSeqLens

SETS = pytest.mark.parametrize("isa", here())
CACHES = pytest.mark.parametrize("kept", (Format.BF16, Format.INT8))
BY_NAME = {card.name: card for card in CARDS}


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@SETS
@pytest.mark.parametrize("size", [64, 200, 576])
def test_rms_norm(isa: str, size: int) -> None:
    x, weight = normal(9, 5, size) * 7, normal(10, size)
    got = rms_norm(x, weight, 1e-5, isa=isa)
    BY_NAME["rms_norm"].assert_near(got, reference.rms_norm(x, weight, 1e-5))


def text(tokens: int, heads: int, kv_heads: int, dim: int) -> tuple[Floats, Floats]:
    """Projections and rotations of a text."""
    qkv = reference.nearest_bf16(normal(11, tokens, heads + 2 * kv_heads, dim))
    turns = torch.from_numpy(10000.0 ** (-np.arange(dim // 2) / (dim // 2)))
    cos, sin = rotations(torch.arange(tokens), turns, 1.0, torch.float32)
    both = torch.cat((cos[:, 0, : dim // 2], sin[:, 0, dim // 2 :]), -1)
    return qkv, both.numpy()


def exact_attention(
    qkv: Floats,
    heads: int,
    block_size: int,
    table: list[int],
    queries: int,
    window: int,
    kept: Format,
) -> torch.Tensor:
    """The spec on queries, keys and values that are rotated and rounded as the cache holds them."""
    tokens, columns, dim = qkv.shape
    groups = (columns - heads) // 2
    turns = torch.from_numpy(10000.0 ** (-np.arange(dim // 2) / (dim // 2)))
    cos, sin = rotations(torch.arange(tokens), turns, 1.0, torch.float32)
    given = torch.from_numpy(qkv)
    turned = rope(given[:, : heads + groups], cos, sin)
    rows = torch.cat((turned, given[:, heads + groups :]), 1)
    if kept is Format.BF16:
        rows = rows.bfloat16().double()
    else:
        q, k, v = np.split(rows.numpy(), (heads, heads + groups), 1)
        rows = torch.from_numpy(np.concatenate((q, eight_bit_keys(k), eight_bit_values(v)), 1))
    cache = torch.zeros(2 * groups, max(table) + 3, block_size, dim, dtype=torch.float64)
    for token in range(tokens):
        block, within = table[token // block_size], token % block_size
        cache[:, block, within] = rows[token, heads:]
    metadata = ExactMetadata(
        query_start_loc=torch.tensor([0, queries], dtype=torch.int32),
        seq_lens=torch.tensor([tokens], dtype=torch.int32),
        block_table=torch.tensor([table], dtype=torch.int32),
        slot_mapping=torch.zeros(queries, dtype=torch.int64),
        query_offsets=np.array([0, queries], np.int32),
        max_query_len=queries,
        max_seq_len=tokens,
        num_decodes=0,
        is_prefilling=np.array([True]),
        host_lens=ExactSeqLens.of([tokens]),
    )
    return paged_attention(
        rows[-queries:, :heads], cache, metadata, scale=dim**-0.5, window=window or None
    )


CASES = {
    "one token": (1, 1, 6, 2, 64, 0),
    "one query": (300, 1, 6, 2, 64, 0),
    "a chunk to the end": (128, 1, 6, 2, 64, 0),
    "drafts": (261, 5, 6, 2, 64, 0),
    "a prompt": (150, 150, 3, 1, 64, 0),
    "many heads a group": (140, 9, 13, 1, 64, 0),
    "a head each": (140, 3, 4, 4, 96, 0),
    "wide heads": (140, 40, 2, 1, 256, 0),
    "narrow heads": (140, 40, 2, 1, 8, 0),
    "window": (300, 40, 6, 2, 64, 131),
    "narrow window": (300, 200, 6, 2, 64, 17),
    "window of one": (150, 20, 6, 2, 64, 1),
}


@SETS
@CACHES
@pytest.mark.parametrize("case", CASES)
def test_attention(isa: str, case: str, kept: Format) -> None:
    tokens, queries, heads, groups, dim, window = CASES[case]
    block_size = 32
    table = [int(b) for b in np.random.default_rng(0).permutation(-(-tokens // block_size) + 2)]
    table = table[: -(-tokens // block_size)]
    qkv, turns = text(tokens, heads, groups, dim)
    want = exact_attention(qkv, heads, block_size, table, queries, window, kept).float()
    whole, merged = (
        attention(
            *(qkv, turns, np.array(table, np.int32)),
            heads=heads,
            block_size=block_size,
            queries=queries,
            window=window,
            kept=kept,
            pieces=pieces,
            isa=isa,
        )
        for pieces in (False, True)
    )
    # Weights are rounded to bfloat16 before they meet the values, or to 16 bits like the queries.
    BY_NAME["attention"].assert_near(whole, want.numpy(), kept)
    assert np.array_equal(merged, whole)


@SETS
@CACHES
def test_a_query_does_not_depend_on_those_beside_it(isa: str, kept: Format) -> None:
    qkv, turns = text(300, 6, 2, 64)
    table = np.arange(19, dtype=np.int32)

    def last(tokens: int, queries: int) -> Floats:
        part = np.ascontiguousarray(qkv[:tokens]), np.ascontiguousarray(turns[:tokens])
        return attention(*part, table, heads=6, block_size=16, queries=queries, kept=kept, isa=isa)

    together = last(300, 300)
    for token in (0, 1, 15, 16, 127, 128, 129, 255, 256, 299):
        assert np.array_equal(last(token + 1, 1)[0], together[token])


@SETS
@CACHES
@pytest.mark.parametrize("pieces", [False, True], ids=["whole", "pieces"])
@pytest.mark.parametrize("column", [0, 6, 8], ids=["query", "key", "value"])
def test_what_is_no_number_is_so_for_those_who_see_it(
    isa: str, kept: Format, column: int, pieces: bool
) -> None:
    qkv, turns = text(150, 6, 2, 64)
    table = np.arange(10, dtype=np.int32)

    def attended() -> Floats:
        return attention(
            qkv, turns, table, heads=6, block_size=16, queries=60, kept=kept, pieces=pieces, isa=isa
        )

    whole = attended()
    qkv[140, column, 5] = np.nan
    found = attended()
    seen = np.zeros((60, 6), bool)
    # Token 140 is the 50th of the queries; three heads share a key. A query is its own affair.
    seen[50 : 51 if column == 0 else None, : 1 if column == 0 else 3] = True
    assert np.isnan(found[seen]).any(-1).all()
    # Values of bf16 that are hidden have a weight of zero, which makes no zero of them.
    clear = ~seen if kept is Format.INT8 or column < 8 else np.arange(90, 150) < 128
    assert np.array_equal(found[clear], whole[clear])
