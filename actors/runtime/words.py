"""What a child process writes on stderr and stdout: passed on, and the last of it remembered."""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress
from typing import IO

import anyio

_LINES = 40
_LINE_BYTES = 400
_LOOK_SECONDS = 0.02


class Words:
    """Reads the pipe to which a child's stderr and stdout go.

    Lines are passed on to this process's stderr, where a child without a pipe would have written.
    """

    def __init__(self, pipe: IO[bytes]) -> None:
        os.set_blocking(pipe.fileno(), False)
        self._pipe = pipe
        self._line = bytearray()
        self._last: deque[str] = deque(maxlen=_LINES)
        self._ended = False
        self._bytes = 0

    async def read(self) -> None:
        """Read until every holder of the other end has let go. Cancelling it loses nothing."""
        while not self._ended:
            await anyio.wait_readable(self._pipe)
            self.read_nowait()

    def read_nowait(self) -> None:
        """Read what is there."""
        while not self._ended:
            try:
                chunk = os.read(self._pipe.fileno(), 65536)
            except BlockingIOError:
                return
            self._ended = not chunk
            self._bytes += len(chunk)
            *lines, rest = (bytes(self._line) + chunk).split(b"\n")
            self._line = bytearray(rest)
            for line in lines:
                self._take(line)
            if len(rest) > 65536 or (self._ended and rest):
                self._take(rest)
                self._line.clear()

    async def pause(self, seconds: float, *, within: float) -> None:
        """Return when something has come and then nothing for so many seconds, or `within` is over.

        Somebody else reads meanwhile.
        """
        before = self._bytes
        with anyio.move_on_after(within):
            while self._bytes == before:
                await anyio.sleep(_LOOK_SECONDS)
            while before != self._bytes:
                before = self._bytes
                await anyio.sleep(seconds)

    def last(self) -> str:
        """The last lines, joined; what has no line end yet included. "" when nothing was written."""
        tail = [*self._last, *([_text(bytes(self._line))] if self._line else [])]
        return "\n".join(tail[-_LINES:]).strip()

    def close(self) -> None:
        """Close this end of the pipe."""
        self._ended = True
        self._pipe.close()

    def _take(self, line: bytes) -> None:
        self._last.append(_text(line))
        if sys.stderr is not None:
            with suppress(OSError, ValueError):
                sys.stderr.write(line.decode(errors="replace") + "\n")


def _text(line: bytes) -> str:
    return line[-_LINE_BYTES:].decode(errors="replace").rstrip()
