"""A thread that does one thing after another for a loop, which gives it more before it is done."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from optimist.transport.waker import from_threads

Given = TypeVar("Given")
Made = TypeVar("Made")


class OwnThread(Generic[Given, Made]):
    """Calls `work` with what is put, in order, one behind the other without a turn of the loop between.

    done: called on the loop when there is something to `take`. begin: called in the thread, first of all.
    leave: called in the thread when there is something to take and the next piece is at hand. True: that one
    will call `done`, or raise. To be made on the loop. Whoever made it must `stop` it.
    """

    def __init__(
        self,
        work: Callable[[Given], Made],
        done: Callable[[], object],
        name: str,
        begin: Callable[[], object] = lambda: None,
        leave: Callable[[], bool] = lambda: False,
    ) -> None:
        self._begin = begin
        self._leave = leave
        self._work = work
        self._done = done
        self._call = from_threads()
        self._given: SimpleQueue[Given | None] = SimpleQueue()
        self._made: deque[Made | BaseException] = deque()
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def put(self, given: Given) -> None:
        """One more thing to do, behind the others."""
        self._given.put(given)

    def take(self) -> Made | None:
        """The first result that is there, if any. Raises what the work raised."""
        if not self._made:
            return None
        if isinstance(made := self._made.popleft(), BaseException):
            raise made
        return made

    async def stop(self) -> None:
        """Return when the thread has ended. What it is in the middle of is finished, nothing else."""
        self._stopped = True
        self._given.put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        self._begin()
        while (given := self._given.get()) is not None and not self._stopped:
            try:
                self._made.append(self._work(given))
            except BaseException as error:  # noqa: BLE001 - raised again by `take`
                self._made.append(error)
                self._stopped = True
            if self._stopped or self._given.empty() or not self._leave():
                self._call(self._done)
