"""The prefix cache alone: chains, salts, and comparison of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from optimist.actors.scheduler.prefix_cache import Entry, Parent, PrefixCache, keyed_blake2b


def tokens_of(*ids: int) -> NDArray[np.int32]:
    return np.array(ids, np.int32)


def fill(
    cache: PrefixCache, tokens: NDArray[np.int32], salt: str = "", first: int = 0
) -> list[Entry]:
    """Cache every whole block of two tokens, in blocks counted from `first`."""
    blocks = len(tokens) // 2
    digests = cache.digests([], tokens, salt, blocks)
    parent: Parent = salt
    entries = []
    for i in range(blocks):
        if (stale := cache.under(digests[i])) is not None:
            cache.forget(stale.block)
        entry = cache.insert(parent, digests[i], tokens[2 * i : 2 * i + 2].tobytes(), first + i)
        entries.append(entry)
        parent = entry.serial
    return entries


def hits(cache: PrefixCache, tokens: NDArray[np.int32], salt: str = "") -> list[int]:
    blocks = len(tokens) // 2
    digests = cache.digests([], tokens, salt, blocks)
    return [entry.block for entry in cache.match(digests, tokens, salt, blocks)]


def test_the_longest_common_prefix_of_whole_blocks_is_found() -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2, 3, 4, 5, 6))
    assert hits(cache, tokens_of(1, 2, 3, 4, 9, 9, 7)) == [0, 1]
    assert hits(cache, tokens_of(1, 9, 3, 4)) == []


def test_a_block_is_not_found_behind_another_prefix() -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2, 3, 4))
    assert hits(cache, tokens_of(3, 4)) == []
    assert hits(cache, tokens_of(9, 9, 3, 4)) == []


def test_requests_share_only_within_one_salt() -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2), salt="alice")
    assert hits(cache, tokens_of(1, 2), salt="alice") == [0]
    assert hits(cache, tokens_of(1, 2), salt="bob") == []
    assert hits(cache, tokens_of(1, 2)) == []


def test_with_a_constant_hash_tokens_are_still_compared() -> None:
    cache = PrefixCache(2, digest=lambda before, tokens: b"always")
    fill(cache, tokens_of(1, 2))
    assert hits(cache, tokens_of(3, 4)) == []
    assert hits(cache, tokens_of(1, 2), salt="other") == []
    assert hits(cache, tokens_of(1, 2)) == [0]


def test_with_a_constant_hash_what_comes_before_is_still_compared() -> None:
    cache = PrefixCache(2, digest=lambda before, tokens: tokens)
    fill(cache, tokens_of(1, 2, 3, 4))
    fill(cache, tokens_of(7, 8), first=5)
    assert hits(cache, tokens_of(7, 8, 3, 4)) == [5]


def test_two_keys_give_two_hashes_and_one_key_gives_one() -> None:
    first, second = keyed_blake2b(b"a" * 32), keyed_blake2b(b"b" * 32)
    assert first(b"", b"x") != second(b"", b"x")
    assert first(b"", b"x") == keyed_blake2b(b"a" * 32)(b"", b"x")
    assert keyed_blake2b()(b"", b"x") != keyed_blake2b()(b"", b"x")


def test_digests_are_extended_and_not_computed_again() -> None:
    calls = []

    def counting(before: bytes, tokens: bytes) -> bytes:
        calls.append(tokens)
        return bytes([len(calls)])

    cache = PrefixCache(2, digest=counting)
    known = cache.digests([], tokens_of(1, 2, 3, 4), "", 1)
    assert cache.digests(known, tokens_of(1, 2, 3, 4), "", 2) is known
    assert known == [b"\x01", b"\x02"] and len(calls) == 2


def test_a_forgotten_block_ends_the_chain() -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2, 3, 4, 5, 6))
    cache.forget(1)
    assert hits(cache, tokens_of(1, 2, 3, 4, 5, 6)) == [0]
    assert cache.holds(0) and not cache.holds(1) and cache.holds(2)


def test_a_child_of_a_forgotten_block_is_not_found_behind_its_successor() -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2, 3, 4))
    cache.forget(0)
    fill(cache, tokens_of(1, 2), first=7)
    assert hits(cache, tokens_of(1, 2, 3, 4)) == [7]


def test_what_follows_an_entry_is_found_behind_its_new_block() -> None:
    cache = PrefixCache(2)
    first, _ = fill(cache, tokens_of(1, 2, 3, 4))
    cache.rehome(first, 8)
    assert hits(cache, tokens_of(1, 2, 3, 4)) == [8, 1] and not cache.holds(0)


@pytest.mark.parametrize("salt", ["", "é", "\ud800"])
def test_any_text_is_a_salt(salt: str) -> None:
    cache = PrefixCache(2)
    fill(cache, tokens_of(1, 2), salt=salt)
    assert hits(cache, tokens_of(1, 2), salt=salt) == [0]
