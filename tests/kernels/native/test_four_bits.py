"""Blocks of four bits as a file has them, computed with unchanged, against an outside implementation."""

from __future__ import annotations

from dataclasses import replace

import gguf
import numpy as np
import pytest
from native_toy import TOY, ArraySource, exact_logits, open_slot, random_weights, rows, sizes

from optimist.kernels.native.library import here
from optimist.kernels.native.operators import linear
from optimist.kernels.native.shapes import Floats, Format, Matrix
from optimist.models.base import StoredMatrix, expected_shapes
from optimist.models.config import ModelConfig
from optimist.models.native import load_device

SIZES = {"Q4_0": (32, 18), "Q4_1": (32, 20), "Q4_K": (256, 144)}
"""weights and bytes of a block"""

WIDE = replace(TOY, hidden_size=256, num_heads=4, intermediate_size=512)
"""every matrix has whole blocks of 256 inputs"""


def blocks(kind: str, outputs: int, inputs: int, seed: int) -> Matrix:
    """Random numbers, scales and minima, such that weights are about as large as those of a network."""
    weights, size = SIZES[kind]
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (outputs, inputs // weights, size), np.uint8)
    small = 1.8e-4 if kind == "Q4_K" else 1e-2
    scale = rng.uniform(small, 1.4 * small, raw.shape[:2]).astype("<f2")[..., None]
    least = {"Q4_1": -7.5, "Q4_K": 7.5}.get(kind)
    raw[..., :2] = scale.view(np.uint8)
    if least is not None:
        raw[..., 2:4] = (scale * np.float16(least)).view(np.uint8)
    return Matrix(kind, inputs, raw.reshape(outputs, -1))


def outside(matrix: Matrix) -> Floats:
    """Its weights, as gguf-py reads them."""
    kind = gguf.GGMLQuantizationType[matrix.kind]
    found: Floats = gguf.quants.dequantize(matrix.rows, kind)
    return found


class BlockSource(ArraySource):
    """A source whose layers are blocks of one type, and everything else float32."""

    def __init__(self, config: ModelConfig, kind: str) -> None:
        super().__init__(config, random_weights(config))
        self._kind = kind
        self._blocks = {
            name: blocks(kind, shape[0], shape[1], seed)
            for seed, (name, shape) in enumerate(expected_shapes(config).items())
            if name.startswith("layers") and len(shape) > 1
        }

    def stored_type(self, name: str) -> str:
        return self._kind if name in self._blocks else "F32"

    def matrix(self, name: str) -> StoredMatrix:
        if name not in self._blocks:
            return super().matrix(name)
        return StoredMatrix(self._kind, self._blocks[name].rows, None)

    def outside(self) -> dict[str, Floats]:
        """All weights, those of blocks as gguf-py reads them."""
        return self._weights | {name: outside(found) for name, found in self._blocks.items()}


@pytest.mark.parametrize("isa", here())
@pytest.mark.parametrize("kind", SIZES)
def test_weights_are_those_that_an_outside_implementation_reads(kind: str, isa: str) -> None:
    matrix = blocks(kind, 40, 512, seed=1)
    inputs = 127 * np.eye(512, dtype=np.float32)  # numbers that eight bits hold exactly
    got = linear(inputs, matrix, Format.INT4, 32, isa=isa).T / 127
    want = outside(matrix)
    # Products of two scales, as Q4_K has them, are rounded to float16.
    largest = np.abs(want).max()
    bound = largest * (2**-10 if kind == "Q4_K" else 1e-6)
    assert np.abs(got - want).max() < bound


@pytest.mark.parametrize("kind", SIZES)
def test_a_network_of_blocks_says_what_torch_says_of_their_weights(kind: str) -> None:
    source = BlockSource(WIDE, kind)
    text = [int(i) for i in np.random.default_rng(7).integers(0, WIDE.vocab_size, 60)]
    network = load_device(source, sizes(), quant="int4")
    open_slot(network, 0, text, range(4))
    got = network.logits(rows([0], [len(text)]))
    network.close()
    want = exact_logits(WIDE, text, weights=source.outside())
    errors = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    assert errors.max() < 0.03
    assert (got.argmax(1) == want.argmax(1)).mean() > 0.9
