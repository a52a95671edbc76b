"""When the engine's process is gone, so are its children, whatever they are doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from optimist.actors.runtime.rundir import clear_dead

ENGINE = """
import sys, anyio
from optimist.actors.runtime.children import Orders, ProcessChild
from optimist.actors.runtime.placement import Cell
from optimist.actors.runtime.rundir import run_directory
from optimist.messages.control import Resync
from optimist.transport.channel import PushRef
from optimist.transport.endpoints import ipc
from optimist.transport.links import Links

async def main(what):
    with run_directory() as directory, Links() as links:
        orders = Orders(directory, b"", 60.0, print, "scripted_cells")
        child = ProcessChild(Cell("echo", ("echo",)), orders)
        echo = PushRef(links, ipc(directory, "echo"), (Resync,))
        def ready():
            echo.send(Resync(incarnation=0, actor=what))
            print("PID", child.pid, flush=True)
        await child.live(1, ready)

anyio.run(main, sys.argv[1])
"""


@contextmanager
def started_engine(what: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process that started a child, and the child's pid; `what` is the message it sent to it."""
    command = [sys.executable, "-c", ENGINE, what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as engine:
        try:
            assert engine.stdout is not None
            said = next((line for line in engine.stdout if line.startswith("PID ")), "PID none")
            yield engine, int(said.split()[1])
        finally:
            engine.kill()


def ends(pid: int, seconds: float = 60.0) -> bool:
    """Whether a process that is no child of ours ends in time."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            if not Path(f"/proc/{pid}").exists() or _zombie(pid):
                return True
            time.sleep(0.01)
        return False
    finally:
        os.close(fd)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("what", ["you", "freeze"], ids=["idle", "frozen with the GIL held"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_the_child_ends_when_the_engine_is_killed(
    what: str, how: signal.Signals, run_root: Path
) -> None:
    with started_engine(what) as (engine, child):
        engine.send_signal(how)
        assert engine.wait(60) == -how
        assert ends(child)
    clear_dead(run_root)


def test_an_interrupt_at_the_terminal_does_not_reach_the_child() -> None:
    with started_engine("you") as (engine, child):
        assert os.getpgid(child) != os.getpgid(engine.pid)
        os.kill(child, signal.SIGINT)
        engine.send_signal(signal.SIGINT)
        assert engine.wait(60) in (1, -signal.SIGINT)
        assert ends(child)


def test_a_child_whose_parent_is_gone_before_it_looks_ends_at_once() -> None:
    script = "from optimist.actors.runtime.child import die_with_parent; die_with_parent(1 << 22)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 3
