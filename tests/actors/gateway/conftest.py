"""A gateway over a scripted scheduler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from optimist.actors.config import GatewayConfig
from optimist.actors.gateway.actor import Gateway
from optimist.actors.gateway.chunks import Chunk
from optimist.actors.gateway.stream import Stream
from optimist.messages.client import Generate
from optimist.messages.params import SamplingParams
from optimist.messages.requests import Admit
from optimist.testing.byte_tokenizer import EOS, ByteTokenizer
from optimist.testing.scripted_scheduler import Script, ScriptedScheduler


class Bench:
    """A gateway, its scheduler, and a clock that a test moves."""

    def __init__(self, script: Script, **options: Any) -> None:
        self.now = 1000.0
        logprobs = options.pop("logprobs", False)
        self.scheduler = ScriptedScheduler(script, logprobs=logprobs)
        config = GatewayConfig(
            credit=options.pop("credit", 256), max_requests=options.pop("max_requests", 64)
        )
        self.gateway = Gateway(
            config,
            7,
            scheduler=self.scheduler,
            tokenizer=options.pop("tokenizer", ByteTokenizer()),
            clock=lambda: self.now,
            draw=lambda: 12345,
            **options,
        )

    def step(self, tokens: int = 1) -> None:
        """One step of the scheduler, seen by the gateway."""
        for message in self.scheduler.step(tokens):
            self.gateway.receive(message)
        self.gateway.turn()

    def open(self, prompt: str = "hi", **options: Any) -> Stream:
        """A stream for a text prompt. Options of Generate, and params as a dict."""
        params = SamplingParams(**options.pop("params", {}))
        return self.gateway.open(Generate(request="r", prompt=prompt, params=params, **options))

    def drain(self, stream: Stream, tokens: int = 1, steps: int = 1000) -> list[Chunk]:
        """Step until the stream has ended; everything it gave."""
        chunks: list[Chunk] = []
        for _ in range(steps):
            while (chunk := stream.take_nowait()) is not None:
                chunks.append(chunk)
            if stream.exhausted:
                return chunks
            self.step(tokens)
        raise AssertionError(f"the stream has not ended after {steps} steps")


MakeBench = Callable[..., Bench]


@pytest.fixture
def bench() -> MakeBench:
    """Makes a Bench whose scheduler answers every request with these tokens, then EOS."""

    def make(answer: str | bytes | Sequence[int] | Script = "hello", **options: Any) -> Bench:
        if callable(answer):
            return Bench(answer, **options)
        ids = list(answer.encode() if isinstance(answer, str) else answer)

        def script(_: Admit) -> list[int]:
            return [*ids, EOS]

        return Bench(script, **options)

    return make
