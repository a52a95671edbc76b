"""Drafts in the torch executor: whatever is drafted, the tokens are those of a run without drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from draft_driver import Driver
from toy_device import NETWORK, NEXT_TOKEN, OTHER, PROMPT, executor

from optimist.kernels.advance import advance
from optimist.kernels.choice import TORCH
from optimist.messages.base import column, floats, ints
from optimist.messages.slots import Sampling
from optimist.testing.hand import GREEDY, Hand, Row

pytestmark = pytest.mark.usefixtures("strict_torch")

VOCAB = 97
LENGTH = 14
PROMPTS = {0: PROMPT, 1: OTHER, 2: PROMPT[::-1], 3: [4]}
WAYS: dict[str, Sampling] = {
    "greedy": GREEDY,
    "seeded": Sampling(temperature=1.1, seed=77),
    "penalised": Sampling(
        temperature=0.7,
        seed=3,
        presence_penalty=1.5,
        frequency_penalty=0.7,
        repetition_penalty=1.4,
    ),
    "held back": Sampling(
        temperature=0.9,
        seed=5,
        min_tokens=7,
        stop_ids=column(range(0, VOCAB, 2)),
        bias_ids=column([1, 3]),
        bias_values=np.array([2.0, -3.0], "<f4").tobytes(),
        top_p=0.8,
        top_k=9,
    ),
}


def undrafted(samplings: Sequence[Sampling]) -> dict[int, list[int]]:
    """Each request alone in the executor, without drafts."""
    said = {}
    for slot, sampling in enumerate(samplings):
        hand = Hand(executor())
        hand.open(0, PROMPTS[slot], range(10), sampling=sampling)
        said[slot] = [*PROMPTS[slot], hand.run([Row(0, len(PROMPTS[slot]))])[0]]
        while len(said[slot]) < len(PROMPTS[slot]) + LENGTH:
            said[slot].append(hand.run([Row(0, 1, decode=True)])[0])
    return said


SAMPLINGS = list(WAYS.values())
WANT = undrafted(SAMPLINGS)

Script = Callable[[list[int], int], list[int]]


def right(want: list[int], known: int) -> list[int]:
    return want[known : known + 3]


def wrong(want: list[int], known: int) -> list[int]:
    return [(token + 1) % VOCAB for token in want[known : known + 3]]


def first_right(want: list[int], known: int) -> list[int]:
    return [*want[known : known + 1], *wrong(want, known + 1)[:2]]


def ragged(want: list[int], known: int) -> list[int]:
    return want[known : known + known % 4]


def right_behind_wrong(want: list[int], known: int) -> list[int]:
    return [*wrong(want, known)[:1], *want[known + 1 : known + 4]]


def none(want: list[int], known: int) -> list[int]:
    return []


SCRIPTS: dict[str, Script] = {
    script.__name__: script
    for script in (right, wrong, first_right, ragged, right_behind_wrong, none)
}


def started(optimistic: bool, **options: Any) -> Driver:
    driver = Driver(executor(**options), optimistic=optimistic)
    for slot, sampling in enumerate(SAMPLINGS):
        driver.open(slot, PROMPTS[slot], sampling)
    driver.prefill({slot: len(prompt) for slot, prompt in PROMPTS.items()})
    return driver


def unfinished(driver: Driver) -> list[int]:
    return [slot for slot in PROMPTS if len(driver.tokens[slot]) < len(PROMPTS[slot]) + LENGTH]


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
@pytest.mark.parametrize("optimistic", [False, True], ids=["exact", "optimistic"])
def test_tokens_do_not_depend_on_drafts(optimistic: bool, script: Script) -> None:
    driver, steps = started(optimistic), 0
    while rows := unfinished(driver):
        known = {slot: len(driver.tokens[slot]) for slot in rows}
        driver.decode({slot: script(WANT[slot], known[slot]) for slot in rows})
        steps += 1
    for slot, tokens in driver.tokens.items():
        assert tokens[: len(WANT[slot])] == WANT[slot]
    assert steps < LENGTH - 1 if script in (right, first_right, ragged) else steps == LENGTH - 1


def test_steps_are_submitted_before_earlier_ones_are_read() -> None:
    driver = started(optimistic=True)
    tickets = [driver.submit({slot: [5, slot] for slot in PROMPTS}) for _ in range(5)]
    for ticket in tickets:
        driver.read(ticket)
    while rows := unfinished(driver):
        driver.decode({slot: [] for slot in rows})
    for slot, tokens in driver.tokens.items():
        assert tokens[: len(WANT[slot])] == WANT[slot]


def test_prompts_and_drafts_share_a_step() -> None:
    driver = Driver(executor(), optimistic=True)
    driver.open(0, PROMPTS[0], SAMPLINGS[0])
    driver.prefill({0: 7})
    driver.open(2, PROMPTS[2], SAMPLINGS[2])
    driver.prefill({2: 3}, {0: right(WANT[0], 8)})
    driver.prefill({2: 4}, {0: first_right(WANT[0], 12)})
    assert driver.tokens[0] == WANT[0][:14]
    assert driver.tokens[2] == WANT[2][:8]


def test_an_outcome_says_how_many_drafts_ran_and_were_accepted() -> None:
    driver = started(optimistic=True)
    drafts = {0: right(WANT[0], 8), 1: wrong(WANT[1], 4)[:2], 2: [], 3: WANT[3][2:3]}
    outcome = driver.decode(drafts)
    assert outcome.drafts_run.tolist() == [3, 2, 0, 1]
    assert outcome.token_counts.tolist() == [4, 1, 1, 2]
    assert outcome.token_ids.tolist() == [*WANT[0][8:12], WANT[1][4], WANT[2][8], *WANT[3][2:4]]
    assert outcome.drafts_held is None


def test_logprobs_are_reported_for_accepted_tokens_alone() -> None:
    asked = Sampling(temperature=0, seed=0, logprobs=2)
    driver = Driver(executor(), optimistic=True)
    driver.open(0, PROMPT, asked)
    driver.open(1, OTHER, GREEDY)
    driver.prefill({0: 7, 1: 3})
    want = WANT[0]
    other = driver.tokens[1][-1]
    outcome = driver.decode({1: [(other + 1) % VOCAB] * 2, 0: [want[8], want[9], 0, want[11]]})
    reported = outcome.logprobs
    assert reported is not None
    assert outcome.token_counts.tolist() == [1, 3]
    assert ints(reported.tokens).tolist() == [1, 2, 3]
    for i, chosen in enumerate(floats(reported.chosen)):
        logits = NEXT_TOKEN.logits(want[: 8 + i])
        values = logits - np.log(np.exp(logits).sum())
        assert abs(chosen - values[want[8 + i]]) < 1e-5
        best = np.argsort(-values)[:2].tolist()
        assert ints(reported.top_ids)[2 * i : 2 * i + 2].tolist() == best
    assert ints(reported.ranks).tolist() == [0, 0, 0]


def test_a_request_with_drafts_may_fill_the_whole_context() -> None:
    driver = Driver(executor(max_model_len=12), optimistic=False, width=3)
    driver.open(0, PROMPT, GREEDY)
    driver.prefill({0: 7})
    driver.decode({0: WANT[0][8:12]})
    assert driver.tokens[0] == WANT[0][:13]


def test_a_device_that_forgets_rejections_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(*args: Any) -> None:
        computed, token_ids, slots, queries, rejected, *more = args
        advance(computed, token_ids, slots, queries, rejected * 0, *more)

    monkeypatch.setattr(NETWORK, "kernels", TORCH._replace(advance=forgetful))
    driver = started(optimistic=True)
    for _ in range(3):
        driver.decode({slot: wrong(WANT[slot], len(driver.tokens[slot])) for slot in PROMPTS})
    assert any(tokens != WANT[slot][: len(tokens)] for slot, tokens in driver.tokens.items())
