"""MATRIX: every way to run the same requests must give what ORACLE says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, product
from typing import Any, Literal, NamedTuple, TypeVar

from optimist.messages.slots import Sampling
from optimist.testing.gap import GapRule
from optimist.testing.gateway_model import Journal
from optimist.testing.inspector import Inspector
from optimist.testing.integer_rule import IntegerModel
from optimist.testing.oracle import Answer, NextToken
from optimist.testing.plan_rules import PlanRules
from optimist.testing.setup import OURS, Parts, Setup
from optimist.testing.wishes import Wish
from optimist.testing.world import World

WHOLE = 512
BLOCK = 4
CONTEXT = 40
INTEGERS = IntegerModel()
FEW_WORDS = IntegerModel(words=3)
"""repeats itself, so that who drafts from what was said is right now and then"""


Pool = Literal["small", "large"]
Choice = Literal["greedy", "seeded"]
POOLS: tuple[Pool, ...] = ("small", "large")
SAMPLINGS: tuple[Choice, ...] = ("greedy", "seeded")
DRAFTS = (
    *(
        "ngram",
        "suffix",
        "right",
        "wrong",
        "first-1",
        "first-2",
        "end-0",
        "end-1",
        "too-many",
        "none",
    ),
    *("lie-late", "lie-too-many", "device-right", "device-first-1"),
)
"""who drafts, see optimist.testing.drafting"""


class Cell(NamedTuple):
    """One combination. chunk: prompt tokens of a step. cache: prefix cache. batch: requests at once.

    drafts: who drafts, "" is nobody.
    """

    depth: int
    chunk: int
    cache: bool
    pool: Pool
    batch: int
    sampling: Choice
    drafts: str = ""

    def __str__(self) -> str:
        return "-".join(f"{name}={value}" for name, value in self._asdict().items() if value != "")

    def setup(self, model: IntegerModel = INTEGERS) -> Setup:
        """The engine of this cell. A small pool holds one request of full length, and little more."""
        least = -(-CONTEXT // BLOCK)
        return Setup(
            depth=self.depth,
            max_chunk=self.chunk,
            prefix_cache=self.cache,
            num_blocks=least + 1 if self.pool == "small" else 16 * least,
            block_size=BLOCK,
            max_slots=8,
            max_model_len=CONTEXT,
            model=model,
            lateness=2,
            drafts=self.drafts,
        )

    def wishes(self, vocab_size: int) -> tuple[Wish, ...]:
        """`batch` requests at once, and later the same again, some of them longer by a token."""
        first = [self._wish(i, vocab_size) for i in range(self.batch)]
        later = [
            wish._replace(prompt_ids=wish.prompt_ids + (1 + i,) * (i % 3 > 0), arrival=1000.0)
            for i, wish in enumerate(first)
        ]
        return (*first, *later)

    def _wish(self, i: int, vocab_size: int) -> Wish:
        length = (9, 1, 17, 8, 30, 3, 12)[i]
        stem = [(7 * position + 3) % vocab_size for position in range(8)]
        own = [(position * position + 11 * i) % vocab_size for position in range(length)]
        return Wish(
            prompt_ids=tuple((stem + own)[:length] if i % 3 else own),
            max_tokens=(12, 30, 5, 1, 40, 20, 8)[i],
            sampling=Sampling(temperature=float(self.sampling == "seeded"), seed=i - 3),
            stop_ids=self._stop_ids(vocab_size) if i % 2 else (),
        )

    def _stop_ids(self, vocab_size: int) -> tuple[int, ...]:
        """With drafts so many that requests end in the middle of them."""
        return tuple(range(0, vocab_size, 12)) if self.drafts else (5,)


def cells(drafts: Sequence[str] = ("",)) -> list[Cell]:
    """All of them in which one of these drafts, by default nobody."""
    every = product((1, 2), (1, 3, WHOLE), (True, False), POOLS, (1, 2, 7), SAMPLINGS, drafts)
    return [Cell(*values) for values in every]


Row = TypeVar("Row", bound=tuple[Any, ...])


def pairwise(every: Sequence[Row]) -> list[Row]:
    """A few rows in which every pair of values of two columns that occurs at all occurs."""
    missing = {pair for row in every for pair in _pairs(row)}
    chosen: list[Row] = []
    while missing:
        best = max(every, key=lambda row: len(missing & set(_pairs(row))))
        chosen.append(best)
        missing -= set(_pairs(best))
    return chosen


def _pairs(row: tuple[Any, ...]) -> Iterable[tuple[tuple[int, Any], tuple[int, Any]]]:
    return combinations(enumerate(row), 2)


Run = Callable[[Cell, Sequence[Wish]], list[Answer]]
"""runs the requests of a cell somehow and returns their answers in order"""


class MatrixRed(AssertionError):
    """Cells that differ from ORACLE, and how."""


def check_cell(
    cell: Cell, run: Run, next_token: NextToken, vocab_size: int = INTEGERS.vocab_size
) -> None:
    """Raises MatrixRed where the run's answers are not those of ORACLE."""
    wishes = cell.wishes(vocab_size)
    check_answers(cell, wishes, _ran(cell, run, wishes), next_token)


def check_answers(
    cell: Cell, wishes: Sequence[Wish], found: Sequence[Answer], next_token: NextToken
) -> None:
    """Raises MatrixRed where these answers to the wishes of a cell are not those of ORACLE."""
    expected = [wish.answer(next_token, cell.setup().context_limit) for wish in wishes]
    wrong = [
        f"  request {i}: {got}, expected {wanted}"
        for i, (got, wanted) in enumerate(zip(found, expected, strict=True))
        if got != wanted
    ]
    if wrong:
        raise MatrixRed(f"{cell}:\n" + "\n".join(wrong))


def _ran(cell: Cell, run: Run, wishes: Sequence[Wish]) -> list[Answer]:
    try:
        return run(cell, wishes)
    except Exception as error:
        raise MatrixRed(f"{cell}: {type(error).__name__}: {error}") from error


class Seen(NamedTuple):
    """What happened in a cell, so that a test can tell whether it tested anything."""

    steps: int
    preemptions: int
    cached_tokens: int
    drafted: int
    accepted: int
    loose_bounds: int


def inline(
    parts: Parts = OURS,
    model: IntegerModel = INTEGERS,
    seen: Callable[[Seen], None] | None = None,
) -> Run:
    """Runs a cell through the actors of `parts`, in one place, on virtual time and a late device."""

    def run(cell: Cell, wishes: Sequence[Wish]) -> list[Answer]:
        world = World(0, cell.setup(model), wishes, parts=parts)
        rules, gap = PlanRules(world), GapRule(world)
        Inspector(world, check=True)
        world.run()
        if seen is not None:
            seen(
                Seen(
                    rules.steps,
                    rules.preemptions,
                    world.gateway.cached_tokens,
                    rules.drafted,
                    rules.accepted,
                    gap.loose,
                )
            )
        return [_answer(journal) for journal in world.gateway.journals.values()]

    return run


def _answer(journal: Journal) -> Answer:
    if journal.finish is None:
        raise MatrixRed(f"a request ended with {journal.code}")
    return Answer(journal.tokens, journal.finish)
