"""Stands between the actor and a class of somebody else's: nothing amiss gets past it."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import numpy as np

from optimist.actors.proposer.base import (
    NO_DRAFTS,
    Ids,
    Proposer,
    RehearsingProposer,
    StepProposer,
    StepRows,
    Worth,
)

_log = logging.getLogger("optimist")


class Guard:
    """Calls a Proposer. What it raises or returns amiss is counted in `faults`, by kind, and costs drafts.

    A request that it failed to follow has no drafts until the slot is opened again.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.faults: Counter[str] = Counter()
        self._proposer = proposer
        self._whole = proposer if isinstance(proposer, StepProposer) else None
        self._rehearsing = proposer if isinstance(proposer, RehearsingProposer) else None
        self._open: set[int] = set()

    def open(self, slot: int, generation: int, token_ids: Ids, salt: str | None = None) -> None:
        """See Proposer; salt: as `shares` is told, before."""
        self._open.discard(slot)
        try:
            self._proposer.shares(slot, generation, salt)
            self._proposer.open(slot, generation, _read_only(token_ids))
            self._open.add(slot)
        except BaseException as error:  # noqa: BLE001 - whatever a class raises costs drafts only
            self._raised("open", error)

    def close(self, slot: int, generation: int) -> None:
        """See Proposer. It is not told of the end of a request that it failed to follow."""
        if slot in self._open:
            self._open.discard(slot)
            try:
                self._proposer.close(slot, generation)
            except BaseException as error:  # noqa: BLE001 - as in open
                self._raised("close", error)

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        """See Proposer."""
        if slot in self._open:
            try:
                self._proposer.accepted(slot, generation, _read_only(token_ids))
            except BaseException as error:  # noqa: BLE001 - as in open
                self._open.discard(slot)
                self._raised("accepted", error)

    def propose(self, slot: int, generation: int, max_drafts: int, vocab_size: int) -> Ids:
        """Drafts that are none or right in form: ids of the vocabulary, [n] int32, n <= max_drafts."""
        if slot in self._open:
            try:
                ids = np.asarray(self._proposer.propose(slot, generation, max_drafts))
                if not ids.size and ids.ndim == 1:
                    return NO_DRAFTS
                if (fault := _fault(ids, max_drafts, vocab_size)) is None:
                    return ids.astype(np.int32)
                self._count(fault, "propose")
            except BaseException as error:  # noqa: BLE001 - as in open
                self._raised("propose", error)
        return NO_DRAFTS

    def step(self, rows: StepRows, vocab_size: int) -> tuple[Ids, Ids]:
        """See StepProposer, which any Proposer becomes here; drafts of each row as those of `propose`."""
        slots = rows.slots.tolist()
        if self._whole is None or not self._open.issuperset(slots):
            return self._one_by_one(rows, vocab_size)
        try:
            told = rows._replace(most=_read_only(rows.most))
            counts, ids = map(np.asarray, self._whole.step(told))
            if (fault := _step_fault(counts, ids, rows.most)) is None:
                return self._of_vocabulary(counts.astype(np.int32), ids, vocab_size)
            self._count(fault, "step")
        except BaseException as error:  # noqa: BLE001 - as in open
            # Nobody knows which rows it has followed.
            self._open.difference_update(slots)
            self._raised("step", error)
        return np.zeros(len(slots), np.int32), NO_DRAFTS

    @property
    def rehearses(self) -> bool:
        """Whether `rehearse` has answers."""
        return self._rehearsing is not None

    def rehearse(self, rows: StepRows, max_drafts: int) -> Worth | None:
        """See RehearsingProposer. None: nothing is known of what drafts would have been worth."""
        slots = rows.slots.tolist()
        if self._rehearsing is None or not self._open.issuperset(slots):
            self._one_by_one(rows._replace(most=np.zeros_like(rows.most)), 0)
            return None
        try:
            worth = Worth(*map(np.asarray, self._rehearsing.rehearse(rows, max_drafts)))
            if _is_possible(worth, rows.counts):
                return worth
            self._count("not_possible", "rehearse")
        except BaseException as error:  # noqa: BLE001 - as in open
            # Nobody knows which rows it has followed.
            self._open.difference_update(slots)
            self._raised("rehearse", error)
        return None

    def _one_by_one(self, rows: StepRows, vocab_size: int) -> tuple[Ids, Ids]:
        slots, generations, most = (c.tolist() for c in (rows.slots, rows.generations, rows.most))
        parts = rows.parts()
        for slot, generation, part in zip(slots, generations, parts, strict=True):
            if len(part):
                self.accepted(slot, generation, part)
        found = [
            self.propose(slot, generation, wanted, vocab_size) if wanted else NO_DRAFTS
            for slot, generation, wanted in zip(slots, generations, most, strict=True)
        ]
        counts = np.array([len(ids) for ids in found], np.int32)
        return counts, np.concatenate([NO_DRAFTS, *found])

    def _of_vocabulary(
        self, counts: Ids, ids: np.ndarray[Any, Any], vocab_size: int
    ) -> tuple[Ids, Ids]:
        """Without the rows that have drafts of no vocabulary."""
        amiss = (ids < 0) | (ids >= vocab_size)
        if not amiss.any():
            return counts, ids.astype(np.int32)
        row = np.repeat(np.arange(len(counts)), counts)
        bad = np.zeros(len(counts), np.bool_)
        bad[row[amiss]] = True
        for _ in range(int(bad.sum())):
            self._count("not_in_vocabulary", "step")
        return np.where(bad, np.int32(0), counts), ids[~bad[row]].astype(np.int32)

    def _raised(self, method: str, error: BaseException) -> None:
        """Count it, SystemExit too. Only Ctrl-C, which may come while the class runs, goes further."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        self._count("raised", f"{method}: {type(error).__name__}: {error}")

    def _count(self, fault: str, where: str) -> None:
        """Count it, and warn of the first of a kind."""
        self.faults[fault] += 1
        if self.faults[fault] == 1:
            name = type(self._proposer).__name__
            _log.warning("proposer: %s in %s.%s; it costs drafts only", fault, name, where)


def _read_only(token_ids: Ids) -> Ids:
    view = token_ids.view()
    view.flags.writeable = False
    return view


def _fault(ids: np.ndarray[Any, Any], max_drafts: int, vocab_size: int) -> str | None:
    """What is wrong with drafts, None when nothing is."""
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        return "not_ids"
    if ids.size > max_drafts:
        return "too_many"
    # As Python's numbers: of a few that is the quickest.
    if any(not 0 <= token < vocab_size for token in ids.tolist()):
        return "not_in_vocabulary"
    return None


def _step_fault(counts: np.ndarray[Any, Any], ids: np.ndarray[Any, Any], most: Ids) -> str | None:
    """What is wrong with the drafts of a step, None when nothing is."""
    if counts.shape != most.shape or ids.ndim != 1:
        return "not_ids"
    if any(array.size and array.dtype.kind not in "iu" for array in (counts, ids)):
        return "not_ids"
    if (counts < 0).any() or counts.sum() != ids.size:
        return "not_ids"
    return "too_many" if (counts > most).any() else None


def _is_possible(worth: Worth, tokens: Ids) -> bool:
    """Whether rows that went on with so many tokens, [S], can have this behind them."""
    if any(column.shape != tokens.shape or column.dtype.kind not in "iu" for column in worth):
        return False
    asked, offered, drafted, accepted = worth
    falls = ((accepted, drafted), (drafted, tokens), (offered, asked), (asked, tokens))
    good = all((less <= more).all() for less, more in falls)
    return good and bool((accepted >= 0).all() and (offered >= 0).all())
