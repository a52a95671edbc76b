"""Takes what the supervisor says to the actors that it concerns, whichever process they are in."""

from __future__ import annotations

from contextlib import suppress

from optimist.actors.runtime.child import concerns_worker
from optimist.actors.runtime.children import Child, ProcessChild
from optimist.actors.runtime.host import Host
from optimist.messages.control import Drain, Dropped, Fault, Restarted, SyncCheck
from optimist.messages.requests import Placed


class Post:
    """host: the actors of this loop. children: all of them, those of this loop too."""

    def __init__(self, host: Host, children: tuple[Child, ...]) -> None:
        self._host = host
        self._children = children
        self._checks: SyncCheck | None = None

    def tell(self, message: Fault | Restarted) -> None:
        """Say who has died or lives again: to the gateway, and of a proposer to the worker too."""
        self.tell_gateway(message)
        if concerns_worker(message):
            self._tell_worker(message)
        if isinstance(message, Restarted) and self._checks is not None:
            # It may be the worker, or have the worker in its process.
            self._tell_worker(self._checks)

    def check_syncs(self, message: SyncCheck) -> None:
        """Tell the worker, and every later life of it."""
        self._checks = message
        self._tell_worker(message)

    def tell_gateway(self, message: Fault | Restarted | Dropped | Drain | Placed) -> None:
        """Say it to the gateway, wherever that is."""
        for child in self._children:
            if "gateway" not in child.actors:
                continue
            if isinstance(child, ProcessChild):
                child.tell(message)
            elif not (isinstance(message, Fault) and message.final):
                self._host.tell("gateway", message)
            elif "gateway" in self._host.actors:
                # At once: it ends with the troupe, and may have died with open streams in its hands.
                with suppress(Exception):
                    self._host.actors["gateway"].receive(message)

    def _tell_worker(self, message: Fault | Restarted | SyncCheck) -> None:
        for child in self._children:
            if isinstance(child, ProcessChild) and "worker" in child.actors:
                child.tell(message)
        self._host.tell("worker", message)
