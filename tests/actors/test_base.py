"""How an actor waits: for messages, and for the turn it asked for."""

from __future__ import annotations

from typing import ClassVar

import anyio
import pytest

from optimist.actors.base import Actor
from optimist.messages.base import ActorMessage
from optimist.messages.control import Drain, Stop
from optimist.transport.mailbox import Mailbox

pytestmark = pytest.mark.anyio

LATE = 3600.0


class Waiting(Actor[Stop]):
    """Asks for its next turns in so many seconds, one after the other, and then for none."""

    name: ClassVar[str] = "waiting"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Stop,)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = ()

    def __init__(self, *waits: float | None) -> None:
        super().__init__(1)
        self.received = 0
        self.done = anyio.Event()
        self._waits = list(waits)

    def receive(self, message: Stop) -> None:
        self.received += 1

    def turn(self) -> float | None:
        if not self._waits:
            self.done.set()
            return None
        return self._waits.pop(0)


class AtOnce(Waiting):
    """The same, and takes messages in their sender's turn."""

    eager = Waiting.accepts


class Eager(Actor[Stop | Drain]):
    """Takes one kind of message in its sender's turn. Fails at the one with this incarnation."""

    name: ClassVar[str] = "eager"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Stop, Drain)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = ()
    eager = (Stop,)

    def __init__(self, fail_at: int) -> None:
        super().__init__(1)
        self.received: list[int] = []
        self._fail_at = fail_at

    def receive(self, message: Stop | Drain) -> None:
        if message.incarnation == self._fail_at:
            raise RuntimeError("not this one")
        self.received.append(message.incarnation)


async def test_an_eager_actor_takes_a_message_while_it_is_sent_and_fails_by_itself() -> None:
    actor, inbox = Eager(fail_at=3), Mailbox[Stop | Drain]((Stop,))
    seen: list[list[int]] = []

    async def send() -> None:
        await anyio.wait_all_tasks_blocked()
        for number in range(5):
            inbox.ref().send(Stop(incarnation=number))
            seen.append(list(actor.received))

    inbox.ref().send(Stop(incarnation=9))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            with pytest.raises(RuntimeError, match="not this one"):
                await actor.run(inbox)
    assert seen == [[9, 0], [9, 0, 1], [9, 0, 1, 2], [9, 0, 1, 2], [9, 0, 1, 2]]


async def test_what_an_eager_actor_takes_in_its_own_turn_is_not_overtaken() -> None:
    actor, inbox = Eager(fail_at=9), Mailbox[Stop | Drain]((Stop, Drain))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(actor.run, inbox)
            await anyio.wait_all_tasks_blocked()
            for message in (Stop(incarnation=0), Drain(incarnation=1), Stop(incarnation=2)):
                inbox.ref().send(message)
            assert actor.received == [0]
            inbox.close()
    assert actor.received == [0, 1, 2]


async def _run(actor: Waiting, messages: int) -> None:
    """Until it has had all its turns. The messages come one by one, each while it waits."""
    inbox = Mailbox((Stop,))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(actor.run, inbox)
            for _ in range(messages):
                await anyio.wait_all_tasks_blocked()
                inbox.ref().send(Stop(incarnation=0))
            await actor.done.wait()
            inbox.close()
    assert actor.received == messages


async def test_a_turn_comes_when_it_is_due_although_nobody_sends() -> None:
    await _run(Waiting(0.01, 0.0, 0.01), messages=0)


@pytest.mark.parametrize("kind", [Waiting, AtOnce])
@pytest.mark.parametrize("before", [LATE, None])
async def test_a_turn_that_has_become_due_earlier_does_not_wait_for_the_later_one(
    kind: type[Waiting], before: float | None
) -> None:
    await _run(kind(before, 0.01), messages=1)
