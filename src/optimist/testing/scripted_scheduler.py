"""A scheduler without a model: it answers every request with the tokens of a script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optimist.messages.base import column, ints, size
from optimist.messages.control import Resync
from optimist.messages.requests import (
    Admit,
    Cancel,
    FinishReason,
    Grant,
    Retired,
    Scored,
    Tokens,
)
from optimist.messages.results import Logprobs

Script = Callable[[Admit], Sequence[int]]
"""All tokens of a request, the stop token included, as if nothing had been emitted."""

Answer = Scored | Tokens | Retired | Resync


class _Running:
    def __init__(self, admit: Admit, script: Sequence[int]) -> None:
        self.admit = admit
        self.script = list(script)[: admit.max_tokens]
        self.sent = size(admit.emitted_ids)
        self.credit = admit.credit

    def finish(self, end: int) -> FinishReason | None:
        if end < len(self.script):
            return None
        stops = set(ints(self.admit.stop_ids).tolist())
        return "stop" if self.script and self.script[-1] in stops else "length"


class ScriptedScheduler:
    """A Ref that a gateway can send to; `step` gives what it would get back.

    Keeps the scheduler's side of the contract: within credit, Retired after a Cancel, the prompt
    and emitted ids of a readmission continued. requests: what was admitted, in order; sent: every
    message it got. logprobs: reports each token as certain. paused: while True no token is made.
    """

    def __init__(self, script: Script, *, incarnation: int = 1, logprobs: bool = False) -> None:
        self.incarnation = incarnation
        self.paused = False
        self.sent: list[Admit | Cancel | Grant | Resync] = []
        self._script = script
        self._logprobs = logprobs
        self._running: dict[int, _Running] = {}
        self._answers: list[Answer] = []

    @property
    def requests(self) -> tuple[int, ...]:
        """Requests that run."""
        return tuple(self._running)

    @property
    def admits(self) -> list[Admit]:
        """Every Admit it got."""
        return [message for message in self.sent if isinstance(message, Admit)]

    @property
    def cancels(self) -> list[Cancel]:
        """Every Cancel it got."""
        return [message for message in self.sent if isinstance(message, Cancel)]

    @property
    def grants(self) -> list[Grant]:
        """Every Grant it got."""
        return [message for message in self.sent if isinstance(message, Grant)]

    def send(self, message: Admit | Cancel | Grant | Resync, /) -> None:
        """Take a message of the gateway."""
        self.sent.append(message)
        match message:
            case Admit():
                self._running[message.request] = _Running(message, self._script(message))
                self._score(message)
            case Grant() if message.request in self._running:
                self._running[message.request].credit += message.credit
            case Cancel() if self._running.pop(message.request, None):
                self._answers.append(Retired(incarnation=self.incarnation, request=message.request))
            case _:
                pass

    def restart(self) -> Resync:
        """Forget everything, as a new life does. Returns what it says first."""
        self.incarnation += 1
        self._running.clear()
        self._answers.clear()
        return Resync(incarnation=self.incarnation, actor="scheduler")

    def step(self, tokens: int = 1) -> list[Answer]:
        """Up to so many tokens of every request that has credit, and what else is to be said."""
        answers, self._answers = self._answers, []
        for running in [] if self.paused else list(self._running.values()):
            count = min(tokens, running.credit, len(running.script) - running.sent)
            if count > 0 or running.sent == len(running.script):
                answers.append(self._advance(running, count))
        return answers

    def _score(self, admit: Admit) -> None:
        """Say that every token of the prompt was certain, where that is asked."""
        ids = ints(admit.prompt_ids).tolist()[1:]
        if admit.sampling.prompt_logprobs >= 0 and ids:
            self._answers.append(
                Scored(
                    incarnation=self.incarnation,
                    request=admit.request,
                    first=1,
                    logprobs=_certain(ids),
                )
            )

    def _advance(self, running: _Running, count: int) -> Tokens:
        ids = running.script[running.sent : running.sent + count]
        finish = running.finish(running.sent + count)
        message = Tokens(
            incarnation=self.incarnation,
            request=running.admit.request,
            index=running.sent,
            token_ids=column(ids),
            logprobs=_certain(ids) if self._logprobs else None,
            finish=finish,
        )
        running.sent += count
        running.credit -= count
        if finish is not None:
            del self._running[running.admit.request]
        return message


def _certain(ids: Sequence[int]) -> Logprobs:
    zeros = column([0] * len(ids))
    return Logprobs(
        tokens=column(range(len(ids))),
        chosen=zeros,
        ranks=zeros,
        counts=column([1] * len(ids)),
        top_ids=column(ids),
        top_values=zeros,
    )
