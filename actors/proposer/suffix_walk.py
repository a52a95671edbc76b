"""Drafts from a suffix tree: down from the longest match, along the likeliest children."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from optimist.actors.proposer.base import Ids
from optimist.actors.proposer.suffix_tree import END, SuffixTree


class Walk(NamedTuple):
    """token_ids: the drafts. expected: how many of them are accepted by estimate."""

    token_ids: list[int]
    expected: float


NOWHERE = Walk([], 0.0)


def walk(tree: SuffixTree, context: Ids, before: int, count: int, least: float) -> Walk:
    """At most `count` drafts behind `context`, as long as each is accepted with probability `least`.

    context: the last tokens, [D]; more of them match than none or one. before: places of the tree
    from here on are not looked at.

    A child that follows at c of the n places of a node whose string is L tokens long is accepted
    with probability c / (n + 1 / L): longer matches are trusted more, and more so when frequent.
    """
    if len(context) < 2 or count < 1:
        return NOWHERE
    left, right, tokens = int(context[-2]), int(context[-1]), tree.tokens
    text = tokens.data
    found = [
        at for at in tree.places(left, right, before) if text[at] == right and text[at - 1] == left
    ]
    if not found:
        return NOWHERE
    if len(found) == 1:
        # Most often there is one, for which arrays take longer than numbers.
        length, begin = _alike(text, found[0], context.tolist()), found[0] + 1
        return _descend([tokens[begin : begin + count].tolist()], length, least)
    places, length = _deepest(tokens, np.array(found), context)
    return _descend(_continuations(tokens, places, count), length, least)


def _alike(text: memoryview, at: int, context: list[int]) -> int:
    """How many of the last tokens of the context are those up to this place."""
    most = min(len(context), at + 1)
    for back in range(most):
        if text[at - back] != context[-1 - back]:
            return back
    return most


def _deepest(tokens: Ids, places: NDArray[np.intp], context: Ids) -> tuple[NDArray[np.intp], int]:
    """The places where most of the context matches, and how many of its tokens that are."""
    back = np.arange(len(context))
    at = places[:, None] - back
    same = (tokens[np.maximum(at, 0)] == context[::-1]) & (at >= 0)
    lengths = np.where(same.all(1), len(context), same.argmin(1))
    length = int(lengths.max())
    return places[lengths == length], length


def _continuations(tokens: Ids, places: NDArray[np.intp], count: int) -> list[list[int]]:
    """What follows each place, up to `count` tokens or END."""
    at = places[:, None] + np.arange(1, count + 1)
    inside = at < len(tokens)
    texts: list[list[int]] = np.where(inside, tokens[np.where(inside, at, 0)], END).tolist()
    return texts


def _descend(texts: list[list[int]], length: int, least: float) -> Walk:
    drafts: list[int] = []
    likely, expected = 1.0, 0.0
    for depth in range(len(texts[0])):
        counts: dict[int, int] = {}
        for text in texts:
            if (token := text[depth]) != END:
                counts[token] = counts.get(token, 0) + 1
        if not counts:
            break
        # Ties go to the latest place, which comes first.
        best = max(counts, key=counts.__getitem__)
        likely *= counts[best] / (sum(counts.values()) + 1 / (length + depth))
        if likely < least:
            break
        drafts.append(best)
        expected += likely
        texts = [text for text in texts if text[depth] == best]
    return Walk(drafts, expected)
