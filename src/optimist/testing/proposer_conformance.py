"""For authors of proposers: does yours keep the promises that the rest relies on?

    from optimist.testing.proposer_conformance import check_proposer
    def test_my_proposer(): check_proposer(MyProposer)

First the class alone is led through afternoons drawn from seeds: requests of every length come into
slots, go on and leave, and drafts are asked for at any time. It must raise nothing, answer in form,
never change or keep the arrays it is shown, and always answer the same to the same afternoon, whether
it is told slot by slot or, a StepProposer, step by step. Then it for our scheduler and worker on the integer model: MATRIX and simulated afternoons, in which it dies
too. Whatever it drafts, every request must get the tokens of ORACLE.

From a shell: `python -m optimist.testing.proposer_conformance module:Class`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.actor import ProposerActor
from optimist.actors.proposer.base import Ids, Proposer, StepRows
from optimist.actors.proposer.factory import make_proposer
from optimist.actors.proposer.guard import Guard
from optimist.actors.proposer.options import written_options
from optimist.messages.errors import ConfigError
from optimist.testing.matrix import INTEGERS, Cell, cells, check_cell, inline, pairwise
from optimist.testing.oracle import IntegerOracle
from optimist.testing.setup import OURS, Parts
from optimist.testing.simulation import simulate

Make = Callable[[ProposerConfig], Proposer]

MOVES = 300
"""calls in one afternoon of the class alone"""

SALTS = ("", "one", "other", None)
SLOTS = 4
VOCAB = INTEGERS.vocab_size


class ProposerFailed(AssertionError):
    """What a proposer did wrong, and in which afternoon."""


def check_proposer(
    make: Make,
    config: ProposerConfig | None = None,
    *,
    seeds: int = 20,
    every: Sequence[Cell] | None = None,
    simulations: int = 40,
) -> None:
    """Raises ProposerFailed, MatrixRed or SeedFailed, all AssertionErrors, saying where and how.

    make: the class, or anything that makes one from its configuration. config: the one to check it
    with. seeds: afternoons of the class alone. every: cells of MATRIX, by default so many that every
    pair of options occurs. simulations: afternoons of a whole engine.
    """
    config = ProposerConfig() if config is None else config
    for seed in range(seeds):
        check_alone(make, config, seed)
    check_drafting(make, config, every=every, simulations=simulations)


def check_alone(make: Make, config: ProposerConfig, seed: int) -> None:
    """One afternoon of the class alone. Raises ProposerFailed."""
    first, second = (_afternoon(make, config, seed, *how) for how in ((1, False), (2, True)))
    if first != second:
        at = next(i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
        raise ProposerFailed(
            f"seed {seed}: answer {at} was {first[at]} and then, to the same afternoon, {second[at]}; "
            f"does it draw without a seed, keep an array that it was shown, or take steps unlike slots?"
        )


def check_drafting(
    make: Make,
    config: ProposerConfig,
    *,
    every: Sequence[Cell] | None = None,
    simulations: int = 40,
) -> None:
    """Let it draft for a whole engine. Raises MatrixRed, SeedFailed or ProposerFailed."""
    actors: list[ProposerActor] = []

    def proposer(_: Any, incarnation: int, **refs: Any) -> ProposerActor:
        actors.append(ProposerActor(config, incarnation, proposer=make(config), **refs))
        return actors[-1]

    parts: Parts = OURS._replace(proposer=proposer)
    next_token = IntegerOracle(INTEGERS)
    for cell in pairwise(cells(("ngram",))) if every is None else every:
        check_cell(cell, inline(parts), next_token)
    for seed in range(simulations):
        simulate(seed, parts)
    for actor in actors:
        if faults := actor.statistics().faults:
            raise ProposerFailed(f"in an engine: {_said(faults)}")


def _said(faults: dict[str, int]) -> str:
    return ", ".join(f"{kind} {count} times" for kind, count in faults.items())


class _Loan:
    """Shows arrays that are worth nothing once the call is over."""

    def __init__(self, worthless: int) -> None:
        self._worthless = worthless
        self._shown: list[tuple[Ids, list[int]]] = []

    def show(self, tokens: list[int]) -> Ids:
        array = np.array(tokens, np.int32)
        self._shown.append((array, tokens))
        return array

    def spoil(self, seed: int) -> None:
        """The call is over. Raises ProposerFailed when the class has written into what it was shown."""
        for array, tokens in self._shown:
            if array.tolist() != tokens:
                raise ProposerFailed(f"seed {seed}: it changed an array that it was shown")
            array[:] = self._worthless
        self._shown.clear()


def _afternoon(
    make: Make, config: ProposerConfig, seed: int, worthless: int, whole: bool
) -> list[list[int]]:
    """Everything that it drafted. worthless: what is left of arrays; the answers must not tell.

    whole: it is told of all rows of a step in one call, where it can be.
    """
    rng, answers = random.Random(seed), list[list[int]]()
    guard, loan = Guard(make(config)), _Loan(worthless)
    kinds = rng.choice((1, 2, 5, VOCAB))
    open_slots: dict[int, int] = {}
    for generation in range(MOVES):
        slot = rng.randrange(SLOTS)
        tokens = [rng.randrange(kinds) for _ in range(rng.choice((0, 1, 2, 3, 7, 40)))]
        if slot not in open_slots:
            open_slots[slot] = generation
            guard.open(slot, generation, loan.show(tokens), SALTS[generation % len(SALTS)])
        elif rng.random() < 0.1:
            guard.close(slot, open_slots.pop(slot))
        else:
            others = {other: [rng.randrange(kinds)] for other in open_slots if rng.random() < 0.5}
            texts = others | {slot: tokens or [rng.randrange(kinds)]}
            rows = _rows(loan, open_slots, texts, [rng.choice((0, 1, 2, 3, 16)) for _ in texts])
            answers += (_in_one if whole else _in_turn)(guard, rows)
        loan.spoil(seed)
        if guard.faults:
            raise ProposerFailed(f"seed {seed}, call {generation}: {_said(dict(guard.faults))}")
    return answers


def _rows(
    loan: _Loan, generations: dict[int, int], texts: dict[int, list[int]], most: list[int]
) -> StepRows:
    columns = (
        list(texts),
        [generations[slot] for slot in texts],
        [len(text) for text in texts.values()],
        most,
        [token for text in texts.values() for token in text],
    )
    return StepRows(*map(loan.show, columns))


def _in_turn(guard: Guard, rows: StepRows) -> list[list[int]]:
    slots, generations, most = (c.tolist() for c in (rows.slots, rows.generations, rows.most))
    for slot, generation, part in zip(slots, generations, rows.parts(), strict=True):
        guard.accepted(slot, generation, part)
    asked = zip(slots, generations, most, strict=True)
    return [guard.propose(*row, VOCAB).tolist() if row[2] else [] for row in asked]


def _in_one(guard: Guard, rows: StepRows) -> list[list[int]]:
    counts, ids = guard.step(rows, VOCAB)
    return [part.tolist() for part in rows._replace(counts=counts, token_ids=ids).parts()]


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 when the proposer does not conform."""
    parser = argparse.ArgumentParser(prog="python -m optimist.testing.proposer_conformance")
    parser.add_argument("proposer", help="ngram, suffix or module:Class")
    parser.add_argument(
        "--proposer-option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="an option of it, such as ngram_max=4, or of your class; may be repeated",
    )
    parser.add_argument("--seeds", type=int, default=200, help="afternoons (default: 200)")
    chosen = parser.parse_args(arguments)
    try:
        options = written_options(chosen.proposer, chosen.proposer_option)
        config = ProposerConfig(proposer=chosen.proposer, **options)
        check_proposer(make_proposer, config, seeds=chosen.seeds, simulations=chosen.seeds)
    except (AssertionError, ConfigError) as failure:
        print(failure, file=sys.stderr)
        return 1
    print(f"{chosen.proposer} conforms: {chosen.seeds} afternoons alone and in an engine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
