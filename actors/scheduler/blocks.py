"""Who holds which KV block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from optimist.actors.scheduler.prefix_cache import Entry, Parent, PrefixCache


class BlockPool:
    """Blocks 0 to num_blocks - 1. Each is free, held by one or more slots, or idle.

    An idle block is cached and held by nobody: it is free to be taken, the longest idle first, and is
    forgotten by the cache when it is. `num_blocks == free + idle + held` at any time.
    """

    def __init__(self, num_blocks: int, cache: PrefixCache) -> None:
        self.num_blocks = num_blocks
        self.releases = 0
        """how often blocks came back: while it stands still, what did not fit does not fit"""
        self.evictions = 0
        """how many idle blocks were forgotten because they were needed"""
        self.cuts = 0
        """how many blocks were taken out of the cache because their tokens do not stand"""
        self._cache = cache
        self._free = list(range(num_blocks - 1, -1, -1))
        self._idle: dict[int, None] = {}
        self._refs = [0] * num_blocks

    @property
    def available(self) -> int:
        """Blocks that could be taken now."""
        return len(self._free) + len(self._idle)

    def can_take(self, count: int) -> bool:
        """Whether so many could be taken now."""
        return count <= self.available

    def take(self) -> int:
        """A block for its own use. `can_take(1)` must hold."""
        if self._free:
            block = self._free.pop()
        else:
            block = next(iter(self._idle))
            del self._idle[block]
            self._cache.forget(block)
            self.evictions += 1
        self._refs[block] = 1
        return block

    def idle_among(self, blocks: Iterable[int]) -> int:
        """How many of these cached blocks nobody holds: sharing them makes fewer available."""
        return sum(self._refs[block] == 0 for block in blocks)

    def share(self, block: int) -> None:
        """Hold a cached block together with whoever holds it."""
        if self._refs[block] == 0:
            del self._idle[block]
        self._refs[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """Let go of the blocks of one slot, in order of position.

        The last goes idle first: a block is of no use to the cache without those before it.
        """
        self.releases += 1
        for block in reversed(blocks):
            self._refs[block] -= 1
            if self._refs[block] == 0:
                self._settle_down(block)

    def exclusive(self, blocks: Iterable[int]) -> int:
        """How many of the blocks of one slot would become available if it let go."""
        return sum(self._refs[block] == 1 for block in blocks)

    def register(self, parent: Parent, digest: bytes, tokens: bytes, block: int) -> Entry:
        """The entry for these tokens behind `parent`, now that a held block holds their KV.

        Where another slot holds the same already, that block stays; where nobody does, this one takes
        its place. An entry that merely has the same digest, or whose parent is gone, can never be matched
        again and makes room.
        """
        entry = self._cache.find(parent, digest, tokens)
        if entry is not None and self._refs[entry.block]:
            return entry
        if entry is not None:
            del self._idle[entry.block]
            self._free.append(entry.block)
            return self._cache.rehome(entry, block)
        if (stale := self._cache.under(digest)) is not None:
            self.unregister(stale.block)
        return self._cache.insert(parent, digest, tokens, block)

    def unregister(self, block: int) -> None:
        """Take a block out of the cache; nobody will share it any more."""
        self.cuts += 1
        self._cache.forget(block)
        if self._refs[block] == 0:
            del self._idle[block]
            self._free.append(block)

    def census(self) -> tuple[list[int], list[int], dict[int, int]]:
        """Free blocks, idle blocks, and how many hold each of the others. For tests."""
        held = {block: count for block, count in enumerate(self._refs) if count}
        return list(self._free), list(self._idle), held

    def _settle_down(self, block: int) -> None:
        if self._cache.holds(block):
            self._idle[block] = None
        else:
            self._free.append(block)
