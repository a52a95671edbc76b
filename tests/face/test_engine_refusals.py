"""What an Engine refuses of its options and of a request: by name, and what was expected."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from optimist.engine import Engine
from optimist.messages.errors import ConfigError, InvalidRequest
from optimist.messages.params import SamplingParams
from optimist.testing.byte_tokenizer import EOS
from optimist.testing.scripted_engine import ScriptedEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine() -> AsyncIterator[ScriptedEngine]:
    async with ScriptedEngine(lambda _: [*b"hello", EOS]) as engine:
        yield engine


@pytest.mark.parametrize(
    ("prompt", "field"),
    [(3, "prompt"), (b"hi", "prompt"), ({"role": "user"}, "prompt"), ([1.5], "prompt_ids[0]"),
     ([True], "prompt_ids[0]"), ([{"role": "user"}], "messages[0].content"), ([{"role": "u", "content": ""}, 3],
     "messages[1]"), ("", "prompt"), ([], "prompt_ids")],
)  # fmt: skip
async def test_a_bad_prompt_is_refused_naming_the_field(
    engine: ScriptedEngine, prompt: Any, field: str | None
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.complete(prompt)
    assert refused.value.problem.field == field
    assert (await engine.complete("hi")).text == "hello"


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"stop": "END"}, "stop: expected a tuple of strings, got 'END'"),
        ({"max_tokens": 1.5}, "max_tokens: expected a whole number or None, got 1.5"),
        ({"n": True}, "n: expected a whole number, got True"),
    ],
)
async def test_parameters_of_the_wrong_type_are_refused(
    engine: ScriptedEngine, params: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.complete("hi", SamplingParams(**params))
    assert str(refused.value) == reason
    assert refused.value.problem.field == next(iter(params))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"want_txt": False}, "want_txt: no such option of a request; the nearest is want_text"),
        (
            {"temperature": 0},
            "temperature: no such option of a request; give it as SamplingParams(temperature=...)",
        ),
        (
            {"xyz": 1},
            (
                "xyz: no such option of a request; expected one of want_text, priority, "
                "deadline_ms, cache_salt, trace"
            ),
        ),
        ({"want_text": "no"}, "want_text: expected bool, got str"),
        ({"deadline_ms": 1.5}, "deadline_ms: expected int or None, got float"),
    ],
)
async def test_options_of_a_request_that_are_wrong_are_refused_by_name(
    engine: ScriptedEngine, options: dict[str, Any], reason: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await engine.complete("hi", **options)
    assert str(refused.value) == reason
    assert refused.value.problem.field == next(iter(options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dpeth": 2}, "dpeth: no such option of Engine; the nearest is depth"),
        ({"qqqq": 2}, "qqqq: no such option of Engine"),
        ({"most_drafts": 2}, "most_drafts: no such option of Engine"),
        ({"draft_wait": -0.5}, "draft_wait: expected float >= 0.0, got -0.5"),
        ({"depth": "two"}, "depth: expected int, got 'two'"),
        ({"depth": 5}, "depth: expected int <= 2, got 5"),
        ({"threads": 0}, "threads: expected int >= 1, got 0"),
        (
            {"dtype": "float8"},
            "dtype: expected one of float32, bfloat16, float64, got 'float8'",
        ),
        (
            {"draft_tokens": "many", "proposer": "ngram"},
            "draft_tokens: expected one of auto, a whole number, got 'many'",
        ),
        (
            {"placement": "cloud"},
            "placement: expected one of inline, embedded, processes, got 'cloud'",
        ),
    ],
)
async def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Engine(**options)
    assert str(refused.value) == message
