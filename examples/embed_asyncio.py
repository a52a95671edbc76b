"""An engine inside an asyncio program: stream one answer, then ask several things at once."""

from __future__ import annotations

import asyncio

from optimist import Engine, SamplingParams

PARAMS = SamplingParams(max_tokens=24, temperature=0)
QUESTIONS = ("What is a cat?", "What is a dog?", "What is a fox?")


async def answer(engine: Engine, question: str) -> str:
    result = await engine.complete([{"role": "user", "content": question}], PARAMS)
    return f"{question} {result.text.strip()}"


async def main() -> None:
    async with Engine() as engine:
        async for chunk in engine.generate("The capital of France is", PARAMS):
            print(chunk.text, end="", flush=True)
        print()
        for line in await asyncio.gather(*(answer(engine, question) for question in QUESTIONS)):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
