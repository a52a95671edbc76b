"""MATRIX through a whole Engine, in any placement."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from optimist.actors.config import Placement
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.speculation import speculation
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.drain import engine_drained
from optimist.testing.matrix import Cell, check_answers
from optimist.testing.oracle import Answer, NextToken
from optimist.testing.wishes import Wish

LATE_INTEGERS = "optimist.testing.late_device:LateDevice"
TOY = "optimist.testing.torch_toy:ToyExecutor"
SCRIPT = "optimist.testing.script_proposer:FileScript"
VOCAB_SIZE = 272
"""of the byte tokenizer, and so of the models"""

NGRAM = {"ngram_min": 1, "ngram_max": 3}
PATIENT = {"draft_wait": 1000.0}
EAGER: dict[str, dict[str, Any]] = {
    "ngram": {**NGRAM, **PATIENT},
    "suffix": {"suffix_probability": 0.01, **PATIENT},
    "script": PATIENT,
    "ngram-device": NGRAM,
}
"""options with which who drafts does so wherever it can, and no step goes without what it could have had"""


class Drafted(NamedTuple):
    """drafted, accepted: drafts verified in an engine, and those that were right."""

    drafted: int
    accepted: int


def engine_of(cell: Cell, placement: Placement, **options: Any) -> Engine:
    """An engine with the options of a cell. options: further ones; executor says which model it runs.

    Whoever drafts in the cell must be a proposer that engines know by name, or `options` name another.
    """
    setup = cell.setup()
    if cell.drafts:
        drafts = {"proposer": cell.drafts, "draft_tokens": setup.draft_tokens}
        options = {**drafts, **EAGER.get(cell.drafts, {}), **options}
    return Engine(
        None,
        placement,
        tokenizer=ByteTokenizer(VOCAB_SIZE),
        depth=setup.depth,
        max_chunk=setup.max_chunk,
        prefix_cache=setup.prefix_cache,
        kv_blocks=setup.num_blocks,
        block_size=setup.block_size,
        max_slots=setup.max_slots,
        max_model_len=setup.max_model_len,
        **options,
    )


async def check_placed(
    cell: Cell, placement: Placement, executor: str, next_token: NextToken, **options: Any
) -> Drafted:
    """Run a cell through an engine. executor: `module:Class` with an option vocab_size; options: others.

    `script` drafts too, see drafting. Raises MatrixRed where it differs from `next_token`, Leftovers
    when it does not come to rest.
    """
    wishes = cell.wishes(VOCAB_SIZE)
    made = {"executor": executor, "executor_options": {"vocab_size": VOCAB_SIZE, **options}}
    with drafting(cell, wishes, next_token) as drafts:
        async with engine_of(cell, placement, **made, **drafts) as engine:
            found = await answers(engine, wishes)
            check_answers(cell, wishes, found, next_token)
            if not cell.drafts:
                return Drafted(0, 0)
            said = await speculation(engine, sum(len(one.token_ids) for one in found))
    return Drafted(said["drafted"], said["accepted"])


@contextmanager
def drafting(cell: Cell, wishes: Sequence[Wish], next_token: NextToken) -> Iterator[dict[str, Any]]:
    """Options of an engine in which `script` drafts: all that is right, from a file. Of others none."""
    if cell.drafts != "script":
        yield {}
        return
    limit = cell.setup().context_limit
    texts = [[*one.prompt_ids, *one.answer(next_token, limit).token_ids] for one in wishes]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "texts.json")
        path.write_text(json.dumps(texts), encoding="utf-8")
        options = {"texts": str(path), "vocab_size": VOCAB_SIZE}
        yield {"proposer": SCRIPT, "proposer_options": options}


async def answers(engine: Engine, wishes: Sequence[Wish]) -> list[Answer]:
    """Ask for all wishes, those of one arrival together; then the engine must have come to rest."""
    found: dict[int, Answer] = {}
    for arrival in sorted({wish.arrival for wish in wishes}):
        async with anyio.create_task_group() as tasks:
            for i, wish in enumerate(wishes):
                if wish.arrival == arrival:
                    tasks.start_soon(_ask, engine, i, wish, found)
    await engine_drained(engine)
    return [found[i] for i in range(len(wishes))]


async def _ask(engine: Engine, i: int, wish: Wish, found: dict[int, Answer]) -> None:
    params = SamplingParams(
        max_tokens=wish.max_tokens,
        temperature=wish.sampling.temperature,
        seed=wish.sampling.seed,
        stop_token_ids=wish.stop_ids,
        ignore_eos=True,
    )
    got = await engine.complete(list(wish.prompt_ids), params, want_text=False)
    found[i] = Answer(list(got.token_ids), got.finish_reason)
