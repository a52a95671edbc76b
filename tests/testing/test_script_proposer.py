"""Drafts that a test dictates, and answers that lie."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from proposer_scene import Kept, Recorder

from optimist.actors.config import ProposerConfig
from optimist.actors.proposer.base import Proposer
from optimist.messages.base import column, ints
from optimist.messages.drafting import Accepted, Drafts, Open
from optimist.messages.errors import ConfigError
from optimist.messages.results import Capacity
from optimist.testing.lying_proposer import LIES, Lie, LyingActor
from optimist.testing.script_proposer import SCRIPTS, FileScript, Script, ScriptProposer, known

TEXT = [5, 6, 7, 8, 9, 10]


def drafted(proposer: Proposer, prompt: list[int], count: int = 3) -> list[int]:
    proposer.open(0, 1, np.array(prompt[:1], np.int32))
    proposer.accepted(0, 1, np.array(prompt[1:], np.int32))
    found: list[int] = proposer.propose(0, 1, count).tolist()
    proposer.close(0, 1)
    return found


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("right", [7, 8, 9]),
        ("wrong", [8, 9, 0]),
        ("first-1", [7, 9, 0]),
        ("first-2", [7, 8, 0]),
        ("end-0", [3, 8, 9]),
        ("end-1", [7, 3, 9]),
        ("too-many", [7, 8, 9, 0, 0, 0]),
        ("none", []),
    ],
)
def test_every_script_drafts_what_it_says(script: str, expected: list[int]) -> None:
    proposer = ScriptProposer(SCRIPTS[script], known([[1, 2], TEXT[:5]]), vocab_size=10, end_id=3)
    assert drafted(proposer, [5, 6]) == expected


def test_there_are_drafts_even_where_nothing_is_known() -> None:
    proposer = ScriptProposer(Script(), known([TEXT]), vocab_size=20)
    assert drafted(proposer, [4, 4]) == [0, 0, 0]
    assert drafted(proposer, TEXT[:5]) == [10, 0, 0]


def test_a_script_can_be_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "texts.json"
    path.write_text(json.dumps([TEXT]))
    options: dict[str, Any] = {"script": "first-1", "texts": str(path), "vocab_size": 20}
    made = FileScript(ProposerConfig(proposer_options=options))
    assert drafted(made, TEXT[:2]) == [7, 9, 10]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"script": "clever"}, "script: expected one of right"),
        ({"texts": "/no/such/file"}, "texts: .*No such file"),
        ({"speed": 3}, "has no \\['speed'\\]"),
    ],
)
def test_a_wrong_option_of_a_script_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        FileScript(ProposerConfig(proposer_options=options))


def answers(lie: Lie, steps: int = 1) -> list[Drafts]:
    """What a liar says after these steps of two slots; the truth is tokens 5 and 6, twice each."""
    worker = Kept()
    actor = LyingActor(
        ProposerConfig(),
        3,
        worker=worker,
        scheduler=Kept(),
        proposer=Recorder(ProposerConfig()),
        lie=lie,
    )
    actor.receive(
        Capacity(
            incarnation=1,
            num_blocks=8,
            block_size=4,
            max_slots=4,
            max_model_len=64,
            max_batch_tokens=64,
            vocab_size=20,
        )
    )
    for slot in (1, 2):
        actor.receive(
            Open(
                incarnation=1,
                epoch=4,
                step=0,
                slot=slot,
                generation=7,
                token_ids=column([slot]),
                cache_salt="",
                use_cache=True,
            )
        )
    for step in range(steps):
        actor.receive(
            Accepted(
                incarnation=1,
                epoch=4,
                after_step=6 + step,
                slots=column([1, 2]),
                generations=column([7, 7]),
                starts=column([1 + step] * 2),
                wanted=column([2, 2]),
                counts=column([1, 1]),
                token_ids=column([5, 6]),
            )
        )
        actor.turn()
    return [message for message in worker.messages if isinstance(message, Drafts)]


@pytest.mark.parametrize(
    ("lie", "field", "values"),
    [
        ("wrong-slot", "slots", [2, 1]),
        ("no-such-slot", "slots", [2**31 - 1] * 2),
        ("wrong-generation", "generations", [8, 8]),
        ("too-many", "counts", [6, 6]),
        ("no-such-token", "token_ids", [2**31 - 1] * 4),
        ("same-slot-twice", "slots", [1, 2, 1, 2]),
    ],
)
def test_a_lie_changes_the_columns_it_says(lie: Lie, field: str, values: list[int]) -> None:
    (told,) = answers(lie)
    assert ints(getattr(told, field)).tolist() == values


@pytest.mark.parametrize(
    ("lie", "epoch", "step"),
    [("past-step", 4, 5), ("future-step", 4, 7), ("past-epoch", 3, 6), ("future-epoch", 5, 6)],
)
def test_a_lie_about_the_time_says_another_time(lie: Lie, epoch: int, step: int) -> None:
    (told,) = answers(lie)
    assert (told.epoch, told.after_step) == (epoch, step)


def test_some_answers_come_twice_or_late_or_never() -> None:
    assert [told.after_step for told in answers("every-message-twice")] == [6, 6]
    assert [told.after_step for told in answers("late", steps=4)] == [6, 7]
    assert answers("silent", steps=4) == []


@pytest.mark.parametrize("lie", LIES)
def test_a_liar_is_made_by_its_options_too(lie: Lie) -> None:
    config = ProposerConfig(proposer_options={"lie": lie, "inner": "suffix"})
    assert LyingActor(config, 1, worker=Kept(), scheduler=Kept()).lie == lie


def test_an_unknown_lie_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"lie: expected one of wrong-slot, .*, got 'white'"):
        LyingActor(
            ProposerConfig(proposer_options={"lie": "white"}), 1, worker=Kept(), scheduler=Kept()
        )
