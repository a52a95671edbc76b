"""The default model in instruction sets that are not the best of this machine: a row's logits are the same
bits whole and in pieces, on one thread and on two, alone and beside another.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from native_toy import open_slot, rows

from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.library import here
from optimist.kernels.native.shapes import Floats
from optimist.models.default import default_model
from optimist.models.native import Sizes, load_device
from optimist.models.quantisation import Formats, Quant
from optimist.models.source import open_source

TEXT = [int(token) for token in np.random.default_rng(1).integers(0, 40_000, 14)]
OTHERS = [name for name in here() if name in ("avx2", "portable")]


def load(isa: str, quant: Quant, threads: int) -> NativeDevice:
    with open_source(default_model()) as source:
        kept = Formats(source, quant).kept("auto")
        return load_device(source, Sizes(16, 2, 2, 16, 64, threads, kept), quant=quant, isa=isa)


@pytest.fixture(params=["none", "int4"])
def quant(request: pytest.FixtureRequest) -> Quant:
    found: Quant = request.param
    return found


@pytest.fixture(params=OTHERS)
def pair(request: pytest.FixtureRequest, quant: Quant) -> Iterator[list[NativeDevice]]:
    """On one thread, and on two."""
    found = [load(request.param, quant, threads) for threads in (1, 2)]
    assert [device.isa for device in found] == 2 * [request.param]
    yield found
    for device in found:
        device.close()


def pieces(device: NativeDevice) -> Floats:
    """Logits behind every token: all but three at once, then one after the other beside another text."""
    open_slot(device, 0, TEXT, [1])
    open_slot(device, 1, TEXT[::-1], [0])
    got = [device.logits(rows([0], [len(TEXT) - 3]))]
    got += [device.logits(rows([0, 1], [1, 3]))[:1] for _ in range(3)]
    return np.concatenate(got)


def test_nothing_beside_a_row_changes_a_bit_in_any_set(pair: list[NativeDevice]) -> None:
    single, double = pair
    open_slot(single, 0, TEXT, [0])
    whole = single.logits(rows([0], [len(TEXT)]))
    assert np.isfinite(whole).all()
    assert np.array_equal(pieces(double), whole)
