"""What `bench overlap` and `bench speculation` say of engines on a device that takes no time to load."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from optimist.actors.gateway.chunks import Completion
from optimist.bench import optimum, speculation
from optimist.bench.overlap import SlowEngine, steady
from optimist.bench.slow_planning import DELAY_S
from optimist.bench.speculation import TASKS, Task, chosen, compare
from optimist.cli.parser import parse
from optimist.cli.settings import command_value
from optimist.engine import Engine
from optimist.messages.errors import ConfigError
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import ByteTokenizer

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

INTEGERS = "optimist.testing.integer_model:IntegerExecutor"
STEPS = 60


def engine(kind: type[Engine] = Engine, sleep_ms: float = 0.0, **options: Any) -> Engine:
    device = {"vocab_size": 272, "sleep_ms": sleep_ms}
    return kind(executor=INTEGERS, executor_options=device, tokenizer=ByteTokenizer(272), **options)


async def test_a_delay_of_plans_is_waited_for_where_the_next_is_made_behind_the_result() -> None:
    late = await steady(engine(SlowEngine, placement="processes", depth=1), requests=4, steps=STEPS)
    assert late.batch_us / late.steps >= 1e6 * DELAY_S
    assert late.steps >= STEPS and late.steps_ahead == 0
    shares = late.shares()
    assert shares["waits_for_batch"] > shares["waits_for_drafts"] == shares["batch_ahead"] == 0


async def test_steps_are_ahead_where_the_device_takes_longer_than_the_plan() -> None:
    # So much longer that a busy machine has planned in time, too.
    made = await steady(
        engine(SlowEngine, sleep_ms=50.0, placement="processes", depth=2), requests=4, steps=20
    )
    assert made.step_us / made.steps >= 50_000
    assert made.steps_ahead > made.steps // 2


async def test_pairs_are_compared_by_their_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test's: an answer takes a second, with drafts 1, then 2, then 4."""
    now = 0.0

    def taking(*seconds: float) -> type[Engine]:
        costs = iter(seconds)

        class Timed(Engine):
            async def complete(self, *asked: Any, **options: Any) -> Completion:
                nonlocal now
                now += next(costs)
                return await super().complete(*asked, **options)

        return Timed

    monkeypatch.setattr(speculation, "time", SimpleNamespace(perf_counter=lambda: now))
    params = SamplingParams(max_tokens=8, temperature=0, ignore_eos=True)
    chats = [[{"role": "user", "content": text}] for text in "abc"]
    slower = taking(*[1.0] * 3, *[2.0] * 3, *[4.0] * 3)
    async with (
        engine(taking(*[1.0] * 9), placement="inline") as plain,
        engine(slower, placement="inline", proposer="ngram") as drafting,
    ):
        made = await compare(plain, drafting, Task(chats, params, at_once=2), pairs=2)
    assert made["ratio_range"] == [0.25, 0.5]
    assert made["ratio_quartiles"] == [0.3125, 0.4375] and made["ratio"] == 0.375
    assert (made["tokens_per_s"], made["tokens_per_s_drafting"]) == (8.0, 4.0)
    assert made["accepted"] <= made["drafted"]


async def test_parts_are_all_tasks_of_a_proposer_or_one_or_the_optimum() -> None:
    assert chosen("ngram/chat,optimum,ngram/repeat") == {"ngram": ["chat", "repeat"], "optimum": []}
    assert chosen("suffix,suffix/chat") == {"suffix": list(TASKS)}


@pytest.mark.parametrize("parts", ["", "ngrams", "ngram/", "ngram/chats", "optimum/chat", "ngram,"])
async def test_an_unknown_part_is_refused_by_name(parts: str) -> None:
    parsed = parse(["bench", "speculation", "--parts", parts])
    with pytest.raises(
        ConfigError, match="--parts: expected ngram, suffix, self-draft, optimum, or"
    ):
        chosen(command_value(parsed, "parts"))


async def test_pairs_say_how_often_each_task_is_measured_and_one_has_no_median(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed = parse(["bench", "speculation", "--parts", "self-draft/chat,optimum", "--pairs", "2"])
    asked = list[int]()

    async def compared(*engines: object, pairs: int = 0, **more: object) -> dict[str, int]:
        asked.append(pairs)
        return {"ratio": 1}

    async def best(*about: object) -> dict[str, int]:
        return {"optimum": 1}

    monkeypatch.setattr(
        speculation, "_against_none", lambda own, options, tasks, pairs: compared(pairs=pairs)
    )
    monkeypatch.setattr(optimum, "measure", best)
    parts, pairs = (command_value(parsed, name) for name in ("parts", "pairs"))
    found = await speculation.measure({}, parts, pairs)
    assert asked == [2]
    assert set(found["self-draft"]) == {"ratio", *(f"temperature_{t}" for t in ("0", "0.7", "1"))}
    with pytest.raises(ConfigError, match="--pairs: expected at least 2"):
        await speculation.measure({}, parts, 1)
