"""GATE: holds messages on their way until a test releases, reorders, repeats or drops them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from optimist.messages.base import ActorMessage
from optimist.transport.base import Ref


class Held(NamedTuple):
    """A message that waits at a gate, and where it is to go."""

    message: Any
    forward: Callable[[Any], None]


class Gate:
    """Stands before one or more addresses. Open, it lets everything through.

    kinds: message classes that it holds while it is shut; others pass.
    """

    def __init__(self, *kinds: type[ActorMessage]) -> None:
        self.kinds = kinds
        self.held: list[Held] = []
        self.shut = True

    def before(self, ref: Ref[Any]) -> GatedRef:
        """An address that leads through this gate."""
        return GatedRef(self, ref.send)

    def offer(self, message: Any, forward: Callable[[Any], None]) -> None:
        """Hold a message or send it on."""
        if self.shut and isinstance(message, self.kinds):
            self.held.append(Held(message, forward))
        else:
            forward(message)

    def release(self, *places: int) -> None:
        """Send on what is held, in the order of these places; all of it when none is given."""
        order = places or range(len(self.held))
        chosen = [self.held[place] for place in order]
        self.drop(*order)
        for message, forward in chosen:
            forward(message)

    def repeat(self, place: int) -> None:
        """Send on a copy of what is held, and go on holding it."""
        message, forward = self.held[place]
        forward(message)

    def drop(self, *places: int) -> None:
        """Forget what is held at these places."""
        self.held = [held for i, held in enumerate(self.held) if i not in places]

    def open(self) -> None:
        """Release everything and hold nothing from now on."""
        self.shut = False
        self.release()


class GatedRef(NamedTuple):
    """An address behind a gate."""

    gate: Gate
    forward: Callable[[Any], None]

    def send(self, message: Any, /) -> None:
        self.gate.offer(message, self.forward)
