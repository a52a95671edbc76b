"""`optimist chat`: a conversation on the terminal.

The engine lives in a loop of its own thread, so that the main thread can read lines and be
interrupted. Ctrl-C ends the answer that is coming, or clears the line; Ctrl-D ends the program, and
/clear forgets what was said. When the context is full, the oldest turns are forgotten.
"""

from __future__ import annotations

import sys
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol

from anyio.from_thread import start_blocking_portal

from optimist.cli.settings import command_value, make_engine, sampling_params
from optimist.cli.timing import Timing
from optimist.messages.errors import RequestError, TooLarge

if TYPE_CHECKING:
    from optimist.cli.parser import Parsed
    from optimist.engine import Engine
    from optimist.messages.params import SamplingParams

CLEAR = "/clear"

Turns = list[dict[str, str]]


class Ask(Protocol):
    """Answers the conversation so far, printing as it goes; what was said before an interruption."""

    def __call__(self, turns: Turns, /) -> str: ...


def run(parsed: Parsed) -> int:
    """Talk until the end of input."""
    params, engine = sampling_params(parsed), make_engine(parsed)
    system = command_value(parsed, "system", "")
    turns: Turns = [{"role": "system", "content": system}] if system else []
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(engine):

        def ask(turns: Turns) -> str:
            said: list[str] = []
            answer = portal.start_task_soon(_answer, engine, turns, params, said)
            try:
                print(f"\n{wait_for(answer)}\n")
            except KeyboardInterrupt:
                answer.cancel()
                print("\n[interrupted]\n")
            return "".join(said)

        if sys.stdin.isatty():
            print(
                f"{engine.model_name}. Ctrl-C ends an answer, Ctrl-D the chat; /clear forgets it.\n"
            )
        converse(ask, turns)
    return 0


def wait_for(answer: Future[str]) -> str:
    """The end of an answer. Raises KeyboardInterrupt when the user does not want to wait for it."""
    return answer.result()


def converse(ask: Ask, turns: Turns) -> None:
    """Read lines and have them answered until the input ends."""
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "")
        except KeyboardInterrupt:
            print()
            continue
        except EOFError:
            if sys.stdin.isatty():
                print()
            return
        if not line.strip():
            continue
        if line.strip() == CLEAR:
            del turns[_lasting(turns) :]
            print("[forgotten]")
            continue
        turns.append({"role": "user", "content": line})
        try:
            turns.append({"role": "assistant", "content": _asked(ask, turns)})
        except RequestError as error:
            print(f"optimist: {error}", file=sys.stderr)
            turns.pop()


def _asked(ask: Ask, turns: Turns) -> str:
    """The answer. Forgets the oldest question and answer as often as the context is full."""
    while True:
        try:
            return ask(turns)
        except TooLarge:
            oldest = _lasting(turns)
            if len(turns) - oldest < 3:
                raise
            del turns[oldest : oldest + 2]
            print("[the context is full: the oldest question and its answer are forgotten]")


def _lasting(turns: Turns) -> int:
    """How many turns are never forgotten: the system message."""
    return int(bool(turns) and turns[0]["role"] == "system")


async def _answer(engine: Engine, turns: Turns, params: SamplingParams, said: list[str]) -> str:
    """Stream one answer into `said` and onto the terminal. Returns how fast it came."""
    timing, tokens, cut = Timing(), 0, ""
    generation: Any = engine.generate(list(turns), params)
    async for chunk in generation:
        timing.took(len(chunk.token_ids))
        tokens += len(chunk.token_ids)
        said.append(chunk.text)
        cut = ", cut at the limit" if chunk.finish_reason == "length" else ""
        sys.stdout.write(chunk.text)
        sys.stdout.flush()
    return f"[{tokens} tokens, {timing.tokens_per_s or 0:.1f} tok/s{cut}]"
