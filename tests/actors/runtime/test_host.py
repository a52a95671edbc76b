"""Actors of one loop: built, wired, ended, and found again by those that send to them."""

from __future__ import annotations

from typing import ClassVar

import anyio
import anyio.abc
import pytest
from waiting import until

from optimist.actors.base import Actor
from optimist.actors.runtime.children import LocalChild
from optimist.actors.runtime.death import Death
from optimist.actors.runtime.host import AnyActor, Host, Outside, Refs
from optimist.actors.runtime.rundir import run_directory
from optimist.messages.base import ActorMessage
from optimist.messages.control import Resync
from optimist.messages.errors import ConfigError
from optimist.transport.base import Ref
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio


class Note(Actor[Resync]):
    """Writes down what it gets; `epoch` 9 makes it raise."""

    name: ClassVar[str] = "note"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Resync,)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (("other", Resync),)

    def __init__(self, incarnation: int, other: Ref[Resync] | None = None) -> None:
        super().__init__(incarnation)
        self.got: list[int] = []
        self.other = other

    def receive(self, message: Resync) -> None:
        if message.epoch == 9:
            raise LookupError("nine")
        self.got.append(message.step)
        if self.other is not None:
            self.other.send(Resync(incarnation=self.incarnation, actor="note", step=message.step))


def resync(step: int, epoch: int = 0) -> Resync:
    return Resync(incarnation=0, actor="test", step=step, epoch=epoch)


async def build(name: str, incarnation: int, refs: Refs) -> AnyActor:
    return Note(incarnation, refs.to(Note, "other") if name == "one" else None)


def note(host: Host, name: str) -> Note:
    actor = host.actors[name]
    assert isinstance(actor, Note)
    return actor


class Running:
    """Lives of a host's actors in a task group."""

    def __init__(self, host: Host, group: anyio.abc.TaskGroup) -> None:
        self.host = host
        self.group = group
        self.deaths: list[Death | None] = []

    async def begin(self, name: str, incarnation: int = 1) -> LocalChild:
        child = LocalChild(self.host, name)
        ready = anyio.Event()

        async def live() -> None:
            self.deaths.append(await child.live(incarnation, ready.set))

        self.group.start_soon(live)
        with anyio.fail_after(60):
            await ready.wait()
        return child

    async def died(self, times: int) -> None:
        await until(lambda: len(self.deaths) == times)


async def test_asked_to_stop_it_takes_first_what_it_was_sent() -> None:
    async with anyio.create_task_group() as group:
        host = Host(["one", "other"], build)
        running = Running(host, group)
        await running.begin("other")
        one = await running.begin("one")
        for step in range(100):
            assert host.tell("one", resync(step))
        one.ask_to_stop()
        await until(lambda: running.deaths)
        assert running.deaths == [None]
        assert note(host, "one").got == list(range(100))
        await until(lambda: note(host, "other").got == list(range(100)))
        group.cancel_scope.cancel()


async def test_a_ref_finds_the_next_life_and_loses_what_is_sent_between_two() -> None:
    async with anyio.create_task_group() as group:
        host = Host(["one", "other"], build)
        running = Running(host, group)
        await running.begin("one")
        other = await running.begin("other", incarnation=2)
        first = note(host, "other")
        other.ask_to_stop()
        await until(lambda: running.deaths)
        host.tell("one", resync(1))
        await until(lambda: note(host, "one").got == [1])
        await running.begin("other", incarnation=3)
        host.tell("one", resync(2))
        await until(lambda: note(host, "other").got == [2])
        assert first.got == [] and note(host, "other").incarnation == 3
        group.cancel_scope.cancel()


async def test_what_an_actor_raises_is_its_death() -> None:
    async with anyio.create_task_group() as group:
        host = Host(["other"], build)
        running = Running(host, group)
        await running.begin("other")
        host.tell("other", resync(0, epoch=9))
        await until(lambda: running.deaths)
        death = running.deaths[0]
        assert death is not None and death.text == "LookupError: nine"
        assert isinstance(death.cause, LookupError)
        assert not host.tell("other", resync(1))


async def test_an_actor_that_ends_by_itself_has_died() -> None:
    async with anyio.create_task_group() as group:
        host = Host(["other"], build)
        running = Running(host, group)
        await running.begin("other")
        host.end("other")
        await until(lambda: running.deaths)
        assert running.deaths == [Death("other", "it ended without being asked to")]


async def test_aborted_it_dies_of_the_reason() -> None:
    async with anyio.create_task_group() as group:
        running = Running(Host(["other"], build), group)
        other = await running.begin("other")
        other.abort("was not ready within 5 s")
        await until(lambda: running.deaths)
        assert running.deaths == [Death("other", "was not ready within 5 s")]


async def test_asked_to_stop_while_it_is_built_it_is_given_up() -> None:
    building = anyio.Event()

    async def never(name: str, incarnation: int, refs: Refs) -> AnyActor:
        building.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with anyio.create_task_group() as group:
        deaths: list[Death | None] = []
        child = LocalChild(Host(["other"], never), "other")

        async def live() -> None:
            deaths.append(await child.live(1, lambda: None))

        group.start_soon(live)
        await building.wait()
        child.ask_to_stop()
        await until(lambda: deaths)
        assert deaths == [None]


async def test_a_ref_to_nobody_is_refused_when_it_is_made() -> None:
    child = LocalChild(Host(["one"], build), "one")
    death = await child.live(1, lambda: None)
    assert death is not None and isinstance(death.cause, ConfigError)
    assert "no actor 'other' to send to" in death.reason


async def test_actors_of_two_hosts_meet_in_the_directory() -> None:
    with run_directory() as directory, Links() as links:
        async with anyio.create_task_group() as group:
            here = Running(Host(["one"], build, Outside(links, directory)), group)
            there = Running(Host(["other"], build, Outside(links, directory)), group)
            await here.begin("one")
            await there.begin("other")
            here.host.tell("one", resync(4))
            await until(lambda: note(there.host, "other").got == [4])
            group.cancel_scope.cancel()


async def test_a_life_leaves_no_socket_open_and_the_next_one_binds_again() -> None:
    with run_directory() as directory, Links() as links:
        async with anyio.create_task_group() as group:
            running = Running(Host(["one", "other"], build, Outside(links, directory)), group)
            for life in range(1, 4):
                one = await running.begin("one", incarnation=life)
                one.ask_to_stop()
                await running.died(life)
            assert running.deaths == [None] * 3
