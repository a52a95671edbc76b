"""DRAIN: what an engine leaves behind, which must be nothing.

As a fixture of pytest, for every test of a folder (in its conftest.py):

    @pytest.fixture(autouse=True)
    def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        with drained():
            yield
"""

from __future__ import annotations

import gc
import os
import re
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import NamedTuple, Protocol

import anyio

from optimist.messages.client import Stats

PATIENCE_S = 30.0
"""how long what ends by itself may take: threads of closed sockets, children that are being reaped"""


class Leftovers(AssertionError):
    """Something was left behind. Names it."""


class Belongings(NamedTuple):
    """What this process holds: each thing by a name. Files of the kernel and of Python do not count."""

    descriptors: frozenset[str]
    children: frozenset[str]
    shared_memory: frozenset[str]
    sockets: frozenset[str]

    def beyond(self, other: Belongings) -> list[str]:
        """What is here and was not there."""
        return [
            f"{kind}: {', '.join(sorted(mine - theirs))}"
            for kind, mine, theirs in zip(self._fields, self, other, strict=True)
            if mine - theirs
        ]


def belongings() -> Belongings:
    """Of this process, now. sockets: run directories, in XDG_RUNTIME_DIR if that is set.

    Others may use the same machine: give a test an XDG_RUNTIME_DIR of its own. Shared memory counts
    when its name holds our process id, or says that it is ours.
    """
    root = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    ours = re.compile(rf"optimist|(?<!\d){os.getpid()}(?!\d)")
    shared = (path.name for path in Path("/dev/shm").glob("*"))
    return Belongings(
        descriptors=frozenset(_descriptors()),
        children=frozenset(_children()),
        shared_memory=frozenset(filter(ours.search, shared)),
        sockets=frozenset(str(path) for path in root.glob("optimist-*")),
    )


@contextmanager
def drained(patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Raises Leftovers when the body leaves descriptors, children, shared memory or sockets behind."""
    _make_what_stays()
    before = belongings()
    yield
    deadline = time.monotonic() + patience_s
    while left := belongings().beyond(before):
        if time.monotonic() > deadline:
            raise Leftovers("; ".join(left))
        gc.collect()
        time.sleep(0.01)


@asynccontextmanager
async def no_tasks_left(patience_s: float = PATIENCE_S) -> AsyncIterator[None]:
    """Raises Leftovers when tasks of the body still run on this loop after it."""
    before = {task.id for task in anyio.get_running_tasks()}
    yield

    def left() -> list[str]:
        return [str(task.name) for task in anyio.get_running_tasks() if task.id not in before]

    await _until_empty(left, patience_s, "tasks")


class HasStats(Protocol):
    """An engine or a gateway."""

    def stats(self) -> Stats: ...


async def engine_drained(engine: HasStats, patience_s: float = PATIENCE_S) -> None:
    """Raises Leftovers unless an engine comes to rest: nobody waits or runs, every block is free."""

    def left() -> list[str]:
        stats = engine.stats()
        held = stats.num_blocks - stats.free_blocks
        counts = {"waiting": stats.waiting, "running": stats.running, "held blocks": held}
        return [f"{count} {name}" for name, count in counts.items() if count]

    await _until_empty(left, patience_s, "requests")


async def _until_empty(left: Callable[[], list[str]], patience_s: float, what: str) -> None:
    deadline = time.monotonic() + patience_s
    while found := left():
        if time.monotonic() > deadline:
            raise Leftovers(f"{what}: {', '.join(found)}")
        await anyio.sleep(0.01)


@cache
def _make_what_stays() -> None:
    """libuv makes a pipe with the first loop of a process and keeps it."""
    if find_spec("uvloop") is not None:
        options = {"use_uvloop": True}
        loop = Thread(target=partial(anyio.run, anyio.sleep, 0, backend_options=options))
        loop.start()
        loop.join()


def _descriptors() -> Iterator[str]:
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            if not target.startswith(("/proc/", "/dev/")) and not target.endswith((".py", ".pyc")):
                yield f"{entry.name} -> {target}"


def _children() -> Iterator[str]:
    for entry in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for pid in entry.read_text().split():
                yield f"{pid} ({Path(f'/proc/{pid}/comm').read_text().strip()})"
