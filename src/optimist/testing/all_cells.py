"""All cells of MATRIX by one command: `python -m optimist.testing.all_cells --placement processes`.

Without a placement the actors run in one place on virtual time, as in `check_executor`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from unittest.mock import patch

import anyio

from optimist.actors.config import Placement
from optimist.actors.proposer.kinds import HOST
from optimist.testing.conformance import check_executor
from optimist.testing.drain import Leftovers, drained
from optimist.testing.integer_model import IntegerExecutor
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.matrix import Cell, MatrixRed, cells
from optimist.testing.oracle import IntegerOracle, NextToken
from optimist.testing.placements import LATE_INTEGERS, TOY, VOCAB_SIZE, check_placed

PLACEMENTS: tuple[Placement, ...] = ("inline", "embedded", "processes")
INTEGERS = IntegerModel(vocab_size=VOCAB_SIZE)


class Model(NamedTuple):
    """executor: its name for a worker. next_token: what it must equal. check: one cell in one place."""

    executor: str
    next_token: NextToken
    check: Callable[[Cell], None]


def integers() -> Model:
    """The integer model."""
    next_token = IntegerOracle(INTEGERS)

    def check(cell: Cell) -> None:
        check_executor(
            lambda limits: IntegerExecutor(limits, INTEGERS),
            next_token,
            vocab_size=VOCAB_SIZE,
            every=[cell],
        )

    return Model(LATE_INTEGERS, next_token, check)


def toy(kernels: str) -> Model:
    """The torch toy in float64, on `torch` or on `triton`, which is interpreted, some seconds a cell."""
    from optimist.kernels import choice
    from optimist.testing import torch_toy
    from optimist.testing.torch_oracle import ToyOracle

    config = replace(torch_toy.TOY, vocab_size=VOCAB_SIZE)
    whose = choice.triton_kernels("cpu") if kernels == "triton" else choice.TORCH
    network, next_token = torch_toy.toy_network(config, kernels=whose), ToyOracle(config)

    def check(cell: Cell) -> None:
        check_executor(
            lambda limits: torch_toy.toy_executor(limits, network),
            next_token,
            vocab_size=VOCAB_SIZE,
            every=[cell],
        )

    named = {"torch": TOY, "triton": "optimist.testing.torch_toy:TritonToyExecutor"}
    return Model(named[kernels], next_token, check)


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when a cell is red."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.all_cells")
    parser.add_argument("--model", choices=("integers", "toy", "triton"), default="integers")
    parser.add_argument("--placement", choices=PLACEMENTS, help="run whole engines there")
    parser.add_argument("--drafts", choices=HOST, default="", help="who drafts; not given: nobody")
    chosen = parser.parse_args(arguments)
    kernels = {"toy": "torch", "triton": "triton"}
    model = integers() if chosen.model == "integers" else toy(kernels[chosen.model])
    every, red = cells((chosen.drafts,)), 0
    with tempfile.TemporaryDirectory() as own, patch.dict(os.environ, XDG_RUNTIME_DIR=own):
        for cell in every:
            try:
                _check(cell, model, chosen.placement)
            except MatrixRed as difference:
                red += 1
                print(difference, file=sys.stderr)
    print(f"{len(every)} cells, {red} red")
    return min(red, 1)


def _check(cell: Cell, model: Model, placement: Placement | None) -> None:
    if placement is None:
        model.check(cell)
        return
    try:
        with drained():
            anyio.run(check_placed, cell, placement, model.executor, model.next_token)
    except Leftovers as left:
        raise MatrixRed(f"{cell}: {left}") from left


if __name__ == "__main__":
    sys.exit(main())
