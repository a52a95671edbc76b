"""A proposer actor whose messages are kept, and messages for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.actor import ProposerActor
from optimist.actors.proposer.base import Ids, Proposer
from optimist.messages.base import ActorMessage, column, ints
from optimist.messages.control import Resync
from optimist.messages.drafting import Accepted, Close, Drafts, Open
from optimist.messages.results import Capacity

VOCAB = 100


class Kept:
    """A ref that keeps what is sent."""

    def __init__(self) -> None:
        self.messages: list[ActorMessage] = []

    def send(self, message: Any, /) -> None:
        self.messages.append(message)


class Recorder(Proposer):
    """Keeps the tokens of every slot, and answers with the last one, over and over."""

    def __init__(self, config: ProposerConfig) -> None:
        super().__init__(config)
        self.slots: dict[int, list[int]] = {}
        self.closed: list[tuple[int, int]] = []
        self.asked: list[tuple[int, int]] = []

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        assert slot not in self.slots
        self.slots[slot] = token_ids.tolist()

    def close(self, slot: int, generation: int) -> None:
        self.closed.append((slot, generation))
        del self.slots[slot]

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self.slots[slot] += token_ids.tolist()

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        self.asked.append((slot, max_drafts))
        return np.full(max_drafts, self.slots[slot][-1], np.int32)


class Scene(NamedTuple):
    """An actor of incarnation 9, what it sent, and what it was told."""

    actor: ProposerActor
    kept: Any
    worker: Kept
    scheduler: Kept

    def open(
        self,
        slot: int,
        tokens: Sequence[int],
        *,
        generation: int = 1,
        epoch: int = 1,
        step: int = 0,
        salt: str = "",
        use_cache: bool = True,
    ) -> None:
        self.actor.receive(
            Open(
                incarnation=2,
                epoch=epoch,
                step=step,
                slot=slot,
                generation=generation,
                token_ids=column(tokens),
                cache_salt=salt,
                use_cache=use_cache,
            )
        )

    def close(self, slot: int, generation: int = 1) -> None:
        self.actor.receive(Close(incarnation=2, slot=slot, generation=generation))

    def accept(
        self,
        step: int,
        rows: dict[int, tuple[int, Sequence[int]]],
        *,
        generation: int = 1,
        epoch: int = 1,
        wanted: int = 3,
    ) -> None:
        """rows: of each slot, where its tokens start and which they are."""
        tokens = [ids for _, ids in rows.values()]
        self.actor.receive(
            Accepted(
                incarnation=1,
                epoch=epoch,
                after_step=step,
                slots=column(rows),
                generations=column([generation] * len(rows)),
                starts=column(start for start, _ in rows.values()),
                wanted=column([wanted] * len(rows)),
                counts=column(len(ids) for ids in tokens),
                token_ids=column(token for ids in tokens for token in ids),
            )
        )

    def capacity(self, max_model_len: int = 64, incarnation: int = 1) -> None:
        self.actor.receive(
            Capacity(
                incarnation=incarnation,
                num_blocks=8,
                block_size=4,
                max_slots=4,
                max_model_len=max_model_len,
                max_batch_tokens=64,
                vocab_size=VOCAB,
            )
        )

    def drafts(self) -> list[tuple[int, dict[int, list[int]]]]:
        """Take a turn: after which step which drafts in which slot were sent."""
        sent = len(self.worker.messages)
        self.actor.turn()
        found = [m for m in self.worker.messages[sent:] if isinstance(m, Drafts)]
        return [(drafts.after_step, by_slot(drafts)) for drafts in found]

    def asked(self) -> int:
        """How often the scheduler was asked to open everything again."""
        return sum(isinstance(message, Resync) for message in self.scheduler.messages)


def by_slot(drafts: Drafts) -> dict[int, list[int]]:
    """The token ids for each slot."""
    ids, counts = ints(drafts.token_ids), ints(drafts.counts)
    parts = np.split(ids, np.cumsum(counts)[:-1]) if counts.size else []
    slots = ints(drafts.slots).tolist()
    return {slot: part.tolist() for slot, part in zip(slots, parts, strict=True)}


def scene(kept: Proposer, **options: Any) -> Scene:
    """An actor around this object, with the vocabulary known."""
    worker, scheduler = Kept(), Kept()
    config = ProposerConfig(proposer="ngram", **options)
    actor = ProposerActor(config, 9, worker=worker, scheduler=scheduler, proposer=kept)
    made = Scene(actor, kept, worker, scheduler)
    made.capacity()
    return made
