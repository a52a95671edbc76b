"""Linears of the native library, with what becomes of their results, in every instruction set, against their specs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.kernels.native import reference
from optimist.kernels.native.cards import CARDS
from optimist.kernels.native.library import here
from optimist.kernels.native.operators import linear, linear_add, linear_gate, linear_pick
from optimist.kernels.native.quantised import int4_linear, int8_linear
from optimist.kernels.native.shapes import Floats, Format, Matrix

SETS = pytest.mark.parametrize("isa", here())
BY_NAME = {card.name: card for card in CARDS}


def plain(weights: Floats) -> Matrix:
    return Matrix("F32", weights.shape[1], np.ascontiguousarray(weights).view(np.uint8))


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@SETS
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 11, 12, 13, 16, 17, 25, 33, 70])
def test_bf16_linear(isa: str, rows: int) -> None:
    x, weights = normal(1, rows, 200), normal(2, 70, 200)
    got = linear(x, plain(weights), Format.BF16, isa=isa)
    BY_NAME["linear"].assert_near(got, reference.bf16_linear(x, weights))


@SETS
@pytest.mark.parametrize("group", [32, 64])
@pytest.mark.parametrize("rows", [1, 4, 5, 9, 12, 14, 16, 33, 70])
def test_int8_linear(isa: str, rows: int, group: int) -> None:
    x, weights = normal(3, rows, 192) * 3, normal(4, 70, 192)
    x[:, 5] *= 40
    got = linear(x, plain(weights), Format.INT8, group, isa=isa)
    BY_NAME["linear"].assert_near(got, int8_linear(x, weights, group), Format.INT8)


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
    BY_NAME["linear"].assert_near(got, int4_linear(x, *parts), Format.INT4)


def test_other_types_are_not_four_bits() -> None:
    with pytest.raises(ValueError, match="F32 is not what INT4 is made of"):
        linear(normal(0, 1, 64), plain(normal(0, 4, 64)), Format.INT4, 32)


@SETS
@pytest.mark.parametrize("kind", list(Format))
def test_a_row_of_a_linear_does_not_depend_on_the_others(isa: str, kind: Format) -> None:
    matrix = four_bit("Q4_1", 70, 160)[0] if kind is Format.INT4 else plain(normal(7, 70, 160))
    group = 0 if kind is Format.BF16 else 32
    x = normal(8, 70, 160)
    together = linear(x, matrix, kind, group, isa=isa)
    for row in range(len(x)):
        alone = linear(x[row : row + 1], matrix, kind, group, isa=isa)
        assert np.array_equal(alone[0], together[row])


def of_a_kind(kind: Format, outputs: int, seed: int = 7) -> Matrix:
    """[outputs, 160] as this format takes it."""
    if kind is Format.INT4:
        return four_bit("Q4_1", outputs, 160)[0]
    return plain(normal(seed, outputs, 160))


KINDS = pytest.mark.parametrize("kind", list(Format))
HEIGHTS = pytest.mark.parametrize("rows", [1, 3, 26, 50])


@SETS
@KINDS
@HEIGHTS
def test_what_is_computed_twice_is_what_is_computed_once(isa: str, kind: Format, rows: int) -> None:
    x, matrix, group = normal(8, rows, 160), of_a_kind(kind, 70), 32
    once, twice = (linear(x, matrix, kind, group, halves=h, isa=isa) for h in (False, True))
    assert np.array_equal(once, twice)


@SETS
@KINDS
@HEIGHTS
def test_a_sum_is_the_product_added_to_what_was_there(isa: str, kind: Format, rows: int) -> None:
    x, matrix, to, group = normal(8, rows, 160), of_a_kind(kind, 70), normal(12, rows, 70), 32
    want = to + linear(x, matrix, kind, group, isa=isa)
    for halves in (False, True):
        got = linear_add(x, matrix, kind, group, to, halves=halves, isa=isa)
        assert np.array_equal(got, want)


@SETS
@KINDS
@HEIGHTS
def test_a_gate_is_its_formula_of_two_products(isa: str, kind: Format, rows: int) -> None:
    x, group = normal(8, rows, 160), 32
    gate, up = of_a_kind(kind, 70), of_a_kind(kind, 70, seed=13)
    products = [linear(x, half, kind, group, isa=isa).astype(np.float64) for half in (gate, up)]
    whole, halves = (
        linear_gate(x, gate, up, kind, group, halves=h, isa=isa) for h in (False, True)
    )
    BY_NAME["linear_gate"].assert_near(whole, reference.gated(*products), kind)
    assert np.array_equal(halves, whole)


@SETS
@KINDS
@pytest.mark.parametrize("vocab", [31, 32, 70, 128])
def test_a_pick_is_the_first_of_the_largest(isa: str, kind: Format, vocab: int) -> None:
    x, matrix, group = normal(8, 26, 160), of_a_kind(kind, vocab), 32
    # Two tokens are the same, in panels of their own where there are two.
    matrix.rows[vocab - 1] = matrix.rows[0]
    x[0] *= 0
    for halves in (False, True):
        values, ids, logits = linear_pick(x, matrix, kind, group, halves=halves, isa=isa)
        assert np.array_equal(logits, linear(x, matrix, kind, group, isa=isa))
        want, where = reference.picked(logits)
        assert np.array_equal(values, want)
        assert np.array_equal(ids, where)
        assert ids[0] == 0


@SETS
@KINDS
@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_no_number_gives_none_and_its_neighbours_do(
    isa: str, kind: Format, broken: float
) -> None:
    x = normal(8, 3, 160)
    x[1, 7] = broken
    values, _, logits = linear_pick(x, of_a_kind(kind, 70), kind, 32, isa=isa)
    assert not np.isfinite([*logits[1], values[1]]).any()
    assert np.isfinite([logits[0], logits[2]]).all()
    assert np.isfinite([values[0], values[2]]).all()


@SETS
@pytest.mark.parametrize("kind", [Format.BF16, Format.INT8])
@pytest.mark.parametrize("bits", [0x7FC00000, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F800000])
def test_an_output_whose_weights_are_no_numbers_is_none(isa: str, kind: Format, bits: int) -> None:
    weights = normal(7, 70, 160)
    weights.view(np.uint32)[3, 9] = bits
    got = linear(normal(8, 3, 160), plain(weights), kind, 32, isa=isa)
    assert not np.isfinite(got[:, 3]).any()
    assert np.isfinite(np.delete(got, 3, 1)).all()
