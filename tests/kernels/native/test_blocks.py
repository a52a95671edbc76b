"""Weights as files store them, read by the library: bit for bit what the loader of files reads."""

from __future__ import annotations

import numpy as np
import pytest

from optimist.kernels.native.device import NativeDevice, NativeError, dequantise
from optimist.kernels.native.shapes import STORED, Format, Matrix, Part
from optimist.models.gguf import blocks
from optimist.models.gguf.layout import LAYOUTS

ROWS, INPUTS = 5, 512


def stored(kind: str, seed: int = 0) -> Matrix:
    """Random bytes, with scales that are ordinary numbers."""
    layout = LAYOUTS[STORED[kind]]
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (ROWS, INPUTS // layout.weights, layout.size), np.uint8)
    if layout.weights > 1:
        halves = rng.uniform(-2, 2, (ROWS, INPUTS // layout.weights, 2)).astype("<f2")
        places = [208] if kind == "Q6_K" else [0, 2]
        for index, place in enumerate(places):
            raw[:, :, place : place + 2] = halves[:, :, index : index + 1].view(np.uint8)
    if kind == "F32":
        raw = rng.standard_normal((ROWS, INPUTS)).astype("<f4").view(np.uint8)
    return Matrix(kind, INPUTS, raw.reshape(ROWS, -1))


@pytest.mark.parametrize("kind", STORED)
def test_a_type_is_read_to_the_bit(kind: str) -> None:
    matrix = stored(kind)
    want = np.empty((ROWS, INPUTS), np.float32)
    blocks.dequantise(LAYOUTS[STORED[kind]], matrix.rows, want)
    got = dequantise(matrix)
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))


def test_every_type_of_the_loader_is_known() -> None:
    assert {number: layout.name for number, layout in LAYOUTS.items()} == {
        number: name for name, number in STORED.items()
    }


def test_every_half_is_its_float() -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    got = dequantise(Matrix("F16", 1 << 16, bits.view(np.uint8)[None]))[0]
    want = bits.view("<f2").astype(np.float32)
    assert np.array_equal(got, want, equal_nan=True)
    assert np.array_equal(np.signbit(got), np.signbit(want))


def test_rows_come_in_the_order_asked_for() -> None:
    matrix = stored("Q4_1")
    order = np.array([3, 1, 4, 0, 2])
    assert np.array_equal(dequantise(matrix._replace(order=order)), dequantise(matrix)[order])


def test_four_bits_are_not_made_of_other_types(toy: NativeDevice) -> None:
    toy.allocate(0, Part.O, Format.INT4, 32)
    with pytest.raises(NativeError, match="type 8: expected weights of four bits"):
        toy.pack(0, Part.O, 0, stored("Q8_0"))
