"""A child process of ours: started plainly, watched by descriptor, reaped always.

`python -m optimist.cells` with a life-line and nothing else inherited. The kernel kills a child when
the *thread* that started it ends, so `Process` is made in the thread of the engine's loop.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from optimist.actors.runtime.lifeline import DUMP_SIGNAL, FROM_CHILD, FromChild, LifeLine
from optimist.actors.runtime.words import Words
from optimist.messages.errors import ConfigError

if TYPE_CHECKING:
    PidFd = Callable[[int], int]

_POLL_SECONDS = 0.05
_pidfd_open: PidFd | None = getattr(os, "pidfd_open", None)


class Process:
    """A child process: `python -m module`, told the name of its cell, its life-line and its parent.

    line: the supervisor's end of the life-line. words: what the child wrote on stderr and stdout.
    Whoever makes one waits for its end and closes it. Raises ConfigError when there is no Python to
    run, OSError when the system refuses.
    """

    def __init__(self, cell: str, module: str) -> None:
        self.cell = cell
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._popen = _spawn([_python(), "-m", module, cell], theirs.fileno())
            except BaseException:
                ours.close()
                raise
        self.line: LifeLine[FromChild] = LifeLine(ours, FROM_CHILD)
        self.pid = self._popen.pid
        self._fd = _pidfd_open(self.pid) if _pidfd_open is not None else None
        assert self._popen.stdout is not None
        self.words = Words(self._popen.stdout)

    async def wait(self) -> int:
        """Return the exit status when the process has ended, negative for a signal, and reap it."""
        if self._fd is not None and self._popen.poll() is None:
            await anyio.wait_readable(self._fd)
        while (status := self._popen.poll()) is None:
            await anyio.sleep(_POLL_SECONDS)
        return status

    def kill(self) -> None:
        """SIGKILL. Nothing happens when it has been reaped."""
        self._popen.kill()

    def dump_threads(self) -> None:
        """Make it write on stderr where each of its threads is, even if it holds the GIL for ever."""
        self._popen.send_signal(DUMP_SIGNAL)

    def close(self) -> None:
        """Close what belongs to the process on this side. To be called after `wait`."""
        self.line.close()
        self.words.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def exit_text(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"was killed by signal {-status}"


def _spawn(command: list[str], line: int) -> subprocess.Popen[bytes]:
    # Its own process group: a Ctrl-C at the terminal is for the parent, which stops its children.
    return subprocess.Popen(
        [*command, str(line), str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        bufsize=0,
        pass_fds=(line,),
        env=_environment(),
        process_group=0,
    )


def _python() -> str:
    if not sys.executable:
        raise ConfigError(
            "placement: expected a Python interpreter for child processes, got an empty "
            "sys.executable; placement 'inline' needs none"
        )
    return sys.executable


def _environment() -> dict[str, str]:
    """This process's own, with the working directory kept off the child's import path.

    OpenMP threads that wait give their core away, unless the user has said otherwise: they would spin
    for a partner that does not run, and make a step ten times as long beside a busy neighbour.
    """
    patience = {"OMP_WAIT_POLICY": "PASSIVE"}
    environment = {**patience, **os.environ, "PYTHONSAFEPATH": "1", "PYTHONFAULTHANDLER": "1"}
    home = Path(__file__).parents[3]
    if home.name not in ("site-packages", "dist-packages"):
        known = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(home), *([known] if known else [])])
    return environment
