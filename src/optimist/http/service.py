"""What the HTTP face asks of the engine behind it: a gateway, an Engine, or a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

from optimist.actors.gateway.chunks import Chunk
from optimist.messages.client import ChatMessage, Generate


class Chunks(Protocol):
    """What comes of one request: the last chunk of each of its n choices has an `end`.

    Iterating raises a ProblemError when the request is refused or fails.
    """

    def __aiter__(self) -> AsyncIterator[Chunk]: ...

    def close(self) -> None:
        """Leave: the request is cancelled unless it has ended. Idempotent."""
        ...


class Vitals(NamedTuple):
    """How the engine is.

    ready: takes requests. lost: the actor that is down at the moment, "" when none is.
    since_step: seconds since a step last settled; None while nothing runs.
    """

    ready: bool
    lost: str
    since_step: float | None
    waiting: int
    running: int
    free_blocks: int
    num_blocks: int
    steps: int
    preemptions: int
    prompt_tokens: int
    cached_tokens: int
    emitted_tokens: int


class Service(Protocol):
    """An engine that serves one model."""

    @property
    def model_name(self) -> str:
        """What clients call the model."""
        ...

    @property
    def max_model_len(self) -> int:
        """Tokens of one request, prompt included."""
        ...

    async def submit(self, generate: Generate) -> Chunks:
        """Begin a request. Raises InvalidRequest, TooLarge, Overloaded or an EngineError."""
        ...

    async def encode(self, text: str) -> Sequence[int]:
        """The token ids of a text, as a prompt would get them."""
        ...

    async def encode_chat(self, messages: Sequence[ChatMessage]) -> Sequence[int]:
        """The token ids of a conversation. Raises InvalidRequest when the template refuses it."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of token ids. Raises InvalidRequest when one is not in the vocabulary."""
        ...

    def vitals(self) -> Vitals:
        """How the engine is, at once and without asking an actor."""
        ...
