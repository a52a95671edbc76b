"""Stands between the actor and a class of somebody else's: nothing amiss gets past it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        """See Proposer."""
        self._open.discard(slot)
        with self._spared("open"):
            self._proposer.open(slot, generation, _read_only(token_ids))
            self._open.add(slot)

    def close(self, slot: int, generation: int) -> None:
        """See Proposer. It is not told of the end of a request that it failed to follow."""
        if slot in self._open:
            self._open.discard(slot)
            with self._spared("close"):
                self._proposer.close(slot, generation)

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        """See Proposer."""
        if slot in self._open:
            self._open.discard(slot)
            with self._spared("accepted"):
                self._proposer.accepted(slot, generation, _read_only(token_ids))
                self._open.add(slot)

    def propose(self, slot: int, generation: int, max_drafts: int, vocab_size: int) -> Ids:
        """Drafts that are none or right in form: ids of the vocabulary, [n] int32, n <= max_drafts."""
        if slot in self._open:
            with self._spared("propose"):
                ids = np.asarray(self._proposer.propose(slot, generation, max_drafts))
                if (fault := _fault(ids, max_drafts, vocab_size)) is None:
                    return ids.astype(np.int32)
                self._count(fault, "propose")
        return NO_DRAFTS

    @contextmanager
    def _spared(self, method: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever a class raises costs drafts only
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
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < vocab_size:
        return "not_in_vocabulary"
    return None
