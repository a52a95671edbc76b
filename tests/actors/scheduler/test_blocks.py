"""Block pool: who holds what, and in which order idle blocks are taken."""

from __future__ import annotations

from optimist.actors.scheduler.blocks import BlockPool
from optimist.actors.scheduler.prefix_cache import PrefixCache


def pool_of(count: int) -> tuple[BlockPool, PrefixCache]:
    cache = PrefixCache(block_size=4)
    return BlockPool(count, cache), cache


def test_every_block_can_be_taken_once_and_comes_back() -> None:
    pool, _ = pool_of(3)
    blocks = [pool.take() for _ in range(3)]
    assert sorted(blocks) == [0, 1, 2] and not pool.can_take(1)
    pool.release(blocks)
    assert pool.available == 3 and pool.can_take(3) and not pool.can_take(4)


def test_a_shared_block_comes_back_with_its_last_holder() -> None:
    pool, cache = pool_of(2)
    block = pool.take()
    pool.register("", b"d", b"tokens", block)
    pool.share(block)
    pool.release([block])
    assert pool.available == 1 and pool.exclusive([block]) == 1
    pool.release([block])
    assert pool.available == 2 and cache.holds(block)


def test_an_idle_block_can_be_shared_again() -> None:
    pool, _ = pool_of(2)
    block = pool.take()
    pool.register("", b"d", b"tokens", block)
    pool.release([block])
    assert pool.idle_among([block]) == 1
    pool.share(block)
    assert pool.idle_among([block]) == 0 and pool.available == 1
    assert pool.census() == ([1], [], {block: 1})


def test_free_blocks_are_taken_before_idle_ones_and_the_longest_idle_first() -> None:
    pool, cache = pool_of(3)
    first, second, plain = (pool.take() for _ in range(3))
    pool.register("", b"1", b"one", first)
    pool.register("", b"2", b"two", second)
    for block in (first, second, plain):
        pool.release([block])
    assert [pool.take() for _ in range(3)] == [plain, first, second]
    assert not cache.holds(first) and not cache.holds(second)


def test_the_last_block_of_a_prefix_is_taken_before_those_it_needs() -> None:
    pool, cache = pool_of(3)
    blocks = [pool.take() for _ in range(3)]
    parent: int | str = ""
    for i, block in enumerate(blocks):
        parent = pool.register(parent, bytes([i]), bytes([i]), block).serial
    pool.release(blocks)
    assert pool.take() == blocks[2]
    assert cache.holds(blocks[0]) and cache.holds(blocks[1])


def test_an_unregistered_idle_block_is_free_and_a_held_one_stays_held() -> None:
    pool, _ = pool_of(2)
    idle, held = pool.take(), pool.take()
    pool.register("", b"i", b"idle", idle)
    pool.register("", b"h", b"held", held)
    pool.release([idle])
    pool.unregister(idle)
    pool.unregister(held)
    assert pool.census() == ([idle], [], {held: 1})


def test_the_same_content_twice_keeps_the_first_block() -> None:
    pool, cache = pool_of(2)
    first, second = pool.take(), pool.take()
    entry = pool.register("", b"d", b"tokens", first)
    assert pool.register("", b"d", b"tokens", second) is entry
    assert cache.holds(first) and not cache.holds(second)


def test_the_same_content_in_a_held_block_replaces_an_idle_one() -> None:
    pool, cache = pool_of(2)
    first, second = pool.take(), pool.take()
    entry = pool.register("", b"d", b"tokens", first)
    pool.release([first])
    moved = pool.register("", b"d", b"tokens", second)
    assert moved.serial == entry.serial and moved.block == second
    assert not cache.holds(first) and pool.census() == ([first], [], {second: 1})


def test_an_entry_with_the_same_digest_and_other_tokens_makes_room() -> None:
    pool, cache = pool_of(2)
    first, second = pool.take(), pool.take()
    pool.register("", b"d", b"tokens", first)
    pool.release([first])
    pool.register("", b"d", b"others", second)
    assert not cache.holds(first) and cache.holds(second)
    assert pool.census()[0] == [first]
