"""Drafts from suffix trees: of the request itself, and of requests that have ended."""

from __future__ import annotations

import numpy as np

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer
from optimist.actors.proposer.options import check_suffix
from optimist.actors.proposer.suffix_tree import END, SuffixTree
from optimist.actors.proposer.suffix_walk import Walk, walk

MOST_SALTS = 256
"""of which texts are remembered: many of a few tokens each take objects beside their tokens"""

_END = np.array([END], np.int32)


class SharedTexts:
    """The latest `capacity` tokens of ended texts, in two trees: the elder is dropped whole.

    Memory: at most 24 bytes for each of `capacity` tokens, however many texts there were.
    """

    def __init__(self, capacity: int) -> None:
        self._half = capacity // 2
        self.trees: list[SuffixTree] = []

    def __len__(self) -> int:
        """Tokens in it, ends of texts included."""
        return sum(len(tree) for tree in self.trees)

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        return sum(tree.nbytes for tree in self.trees)

    def add(self, text: Ids) -> None:
        """Remember a text, of a long one its end. [N]."""
        if self._half < 1:
            return
        text = np.append(text[max(0, len(text) - self._half + 1) :], _END)
        if not self.trees or len(self.trees[-1]) + len(text) > self._half:
            self.trees = [*self.trees[-1:], SuffixTree(len(text))]
        self.trees[-1].append(text)


class SaltedTexts:
    """SharedTexts for each salt: a request sees those of its own alone.

    Together they hold at most `capacity` tokens, and MOST_SALTS salts: for more, the salt goes
    whose latest text is the oldest. Memory: as of SharedTexts, whatever the number of salts.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._texts: dict[str, SharedTexts] = {}

    @property
    def nbytes(self) -> int:
        """Memory that all of them hold."""
        return sum(texts.nbytes for texts in self._texts.values())

    def __len__(self) -> int:
        """Tokens in it, ends of texts included."""
        return sum(len(texts) for texts in self._texts.values())

    def trees(self, salt: str | None) -> list[SuffixTree]:
        """What a request of this salt may see; of none for None."""
        texts = None if salt is None else self._texts.get(salt)
        return [] if texts is None else texts.trees

    def add(self, salt: str | None, text: Ids) -> None:
        """Remember a text for requests of this salt, [N]; for None not at all."""
        if salt is None or self._capacity < 2:
            return
        # The salt of the latest text stands last.
        texts = self._texts.pop(salt) if salt in self._texts else SharedTexts(self._capacity)
        self._texts[salt] = texts
        texts.add(text)
        while len(self) > self._capacity or len(self._texts) > MOST_SALTS:
            del self._texts[next(iter(self._texts))]


class _Request:
    """One open request. opened: tokens it had then: what came later is remembered for others."""

    def __init__(self, token_ids: Ids) -> None:
        self.tree = SuffixTree(len(token_ids) + len(token_ids) // 2)
        self.tree.append(token_ids)
        self.opened = len(token_ids)


class SuffixProposer(Proposer):
    """As many drafts as are likely to be accepted, from whichever tree promises most.

    Memory: at most 24 bytes for each of suffix_tokens, and 36 for each token of an open request.
    Raises ConfigError for an option out of range.
    """

    def __init__(self, config: ProposerConfig) -> None:
        super().__init__(config)
        check_suffix(config)
        self._depth = config.suffix_depth
        self._least = config.suffix_probability
        self._requests: dict[int, _Request] = {}
        self._salts: dict[int, str | None] = {}
        self.shared = SaltedTexts(config.suffix_tokens)

    @property
    def nbytes(self) -> int:
        """Memory of all trees."""
        return self.shared.nbytes + sum(one.tree.nbytes for one in self._requests.values())

    def shares(self, slot: int, generation: int, salt: str | None) -> None:
        self._salts[slot] = salt

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._requests[slot] = _Request(token_ids)

    def close(self, slot: int, generation: int) -> None:
        request, salt = self._requests.pop(slot, None), self._salts.pop(slot, None)
        if request is not None and len(request.tree) > request.opened:
            start = max(0, request.opened - self._depth)
            self.shared.add(salt, request.tree.tokens[start:])

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._requests[slot].tree.append(token_ids)

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        own = self._requests[slot].tree
        context = own.tokens[-self._depth :]
        best = walk(own, context, len(own) - 1, max_drafts, self._least)
        for tree in self.shared.trees(self._salts.get(slot)):
            best = max(best, walk(tree, context, len(tree), max_drafts, self._least), key=_promise)
        return np.array(best.token_ids, np.int32)


def _promise(walk: Walk) -> float:
    return walk.expected
