"""What a class does wrong is counted, costs drafts, and goes no further."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
from proposer_scene import VOCAB, Recorder, scene

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Ids


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

    def __init__(self, method: str) -> None:
        super().__init__(ProposerConfig())
        self.method = method

    def _fail(self, method: str) -> None:
        if method == self.method:
            raise ZeroDivisionError(f"planted in {method}")

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


@pytest.mark.parametrize("method", ["open", "accepted", "propose"])
def test_what_it_raises_costs_the_drafts_of_the_row(method: str) -> None:
    made = scene(Failing(method))
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
