"""The proposer as an actor: it tells a Proposer what happened, and its guesses to the worker."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, NamedTuple

import numpy as np

from optimist.actors.base import Actor
from optimist.actors.config import ProposerConfig, most_drafts
from optimist.actors.proposer.answers import Answers
from optimist.actors.proposer.base import NO_DRAFTS, Proposer, StepRows
from optimist.actors.proposer.factory import make_proposer
from optimist.actors.proposer.guard import Guard
from optimist.actors.proposer.ledger import Ledger
from optimist.actors.proposer.told import news
from optimist.messages.base import ActorMessage, column
from optimist.messages.control import Resync
from optimist.messages.drafting import Accepted, Close, Drafts, Open, Rehearsed
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
        ("scheduler", Rehearsed),
    )

    def __init__(
        self,
        config: ProposerConfig,
        incarnation: int,
        *,
        worker: Ref[Drafts | Resync],
        scheduler: Ref[Resync | Rehearsed],
        proposer: Proposer | None = None,
    ) -> None:
        """proposer: makes the guesses; None makes the one that config names."""
        super().__init__(incarnation)
        self._worker = worker
        self._scheduler = scheduler
        self._guard = Guard(make_proposer(config) if proposer is None else proposer)
        self._most = most_drafts(config.draft_tokens)
        self._rehearses = config.draft_tokens == "auto" and self._guard.rehearses
        self._ledger = Ledger()
        self._answers = Answers()
        self._told: Accepted | None = None
        """the latest step that was told of, which nobody has looked at"""
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
        self._look()
        match message:
            case Accepted():
                if self._advance(message.epoch):
                    self._told = message
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
        if self._told is not None and self._answers.at_once(self._told.after_step):
            # Mostly there is one, and what it tells and what it asks for is one call of the class.
            told, self._told = self._told, None
            self._answer(told.after_step, self._news(told))
        self._look()
        for step, rows in self._answers.take():
            self.answer(self._drafts(step, self._wanted(rows)))
        if self._ledger.gap and self._answers.newest >= self._ask_from:
            self._ledger.gap, self._ask_from = False, self._answers.newest + ASK_EVERY
            self._ask_again()
        return None

    def answer(self, drafts: Drafts) -> None:
        """Send drafts. When the worker has no room for them they are lost."""
        try:
            self._worker.send(drafts)
            self._drafted += len(drafts.token_ids) // 4
        except MailboxFull:
            self._ignored["mailbox_full"] += 1

    def report(self, rehearsed: Rehearsed) -> None:
        """Send what drafts would have been worth. When the scheduler has no room for it, it is lost."""
        try:
            self._scheduler.send(rehearsed)
        except MailboxFull:
            self._ignored["mailbox_full"] += 1

    def _look(self) -> None:
        """Take what the latest step told, and keep what it asked for."""
        if self._told is None:
            return
        told, self._told = self._told, None
        rows = self._news(told)
        self._answers.due(told.after_step)
        for slot, most in zip(rows.slots.tolist(), rows.most.tolist(), strict=True):
            if most:
                self._answers.want(slot, told.after_step, most)
            else:
                self._answers.drop(slot)
        self._guard.step(rows._replace(most=np.zeros_like(rows.most)), self._vocab_size)

    def _news(self, told: Accepted) -> StepRows:
        capacity = self._capacity
        reach = 0 if capacity is None else capacity.max_model_len - 1
        return news(self._ledger, told, self._most, reach)

    def _wanted(self, wanted: dict[int, int]) -> StepRows:
        """Rows that have been told already. wanted: how many drafts in which slot."""
        generations = [self._ledger.holds(slot) or 0 for slot in wanted]
        columns = (np.array(list(c), np.int32) for c in (wanted, generations, wanted.values()))
        slots, of, most = columns
        return StepRows(slots, of, np.zeros_like(slots), most, NO_DRAFTS)

    def _drafts(self, step: int, rows: StepRows) -> Drafts:
        """The answer to a step."""
        self._asked += int(np.count_nonzero(rows.most))
        counts, ids = self._guard.step(rows, self._vocab_size)
        some = counts > 0
        return Drafts(
            incarnation=self.incarnation,
            epoch=self._ledger.epoch,
            after_step=step,
            slots=column(rows.slots[some]),
            generations=column(rows.generations[some]),
            counts=column(counts[some]),
            token_ids=column(ids),
        )

    def _answer(self, step: int, rows: StepRows) -> None:
        """Those that want drafts first: somebody waits for them."""
        wanting = rows.most > 0
        if not self._rehearses or wanting.all():
            self.answer(self._drafts(step, rows))
        else:
            self.answer(self._drafts(step, rows.only(wanting)))
            self._rehearse(rows.only(~wanting))

    def _rehearse(self, rows: StepRows) -> None:
        """Of rows that want no drafts now: would some have been worth it? The scheduler asks by that."""
        if (worth := self._guard.rehearse(rows, self._most)) is not None:
            names = {"slots": column(rows.slots), "generations": column(rows.generations)}
            counts = {name: column(values) for name, values in worth._asdict().items()}
            epoch = self._ledger.epoch
            self.report(Rehearsed(incarnation=self.incarnation, epoch=epoch, **names, **counts))

    @property
    def _vocab_size(self) -> int:
        return 0 if self._capacity is None else self._capacity.vocab_size

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
