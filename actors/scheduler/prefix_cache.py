"""Which blocks hold the KV of which prefix. Whole blocks only."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

Digest = Callable[[bytes, bytes], bytes]
"""(digest of the prefix before, token ids of the block) to digest of the prefix with it"""

Parent = int | str
"""what a block follows: the serial of an entry, or at the beginning the salt of the request"""


def keyed_blake2b(key: bytes | None = None) -> Digest:
    """A keyed 128-bit hash. The key is drawn at start, so that nobody can prepare a collision."""
    secret = key or os.urandom(32)
    return lambda before, tokens: blake2b(before + tokens, key=secret, digest_size=16).digest()


@dataclass(slots=True, eq=False, frozen=True)
class Entry:
    """One cached block. serial: never used twice. parent, tokens: compared before reuse."""

    serial: int
    parent: Parent
    tokens: bytes
    digest: bytes
    block: int


class PrefixCache:
    """A chain of hashes from the salt over whole blocks of tokens, each leading to an entry.

    The hash finds a candidate; the candidate is used only when its tokens and the entry before it are
    the right ones, so a collision costs a miss and never a wrong token.
    """

    def __init__(self, block_size: int, digest: Digest | None = None) -> None:
        self._block_size = block_size
        self._digest = digest or keyed_blake2b()
        self._entries: dict[bytes, Entry] = {}
        self._by_block: dict[int, Entry] = {}
        self._serial = 0

    def __len__(self) -> int:
        return len(self._by_block)

    def holds(self, block: int) -> bool:
        """Whether this block is cached."""
        return block in self._by_block

    def blocks(self) -> set[int]:
        """Every cached block."""
        return set(self._by_block)

    def digests(
        self, known: list[bytes], tokens: NDArray[np.int32], salt: str, blocks: int
    ) -> list[bytes]:
        """Extend `known`, digests of the leading blocks of these tokens, to so many blocks; returns it."""
        for i in range(len(known), blocks):
            before = known[-1] if known else b"salt" + salt.encode("utf-8", "surrogatepass")
            known.append(self._digest(before, self._block(tokens, i)))
        return known

    def match(
        self, digests: list[bytes], tokens: NDArray[np.int32], salt: str, blocks: int
    ) -> list[Entry]:
        """The entries of the longest cached prefix, of at most so many blocks."""
        found: list[Entry] = []
        parent: Parent = salt
        for i in range(blocks):
            entry = self.find(parent, digests[i], self._block(tokens, i))
            if entry is None:
                break
            found.append(entry)
            parent = entry.serial
        return found

    def find(self, parent: Parent, digest: bytes, tokens: bytes) -> Entry | None:
        """The entry for these tokens behind `parent`, compared and not only hashed."""
        entry = self._entries.get(digest)
        return entry if entry and entry.tokens == tokens and entry.parent == parent else None

    def under(self, digest: bytes) -> Entry | None:
        """Whatever entry has this digest."""
        return self._entries.get(digest)

    def insert(self, parent: Parent, digest: bytes, tokens: bytes, block: int) -> Entry:
        """A new entry: this block holds these tokens behind `parent`. The digest must be unused."""
        self._serial += 1
        entry = Entry(self._serial, parent, tokens, digest, block)
        self._entries[digest] = self._by_block[block] = entry
        return entry

    def rehome(self, entry: Entry, block: int) -> Entry:
        """The entry again, now that another block holds the same; what follows it still does."""
        self.forget(entry.block)
        moved = Entry(entry.serial, entry.parent, entry.tokens, entry.digest, block)
        self._entries[entry.digest] = self._by_block[block] = moved
        return moved

    def forget(self, block: int) -> None:
        """This block holds no prefix any more."""
        entry = self._by_block.pop(block)
        del self._entries[entry.digest]

    def _block(self, tokens: NDArray[np.int32], i: int) -> bytes:
        return tokens[i * self._block_size : (i + 1) * self._block_size].tobytes()
