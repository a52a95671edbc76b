"""An engine inside a trio program: an answer that may take two seconds and not longer."""

from __future__ import annotations

import trio

from optimist import Engine, SamplingParams

PARAMS = SamplingParams(max_tokens=1000, temperature=0)


async def main() -> None:
    async with Engine() as engine:
        with trio.move_on_after(2) as limit:
            async for chunk in engine.generate("Once upon a time", PARAMS):
                print(chunk.text, end="", flush=True)
        print("\n(out of time)" if limit.cancelled_caught else "")


if __name__ == "__main__":
    trio.run(main)
