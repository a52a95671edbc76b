"""What drafts would have been worth: counted as if they had been made, and reported to the scheduler."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from proposer_scene import Recorder, Scene, scene

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, Proposer, RehearsingProposer, StepRows, Worth
from optimist.actors.proposer.native import NativeNgram, NativeSuffix
from optimist.actors.proposer.ngram import NgramProposer
from optimist.actors.proposer.suffix import SuffixProposer
from optimist.kernels.native.lookup import LookupFailed
from optimist.messages.base import ints
from optimist.messages.drafting import Drafts, Rehearsed


def ids(*tokens: int) -> Ids:
    return np.array(tokens, np.int32)


def rows(told: dict[int, list[int]]) -> StepRows:
    slots, counts = ids(*told), ids(*map(len, told.values()))
    tokens = [token for part in told.values() for token in part]
    return StepRows(slots, slots * 0 + 1, counts, slots * 0, ids(*tokens))


def replayed(plain: Proposer, slot: int, tokens: list[int], most: int) -> list[int]:
    """The four counts of one row, by asking for drafts wherever there would have been some."""
    asked = offered = drafted = accepted = at = 0
    while at < len(tokens):
        drafts = plain.propose(slot, 1, min(most, len(tokens) - at)).tolist()
        right = 0
        while right < len(drafts) and drafts[right] == tokens[at + right]:
            right += 1
        asked, offered = asked + 1, offered + bool(drafts)
        drafted, accepted = drafted + min(right + 1, len(drafts)), accepted + right
        plain.accepted(slot, 1, ids(*tokens[at : at + right + 1]))
        at += right + 1
    return [asked, offered, drafted, accepted]


@pytest.mark.parametrize(
    ("plain", "native"), [(NgramProposer, NativeNgram), (SuffixProposer, NativeSuffix)]
)
def test_worth_is_what_asking_everywhere_would_have_brought(
    plain: type[Proposer], native: type[RehearsingProposer]
) -> None:
    rng, config, seen = random.Random(3), ProposerConfig(), np.zeros(4, np.int64)
    both = plain(config), native(config)
    for slot in range(3):
        for one in both:
            one.open(slot, 1, ids(*range(slot, 9), *range(9)))
    for _ in range(150):
        period = [rng.randrange(9) for _ in range(rng.randint(1, 7))]
        told = {slot: (period * 9)[: rng.randint(0, 40)] for slot in rng.sample(range(3), 2)}
        most = rng.choice((1, 3, 16))
        found = both[1].rehearse(rows(told), most)
        expected = [replayed(both[0], slot, tokens, most) for slot, tokens in told.items()]
        assert np.transpose(found).tolist() == expected
        seen += np.sum(expected, 0)
        assert both[0].propose(0, 1, 8).tolist() == both[1].propose(0, 1, 8).tolist()
    asked, offered, drafted, accepted = seen.tolist()
    assert asked > offered > 0 and drafted > accepted > 0


def test_of_more_rows_and_tokens_than_ever_before_there_is_room() -> None:
    made, many = NativeNgram(ProposerConfig()), 200
    for slot in range(many):
        made.open(slot, 1, ids(1, 2, 3, 1, 2))
    worth = made.rehearse(rows({slot: [3, 1, 2, 4] for slot in range(many)}), 16)
    assert np.transpose(worth).tolist() == [[1, 1, 4, 3]] * many
    with pytest.raises(LookupFailed, match=r"lookup\.rehearse: a slot is not open"):
        made.rehearse(rows({many: [1]}), 16)


class Rehearsing(Recorder, RehearsingProposer):
    """Answers what it was made with."""

    def __init__(self, answer: Any = None) -> None:
        super().__init__(ProposerConfig())
        self.answer = answer

    def step(self, rows: StepRows) -> tuple[Ids, Ids]:
        for slot, part in zip(rows.slots.tolist(), rows.parts(), strict=True):
            self.slots[slot] += part.tolist()
        last = [self.slots[slot][-1] for slot in rows.slots.tolist()]
        return rows.most, np.repeat(ids(*last), rows.most)

    def rehearse(self, rows: StepRows, max_drafts: int) -> Worth:
        self.step(rows)
        if isinstance(self.answer, Exception):
            raise self.answer
        made: Worth = self.answer or Worth(*rows.counts * np.array([[1], [1], [1], [0]], np.int32))
        return made


def rehearsals(made: Scene) -> list[dict[str, list[int]]]:
    found = [m for m in made.scheduler.messages if isinstance(m, Rehearsed)]
    names = ("slots", "generations", "asked", "offered", "drafted", "accepted")
    return [{name: ints(getattr(m, name)).tolist() for name in names} for m in found]


def test_rows_that_want_none_are_rehearsed_when_the_others_have_been_answered() -> None:
    made = scene(Rehearsing(), draft_tokens="auto")
    for slot in range(3):
        made.open(slot, [slot])
    made.accept(0, {0: (1, [5, 6]), 2: (1, [7])}, wanted=0)
    assert made.drafts() == [(0, {})]
    assert rehearsals(made) == [
        {
            "slots": [0, 2],
            "generations": [1, 1],
            "asked": [2, 1],
            "offered": [2, 1],
            "drafted": [2, 1],
            "accepted": [0, 0],
        }
    ]
    made.accept(1, {0: (3, [8]), 1: (1, [9])})
    assert made.drafts() == [(1, {0: [8] * 3, 1: [9] * 3})]
    assert len(rehearsals(made)) == 1
    assert made.kept.slots == {0: [0, 5, 6, 8], 1: [1, 9], 2: [2, 7]}


def test_of_rows_some_of_which_want_drafts_each_is_told_once() -> None:
    made = scene(Rehearsing(), draft_tokens="auto")
    made.open(0, [1, 2])
    made.open(1, [3])
    made.capacity(max_model_len=5)
    made.accept(0, {0: (2, [5, 6, 7]), 1: (1, [8])})
    assert made.drafts() == [(0, {1: [8, 8]})]
    assert [found["slots"] for found in rehearsals(made)] == [[0]]
    assert made.kept.slots == {0: [1, 2, 5, 6, 7], 1: [3, 8]}


@pytest.mark.parametrize(
    ("proposer", "draft_tokens"),
    [(Rehearsing(), 3), (Recorder(ProposerConfig()), "auto")],
    ids=["as many as always", "a class that cannot"],
)
def test_nothing_is_rehearsed_where_it_helps_nobody(proposer: Proposer, draft_tokens: Any) -> None:
    made = scene(proposer, draft_tokens=draft_tokens)
    made.open(0, [1])
    made.accept(0, {0: (1, [5])}, wanted=0)
    assert made.drafts() == [(0, {})] and rehearsals(made) == []
    assert made.kept.slots == {0: [1, 5]}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Worth(ids(9), ids(1), ids(1), ids(1)), "not_possible"),
        (Worth(ids(1), ids(2), ids(1), ids(1)), "not_possible"),
        (Worth(ids(1), ids(1), ids(3), ids(1)), "not_possible"),
        (Worth(ids(1), ids(1), ids(1), ids(2)), "not_possible"),
        (Worth(ids(1), ids(-1), ids(1), ids(0)), "not_possible"),
        (Worth(ids(1), ids(1), ids(1), ids(-1)), "not_possible"),
        (Worth(ids(1, 1), ids(1), ids(1), ids(1)), "not_possible"),
        (Worth(np.ones(1), ids(1), ids(1), ids(1)), "not_possible"),  # type: ignore[arg-type]
        ([ids(1)], "raised"),
        (ZeroDivisionError("planted"), "raised"),
    ],
)
def test_a_worth_that_cannot_be_is_counted_and_told_nobody(answer: Any, fault: str) -> None:
    made = scene(Rehearsing(answer), draft_tokens="auto")
    made.open(0, [1])
    made.accept(0, {0: (1, [5, 6])}, wanted=0)
    assert made.drafts() == [(0, {})] and rehearsals(made) == []
    assert made.actor.statistics().faults == {fault: 1}
    assert all(isinstance(message, Drafts) for message in made.worker.messages)
