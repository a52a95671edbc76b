"""Our engine, as a program would hold it. One loop for the engine and for the commands."""

from __future__ import annotations

import json
import sys
import time
from importlib.util import find_spec
from typing import Any

import anyio
from guest import own_output

from optimist.engine import Engine
from optimist.messages.params import SamplingParams

BUSY, PERIOD = 0.003, 0.01
"""seconds that the loop computes, of so many"""


async def generate(engine: Engine, prompts: list[list[int]], tokens: int) -> int:
    """All at once, greedily, past every end. Returns how many tokens came."""
    wanted = SamplingParams(max_tokens=tokens, temperature=0, ignore_eos=True)
    came = [0]

    async def one(prompt: list[int]) -> None:
        async for chunk in engine.generate(prompt, wanted):
            came[0] += len(chunk.token_ids)

    async with anyio.create_task_group() as group:
        for prompt in prompts:
            group.start_soon(one, prompt)
    return came[0]


async def be_busy() -> None:
    """Compute in the loop for a part of every period."""
    while True:
        begun = time.perf_counter()
        while time.perf_counter() < begun + BUSY:
            pass
        await anyio.sleep(PERIOD - BUSY)


async def main() -> None:
    """Answer until the input ends. An option of the engine is one of the command line's."""
    answers, options = own_output(), json.loads(sys.argv[1])
    async with Engine(options.pop("model"), **options) as engine:
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            asked: dict[str, Any] = json.loads(line)
            answer: dict[str, float] = {}
            async with anyio.create_task_group() as group:
                if asked.get("busy"):
                    group.start_soon(be_busy)
                begun = time.perf_counter()
                answer["tokens"] = await generate(engine, asked["prompts"], asked["tokens"])
                answer["seconds"] = time.perf_counter() - begun
                group.cancel_scope.cancel()
            print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    anyio.run(main, backend_options={"use_uvloop": find_spec("uvloop") is not None})
