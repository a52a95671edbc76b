"""The default model in every format, with the cache that goes with it: what an outside implementation says, and bit-equal logits of a
row whatever is computed beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest
from native_toy import ints, open_slot, rows

from optimist.kernels.native.device import NativeDevice
from optimist.kernels.native.shapes import Floats
from optimist.models.default import default_model
from optimist.models.native import Sizes, load_device
from optimist.models.quantisation import Formats, KvDtype, Quant
from optimist.models.source import open_source

SURE = 0.5
"""margin between the two likeliest logits above which rounding of weights decides nothing"""

SURE_CACHED: dict[Quant, float] = {"none": SURE, "int8": 0.75, "int4": 0.75}
"""the same where keys and values are rounded to 8 bits as well, as they are beside such weights"""

LENGTH = 270
"""tokens of the text whose logits are compared: it ends in its third chunk"""


class Case(NamedTuple):
    prompt: list[int]
    tokens: list[int]
    margins: list[float]


def _cases() -> list[Case]:
    path = Path(__file__).parents[2] / "data" / "golden.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cases"]
    return [Case(c["prompt_ids"], c["greedy_ids"], c["top2_margins"]) for c in found]


CASES = _cases()
TEXT = [token for case in CASES for token in case.prompt + case.tokens][:LENGTH]


def load(quant: Quant, threads: int, cache: KvDtype = "auto") -> NativeDevice:
    with open_source(default_model()) as source:
        kept = Formats(source, quant).kept(cache)
        return load_device(source, Sizes(16, 34 * 17, 34, 512, 512, threads, kept), quant=quant)


@pytest.fixture(scope="module", params=get_args(Quant)[:3])
def quant(request: pytest.FixtureRequest) -> Quant:
    found: Quant = request.param
    return found


@pytest.fixture(scope="module")
def device(quant: Quant) -> Iterator[NativeDevice]:
    """On two threads."""
    found = load(quant, 2)
    yield found
    found.close()


@pytest.fixture(scope="module")
def single(quant: Quant) -> Iterator[NativeDevice]:
    """On one thread."""
    found = load(quant, 1)
    yield found
    found.close()


@pytest.fixture(scope="module")
def alone(single: NativeDevice) -> Floats:
    """Logits of TEXT, one token at a time, on one thread and with nothing beside it."""
    place(single, 0, TEXT)
    return np.concatenate([single.logits(rows([0], [1])) for _ in TEXT])


def place(device: NativeDevice, slot: int, text: Sequence[int]) -> None:
    """Into a slot, with blocks of its own that lie apart."""
    blocks = -(-len(text) // 16)
    open_slot(device, slot, text, [slot + 34 * i for i in range(blocks)])


def test_teacher_forced_at_every_position(device: NativeDevice, quant: Quant) -> None:
    check_golden(device, SURE_CACHED[quant])


@pytest.mark.parametrize("quant", ["int8", "int4"])
def test_and_with_a_cache_of_sixteen_bits(quant: Quant) -> None:
    device = load(quant, 2, "bfloat16")
    try:
        check_golden(device, SURE)
    finally:
        device.close()


def check_golden(device: NativeDevice, margin_of_rounding: float) -> None:
    """Every choice of the outside implementation, but where another was as good within the margin."""
    wrong, sure = [], 0
    for case in CASES:
        text = case.prompt + case.tokens[:-1]
        place(device, 0, text)
        chosen = device.logits(rows([0], [len(text)]))[len(case.prompt) - 1 :].argmax(-1)
        for got, want, margin in zip(chosen, case.tokens, case.margins, strict=True):
            sure += margin >= margin_of_rounding
            if got != want and margin >= margin_of_rounding:
                wrong.append((got, want, margin))
    assert wrong == []
    assert sure > 400


@pytest.mark.parametrize(
    "queries", [[LENGTH], [1, 2, 3, 250, 14], [120, 9, 1, 140]], ids=["whole", "ragged", "chunks"]
)
def test_chunks_do_not_change_a_bit(
    device: NativeDevice, alone: Floats, queries: list[int]
) -> None:
    place(device, 0, TEXT)
    got = np.concatenate([device.logits(rows([0], [query])) for query in queries])
    assert np.array_equal(got, alone)


@pytest.mark.parametrize("batch", [2, 7, 32])
def test_neighbours_do_not_change_a_bit(device: NativeDevice, alone: Floats, batch: int) -> None:
    check_batch(device, alone, batch)


def test_nor_on_one_thread(single: NativeDevice, alone: Floats) -> None:
    check_batch(single, alone, 7)


def check_batch(device: NativeDevice, alone: Floats, batch: int) -> None:
    """Every row at another place of the text, one of them in a prefill chunk."""
    starts = [LENGTH - 12, *(11 * slot % 140 for slot in range(1, batch))]
    for slot in range(batch):
        place(device, slot, TEXT)
    for slot, start in enumerate(starts):
        if start:
            device.step(rows([slot], [start]))
    for step in range(3):
        queries = [4] + [1] * (batch - 1)
        got = device.logits(rows(range(batch), queries))
        at = 0
        for slot, query in enumerate(queries):
            begin = starts[slot] + step * query
            assert np.array_equal(got[at : at + query], alone[begin : begin + query])
            at += query


def test_unknown_lengths_stay_on_the_device(device: NativeDevice) -> None:
    place(device, 3, TEXT[:5])
    said = rows([3], [5])._replace(lengths=ints(6))
    with pytest.raises(Exception, match="slot 3: expected a length of 5 after the step, got 6"):
        device.logits(said)
