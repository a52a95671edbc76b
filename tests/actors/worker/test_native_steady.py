"""Decoding that goes on: what a step knows from the one before, and when it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executor_scenes import SCENES

from optimist.actors.worker import native_executor, native_rows
from optimist.actors.worker.base import RowDrafts
from optimist.testing.hand import Hand, Row

SCENE = SCENES["native"]
OTHER, PROMPT = SCENE.other, SCENE.prompt


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Query tokens of every step whose rows had to be found out."""
    seen: list[int] = []
    real = native_rows.planned

    def count(*given: Any, **more: Any) -> Any:
        found = real(*given, **more)
        seen.append(int(found.rows.queries.sum()))
        return found

    monkeypatch.setattr(native_executor, "planned", count)
    return seen


@pytest.mark.usefixtures("every_set")
def test_rows_are_found_out_once_while_nobody_comes_or_goes(planned: list[int]) -> None:
    hand = Hand(SCENE.make())
    hand.open(0, OTHER, SCENE.blocks(len(OTHER) + 9))
    drawn = [hand.run([Row(0, len(OTHER))])[0], *hand.decode(0, 4)]
    assert planned == [len(OTHER), 1]
    hand.open(1, PROMPT, SCENE.blocks(len(PROMPT) + 2, first=20))
    hand.run([Row(0, 1, decode=True), Row(1, len(PROMPT))])
    hand.close(1)
    drawn.append(hand.decode(0, 3)[-1])
    assert planned == [len(OTHER), 1, len(PROMPT) + 1, 1]
    assert drawn == [token for i, token in enumerate(SCENE.greedy(OTHER, 9)) if i not in (5, 6, 7)]


def test_the_next_request_of_a_slot_is_another(planned: list[int]) -> None:
    hand = Hand(SCENE.make())
    for _ in range(2):
        hand.open(0, OTHER, SCENE.blocks(len(OTHER) + 3))
        first = hand.run([Row(0, len(OTHER))])[0]
        assert [first, *hand.decode(0, 3)] == SCENE.greedy(OTHER, 4)
        hand.close(0)
    assert planned == 2 * [len(OTHER), 1]


@pytest.mark.usefixtures("planned")
def test_blocks_that_are_not_there_are_still_missed() -> None:
    hand = Hand(SCENE.make())
    size = 2 * SCENE.block_size
    hand.open(0, PROMPT[: size - 3], SCENE.blocks(size))
    hand.run([Row(0, size - 3)])
    hand.decode(0, 3)
    with pytest.raises(Exception, match="slot 0: has 2 blocks in the table, needs 3"):
        hand.decode(0, 1)


def test_a_host_that_drafts_and_has_no_drafts_changes_nothing(planned: list[int]) -> None:
    hand, none = Hand(SCENE.make()), RowDrafts(np.zeros(1, np.int32), np.zeros(0, np.int32))
    hand.open(0, OTHER, SCENE.blocks(len(OTHER) + 9))
    drawn = [hand.run([Row(0, len(OTHER))])[0]]
    for _ in range(3):
        outcome = hand.submit([Row(0, 1, decode=True)], none).wait()
        drawn += outcome.token_ids.tolist()
        assert outcome.drafts_run.tolist() == [0]
    assert planned == [len(OTHER), 1]
    assert drawn == SCENE.greedy(OTHER, 4)
