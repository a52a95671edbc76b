"""An Engine without a model, for the tests of programs that embed one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar, NamedTuple

import anyio

from optimist.actors.base import Actor
from optimist.actors.config import GatewayConfig
from optimist.actors.gateway.actor import Gateway, GatewayInbox
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.engine import Engine
from optimist.life import Running
from optimist.messages.base import ActorMessage
from optimist.messages.control import Resync, SyncMode
from optimist.messages.requests import Admit, Cancel, Grant
from optimist.testing.byte_tokenizer import ByteTokenizer
from optimist.testing.scripted_scheduler import Script, ScriptedScheduler
from optimist.transport.base import Ref
from optimist.transport.mailbox import Mailbox

SchedulerInbox = Admit | Cancel | Grant | Resync


class ScriptedEngine(Engine):
    """Answers every request with the tokens of a script, one at a time; the rest is a real Engine.

    scheduler: what it was sent, of the present or latest run. Options as of Engine.
    """

    def __init__(
        self, script: Script, *, tokenizer: Tokenizer | None = None, **options: Any
    ) -> None:
        super().__init__(placement="inline", **options)
        self.scheduler = ScriptedScheduler(script)
        self._script = script
        self._toy: Tokenizer = tokenizer or ByteTokenizer()

    def _bring_up(self) -> AbstractAsyncContextManager[Running]:
        self.scheduler = ScriptedScheduler(self._script)
        return bring_up_scripted(self.config.gateway, self.scheduler, self._toy)


class Scripted(NamedTuple):
    """A gateway that runs over a scripted scheduler."""

    gateway: Gateway

    def check_syncs(self, mode: SyncMode) -> None:
        """Nothing happens: there is no worker."""

    async def wait_ended(self) -> None:
        """Never returns: a scripted scheduler does not die."""
        await anyio.sleep_forever()


class ScriptedActor(Actor[SchedulerInbox]):
    """A scripted scheduler behind an inbox: a step a turn, while any request can get on."""

    name: ClassVar[str] = "scheduler"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Admit, Cancel, Grant, Resync)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = ()

    def __init__(self, scheduler: ScriptedScheduler, gateway: Ref[GatewayInbox]) -> None:
        super().__init__(scheduler.incarnation)
        self._scheduler = scheduler
        self._gateway = gateway

    def receive(self, message: SchedulerInbox) -> None:
        """Take it."""
        self._scheduler.send(message)

    def turn(self) -> float | None:
        """Make a step; again at once when it had something to say."""
        answers = self._scheduler.step()
        for answer in answers:
            self._gateway.send(answer)
        return 0 if answers else None


@asynccontextmanager
async def bring_up_scripted(
    config: GatewayConfig, scheduler: ScriptedScheduler, tokenizer: Tokenizer
) -> AsyncIterator[Scripted]:
    """A gateway over a scripted scheduler, both running until the block is left."""
    requests: Mailbox[Any] = Mailbox(ScriptedActor.accepts, name="scheduler")
    answers: Mailbox[Any] = Mailbox(Gateway.accepts, name="gateway")
    gateway = Gateway(config, 1, scheduler=requests.ref(), tokenizer=tokenizer)
    actor = ScriptedActor(scheduler, answers.ref())
    async with anyio.create_task_group() as group:
        group.start_soon(actor.run, requests)
        group.start_soon(gateway.run, answers)
        try:
            yield Scripted(gateway)
        finally:
            group.cancel_scope.cancel()
