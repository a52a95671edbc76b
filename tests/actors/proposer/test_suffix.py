"""Drafts from suffix trees: how many, from which tree, and how much memory they take."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.suffix import MOST_SALTS, SaltedTexts, SharedTexts, SuffixProposer
from optimist.actors.proposer.suffix_tree import PLACES, SuffixTree
from optimist.actors.proposer.suffix_walk import walk
from optimist.messages.errors import ConfigError


def ids(*tokens: int) -> Any:
    return np.array(tokens, np.int32)


def tree_of(*texts: list[int]) -> SuffixTree:
    tree = SuffixTree()
    for text in texts:
        tree.append(ids(*text, -1))
    return tree


def down(tree: SuffixTree, context: list[int], count: int = 8, least: float = 0.3) -> list[int]:
    return walk(tree, ids(*context), len(tree), count, least).token_ids


def test_the_likeliest_child_is_followed() -> None:
    tree = tree_of([1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 5])
    assert down(tree, [9, 1, 2, 3], 1) == [5]


def test_of_equally_likely_children_the_latest_is_followed() -> None:
    assert down(tree_of([1, 2, 7, 8], [1, 2, 9, 8]), [1, 2], 1, 0.1) == [9]


def test_the_deepest_match_decides_and_not_the_most_frequent() -> None:
    tree = tree_of([5, 1, 2, 8], [6, 1, 2, 9], [6, 1, 2, 9], [6, 1, 2, 9])
    assert down(tree, [6, 1, 2], 1) == [9]
    assert down(tree, [5, 1, 2], 1) == [8]


def test_longer_matches_are_followed_further() -> None:
    text = list(range(40))
    tree = tree_of(text)
    short, long = down(tree, text[8:10], 40), down(tree, text[2:10], 40)
    assert short == text[10 : 10 + len(short)] and long == text[10 : 10 + len(long)]
    assert 0 < len(short) < len(long)


def test_nothing_is_drafted_across_the_end_of_a_text() -> None:
    assert down(tree_of([1, 2, 3], [4, 5]), [1, 2]) == [3]
    assert down(tree_of([1, 2], [4, 5]), [1, 2]) == []
    assert down(tree_of([1, 2, 3]), [2, 3]) == []


@pytest.mark.parametrize("context", [[], [1], [7, 8], [2, 9]])
def test_what_never_occurred_has_no_drafts(context: list[int]) -> None:
    assert down(tree_of([1, 2, 3]), context) == []


@settings(max_examples=200)
@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=12), min_size=1, max_size=6))
def test_every_node_counts_what_a_plain_search_counts(texts: list[list[int]]) -> None:
    tree = tree_of(*texts)
    for text in texts:
        followers = plain_followers(texts, text[:2])
        found = down(tree, text[:2], 1, 0.01)
        assert bool(found) == bool(followers)
        if found and sum(followers.values()) <= PLACES:
            assert followers[found[0]] == max(followers.values())


def plain_followers(texts: list[list[int]], pair: list[int]) -> Counter[int]:
    """What follows a pair of tokens, and how often."""
    return Counter(
        text[i + 2] for text in texts for i in range(len(text) - 2) if text[i : i + 2] == pair
    )


@settings(max_examples=100)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=12), st.integers(2, 5))
def test_a_tree_is_the_same_however_its_text_came(sizes: list[int], kinds: int) -> None:
    text = np.random.default_rng(sum(sizes)).integers(0, kinds, sum(sizes)).astype(np.int32)
    grown, whole = SuffixTree(), SuffixTree(2 * len(text))
    for part in np.split(text, np.cumsum(sizes)[:-1]):
        grown.append(part)
    whole.append(text)
    for left in range(kinds):
        for right in range(kinds):
            expected = [i for i in range(1, len(text)) if text[i - 1] == left and text[i] == right]
            for tree in (grown, whole):
                at = [i for i in tree.places(left, right, len(text)) if text[i - 1] == left]
                at = [i for i in at if text[i] == right]
                assert at == expected[::-1][: len(at)]
                assert len(at) == len(expected) or len(tree) > PLACES


def proposer(**options: Any) -> SuffixProposer:
    return SuffixProposer(ProposerConfig(**options))


def start(made: SuffixProposer, slot: int, *prompt: int, salt: str | None = "") -> None:
    made.shares(slot, 1, salt)
    made.open(slot, 1, ids(*prompt))


def run(
    made: SuffixProposer, prompt: list[int], output: list[int], slot: int = 0, salt: str | None = ""
) -> None:
    """A request from its beginning to its end."""
    start(made, slot, *prompt, salt=salt)
    for token in output:
        made.accepted(slot, 1, ids(token))
    made.close(slot, 1)


def test_a_request_repeats_itself() -> None:
    made = proposer()
    start(made, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3)
    assert made.propose(0, 1, 4).tolist() == [4, 5, 6, 7]


def test_what_one_request_was_answered_helps_the_next() -> None:
    made = proposer()
    run(made, [1, 2, 3], [4, 5, 6, 7])
    start(made, 1, 8, 2, 3)
    assert made.propose(1, 1, 2).tolist() == [4, 5]


def test_a_prompt_alone_is_not_remembered() -> None:
    made = proposer()
    run(made, [1, 2, 3, 4, 5], [])
    start(made, 1, 1, 2, 3)
    assert made.propose(1, 1, 2).tolist() == []


@pytest.mark.parametrize(
    ("one", "other"), [("a", "b"), ("", "a"), ("a", ""), ("a", None), (None, "a"), (None, None)]
)
def test_nothing_is_drafted_for_a_request_that_another_salt_was_answered(
    one: str | None, other: str | None
) -> None:
    made = proposer()
    run(made, [1, 2, 3], [4, 5, 6, 7], salt=one)
    start(made, 1, 8, 2, 3, salt=other)
    assert made.propose(1, 1, 2).tolist() == []
    made.close(1, 1)
    # The next one in its slot inherits nothing: neither salt nor texts.
    made.open(1, 2, ids(8, 2, 3))
    assert made.propose(1, 2, 2).tolist() == []


def test_salts_share_the_room_and_the_one_longest_silent_goes_first() -> None:
    shared, text = SaltedTexts(1000), np.arange(300, dtype=np.int32)
    for salt in ("a", "b", "c"):
        shared.add(salt, text)
    shared.add("a", ids(1, 2))
    shared.add("d", text)
    assert [salt for salt in "abcd" if shared.trees(salt)] == ["a", "c", "d"]
    for number in range(3 * MOST_SALTS):
        shared.add(str(number), ids(1))
        assert len(shared) <= 1000 and shared.nbytes <= 24 * 1000
    assert [bool(shared.trees(str(3 * MOST_SALTS - back))) for back in (1, MOST_SALTS)] == [
        True
    ] * 2
    assert not shared.trees(str(2 * MOST_SALTS - 1)) and not shared.trees("a")


def test_the_tree_that_promises_more_is_followed() -> None:
    made = proposer()
    run(made, [1, 2, 3, 4], [5, 6, 7, 8])
    start(made, 0, 3, 4, 9, 1, 2, 3, 4)
    assert made.propose(0, 1, 4).tolist() == [5, 6, 7, 8]


def test_a_long_history_is_looked_up_in_a_short_tree() -> None:
    made = proposer()
    run(made, [1, 2], [3, 4])
    start(made, 1, *range(50, 90), 1, 2)
    assert made.propose(1, 1, 2).tolist() == [3, 4]


def test_drafts_stop_where_texts_part() -> None:
    made = proposer(suffix_probability=0.6)
    for last in (6, 7, 8):
        run(made, [1, 2, 3], [4, 5, last])
    start(made, 0, 1, 2, 3)
    assert made.propose(0, 1, 8).tolist() == [4, 5]


def test_nothing_is_shared_when_there_is_no_room_for_it() -> None:
    made = proposer(suffix_tokens=0)
    run(made, [1, 2, 3], [4, 5])
    start(made, 1, 1, 2, 3)
    assert made.propose(1, 1, 2).tolist() == []


@pytest.mark.parametrize("capacity", [100, 1000, 5000])
def test_shared_memory_stays_within_its_bound(capacity: int) -> None:
    shared, rng = SharedTexts(capacity), np.random.default_rng(capacity)
    for size in rng.integers(1, 300, 200).tolist():
        shared.add(rng.integers(0, 50, size).astype(np.int32))
        assert sum(len(tree) for tree in shared.trees) <= capacity
        assert shared.nbytes <= 24 * capacity
    assert sum(len(tree) for tree in shared.trees) > capacity // 4


def test_a_request_takes_the_memory_that_is_stated() -> None:
    made = proposer(suffix_tokens=0)
    start(made, 0, *range(500))
    for size in range(500, 5000):
        made.accepted(0, 1, ids(size))
        assert made.nbytes <= 36 * (size + 1)
    made.close(0, 1)
    assert made.nbytes == 0


def test_a_text_longer_than_the_room_is_remembered_by_its_end() -> None:
    shared = SharedTexts(40)
    shared.add(np.arange(100, dtype=np.int32))
    assert down(shared.trees[-1], [96, 97], 2) == [98, 99]
    assert down(shared.trees[-1], [10, 11], 2) == []


@pytest.mark.parametrize(
    "options",
    [
        {"suffix_depth": 1},
        {"suffix_depth": 10**22},
        {"suffix_tokens": -1},
        {"suffix_tokens": 10**22},
        {"suffix_probability": 0.0},
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        proposer(**options)
