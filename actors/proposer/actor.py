"""The proposer as an actor: it tells a Proposer what happened, and its guesses to the worker."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, NamedTuple

import numpy as np

from optimist.actors.base import Actor
from optimist.actors.config import ProposerConfig, most_drafts
from optimist.actors.proposer.answers import Answers
from optimist.actors.proposer.base import NO_DRAFTS, Ids, Proposer
from optimist.actors.proposer.factory import make_proposer
from optimist.actors.proposer.guard import Guard
from optimist.actors.proposer.ledger import Accept, Ledger
from optimist.messages.base import ActorMessage, column, ints
from optimist.messages.control import Resync
from optimist.messages.drafting import Accepted, Close, Drafts, Open
from optimist.messages.errors import MailboxFull
from optimist.messages.results import Capacity
from optimist.transport.base import Ref

ProposerMessage = Open | Close | Accepted | Capacity

ASK_EVERY = 64
"""steps between two requests to open everything again"""


class ProposerStatistics(NamedTuple):
    """Counts so far. asked: rows that drafts were asked for. drafted: drafts sent.

    faults: of the class, by kind. ignored: messages, by reason.
    """

    asked: int
    drafted: int
    faults: dict[str, int]
    ignored: dict[str, int]


class ProposerActor(Actor[ProposerMessage]):
    """Drafts in `turn`, behind everything that was waiting: one that is late does not stay late.

    Until the worker has said how large its vocabulary is, there are no drafts. Raises ConfigError for
    an unknown proposer or a wrong option of it.
    """

    name: ClassVar[str] = "proposer"
    accepts: ClassVar[tuple[type[ActorMessage], ...]] = (Open, Close, Accepted, Capacity)
    emits: ClassVar[tuple[tuple[str, type[ActorMessage]], ...]] = (
        ("worker", Drafts),
        ("worker", Resync),
        ("scheduler", Resync),
    )

    def __init__(
        self,
        config: ProposerConfig,
        incarnation: int,
        *,
        worker: Ref[Drafts | Resync],
        scheduler: Ref[Resync],
        proposer: Proposer | None = None,
    ) -> None:
        """proposer: makes the guesses; None makes the one that config names."""
        super().__init__(incarnation)
        self._worker = worker
        self._scheduler = scheduler
        self._guard = Guard(make_proposer(config) if proposer is None else proposer)
        self._most = most_drafts(config.draft_tokens)
        self._ledger = Ledger()
        self._answers = Answers()
        self._capacity: Capacity | None = None
        self._ask_from = 0
        self._asked = self._drafted = 0
        self._ignored: Counter[str] = Counter()

    def statistics(self) -> ProposerStatistics:
        """Counts so far."""
        faults, ignored = dict(self._guard.faults), dict(self._ignored)
        return ProposerStatistics(self._asked, self._drafted, faults, ignored)

    def started(self) -> None:
        """Ask for the requests that run already, and for the size of the vocabulary."""
        self._ask_again()
        self._worker.send(Resync(incarnation=self.incarnation, actor=self.name))

    def receive(self, message: ProposerMessage) -> None:
        match message:
            case Accepted():
                self._accepted(message)
            case Open():
                self._open(message)
            case Close():
                if self._ledger.closes(message.slot, message.generation):
                    self._close(message.slot, message.generation)
            case Capacity():
                if self._capacity is None or message.incarnation >= self._capacity.incarnation:
                    self._capacity = message
            case _:
                self._ignored["message"] += 1

    def turn(self) -> float | None:
        """Answer every step that was told of since the last turn."""
        for step, rows in self._answers.take():
            self.answer(self.drafts(step, rows))
        if self._ledger.gap and self._answers.newest >= self._ask_from:
            self._ledger.gap, self._ask_from = False, self._answers.newest + ASK_EVERY
            self._ask_again()
        return None

    def drafts(self, step: int, wanted: dict[int, int]) -> Drafts:
        """The answer to a step. wanted: how many drafts in which slot."""
        found = {slot: self._propose(slot, most) for slot, most in wanted.items()}
        found = {slot: ids for slot, ids in found.items() if ids.size}
        return Drafts(
            incarnation=self.incarnation,
            epoch=self._ledger.epoch,
            after_step=step,
            slots=column(found),
            generations=column(self._ledger.holds(slot) or 0 for slot in found),
            counts=column(len(ids) for ids in found.values()),
            token_ids=column(np.concatenate([NO_DRAFTS, *found.values()])),
        )

    def answer(self, drafts: Drafts) -> None:
        """Send drafts. When the worker has no room for them they are lost."""
        try:
            self._worker.send(drafts)
            self._drafted += len(drafts.token_ids) // 4
        except MailboxFull:
            self._ignored["mailbox_full"] += 1

    def _propose(self, slot: int, wanted: int) -> Ids:
        generation, capacity = self._ledger.holds(slot), self._capacity
        if generation is None or capacity is None:
            return NO_DRAFTS
        room = capacity.max_model_len - self._ledger.length(slot) - 1
        if (most := min(wanted, self._most, room)) < 1:
            return NO_DRAFTS
        self._asked += 1
        return self._guard.propose(slot, generation, most, capacity.vocab_size)

    def _ask_again(self) -> None:
        self._scheduler.send(Resync(incarnation=self.incarnation, actor=self.name))

    def _open(self, message: Open) -> None:
        if not self._advance(message.epoch):
            return
        before = self._ledger.holds(message.slot)
        if (tokens := self._ledger.opens(message)) is None:
            return
        if before is not None:
            self._close(message.slot, before)
        salt = message.cache_salt if message.use_cache else None
        self._guard.open(message.slot, message.generation, tokens, salt)

    def _close(self, slot: int, generation: int) -> None:
        self._answers.drop(slot)
        self._guard.close(slot, generation)

    def _accepted(self, message: Accepted) -> None:
        if not self._advance(message.epoch):
            return
        self._answers.due(message.after_step)
        for row, wanted in _rows(message):
            if (news := self._ledger.accepts(row)) is not None:
                self._guard.accepted(row.slot, row.generation, news)
                if wanted:
                    self._answers.want(row.slot, row.step, wanted)
                else:
                    self._answers.drop(row.slot)

    def _advance(self, epoch: int) -> bool:
        """See the epoch of a message. False when it is over."""
        if epoch < self._ledger.epoch:
            self._ignored["epoch"] += 1
            return False
        if epoch > self._ledger.epoch:
            for slot, generation in self._ledger.advance(epoch):
                self._close(slot, generation)
            self._answers, self._ask_from = Answers(), 0
        return True


def _rows(message: Accepted) -> list[tuple[Accept, int]]:
    """Each row, and how many drafts it wants."""
    columns = (message.slots, message.generations, message.starts, message.counts, message.wanted)
    tokens, step, epoch = ints(message.token_ids), message.after_step, message.epoch
    rows, end = list[tuple[Accept, int]](), 0
    for slot, generation, start, count, wanted in zip(
        *(ints(values).tolist() for values in columns), strict=True
    ):
        begin, end = end, end + count
        ids = tokens[begin:end]
        rows.append((Accept(slot, generation, epoch, step, start, ids), wanted))
    return rows
