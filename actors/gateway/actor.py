"""The gateway: requests in, chunks out. It knows neither sockets nor HTTP."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar

from anyio.lowlevel import checkpoint_if_cancelled

from optimist.actors.base import Actor
from optimist.actors.config import GatewayConfig
from optimist.actors.gateway.arrivals import Arrivals
from optimist.actors.gateway.continuation import Continuation
from optimist.actors.gateway.feed import Feed
from optimist.actors.gateway.health import Counts, Health, Pulse
from optimist.actors.gateway.intake import Intake
from optimist.actors.gateway.outbox import Outbox
from optimist.actors.gateway.roster import Roster
from optimist.actors.gateway.seeds import draw
from optimist.actors.gateway.stream import Hooks, Stream
from optimist.actors.gateway.tokenizer import Tokenizer
from optimist.messages.base import ActorMessage
from optimist.messages.client import Generate, Stats
from optimist.messages.control import Drain, Dropped, Fault, Restarted, Resync
from optimist.messages.errors import (
    EngineBroken,
    EngineEnded,
    MailboxFull,
    Overloaded,
    Problem,
    ProblemError,
    raised,
)
from optimist.messages.requests import (
    Admit,
    Cancel,
    Grant,
    Placed,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.transport.base import Inbox, Ref

RETRY_AFTER = 1.0
LOOK_AROUND = 0.25
"""seconds after which a stream that became garbage is noticed at the latest"""

FromScheduler = Placed | Scored | Tokens | Retired | Resync | SchedulerStats
GatewayInbox = FromScheduler | Fault | Restarted | Dropped | Drain


class Gateway(Actor[GatewayInbox]):
    """Validates, tokenises, admits, detokenises and streams; remembers every live request.

    max_model_len: tokens of one request, None until the scheduler tells. clock: monotonic seconds,
    the scheduler's too. draw: gives a seed to a request that has none.
    """

    name: ClassVar[str] = "gateway"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (
        Placed,
        Scored,
        Tokens,
        Retired,
        Resync,
        SchedulerStats,
        Fault,
        Restarted,
        Dropped,
        Drain,
    )
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("scheduler", Admit),
        ("scheduler", Cancel),
        ("scheduler", Grant),
        ("scheduler", Resync),
    )

    def __init__(
        self,
        config: GatewayConfig,
        incarnation: int,
        *,
        scheduler: Ref[Admit | Cancel | Grant | Resync],
        tokenizer: Tokenizer,
        max_model_len: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], int] = draw,
    ) -> None:
        super().__init__(incarnation)
        self.config = config
        self.tokenizer = tokenizer
        self.counts = Counts()
        self.scheduler_stats: SchedulerStats | None = None
        self._clock = clock
        self._scheduler = scheduler
        self._outbox = Outbox(scheduler, incarnation)
        self._intake = Intake(
            incarnation,
            tokenizer,
            credit=config.credit,
            max_model_len=max_model_len,
            draw=draw,
        )
        self._roster = Roster(self._outbox, self.counts)
        self._arrivals = Arrivals(self._roster, self._outbox, self.counts)
        self._abandoned: deque[Feed] = deque()
        self._hooks = Hooks(
            self._taken, self._roster.leave, self._roster.cancel, self._abandoned.append
        )
        self._pulse = Pulse(clock())
        self._preparing = 0
        self._scheduler_incarnation = 0
        self._steps_lost = False
        self._draining = False
        self._end: Problem | None = None

    def started(self) -> None:
        """Ask the scheduler how things stand: it may have said so before anybody listened here."""
        self._scheduler.send(Resync(incarnation=self.incarnation, actor=self.name))

    def open(self, generate: Generate) -> Stream:
        """Admit a request and return its stream. Encodes the prompt here and now: see `submit`.

        generate.request is not looked at: names belong to whoever holds a connection.
        Raises InvalidRequest, TooLarge or Overloaded, or an EngineError when nothing is accepted.
        """
        self._check(generate)
        return self._start(generate, self._intake.encode(generate), self._clock())

    async def submit(self, generate: Generate) -> Stream:
        """The same as `open`, but renders a chat and tokenises a long text off the loop."""
        # Here and below: who is cancelled hears of that, not of an end for the same reason.
        await checkpoint_if_cancelled()
        self._check(generate)
        received = self._clock()
        self._preparing += generate.params.n
        try:
            prompt_ids = await self._intake.encode_aside(generate)
        finally:
            self._preparing -= generate.params.n
        await checkpoint_if_cancelled()
        self._check_accepting()
        return self._start(generate, prompt_ids, received)

    def end(self, problem: ProblemError) -> None:
        """End every request with this error, and refuse new ones with it. The first call stands."""
        if self._end is None:
            self._end = problem.problem
        self._roster.fail_all(self._end)

    @property
    def live(self) -> int:
        """Continuations that run or wait. A drained gateway has none."""
        return len(self._roster) + self._preparing

    @property
    def drained(self) -> bool:
        """Whether it was told to drain, and nothing is left of what it had taken."""
        return self._draining and not self.live

    @property
    def max_model_len(self) -> int | None:
        """Tokens of one request, prompt and output; None until it is known."""
        return self._intake.max_model_len

    def health(self) -> Health:
        """Whether requests get on, and whether new ones are taken."""
        now = self._clock()
        if self._end is not None:
            return Health(healthy=False, accepting=False, reason=self._end.message)
        reason = self._pulse.reason(now, busy=self._busy())
        if self._draining:
            return Health(healthy=not reason, accepting=False, reason=reason or "draining")
        return Health(healthy=not reason, accepting=not reason, reason=reason)

    def stats(self) -> Stats:
        """How busy the engine is, as the scheduler last said."""
        last = self.scheduler_stats
        return Stats(
            waiting=last.waiting if last else 0,
            running=last.running if last else 0,
            free_blocks=last.free_blocks if last else 0,
            num_blocks=last.num_blocks if last else 0,
            steps=last.steps if last else 0,
            healthy=self.health().healthy,
        )

    def receive(self, message: GatewayInbox) -> None:
        """Take one message. Those of a scheduler that has been replaced are ignored."""
        match message:
            case Placed() | Scored() | Tokens() | Retired() | SchedulerStats() if (
                self._from_the_dead(message)
            ):
                self.counts.stale += 1
            case Placed() | Scored() | Tokens() | Retired():
                if self._arrivals.take(message):
                    self._pulse.beat(self._clock())
            case SchedulerStats():
                self._on_stats(message)
            case Resync():
                self._on_resync(message)
            case Fault():
                self._on_fault(message)
            case Restarted():
                self._pulse.restarted(message.actor, self._clock())
            case Dropped():
                dropped = self.counts.dropped
                dropped[message.actor] = dropped.get(message.actor, 0) + message.frames
            case Drain():
                self._draining = True
            case _:
                self.counts.unknown += 1

    def turn(self) -> float | None:
        """Cancel what was abandoned, send what could not be sent. Again soon while requests live."""
        while self._abandoned:
            self._roster.leave(self._abandoned.popleft())
        self._outbox.flush()
        if not self._busy():
            self._pulse.beat(self._clock())
        return LOOK_AROUND if self._roster else None

    async def run(self, inbox: Inbox[GatewayInbox]) -> None:
        """Receive until the inbox ends. However this ends, no stream is left waiting."""
        try:
            await super().run(inbox)
        except Exception as error:
            self.end(EngineBroken(f"gateway failed: {type(error).__name__}: {error}"))
            raise
        finally:
            self.end(EngineEnded("the engine has ended"))

    def _check(self, generate: Generate) -> None:
        self._check_accepting()
        limit, wanted = self.config.max_requests, generate.params.n
        if self.live + wanted > limit:
            self.counts.refused += 1
            raise Overloaded(
                f"expected at most {limit} live requests, got {self.live} and {wanted} more",
                retry_after=RETRY_AFTER,
            )
        self._intake.check(generate)

    def _check_accepting(self) -> None:
        if self._end is not None:
            raise raised(self._end)
        if self._draining:
            raise EngineEnded("the engine is draining: it finishes what it has and takes no more")

    def _start(self, generate: Generate, prompt_ids: list[int], received: float) -> Stream:
        feed = Feed(self._intake.continuations(generate, prompt_ids, received))
        try:
            self._roster.admit(feed)
        except MailboxFull:
            self.counts.refused += 1
            raise Overloaded("the scheduler's inbox is full", retry_after=RETRY_AFTER) from None
        self.counts.admitted += 1
        return Stream(feed, self._hooks, feed.continuations[0].entry.seed, len(prompt_ids))

    def _on_stats(self, stats: SchedulerStats) -> None:
        self.scheduler_stats = stats
        self._intake.max_model_len = stats.max_model_len
        self._pulse.beat(stats.last_step_at)

    def _on_resync(self, resync: Resync) -> None:
        if resync.incarnation < self._scheduler_incarnation:
            self.counts.stale += 1
            return
        self._scheduler_incarnation = resync.incarnation
        lost, self._steps_lost = self._steps_lost, False
        for entry in self._roster:
            if lost and self._arrivals.in_a_step(entry):
                entry.strikes += 1
            self._outbox.readmit(entry)
        self._arrivals.restarted()

    def _on_fault(self, fault: Fault) -> None:
        self._pulse.fault(fault.actor, fault.reason)
        # Where only one of them is lost, the scheduler counts: it knows which steps had not settled.
        if fault.actor in ("worker", "scheduler"):
            self._steps_lost |= self._pulse.lost("worker") and self._pulse.lost("scheduler")
        if fault.final:
            self.end(EngineBroken(f"{fault.actor} was lost for good: {fault.reason}"))

    def _from_the_dead(self, message: ActorMessage) -> bool:
        known = self._scheduler_incarnation
        self._scheduler_incarnation = max(known, message.incarnation)
        return message.incarnation < known

    def _busy(self) -> bool:
        return any(entry.busy for entry in self._roster)

    def _taken(self, continuation: Continuation) -> None:
        if continuation.entry.request in self._roster:
            self._outbox.grant(continuation.entry)
