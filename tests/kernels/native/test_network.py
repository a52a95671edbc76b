"""Networks of every shape in the native library, in every instruction set, against torch in float64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from native_toy import BLOCK, TOY, device, exact_logits, open_slot, rows

from optimist.kernels.native.library import SETS, here
from optimist.kernels.native.shapes import Format
from optimist.models.config import LinearRope, ModelConfig, YarnRope
from optimist.models.native import block_bytes

TEXT = [int(i) for i in np.random.default_rng(7).integers(0, TOY.vocab_size, 150)]

SHAPES = {
    "plain": TOY,
    "untied": replace(TOY, tie_embeddings=False),
    "biases": replace(TOY, attention_bias=True, output_bias=True),
    "q and k norms": replace(TOY, qk_norm=True),
    "one head each": replace(TOY, num_kv_heads=6),
    "seven a group": replace(TOY, num_heads=14, hidden_size=40, intermediate_size=33),
    "one group": replace(TOY, num_heads=13, num_kv_heads=1),
    "heads of 80": replace(TOY, head_dim=80),
    "heads of 8": replace(TOY, head_dim=8),
    "heads of 128": replace(TOY, head_dim=128, num_heads=2, num_kv_heads=1),
    "heads of 256": replace(TOY, head_dim=256, num_heads=2, num_kv_heads=1),
    "window": replace(TOY, sliding_window=37),
    "window beyond a chunk": replace(TOY, sliding_window=131),
    "odd vocabulary": replace(TOY, vocab_size=131),
    "scaled positions": replace(TOY, rope_scaling=LinearRope(factor=2.0)),
    "yarn": replace(
        TOY, rope_scaling=YarnRope(factor=4.0, original_max_len=128, attention_factor=1.1)
    ),
}


def agreement(config: ModelConfig, isa: str = "", kept: Format = Format.BF16) -> float:
    """The largest error of any row, relative to the size of its logits."""
    network = device(config, isa=isa, kept=kept)
    open_slot(network, 0, TEXT, range(20, 30))
    got = network.logits(rows([0], [len(TEXT)]))
    network.close()
    want = exact_logits(config, TEXT)
    errors = np.linalg.norm(got - want, axis=1) / np.linalg.norm(want, axis=1)
    return float(errors.max())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_says_what_torch_says(shape: str) -> None:
    assert agreement(SHAPES[shape]) < 0.05


@pytest.mark.parametrize("isa", [isa for isa in SETS if isa in here()])
@pytest.mark.parametrize("shape", ["plain", "heads of 80", "window beyond a chunk"])
def test_an_instruction_set_says_what_torch_says(shape: str, isa: str) -> None:
    assert agreement(SHAPES[shape], isa) < 0.05


@pytest.mark.parametrize(
    "shape", ["plain", "q and k norms", "heads of 80", "heads of 8", "heads of 256", "window"]
)
def test_a_cache_of_eight_bits_says_what_torch_says(shape: str) -> None:
    assert agreement(SHAPES[shape], kept=Format.INT8) < 0.05


@pytest.mark.parametrize("kept", [Format.BF16, Format.INT8])
def test_what_nobody_has_written_does_not_matter(kept: Format) -> None:
    network = device(kept=kept)
    found = []
    for value in (0.0, float("nan")):
        network.fill_cache(value)
        open_slot(network, 0, TEXT, range(20, 30))
        steps = [network.logits(rows([0], [query])) for query in (130, 1, 1, 18)]
        found.append(np.concatenate(steps))
    network.close()
    assert np.array_equal(found[0], found[1])


@pytest.mark.parametrize("kept", [Format.BF16, Format.INT8])
@pytest.mark.parametrize("shape", ["plain", "heads of 80", "heads of 8"])
def test_the_cache_is_as_large_as_is_said(shape: str, kept: Format) -> None:
    network = device(SHAPES[shape], kept=kept)
    assert network.cache_bytes == 40 * block_bytes(SHAPES[shape], BLOCK, kept)
    network.close()


def test_the_portable_set_is_everywhere() -> None:
    assert here()[-1] == "portable"
    assert set(here()) <= set(SETS)


def test_a_vocabulary_of_more_panels_than_a_phase_has_parts() -> None:
    network = device(replace(TOY, vocab_size=151_000))
    open_slot(network, 0, TEXT, range(20, 30))
    whole = network.logits(rows([0], [64]))
    open_slot(network, 1, TEXT, range(10, 20))
    pieces = [network.logits(rows([1], [query])) for query in (8, 16, 40)]
    network.close()
    assert np.array_equal(whole, np.concatenate(pieces))
