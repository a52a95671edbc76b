"""Every block type against an outside implementation, bit for bit."""

from __future__ import annotations

import gguf
import gguf.quants
import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.models.gguf.blocks import dequantise
from optimist.models.gguf.layout import LAYOUTS, BlockLayout

BLOCKS = 96


def _outside(layout: BlockLayout, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
    kind = gguf.GGMLQuantizationType[layout.name]
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(raw, kind).astype(np.float32)


def _same_bits(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> bool:
    """Equal to the bit, except that one NaN is as good as another."""
    both_nan = np.isnan(ours) & np.isnan(theirs)
    return bool(np.all((ours.view(np.uint32) == theirs.view(np.uint32)) | both_nan))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("seed", range(4))
def test_random_blocks_come_out_bit_exact(layout: BlockLayout, seed: int) -> None:
    raw = np.random.default_rng(seed).integers(0, 256, (BLOCKS, layout.size), np.uint8)
    out = np.full((BLOCKS, layout.weights), np.nan, np.float32)
    dequantise(layout, raw, out)
    assert _same_bits(out, _outside(layout, raw).reshape(out.shape))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x0F, 0xF0])
def test_extreme_blocks_come_out_bit_exact(layout: BlockLayout, byte: int) -> None:
    raw = np.full((2, layout.size), byte, np.uint8)
    out = np.full((2, layout.weights), np.nan, np.float32)
    dequantise(layout, raw, out)
    assert _same_bits(out, _outside(layout, raw).reshape(out.shape))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_read_only_bytes_of_a_whole_row_fill_an_array_of_another_shape(
    layout: BlockLayout,
) -> None:
    rng = np.random.default_rng(7)
    raw = np.frombuffer(rng.bytes(4 * layout.size), np.uint8).reshape(2, -1)
    out = np.full((2, 2 * layout.weights), np.nan, np.float32)
    dequantise(layout, raw, out)
    assert _same_bits(out, _outside(layout, raw).reshape(out.shape))


def test_every_type_has_the_sizes_that_others_give_it() -> None:
    for number, layout in LAYOUTS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert kind.name == layout.name
        assert gguf.GGML_QUANT_SIZES[kind] == (layout.weights, layout.size)
