"""What a class does wrong is counted, costs drafts, and goes no further."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from typing import Any

import numpy as np
import pytest
from proposer_scene import VOCAB, Recorder, Scene, scene

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids, StepProposer, StepRows


class Lying(Recorder):
    """Answers what it was made with."""

    def __init__(self, answer: Any) -> None:
        super().__init__(ProposerConfig())
        self.answer = answer

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        answer: Ids = self.answer
        return answer


class Failing(Recorder):
    """Raises in one of its methods, as long as it is told to."""

    def __init__(self, method: str, kind: type[BaseException] = ZeroDivisionError) -> None:
        super().__init__(ProposerConfig())
        self.method, self.kind = method, kind

    def _fail(self, method: str) -> None:
        if method == self.method:
            raise self.kind(f"planted in {method}")

    def open(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._fail("open")
        super().open(slot, generation, token_ids)

    def close(self, slot: int, generation: int) -> None:
        super().close(slot, generation)
        self._fail("close")

    def accepted(self, slot: int, generation: int, token_ids: Ids) -> None:
        self._fail("accepted")
        super().accepted(slot, generation, token_ids)

    def propose(self, slot: int, generation: int, max_drafts: int) -> Ids:
        self._fail("propose")
        return super().propose(slot, generation, max_drafts)


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (np.array([1, 2, 3, 4], np.int32), "too_many"),
        (np.array([1, -1], np.int32), "not_in_vocabulary"),
        (np.array([VOCAB], np.int32), "not_in_vocabulary"),
        (np.array([2**40], np.int64), "not_in_vocabulary"),
        (np.array([[1, 2]], np.int32), "not_ids"),
        (np.array([1.5]), "not_ids"),
        (np.array([True]), "not_ids"),
        (None, "not_ids"),
        ("12", "not_ids"),
        ([[1], [2, 3]], "raised"),
    ],
    ids=str,
)
def test_a_wrong_answer_is_counted_and_dropped(answer: Any, fault: str) -> None:
    made = scene(Lying(answer))
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    assert made.drafts() == [(0, {})]
    assert made.actor.statistics().faults == {fault: 1}


@pytest.mark.parametrize("answer", [[7, 8], (7, 8), np.array([7, 8], np.uint8)], ids=str)
def test_a_right_answer_may_come_in_any_form(answer: Any) -> None:
    made = scene(Lying(answer))
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    assert made.drafts() == [(0, {0: [7, 8]})]


@pytest.mark.parametrize("kind", [ZeroDivisionError, SystemExit, CancelledError])
@pytest.mark.parametrize("method", ["open", "accepted", "propose"])
def test_what_it_raises_costs_the_drafts_of_the_row(method: str, kind: type[BaseException]) -> None:
    made = scene(Failing(method, kind))
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    assert made.drafts() == [(0, {})]
    assert made.actor.statistics().faults == {"raised": 1}


@pytest.mark.parametrize("method", ["open", "accepted"])
def test_it_is_not_asked_again_about_a_request_that_it_failed_to_follow(method: str) -> None:
    made = scene(Failing(method))
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    made.accept(1, {0: (2, [6])})
    made.close(0)
    assert made.drafts() == [(1, {})]
    assert made.actor.statistics().faults == {"raised": 1}
    assert made.kept.closed == [] and made.asked() == 0


def test_the_next_request_in_the_slot_has_drafts_again() -> None:
    made = scene(Failing("accepted"))
    made.open(0, [1])
    made.accept(0, {0: (1, [5])})
    made.close(0)
    made.kept.slots.clear()
    made.kept.method = "none"
    made.open(0, [2], step=1)
    made.accept(1, {0: (1, [6])})
    assert made.drafts() == [(1, {0: [6] * 3})]


def test_other_rows_keep_their_drafts() -> None:
    made = scene(Failing("none"))
    for slot in range(3):
        made.open(slot, [slot])
    made.kept.method = "accepted"
    made.accept(0, {0: (1, [5])})
    made.kept.method = "none"
    made.accept(1, {1: (1, [6]), 2: (1, [7])})
    assert made.drafts()[-1] == (1, {1: [6] * 3, 2: [7] * 3})


def test_a_failing_close_is_counted() -> None:
    made = scene(Failing("close"))
    made.open(0, [1])
    made.close(0)
    assert made.actor.statistics().faults == {"raised": 1}


def test_it_cannot_change_the_tokens_it_is_shown() -> None:
    class Scribbling(Recorder):
        def open(self, slot: int, generation: int, token_ids: Ids) -> None:
            token_ids[0] = 9

    made = scene(Scribbling(ProposerConfig()))
    made.open(0, [1])
    assert made.actor.statistics().faults == {"raised": 1}


def test_the_first_fault_of_a_kind_is_logged_with_its_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = scene(Failing("propose"))
    with caplog.at_level(logging.WARNING, "optimist"):
        made.open(0, [1])
        for step in range(3):
            made.accept(step, {0: (1 + step, [5])})
            made.drafts()
    assert len(caplog.records) == 1
    assert "Failing.propose: ZeroDivisionError: planted in propose" in caplog.text


class Hasty(Recorder, StepProposer):
    """Takes steps in one call, and answers what it is told to, or raises it."""

    answer: Any = None

    def step(self, rows: StepRows) -> tuple[Ids, Ids]:
        if isinstance(self.answer, Exception):
            raise self.answer
        for slot, part in zip(rows.slots.tolist(), rows.parts(), strict=True):
            self.slots[slot] += part.tolist()
        answer: tuple[Ids, Ids] = self.answer
        return answer


def hasty(answer: Any) -> Scene:
    """Two requests, of which a step was told."""
    kept = Hasty(ProposerConfig())
    made, kept.answer = scene(kept), answer
    for slot in range(2):
        made.open(slot, [slot])
    made.accept(0, {0: (1, [5]), 1: (1, [6])})
    return made


def test_the_drafts_of_a_whole_step_reach_their_rows() -> None:
    made = hasty(([0, 2], np.array([7, 8], np.uint8)))
    assert made.drafts() == [(0, {1: [7, 8]})]
    assert made.kept.slots == {0: [0, 5], 1: [1, 6]} and made.kept.asked == []


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (([4, 0], [1, 2, 3, 4]), "too_many"),
        (([1], [1]), "not_ids"),
        (([1, 1], [1]), "not_ids"),
        (([-1, 1], []), "not_ids"),
        (([1, 1], [[1, 2]]), "not_ids"),
        (([1, 1], [1.0, 2.0]), "not_ids"),
        (([0.5, 0.5], [1]), "not_ids"),
        (None, "raised"),
        (([1, 1], [1, 2], [3]), "raised"),
    ],
    ids=str,
)
def test_a_wrong_answer_to_a_step_costs_the_drafts_of_the_step(answer: Any, fault: str) -> None:
    made = hasty(answer)
    assert made.drafts() == [(0, {})]
    assert made.actor.statistics().faults == {fault: 1}


def test_a_row_with_drafts_of_no_vocabulary_costs_its_own_alone() -> None:
    made = hasty(([2, 1], [1, VOCAB, 3]))
    assert made.drafts() == [(0, {1: [3]})]
    assert made.actor.statistics().faults == {"not_in_vocabulary": 1}
    made.kept.answer = ([1, 2], [1, -1, 3])
    made.accept(1, {0: (2, [5]), 1: (2, [6])})
    assert made.drafts() == [(1, {0: [1]})]


def test_a_step_that_raises_costs_its_rows_their_drafts_until_they_are_opened_again() -> None:
    made = hasty(ZeroDivisionError("planted"))
    made.open(2, [3])
    assert made.drafts() == [(0, {})]
    made.kept.answer = ([2], [8, 9])
    made.accept(1, {0: (2, [5]), 2: (1, [6])})
    # Row by row, since of some nobody knows what it has followed.
    assert made.drafts() == [(1, {2: [6] * 3})]
    assert made.actor.statistics().faults == {"raised": 1}
    made.accept(2, {2: (2, [7])})
    assert made.drafts() == [(2, {2: [8, 9]})]
    made.close(0)
    # Of the end of a request that it failed to follow it is not told.
    del made.kept.slots[0]
    made.open(0, [4], step=3, generation=2)
    made.accept(3, {0: (1, [5])}, generation=2)
    assert made.drafts() == [(3, {0: [8, 9]})]


def test_an_interruption_that_comes_while_it_runs_goes_on() -> None:
    made = scene(Failing("propose", KeyboardInterrupt))
    made.open(0, [1])
    with pytest.raises(KeyboardInterrupt):
        made.accept(0, {0: (1, [5])})
        made.drafts()
