"""All actors of an engine in one place, on virtual time, in an order that a seed decides."""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from optimist.actors.worker.base import Executor
from optimist.actors.worker.core import Times
from optimist.actors.worker.late_drafts import Lack
from optimist.actors.worker.stages import Running
from optimist.messages.base import ActorMessage
from optimist.messages.errors import OptimistError
from optimist.messages.requests import Placed
from optimist.messages.results import Capacity
from optimist.testing.births import born
from optimist.testing.drafting import Texts, place_of
from optimist.testing.edges import Edge, Edges
from optimist.testing.gate import Gate
from optimist.testing.gateway_model import GatewayModel
from optimist.testing.setup import OURS, Parts, Setup
from optimist.testing.wishes import Wish

STEP_S = 0.0005
"""mean virtual seconds between two events"""

PATIENCE = 0.1
"""how likely it is that drafts are given up before any other event comes, whose weight is 1 on average"""


class Stuck(OptimistError):
    """Requests wait and nothing moves."""


class Chaos(NamedTuple):
    """What goes wrong. kills: (event number, actor, or several joined by `+`). repeat, codec, loss: see Edges. uneven: slow edges."""

    kills: tuple[tuple[int, str], ...] = ()
    repeat: float = 0.0
    codec: bool = False
    uneven: bool = False
    loss: float = 0.0


CALM = Chaos()


class Death(NamedTuple):
    """at: event number."""

    at: int
    actor: str


class World:
    """Call `step` until it says False, or `run`."""

    def __init__(
        self,
        seed: int,
        setup: Setup,
        wishes: Sequence[Wish],
        chaos: Chaos = CALM,
        parts: Parts = OURS,
    ) -> None:
        self.rng = random.Random(seed)
        if setup.drafts and setup.texts is None:
            setup = setup._replace(texts=Texts(setup.model, wishes))
        self.setup = setup
        self.drafts = place_of(setup.drafts)
        self.now = 0.0
        self.events = 0
        self.edges = Edges(self.rng, codec=chaos.codec, repeat=chaos.repeat, loss=chaos.loss)
        self.deaths: list[Death] = []
        self.strikes: Counter[int] = Counter()
        """how often a request was live when worker and scheduler died together, or a scheduler heard of
        another worker than before"""
        self.parts = parts
        self._lives = 1
        self._kills = sorted(chaos.kills, reverse=True)
        self._arrivals = deque(sorted(wishes, key=lambda wish: wish.arrival))
        self._weights: dict[Any, float] = {}
        self._uneven = chaos.uneven
        self._due: dict[str, float] = {}
        self._restarts: dict[str, float] = {}
        self._idle = self._worker = 0
        self.running: deque[Running] = deque()
        self.device: Executor | None = None
        self.turned: list[Callable[[Any], None]] = []
        self.actors: dict[str, Any] = {}
        ref = self.edges.ref("gateway", 1, "scheduler")
        self.gateway = GatewayModel(1, scheduler=ref, clock=lambda: self.now)
        self.actors["gateway"] = self.gateway
        names = [
            "worker",
            "scheduler",
            "builder",
            *(["proposer"] if self.drafts == "host" else []),
        ]
        for name in self.rng.sample(names, len(names)):
            self._start(name)

    def run(self, budget: int = 200_000) -> None:
        """Until everything is quiet. Raises Stuck when it does not come to that."""
        while not self.quiet():
            self.step()
            if self.events > budget or self._idle > 500:
                raise Stuck(f"live: {self.gateway.live()} after {self.events} events")
        self._kills.clear()
        while not self.gateway.rested and (self._due or any(self.edges.queues.values())):
            self.step()

    def rush(self) -> None:
        """Until nothing moves of itself: what is not there now waits at a gate, or for a time to come."""
        self._fate()
        while self._sources():
            self.step()

    def gate(self, sender: str, receiver: str, *kinds: type[ActorMessage]) -> Gate:
        """Put a gate between two actors, shut for these kinds of messages."""
        gate = self.edges.gates[sender, receiver] = Gate(*kinds)
        return gate

    def quiet(self) -> bool:
        """Whether all requests have ended, everybody lives and no message is on its way."""
        return not (
            self._arrivals
            or self._restarts
            or self.running
            or self._desk_busy()
            or self.gateway.live()
            or any(self.edges.queues.values())
        )

    def step(self) -> None:
        """One event: a death, a birth, a message, a result, or something a client does."""
        self.events += 1
        self.now += self.rng.expovariate(1 / STEP_S)
        self._fate()
        sources = self._sources()
        if not sources:
            self._idle += 1
            self.now = max(self.now, min(self._times(), default=self.now + 1.0))
            return
        self._idle = 0
        weights = [self._weight(source) for source in sources]
        self._act(self.rng.choices(sources, weights)[0])

    def kill(self, cell: str) -> None:
        """The actor dies now, and with it what it had received; or several that share a process."""
        dead = [name for name in cell.split("+") if name in self.actors]
        if {"worker", "scheduler"} <= {*dead}:
            # They go a way of their own, which outlives the process.
            for placed in self.edges.rescue("scheduler", "gateway", Placed):
                self.gateway.receive(placed)
        for name in dead:
            self._kill(name)
        if not dead:
            return
        back = self.now + self.rng.choice([0.0, 0.002, 0.02])
        self._restarts.update(dict.fromkeys(dead, back))
        # Whoever was in a step then is known to the gateway alone.
        if {"worker", "scheduler"} & {*dead} and not {"worker", "scheduler"} & {*self.actors}:
            self.gateway.lose_steps()
            self.strikes.update(self.gateway.live())
            self._worker = 0

    def _kill(self, name: str) -> None:
        del self.actors[name]
        self._due.pop(name, None)
        if name == "worker":
            self.running.clear()
        alive = {other: actor.incarnation for other, actor in self.actors.items()}
        self.edges.died(name, alive)
        self.deaths.append(Death(self.events, name))

    def _times(self) -> list[float]:
        arrivals = [self._arrivals[0].arrival] if self._arrivals else []
        return [*self._due.values(), *self._restarts.values(), *arrivals]

    def _fate(self) -> None:
        while self._kills and self._kills[-1][0] <= self.events:
            self.kill(self._kills.pop()[1])
        for name in [n for n, at in self._restarts.items() if at <= self.now]:
            del self._restarts[name]
            self._start(name)
        while self._arrivals and self._arrivals[0].arrival <= self.now:
            self.gateway.open(self._arrivals.popleft())
        for name in [n for n, at in self._due.items() if at <= self.now]:
            self._turn(name)

    def _sources(self) -> list[Any]:
        sources: list[Any] = self.edges.waiting(set(self.actors))
        if self.running:
            sources.append("device")
        if self._desk_waits():
            sources.append("patience")
        if self._client_actions():
            sources.append("client")
        return sources

    def _weight(self, source: Any) -> float:
        if source == "patience":
            return PATIENCE
        key = (source.sender, source.receiver) if isinstance(source, Edge) else source
        if key not in self._weights:
            choices = [0.03, 0.3, 1.0, 1.0, 3.0] if self._uneven else [1.0]
            self._weights[key] = self.rng.choice(choices)
        return self._weights[key]

    def _act(self, source: Any) -> None:
        match source:
            case "device":
                running = self.running.popleft()
                desk = self.actors["worker"].desk
                desk.tell(running.batch, running.ticket.wait(), Times(self.rng.randint(500, 3000)))
                self._submit()
            case "patience":
                self.actors["worker"].desk.report(give_up=True)
                self._submit(give_up=True)
            case "client":
                self.rng.choice(self._client_actions())()
            case _:
                for _ in range(min(self.rng.choice([1, 1, 2, 4]), len(self.edges.queues[source]))):
                    self._deliver(source, self.edges.take(source))
                self._turn(source.receiver)

    def _deliver(self, edge: Edge, message: ActorMessage) -> None:
        receiver: Any = self.actors[edge.receiver]
        if isinstance(message, Capacity) and edge.receiver == "scheduler":
            self._another_worker(message.incarnation)
        receiver.receive(message)
        if edge.receiver == "worker":
            receiver.desk.report()
            self._submit()

    def _submit(self, *, give_up: bool = False) -> None:
        worker = self.actors["worker"]
        while (due := worker.desk.due(give_up=give_up)) is not None:
            self.running.append(worker.submit(due))
            give_up = False

    def _desk_busy(self) -> bool:
        worker = self.actors.get("worker")
        return worker is not None and (worker.desk.waiting or worker.desk.holds())

    def _desk_waits(self) -> bool:
        """Whether the worker waits for drafts, which may take too long."""
        worker = self.actors.get("worker")
        return worker is not None and (worker.desk.holds() or worker.desk.lacks() is Lack.DRAFTS)

    def _another_worker(self, incarnation: int) -> None:
        if 0 < self._worker < incarnation:
            self.strikes.update(self.gateway.live())
        self._worker = max(self._worker, incarnation)

    def _client_actions(self) -> list[Any]:
        journals = self.gateway.journals
        actions: list[Any] = [lambda r=r: self._take(r) for r in self.gateway.behind()]
        for request, journal in journals.items():
            after = journal.wish.cancel_after
            if after is None or not journal.live or journal.cancelling:
                continue
            if len(journal.tokens) >= after:
                actions.append(lambda r=request: self.gateway.cancel(r))
        return actions

    def _take(self, request: int) -> None:
        journal = self.gateway.journals[request]
        self.gateway.take(request, self.rng.randint(1, len(journal.tokens) - journal.taken))

    def _turn(self, name: str) -> None:
        self._due.pop(name, None)
        actor = self.actors[name]
        if name != "gateway" and (again := actor.turn()) is not None:
            self._due[name] = self.now + again
        for see in self.turned:
            see(actor)

    def _start(self, name: str) -> None:
        self._lives += 1
        self.actors[name] = born(self, name, self._lives)
        self.edges.tidy({1, *(actor.incarnation for actor in self.actors.values())})
        self.actors[name].started()
        self._turn(name)
