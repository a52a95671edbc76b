"""The native proposers draft what those in Python draft, and take the memory that these take."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer, StepProposer, StepRows
from optimist.actors.proposer.native import NativeNgram, NativeSuffix
from optimist.actors.proposer.ngram import NgramProposer
from optimist.actors.proposer.suffix import MOST_SALTS, SuffixProposer
from optimist.kernels.native.lookup import LookupFailed, ngram_lookup
from optimist.messages.errors import ConfigError

SLOTS, STEPS = 5, 60


def ids(*tokens: int) -> Ids:
    return np.array(tokens, np.int32)


def text(rng: random.Random, kinds: int, most: int) -> list[int]:
    """Tokens that often repeat themselves."""
    period = [rng.randrange(kinds) for _ in range(rng.randint(1, 9))]
    tokens = (period * most)[: rng.randint(0, most)]
    return [rng.randrange(kinds) if rng.random() < 0.1 else token for token in tokens]


def steps(
    rng: random.Random, both: tuple[Proposer, StepProposer], salts: int, longest: int
) -> Iterator[tuple[list[list[int]], list[list[int]]]]:
    """Requests come, go on and leave; the drafts of both behind each step."""
    plain, native = both
    kinds, there = rng.choice((1, 2, 6, 50)), dict[int, int]()
    for generation in range(STEPS):
        slot = rng.randrange(SLOTS)
        if there.get(slot) is not None and rng.random() < 0.4:
            for one in both:
                one.close(slot, there[slot])
            del there[slot]
        elif slot not in there:
            there[slot] = generation
            salt, prompt = rng.choice((None, *map(str, range(salts)))), text(rng, kinds, longest)
            for one in both:
                if rng.random() < 0.9 or salt is None:
                    one.shares(slot, generation, None)
                one.shares(slot, generation, salt)
                one.open(slot, generation, ids(*prompt))
        told = {slot: text(rng, kinds, 6) or [0] for slot in there if rng.random() < 0.8}
        most = [rng.choice((0, 1, 3, 16)) for _ in told]
        for slot, news in told.items():
            plain.accepted(slot, there[slot], ids(*news))
        parts = [ids(*news) for news in told.values()]
        counts, found = native.step(
            StepRows(
                ids(*told),
                ids(*(there[slot] for slot in told)),
                ids(*map(len, parts)),
                ids(*most),
                np.concatenate([ids(), *parts]),
            )
        )
        asked = zip(told, most, strict=True)
        drafts = [plain.propose(slot, there[slot], n).tolist() if n else [] for slot, n in asked]
        ends = counts.cumsum().tolist()
        yield drafts, [found[end - n : end].tolist() for end, n in zip(ends, counts, strict=True)]


@pytest.mark.parametrize("shortest", [1, 2, 4])
@pytest.mark.parametrize("more", [0, 3])
def test_ngram_drafts_what_python_drafts(shortest: int, more: int) -> None:
    config = ProposerConfig(ngram_min=shortest, ngram_max=shortest + more)
    for seed in range(40):
        both, rng = (NgramProposer(config), NativeNgram(config)), random.Random(seed)
        for expected, got in steps(rng, both, 1, 80):
            assert got == expected


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"suffix_depth": 2, "suffix_probability": 0.01},
        {"suffix_tokens": 40, "suffix_probability": 0.05},
        {"suffix_tokens": 301, "suffix_depth": 5, "suffix_probability": 0.1},
        {"suffix_tokens": 3},
        {"suffix_tokens": 0},
    ],
    ids=str,
)
def test_suffix_drafts_what_python_drafts_from_as_much_memory(options: dict[str, Any]) -> None:
    config = ProposerConfig(**options)
    for seed in range(40):
        plain, native, rng = SuffixProposer(config), NativeSuffix(config), random.Random(seed)
        for expected, got in steps(rng, (plain, native), rng.choice((1, 3)), 120):
            assert got == expected
            assert native.nbytes == plain.nbytes


def test_of_more_salts_than_are_kept_the_same_go() -> None:
    config, rng = ProposerConfig(suffix_tokens=10_000), random.Random(1)
    both = SuffixProposer(config), NativeSuffix(config)
    for request in range(2 * MOST_SALTS):
        salt, news = str(rng.randrange(MOST_SALTS + 40)), text(rng, 9, 60)
        for one in both:
            one.shares(0, request, salt)
            one.open(0, request, ids(1, 2, 3))
            one.accepted(0, request, ids(*news, 4))
            one.close(0, request)
        assert both[0].nbytes == both[1].nbytes
    for number in range(MOST_SALTS + 40):
        drafts = list[list[int]]()
        for one in both:
            one.shares(0, number, str(number))
            one.open(0, number, ids(2, 3))
            drafts.append(one.propose(0, number, 8).tolist())
            one.close(0, number)
        assert drafts[0] == drafts[1]


def test_salts_that_begin_alike_are_not_the_same() -> None:
    made = NativeSuffix(ProposerConfig())
    for slot, salt in enumerate(("a\0b", "a", "a\0c", "a\0b")):
        made.shares(slot, 1, salt)
        made.open(slot, 1, ids(1, 2, 3))
    made.accepted(0, 1, ids(4, 5))
    made.close(0, 1)
    assert [made.propose(slot, 1, 2).tolist() for slot in (1, 2, 3)] == [[], [], [4, 5]]


@pytest.mark.parametrize("kind", [NativeNgram, NativeSuffix])
def test_a_slot_that_is_not_open_is_refused(kind: type[StepProposer]) -> None:
    made = kind(ProposerConfig())
    made.open(0, 1, ids(1, 2))
    made.close(0, 1)
    made.close(0, 1)
    with pytest.raises(LookupFailed, match=r"lookup\.step: a slot is not open"):
        made.propose(0, 1, 3)


@pytest.mark.parametrize(
    ("slots", "counts", "most", "token_ids", "said"),
    [
        ([0, 1], [1, 1], [1], [3, 4], r"expected \[S\] each and ids \[sum\]"),
        ([0, 1], [2], [1, 1], [3, 4], r"expected \[S\] each and ids \[sum\]"),
        ([0, 1], [1, 1], [1, 1], [[3, 4]], r"expected \[S\] each and ids \[sum\]"),
        ([0, 1], [1, 2], [1, 1], [3, 4], "expected 3 token ids, as many as are counted, got 2"),
        ([0, 1], [-1, 3], [1, 1], [3, 4], "expected counts >= 0"),
        ([0, 1], [1, 1], [2, -1], [3, 4], "expected counts >= 0"),
        ([0, 1], [1, 1], [0.5, 1], [3, 4], "expected whole numbers, got float64"),
        ([0, 1], [1, 1], [1, 1], [3.0, 4], "expected whole numbers, got float64"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(
    slots: list[int], counts: list[int], most: list[float], token_ids: list[Any], said: str
) -> None:
    lookup = ngram_lookup(1, 2)
    for slot in (0, 1):
        lookup.open(slot, ids(1, 2))
    with pytest.raises(ValueError, match=said):
        lookup.step(*map(np.array, (slots, counts, most, token_ids)))
    assert lookup.step(*map(np.array, ([0], [1], [1], [1])))[1].tolist() == [2]


@pytest.mark.parametrize("counts", [[1], [1, 2], [-1, 3], [1.0, 1.0]])
def test_arrays_that_do_not_fit_together_are_not_rehearsed(counts: list[float]) -> None:
    lookup = ngram_lookup(1, 2)
    for slot in (0, 1):
        lookup.open(slot, ids(1, 2))
    with pytest.raises(ValueError, match="lookup: expected"):
        lookup.rehearse(ids(0, 1), np.array(counts), 2, ids(3, 4))


@pytest.mark.parametrize(
    ("kind", "options", "named"),
    [
        (NativeNgram, {"ngram_min": 0}, "ngram_min"),
        (NativeNgram, {"ngram_min": 4, "ngram_max": 3}, "ngram_max"),
        (NativeSuffix, {"suffix_depth": 1}, "suffix_depth"),
        (NativeSuffix, {"suffix_tokens": -1}, "suffix_tokens"),
        (NativeSuffix, {"suffix_probability": 0.0}, "suffix_probability"),
    ],
)
def test_options_out_of_range_are_refused(
    kind: type[StepProposer], options: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        kind(ProposerConfig(**options))


def test_a_step_of_any_size_has_room() -> None:
    made, rows = NativeNgram(ProposerConfig()), 300
    for slot in range(rows):
        made.open(slot, 1, ids(1, 2))
    every = np.arange(rows, dtype=np.int32)
    counts, found = made.step(
        StepRows(every, every, 0 * every + 3, 0 * every + 40, np.tile(ids(3, 1, 2), rows))
    )
    assert counts.tolist() == [40] * rows
    assert found.reshape(rows, 40)[:, :6].tolist() == [[3, 1, 2, 3, 1, 2]] * rows
