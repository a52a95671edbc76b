"""Stands between the actor and a class of somebody else's: nothing amiss gets past it."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

import numpy as np

from optimist.actors.proposer.base import NO_DRAFTS, Ids, Proposer

_log = logging.getLogger("optimist")


class Guard:
    """Calls a Proposer. What it raises or returns amiss is counted in `faults`, by kind, and costs drafts.

    A request that it failed to follow has no drafts until the slot is opened again.
    """

    def __init__(self, proposer: Proposer) -> None:
        self.faults: Counter[str] = Counter()
        self._proposer = proposer
        self._open: set[int] = set()

    def open(self, slot: int, generation: int, token_ids: Ids, salt: str | None = None) -> None:
        """See Proposer; salt: as `shares` is told, before."""
        self._open.discard(slot)
        try:
            self._proposer.shares(slot, generation, salt)
            self._proposer.open(slot, generation, _read_only(token_ids))
            self._open.add(slot)
        except Exception as error:  # noqa: BLE001 - whatever a class raises costs drafts only
            self._raised("open", error)

    def close(self, slot: int, generation: int) -> None:
        """See Proposer. It is not told of the end of a request that it failed to follow."""
        if slot in self._open:
            self._open.discard(slot)
            try:
                self._proposer.close(slot, generation)
            except Exception as error:  # noqa: BLE001 - as in open
                self._raised("close", error)

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        """See Proposer."""
        if slot in self._open:
            try:
                self._proposer.accepted(slot, generation, _read_only(token_ids))
            except Exception as error:  # noqa: BLE001 - as in open
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
            except Exception as error:  # noqa: BLE001 - as in open
                self._raised("propose", error)
        return NO_DRAFTS

    def _raised(self, method: str, error: Exception) -> None:
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
