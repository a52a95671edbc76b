"""A gateway without text: it journals, grants, cancels, re-admits, and holds what it gets to the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from optimist.messages.base import floats, ints
from optimist.messages.control import Resync
from optimist.messages.errors import Code, OptimistError
from optimist.messages.requests import (
    Admit,
    Cancel,
    FinishReason,
    Grant,
    Placed,
    Retired,
    SchedulerStats,
    Scored,
    Tokens,
)
from optimist.messages.results import Logprobs
from optimist.testing.wishes import Wish
from optimist.transport.base import Ref

Requests = Admit | Cancel | Grant
Answers = Placed | Scored | Tokens | Retired | Resync | SchedulerStats


Told = tuple[float, list[int]]
"""log probability of a token, and the ids of its alternatives"""


class RuleBroken(OptimistError):
    """The scheduler told its gateway something that it must not."""


@dataclass(slots=True)
class Journal:
    """What the gateway knows of one request.

    taken: tokens that the client has. granted: tokens that may have been sent by now.
    finish, code: how it ended; `cancelled` where the client left. admissions: Admits sent.
    placed: in steps of the present scheduler. strikes: deaths of worker and scheduler that it was in.
    """

    wish: Wish
    start: float
    granted: int
    tokens: list[int] = field(default_factory=list)
    logprobs: dict[int, Told] = field(default_factory=dict)
    scores: dict[int, Told] = field(default_factory=dict)
    taken: int = 0
    finish: FinishReason | None = None
    code: Code | None = None
    cancelling: bool = False
    admissions: int = 1
    placed: bool = False
    strikes: int = 0

    @property
    def live(self) -> bool:
        """Whether more may come."""
        return self.finish is None and self.code is None

    @property
    def busy(self) -> bool:
        """Whether there is something that may be sent: of a request that is live."""
        wants = self.wish.sampling.prompt_logprobs >= 0
        unscored = wants and len(self.scores) + 1 < len(self.wish.prompt_ids)
        return unscored or self.granted > len(self.tokens)

    @property
    def over_again(self) -> bool:
        """Whether it ended and yet may run: a newborn scheduler can get an Admit from before and from
        after its Resync, and take the second when the first has ended. A Cancel behind both helps.
        """
        return not self.live and self.admissions > 1


class GatewayModel:
    """Raises RuleBroken when a token is lost, doubled, retracted or beyond the credit."""

    name = "gateway"

    def __init__(
        self, incarnation: int, *, scheduler: Ref[Requests], clock: Callable[[], float]
    ) -> None:
        self.incarnation = incarnation
        self.journals: dict[int, Journal] = {}
        self.fenced = 0
        self.cached_tokens = 0
        self.stats: SchedulerStats | None = None
        self._scheduler = scheduler
        self._clock = clock
        self._newest = 0
        self._steps_lost = False
        self._alone: int | None = None

    def open(self, wish: Wish) -> int:
        """Send a wish: the number of its request."""
        request = len(self.journals) + 1
        self.journals[request] = Journal(wish, self._clock(), wish.window)
        self._admit(request)
        return request

    def live(self) -> list[int]:
        """Requests that have not ended."""
        return [request for request, journal in self.journals.items() if journal.live]

    @property
    def rested(self) -> bool:
        """Whether the scheduler has said that it holds nothing."""
        stats = self.stats
        return (
            stats is not None
            and stats.waiting == stats.running == 0
            and stats.free_blocks == stats.num_blocks
        )

    def behind(self) -> list[int]:
        """Requests whose client could take tokens."""
        return [r for r, j in self.journals.items() if j.taken < len(j.tokens)]

    def take(self, request: int, count: int) -> None:
        """The client takes tokens, and as many more are granted."""
        journal = self.journals[request]
        journal.taken += count
        if journal.live:
            journal.granted += count
            self._scheduler.send(Grant(incarnation=self.incarnation, request=request, credit=count))

    def cancel(self, request: int, *, keep: int | None = None) -> None:
        """The client leaves."""
        self.journals[request].cancelling = True
        self._scheduler.send(Cancel(incarnation=self.incarnation, request=request, keep=keep))

    def receive(self, message: Answers) -> None:
        """Take one message of the scheduler, unless a newer scheduler has spoken."""
        if message.incarnation < self._newest:
            self.fenced += 1
            return
        self._newest = message.incarnation
        match message:
            case Placed():
                self._placed(message)
            case Scored():
                self._scored(message)
            case Tokens():
                self._tokens(message)
            case Retired():
                self._retired(message)
            case Resync():
                self._admit_again()
            case SchedulerStats():
                self.stats = message

    def lose_steps(self) -> None:
        """Worker and scheduler died together, and with them every step in flight."""
        self._steps_lost = True

    def _placed(self, message: Placed) -> None:
        journal = self._journal(message.request)
        if message.waits and not journal.placed:
            raise RuleBroken(f"request {message.request}: it waits again, and was in no step")
        self._alone = message.request if message.alone else None
        journal.placed = not message.waits
        journal.strikes = max(journal.strikes, message.strikes)

    def _tokens(self, message: Tokens) -> None:
        journal = self._journal(message.request)
        if journal.over_again:
            return
        came, index = ints(message.token_ids).tolist(), message.index
        known = len(journal.tokens)
        if index > known:
            raise RuleBroken(f"request {message.request}: index {index} came after {known} tokens")
        overlap = journal.tokens[index : index + len(came)]
        if came[: len(overlap)] != overlap:
            raise RuleBroken(f"request {message.request}: {overlap} became {came} at {index}")
        if not journal.live:
            raise RuleBroken(f"request {message.request}: tokens came after its end")
        journal.tokens += came[len(overlap) :]
        if len(journal.tokens) > journal.granted:
            raise RuleBroken(
                f"request {message.request}: {len(journal.tokens)} tokens, {journal.granted} granted"
            )
        if message.cached_len >= len(journal.wish.prompt_ids) + message.index:
            raise RuleBroken(f"request {message.request}: {message.cached_len} tokens cached")
        self._take_logprobs(journal, message)
        if message.finish is not None:
            self.cached_tokens += message.cached_len
            self._end(message.request, finish=message.finish)

    def _scored(self, message: Scored) -> None:
        """Log-probabilities of the prompt: in order, before any token, the same each time."""
        journal = self._journal(message.request)
        if journal.over_again:
            return
        if not journal.live:
            raise RuleBroken(f"request {message.request}: its prompt was scored after its end")
        if message.first > len(journal.scores) + 1:
            raise RuleBroken(f"request {message.request}: prompt token {message.first} came early")
        for at, told in _told(message.logprobs).items():
            if journal.tokens and message.first + at not in journal.scores:
                raise RuleBroken(f"request {message.request}: its prompt was scored too late")
            if journal.scores.setdefault(message.first + at, told) != told:
                raise RuleBroken(f"request {message.request}: prompt token {at} became {told}")

    def _take_logprobs(self, journal: Journal, message: Tokens) -> None:
        if message.logprobs is not None:
            for at, told in _told(message.logprobs).items():
                journal.logprobs[message.index + at] = told

    def _end(
        self, request: int, *, finish: FinishReason | None = None, code: Code | None = None
    ) -> None:
        journal = self.journals[request]
        journal.finish, journal.code = finish, code
        if journal.over_again:
            self._scheduler.send(Cancel(incarnation=self.incarnation, request=request))

    def _retired(self, message: Retired) -> None:
        journal = self._journal(message.request)
        if journal.over_again:
            return
        if not journal.live and not journal.cancelling:
            raise RuleBroken(f"request {message.request}: retired after its end")
        if not journal.live:
            return
        if message.problem is None and not journal.cancelling:
            raise RuleBroken(f"request {message.request}: retired without reason")
        if message.problem is None:
            self._end(message.request, finish="cancelled")
        else:
            self._end(message.request, code=message.problem.code)

    def _journal(self, request: int) -> Journal:
        if request not in self.journals:
            raise RuleBroken(f"request {request}: never asked for")
        return self.journals[request]

    def _admit_again(self) -> None:
        for request in self.live():
            journal = self.journals[request]
            journal.admissions += 1
            alone = self._alone in (None, request)
            journal.strikes += self._steps_lost and journal.placed and journal.busy and alone
            journal.placed = False
            if journal.cancelling:
                self._end(request, finish="cancelled")
                continue
            journal.granted = journal.taken + journal.wish.window
            self._admit(request)
        self._steps_lost, self._alone = False, None

    def _admit(self, request: int) -> None:
        journal = self.journals[request]
        self._scheduler.send(
            journal.wish.admit(
                request,
                journal.tokens,
                scored=len(journal.scores) + 1,
                incarnation=self.incarnation,
                credit=journal.granted - len(journal.tokens),
                start=journal.start,
                strikes=journal.strikes,
            )
        )


def _told(logprobs: Logprobs) -> dict[int, Told]:
    chosen, top = floats(logprobs.chosen).tolist(), ints(logprobs.top_ids).tolist()
    found, start = {}, 0
    for i, token in enumerate(ints(logprobs.tokens).tolist()):
        count = int(ints(logprobs.counts)[i])
        found[token] = (chosen[i], top[start : start + count])
        start += count
    return found
