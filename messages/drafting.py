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
    """Scheduler to proposer, when a request moves into a slot, and again when the proposer asks.

    epoch, step: the first step that may add tokens to these: the one whose plan opens the slot, or
    the one behind the last that settled. token_ids: what is known of the request, prompt first, [N].
    cache_salt, use_cache: as in its Admit: what one request generated is drafted for another of the
    same salt alone, and neither for nor from one with use_cache False.
    A Close comes before the Open of another request in the same slot and epoch.
    """

    epoch: int
    step: int
    slot: int
    generation: int
    token_ids: Column
    cache_salt: str
    use_cache: bool

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
    """Worker to proposer, after a step: tokens accepted in it and, if it was not told, before it.

    May be dropped. starts: tokens of the request that were known before these, [N]: history, so that a
    proposer sees that it missed some. wanted: drafts that the next batch has room for on the row, [N]; a
    row that wants none is told of now and then.
    """

    starts: Column = EMPTY
    wanted: Column = EMPTY

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = size(self.slots), {"starts": self.starts, "wanted": self.wanted}
        check_columns("Accepted", {name: (values, rows) for name, values in columns.items()})
        check_non_negative("Accepted", columns)


class Drafts(_Rows, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Proposer to worker: what may follow the tokens of `after_step`. May be late or dropped.

    One follows every Accepted, if only to say that there are none; a newer one answers for those
    before it.
    """


class Rehearsed(ActorMessage, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Proposer to scheduler: what drafts would have been worth to requests that wanted none. May be dropped.

    Of the tokens of each slot that an Accepted told of, in columns, [N]. asked: how often drafts would have
    been asked for; offered: how often there were some; drafted: drafts up to the first wrong one each time,
    it included; accepted: right ones. Shares are made of these, and nothing that is planned with.
    """

    epoch: int
    slots: Column = EMPTY
    generations: Column = EMPTY
    asked: Column = EMPTY
    offered: Column = EMPTY
    drafted: Column = EMPTY
    accepted: Column = EMPTY

    def __post_init__(self) -> None:
        rows = size(self.slots)
        columns = {
            "generations": self.generations,
            "asked": self.asked,
            "offered": self.offered,
            "drafted": self.drafted,
            "accepted": self.accepted,
        }
        check_columns("Rehearsed", {name: (values, rows) for name, values in columns.items()})
        check_non_negative("Rehearsed", {"slots": self.slots, **columns})
