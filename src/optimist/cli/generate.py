"""`optimist generate`: continue one prompt and stop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from optimist.cli.settings import command_value, make_engine, sampling_params
from optimist.cli.timing import Timing
from optimist.messages.errors import ConfigError

if TYPE_CHECKING:
    from optimist.asking import Prompt
    from optimist.cli.parser import Parsed
    from optimist.engine import Engine
    from optimist.messages.params import SamplingParams


def run(parsed: Parsed) -> int:
    """Print the continuation as it comes, or one JSON object at the end."""
    prompt, params = _prompt(parsed), sampling_params(parsed)
    engine = make_engine(parsed)
    work = _whole if command_value(parsed, "json") else _streamed
    anyio.run(work, engine, prompt, params)
    return 0


def _prompt(parsed: Parsed) -> Prompt:
    text, ids = parsed.prompt, command_value(parsed, "prompt_ids")
    if (text is None) == (ids is None):
        raise ConfigError("generate: expected either a PROMPT or --prompt-ids")
    if ids is not None:
        if command_value(parsed, "chat"):
            raise ConfigError("--chat: expected a PROMPT, got --prompt-ids")
        return list(ids)
    if command_value(parsed, "chat"):
        return [{"role": "user", "content": text}]
    return str(text)


async def _streamed(engine: Engine, prompt: Prompt, params: SamplingParams) -> None:
    last = ""
    async with engine:
        async for chunk in engine.generate(prompt, params):
            sys.stdout.write(chunk.text)
            sys.stdout.flush()
            last = chunk.text or last
    if not last.endswith("\n"):
        print()


async def _whole(engine: Engine, prompt: Prompt, params: SamplingParams) -> None:
    from optimist.actors.gateway.chunks import complete
    from optimist.speculation import speculation

    loading = Timing()
    async with engine:
        loading.took(1)
        timing, chunks = Timing(), []
        async for chunk in engine.generate(prompt, params):
            timing.took(len(chunk.token_ids))
            chunks.append(chunk)
        completion = complete(chunks)
        drafts = await speculation(engine, len(completion.token_ids))
    answer: dict[str, Any] = {
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "seed": completion.seed,
        "usage": msgspec.to_builtins(completion.usage),
        "speculation": drafts,
        "timing": {
            "load_ms": loading.ttft_ms,
            "ttft_ms": timing.ttft_ms,
            "tokens_per_s": timing.tokens_per_s,
        },
    }
    print(msgspec.json.encode(answer).decode())
