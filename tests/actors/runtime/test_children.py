"""One life of a child process: how it starts, answers, dies and is reaped."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from waiting import until

from optimist.actors.runtime.children import Orders, ProcessChild
from optimist.actors.runtime.death import Death
from optimist.actors.runtime.placement import Cell
from optimist.actors.runtime.rundir import run_directory
from optimist.messages.control import Progress, Resync
from optimist.transport.channel import PullInbox, PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links

pytestmark = pytest.mark.anyio


class Life:
    """A child process on its way, and this side of its sockets."""

    def __init__(self, script: str, directory: Path, links: Links, hang_timeout: float) -> None:
        self.progress: list[Progress] = []
        orders = Orders(
            directory, script.encode(), hang_timeout, self.progress.append, "scripted_cells"
        )
        self.child = ProcessChild(Cell("echo", ("echo",)), orders)
        self.ready = anyio.Event()
        self.ended = anyio.Event()
        self.death: Death | None = None
        self.answers: PullInbox[Resync] = PullInbox(links, ipc(directory, "listener"), (Resync,))
        self.echo: PushRef[Resync] = PushRef(links, ipc(directory, "echo"), (Resync,))

    async def run(self) -> None:
        self.death = await self.child.live(7, self.ready.set)
        self.ended.set()

    def tell(self, actor: str, step: int = 0) -> None:
        self.echo.send(Resync(incarnation=0, actor=actor, step=step))

    async def dies(self) -> str:
        """Wait for its death and return the text of it."""
        with anyio.fail_after(60):
            await self.ended.wait()
        assert self.death is not None
        assert self.death.actor == "echo"
        assert self.child.pid is None
        return self.death.text


@asynccontextmanager
async def life(script: str = "", hang_timeout: float = 60.0) -> AsyncIterator[Life]:
    with run_directory() as directory, Links() as links:
        async with anyio.create_task_group() as group:
            one = Life(script, directory, links, hang_timeout)
            group.start_soon(one.run)
            yield one
            group.cancel_scope.cancel()


@asynccontextmanager
async def ready_life(hang_timeout: float = 60.0) -> AsyncIterator[Life]:
    async with life(hang_timeout=hang_timeout) as one:
        with anyio.fail_after(60):
            await one.ready.wait()
        yield one


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


async def test_started_answers_with_its_incarnation_and_stops_when_asked() -> None:
    async with ready_life() as one:
        one.tell("you", step=4)
        await one.answers.wait()
        answer = one.answers.receive_nowait()
        assert answer == Resync(incarnation=7, actor="echo", step=5)
        assert [(p.what, p.done, p.total) for p in one.progress] == [("lines", 1, 2)]
        pid = one.child.pid
        one.child.ask_to_stop()
        with anyio.fail_after(60):
            await one.ended.wait()
        assert one.death is None
        assert pid is not None and gone(pid)


async def test_exit_in_a_message_names_status_and_last_words() -> None:
    async with ready_life() as one:
        one.tell("exit", step=9)
        text = await one.dies()
        assert "exited with status 9; its last words:" in text
        assert text.endswith("about to exit")


async def test_an_exception_in_a_message_is_named() -> None:
    async with ready_life() as one:
        one.tell("raise")
        assert await one.dies() == "LookupError: no such thing"


async def test_a_killed_child_names_the_signal() -> None:
    async with ready_life() as one:
        assert one.child.pid is not None
        os.kill(one.child.pid, signal.SIGKILL)
        assert "was killed by SIGKILL" in await one.dies()


async def test_a_child_that_raises_while_it_starts_tells_its_own_error() -> None:
    async with life("raise") as one:
        assert await one.dies() == "ModelError: weights.gguf: token_embd.weight: truncated"
        assert one.death is not None and one.death.kind == "ModelError"
        assert not one.ready.is_set()


async def test_a_child_that_exits_while_it_starts_names_status_and_last_words() -> None:
    async with life("exit") as one:
        text = await one.dies()
        assert "exited with status 3" in text and "out of memory" in text


async def test_aborted_while_it_sleeps_for_ever_it_says_where_it_was() -> None:
    async with life("sleep") as one:
        await until(lambda: one.progress)
        one.child.abort("was not ready within 5 s")
        text = await one.dies()
        assert "was not ready within 5 s; its last words:" in text
        assert "in build" in text


async def test_a_frozen_child_is_killed_after_the_hang_timeout_and_says_where() -> None:
    async with ready_life(hang_timeout=1.0) as one:
        one.tell("freeze")
        text = await one.dies()
        assert "gave no sign of life for 1 s" in text
        assert "in freeze" in text


async def test_a_stopped_child_is_killed_after_the_hang_timeout() -> None:
    async with ready_life(hang_timeout=1.0) as one:
        assert one.child.pid is not None
        os.kill(one.child.pid, signal.SIGSTOP)
        assert "gave no sign of life for 1 s" in await one.dies()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_child_that_beats_outlives_the_hang_timeout() -> None:
    async with ready_life(hang_timeout=1.0) as one:
        with anyio.move_on_after(1.5):
            await one.ended.wait()
        assert not one.ended.is_set()


async def test_a_child_that_babbles_is_killed() -> None:
    async with life("babble") as one:
        assert "sent what is no control message" in await one.dies()


async def test_a_child_that_lets_go_of_its_life_line_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("optimist.actors.runtime.children._SILENT_SECONDS", 0.1)
    async with life("hang up") as one:
        assert "closed its life-line and went on" in await one.dies()


async def test_what_a_child_writes_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    async with ready_life() as one:
        one.child.ask_to_stop()
        await one.ended.wait()
    assert "hello from echo\n" in capfd.readouterr().err


async def test_cancelled_while_it_starts_nothing_is_left() -> None:
    async with life("sleep") as one:
        await until(lambda: one.progress)
        pid = one.child.pid
    assert pid is not None and gone(pid)


async def test_three_lives_leave_no_descriptor() -> None:
    async def one_life() -> None:
        async with ready_life() as one:
            one.child.ask_to_stop()
            with anyio.fail_after(60):
                await one.ended.wait()

    await one_life()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await one_life()
    assert len(os.listdir("/proc/self/fd")) == before
