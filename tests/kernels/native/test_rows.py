"""Operators on single rows, in every instruction set, against their specs: quantise, rotate, write to the cache."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.kernels.native import reference
from optimist.kernels.native.cards import CARDS
from optimist.kernels.native.library import here
from optimist.kernels.native.operators import quantise, rope
from optimist.kernels.native.quantised import eight_bit_keys, eight_bit_values, quantised_rows
from optimist.kernels.native.shapes import Floats, Format

SETS = pytest.mark.parametrize("isa", here())
CACHES = pytest.mark.parametrize("kept", (Format.BF16, Format.INT8))
BY_NAME = {card.name: card for card in CARDS}
BLOCK = 32


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weight(seed: int, dim: int) -> Floats:
    """Of a norm."""
    found: Floats = (1 + normal(seed, dim) / 4).astype(np.float32)
    return found


def activations() -> Floats:
    """With a channel that is far larger than all others, a group of zeros, and a very small row."""
    x = normal(1, 5, 192) * 3
    x[:, 5] *= 300
    x[1, 64:128] = 0
    x[4] *= 1e-12
    return x


@SETS
def test_bf16_is_the_nearest_and_of_two_the_even_one(isa: str) -> None:
    x = activations()
    bits = np.arange(64, dtype=np.uint32) << 15 | 0x3F800000
    x[0, :64] = bits.view(np.float32)
    got = quantise(x, Format.BF16, 64, isa=isa)
    assert np.array_equal(got.values, reference.nearest_bf16(x))


@SETS
@pytest.mark.parametrize(
    ("kind", "group"), [(Format.INT8, 64), (Format.INT8, 32), (Format.INT4, 32)]
)
def test_whole_numbers_are_those_of_the_spec(isa: str, kind: Format, group: int) -> None:
    x = activations()
    got, (numbers, scales) = quantise(x, kind, group, isa=isa), quantised_rows(x, group)
    assert np.array_equal(got.values, numbers)
    assert np.array_equal(got.scales, scales.astype(np.float32))
    sums = numbers.reshape(len(x), -1, group).sum(-1)
    want = -128 * sums if kind is Format.INT8 else (sums * scales).astype(np.float32)
    np.testing.assert_allclose(got.sums, want, rtol=1e-7 if kind is Format.INT4 else 0)


def test_rows_that_are_not_padded_are_refused() -> None:
    with pytest.raises(ValueError, match="expected rows of a multiple of 64 values, got 65"):
        quantise(normal(0, 1, 65), Format.INT8, 32)


HEADS = {
    "of 64": (6, 2, 64),
    "of 80": (4, 4, 80),
    "of 96": (13, 1, 96),
    "of 128": (2, 1, 128),
    "of 256": (2, 1, 256),
    "of 8": (3, 3, 8),
}
TOKENS = 41


def given(heads: int, groups: int, dim: int) -> tuple[Floats, Floats]:
    """Projections and rotations."""
    angles = np.arange(TOKENS)[:, None] * 10000.0 ** (-np.arange(dim // 2) / (dim // 2))
    turns = np.concatenate((np.cos(angles), np.sin(angles)), -1).astype(np.float32)
    return normal(2, TOKENS, heads + 2 * groups, dim), turns


@SETS
@CACHES
@pytest.mark.parametrize("which", HEADS)
@pytest.mark.parametrize("normed", [False, True])
def test_rotation_and_the_cache_are_those_of_the_spec(
    isa: str, kept: Format, which: str, normed: bool
) -> None:
    heads, groups, dim = HEADS[which]
    qkv, turns = given(heads, groups, dim)
    norms = (weight(3, dim), weight(4, dim)) if normed else None
    q, k, v = np.split(qkv, (heads, heads + groups), 1)
    if norms is not None:
        q = reference.rms_norm(q, norms[0], 1e-5).astype(np.float32)
        k = reference.rms_norm(k, norms[1], 1e-5).astype(np.float32)
    q, k = (reference.rotated(x, turns).astype(np.float32) for x in (q, k))
    table = np.array([2, 0], np.int32)
    got = rope(qkv, turns, table, heads=heads, block_size=BLOCK, kept=kept, norms=norms, isa=isa)
    card = BY_NAME["rope"]
    card.assert_near(got.queries, q, kept)
    keys, values = (
        x[table].reshape(-1, groups, dim)[:TOKENS] for x in reference.cached(got.cache, kept, dim)
    )
    if kept is Format.BF16:
        card.assert_near(keys, k)
        assert np.array_equal(values, reference.nearest_bf16(v))
    else:
        # A key that lies between two whole numbers may become either.
        np.testing.assert_allclose(keys, eight_bit_keys(k), atol=float(np.abs(k).max()) / 100)
        assert np.array_equal(values, eight_bit_values(v))


@SETS
@CACHES
def test_token_by_token_gives_the_same_bytes_as_all_at_once(isa: str, kept: Format) -> None:
    qkv, turns = given(6, 2, 64)
    table = np.array([1, 0], np.int32)
    whole, apart = (
        rope(qkv, turns, table, heads=6, block_size=BLOCK, kept=kept, apart=each, isa=isa)
        for each in (False, True)
    )
    assert np.array_equal(whole.queries, apart.queries)
    for one, other in zip(
        *(reference.cached(x.cache, kept, 64) for x in (whole, apart)), strict=True
    ):
        first, second = (x[table].reshape(-1, 2, 64)[:TOKENS] for x in (one, other))
        assert np.array_equal(first, second)


@SETS
@CACHES
def test_values_behind_the_text_are_zero_where_a_chunk_may_read_them(
    isa: str, kept: Format
) -> None:
    qkv, turns = given(6, 2, 64)
    for apart in (False, True):
        cache = rope(
            *(qkv, turns, np.array([0, 1], np.int32)),
            heads=6,
            block_size=BLOCK,
            kept=kept,
            apart=apart,
            isa=isa,
        ).cache
        _, values = reference.cached(cache, kept, 64)
        behind = values.reshape(-1, 2, 64)[TOKENS : -(-TOKENS // 16) * 16]
        assert behind.size
        assert not behind.any()
