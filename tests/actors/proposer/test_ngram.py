"""Drafts from the request's own history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.ngram import NgramProposer, continuation, match
from optimist.messages.errors import ConfigError

TEXTS = st.lists(st.integers(0, 3), max_size=40)


def drafts(text: list[int], count: int, shortest: int, longest: int) -> list[int]:
    """What a proposer says about a text."""
    proposer = NgramProposer(ProposerConfig(ngram_min=shortest, ngram_max=longest))
    proposer.open(0, 1, np.array(text, np.int32))
    found: list[int] = proposer.propose(0, 1, count).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "count", "shortest", "longest", "expected"),
    [
        ([1, 2, 3, 4, 1, 2, 3], 3, 2, 2, [4, 1, 2]),
        ([1, 2, 3, 4, 1, 2, 3], 3, 1, 5, [4, 1, 2]),
        ([1, 2, 3, 4, 5, 6], 3, 1, 5, []),
        ([1, 3, 6, 2, 3, 4, 1, 2, 3], 2, 1, 1, [4, 1]),
        ([1, 2, 3, 7, 2, 3, 8, 1, 2, 3], 2, 1, 3, [7, 2]),
        ([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3], 1, 3, 3, [8]),
    ],
    ids=["two", "three", "none", "rightmost of one", "longest wins", "rightmost of three"],
)
def test_the_longest_match_and_of_equals_the_rightmost(
    text: list[int], count: int, shortest: int, longest: int, expected: list[int]
) -> None:
    assert drafts(text, count, shortest, longest) == expected


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4])
def test_a_history_about_as_long_as_the_shortest_match(length: int) -> None:
    assert drafts([5, 6, 7, 8][:length], 4, 3, 3) == []
    assert drafts([5] * length, 2, 3, 3) == ([5, 5] if length > 3 else [])


def test_drafts_go_on_as_if_they_had_been_accepted() -> None:
    assert drafts([1, 2, 1, 2], 5, 2, 2) == [1, 2, 1, 2, 1]


def test_accepted_tokens_are_looked_up_too() -> None:
    proposer = NgramProposer(ProposerConfig(ngram_min=2, ngram_max=4))
    proposer.open(3, 1, np.array([1, 2], np.int32))
    for token in (9, 1, 2):
        proposer.accepted(3, 1, np.array([token], np.int32))
    assert proposer.propose(3, 1, 1).tolist() == [9]


def test_slots_know_nothing_of_each_other() -> None:
    proposer = NgramProposer(ProposerConfig(ngram_min=1, ngram_max=1))
    proposer.open(0, 1, np.array([1, 2], np.int32))
    proposer.open(1, 1, np.array([2, 2], np.int32))
    assert proposer.propose(0, 1, 2).tolist() == []
    proposer.close(0, 1)
    proposer.open(0, 1, np.array([3, 4, 3], np.int32))
    assert proposer.propose(0, 1, 2).tolist() == [4, 3]
    assert proposer.propose(1, 1, 2).tolist() == [2, 2]


@pytest.mark.parametrize(
    ("options", "named"),
    [({"ngram_min": 0}, "ngram_min"), ({"ngram_min": 4, "ngram_max": 3}, "ngram_max.*ngram_min")],
)
def test_lengths_that_contradict_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        NgramProposer(ProposerConfig(**options))


@settings(max_examples=300)
@given(TEXTS, st.integers(1, 4), st.integers(0, 3))
def test_any_text_gets_what_a_plain_search_finds(text: list[int], shortest: int, more: int) -> None:
    assert match(np.array(text, np.int32), shortest, shortest + more) == plain(
        text, shortest, shortest + more
    )


def plain(text: list[int], shortest: int, longest: int) -> int | None:
    """The same by trying every length and every place."""
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        for end in range(len(text) - 1, length - 1, -1):
            if text[end - length : end] == text[len(text) - length :]:
                return end
    return None


def test_a_continuation_never_looks_behind_the_end() -> None:
    tokens = np.array([4, 5, 6], np.int32)
    assert continuation(tokens, 1, 2).tolist() == [5, 6]
    assert continuation(tokens, 2, 3).tolist() == [6, 6, 6]
