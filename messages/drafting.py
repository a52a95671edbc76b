"""Between scheduler, worker and proposer. A draft that is late, stale or lost costs speed only."""

from __future__ import annotations

from optimist.messages.base import (
    EMPTY,
    ActorMessage,
    Column,
    check_columns,
    check_non_negative,
    ints,
    size,
)


class Open(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to proposer, when a request moves into a slot: its tokens so far, [N]."""

    slot: int
    generation: int
    token_ids: Column

    def __post_init__(self) -> None:
        check_non_negative("Open", {"token_ids": self.token_ids})


class Close(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Scheduler to proposer, when a request has left its slot."""

    slot: int
    generation: int


class _Rows(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Token ids for some slots after a step. slots, generations, counts: [N]; token_ids: [sum]."""

    epoch: int
    after_step: int
    slots: Column = EMPTY
    generations: Column = EMPTY
    counts: Column = EMPTY
    token_ids: Column = EMPTY

    def __post_init__(self) -> None:
        rows, name = size(self.slots), type(self).__name__
        total = int(ints(self.counts).sum()) if self.counts else 0
        check_columns(
            name,
            {
                "generations": (self.generations, rows),
                "counts": (self.counts, rows),
                "token_ids": (self.token_ids, total),
            },
        )
        check_non_negative(
            name,
            {
                "slots": self.slots,
                "generations": self.generations,
                "counts": self.counts,
                "token_ids": self.token_ids,
            },
        )


class Accepted(_Rows, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Worker to proposer, after a step: the tokens accepted in it. May be dropped."""


class Drafts(_Rows, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Proposer to worker: what may follow the tokens of `after_step`. May be late or dropped."""
