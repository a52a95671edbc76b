"""MATRIX on the default model as it is served: ids equal those of a text that is computed alone, on one
thread and a token at a time, in every format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np
import pytest
from native_toy import ints, rows

from optimist.actors.worker.base import Executor, Limits
from optimist.actors.worker.native_executor import NativeExecutor
from optimist.actors.worker.native_rows import choice_of
from optimist.kernels.native.device import NativeDevice
from optimist.messages.base import column
from optimist.messages.slots import OpenedSlot, Sampling
from optimist.models.default import default_model
from optimist.models.native import Sizes, load_device
from optimist.models.quantisation import Formats, Quant
from optimist.models.source import open_source
from optimist.testing import matrix
from optimist.testing.conformance import check_executor
from optimist.testing.matrix import CONTEXT, Cell, cells, pairwise

BLOCK = 16
"""the smallest of the library, in place of MATRIX's own"""

FORMATS = ("none", "none, int8 KV", "int8", "int4")
"""of the weights, and of keys and values where those are not what goes with them"""


class Served(NamedTuple):
    """A cell and the format that it runs in."""

    depth: int
    chunk: int
    cache: bool
    pool: str
    batch: int
    sampling: str
    drafts: str
    served_as: str

    def cell(self) -> Cell:
        return Cell(*self[:-1])  # type: ignore[arg-type]


SERVED = pairwise(
    [Served(*cell, served_as) for cell in cells(("", "ngram", "suffix")) for served_as in FORMATS]
)


def load(served_as: str, sizes: Sizes) -> NativeDevice:
    written, _, kv = served_as.partition(", ")
    quant = cast(Quant, written)
    with open_source(default_model()) as source:
        kept = Formats(source, quant).kept("int8" if kv else "auto")
        return load_device(source, sizes._replace(kept=kept), quant=quant)


class Alone:
    """ORACLE: the library with one slot. It goes on while a text is one that it continues."""

    def __init__(self, served_as: str) -> None:
        blocks = -(-(CONTEXT + 1) // BLOCK)
        self.device = load(served_as, Sizes(BLOCK, blocks, 1, BLOCK * blocks, BLOCK, threads=1))
        self._blocks = blocks
        self._seen: dict[tuple[tuple[int, ...], float, int], int] = {}
        self._text: list[int] = []
        self._sampling: Sampling | None = None

    def __call__(self, tokens: Sequence[int], prompt_len: int, sampling: Sampling, /) -> int:
        key = (tuple(tokens), sampling.temperature, sampling.seed)
        if key not in self._seen:
            self._seen[key] = self._next(list(tokens), prompt_len, sampling)
        return self._seen[key]

    def _next(self, tokens: list[int], prompt_len: int, sampling: Sampling) -> int:
        if tokens != self._text or sampling is not self._sampling:
            self._open(tokens, prompt_len, sampling)
        chosen = self.device.step(rows([0], [1])._replace(samples=ints(1)))
        self._text, self._sampling = [*tokens, int(chosen.ids[0])], sampling
        return self._text[-1]

    def _open(self, tokens: list[int], prompt_len: int, sampling: Sampling) -> None:
        opened = OpenedSlot(
            slot=0,
            generation=0,
            request=0,
            token_ids=column(tokens),
            cached_len=0,
            prompt_len=prompt_len,
            sampling=sampling,
        )
        self.device.open_slot(0, ints(*tokens), 0, choice_of(opened))
        table = np.arange(self._blocks, dtype=np.int32)
        self.device.set_blocks(np.zeros_like(table), table, table)
        for _ in tokens[:-1]:
            self.device.step(rows([0], [1]))


@pytest.fixture(scope="module")
def oracles() -> Iterator[Callable[[str], Alone]]:
    made: dict[str, Alone] = {}

    def find(served_as: str) -> Alone:
        if served_as not in made:
            made[served_as] = Alone(served_as)
        return made[served_as]

    yield find
    for oracle in made.values():
        oracle.device.close()


@pytest.mark.parametrize("served", SERVED, ids=lambda served: f"{served.served_as}-{served.cell()}")
def test_a_cell_equals_the_text_computed_alone(
    served: Served, oracles: Callable[[str], Alone], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "BLOCK", BLOCK)
    oracle, made = oracles(served.served_as), list[Executor]()

    def make(limits: Limits) -> Executor:
        sizes = Sizes(limits.block_size, limits.num_blocks, *limits[2:5], threads=2)
        made.append(NativeExecutor(load(served.served_as, sizes), limits))
        return made[-1]

    vocab = oracle.device.shape.vocab
    try:
        check_executor(make, oracle, vocab_size=vocab, every=[served.cell()])
    finally:
        for executor in made:
            executor.close()
