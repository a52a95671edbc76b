"""A suffix tree of texts that grow, expanded only where one walks."""

from __future__ import annotations

import numpy as np

from optimist.actors.proposer.base import Ids

PLACES = 32
"""a node keeps so many of the latest places where its string occurs: enough to judge its children by"""

END = -1
"""stands behind each text: it is no token, so nothing matches across it"""

SCALAR = 8
"""up to so many tokens are linked one by one, more are linked as arrays"""

_LEFT, _RIGHT, _WORD = 0x9E3779B1, 0x85EBCA6B, 0xFFFFFFFF


class SuffixTree:
    """Texts one behind the other. A node is the set of places where its string occurs.

    Nodes of two tokens are found through chains: each place knows the one before it that begins
    with the same pair, or with one of the same bucket. Deeper nodes are found by comparing. So a
    token costs O(1) to append, and 12 bytes; 24 at most, right after growing.
    """

    def __init__(self, capacity: int = 64) -> None:
        self._size = 0
        self._allocate(np.zeros(0, np.int32), capacity)

    def __len__(self) -> int:
        """Tokens in it, ends of texts included."""
        return self._size

    @property
    def nbytes(self) -> int:
        """Memory that it holds."""
        return self._tokens.nbytes + self._links.nbytes + self._heads.nbytes

    @property
    def tokens(self) -> Ids:
        """All texts, each but the last with END behind it; valid until the next append."""
        return self._tokens[: self._size]

    def append(self, token_ids: Ids) -> None:
        """Let the last text go on with these, [N]."""
        start, stop = self._size, self._size + len(token_ids)
        if stop > len(self._tokens):
            self._allocate(self.tokens, stop)
        self._tokens[start:stop] = token_ids
        self._size = stop
        self._link(max(start, 1), stop)

    def places(self, left: int, right: int, before: int) -> list[int]:
        """Where the pair of tokens ends, latest first: at most PLACES of those below `before`.

        Some are of other pairs in the same bucket.
        """
        at, found = self._head_view[self._bucket(left, right)], list[int]()
        links = self._link_view
        while at >= 0 and len(found) < PLACES:
            if at < before:
                found.append(at)
            at = links[at]
        return found

    def _allocate(self, tokens: Ids, capacity: int) -> None:
        size = 1 << max(capacity - 1, 1).bit_length()
        self._shift = 33 - size.bit_length()
        self._tokens = np.empty(size, np.int32)
        self._tokens[: len(tokens)] = tokens
        self._links = np.empty(size, np.int32)
        self._heads = np.full(size, -1, np.int32)
        self._link_view, self._head_view = self._links.data, self._heads.data
        self._link(1, self._size)

    def _bucket(self, left: int, right: int) -> int:
        return ((left * _LEFT ^ right * _RIGHT) & _WORD) * _LEFT % 2**32 >> self._shift

    def _link(self, start: int, stop: int) -> None:
        if stop - start > SCALAR:
            self._link_all(start, stop)
            return
        for at in range(start, stop):
            bucket = self._bucket(int(self._tokens[at - 1]), int(self._tokens[at]))
            self._link_view[at] = self._head_view[bucket]
            self._head_view[bucket] = at

    def _link_all(self, start: int, stop: int) -> None:
        """As one by one: places in the same bucket are neighbours once they are sorted."""
        words = self._tokens[start - 1 : stop].astype(np.uint32)
        buckets = (words[:-1] * np.uint32(_LEFT) ^ words[1:] * np.uint32(_RIGHT)) * np.uint32(_LEFT)
        buckets >>= np.uint32(self._shift)
        order = np.argsort(buckets, kind="stable")
        buckets, places = buckets[order], order + start
        border = np.flatnonzero(buckets[1:] != buckets[:-1])
        firsts, lasts = np.append(0, border + 1), np.append(border, len(places) - 1)
        self._links[places[1:]] = places[:-1]
        self._links[places[firsts]] = self._heads[buckets[firsts]]
        self._heads[buckets[lasts]] = places[lasts]
