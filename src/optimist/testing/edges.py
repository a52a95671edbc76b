"""Messages on their way between simulated actors: one queue for each pair, and what death loses."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from optimist.messages.base import ActorMessage
from optimist.messages.codec import Codec, encode
from optimist.messages.drafting import Accepted, Drafts, Rehearsed
from optimist.testing.gate import Gate


class Edge(NamedTuple):
    """From one life of a sender to a receiver, whatever its life. Its messages keep their order."""

    sender: str
    incarnation: int
    receiver: str


DROPPABLE = (Accepted, Drafts, Rehearsed)
"""what may be lost on its way without harm to anything but speed"""

M = TypeVar("M", bound=ActorMessage)

Watch = Callable[[Edge, ActorMessage], None]
"""sees every message that is sent, or that arrives"""


class EdgeRef(NamedTuple):
    """The address of a receiver, as one life of a sender holds it."""

    edges: Edges
    edge: Edge

    def send(self, message: Any, /) -> None:
        self.edges.send(self.edge, message)


class Edges:
    """codec: whether messages pass through it.

    repeat: how often a message comes twice, 0 to 1, where its receiver must bear that. loss: how often one
    that may be dropped is.
    """

    def __init__(
        self, rng: random.Random, *, codec: bool, repeat: float, loss: float = 0.0
    ) -> None:
        self.queues: dict[Edge, deque[ActorMessage]] = {}
        self.watches: list[Watch] = []
        self.arrivals: list[Watch] = []
        self.gates: dict[tuple[str, str], Gate] = {}
        self._rng = rng
        self._codec = codec
        self._repeat = repeat
        self._loss = loss

    def ref(self, sender: str, incarnation: int, receiver: str) -> EdgeRef:
        """An address for a constructor."""
        edge = Edge(sender, incarnation, receiver)
        self.queues[edge] = deque()
        return EdgeRef(self, edge)

    def send(self, edge: Edge, message: ActorMessage) -> None:
        """Put a message at the end of an edge, once or twice."""
        for watch in self.watches:
            watch(edge, message)
        if self._codec:
            message = Codec((type(message),)).decode(encode(message))
        gate = self.gates.get((edge.sender, edge.receiver))
        if gate is None:
            self._put(edge, message)
        else:
            gate.offer(message, lambda released: self._put(edge, released))

    def _put(self, edge: Edge, message: ActorMessage) -> None:
        if self._loss and isinstance(message, DROPPABLE) and self._rng.random() < self._loss:
            return
        queue = self.queues.setdefault(edge, deque())
        queue.append(message)
        inner = "gateway" not in (edge.sender, edge.receiver)
        if inner and self._repeat and self._rng.random() < self._repeat:
            queue.append(message)

    def take(self, edge: Edge) -> ActorMessage:
        """The next message of an edge, which arrives."""
        message = self.queues[edge].popleft()
        for watch in self.arrivals:
            watch(edge, message)
        return message

    def rescue(self, sender: str, receiver: str, kind: type[M]) -> list[M]:
        """Take all messages of a kind out of what is between two actors."""
        found: list[M] = []
        for edge, queue in self.queues.items():
            if (edge.sender, edge.receiver) == (sender, receiver):
                found += [message for message in queue if isinstance(message, kind)]
                self.queues[edge] = deque(m for m in queue if not isinstance(m, kind))
        return found

    def waiting(self, alive: set[str]) -> list[Edge]:
        """Edges with a message for somebody who lives."""
        return [edge for edge, queue in self.queues.items() if queue and edge.receiver in alive]

    def died(self, name: str, alive: Mapping[str, int]) -> None:
        """What the dead had received is lost, and perhaps some of what it was sending.

        alive: incarnations of those who live on. What is between two dead was in the memory of either.
        """
        for edge, queue in self.queues.items():
            if edge.receiver == name:
                for _ in range(self._rng.randint(0, len(queue))):
                    queue.popleft()
            if edge.sender == name:
                for _ in range(self._rng.randint(0, len(queue))):
                    queue.pop()
            if name in (edge.sender, edge.receiver) and _is_of_two_dead(edge, name, alive):
                queue.clear()

    def tidy(self, incarnations: set[int]) -> None:
        """Forget empty edges of dead senders."""
        for edge in [e for e, q in self.queues.items() if not q]:
            if edge.incarnation not in incarnations:
                del self.queues[edge]


def _is_of_two_dead(edge: Edge, name: str, alive: Mapping[str, int]) -> bool:
    """Whether neither end of an edge lives, now that `name` has died."""
    if edge.receiver == name:
        return alive.get(edge.sender) != edge.incarnation
    return edge.receiver not in alive
