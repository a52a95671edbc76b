"""DRAIN notices each kind of thing that can be left behind, and nothing else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from optimist.messages.client import Stats
from optimist.testing.drain import Leftovers, drained, engine_drained, no_tasks_left

SOON = 0.05


def a_socket() -> Callable[[], None]:
    one, other = socket.socketpair()

    def end() -> None:
        one.close()
        other.close()

    return end


def a_child() -> Callable[[], None]:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def end() -> None:
        child.communicate(b"\n")

    return end


def shared_memory() -> Callable[[], None]:
    path = Path(f"/dev/shm/left-{os.getpid()}")  # a name that others do not take for theirs
    path.touch()
    return path.unlink


@pytest.mark.parametrize(
    ("leave", "kind"),
    [
        (a_socket, "descriptors"),
        (a_child, "children"),
        (shared_memory, "shared_memory"),
    ],
)
def test_what_is_left_is_named(leave: Callable[[], Callable[[], None]], kind: str) -> None:
    clean: Callable[[], None] | None = None
    try:
        with pytest.raises(Leftovers, match=kind), drained(SOON):
            clean = leave()
    finally:
        assert clean is not None
        clean()


def test_a_run_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(Leftovers, match=r"sockets: .*optimist-abc"), drained(SOON):
        (tmp_path / "optimist-abc").mkdir()


def test_what_was_there_before_and_what_was_cleaned_up_does_not_count() -> None:
    clean = a_socket()
    with drained(SOON):
        a_socket()()
    clean()


@pytest.mark.anyio
async def test_a_task_that_still_runs_is_named() -> None:
    async with anyio.create_task_group() as tasks:
        with pytest.raises(Leftovers, match=r"tasks: .*sleep_forever"):
            async with no_tasks_left(SOON):
                tasks.start_soon(anyio.sleep_forever)
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
async def test_a_task_that_ends_in_time_does_not_count() -> None:
    async with anyio.create_task_group() as tasks, no_tasks_left():
        tasks.start_soon(anyio.sleep, SOON)


class Engine:
    def __init__(self, *running: int) -> None:
        self._running = list(running)

    def stats(self) -> Stats:
        running = self._running.pop(0) if len(self._running) > 1 else self._running[0]
        return Stats(
            waiting=0, running=running, free_blocks=8 - running, num_blocks=8, steps=0, healthy=True
        )


@pytest.mark.anyio
async def test_an_engine_that_comes_to_rest_is_drained() -> None:
    await engine_drained(Engine(2, 1, 0))


@pytest.mark.anyio
async def test_an_engine_that_holds_a_block_is_not() -> None:
    with pytest.raises(Leftovers, match="1 running, 1 held blocks"):
        await engine_drained(Engine(1), SOON)
