"""A cell whose actor does what a test dictates. `python -m scripted_cells` is its child process.

The name of the cell is the script. It answers every Resync with one, to the actor `listener`.
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import ClassVar

from optimist.actors.base import Actor
from optimist.actors.runtime import child
from optimist.actors.runtime.child import main
from optimist.actors.runtime.host import AnyActor, Build, Refs
from optimist.messages.base import ActorMessage
from optimist.messages.control import Progress, Resync, Start
from optimist.messages.errors import ModelError
from optimist.transport.base import Ref

Report = Callable[[Progress], None]


class Echo(Actor[Resync]):
    """Answers, or dies when `epoch` tells it to."""

    name: ClassVar[str] = "echo"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Resync,)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (("listener", Resync),)

    def __init__(self, incarnation: int, *, listener: Ref[Resync]) -> None:
        super().__init__(incarnation)
        self._listener = listener

    def receive(self, message: Resync) -> None:
        if message.actor == "exit":
            print("about to exit", file=sys.stderr, flush=True)
            os._exit(message.step)
        if message.actor == "raise":
            raise LookupError("no such thing")
        if message.actor == "return":
            raise KeyboardInterrupt
        if message.actor == "freeze":
            freeze()
        answer = Resync(incarnation=self.incarnation, actor=self.name, step=message.step + 1)
        self._listener.send(answer)


def freeze() -> None:
    """Hold the GIL for ever, in C."""
    ctypes.PyDLL(None).pause()


def sleep_for_ever() -> None:
    """Block the loop."""
    time.sleep(2**31)


def begin(start: Start, report: Report) -> Build:
    async def build(name: str, incarnation: int, refs: Refs) -> AnyActor:
        report(Progress(incarnation=incarnation, actor=name, what="lines", done=1, total=2))
        print("hello from", name, file=sys.stderr, flush=True)
        match start.config.decode():
            case "raise":
                raise ModelError("weights.gguf: token_embd.weight: truncated")
            case "exit":
                print("out of memory", file=sys.stderr, flush=True)
                os._exit(3)
            case "sleep":
                sleep_for_ever()
            case "babble":
                line = int(sys.argv[2])
                socket.socket(fileno=os.dup(line)).send(b"\0\0\0\4\xff\xff\xff\xff")
            case "hang up":
                os.close(int(sys.argv[2]))
                sleep_for_ever()
        return Echo(incarnation, listener=refs.to(Echo, "listener"))

    return build


if __name__ == "__main__":
    child.BEAT_SECONDS = 0.1
    main(sys.argv[1:], begin)
