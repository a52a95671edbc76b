"""Whatever the order of tokens, takes, repeats and restarts, each stream is the whole of its script."""

from __future__ import annotations

import random
from typing import Any

import pytest

from optimist.actors.gateway.chunks import Chunk, complete
from optimist.actors.gateway.stream import Stream
from optimist.messages.requests import Admit, Tokens
from optimist.testing.byte_tokenizer import EOS

CREDIT = 7


def script_of(seed: int) -> list[int]:
    """Some characters of one to four bytes, from the request's own seed."""
    chance = random.Random(seed)
    text = "".join(chance.choice("aé한🦀\u0301 ") for _ in range(chance.randrange(30)))
    return [*text.encode(), EOS]


class Run:
    """One random course of events."""

    def __init__(self, make: Any, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = make(lambda admit: script_of(admit.sampling.seed), credit=CREDIT)
        self.streams: list[tuple[Stream, list[Chunk]]] = []
        self.repeats: list[Tokens] = []

    def event(self) -> None:
        match self.chance.randrange(8):
            case 0 if len(self.streams) < 12:
                params = {"seed": self.chance.randrange(2**40), "n": self.chance.choice((1, 1, 3))}
                self.streams.append((self.made.open(params=params), []))
            case 1:
                self.made.gateway.receive(self.made.scheduler.restart())
                self.repeats.clear()
            case 2 if self.repeats:
                self.made.gateway.receive(self.chance.choice(self.repeats))
            case 3 | 4 if self.streams:
                self.take(*self.chance.choice(self.streams))
            case _:
                self.step()

    def step(self) -> None:
        for message in self.made.scheduler.step(self.chance.choice((1, 2, 5))):
            self.made.gateway.receive(message)
            if isinstance(message, Tokens):
                self.repeats.append(message)
        self.made.gateway.turn()
        for entry in self.made.gateway._roster:  # noqa: SLF001 - the bound is what is tested
            assert entry.taken <= len(entry.delivered) <= entry.allowed <= entry.taken + CREDIT

    def take(self, stream: Stream, chunks: list[Chunk]) -> None:
        if (chunk := stream.take_nowait()) is not None:
            chunks.append(chunk)

    def finish(self) -> None:
        for _ in range(2000):
            self.step()
            for stream, chunks in self.streams:
                self.take(stream, chunks)
            if all(stream.exhausted for stream, _ in self.streams):
                return
        raise AssertionError("not every stream has ended")


@pytest.mark.parametrize("seed", range(60))
def test_every_stream_is_the_whole_of_its_script(bench: Any, seed: int) -> None:
    run = Run(bench, seed)
    for _ in range(300):
        run.event()
    run.finish()
    assert run.streams
    for stream, chunks in run.streams:
        result = complete(chunks)
        assert result.seed == stream.seed
        for choice in result.choices:
            ids = script_of(choice.end.seed)
            assert list(choice.token_ids) == ids
            assert choice.text == bytes(ids[:-1]).decode()
            assert choice.end.usage.completion_tokens == len(ids)
        assert [c.index for c in chunks if c.choice == 0] == sorted(
            c.index for c in chunks if c.choice == 0
        )
    assert run.made.gateway.live == 0
    assert run.made.gateway.counts.gaps == 0
    admits: list[Admit] = run.made.scheduler.admits
    assert all(admit.credit <= CREDIT for admit in admits)
