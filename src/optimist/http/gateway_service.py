"""A gateway in this process, an Engine's or one of its own, as the Service behind the HTTP face."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import anyio

from optimist.actors.gateway.health import Health
from optimist.engine_options import model_name
from optimist.messages.client import ChatMessage
from optimist.messages.errors import EngineError, InvalidRequest

if TYPE_CHECKING:
    from optimist.actors.gateway.actor import Gateway
    from optimist.actors.gateway.stream import Stream
    from optimist.messages.client import Generate
    from optimist.messages.requests import SchedulerStats


class GatewayService:
    """Implements Service. find: the gateway of the moment; an Engine that starts again has another."""

    def __init__(self, find: Callable[[], Gateway]) -> None:
        self._find = find

    @property
    def _gateway(self) -> Gateway:
        return self._find()

    @property
    def model_name(self) -> str:
        """As configured, or the file name of the model without its suffix."""
        return model_name(self._gateway.config)

    @property
    def max_model_len(self) -> int:
        """0 until the scheduler has said."""
        return self._gateway.max_model_len or 0

    async def submit(self, generate: Generate) -> Stream:
        """See Gateway.submit."""
        return await self._gateway.submit(generate)

    async def encode(self, text: str) -> Sequence[int]:
        """Off the loop: a long text takes a while."""
        return await anyio.to_thread.run_sync(self._gateway.tokenizer.encode, text)

    async def encode_chat(self, messages: Sequence[ChatMessage]) -> Sequence[int]:
        """Off the loop: templates are the model's own. Raises InvalidRequest when one refuses."""
        turns = [{"role": turn.role, "content": turn.content} for turn in messages]
        try:
            return await anyio.to_thread.run_sync(self._gateway.tokenizer.encode_chat, turns)
        except ValueError as error:
            raise InvalidRequest(f"messages: {error}", field="messages") from error

    def decode(self, token_ids: Sequence[int], *, field: str) -> str:
        """Special tokens are left out. Raises InvalidRequest naming one outside the vocabulary."""
        tokenizer = self._gateway.tokenizer
        for at, token in enumerate(token_ids):
            if not 0 <= token < tokenizer.vocab_size:
                where = f"{field}[{at}]"
                raise InvalidRequest(
                    f"{where}: expected an id in [0, {tokenizer.vocab_size}), got {token}",
                    field=where,
                )
        shown = (t for t in token_ids if t not in tokenizer.special_ids)
        return b"".join(map(tokenizer.token_bytes, shown)).decode("utf-8", "replace")

    def health(self) -> Health:
        """See Gateway.health. An engine that does not run is not well, and says why."""
        try:
            return self._gateway.health()
        except EngineError as error:
            return Health(healthy=False, accepting=False, reason=str(error))

    def stats(self) -> SchedulerStats | None:
        """As the scheduler last said; None where there is none."""
        try:
            return self._gateway.scheduler_stats
        except EngineError:
            return None

    def dropped(self) -> Mapping[str, int]:
        """As the gateway has heard; nothing where there is none."""
        try:
            return self._gateway.counts.dropped
        except EngineError:
            return {}
