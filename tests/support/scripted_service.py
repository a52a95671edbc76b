"""A Service for tests of the HTTP face: it says what a test scripts, at the test's pace."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import anyio

from optimist.actors.gateway.chunks import Chunk, Ending
from optimist.actors.gateway.health import Health
from optimist.messages.client import Alternative, ChatMessage, Generate, TokenLogprob, Usage
from optimist.messages.errors import InvalidRequest, ProblemError
from optimist.messages.requests import SchedulerStats

VOCABULARY = 1000
WELL = Health(healthy=True, accepting=True, reason="")
STATS = SchedulerStats(
    incarnation=1,
    waiting=0,
    running=0,
    free_blocks=9,
    num_blocks=10,
    steps=3,
    preemptions=0,
    prompt_tokens=7,
    cached_tokens=2,
    emitted_tokens=5,
    wasted_tokens=1,
    last_step_at=0.0,
    max_model_len=2048,
    proposer="ngram",
    draft_rows=2,
    drafted_tokens=6,
    accepted_tokens=3,
    accepted_at=(2, 1),
)


@dataclass
class ScriptedService:
    """Each request says `words`, one a chunk, for each of its choices; a token is a word.

    refusal: raised by submit. failure: raised behind `fail_after` chunks. gate: when given, a chunk
    is said only while it is set.
    """

    words: tuple[str, ...] = ("Hello", " world", "!")
    refusal: ProblemError | None = None
    failure: ProblemError | None = None
    fail_after: int = 0
    gate: anyio.Event | None = None
    asked: list[Generate] = field(default_factory=list)
    streams: list[ScriptedStream] = field(default_factory=list)
    state: Health = WELL
    model_name: str = "scripted"
    max_model_len: int = 2048

    async def submit(self, generate: Generate) -> ScriptedStream:
        if self.refusal is not None:
            raise self.refusal
        self.asked.append(generate)
        stream = ScriptedStream(self, generate)
        self.streams.append(stream)
        return stream

    async def encode(self, text: str) -> Sequence[int]:
        return list(text.encode())

    async def encode_chat(self, messages: Sequence[ChatMessage]) -> Sequence[int]:
        return [byte for message in messages for byte in message.content.encode()]

    def decode(self, token_ids: Sequence[int], *, field: str) -> str:
        if any(not 0 <= token < VOCABULARY for token in token_ids):
            raise InvalidRequest(f"{field}: not in the vocabulary", field=field)
        return "".join(chr(97 + token % 26) for token in token_ids)

    def health(self) -> Health:
        return self.state

    def stats(self) -> SchedulerStats | None:
        return STATS

    def dropped(self) -> dict[str, int]:
        return {"worker": 4}


class ScriptedStream:
    """What one request says. closed: the face has left it."""

    def __init__(self, service: ScriptedService, generate: Generate) -> None:
        self.closed = False
        self.ended = False
        self._service = service
        self._generate = generate

    def close(self) -> None:
        self.closed = True

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        said = 0
        words = self._service.words[: self._generate.params.max_tokens]
        for index, word in enumerate(words):
            for choice in range(self._generate.params.n):
                if self._service.failure is not None and said == self._service.fail_after:
                    raise self._service.failure
                if self._service.gate is not None:
                    await self._service.gate.wait()
                await anyio.lowlevel.checkpoint()
                said += 1
                yield self._chunk(choice, index, f"{word}{choice or ''}", index == len(words) - 1)
        self.ended = True

    def _chunk(self, choice: int, index: int, word: str, last: bool) -> Chunk:
        usage = Usage(prompt_tokens=4, completion_tokens=index + 1, cached_tokens=2)
        end = Ending(finish_reason="length", usage=usage, seed=7 + choice) if last else None
        return Chunk(
            choice=choice,
            index=index,
            token_ids=(index,),
            text=word,
            logprobs=self._logprobs(index, word),
            end=end,
        )

    def _logprobs(self, index: int, word: str) -> tuple[TokenLogprob, ...] | None:
        wanted = self._generate.params.logprobs
        if wanted is None:
            return None
        top = tuple(
            Alternative(id=at, token=f"{word}~{at}", logprob=-float(at)) for at in range(wanted)
        )
        return (TokenLogprob(id=index, token=word, logprob=float("-inf"), top=top),)
