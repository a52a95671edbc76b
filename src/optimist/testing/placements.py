"""MATRIX through a whole Engine, in any placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from optimist.actors.config import Placement
from optimist.engine import Engine
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.drain import engine_drained
from optimist.testing.matrix import Cell, check_answers
from optimist.testing.oracle import Answer, NextToken
from optimist.testing.wishes import Wish

LATE_INTEGERS = "optimist.testing.late_device:LateDevice"
TOY = "optimist.testing.torch_toy:ToyExecutor"
VOCAB_SIZE = 272
"""of the byte tokenizer, and so of the models"""


def engine_of(cell: Cell, placement: Placement, **options: Any) -> Engine:
    """An engine with the options of a cell. options: further ones; executor says which model it runs.

    Whoever drafts in the cell must be a proposer that engines know by name.
    """
    setup = cell.setup()
    if cell.drafts:
        options = {"proposer": cell.drafts, "draft_tokens": setup.draft_tokens, **options}
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
    cell: Cell, placement: Placement, executor: str, next_token: NextToken
) -> None:
    """Run a cell through an engine. executor: `module:Class` with an option vocab_size.

    Raises MatrixRed where it differs from `next_token`, Leftovers when it does not come to rest.
    """
    wishes = cell.wishes(VOCAB_SIZE)
    options = {"executor": executor, "executor_options": {"vocab_size": VOCAB_SIZE}}
    async with engine_of(cell, placement, **options) as engine:
        check_answers(cell, wishes, await answers(engine, wishes), next_token)


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
