"""What the HTTP face asks of the engine behind it: a gateway, an Engine, or a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from optimist.actors.gateway.chunks import Chunk
from optimist.actors.gateway.health import Health
from optimist.messages.client import ChatMessage, Generate
from optimist.messages.requests import SchedulerStats


class Chunks(Protocol):
    """What comes of one request: the last chunk of each of its n choices has an `end`.

    Iterating raises a ProblemError when the request is refused or fails.
    """

    def __aiter__(self) -> AsyncIterator[Chunk]: ...

    def close(self) -> None:
        """Leave: the request is cancelled unless it has ended. Idempotent."""
        ...


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

    def decode(self, token_ids: Sequence[int], *, field: str) -> str:
        """The text of token ids. Raises InvalidRequest, naming the field, for an unknown one."""
        ...

    def health(self) -> Health:
        """Whether requests get on, and whether new ones are taken."""
        ...

    def stats(self) -> SchedulerStats | None:
        """How busy the engine is, as the scheduler last said; None before it did."""
        ...

    def dropped(self) -> Mapping[str, int]:
        """Frames on actors' sockets that were no messages, by actor."""
        ...
