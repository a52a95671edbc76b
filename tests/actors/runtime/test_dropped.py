"""Rubbish on an actor's socket is seen in the log, and does not fill it."""

from __future__ import annotations

import pickle

import anyio
import pytest
import zmq

from optimist.actors.base import Actor
from optimist.actors.runtime.dropped import DroppedFrames
from optimist.actors.runtime.host import AnyActor, Host, Outside, Refs
from optimist.actors.runtime.rundir import run_directory
from optimist.messages.control import Resync
from optimist.messages.errors import MessageError
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio


def test_of_a_flood_only_a_few_are_told(caplog: pytest.LogCaptureFixture) -> None:
    report = DroppedFrames("worker")
    for at in range(1000):
        report(MessageError(f"number {at + 1}"))
    told = [record.getMessage().rpartition(": ")[2] for record in caplog.records]
    assert told == ["number 1", "number 10", "number 100", "number 1000"]


async def test_an_actor_goes_on_and_its_log_names_it(caplog: pytest.LogCaptureFixture) -> None:
    taken = anyio.Event()

    class Quiet(Actor[Resync]):
        name = "quiet"
        accepts = (Resync,)
        emits = ()

        def receive(self, message: Resync) -> None:
            taken.set()

    async def build(name: str, incarnation: int, refs: Refs) -> AnyActor:
        return Quiet(incarnation)

    def stranger() -> None:
        with zmq.Context() as context, context.socket(zmq.PUSH) as push:
            push.connect(ipc(directory, "quiet"))
            push.send(pickle.dumps({"a": 1}))

    def said() -> bool:
        return any("quiet: something else" in record.getMessage() for record in caplog.records)

    with run_directory() as directory, Links() as links:
        host = Host(["quiet"], build, Outside(links, directory))
        async with anyio.create_task_group() as group:
            ready = anyio.Event()
            group.start_soon(host.live, "quiet", 1, ready.set)
            await ready.wait()
            await anyio.to_thread.run_sync(stranger)
            with anyio.fail_after(20):
                while not said():
                    await anyio.sleep(0.01)
                host.tell("quiet", Resync(incarnation=1, actor="x", epoch=0, step=0))
                await taken.wait()
            host.end("quiet")
