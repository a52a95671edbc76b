"""All cells of MATRIX by one command: `python -m optimist.testing.all_cells --placement processes`.

Without a placement the actors run in one place on virtual time, as in `check_executor`. Each cell is told on
stderr when it has ended. With `--part 1/4` it runs every fourth of them: four processes share the work.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple
from unittest.mock import patch

import anyio

from optimist.actors.config import Placement
from optimist.actors.proposer.kinds import HOST
from optimist.actors.worker.base import Executor, Limits
from optimist.testing.conformance import check_executor
from optimist.testing.drain import Leftovers, drained
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import Cell, MatrixRed, Seen, cells
from optimist.testing.oracle import IntegerOracle, NextToken
from optimist.testing.placements import LATE_INTEGERS, TOY, VOCAB_SIZE, Drafted, check_placed

PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")
INTEGERS = IntegerModel(vocab_size=VOCAB_SIZE)
WORDS = 3
"""of the integer model where somebody drafts: with so few the past tells something of the future"""


class Model(NamedTuple):
    """executor: its name for a worker, and options: of it beside the vocabulary. next_token: what it must
    equal. check: one cell in one place.
    """

    executor: str
    next_token: NextToken
    check: Callable[[Cell], Drafted]
    options: Mapping[str, Any] = MappingProxyType({})


def integers(drafts: str) -> Model:
    """The integer model. drafts: who drafts, "" is nobody."""
    options = {"words": WORDS} if drafts else {}
    model = INTEGERS._replace(**options)
    next_token = IntegerOracle(model)
    check = _inline(lambda limits: IntegerExecutor(limits, model), next_token)
    return Model(LATE_INTEGERS, next_token, check, options)


def toy(kernels: str) -> Model:
    """The torch toy in float64, on `torch` or on `triton`, which is interpreted, some seconds a cell."""
    from optimist.kernels import choice
    from optimist.testing import torch_toy
    from optimist.testing.torch_oracle import ToyOracle

    config = replace(torch_toy.TOY, vocab_size=VOCAB_SIZE)
    whose = choice.triton_kernels("cpu") if kernels == "triton" else choice.TORCH
    network, next_token = torch_toy.toy_network(config, kernels=whose), ToyOracle(config)
    check = _inline(lambda limits: torch_toy.toy_executor(limits, network), next_token)
    named = {"torch": TOY, "triton": "optimist.testing.torch_toy:TritonToyExecutor"}
    return Model(named[kernels], next_token, check)


def _inline(make: Callable[[Limits], Executor], next_token: NextToken) -> Callable[[Cell], Drafted]:
    """Runs cells in one place on virtual time."""

    def check(cell: Cell) -> Drafted:
        seen: list[Seen] = []
        check_executor(make, next_token, vocab_size=VOCAB_SIZE, every=[cell], seen=seen.append)
        return Drafted(seen[0].drafted, seen[0].accepted)

    return check


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when a cell is red, or of all cells no draft was right."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.all_cells")
    parser.add_argument("--model", choices=("integers", "toy", "triton"), default="integers")
    parser.add_argument("--placement", choices=PLACEMENTS, help="run whole engines there")
    parser.add_argument("--drafts", choices=HOST, default="", help="who drafts; not given: nobody")
    parser.add_argument(
        "--part",
        type=_part,
        default=Part(1, 1),
        metavar="I/N",
        help="the I-th of N parts of the cells",
    )
    chosen = parser.parse_args(arguments)
    kernels = {"toy": "torch", "triton": "triton"}
    model = integers(chosen.drafts) if chosen.model == "integers" else toy(kernels[chosen.model])
    every = chosen.part.of(cells((chosen.drafts,)))
    red, drafted, accepted, begun = 0, 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as own, patch.dict(os.environ, XDG_RUNTIME_DIR=own):
        for done, cell in enumerate(every):
            try:
                one = _check(cell, model, chosen.placement)
                drafted, accepted = drafted + one.drafted, accepted + one.accepted
            except MatrixRed as difference:
                red += 1
                print(difference, file=sys.stderr)
            took = time.monotonic() - begun
            print(f"{done + 1}/{len(every)}, {red} red, {took:.1f} s: {cell}", file=sys.stderr)
    right = f", {accepted} of {drafted} drafts right" if chosen.drafts else ""
    print(f"{len(every)} cells, {red} red{right}")
    # A part may be too small for a draft to be right.
    proved = not chosen.drafts or accepted > 0 or chosen.part.parts > 1
    return int(red > 0 or not proved)


class Part(NamedTuple):
    """The `number`-th of `parts` shares, counted from 1."""

    number: int
    parts: int

    def of(self, every: list[Cell]) -> list[Cell]:
        """Its cells, dealt one to each part in turn, which begins a part later each time round: options that
        alternate, as the last ones do, do not all fall to the same part.
        """
        own, parts = self.number - 1, self.parts
        return [cell for i, cell in enumerate(every) if (i + i // parts) % parts == own]


def _part(text: str) -> Part:
    match = re.fullmatch(r"(\d{1,4})/(\d{1,4})", text)
    part = Part(*map(int, match.groups())) if match else Part(0, 0)
    if not 1 <= part.number <= part.parts:
        raise argparse.ArgumentTypeError(f"expected I/N with I from 1 to N, got {text!r}")
    return part


def _check(cell: Cell, model: Model, placement: Placement | None) -> Drafted:
    if placement is None:
        return model.check(cell)
    placed = partial(check_placed, **model.options)
    try:
        with drained():
            return anyio.run(placed, cell, placement, model.executor, model.next_token)
    except Leftovers as left:
        raise MatrixRed(f"{cell}: {left}") from left


if __name__ == "__main__":
    sys.exit(main())
