"""Single operators of the native library, in every instruction set, against their specs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from optimist.kernels import paged_attention as attention_card
from optimist.kernels import rms_norm as norm_card
from optimist.kernels.metadata import ExactMetadata
from optimist.kernels.native.library import here
from optimist.kernels.native.operators import attention, linear, rms_norm
from optimist.kernels.native.quantised import (
    eight_bit_keys,
    eight_bit_values,
    int4_linear,
    int8_linear,
)
from optimist.kernels.native.shapes import Floats, Format, Matrix
from optimist.kernels.paged_attention.reference import paged_attention
from optimist.kernels.rope.reference import rope, rotations
from optimist.messages.lengths import ExactSeqLens

SETS = pytest.mark.parametrize("isa", here())


def rounded(values: NDArray[np.floating]) -> Floats:
    """The nearest bfloat16 numbers."""
    found: Floats = torch.from_numpy(np.asarray(values, np.float32)).bfloat16().float().numpy()
    return found


def plain(weights: Floats) -> Matrix:
    return Matrix("F32", weights.shape[1], np.ascontiguousarray(weights).view(np.uint8))


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@SETS
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 11, 12, 13, 25])
def test_bf16_linear(isa: str, rows: int) -> None:
    x, weights = normal(1, rows, 200), normal(2, 70, 200)
    got = linear(x, plain(weights), Format.BF16, isa=isa)
    want = rounded(x).astype(np.float64) @ rounded(weights).astype(np.float64).T
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@SETS
@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("rows", [1, 4, 9, 12, 14])
def test_int8_linear(isa: str, rows: int, group: int) -> None:
    x, weights = normal(3, rows, 192) * 3, normal(4, 70, 192)
    x[:, 5] *= 40
    got = linear(x, plain(weights), Format.INT8, group, isa=isa)
    want = int8_linear(x, weights, group)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


def four_bit(kind: str, outputs: int, inputs: int) -> tuple[Matrix, list[NDArray[np.float64]]]:
    """A matrix in blocks of four bits; its numbers, scales and minima."""
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 16, (outputs, inputs // 32, 32), np.uint8)
    halves = rng.uniform(0.01, 0.1, (outputs, inputs // 32, 2)).astype("<f2")
    packed = (numbers[..., :16] | numbers[..., 16:] << 4).astype(np.uint8)
    kept = halves if kind == "Q4_1" else halves[..., :1]
    raw = np.concatenate((kept.view(np.uint8), packed), -1).reshape(outputs, -1)
    scales, least = halves.astype(np.float64).transpose(2, 0, 1)
    if kind == "Q4_0":
        least = -8 * scales
    return Matrix(kind, inputs, raw), [
        numbers.reshape(outputs, inputs).astype(np.float64),
        scales,
        least,
    ]


@SETS
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1"])
@pytest.mark.parametrize("rows", [1, 2, 4, 7])
def test_int4_linear(isa: str, kind: str, rows: int) -> None:
    matrix, parts = four_bit(kind, 70, 160)
    x = normal(6, rows, 160)
    got = linear(x, matrix, Format.INT4, 32, isa=isa)
    np.testing.assert_allclose(got, int4_linear(x, *parts), rtol=1e-4, atol=1e-4)


def test_other_types_are_not_four_bits() -> None:
    with pytest.raises(ValueError, match="F32 is not what INT4 is made of"):
        linear(normal(0, 1, 64), plain(normal(0, 4, 64)), Format.INT4, 32)


@SETS
@pytest.mark.parametrize("kind", list(Format))
def test_a_row_of_a_linear_does_not_depend_on_the_others(isa: str, kind: Format) -> None:
    matrix = four_bit("Q4_1", 70, 160)[0] if kind is Format.INT4 else plain(normal(7, 70, 160))
    group = 0 if kind is Format.BF16 else 32
    x = normal(8, 26, 160)
    together = linear(x, matrix, kind, group, isa=isa)
    for row in range(26):
        alone = linear(x[row : row + 1], matrix, kind, group, isa=isa)
        assert np.array_equal(alone[0], together[row])


@SETS
@pytest.mark.parametrize("size", [64, 200, 576])
def test_rms_norm(isa: str, size: int) -> None:
    x, weight = normal(9, 5, size) * 7, normal(10, size)
    got = torch.from_numpy(rms_norm(x, weight, 1e-5, isa=isa))
    want = norm_card.CARD.reference(torch.from_numpy(x), torch.from_numpy(weight), 1e-5)
    norm_card.CARD.assert_near(got, want)


def text(tokens: int, heads: int, kv_heads: int, dim: int) -> tuple[Floats, Floats]:
    """Projections and rotations of a text."""
    qkv = rounded(normal(11, tokens, heads + 2 * kv_heads, dim))
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


CACHES = pytest.mark.parametrize("kept", (Format.BF16, Format.INT8))


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
    near = 8e-3 if kept is Format.BF16 else 1e-3
    np.testing.assert_allclose(whole, want, rtol=near, atol=near)
    assert np.array_equal(merged, whole)
    assert attention_card.CARD.tolerance[torch.bfloat16] >= (8e-3, 8e-3)


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
